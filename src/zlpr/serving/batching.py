"""Requests that wait together are answered together: one thread per model, one batch at a time.

Nobody waits for a batch to fill: the thread takes what is there when it is free, so a lone request
is answered at once and a crowd shares the cost of the model's calls.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

_log = logging.getLogger("zlpr.serving")

Work = Callable[[list[Any]], Sequence[Any]]
"""From samples to as many results."""


class BusyError(Exception):
    """More waits than may wait; the client may come back later."""


class StoppedError(Exception):
    """The worker takes no more requests, because the server stops or the worker has died."""


@dataclass(frozen=True, eq=False)
class _Request:
    work: Work
    samples: list[Any]
    future: "Future[list[Any]]" = field(default_factory=Future)


class Batcher:
    """A thread that answers requests in the order of their coming, together where it can.

    A request whose future is cancelled before its turn is dropped. Where a batch fails, its
    requests are run one by one, so that a bad one fails alone.

    Args:
        most_samples: samples that are run together; a request with more is run by itself.
        most_waiting: samples that may wait; a request beyond them is refused.

    Examples:
        >>> batcher = Batcher()
        >>> batcher.submit(lambda texts: [len(text) for text in texts], ["one", "three"]).result()
        [3, 5]
        >>> batcher.stop()
    """

    def __init__(self, *, most_samples: int = 256, most_waiting: int = 10_000) -> None:
        self.most_samples, self.most_waiting = most_samples, most_waiting
        self._requests: deque[_Request] = deque()
        self._waiting = 0
        self._stopping = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="zlpr-batches", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether requests are being answered."""
        return self._thread.is_alive() and not self._stopping

    @property
    def waiting(self) -> int:
        """Samples that wait."""
        return self._waiting

    def submit(self, work: Work, samples: Sequence[Any]) -> "Future[list[Any]]":
        """Ask for the results of some samples.

        Args:
            work: from samples to results; requests with the same are run together.
            samples: at least one.

        Raises:
            BusyError: too many samples wait.
            StoppedError: there is nobody to answer.
        """
        request = _Request(work, list(samples))
        with self._changed:
            if not self.alive:
                raise StoppedError("the model's worker has stopped")
            if self._waiting and self._waiting + len(request.samples) > self.most_waiting:
                raise BusyError(f"{self._waiting:,} samples wait already")
            self._requests.append(request)
            self._waiting += len(request.samples)
            self._changed.notify()
        return request.future

    def stop(self, seconds: float = 10.0) -> None:
        """Answer what waits, take nothing more, and end the thread.

        Args:
            seconds: to wait for that; what is not answered then fails with `StoppedError`.
        """
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(seconds)
        self._give_up()

    def _run(self) -> None:
        try:
            while batch := self._next():
                _answer(batch)
        finally:
            self._give_up()

    def _next(self) -> list[_Request]:
        """Wait for requests and take those that go together; nothing once it is time to stop."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._requests or self._stopping)
                if not self._requests:
                    return []
                if batch := self._take():
                    return batch

    def _take(self) -> list[_Request]:
        """The first requests that share their work and fit together, less those given up."""
        batch: list[_Request] = []
        size, work = 0, self._requests[0].work
        while self._requests and self._requests[0].work == work:
            more = len(self._requests[0].samples)
            if batch and size + more > self.most_samples:
                break
            request = self._requests.popleft()
            self._waiting -= more
            if request.future.set_running_or_notify_cancel():
                batch.append(request)
                size += more
        return batch

    def _give_up(self) -> None:
        """Fail what waits: nobody is left to answer it."""
        with self._changed:
            while self._requests:
                request = self._requests.popleft()
                self._waiting -= len(request.samples)
                if request.future.set_running_or_notify_cancel():
                    request.future.set_exception(StoppedError("the server stops"))


def _answer(batch: list[_Request]) -> None:
    """Run a batch and hand the results to those who asked."""
    samples = [sample for request in batch for sample in request.samples]
    try:
        results = list(batch[0].work(samples))
        if len(results) != len(samples):
            raise RuntimeError(f"{len(samples)} samples gave {len(results)} results")
    except Exception as fault:
        if len(batch) > 1:
            for request in batch:
                _answer([request])
        else:
            batch[0].future.set_exception(fault)
        return
    except BaseException:  # the thread ends, and nobody shall wait for it
        for request in batch:
            request.future.set_exception(StoppedError("the model's worker has died"))
        raise
    start = 0
    for request in batch:
        end = start + len(request.samples)
        request.future.set_result(results[start:end])
        start = end

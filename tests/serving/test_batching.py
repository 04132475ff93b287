import threading

import pytest

from zlpr.serving.batching import Batcher, BusyError, StoppedError


class Doubling:
    """Work that can be held up, and remembers the batches it was given."""

    def __init__(self):
        self.batches, self.free = [], threading.Event()
        self.began = threading.Event()

    def __call__(self, samples):
        self.began.set()
        assert self.free.wait(10)
        self.batches.append(list(samples))
        return [2 * sample for sample in samples]


@pytest.fixture
def work():
    return Doubling()


def submit_while_busy(batcher, work, *requests):
    """The first request keeps the thread busy; the others wait together."""
    first = batcher.submit(work, [0])
    assert work.began.wait(10)
    return first, [batcher.submit(work, samples) for samples in requests]


def test_what_waits_together_is_run_together_and_everyone_gets_their_own(work):
    batcher = Batcher()
    _, futures = submit_while_busy(batcher, work, [1], [2, 3], [4])
    work.free.set()
    assert [future.result(10) for future in futures] == [[2], [4, 6], [8]]
    assert work.batches == [[0], [1, 2, 3, 4]]
    assert batcher.waiting == 0
    batcher.stop()


def test_a_batch_is_no_larger_than_it_may_be_but_a_request_stays_whole(work):
    batcher = Batcher(most_samples=2)
    _, futures = submit_while_busy(batcher, work, [1], [2], [3], [4, 5, 6])
    work.free.set()
    assert [future.result(10) for future in futures] == [[2], [4], [6], [8, 10, 12]]
    assert work.batches == [[0], [1, 2], [3], [4, 5, 6]]
    batcher.stop()


def test_other_work_is_not_mixed_in(work):
    batcher = Batcher()
    _, _ = submit_while_busy(batcher, work)
    other = batcher.submit(lambda samples: samples, [7])
    again = batcher.submit(work, [8])
    work.free.set()
    assert other.result(10) == [7]
    assert again.result(10) == [16]
    batcher.stop()


def test_a_request_that_was_given_up_is_dropped(work):
    batcher = Batcher()
    _, (gone, kept) = submit_while_busy(batcher, work, [1], [2])
    assert gone.cancel()
    work.free.set()
    assert kept.result(10) == [4]
    assert work.batches == [[0], [2]]
    batcher.stop()


def test_a_bad_request_fails_alone():
    def inverse(samples):
        return [1 / sample for sample in samples]

    hold, batcher = Doubling(), Batcher()
    batcher.submit(hold, [0])
    good, bad = batcher.submit(inverse, [2]), batcher.submit(inverse, [0])
    hold.free.set()
    assert good.result(10) == [0.5]
    with pytest.raises(ZeroDivisionError):
        bad.result(10)
    assert batcher.alive
    batcher.stop()


def test_work_that_loses_a_result_is_a_fault_not_a_wrong_answer():
    batcher = Batcher()
    with pytest.raises(RuntimeError, match="2 samples gave 1 results"):
        batcher.submit(lambda samples: samples[:1], [1, 2]).result(10)
    batcher.stop()


def test_too_many_waiting_are_refused_and_a_large_request_still_has_its_turn(work):
    batcher = Batcher(most_waiting=3)
    work.free.set()
    assert batcher.submit(work, range(5)).result(10) == [0, 2, 4, 6, 8]
    work.free.clear()
    work.began.clear()
    submit_while_busy(batcher, work, [1], [2, 3])
    with pytest.raises(BusyError):
        batcher.submit(work, [4])
    work.free.set()
    batcher.stop()


def test_stopping_answers_what_waits_and_takes_nothing_more(work):
    batcher = Batcher()
    _, futures = submit_while_busy(batcher, work, [1], [2])
    threading.Timer(0.05, work.free.set).start()
    batcher.stop()
    assert [future.result(0) for future in futures] == [[2], [4]]
    assert not batcher.alive
    with pytest.raises(StoppedError):
        batcher.submit(work, [3])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_when_the_thread_dies_nobody_waits_for_ever(work):
    def kill(samples):
        raise SystemExit

    batcher = Batcher()
    submit_while_busy(batcher, work)
    dying = batcher.submit(kill, [1])
    waiting = batcher.submit(work, [2])
    work.free.set()
    for future in (dying, waiting):
        with pytest.raises(StoppedError):
            future.result(10)
    batcher.stop()
    assert not batcher.alive

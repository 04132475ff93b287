"""Workers that are processes of this machine, with its threads divided among them."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from zlpr.compare.cell import Place, run_cell
from zlpr.compare.grid import Cell
from zlpr.compare.records import RunRecord

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def available_cores() -> int:
    """Cores that this process may use, which on a shared machine are not all there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


START: Any = multiprocessing.get_context("spawn")
"""How processes begin: anew, for threads and devices are counted when libraries are loaded."""

UNGUARDED = 79
"""What a process ends with that began a comparison while it was started for one."""


def end_unguarded_worker() -> None:
    """End a process that is to be a worker, and comes to begin a comparison of its own.

    It imports the script that began the comparison, which must not do so again when imported.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(UNGUARDED)


@dataclass
class _Worker:
    process: Any
    connection: Connection


class ProcessWorkers:
    """Processes that are started when first needed and replaced when they die.

    Args:
        count: how many.
        place: handed to every cell.
        logs: folder for what libraries print in the workers, which would tear the live table.
    """

    def __init__(self, count: int, place: Place, logs: Path) -> None:
        self._count = count
        self._place = place
        self._logs = logs
        self._workers: dict[int, _Worker] = {}
        self._busy: set[int] = set()

    @property
    def count(self) -> int:
        """How many cells run at a time."""
        return self._count

    def start(self, slot: int, cell: Cell) -> None:
        """Send a cell to the slot's process, to a new one where that has died meanwhile."""
        if slot not in self._workers or not _sent(self._workers[slot], cell):
            self._bury(slot)
            self._workers[slot] = self._launch(slot)
            _sent(self._workers[slot], cell)  # if this one dies as well, `wait` tells
        self._busy.add(slot)

    def wait(self, seconds: float) -> list[tuple[int, RunRecord | str]]:
        """Collect what came in; a process that died gives the reason instead of a record.

        One that died without a cell is only put away: `start` replaces it.
        """
        slots = {worker.connection: slot for slot, worker in self._workers.items()}
        ended: list[tuple[int, RunRecord | str]] = []
        for connection in wait(list(slots), timeout=seconds):
            slot = slots[connection]  # type: ignore[index]
            result: RunRecord | str
            try:
                result = self._workers[slot].connection.recv()
            except (EOFError, OSError):
                result = f"its process died ({_reason(self._bury(slot))})"
            if slot in self._busy:
                self._busy.remove(slot)
                ended.append((slot, result))
        return ended

    def close(self) -> None:
        """Kill the processes; they write nothing themselves, so nothing is left half-done."""
        for worker in self._workers.values():
            worker.process.kill()
        for worker in self._workers.values():
            worker.process.join()
            worker.connection.close()
        self._workers.clear()
        self._busy.clear()

    def _bury(self, slot: int) -> int | None:
        """Put a dead process away; its exit code."""
        worker = self._workers.pop(slot, None)
        if worker is None:
            return None
        worker.process.join(timeout=5)
        worker.connection.close()
        code: int | None = worker.process.exitcode
        return code

    def _launch(self, slot: int) -> _Worker:
        here, there = START.Pipe()
        self._logs.mkdir(parents=True, exist_ok=True)
        log = self._logs / f"worker-{slot}.log"
        process = START.Process(
            target=_work, args=(there, self._place, log), name=f"zlpr-{slot}", daemon=True
        )
        with _environment(slot, self._place.threads):
            process.start()
        there.close()
        return _Worker(process, here)


def _sent(worker: _Worker, cell: Cell) -> bool:
    """Hand a cell to a process; False where nobody is there to take it."""
    try:
        worker.connection.send(cell)
    except OSError:
        return False
    return True


def _work(connection: Connection, place: Place, log: Path) -> None:
    """The life of a worker: run the cells that come in, until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    _die_with_parent()
    _write_output_to(log)
    import torch

    torch.set_num_threads(place.threads)
    while True:
        try:
            cell = connection.recv()
        except EOFError:
            return
        connection.send(run_cell(cell, place))


def _die_with_parent() -> None:
    """A parent that was killed outright cannot stop its workers; they notice by themselves."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _write_output_to(log: Path) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


@contextlib.contextmanager
def _environment(slot: int, threads: int) -> Iterator[None]:
    """Thread counts must stand in the environment before a process loads its libraries."""
    changes = dict.fromkeys(_THREAD_VARIABLES, str(threads))
    devices = _graphics_devices()
    if devices > 1:
        changes["CUDA_VISIBLE_DEVICES"] = str(slot % devices)
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _graphics_devices() -> int:
    import torch

    return torch.cuda.device_count()


def _reason(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        name = signal.Signals(-exit_code).name
        hint = ", perhaps out of memory" if name == "SIGKILL" else ""
        return f"{name}{hint}"
    if exit_code == UNGUARDED:
        return (
            "it imports the script that compares, which compares again; put that under "
            'if __name__ == "__main__":'
        )
    return f"exit code {exit_code}"

"""Runs the cells of a grid that have no record yet, several at a time, and keeps each result.

The scheduler hands cells to workers one by one and writes the records itself, so that a worker
may be killed at any moment. Workers are processes of this machine (`processes.py`) or actors of a
Ray cluster (`ray_cluster.py`); the results are the same.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from zlpr.compare.cell import Place, failed_record
from zlpr.compare.folder import RunFolder
from zlpr.compare.grid import Cell
from zlpr.compare.records import RunRecord, read_records, write_record


class Workers(Protocol):
    """Places where cells run, numbered from 0."""

    @property
    def count(self) -> int:
        """How many cells run at a time."""

    def start(self, slot: int, cell: Cell) -> None:
        """Run a cell in a free slot, replacing a worker that died there."""

    def wait(self, seconds: float) -> list[tuple[int, RunRecord | str]]:
        """Slots whose cell ended within the time, with the record, or why there is none."""

    def close(self) -> None:
        """Stop everything at once."""


@dataclass
class ComparisonProgress:
    """How far a comparison is; what the live table shows."""

    cells: Sequence[Cell]
    workers: int
    began: float = field(default_factory=time.monotonic)
    running: dict[int, tuple[Cell, float]] = field(default_factory=dict)
    finished: list[RunRecord] = field(default_factory=list)
    waiting: list[Cell] = field(default_factory=list)
    last_group: dict[int, tuple[str, str, int]] = field(default_factory=dict)

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began

    @property
    def failed(self) -> int:
        """Cells that ended with an error."""
        return sum(record.status == "failed" for record in self.finished)

    def seconds_left(self) -> float | None:
        """Expected time to the end, from the cells that are done; None while nothing is."""
        if not self.finished:
            return None
        now = time.monotonic()
        running = sum(
            max(0.0, self._expected(cell) - (now - began)) for cell, began in self.running.values()
        )
        waiting = sum(self._expected(cell) for cell in self.waiting)
        return (running + waiting) / self.workers

    def _expected(self, cell: Cell) -> float:
        """Mean time of the finished cells that are most like this one."""
        own = cell.settings

        def like(record: RunRecord, *names: str) -> bool:
            return all(getattr(record.settings, name) == getattr(own, name) for name in names)

        for names in (("data", "model", "loss"), ("data", "model"), ("model", "loss"), ()):
            times = [_total(record) for record in self.finished if like(record, *names)]
            if times:
                return sum(times) / len(times)
        return 0.0


def missing_cells(cells: Sequence[Cell], folder: RunFolder) -> list[Cell]:
    """The cells without a finished record; failed ones are tried again."""
    if not folder.runs.is_dir():
        return list(cells)
    records, _ = read_records(folder.runs)
    done = {record.settings_hash for record in records if record.status == "done"}
    return [cell for cell in cells if cell.settings.hash() not in done]


def run_cells(
    cells: Sequence[Cell],
    folder: RunFolder,
    workers: Workers,
    place: Place,
    *,
    watch: Callable[[ComparisonProgress], None] = lambda progress: None,
    seconds: float | None = None,
) -> ComparisonProgress:
    """Run cells on workers until all have a record, or until the time is up.

    Args:
        cells: what to run.
        folder: where records go, each written as soon as it is there.
        workers: where to run; closed at the end, however it comes.
        place: for the records of cells whose worker died.
        watch: called a few times per second with the state of things.
        seconds: start no cell after this time; those running are finished.
    """
    progress = ComparisonProgress(cells, workers.count, waiting=list(cells))
    try:
        while progress.waiting or progress.running:
            late = seconds is not None and time.monotonic() - progress.began > seconds
            if late and not progress.running:
                break
            if not late:
                _fill(workers, progress)
            watch(progress)
            for slot, result in workers.wait(0.25):
                cell, _ = progress.running.pop(slot)
                record = failed_record(cell, place, result) if isinstance(result, str) else result
                write_record(record, folder.runs)
                progress.finished.append(record)
        watch(progress)
    finally:
        workers.close()
    return progress


def _fill(workers: Workers, progress: ComparisonProgress) -> None:
    """Give every free slot a cell."""
    for slot in range(workers.count):
        if slot not in progress.running and progress.waiting:
            cell = _next_cell(progress, slot)
            progress.waiting.remove(cell)
            progress.running[slot] = (cell, time.monotonic())
            progress.last_group[slot] = cell.group
            workers.start(slot, cell)


def _next_cell(progress: ComparisonProgress, slot: int) -> Cell:
    """The cell that a free slot should take.

    A worker keeps the data and features of one group of cells. It stays with its group while
    that has cells left, then takes up a group that nobody works at, and at the end helps out
    where most is left to do.
    """
    groups: dict[tuple[str, str, int], list[Cell]] = {}
    for cell in progress.waiting:
        groups.setdefault(cell.group, []).append(cell)
    own = progress.last_group.get(slot)
    if own in groups:
        return groups[own][0]
    taken = {cell.group for cell, _ in progress.running.values()}
    free = [group for group in groups if group not in taken]
    group = free[0] if free else max(groups, key=lambda name: len(groups[name]))
    return groups[group][0]


def _total(record: RunRecord) -> float:
    return record.seconds.prepare + record.seconds.fit + record.seconds.evaluate

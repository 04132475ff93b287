"""How far a comparison is, on the terminal: a live table, or a line per cell in a log."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from zlpr._counted import counted
from zlpr._escape import for_terminal
from zlpr.compare.grid import Cell
from zlpr.compare.records import RunRecord
from zlpr.compare.runner import ComparisonProgress
from zlpr.compare.wording import duration


@contextmanager
def display(already_done: int) -> Iterator[Callable[[ComparisonProgress], None]]:
    """Give a function that shows the progress: live on a terminal, line by line elsewhere.

    Args:
        already_done: cells that have a record from an earlier run.
    """
    if not sys.stderr.isatty():
        yield _LineByLine(already_done).show
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), refresh_per_second=4, transient=True) as live:
        yield lambda progress: live.update(progress_table(progress, already_done))


class _LineByLine:
    """A line on standard error for each cell that ends."""

    def __init__(self, already_done: int) -> None:
        self._already_done = already_done
        self._shown = 0

    def show(self, progress: ComparisonProgress) -> None:
        """Print what ended since the last call."""
        total = self._already_done + len(progress.cells)
        for record in progress.finished[self._shown :]:
            self._shown += 1
            number = f"[{self._already_done + self._shown}/{total}]"
            left = _time_left(progress)
            line = for_terminal(f"{number} {_ending(record)}{left}")
            print(line, file=sys.stderr, flush=True)  # noqa: T201


def progress_table(progress: ComparisonProgress, already_done: int) -> Any:
    """A row per data set and model: done, failed, and what runs right now."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("data", "model", "done", "failed", "running"):
        table.add_column(heading, justify="right" if heading in {"done", "failed"} else "left")
    for (data, model), cells in _by_contest(progress).items():
        ended = [r for r in progress.finished if _contest(r.settings) == (data, model)]
        failed = sum(record.status == "failed" for record in ended)
        now = time.monotonic()
        running = ", ".join(
            f"{cell.settings.loss.label} seed {cell.settings.seed} ({now - began:.0f} s)"
            for cell, began in progress.running.values()
            if _contest(cell.settings) == (data, model)
        )
        done = f"{len(ended) - failed}/{len(cells)}"
        names = (Text(for_terminal(name)) for name in (data, model))
        marked = Text(str(failed), "red" if failed else "")
        table.add_row(*names, done, marked, Text(for_terminal(running)))
    total, finished = len(progress.cells), len(progress.finished)
    spent = duration(progress.elapsed)
    before = f", {already_done} from before" if already_done else ""
    line = Text(f"{finished} of {counted(total, 'run')} in {spent}{before}{_time_left(progress)}")
    below = Table.grid(padding=(0, 2, 0, 0))
    below.add_row(ProgressBar(total=total, completed=finished, width=40), line)
    return Group(table, below)


def _time_left(progress: ComparisonProgress) -> str:
    left = progress.seconds_left()
    if left is None or not (progress.waiting or progress.running):
        return ""
    return f", about {duration(left)} left"


def _ending(record: RunRecord) -> str:
    if record.status == "failed":
        return f"{record.settings.title()}: failed"
    seconds = record.seconds
    return f"{record.settings.title()}: {seconds.prepare + seconds.fit + seconds.evaluate:.1f} s"


def _contest(settings: Any) -> tuple[str, str]:
    return (settings.data, settings.model)


def _by_contest(progress: ComparisonProgress) -> dict[tuple[str, str], list[Cell]]:
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in progress.cells:
        groups.setdefault(_contest(cell.settings), []).append(cell)
    return groups

"""What `zlpr train` shows while it works."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from math import isnan
from typing import TYPE_CHECKING

from zlpr._counted import counted
from zlpr._escape import for_terminal
from zlpr.cli._console import say

if TYPE_CHECKING:
    from zlpr.training import TrainingProgress


SILENCE = 30.0
"""Seconds after which a log gets a line also where nothing was validated."""


@contextlib.contextmanager
def training_progress(
    metric: str, opening: str = "", *, quiet: bool
) -> Iterator["Callable[[TrainingProgress], None]"]:
    """Print a line per validation, and show a bar in between where somebody watches.

    Args:
        metric: what validation measures.
        opening: a line to print first, once there is progress: nothing was refused by then.
        quiet: print nothing to standard output.
    """
    from zlpr.metrics import info
    from zlpr.metrics.table import shown
    from zlpr.models.embedding_progress import embedding_progress

    words, share = info(metric).words, info(metric).is_share
    opened = not opening

    def tell(line: "TrainingProgress") -> None:
        nonlocal opened
        if not opened and not quiet:
            say(opening)
        opened = True
        if line.metric is not None and not quiet:
            ended = line.total in (0, line.step)
            steps = counted(line.step, "step") if ended else f"step {line.step}"
            # A kind that fits without a loss to follow has neither steps nor a loss to tell of.
            done = "" if isnan(line.loss) else f", {steps}: loss {line.loss:.4f}"
            value = shown(line.metric, share=share)
            say(f"  {line.stage}{done}, validation {words} {value}, {line.seconds:.1f} s")

    if not sys.stderr.isatty():
        embedded = _tell_of_embedding if not quiet else lambda done, total: None
        with embedding_progress(_seldom(embedded)):
            yield tell if quiet else _now_and_then(tell)
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.TimeElapsedColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("reading features", total=None)

        def show(line: "TrainingProgress") -> None:
            at = "" if isnan(line.loss) else f", step {line.step}, loss {line.loss:.4f}"
            label = for_terminal(f"{line.stage}{at}")
            bars.update(task, description=label, completed=line.step, total=line.total or None)
            tell(line)

        def show_embedding(done: int, total: int) -> None:
            at = f"embedding texts, {done:,} of {total:,}"
            bars.update(task, description=at, completed=done, total=total)
            if done == total:
                bars.update(task, description="training", completed=0, total=None)

        with embedding_progress(show_embedding):
            yield show


def _tell_of_embedding(done: int, total: int) -> None:
    say(f"  embedding texts, {done:,} of {total:,}", error=True)


def _seldom(tell: "Callable[[int, int], None]") -> "Callable[[int, int], None]":
    """Tell what it is told once in a while, for a log."""
    last = time.monotonic()

    def told(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= SILENCE:
            last = time.monotonic()
            tell(done, total)

    return told


def _now_and_then(
    tell: "Callable[[TrainingProgress], None]",
) -> "Callable[[TrainingProgress], None]":
    """Tell what it is told, and in a log, where no bar moves, that it is still at work."""
    last = time.monotonic()

    def told(line: "TrainingProgress") -> None:
        nonlocal last
        if line.metric is None and time.monotonic() - last < SILENCE:
            return
        last = time.monotonic()
        if line.metric is None:
            of = f" of {line.total}" if line.total else ""
            at = f"{line.stage}, step {line.step}{of}"
            say(for_terminal(f"  {at}: loss {line.loss:.4f}, {line.seconds:.1f} s"), error=True)
        tell(line)

    return told

import io
import sys
import time

from rich.console import Console

from tests.compare.synthetic import record, settings
from zlpr.compare.grid import Cell
from zlpr.compare.live import display, progress_table
from zlpr.compare.runner import ComparisonProgress

CELLS = [Cell(settings(loss=loss), "toy.csv") for loss in ("zlpr", "bce", "focal")]


def under_way() -> ComparisonProgress:
    progress = ComparisonProgress(CELLS, workers=1, waiting=[CELLS[2]])
    progress.finished = [record(loss="zlpr", fault="ValueError: no")]
    progress.running = {0: (CELLS[1], time.monotonic() - 5)}
    return progress


def test_the_table_shows_what_is_done_failed_and_running():
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    console.print(progress_table(under_way(), already_done=4))
    text = console.file.getvalue()
    assert "0/3" in text
    assert "bce seed 0 (5 s)" in text
    assert "1 of 3 runs in 0 s, 4 from before, about" in text
    assert text.rstrip().endswith("left")


def test_without_a_terminal_each_ending_is_a_line(capsys):
    assert not sys.stderr.isatty()
    progress = under_way()
    with display(already_done=4) as watch:
        watch(progress)
        watch(progress)
        progress.finished.append(record(loss="bce"))
        watch(progress)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("[5/7] toy / linear / zlpr / seed 0: failed")
    assert lines[1].startswith("[6/7] toy / linear / bce / seed 0: 0.8 s")

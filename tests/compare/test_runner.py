import itertools
from dataclasses import replace

import pytest

from tests.compare.synthetic import record, settings
from zlpr.compare.cell import Place
from zlpr.compare.folder import RunFolder
from zlpr.compare.grid import Cell
from zlpr.compare.records import read_records, write_record
from zlpr.compare.runner import ComparisonProgress, missing_cells, run_cells

PLACE = Place("zlpr compare", 1)


def cell(loss="zlpr", seed=0, data="toy") -> Cell:
    return Cell(settings(data=data, loss=loss, seed=seed), f"{data}.csv")


CELLS = [cell(loss, seed) for seed in (0, 1, 2) for loss in ("zlpr", "bce", "focal")]


class Fake:
    """Workers that finish at once, newest first; `deaths` names losses whose worker dies."""

    def __init__(self, count=2, deaths=(), stop_after=None):
        self.count, self.deaths, self.stop_after = count, deaths, stop_after
        self.started, self.running, self.closed = [], {}, False

    def start(self, slot, cell):
        assert slot not in self.running
        self.running[slot] = cell
        self.started.append((slot, cell))

    def wait(self, seconds):
        if self.stop_after is not None and len(self.started) > self.stop_after:
            raise KeyboardInterrupt
        slot, cell = self.running.popitem()
        if cell.settings.loss.label in self.deaths:
            return [(slot, "its process died (SIGKILL)")]
        made = record(
            loss=cell.settings.loss.label, seed=cell.settings.seed, data=cell.settings.data
        )
        return [(slot, made)]

    def close(self):
        self.closed = True


def test_every_cell_gets_its_record(tmp_path):
    folder, workers = RunFolder(tmp_path), Fake()
    progress = run_cells(CELLS, folder, workers, PLACE)
    records, faults = read_records(folder.runs)
    assert {made.settings_hash for made in records} == {c.settings.hash() for c in CELLS}
    assert faults == []
    assert workers.closed
    assert progress.failed == 0


def test_a_dead_worker_fails_its_cell_and_not_the_rest(tmp_path):
    folder = RunFolder(tmp_path)
    progress = run_cells(CELLS, folder, Fake(deaths=("bce",)), PLACE)
    assert progress.failed == 3
    records, _ = read_records(folder.runs)
    assert {made.error for made in records if made.status == "failed"} == {
        "its process died (SIGKILL)"
    }
    assert sum(made.status == "done" for made in records) == 6


def test_only_what_is_missing_or_failed_is_run_again(tmp_path):
    folder = RunFolder(tmp_path)
    run_cells(CELLS, folder, Fake(deaths=("bce",)), PLACE)
    again = missing_cells(CELLS, folder)
    assert [c.settings.loss.label for c in again] == ["bce"] * 3
    run_cells(again, folder, Fake(), PLACE)
    assert missing_cells(CELLS, folder) == []


def test_a_torn_or_foreign_record_does_not_count_as_done(tmp_path):
    folder = RunFolder(tmp_path)
    path = write_record(record(), folder.runs)
    assert missing_cells([cell()], folder) == []
    path.write_text(path.read_text()[:200])
    assert missing_cells([cell()], folder) == [cell()]
    write_record(record(version="0.0.9"), folder.runs)
    assert missing_cells([cell()], folder) == [cell()]


def test_an_interrupt_leaves_whole_records_and_closed_workers(tmp_path):
    folder, workers = RunFolder(tmp_path), Fake(stop_after=4)
    with pytest.raises(KeyboardInterrupt):
        run_cells(CELLS, folder, workers, PLACE)
    assert workers.closed
    records, faults = read_records(folder.runs)
    assert 0 < len(records) < len(CELLS)
    assert faults == []
    assert len(missing_cells(CELLS, folder)) == len(CELLS) - len(records)


def test_when_the_time_is_up_nothing_new_starts(tmp_path):
    workers = Fake()
    progress = run_cells(CELLS, RunFolder(tmp_path), workers, PLACE, seconds=-1.0)
    assert workers.started == []
    assert len(progress.waiting) == len(CELLS)


def test_a_worker_stays_with_its_split_while_it_lasts(tmp_path):
    workers = Fake(count=2)
    run_cells(CELLS, RunFolder(tmp_path), workers, PLACE)
    seeds = {0: [], 1: []}
    for slot, started in workers.started:
        seeds[slot].append(started.settings.seed)
    for visited in seeds.values():
        changes = sum(a != b for a, b in itertools.pairwise(visited))
        assert changes <= 2
    assert {workers.started[0][1].settings.seed, workers.started[1][1].settings.seed} == {0, 1}


def test_the_time_left_comes_from_the_most_similar_runs():
    progress = ComparisonProgress([cell()], workers=2)
    assert progress.seconds_left() is None
    slow, fast = record(loss="bce"), record(loss="zlpr")
    progress.finished = [
        replace(slow, seconds=replace(slow.seconds, prepare=0, fit=10, evaluate=0)),
        replace(fast, seconds=replace(fast.seconds, prepare=0, fit=2, evaluate=0)),
    ]
    progress.waiting = [cell("bce", 1), cell("bce", 2)]
    assert progress.seconds_left() == pytest.approx(10)
    progress.waiting = [cell("focal", 1)]
    assert progress.seconds_left() == pytest.approx(3)

import os
import signal
import time

import pytest

from tests.compare import toy
from tests.processes import Command
from zlpr.cli.main import main
from zlpr.compare.cell import Place
from zlpr.compare.experiment import carry_out, plan
from zlpr.compare.folder import RunFolder
from zlpr.compare.grid import cells
from zlpr.compare.processes import ProcessWorkers, available_cores
from zlpr.compare.records import LossSpec, read_records
from zlpr.compare.runner import run_cells

pytestmark = pytest.mark.usefixtures("quick_workers")
SEEDS = 3


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return toy.write_file(tmp_path_factory.mktemp("data") / "toy.csv")


@pytest.fixture(scope="module")
def unbroken(path, tmp_path_factory):
    folder = RunFolder(tmp_path_factory.mktemp("unbroken"))
    losses = tuple(LossSpec(name, name) for name in ("zlpr", "dice2", "lsep"))
    grid = toy.grid(path, losses=losses, seeds=tuple(range(SEEDS)))
    carry_out(plan(grid, folder, "zlpr compare"), workers=2)
    return folder


def compare(path, out, log):
    """The command, in a session of its own, as a terminal would start it."""
    losses = ["--losses", "zlpr", "dice2", "lsep"]
    options = ["--seeds", str(SEEDS), "--workers", "1", "--set", "regularisation=1.0"]
    arguments = ["compare", "--data", str(path), "--out", str(out), *losses, *options]
    return Command(_in_a_session, arguments, log=log)


def _in_a_session(arguments):
    os.setsid()
    # A shell's background jobs ignore Ctrl-C, and would hand that down to this one.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return main(arguments)


def interrupt(path, out, log, number, at_least):
    """Start a comparison, and send it a signal once it has some records."""
    started = compare(path, out, log)
    runs = out / "runs"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and started.process.is_alive():
        if runs.is_dir() and len(list(runs.glob("*.json"))) >= at_least:
            os.kill(started.process.pid, number)
            break
        time.sleep(0.01)
    code = started.wait(60)
    assert _all_gone(started.process.pid)
    return code, started.stderr


def _all_gone(group):
    """Whether every process of the group ends soon, workers of a killed parent included."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_interrupted_and_started_again_equals_an_unbroken_run(path, unbroken, tmp_path):
    out, log = tmp_path / "out", tmp_path / "log"
    code, errors = interrupt(path, out, log, signal.SIGINT, at_least=2)
    assert code == 130, errors
    assert "goes on from the runs that are done" in errors
    assert "Traceback" not in errors
    after_interrupt = len(read_records(out / "runs")[0])
    code, _ = interrupt(path, out, log, signal.SIGKILL, at_least=after_interrupt + 2)
    assert code == -signal.SIGKILL
    kept, faults = read_records(out / "runs")
    assert faults == []
    assert after_interrupt + 2 <= len(kept) < 3 * SEEDS

    done = compare(path, out, log)
    assert done.wait() == 0, done.stderr
    assert f"{len(kept)} of them done before" in done.stderr
    assert done.stdout.splitlines()[-1] == f"report: {out / 'report.html'}"
    ours = {made.settings.title(): made for made in read_records(out / "runs")[0]}
    theirs = {made.settings.title(): made for made in read_records(unbroken.runs)[0]}
    assert set(ours) == set(theirs)
    for title, made in ours.items():
        assert made.outcome == theirs[title].outcome
    assert not list((out / "runs").glob(".*"))  # no half-written file


def test_started_again_when_all_is_done_it_only_reports(path, unbroken):
    before = {p: p.stat().st_mtime_ns for p in unbroken.runs.iterdir()}
    grid = toy.grid(path, seeds=tuple(range(SEEDS)))
    again = plan(grid, unbroken, "zlpr compare")
    assert again.missing == ()
    carry_out(again)
    assert {p: p.stat().st_mtime_ns for p in unbroken.runs.iterdir()} == before


def test_a_worker_that_dies_is_replaced(path, tmp_path):
    workers = ProcessWorkers(1, Place("zlpr compare", 1), tmp_path)
    first, second = cells(toy.grid(path))[:2]
    try:
        workers.start(0, first)
        os.kill(workers._workers[0].process.pid, signal.SIGKILL)
        ended = _wait(workers)
        assert ended == [(0, "its process died (SIGKILL, perhaps out of memory)")]
        workers.start(0, second)
        [(slot, made)] = _wait(workers)
        assert (slot, made.status) == (0, "done")
        assert made.made.threads == 1
    finally:
        workers.close()


def test_a_worker_that_dies_while_idle_costs_no_cell(path, tmp_path):
    workers = ProcessWorkers(2, Place("zlpr compare", 1), tmp_path)
    first, *others = cells(toy.grid(path))[:3]
    try:
        workers.start(0, first)
        assert [slot for slot, _ in _wait(workers)] == [0]
        for noticed, cell in zip((True, False), others, strict=True):
            idle = workers._workers[0].process
            os.kill(idle.pid, signal.SIGKILL)
            idle.join()
            if noticed:
                assert workers.wait(5.0) == []
            workers.start(0, cell)
            [(slot, made)] = _wait(workers)
            assert (slot, made.status) == (0, "done")
            assert made.settings == cell.settings
    finally:
        workers.close()


class _Unlucky(ProcessWorkers):
    """Kills the idle worker of a slot as soon as the slot's first result is in."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.killed = set()

    def wait(self, seconds):
        ended = super().wait(seconds)
        for slot, _ in ended:
            if slot not in self.killed:
                self.killed.add(slot)
                os.kill(self._workers[slot].process.pid, signal.SIGKILL)
                self._workers[slot].process.join()
        return ended


def test_a_comparison_outlives_workers_that_die_between_cells(path, tmp_path):
    todo = cells(toy.grid(path))
    workers = _Unlucky(2, Place("zlpr compare", 1), tmp_path / "logs")
    progress = run_cells(todo, RunFolder(tmp_path), workers, Place("zlpr compare", 1))
    assert workers.killed == {0, 1}
    assert progress.failed == 0
    made = [record.settings_hash for record in progress.finished]
    assert sorted(made) == sorted(cell.settings.hash() for cell in todo)


def test_closing_ends_the_processes(path, tmp_path):
    workers = ProcessWorkers(2, Place("zlpr compare", 1), tmp_path)
    for slot, cell in enumerate(cells(toy.grid(path))[:2]):
        workers.start(slot, cell)
    processes = [worker.process for worker in workers._workers.values()]
    workers.close()
    assert not any(process.is_alive() for process in processes)


def test_cores_are_those_this_process_may_use():
    assert 1 <= available_cores() <= (os.cpu_count() or 1)


def _wait(workers):
    ended = []
    while not ended:
        ended = workers.wait(1.0)
    return ended

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.compare import toy
from zlpr._errors import UserError
from zlpr.compare.experiment import carry_out, plan
from zlpr.compare.folder import RunFolder
from zlpr.compare.grid import DataSpec
from zlpr.compare.records import LossSpec


def test_a_bad_grid_fails_before_anything_runs_and_names_every_fault(tmp_path):
    grid = toy.grid(
        tmp_path / "none.csv", losses=(LossSpec("zlpt", "zlpt"),), training={"speed": "high"}
    )
    folder = RunFolder(tmp_path / "out")
    with pytest.raises(UserError) as raised:
        plan(grid, folder)
    message = str(raised.value)
    assert message.startswith("3 faults in the grid: (1) data toy: ")
    assert "; (2) loss zlpt: " in message
    assert "; (3) training: " in message
    assert "\n" not in message  # which a terminal would be shown spelled out
    assert not folder.path.exists()


def test_data_that_cannot_be_read_or_divided_is_a_fault_of_the_grid(tmp_path):
    (tmp_path / "bad.csv").write_text("colour\nred\n")
    good = toy.write_file(tmp_path / "good.csv", samples=30)
    data = (DataSpec(str(tmp_path / "bad.csv")), DataSpec(str(good), split="published"))
    with pytest.raises(UserError) as raised:
        plan(toy.grid(good, data=data), RunFolder(tmp_path / "out"))
    message = str(raised.value)
    assert "data bad: " in message
    assert "data good: good: no published split" in message


def test_a_plan_writes_nothing_and_a_run_without_work_writes_only_its_grid(tmp_path):
    folder = RunFolder(tmp_path / "out")
    made = plan(toy.grid(toy.write_file(tmp_path / "toy.csv")), folder, "zlpr compare")
    assert len(made.cells) == len(made.missing) == 6
    assert not folder.path.exists()
    carry_out(type(made)(made.cells, (), folder, "zlpr compare"))
    assert [path.name for path in folder.path.iterdir()] == ["grid.json"]


def test_a_folder_that_takes_no_records_is_refused_before_a_training(tmp_path):
    made = plan(toy.grid(toy.write_file(tmp_path / "toy.csv")), RunFolder(tmp_path / "out"))
    made.folder.path.mkdir()
    made.folder.runs.write_text("a file")
    with pytest.raises(FileExistsError):
        carry_out(made, workers=1, watch=lambda progress: pytest.fail("it began"))


SCRIPT = """
from pathlib import Path
from tests.compare import toy
from zlpr.compare import LossSpec, RunFolder, carry_out, plan

grid = toy.grid(Path("toy.csv"), losses=(LossSpec("zlpr", "zlpr"),), seeds=(0,))
for record in carry_out(plan(grid, RunFolder(Path("out"))), workers=1).finished:
    print(record.error)
"""


def test_a_script_that_is_not_guarded_is_told_so(tmp_path):
    toy.write_file(tmp_path / "toy.csv")
    (tmp_path / "script.py").write_text(SCRIPT)
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    ended = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.count("its process died (") == 1
    assert 'put that under if __name__ == "__main__":' in ended.stdout

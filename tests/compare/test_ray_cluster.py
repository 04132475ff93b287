import pytest

from tests.compare import toy
from zlpr._errors import UserError
from zlpr.compare.cell import Place
from zlpr.compare.experiment import carry_out, plan
from zlpr.compare.folder import RunFolder
from zlpr.compare.records import read_records, same_result

pytest.importorskip("ray", reason="ray runs a comparison over machines")


def test_two_ray_workers_give_the_records_that_two_processes_give(tmp_path):
    grid = toy.grid(toy.write_file(tmp_path / "toy.csv"))
    here, there = RunFolder(tmp_path / "processes"), RunFolder(tmp_path / "ray")
    carry_out(plan(grid, here, "zlpr compare"), workers=2)
    carry_out(plan(grid, there, "zlpr compare --ray local"), workers=2, ray="local")
    ours = {made.settings_hash: made for made in read_records(here.runs)[0]}
    theirs = {made.settings_hash: made for made in read_records(there.runs)[0]}
    assert len(ours) == 6
    assert set(ours) == set(theirs)
    assert all(same_result(ours[name], theirs[name]) for name in ours)
    assert all(made.status == "done" for made in theirs.values())


def test_a_cluster_that_is_not_there_is_said():
    from zlpr.compare.ray_cluster import RayWorkers

    with pytest.raises(UserError, match=r"no Ray cluster at 127\.0\.0\.1:1"):
        RayWorkers("127.0.0.1:1", 1, Place("", 1))

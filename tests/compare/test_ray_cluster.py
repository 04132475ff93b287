import sys
from unittest.mock import MagicMock

import pytest

from tests.compare import toy
from zlpr._errors import UserError
from zlpr.compare.cell import Place
from zlpr.compare.experiment import carry_out, plan
from zlpr.compare.folder import RunFolder
from zlpr.compare.grid import cells
from zlpr.compare.ray_cluster import RayWorkers, Resources, share_out
from zlpr.compare.records import read_records, same_result
from zlpr.compare.runner import run_cells

pytestmark = pytest.mark.usefixtures("quick_workers")
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


@pytest.mark.parametrize(
    ("cluster", "count", "encoders", "expected"),
    [
        ({"CPU": 16.0, "GPU": 4.0}, None, True, Resources(4, 2, 1)),  # a card each
        ({"CPU": 16.0, "GPU": 4.0}, 3, True, Resources(3, 2, 1)),
        ({"CPU": 4.0, "GPU": 4.0}, None, True, Resources(2, 2, 1)),  # cores run out first
        ({"CPU": 16.0, "GPU": 4.0}, None, False, Resources(8, 2, 0)),  # no use for a card
        ({"CPU": 16.0}, None, True, Resources(8, 2, 0)),
    ],
)
def test_actors_share_the_cores_and_encoders_the_cards(cluster, count, encoders, expected):
    assert share_out(cluster, count, 2, encoders=encoders) == expected


def test_more_workers_than_the_cluster_has_room_for_are_refused():
    with pytest.raises(UserError, match=r"9 workers of 2 threads each: more than .* 16 cores"):
        share_out({"CPU": 16.0, "GPU": 4.0}, 9, 2, encoders=True)
    with pytest.raises(
        UserError, match=r"5 workers that train encoders: more than .* 4 graphics cards"
    ):
        share_out({"CPU": 16.0, "GPU": 4.0}, 5, 2, encoders=True)


class FakeRay:
    """A cluster of two cards whose actors cannot start."""

    class exceptions:  # noqa: N801 - the name of Ray's module
        class RayError(Exception):
            pass

    def __init__(self):
        self.asked, self.open = [], False

    def init(self, **options):
        self.open = True

    def shutdown(self):
        self.open = False

    def cluster_resources(self):
        return {"CPU": 8.0, "GPU": 2.0}

    def remote(self, **options):
        self.asked.append(options)
        return MagicMock()

    def get(self, reference):
        raise self.exceptions.RayError(
            "creation failed\nModuleNotFoundError: No module named 'zlpr'"
        )


def test_a_machine_without_the_package_is_said_and_encoders_ask_for_a_card(tmp_path, monkeypatch):
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    todo = cells(toy.grid(toy.write_file(tmp_path / "toy.csv")))
    workers = RayWorkers("auto", None, Place("", 1), encoders=True)
    assert workers.count == 2
    with pytest.raises(UserError, match=r"is it installed there.*No module named 'zlpr'"):
        run_cells(todo, RunFolder(tmp_path), workers, Place("", 1))
    assert fake.asked == [{"num_cpus": 1, "num_gpus": 1}]
    assert not fake.open


def test_a_cluster_that_is_not_there_is_said():
    with pytest.raises(UserError, match=r"no Ray cluster at 127\.0\.0\.1:1"):
        RayWorkers("127.0.0.1:1", 1, Place("", 1))

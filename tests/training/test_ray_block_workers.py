import sys
from unittest.mock import MagicMock

import numpy as np
import pytest

from tests import many_labels
from zlpr._errors import UserError
from zlpr.training import TrainingConfig, fit
from zlpr.training.ray_block_workers import RayBlockWorkers


def test_two_workers_give_the_bits_of_one_process_and_one_that_dies_is_said(tmp_path):
    ray = pytest.importorskip("ray", reason="ray trains over machines")
    data = many_labels.make()
    train, validation = data.select(np.arange(200)), data.select(np.arange(200, 240))
    config = TrainingConfig(model="shortlist", regularisation=0.1)
    alone = fit(train, validation, config)
    with RayBlockWorkers("local", 2) as workers:
        assert workers.count == 2
        divided = fit(train, validation, config, workers=workers)

        def kill_one(line):
            if line.metric is not None:
                ray.kill(workers._actors[1])

        with pytest.raises(UserError, match=r"^a Ray worker failed: .*; a run with a checkpoint"):
            fit(train, validation, config, workers=workers, checkpoint=tmp_path, progress=kill_one)
    assert not ray.is_initialized()
    assert many_labels.bits(divided) == many_labels.bits(alone)
    assert list(tmp_path.glob("path-*.safetensors"))
    resumed = fit(train, validation, config, checkpoint=tmp_path)
    assert many_labels.bits(resumed) == many_labels.bits(alone)


class FakeRay(MagicMock):
    """A cluster of two cores."""

    class exceptions:  # noqa: N801 - the name of Ray's module
        class RayError(Exception):
            pass

    def cluster_resources(self):
        return {"CPU": 2.0}


@pytest.fixture
def fake(monkeypatch):
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake)
    return fake


def test_more_workers_than_cores_are_refused(fake):
    with pytest.raises(UserError, match=r"3 workers of one core each: more than .* 2 cores"):
        RayBlockWorkers("auto", 3)
    fake.shutdown.assert_called_once()


def test_another_version_and_none_at_all_are_said(fake):
    fake.get.return_value = ["0.0.0", "0.0.0"]
    with pytest.raises(UserError, match=r"the cluster has zlpr 0\.0\.0, this is "):
        RayBlockWorkers("auto")
    fake.get.side_effect = fake.exceptions.RayError("creation failed\nNo module named 'zlpr'")
    with pytest.raises(UserError, match=r"is it installed there.*No module named 'zlpr'"):
        RayBlockWorkers("auto")
    assert fake.shutdown.call_count == 2

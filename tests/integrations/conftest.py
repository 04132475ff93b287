"""What the tests of several frameworks share."""

import numpy as np
import pytest

from zlpr.data import demo
from zlpr.training import fit
from zlpr.training.linear import LinearConfig


@pytest.fixture(scope="session")
def demo_folder(tmp_path_factory):
    """The folder of a small model of the demo corpus."""
    data = demo.make(160)
    is_validation = np.arange(len(data)) % 4 == 0
    parts = [data.select(np.flatnonzero(rows)) for rows in (~is_validation, is_validation)]
    folder = tmp_path_factory.mktemp("model") / "model"
    fit(*parts, LinearConfig(decode="threshold")).model.save(folder)
    return folder

import pytest

from tests.models import modes
from zlpr._errors import UserError
from zlpr.training import TrainingConfig, fit


def test_neighbours_tell_what_a_line_cannot() -> None:
    result = modes.result("knn")
    assert result.figures["test"]["micro_f1"] > 0.7
    assert result.model.neighbours == 5


def test_more_neighbours_than_samples_are_refused() -> None:
    train, validation, _ = modes.parts()
    with pytest.raises(UserError, match="neighbours 160: there are 160 training samples"):
        fit(train, validation, TrainingConfig(model="knn", neighbours=160))
    with pytest.raises(UserError, match="smoothing 0: expected a number above 0"):
        TrainingConfig(model="knn", smoothing=0)

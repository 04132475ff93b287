"""ML-kNN as it is trained."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from tests.models import modes
from zlpr._errors import UserError
from zlpr.training import TrainingConfig, fit


def test_neighbours_tell_what_a_line_cannot() -> None:
    result = modes.result("knn")
    assert result.figures["test"]["micro_f1"] > 0.7
    assert result.model.neighbours == 5


def test_it_is_scikit_multilearns() -> None:
    model = modes.result("knn").model
    np.testing.assert_allclose(model.log_odds, modes.PEER_LOG_ODDS, atol=2e-5)
    predicted = model.predict_scores(modes.parts()[2].features) > 0
    assert np.array_equal(predicted, modes.peer("knn"))


def test_more_neighbours_than_samples_are_refused() -> None:
    train, validation, _ = modes.parts()
    with pytest.raises(UserError, match="neighbours 160: there are 160 training samples"):
        fit(train, validation, TrainingConfig(model="knn", neighbours=160))
    with pytest.raises(UserError, match="smoothing 0: expected a number above 0"):
        TrainingConfig(model="knn", smoothing=0)


def test_a_sparse_matrix_of_the_same_features_gets_the_same_answer() -> None:
    train, validation, test = modes.parts()
    shifted = [replace(part, features=part.features + 50) for part in (train, validation, test)]
    model = fit(*shifted[:2], TrainingConfig(model="knn")).model
    given = shifted[2].features
    scores = model.predict_scores(given)
    np.testing.assert_allclose(model.predict_scores(sparse.csr_array(given)), scores, atol=1e-5)

"""The averaged perceptron against its definition."""

import numpy as np
from scipy import sparse

from tests.models import modes
from zlpr.data import demo
from zlpr.training import TrainingConfig, fit
from zlpr.training.perceptron import Perceptron


def naive_epoch(features, labels, order):
    """Pair by pair, keeping the weights after every step."""
    weight, bias = np.zeros((features.shape[1], labels.shape[1])), np.zeros(labels.shape[1])
    past = []
    for row in order:
        scores = features[row] @ weight + bias
        pairs = [
            (i, j)
            for i in range(len(scores))
            for j in range(len(scores))
            if labels[row, i] and not labels[row, j] and scores[i] <= scores[j]
        ]
        for i, j in pairs:
            weight[:, i] += features[row] / len(pairs)
            weight[:, j] -= features[row] / len(pairs)
            bias[i] += 1 / len(pairs)
            bias[j] -= 1 / len(pairs)
        past.append((weight.copy(), bias.copy()))
    return np.mean([w for w, _ in past], axis=0), np.mean([b for _, b in past], axis=0)


def test_the_mean_of_the_weights_is_that_of_all_steps() -> None:
    data = modes.data(40, 0)
    features, order = np.asarray(data.features, dtype=np.float64), np.random.default_rng(3)
    expected = naive_epoch(features, data.labels.toarray(), order.permutation(40))
    for matrix in (features, sparse.csr_array(features)):
        perceptron = Perceptron(matrix, data.labels)
        moved = perceptron.epoch(np.random.default_rng(3))
        assert 0 < moved <= 1
        for found, wanted in zip(perceptron.mean(), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_it_ranks_labels() -> None:
    result = modes.result("mmp")
    assert result.figures["test"]["ranking_loss"] < 0.25
    assert "test, bound 0" not in result.figures  # it has none
    assert 1 <= result.chosen["epoch"] <= 2


def test_one_label_leaves_nothing_to_rank_which_is_said(caplog) -> None:
    data = demo.make(60).with_label_names(("refund",), unknown="drop")
    fit(data.select(range(40)), data.select(range(40, 60)), TrainingConfig(model="mmp", epochs=1))
    assert any("scores every sample alike" in message for message in caplog.messages)

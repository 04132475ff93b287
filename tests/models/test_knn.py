"""ML-kNN against its definition, sample by sample."""

import json
import math

import numpy as np
import pytest
from scipy import sparse

import zlpr
from tests.models import modes
from zlpr._errors import UserError
from zlpr.models.knn import counts_of_neighbours, log_odds_by_count, nearest_samples
from zlpr.training import TrainingConfig, fit


def naive(features, labels, new, k, s):
    """Zhang and Zhou (2007), as the paper writes it."""
    n, num_labels = labels.shape

    def neighbours(x, leave_out=None):
        order = sorted(range(n), key=lambda i: (float(((features[i] - x) ** 2).sum()), i))
        return [i for i in order if i != leave_out][:k]

    scores = np.zeros((len(new), num_labels))
    for label in range(num_labels):
        having = int(labels[:, label].sum())
        prior = (s + having) / (2 * s + n)
        with_label, without = [0] * (k + 1), [0] * (k + 1)
        for i in range(n):
            count = int(labels[neighbours(features[i], i), label].sum())
            (with_label if labels[i, label] else without)[count] += 1
        for row, x in enumerate(new):
            count = int(labels[neighbours(x), label].sum())
            yes = prior * (s + with_label[count]) / (s * (k + 1) + sum(with_label))
            no = (1 - prior) * (s + without[count]) / (s * (k + 1) + sum(without))
            scores[row, label] = math.log(yes / no)
    return scores


def test_scores_are_those_of_the_definition() -> None:
    train, new = modes.data(50, 0), modes.data(9, 1)
    features, labels = np.asarray(train.features), train.labels.toarray()
    for matrix in (features, sparse.csr_array(features)):
        nearest = nearest_samples(matrix, matrix, 4, themselves=True)
        counts = counts_of_neighbours(nearest, train.labels.astype(np.float32))
        table = log_odds_by_count(counts, train.labels, 4, 1.0)
        found = nearest_samples(np.asarray(new.features), matrix, 4)
        taken = counts_of_neighbours(found, train.labels.astype(np.float32))
        scores = np.take_along_axis(table, taken, axis=0)
        expected = naive(features, labels, np.asarray(new.features), 4, 1.0)
        np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [10**30, -1, 0.5])
def test_a_number_of_samples_that_nobody_has_is_one_line(tmp_path, count) -> None:
    data = modes.data(50, 0)
    config = TrainingConfig(model="knn", neighbours=3)
    fit(data, modes.data(50, 1), config).model.save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "training_samples": count}))
    with pytest.raises(UserError, match="model"):
        zlpr.load(tmp_path / "model")

import numpy as np
import pytest
from scipy import sparse

from tests import many_labels
from zlpr.data import Dataset
from zlpr.models.candidates import nearest
from zlpr.training import TrainingConfig, fit
from zlpr.training.naming import LIFTS, Samples, choose_lift, count_of, recall_of


def many_each(samples: int = 400, labels: int = 300) -> Dataset:
    """A dozen labels a sample, few of them frequent, told by thirty noisy features."""
    rng = np.random.default_rng(0)
    tells = rng.random((labels, 30)) < 0.1
    frequency = np.minimum(1.0, 6.0 / np.arange(1, labels + 1))
    own = rng.random((samples, labels)) < frequency[rng.permutation(labels)] / 2
    features = (own @ tells > 0) ^ (rng.random((samples, 30)) < 0.05)
    return Dataset(
        labels=sparse.csr_array(own),
        label_names=tuple(map(str, range(labels))),
        features=sparse.csr_array(features.astype(np.float32)),
    )


def test_labels_of_many_samples_are_named_more_readily_where_that_finds_more():
    data = many_each()
    train, other = data.select(np.arange(300)), data.select(np.arange(300, 400))
    samples = Samples.of(train.features, train.labels)
    recalls = [
        recall_of(nearest(other.features, samples.lifted(lift), 50), other.labels) for lift in LIFTS
    ]
    assert recalls[1] > recalls[0] + 0.1
    chosen = choose_lift(samples, other.features, other.labels, 50)
    assert recalls[LIFTS.index(chosen)] >= max(recalls) - 0.05


def test_near_labels_are_named_where_they_tell():
    data = many_labels.make()
    config = TrainingConfig(model="shortlist", regularisation=0.1, refit=False)
    result = fit(data.select(np.arange(200)), data.select(np.arange(200, 240)), config)
    assert result.chosen["lift_of_frequent_labels"] == 0.0


def test_a_lift_is_a_power_of_the_number_of_samples():
    features, labels = np.eye(3), np.array([[1, 0, 0], [1, 0, 0], [1, 1, 0]])
    samples = Samples.of(sparse.csr_array(features), sparse.csr_array(labels))
    lengths = np.sqrt(samples.lifted(0.5).power(2).sum(axis=1))
    assert lengths == pytest.approx([3**0.5, 1.0, 0.0])
    np.testing.assert_array_equal(samples.lifted(0.0).toarray(), samples.centroids.toarray())


def test_samples_of_many_labels_have_more_candidates_and_the_path_goes_to_stronger_penalties():
    data = many_each()
    result = fit(
        data.select(np.arange(300)),
        data.select(np.arange(300, 400)),
        TrainingConfig(model="shortlist", refit=False),
    )
    assert result.chosen["candidates"] == count_of(None, data.labels[:300]) > 100
    assert result.model.candidates == result.chosen["candidates"]
    assert result.chosen["recall_of_candidates"] > 0.8
    assert result.chosen["regularisation"] > 0.1

"""Classifier chains, beside scikit-learn's."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import ClassifierChain

from tests.models import modes
from zlpr._errors import UserError
from zlpr.training import TrainingConfig
from zlpr.training.chain import draw_orders, fit_chain
from zlpr.training.linear_features import Scaling


@pytest.mark.parametrize("dense", [True, False])
def test_links_are_those_of_scikit_learn(dense: bool) -> None:
    train, test = modes.data(150, 0, dense=dense), modes.data(60, 1, dense=dense)
    order = np.array([2, 0, 3, 1])
    chain = fit_chain(train.features, train.labels, order, 2.0, tolerance=1e-10)
    base = LogisticRegression(C=0.5, tol=1e-8, max_iter=2000)
    other = ClassifierChain(base, order=order.tolist())
    other.fit(train.features, train.labels.toarray().astype(int))
    scores = chain.label_scores(test.features, beam=1)
    np.testing.assert_allclose(
        1 / (1 + np.exp(-scores)), other.predict_proba(test.features), atol=0.01
    )
    assert np.array_equal(scores > 0, other.predict(test.features) > 0.5)


def test_it_predicts_as_scikit_multilearn_does() -> None:
    train, _, test = modes.parts()
    scaling = Scaling.of(train.features)
    order = np.array([2, 0, 3, 1])
    chain = fit_chain(scaling.apply(train.features), train.labels, order, 1.0, tolerance=1e-10)
    scores = chain.label_scores(scaling.apply(test.features), beam=1)
    same = ((scores > 0) == modes.peer("chain")).all(axis=1)
    assert same.mean() > 0.97


def test_orders_are_by_frequency_at_random_or_as_given() -> None:
    labels = modes.data(100, 0).labels
    counts = np.asarray(labels.sum(axis=0))
    (by_frequency,) = draw_orders(labels, TrainingConfig(model="chain"))
    assert (np.diff(counts[by_frequency]) <= 0).all()
    (given,) = draw_orders(labels, TrainingConfig(model="chain", order="given"))
    assert given.tolist() == [0, 1, 2, 3]
    several = draw_orders(labels, TrainingConfig(model="chain", chains=5, seed=1))
    assert len({tuple(order) for order in several}) > 1
    assert all(sorted(order) == [0, 1, 2, 3] for order in several)


def test_several_chains_are_their_mean() -> None:
    model = modes.result("chain", chains=3).model
    features = modes.parts()[2].features
    read = model.read(features)
    each = [chain.label_scores(read, 1) for chain in model.chains]
    np.testing.assert_allclose(model.score(read), np.mean(each, axis=0), rtol=1e-5, atol=1e-5)


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UserError, match="order 'given' makes 3 chains the same"):
        TrainingConfig(model="chain", chains=3, order="given")
    with pytest.raises(UserError, match="order 'size': expected one of frequency, random, given"):
        TrainingConfig(model="chain", order="size")
    with pytest.raises(UserError, match="beam 0: expected a number above 0"):
        TrainingConfig(model="chain", beam=0)

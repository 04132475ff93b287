import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from zlpr import metrics
from zlpr._errors import UserError
from zlpr.decoding import DECISION_METRICS, LabelCount, Threshold, TopK
from zlpr.decoding.label_count import _logistic_regression


def ranking_data(seed, samples=600, labels=10):
    """Scores that rank well, with an offset and a spread of each sample's own."""
    generator = np.random.default_rng(seed)
    counts = generator.integers(0, 5, size=(samples, 1))
    ranks = np.argsort(np.argsort(generator.random((samples, labels)), axis=1), axis=1)
    true = ranks < counts
    clean = true * 2.0 + generator.normal(scale=0.4, size=true.shape)
    scores = clean * generator.uniform(0.7, 1.4, (samples, 1)) + generator.normal(
        0, 3, (samples, 1)
    )
    return true, scores


@pytest.mark.parametrize("metric", DECISION_METRICS)
def test_counts_are_learned_where_a_threshold_or_one_k_fails(metric):
    (true, scores), (fresh_true, fresh_scores) = ranking_data(0), ranking_data(1)

    def goodness(rule):
        predicted = rule.fit(true, scores, metric)(fresh_scores)
        value = getattr(metrics, metric)(fresh_true, predicted)
        return value if metrics.METRICS[metric].larger_is_better else -value

    assert goodness(LabelCount()) > max(goodness(Threshold()), goodness(TopK()))


def test_sets_are_the_first_labels_of_the_ranking():
    true, scores = ranking_data(2)
    rule = LabelCount().fit(true, scores)
    chosen = rule(scores)
    ordered = np.take_along_axis(chosen, np.argsort(-scores, axis=1), axis=1)
    assert (np.diff(ordered.astype(int), axis=1) <= 0).all()
    assert 0 < chosen.sum(axis=1).min() + chosen.sum(axis=1).max() <= 2 * rule.max_count


def test_fitting_twice_gives_the_same():
    true, scores = ranking_data(3)
    assert LabelCount().fit(true, scores) == LabelCount().fit(true, scores)


def test_regression_is_sklearns():
    generator = np.random.default_rng(4)
    features = generator.normal(size=(300, 3))
    targets = features @ [1.0, -2.0, 0.5] + generator.normal(size=300) > 0.3
    # scikit-learn leaves the intercept free, so it is given as a feature
    design = np.concatenate([features, np.ones((300, 1))], axis=1)
    theirs = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000)
    theirs.fit(design, targets)
    ours = _logistic_regression(features, targets)
    np.testing.assert_allclose(ours, theirs.coef_[0], atol=1e-6)


def test_impossible_labels_and_degenerate_data():
    true, scores = ranking_data(5, samples=50)
    scores[:, 9], true[:, 9] = -np.inf, False
    rule = LabelCount().fit(true, scores)
    assert not rule(scores)[:, 9].any()
    assert not rule(np.full((1, 10), -np.inf))[:, rule.max_count :].any()
    nothing = LabelCount().fit(np.zeros((4, 3), bool), np.zeros((4, 3)))
    assert not nothing(np.ones((2, 3))).any()
    everything = LabelCount().fit(np.ones((4, 3), bool), np.zeros((4, 3)))
    assert everything(np.zeros((2, 3))).all()
    single = LabelCount().fit([[1], [0]], [[1.0], [-1.0]])
    assert single(np.array([[1.0], [-1.0]])).tolist() == [[True], [False]]


def test_unfitted_and_broken_rules_say_so():
    with pytest.raises(UserError, match="call fit first"):
        LabelCount()(np.zeros((1, 2)))
    with pytest.raises(UserError, match=r"7 weights, 6 means and scales, got \[2, 0, 0\]"):
        LabelCount(weights=[1.0, 2.0])

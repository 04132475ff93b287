import numpy as np
import pytest
import torch
from scipy import sparse

from zlpr import metrics
from zlpr._errors import UserError
from zlpr.decoding import (
    DECISION_METRICS,
    FeatureCount,
    FeatureThreshold,
    LabelCount,
    Threshold,
    TopK,
)


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
        return value if metrics.info(metric).larger_is_better else -value

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


@pytest.mark.parametrize("rule", [LabelCount, FeatureCount])
@pytest.mark.parametrize("candidates", [1, 2, 3, 5])
def test_few_candidates_are_learned_from_as_all_labels_with_the_others_impossible(rule, candidates):
    """Also where samples have more labels than candidates."""
    true, scores = ranking_data(9, samples=200)
    features = {"features": true.sum(axis=1, keepdims=True)} if rule is FeatureCount else {}
    few = metrics.TopScores.of(scores, candidates)
    of_few, of_all = (rule().fit(true, given, **features) for given in (few, few.to_dense()))
    assert of_few.max_count == of_all.max_count == 4
    np.testing.assert_allclose(of_few.weights, of_all.weights, rtol=1e-9)
    np.testing.assert_allclose(of_few.mean, of_all.mean, rtol=1e-9)
    assert of_few.cut == pytest.approx(of_all.cut, rel=1e-9)
    np.testing.assert_array_equal(
        of_few(few, **features).to_dense(), of_all(few.to_dense(), **features)
    )


def test_unfitted_and_broken_rules_say_so():
    with pytest.raises(UserError, match="call fit first"):
        LabelCount()(np.zeros((1, 2)))
    with pytest.raises(UserError, match="label_count expects 6 numbers in each list"):
        LabelCount(weights=[1.0, 2.0])
    with pytest.raises(UserError, match="max_count must be at least 0, got -1"):
        LabelCount(max_count=-1)
    with pytest.raises(UserError, match="scale must hold numbers above 0, got 0"):
        LabelCount(weights=[1.0] * 7, mean=[0.0] * 6, scale=[0.0] + [1.0] * 5)


def test_features_tell_the_number_that_scores_do_not():
    (true, _), generator = ranking_data(6), np.random.default_rng(7)
    order = generator.random(true.shape) - 2.0 * true  # the true labels first, no gap after them
    scores = -np.argsort(np.argsort(order, axis=1), axis=1).astype(float)
    features = np.stack([true.sum(axis=1), generator.normal(size=len(true))], axis=1)
    half = len(true) // 2
    blind = LabelCount().fit(true[:half], scores[:half], "subset_accuracy")
    told = FeatureCount().fit(
        true[:half], scores[:half], "subset_accuracy", features=features[:half]
    )
    exact = metrics.subset_accuracy(true[half:], told(scores[half:], features=features[half:]))
    assert exact > 0.95
    assert exact > metrics.subset_accuracy(true[half:], blind(scores[half:])) + 0.3


def test_features_are_asked_for():
    true, scores = ranking_data(8, samples=40)
    with pytest.raises(UserError, match="feature_count needs the features"):
        FeatureCount().fit(true, scores)
    rule = FeatureCount().fit(true, scores, features=np.ones((40, 3)))
    with pytest.raises(UserError, match="feature_count reads features"):
        rule(scores)
    with pytest.raises(UserError, match="features has 2 columns, the rule was fitted on 3"):
        rule(scores, features=np.ones((40, 2)))
    with pytest.raises(UserError, match=r"features has shape \(39, 3\), expected \(40, columns\)"):
        rule(scores, features=np.ones((39, 3)))


@pytest.mark.parametrize("rule", [FeatureCount, FeatureThreshold])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, torch.from_numpy])
@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_features_that_are_no_numbers_are_refused(rule, form, odd):
    true, scores = ranking_data(8, samples=40)
    features = np.random.default_rng(0).normal(size=(40, 3))
    fitted = rule().fit(true, scores, features=form(features))
    features[7, 1] = odd
    for use in (
        lambda f: rule().fit(true, scores, features=f),
        lambda f: fitted(scores, features=f),
    ):
        with pytest.raises(
            UserError, match="features has entries that are infinite or not numbers"
        ):
            use(form(features))


def test_features_may_be_in_bfloat16():
    true, scores = ranking_data(8, samples=40)
    features = torch.randint(0, 9, (40, 3), generator=torch.Generator().manual_seed(0))
    rule = FeatureCount().fit(true, scores, features=features)
    half = FeatureCount().fit(true, scores, features=features.bfloat16())
    np.testing.assert_array_equal(
        rule(scores, features=features), half(scores, features=features.bfloat16())
    )


@pytest.mark.parametrize("rule", [LabelCount, FeatureCount])
def test_a_score_of_infinity_stands_with_the_highest(rule):
    """Not with the lowest: a probability of 1 has such log-odds."""
    generator = np.random.default_rng(5)
    counts = generator.integers(1, 4, size=(600, 1))
    true = generator.permuted(np.tile(np.arange(8), (600, 1)), axis=1) < counts
    scores = 4.0 * true + generator.normal(scale=0.5, size=true.shape)
    certain = scores.copy()
    rows = np.flatnonzero(generator.random(600) < 0.5)
    certain[rows, scores[rows].argmax(axis=1)] = np.inf
    kept = [{"features": x} if rule is FeatureCount else {} for x in (counts[:300], counts[300:])]
    fitted = rule().fit(true[:300], certain[:300], "example_f1", **kept[0])
    assert metrics.example_f1(true[300:], fitted(certain[300:], **kept[1])) > 0.97

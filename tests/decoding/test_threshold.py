import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tests.metrics.cases import CASES, random_case
from zlpr import metrics
from zlpr._errors import UserError
from zlpr.decoding import DECISION_METRICS, PerLabelThreshold, Threshold, ZeroBound
from zlpr.losses import zlpr_loss
from zlpr.metrics import info

SWEPT = {name: case for name, case in CASES.items() if not name.startswith("wide")}


def goodness(metric, true, predicted, empty="paper"):
    value = getattr(metrics, metric)(true, predicted, empty=empty)
    return value if info(metric).larger_is_better else -value


def every_cut(scores):
    """One cut for every way to split the scores, from all predicted to none."""
    distinct = np.unique(scores)
    return [distinct[0] - 1, *((distinct[1:] + distinct[:-1]) / 2), distinct[-1]]


@pytest.mark.parametrize("empty", ["paper", "sklearn"])
@pytest.mark.parametrize("metric", DECISION_METRICS)
@pytest.mark.parametrize("case", SWEPT.values(), ids=SWEPT)
def test_no_threshold_is_better_than_the_fitted_one(case, metric, empty):
    rule = Threshold().fit(case.true, case.scores, metric, empty=empty)
    best = max(goodness(metric, case.true, case.scores > c, empty) for c in every_cut(case.scores))
    ours = goodness(metric, case.true, rule(case.scores), empty)
    assert ours == pytest.approx(best, abs=1e-9)


def test_a_fitted_threshold_is_the_zero_bound_on_shifted_scores():
    case = random_case(seed=40)
    rule = Threshold().fit(case.true, case.scores, "example_f1")
    assert rule.threshold != 0
    np.testing.assert_array_equal(rule(case.scores), ZeroBound()(case.scores - rule.threshold))
    # and the loss with that threshold is the loss of the shifted scores: TLPR
    scores, targets = torch.from_numpy(case.scores), torch.from_numpy(case.true)
    thresholded = zlpr_loss(scores, targets, threshold=rule.threshold)
    assert thresholded.item() == pytest.approx(zlpr_loss(scores - rule.threshold, targets).item())


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=2, max_size=9))
def test_the_threshold_separates_neighbouring_float32_scores(values):
    scores = np.array([values], dtype=np.float32)
    true = scores >= np.median(scores)
    rule = Threshold().fit(true, scores, "subset_accuracy")
    np.testing.assert_array_equal(rule(scores), true)


def test_adjacent_float32_scores_are_told_apart():
    low = np.float32(1.0)
    high = np.nextafter(low, np.float32(2.0))
    rule = Threshold().fit([[1, 0]], np.array([[high, low]]))
    assert rule(np.array([[high, low]])).tolist() == [[True, False]]
    assert rule(torch.tensor([[float(high), float(low)]])).tolist() == [[True, False]]


@pytest.mark.parametrize("metric", DECISION_METRICS)
@pytest.mark.parametrize("rule", [Threshold(), PerLabelThreshold(min_positives=1)])
def test_impossible_labels_are_never_predicted_nor_counted_on(rule, metric):
    case = random_case(samples=40, labels=4, density=0.6, seed=44)
    case.scores[::2, 0] = -np.inf
    case.scores[:, 3] = -np.inf
    fitted = rule.fit(case.true, case.scores, metric)
    assert not fitted(case.scores)[np.isneginf(case.scores)].any()
    cuts = [np.finfo(float).min, *every_cut(case.scores[np.isfinite(case.scores)])]
    best = max(goodness(metric, case.true, case.scores > c) for c in cuts)
    assert goodness(metric, case.true, fitted(case.scores)) >= best - 1e-9
    rule.fit(case.true, np.full_like(case.scores, -np.inf), metric)


def test_infinite_scores_leave_a_finite_threshold():
    scores = np.array([[1.0, -np.inf], [np.inf, -np.inf]])
    assert np.isfinite(Threshold().fit([[1, 0], [1, 0]], scores).threshold)
    assert np.isfinite(Threshold().fit([[1, 1], [1, 1]], scores).threshold)
    assert np.isfinite(Threshold().fit([[0, 0], [0, 0]], scores).threshold)


@pytest.mark.parametrize("metric", ["micro_f1", "macro_f1", "weighted_f1", "hamming_loss"])
@pytest.mark.parametrize("seed", range(4))
def test_no_thresholds_per_label_are_better_than_the_fitted_ones(metric, seed):
    """Against every combination of cuts of three labels."""
    case = random_case(samples=7, labels=3, density=0.5, seed=seed, ties=seed % 2 == 1)
    rule = PerLabelThreshold(min_positives=1).fit(case.true, case.scores, metric)
    cuts = itertools.product(*(every_cut(column) for column in case.scores.T))
    if metric != "hamming_loss":  # an absent label takes the shared threshold
        assert case.true.any(axis=0).all()
    best = max(goodness(metric, case.true, case.scores > np.array(cut)) for cut in cuts)
    assert goodness(metric, case.true, rule(case.scores)) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("metric", DECISION_METRICS)
@pytest.mark.parametrize("seed", range(3))
def test_own_thresholds_are_never_worse_than_one_for_all(metric, seed):
    case = random_case(samples=80, labels=8, density=0.3, seed=seed, dtype=np.float32)
    case.scores[:] += np.linspace(-2, 2, 8, dtype=np.float32)
    shared = Threshold().fit(case.true, case.scores, metric)
    own = PerLabelThreshold(min_positives=3).fit(case.true, case.scores, metric)
    ours = goodness(metric, case.true, own(case.scores))
    assert ours >= goodness(metric, case.true, shared(case.scores)) - 1e-9


@pytest.mark.parametrize("metric", ["example_f1", "jaccard", "subset_accuracy"])
def test_no_single_label_can_move_its_threshold_and_gain(metric):
    case = random_case(samples=30, labels=4, density=0.4, seed=41)
    rule = PerLabelThreshold(min_positives=1).fit(case.true, case.scores, metric)
    ours = goodness(metric, case.true, rule(case.scores))
    for label in range(4):
        for cut in every_cut(case.scores[:, label]):
            thresholds = np.array(rule.thresholds)
            thresholds[label] = cut
            assert goodness(metric, case.true, case.scores > thresholds) <= ours + 1e-9


@pytest.mark.parametrize("metric", DECISION_METRICS)
def test_rare_and_absent_labels_take_the_shared_threshold(metric):
    case = random_case(samples=60, labels=5, density=0.5, seed=42)
    case.true[:, 1] = False
    case.true[3:, 2] = False
    shared = Threshold().fit(case.true, case.scores, metric).threshold
    rule = PerLabelThreshold(min_positives=10).fit(case.true, case.scores, metric)
    assert rule.thresholds[1] == rule.thresholds[2] == shared
    assert any(threshold != shared for threshold in rule.thresholds)


def test_zero_bound_needs_no_fit_and_excludes_zero():
    rule = ZeroBound().fit([[1, 0]], [[0.5, 0.1]])
    assert rule(np.array([[1e-30, 0.0, -1e-30]])).tolist() == [[True, False, False]]


@pytest.mark.parametrize("rule", [ZeroBound(), Threshold(), PerLabelThreshold()])
@pytest.mark.parametrize(
    ("true", "scores", "metric", "words"),
    [
        ([[1, 0]], [[np.nan, 0]], "micro_f1", "y_score is NaN for sample 0, label 0"),
        ([[1, 0]], [[0.0, 0], [1, 1]], "micro_f1", r"y_score has shape \(2, 2\), y_true has"),
        ([[1, 0]], [[0.0, 0]], "average_precision", "does not depend on the decoding rule"),
        ([[1, 0]], [[0.0, 0]], "f1", "'f1' does not exist; fit for one of: subset_accuracy"),
        (np.zeros((0, 2)), np.zeros((0, 2)), "micro_f1", "nothing to fit on"),
    ],
)
def test_bad_input_is_named(rule, true, scores, metric, words):
    with pytest.raises(ValueError, match=words):
        rule.fit(true, scores, metric)


def test_other_labels_than_fitted_on_are_refused():
    rule = PerLabelThreshold(thresholds=[0.0, 1.0])
    with pytest.raises(UserError, match="y_score has 3 labels, the rule was fitted on 2"):
        rule(np.zeros((1, 3)))
    with pytest.raises(UserError, match="call fit first"):
        PerLabelThreshold()(np.zeros((1, 3)))


def test_sparse_truth_and_tensors_fit_alike():
    case = random_case(seed=43, dtype=np.float32)
    dense = PerLabelThreshold(min_positives=2).fit(case.true, case.scores)
    other = PerLabelThreshold(min_positives=2).fit(
        sparse.csr_array(case.true), torch.from_numpy(case.scores)
    )
    assert dense == other


@pytest.mark.parametrize("empty", ["paper", "sklearn"])
@pytest.mark.parametrize("metric", DECISION_METRICS)
@pytest.mark.parametrize("seed", range(6))
def test_no_finite_threshold_is_better_where_scores_are_infinite(metric, empty, seed, recwarn):
    """A score of +inf is above all of them: nothing may be predicted nowhere."""
    generator = np.random.default_rng(seed)
    true = generator.random((5, 3)) < 0.3
    scores = generator.choice([-np.inf, -1.0, 0.5, 2.0, np.inf], size=(5, 3))
    finite = [-5.0, -0.5, 1.0, 5.0]
    rule = Threshold().fit(true, scores, metric, empty=empty)
    best = max(goodness(metric, true, scores > cut, empty) for cut in finite)
    assert goodness(metric, true, rule(scores), empty) == pytest.approx(best, abs=1e-9)
    if metric in ("micro_f1", "macro_f1", "weighted_f1", "hamming_loss"):
        own = PerLabelThreshold(min_positives=1).fit(true, scores, metric, empty=empty)
        rare = ~(true & (scores > -np.inf)).any(axis=0)  # which take the shared threshold
        each = [[own.thresholds[i]] if rare[i] else finite for i in range(3)]
        cuts = itertools.product(*each)
        best = max(goodness(metric, true, scores > np.array(cut), empty) for cut in cuts)
        assert goodness(metric, true, own(scores), empty) == pytest.approx(best, abs=1e-9)
    assert not recwarn.list

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from zlpr import metrics
from zlpr._errors import UserError
from zlpr.decoding import Calibrator, ExpectedF1, expected_f1_curve
from zlpr.decoding.expected_f1 import _leaving_prices, _sure_bound


def all_sets(labels):
    return np.array(list(itertools.product([False, True], repeat=labels)))


def expected_f1(probabilities, chosen, empty):
    """Sum over all label sets of their probability times the F1 of each set in `chosen`."""
    truths = all_sets(len(probabilities))
    chances = np.where(truths, probabilities, 1 - probabilities).prod(axis=1)
    hits = np.atleast_2d(chosen).astype(float) @ truths.T
    sizes = np.atleast_2d(chosen).sum(axis=1, keepdims=True) + truths.sum(axis=1)
    f1 = np.where(sizes == 0, float(empty == "paper"), 2 * hits / np.maximum(sizes, 1))
    return f1 @ chances


PROBABILITIES = st.one_of(
    st.floats(0, 1), st.sampled_from([0.0, 1.0, 0.5, 1e-9, 1 - 1e-9]), st.floats(0, 0.05)
)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 8).flatmap(lambda n: hnp.arrays(np.float64, n, elements=PROBABILITIES)),
    st.sampled_from(["paper", "sklearn"]),
)
def test_curve_is_the_sum_over_all_label_sets(probabilities, empty):
    ordered = np.sort(probabilities)[::-1]
    curve = expected_f1_curve(ordered[None], len(ordered), empty=empty)[0]
    for size in range(len(ordered) + 1):
        chosen = np.arange(len(ordered)) < size
        assert curve[size] == pytest.approx(expected_f1(ordered, chosen, empty)[0], abs=1e-12)


@pytest.mark.parametrize("empty", ["paper", "sklearn"])
@pytest.mark.parametrize("labels", [1, 2, 5, 10])
def test_no_label_set_has_a_higher_expected_f1(labels, empty):
    """Against every one of the 2^L sets, not only those of the most probable labels."""
    generator = np.random.default_rng(labels)
    scores = generator.normal(-0.5, 1.5, size=(20, labels))
    rule = ExpectedF1(Calibrator(link_scale=1.0), empty=empty)
    for row, chosen in zip(scores, rule(scores), strict=True):
        probabilities = 1 / (1 + np.exp(-row))
        best = expected_f1(probabilities, all_sets(labels), empty).max()
        assert expected_f1(probabilities, chosen, empty)[0] == pytest.approx(best, abs=1e-12)


def test_hundreds_of_labels_agree_with_the_count_of_true_labels_spelled_out():
    """Against the distribution of the number of true labels, by dynamic programming."""
    generator = np.random.default_rng(0)
    ordered = np.sort(generator.beta(0.2, 3.0, size=300))[::-1]
    curve = expected_f1_curve(ordered[None], 60)[0]

    def count_distribution(probabilities):
        distribution = np.ones(1)
        for p in probabilities:
            distribution = np.convolve(distribution, [1 - p, p])
        return distribution

    for size in (1, 7, 60):
        inside, outside = count_distribution(ordered[:size]), count_distribution(ordered[size:])
        hits, missed = np.arange(len(inside))[:, None], np.arange(len(outside))
        f1 = 2 * hits / (size + hits + missed)
        assert curve[size] == pytest.approx(inside @ f1 @ outside, abs=1e-12)


def test_bound_on_the_number_of_true_labels_holds():
    generator = np.random.default_rng(1)
    for mean_scale in (0.01, 0.1, 0.5):
        probabilities = generator.random(200) * mean_scale
        distribution = np.ones(1)
        for p in probabilities:
            distribution = np.convolve(distribution, [1 - p, p])
        bound = _sure_bound(float(probabilities.sum()), 200)
        assert distribution[bound + 1 :].sum() < 1e-13
        assert mean_scale == 0.5 or bound < 200


def test_large_sets_are_found():
    """Sets far larger than the size at which the curves start."""
    scores = np.concatenate([np.full((2, 70), 3.0), np.full((2, 30), -3.0)], axis=1)
    chosen = ExpectedF1(Calibrator(link_scale=1.0))(scores)
    np.testing.assert_array_equal(chosen, scores > 0)


def test_predicting_nothing_is_an_answer_where_it_counts():
    scores = np.full((1, 3), -2.0)
    calibrator = Calibrator(link_scale=1.0)
    assert not ExpectedF1(calibrator, empty="paper")(scores).any()
    assert ExpectedF1(calibrator, empty="sklearn")(scores).any()
    certain = np.full((1, 3), -np.inf)
    assert not ExpectedF1(calibrator, empty="sklearn")(certain).any()


def independent_data(seed, samples=3000, labels=12):
    generator = np.random.default_rng(seed)
    scores = generator.normal(-1.5, 1.5, size=(samples, labels))
    true = generator.random(scores.shape) < 1 / (1 + np.exp(-2 * scores))
    return true, scores


def test_beats_every_threshold_on_fresh_independent_labels():
    true, scores = independent_data(0)
    fresh_true, fresh_scores = independent_data(1)
    rule = ExpectedF1().fit(true, scores, "example_f1")
    ours = metrics.example_f1(fresh_true, rule(fresh_scores))
    others = [metrics.example_f1(fresh_true, fresh_scores > t) for t in np.linspace(-2, 1, 31)]
    assert ours > max(others)


@pytest.mark.parametrize("metric", ["micro_f1", "subset_accuracy", "hamming_loss"])
def test_price_is_the_best_there_is_for_the_metric(metric):
    true, scores = independent_data(2, samples=150, labels=6)
    rule = ExpectedF1().fit(true, scores, metric)

    def goodness(price):
        chosen = ExpectedF1(rule.calibrator, price=price)(scores)
        value = getattr(metrics, metric)(true, chosen)
        return value if metrics.info(metric).larger_is_better else -value

    assert goodness(rule.price) >= max(goodness(p) for p in np.linspace(-0.3, 0.6, 181)) - 1e-12


@pytest.mark.parametrize(
    ("true", "scores"),
    [
        ([[0], [0], [1], [1], [1]], [[-0.5], [-1.5], [-0.5], [-1.5], [-1.0]]),
        ([[0], [0], [0], [1], [1]], [[-0.5], [np.inf], [np.inf], [0.0], [0.5]]),
        ([[1, 1, 1, 1]], [[1.0, 1.0, -1.0, 0.5]]),
    ],
)
def test_no_rounding_takes_labels_from_a_price_beyond_all_that_labels_are_worth(true, scores):
    scores = np.array(scores)
    rule = ExpectedF1().fit(true, scores, "micro_f1")

    def goodness(price):
        return metrics.micro_f1(true, ExpectedF1(rule.calibrator, price=price)(scores))

    assert goodness(rule.price) >= max(goodness(p) for p in np.linspace(-0.5, 1.1, 1601))


def test_leaving_prices_are_the_slopes_of_the_concave_majorant():
    curve = np.random.default_rng(3).random((50, 9))
    prices = _leaving_prices(curve)
    assert (np.diff(prices, axis=1) <= 1e-12).all()
    for price in np.linspace(-1, 1, 41):
        sizes = np.argmax(curve - price * np.arange(9), axis=1)
        np.testing.assert_array_equal((prices > price).sum(axis=1), sizes)


def test_example_f1_keeps_the_price_at_zero():
    true, scores = independent_data(4, samples=200)
    assert ExpectedF1().fit(true, scores, "example_f1").price == 0.0


def test_bad_parameters_are_refused():
    with pytest.raises(UserError, match="price must be a finite number"):
        ExpectedF1(price=float("nan"))
    with pytest.raises(ValueError, match="empty must be"):
        ExpectedF1(empty="zero")


def test_of_tied_labels_the_first_ones_are_predicted():
    """Not those that a processor's sort happens to leave in front."""
    scores = np.full((1, 40), -1.0)
    places = np.flatnonzero(np.random.default_rng(0).random(40) < 0.5)
    scores[0, places] = 1.0
    rule = ExpectedF1(Calibrator(link_scale=0.01, bias=-3.0), price=0.007, empty="sklearn")
    chosen = np.flatnonzero(rule(scores)[0])
    assert 0 < len(chosen) < len(places)
    np.testing.assert_array_equal(chosen, places[: len(chosen)])

import numpy as np
import pytest

from zlpr._errors import UserError
from zlpr.decoding import (
    ReliabilityCurve,
    expected_calibration_error,
    label_calibration_error,
    reliability_curve,
)


def test_reliability_curve_written_out():
    generator = np.random.default_rng(3)
    probabilities = generator.random((50, 4)).astype(np.float32)
    probabilities[0] = [0.0, 1.0, 0.2, 0.4]
    true = generator.random((50, 4)) < probabilities
    curve = reliability_curve(true, probabilities, bins=5)
    error = 0.0
    for lower, upper, predicted, observed, count in zip(
        curve.lower, curve.upper, curve.predicted, curve.observed, curve.count, strict=True
    ):
        inside = (probabilities > np.float32(lower)) & (probabilities <= np.float32(upper))
        if lower == 0:
            inside |= probabilities == 0
        assert count == inside.sum()
        assert predicted == pytest.approx(probabilities[inside].mean(), abs=1e-6)
        assert observed == pytest.approx(true[inside].mean(), abs=1e-12)
        error += count / true.size * abs(true[inside].mean() - probabilities[inside].mean())
    assert expected_calibration_error(true, probabilities, bins=5) == pytest.approx(error, abs=1e-6)


def test_empty_bins_are_nan_and_cost_nothing():
    curve = reliability_curve([[1, 0]], [[0.95, 0.05]], bins=10)
    assert curve.count.tolist() == [1, *[0] * 8, 1]
    assert np.isnan(curve.observed[1:-1]).all()
    assert curve.expected_calibration_error == pytest.approx(0.05)


def test_scores_are_not_taken_for_probabilities():
    with pytest.raises(UserError, match=r"must lie in \[0, 1\], found -3 to 2"):
        reliability_curve([[1, 0]], [[2.0, -3.0]])


def test_label_calibration_error_written_out():
    generator = np.random.default_rng(5)
    probabilities = generator.random((200, 3)) ** 4
    true = generator.random((200, 3)) < probabilities**0.7
    curve = reliability_curve(true, probabilities, bins=4)
    error = weight = 0.0
    for lower, upper in zip(curve.lower, curve.upper, strict=True):
        inside = (probabilities > lower) & (probabilities <= upper)
        labels = true[inside].sum() + probabilities[inside].sum()
        error += labels * abs(true[inside].mean() - probabilities[inside].mean())
        weight += labels
    found = label_calibration_error(true, probabilities, bins=4)
    assert found == pytest.approx(error / weight)


def test_cells_near_zero_swamp_the_one_error_and_not_the_other():
    generator = np.random.default_rng(6)
    sure = np.full((500, 1), 0.8)
    true = generator.random((500, 1)) < 0.4  # announced twice as often as it happens
    padded = np.concatenate([sure, np.full((500, 999), 1e-6)], axis=1)
    padded_true = np.concatenate([true, np.zeros((500, 999), bool)], axis=1)
    alone = label_calibration_error(true, sure)
    assert alone == pytest.approx(0.4, abs=0.05)
    assert label_calibration_error(padded_true, padded) == pytest.approx(alone, rel=0.01)
    assert expected_calibration_error(padded_true, padded) < 0.001


def test_no_label_announced_and_none_true_is_no_error():
    assert label_calibration_error(np.zeros((3, 2)), np.zeros((3, 2))) == 0.0


def test_curves_of_parts_join_to_that_of_the_whole():
    random = np.random.default_rng(0)
    probabilities = random.random((60, 7)) ** 3
    truth = random.random((60, 7)) < probabilities
    whole = reliability_curve(truth, probabilities)
    parts = [reliability_curve(truth[r], probabilities[r]) for r in (slice(0, 1), slice(1, 60))]
    joined = ReliabilityCurve.joined(parts)
    np.testing.assert_array_equal(joined.count, whole.count)
    np.testing.assert_allclose(joined.observed, whole.observed)
    np.testing.assert_allclose(joined.predicted, whole.predicted)

import numpy as np
import pytest

from tests.metrics.cases import random_case
from zlpr.metrics import LabelFrequencies, MetricSet, by_frequency, label_report

CASE = random_case(samples=200, labels=30, density=0.1, seed=70)


def test_propensities_are_jains():
    counts, samples, a, b = np.array([0, 1, 7, 1000]), 50_000, 0.6, 2.6
    seen = LabelFrequencies(counts, samples, a, b)
    c = (np.log(samples) - 1) * (b + 1) ** a
    expected = [1 / (1 + c * np.exp(-a * np.log(count + b))) for count in counts]
    np.testing.assert_allclose(seen.propensity, expected)
    assert (np.diff(seen.propensity) > 0).all()
    assert LabelFrequencies(np.array([1, 2]), 2).propensity.max() <= 1  # log 2 < 1


def test_groups_hold_a_third_of_the_occurrences_each():
    counts = np.array([1, 30, 10, 10, 10, 9, 9, 8, 3, 0])
    groups = LabelFrequencies(counts, 100).groups
    assert groups.tolist() == [2, 0, 1, 1, 1, 2, 2, 2, 2, 2]
    assert counts[groups == 0].sum() == counts[groups == 1].sum() == 30


def test_counts_are_those_of_the_training_part():
    seen = LabelFrequencies.of(CASE.true)
    np.testing.assert_array_equal(seen.counts, CASE.true.sum(axis=0))
    assert seen.samples == 200


def test_figures_of_a_group_are_those_of_its_labels():
    seen = LabelFrequencies.of(CASE.true)
    report = label_report(CASE.true, CASE.predicted)
    groups = by_frequency(report, seen)
    assert [group.name for group in groups] == ["head", "torso", "tail"]
    assert sum(group.support for group in groups) == CASE.true.sum()
    assert sum(group.labels for group in groups) == 30
    for number, group in enumerate(groups):
        own = seen.groups == number
        true, predicted = CASE.true[:, own], CASE.predicted[:, own]
        assert group.recall == pytest.approx((true & predicted).sum() / true.sum())
        assert group.macro_f1 == pytest.approx(report.f1[own][true.any(axis=0)].mean())
    figures = MetricSet(30, frequencies=seen)
    figures.update(CASE.true, y_pred=CASE.predicted)
    assert figures.compute()["recall_tail"] == groups[2].recall
    assert figures.by_frequency() == groups


@pytest.mark.parametrize(
    ("counts", "samples", "more", "said"),
    [
        (np.array([[1]]), 2, {}, "whole numbers of shape"),
        (np.array([0.5]), 2, {}, "whole numbers of shape"),
        (np.array([3]), 2, {}, "within 0 and the 2 samples"),
        (np.array([1]), 2, {"a": -1.0}, "a must lie within"),
        (np.array([1]), 2, {"b": float("nan")}, "b must lie within"),
        (np.array([0, 1]), 2, {"b": 0.0}, "b must be above 0"),
    ],
)
def test_what_cannot_be_frequencies_is_refused(counts, samples, more, said):
    with pytest.raises(ValueError, match=said):
        LabelFrequencies(counts, samples, **more)


def test_frequencies_are_of_some_samples():
    with pytest.raises(ValueError, match="samples must be at least 1"):
        LabelFrequencies(np.array([0]), samples=0)

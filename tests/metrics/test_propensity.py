"""Propensity-scored metrics against pyxclib's definitions written out."""

import numpy as np
import pytest

from tests.metrics.cases import CASES, random_case
from zlpr import metrics
from zlpr.metrics import LabelFrequencies, MetricSet, TopScores

KS = (1, 3, 5)


def frequencies(labels, seed=0):
    counts = np.random.default_rng(seed).integers(0, 100, size=labels)
    return LabelFrequencies(counts, 1000)


def by_definition(true, order, weights, k):
    """Gains of the first k labels of an order: weighted hits, per label, discounted."""
    hits = np.zeros(3)
    for own, ranked in zip(true, order, strict=True):
        count = int(own.sum())
        if count == 0:
            continue
        ideal = sum(1 / np.log2(1 + r) for r in range(1, min(k, count) + 1))
        for rank, label in enumerate(ranked[:k], start=1):
            gain = weights[label] * own[label]
            hits += [gain, gain / count, gain / np.log2(1 + rank) / ideal]
    return hits


@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize("name", ["sparse", "dense", "float32", "wide", "one sample"])
def test_they_are_what_was_gained_over_the_best_possible(name, k):
    case = CASES[name]
    seen = frequencies(case.true.shape[1])
    weights = 1 / seen.propensity
    gained = by_definition(case.true, np.argsort(-case.scores, axis=1), weights, k)
    best = by_definition(case.true, np.argsort(-(case.true * weights), axis=1), weights, k)
    expected = gained / best
    functions = (metrics.ps_precision_at_k, metrics.ps_recall_at_k, metrics.ps_ndcg_at_k)
    for function, value in zip(functions, expected, strict=True):
        assert function(case.true, case.scores, seen, k=k) == pytest.approx(value, abs=1e-12)


def test_ties_count_by_expectation():
    seen = LabelFrequencies(np.array([50, 1]), 100)
    weight = 1 / seen.propensity
    value = metrics.ps_precision_at_k([[1, 0]], [[0.5, 0.5]], seen, k=1)
    assert value == pytest.approx(0.5 * weight[0] / weight[0])


def test_equal_propensities_leave_the_plain_ratios():
    case = random_case(samples=100, labels=20, seed=3)
    seen = LabelFrequencies(np.full(20, 10), 100)
    first = np.minimum(case.true.sum(axis=1), 3).sum() / 3 / 100
    plain = metrics.precision_at_k(case.true, case.scores, k=3)
    assert metrics.ps_precision_at_k(case.true, case.scores, seen, k=3) == pytest.approx(
        plain / first
    )


@pytest.mark.parametrize("name", CASES)
def test_a_stream_of_candidates_gives_the_same(name):
    case = CASES[name]
    seen = frequencies(case.true.shape[1])
    few = TopScores.of(case.scores, max(1, case.scores.shape[1] // 2))
    stream = MetricSet(case.true.shape[1], frequencies=seen)
    half = len(few) // 2
    for rows in (slice(0, half), slice(half, None)):
        stream.update(case.true[rows], few[rows])
    figures = stream.compute()
    whole = metrics.evaluate(case.true, few.to_dense(), frequencies=seen)
    assert figures == pytest.approx(whole, abs=1e-12)
    assert metrics.ps_ndcg_at_k(case.true, few, seen) == pytest.approx(figures["ps_ndcg_at_5"])


def test_sets_with_other_frequencies_do_not_merge():
    left, right = MetricSet(2, frequencies=frequencies(2)), MetricSet(2)
    with pytest.raises(ValueError, match="frequencies in training differ"):
        left.merge(right)
    with pytest.raises(ValueError, match="of 3 labels, expected 2"):
        MetricSet(2, frequencies=frequencies(3))


def test_without_frequencies_they_are_left_out():
    names = metrics.evaluate([[1, 0]], [[0.5, 0.1]], [[1, 0]])
    assert not any(name.startswith("ps_") or name.endswith("_tail") for name in names)

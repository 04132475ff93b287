"""Where each true label stands among all labels of its sample.

Average precision, ranking loss, coverage, one-error and everything "at k" are functions of these
positions alone, and a sample has few true labels: counting beats sorting until a sample has
about log2(L) of them.
"""

from dataclasses import dataclass, field
from math import log2
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from zlpr.metrics._inputs import FloatArray, IntArray, SampleLabels
from zlpr.metrics.top_scores import TopScores


@dataclass(frozen=True)
class PositiveRanks:
    """Positions of the true labels of a block, one entry per true label, ordered by sample.

    With `s` the score of a true label of a sample:

    Attributes:
        rows: the sample, shape (nnz,).
        counts: how many true labels each sample has, shape (samples,).
        num_labels: L.
        at_or_above: labels of the sample with a score >= s (the worst rank among ties).
        above: labels of the sample with a score > s, or None where not asked for.
        true_at_or_above: true labels of the sample with a score >= s.
        weights: of the true labels, where they were given; empty otherwise.
    """

    rows: IntArray
    counts: IntArray
    num_labels: int
    at_or_above: IntArray
    above: IntArray | None
    true_at_or_above: IntArray
    weights: FloatArray = field(default_factory=lambda: np.empty(0))

    def sum_by_sample(self, values: FloatArray | IntArray) -> FloatArray:
        """Add up one value per true label to one per sample."""
        sums: Any = np.bincount(self.rows, weights=values, minlength=len(self.counts))
        return np.asarray(sums, dtype=np.float64)


def positive_ranks(
    scores: FloatArray | TopScores,
    true: SampleLabels,
    *,
    above: bool = False,
    weights: FloatArray | None = None,
) -> PositiveRanks:
    """Find the positions of the true labels of a block of samples.

    Args:
        scores: of the samples.
        true: their true labels.
        above: whether to count the labels strictly above as well.
        weights: of the labels, shape (labels,), to be brought into the order of the positions.
    """
    if isinstance(scores, TopScores):
        own, shown = _scores_of(scores, true), scores.scores
    else:
        own, shown = scores[true.rows, true.columns], scores
    width = int(true.counts.max(initial=0))
    filled = np.arange(width) < true.counts[:, None]
    # Each row holds its true labels' scores in ascending order; the padding stands last and
    # is never below a score, so it is never counted.
    values = np.full((len(shown), width), np.inf, dtype=shown.dtype)
    values[filled] = own
    order = None if weights is None else np.argsort(values, axis=1, kind="stable")
    values.sort(axis=1)
    rank = _count if width <= log2(shown.shape[1] + 1) else _sort
    at_or_above, strictly_above = rank(shown, values, above)
    if isinstance(scores, TopScores):  # what is at -inf is tied with all that is no candidate
        at_or_above[values == -np.inf] = true.num_labels
    return PositiveRanks(
        true.rows,
        true.counts,
        true.num_labels,
        at_or_above[filled],
        None if strictly_above is None else strictly_above[filled],
        (true.counts[:, None] - _first_equal(values))[filled],
        np.empty(0) if weights is None or order is None else _ordered(weights, true, filled, order),
    )


def _ordered(
    weights: FloatArray, true: SampleLabels, filled: NDArray[np.bool_], order: IntArray
) -> FloatArray:
    """The weights of the true labels, in the order of their scores within each sample."""
    padded = np.zeros(filled.shape)
    padded[filled] = weights[true.columns]
    return np.take_along_axis(padded, order, axis=1)[filled]


def _scores_of(scores: TopScores, true: SampleLabels) -> FloatArray:
    """The score of each true label, -inf for one that is no candidate."""
    if scores.scores.size == 0:  # no sample has a candidate
        return np.full(len(true.rows), -np.inf, dtype=scores.scores.dtype)
    ordered = scores.by_label()
    place, found = ordered.find(true.rows, true.columns)
    return np.where(found, ordered.scores.ravel()[place], -np.inf)


def _count(scores: FloatArray, values: FloatArray, above: bool) -> tuple[IntArray, IntArray | None]:
    """Compare every score with each true label's score: `width` passes over the scores."""
    width = values.shape[1]
    at_or_above = np.empty(values.shape, dtype=np.int64)
    strictly_above = np.empty(values.shape, dtype=np.int64) if above else None
    for position in range(width):
        value = values[:, position, None]
        at_or_above[:, position] = _true_per_row(scores >= value)
        if strictly_above is not None:
            strictly_above[:, position] = _true_per_row(scores > value)
    return at_or_above, strictly_above


def _true_per_row(flags: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> IntArray:
    """Count the True entries of each row; summing as bytes is faster than `count_nonzero`."""
    counts: IntArray = np.add.reduce(flags.view(np.int8), axis=1, dtype=np.int32)
    return counts


def _sort(scores: FloatArray, values: FloatArray, above: bool) -> tuple[IntArray, IntArray | None]:
    """Sort each row once, then look every true label up in it."""
    ascending = torch.from_numpy(np.sort(np.ascontiguousarray(scores), axis=1))
    wanted, labels = torch.from_numpy(values), scores.shape[1]
    at_or_above = labels - torch.searchsorted(ascending, wanted).numpy()
    if not above:
        return at_or_above, None
    return at_or_above, labels - torch.searchsorted(ascending, wanted, right=True).numpy()


def _first_equal(ascending: FloatArray) -> IntArray:
    """For each entry of ascending rows, the position of the first entry equal to it."""
    position = np.broadcast_to(np.arange(ascending.shape[1]), ascending.shape).copy()
    position[:, 1:][ascending[:, 1:] == ascending[:, :-1]] = 0
    first: IntArray = np.maximum.accumulate(position, axis=1)
    return first

r"""The best cut of scores for a metric, exactly.

Every metric of label sets is a weighted sum over groups of cells (samples, labels, or all cells at
once) of a function of three counts: predicted, true, and both. Lower a cut through the sorted
scores and one cell after another joins the predictions; its group's function changes by a known
amount, so a running sum gives the metric at every cut there is, and the best is looked up. Cells
with equal scores join together.

Most cells never need sorting: with k cells of a group predicted, its function is at most what it
would be if all its true cells were among them. Where the sum of these bounds falls below a value
already reached, no lower cut can be the best.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlpr.decoding._rule import BoolArray, FloatArray, Validation
from zlpr.decoding._shortlist import Shortlist

Values = NDArray[np.float64]
Counts = NDArray[np.integer[Any]]

_AXIS = {"micro_f1": None, "hamming_loss": None, "macro_f1": 0, "weighted_f1": 0}


@dataclass(frozen=True)
class Cut:
    """Predict where the score exceeds `cut`; `value` is the metric that gives (larger is better).

    For Hamming loss the value is minus the loss.
    """

    cut: float
    value: float


class Objective:
    """A metric as a weighted sum over groups of cells.

    Attributes:
        axis: cells of a group lie along it; None for one group of all cells.
        sizes: true cells of each group, shape (groups,).
        weights: of the groups, shape (groups,) or (1,).
    """

    def __init__(self, data: Validation) -> None:
        self.data, self.axis = data, _AXIS.get(data.metric, 1)
        totals = {0: data.label_sizes, 1: data.sample_sizes}
        self.sizes = (
            data.label_sizes().sum(keepdims=True) if self.axis is None else totals[self.axis]()
        )
        if data.metric == "weighted_f1":
            self.weights = self.sizes / max(1, int(self.sizes.sum()))
        else:
            self.weights = np.array([1 / len(self.sizes)])

    def count(self, cells: BoolArray) -> Counts:
        """Cells of each group that are set."""
        if self.axis == 0:
            return self.data.count_by_label(cells)
        return np.atleast_1d(np.add.reduce(cells, axis=self.axis, dtype=np.int64))

    def group_of(self, rows: Counts, columns: Counts) -> Counts:
        """Group of each cell."""
        if self.axis == 0 and self.data.shortlist is not None:
            return self.data.shortlist.labels[rows, columns]
        return {None: np.zeros_like(rows), 0: columns, 1: rows}[self.axis]

    def total(self, hits: Counts, predicted: Counts) -> float:
        """The metric, from counts per group."""
        return float((self.weights * set_values(self.data, hits, predicted, self.sizes)).sum())

    def nothing(self) -> float:
        """The metric of predicting nothing."""
        none = np.zeros_like(self.sizes)
        return self.total(none, none)

    def bound(self, predicted: Counts) -> float:
        """What the metric cannot exceed once at least so many cells of each group are predicted."""
        return self.total(self.sizes, np.maximum(predicted, self.sizes))


def best_cut(data: Validation) -> Cut:
    """The cut that makes the metric best, of all cuts there are."""
    objective = Objective(data)
    # A score of -inf (an impossible label) exceeds no cut.
    useful = (data.scores >= _lowest_useful_score(objective)) & (data.scores > -np.inf)
    rows, columns = np.nonzero(useful)
    if len(rows) == 0:
        return Cut(0.0, objective.nothing())
    scores = data.scores[rows, columns]
    order = np.argsort(-scores)
    rows, columns, scores = rows[order], columns[order], scores[order]
    gains = _gains(objective, objective.group_of(rows, columns), data.true[rows, columns])
    nothing = objective.nothing()
    return choose(scores, nothing + np.cumsum(gains), nothing)


def _lowest_useful_score(objective: Objective) -> Any:
    """A score below which no cut can be the best."""
    data = objective.data
    cells, true = data.scores.size, max(1, int(data.true.sum()))
    kept = np.unique(np.minimum(true * 2 ** np.arange(63 - true.bit_length()), cells))
    levels = np.partition(data.scores, cells - kept, axis=None)[cells - kept]
    best = -np.inf if np.isposinf(data.scores).any() else objective.nothing()
    for level in levels:
        if level == -np.inf:
            return level
        above = data.scores >= level
        predicted = objective.count(above)
        if objective.bound(predicted) < best - 1e-9:
            return level
        best = max(best, objective.total(objective.count(above & data.true), predicted))
    return levels[-1]


def _gains(objective: Objective, group: Counts, true: BoolArray) -> Values:
    """What each cell, in the order of joining, adds to the metric."""
    by_group = np.argsort(group, kind="stable")
    group, true = group[by_group], true[by_group]
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    members = np.diff(starts, append=len(group))
    found = np.cumsum(true, dtype=np.int64)
    found_before = np.repeat(found[starts] - true[starts], members)
    predicted = np.arange(1, len(group) + 1) - np.repeat(starts, members)
    hits, sizes = found - found_before, objective.sizes[group]
    after = set_values(objective.data, hits, predicted, sizes)
    before = set_values(objective.data, hits - true, predicted - 1, sizes)
    weights = objective.weights[group] if len(objective.weights) > 1 else objective.weights
    gains = np.empty(len(group))
    gains[by_group] = weights * (after - before)
    return gains


def set_values(data: Validation, hits: Counts, predicted: Counts, sizes: Counts) -> Values:
    """The metric of single groups of cells.

    Args:
        data: names the metric and the convention for empty sets.
        hits: true among the predicted cells.
        predicted: predicted cells.
        sizes: true cells.
    """
    if data.metric == "subset_accuracy":
        exact: Values = ((hits == sizes) & (predicted == sizes)).astype(np.float64)
        return exact
    if data.metric == "hamming_loss":
        return (2 * hits - predicted - sizes) / data.num_cells
    union = predicted + sizes - hits
    numerator, denominator = (
        (hits, union) if data.metric == "jaccard" else (2 * hits, predicted + sizes)
    )
    values: Values = numerator / np.maximum(denominator, 1)
    return values + (union == 0) if data.empty == "paper" else values


def choose(descending: FloatArray, values: Values, nothing: float) -> Cut:
    """Pick the best cut of a sweep; among equals the one that predicts least.

    Cuts are finite, so that a score of +inf is above all of them.

    Args:
        descending: scores from high to low, shape (cells,).
        values: the metric once each cell and those before it are predicted, shape (cells,).
        nothing: the metric with nothing predicted.
    """
    ends = np.flatnonzero(np.append(descending[:-1] != descending[1:], True))
    best = int(ends[np.argmax(values[ends])])
    if nothing >= values[best] and descending[0] < np.inf:
        return Cut(float(finite(descending[0])), nothing)
    below = descending[best + 1] if best + 1 < len(descending) else -np.inf
    return Cut(float(between(below, descending[best])), float(values[best]))


def between(below: Any, above: Any) -> Any:
    """Finite numbers c with below <= c < above, halfway where that exists in their own type."""
    above = np.asarray(above)
    below = np.asarray(below, dtype=above.dtype)
    with np.errstate(invalid="ignore"):  # between two infinities there is no middle
        middle = below / 2 + above / 2
    inside = np.isfinite(middle) & (below <= middle) & (middle < above)
    lowest = np.asarray(-np.inf, dtype=above.dtype)
    edge = np.where(np.isfinite(below), below, finite(np.nextafter(above, lowest)))
    return np.where(inside, middle, edge)


def finite(numbers: Any) -> Any:
    """The numbers, or the nearest finite ones of their type: configurations are JSON."""
    limits = np.finfo(np.asarray(numbers).dtype)
    return np.clip(numbers, limits.min, limits.max)


def predicted_above(
    scores: FloatArray, cut: float | list[float], shortlist: Shortlist | None = None
) -> BoolArray:
    """Where scores exceed a cut (one, or one per label), compared in the scores' own type."""
    cuts = np.asarray(cut, dtype=scores.dtype)
    if shortlist is not None and cuts.ndim:
        cuts = shortlist.take(cuts)
    above: BoolArray = scores > cuts
    return above

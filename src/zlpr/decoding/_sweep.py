r"""The best cut of scores for a metric, exactly.

Lower a cut through the sorted scores and one cell after another joins the predictions. Each
metric changes by a known amount as a cell joins, so a running sum gives its value at every cut
that can be made, and the best is looked up. Cells with equal scores join together.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlpr.decoding._rule import BoolArray, FloatArray, Validation

Values = NDArray[np.float64]
Counts = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Cut:
    """Predict where the score exceeds `cut`; `value` is the metric that gives (larger is better).

    For Hamming loss the value is minus the loss.
    """

    cut: float
    value: float


def best_cut(data: Validation) -> Cut:
    """The cut that makes the metric best, of all cuts there are."""
    if data.metric == "micro_f1":
        return _best_micro_f1(data)
    scores, gains, nothing = _gains(data)
    order = np.argsort(-scores)
    values = nothing + np.cumsum(gains[order])
    return choose(scores[order], values, nothing)


def choose(descending: FloatArray, values: Values, nothing: float) -> Cut:
    """Pick the best cut of a sweep; among equals the one that predicts least.

    Args:
        descending: scores from high to low, shape (cells,).
        values: the metric once each cell and those before it are predicted, shape (cells,).
        nothing: the metric with nothing predicted.
    """
    last_of_tie = np.append(descending[:-1] != descending[1:], True)
    ends = np.flatnonzero(last_of_tie)
    best = int(ends[np.argmax(values[ends])])
    if nothing >= values[best]:
        return Cut(finite(descending[0]), nothing)
    below = descending[best + 1] if best + 1 < len(descending) else -np.inf
    return Cut(between(below, descending[best]), float(values[best]))


def between(below: Any, above: Any) -> float:
    """A finite number c with below <= c < above, halfway where that exists in their own type."""
    middle = below / 2 + above / 2
    if np.isfinite(middle) and below <= middle < above:
        return float(middle)
    if np.isfinite(below):
        return float(below)
    return finite(np.nextafter(above, np.asarray(-np.inf, dtype=above.dtype)))


def finite(number: Any) -> float:
    """The number, or the nearest finite one of its type: configurations are JSON."""
    limits = np.finfo(number.dtype)
    return float(np.clip(number, limits.min, limits.max))


def _best_micro_f1(data: Validation) -> Cut:
    scores, total = data.scores.ravel(), data.true.sum()
    order = np.argsort(-scores)
    hits = np.cumsum(data.true.ravel()[order])
    values = 2 * hits / (np.arange(1, len(order) + 1) + total)
    return choose(scores[order], values, float(total == 0 and data.empty == "paper"))


def _gains(data: Validation) -> tuple[FloatArray, Values, float]:
    """Scores of all cells, what each adds to the metric, and the metric of predicting nothing."""
    if data.metric == "hamming_loss":
        gains = np.where(data.true, 1.0, -1.0) / data.true.size
        return data.scores.ravel(), gains.ravel(), -float(data.true.mean())
    if data.metric in ("macro_f1", "weighted_f1"):
        scores, true = data.scores.T, data.true.T
    else:
        scores, true = data.scores, data.true
    order = np.argsort(-scores, axis=1)
    hits = np.cumsum(np.take_along_axis(true, order, axis=1), axis=1, dtype=np.int64)
    sizes: Counts = true.sum(axis=1)
    weights = sizes / max(1, sizes.sum()) if data.metric == "weighted_f1" else 1 / len(true)
    none = np.zeros_like(sizes)
    start = set_values(data, none, none, sizes) * weights
    predicted = np.arange(1, true.shape[1] + 1)
    values = set_values(data, hits, predicted, sizes[:, None]) * np.reshape(weights, (-1, 1))
    gains = np.diff(values, axis=1, prepend=start[:, None])
    return np.take_along_axis(scores, order, axis=1).ravel(), gains.ravel(), float(start.sum())


def set_values(data: Validation, hits: Counts, predicted: Counts, sizes: Counts) -> Values:
    """The metric of single sets (of a sample's labels, or of a label's samples).

    Args:
        data: names the metric and the convention for empty sets.
        hits: true among the predicted.
        predicted: size of the predicted set.
        sizes: size of the true set.
    """
    if data.metric == "subset_accuracy":
        exact: Values = ((hits == sizes) & (predicted == sizes)).astype(np.float64)
        return exact
    union = predicted + sizes - hits
    numerator, denominator = (
        (hits, union) if data.metric == "jaccard" else (2 * hits, predicted + sizes)
    )
    values: Values = numerator / np.maximum(denominator, 1)
    return values + (union == 0) if data.empty == "paper" else values


def predicted_above(scores: FloatArray, cut: float | list[float]) -> BoolArray:
    """Where scores exceed a cut (one, or one per label), compared in the scores' own type."""
    above: BoolArray = scores > np.asarray(cut, dtype=scores.dtype)
    return above

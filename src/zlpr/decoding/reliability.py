"""How far probabilities can be trusted: what was announced against what came true."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from zlpr._errors import UserError
from zlpr.decoding._rule import Validation
from zlpr.decoding.calibration import row_blocks
from zlpr.metrics import Labels, Scores

__all__ = [
    "ReliabilityCurve",
    "expected_calibration_error",
    "label_calibration_error",
    "reliability_curve",
]

Values = NDArray[np.float64]
BINS = 15


@dataclass(frozen=True)
class ReliabilityCurve:
    """How often cells of each range of probability are true; every array has shape (bins,).

    Attributes:
        lower: lower edge of each bin (excluded, but for 0).
        upper: upper edge of each bin (included).
        predicted: mean probability in the bin, NaN where it is empty.
        observed: share of true labels in the bin, NaN where it is empty.
        count: cells in the bin.
    """

    lower: Values
    upper: Values
    predicted: Values
    observed: Values
    count: NDArray[np.int64]

    @property
    def expected_calibration_error(self) -> float:
        r"""$\sum_b \frac{n_b}{n} |\mathrm{observed}_b - \mathrm{predicted}_b|$."""
        return float(np.average(self._gaps, weights=self.count))

    @property
    def label_calibration_error(self) -> float:
        r"""The mean gap with bins weighted by the labels in them, not by the cells.

        $$\sum_b w_b |\mathrm{observed}_b - \mathrm{predicted}_b|, \qquad
        w_b \propto n_b (\mathrm{observed}_b + \mathrm{predicted}_b)$$

        With many labels almost all cells have a probability near 0 and a gap near 0, and their
        number makes the expected calibration error small whatever the others do. A bin counts
        here by the labels that were true in it and those that were announced in it.
        """
        labels = np.nan_to_num(self.observed + self.predicted) * self.count
        return float(np.average(self._gaps, weights=labels)) if labels.any() else 0.0

    @classmethod
    def joined(cls, curves: Sequence["ReliabilityCurve"]) -> "ReliabilityCurve":
        """The curve of all samples, from those of some samples each, with the same bins."""
        first, count = curves[0], np.sum([curve.count for curve in curves], axis=0)

        def mean(name: str) -> Values:
            sums = [np.nan_to_num(getattr(curve, name)) * curve.count for curve in curves]
            with np.errstate(invalid="ignore"):
                return np.asarray(np.sum(sums, axis=0) / count)

        return cls(first.lower, first.upper, mean("predicted"), mean("observed"), count)

    @property
    def _gaps(self) -> Values:
        return np.nan_to_num(np.abs(self.observed - self.predicted))


def reliability_curve(y_true: Labels, y_proba: Scores, *, bins: int = BINS) -> ReliabilityCurve:
    """Compare probabilities with what came true, in bins of equal width over all cells.

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR.
        y_proba: probabilities of the same shape; anything outside [0, 1] is an error. Of
            `TopScores`, labels that are no candidates have the probability 0.
        bins: how many.

    Returns:
        The curve as data, ready to plot or to print.

    Examples:
        >>> curve = reliability_curve([[1, 0, 0, 0]], np.full((1, 4), 0.3), bins=2)
        >>> curve.predicted[0].round(3), curve.observed[0]
        (np.float64(0.3), np.float64(0.25))
    """
    if bins < 1:
        raise UserError(f"bins must be at least 1, got {bins}")
    data = Validation.check(y_true, y_proba, "micro_f1", "paper")
    if data.shortlist is not None:
        data = replace(data, scores=np.where(data.scores == -np.inf, 0, data.scores))
    if data.scores.min() < 0 or data.scores.max() > 1:
        raise UserError(
            f"y_proba must lie in [0, 1], found {data.scores.min():g} to {data.scores.max():g}; "
            "a Calibrator makes probabilities from scores"
        )
    sums = np.zeros((3, bins))
    # What is no candidate has a probability of 0.
    sums[0, 0] = data.num_cells - data.scores.size
    sums[2, 0] = 0 if data.missed is None else data.missed.counts.sum()
    for probabilities, true in row_blocks(data):
        where = np.clip(np.ceil(probabilities.ravel() * bins).astype(np.int64) - 1, 0, bins - 1)
        for row, weights in enumerate((None, probabilities.ravel(), true.ravel())):
            sums[row] += np.bincount(where, weights, minlength=bins)
    count, predicted, observed = sums
    with np.errstate(invalid="ignore"):
        predicted, observed = predicted / count, observed / count
    edges = np.linspace(0, 1, bins + 1)
    return ReliabilityCurve(edges[:-1], edges[1:], predicted, observed, count.astype(np.int64))


def expected_calibration_error(y_true: Labels, y_proba: Scores, *, bins: int = BINS) -> float:
    """Mean gap between probability and frequency over the bins of `reliability_curve` (ECE).

    With sparse labels most cells have a probability near 0 and make the mean small; see
    `label_calibration_error` for a mean in which they do not.

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR.
        y_proba: probabilities of the same shape.
        bins: how many bins of equal width.

    Returns:
        A number from 0 to 1, smaller is better.

    Examples:
        >>> round(expected_calibration_error([[1, 0, 0, 0]], np.full((1, 4), 0.3)), 4)
        0.05
    """
    return reliability_curve(y_true, y_proba, bins=bins).expected_calibration_error


def label_calibration_error(y_true: Labels, y_proba: Scores, *, bins: int = BINS) -> float:
    """Mean gap between probability and frequency as the labels see it.

    As `expected_calibration_error`, but a bin counts by the labels in it, true and announced, not
    by its cells: the many cells with a probability near 0 do not swamp it.

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR.
        y_proba: probabilities of the same shape.
        bins: how many bins of equal width.

    Returns:
        A number from 0 to 1, smaller is better.

    Examples:
        >>> true = np.zeros((2, 1000))
        >>> true[0, 0] = 1
        >>> sure = np.zeros((2, 1000))
        >>> sure[:, 0] = 0.9  # twice 0.9, once true
        >>> round(expected_calibration_error(true, sure), 4)
        0.0004
        >>> round(label_calibration_error(true, sure), 4)
        0.4
    """
    return reliability_curve(y_true, y_proba, bins=bins).label_calibration_error

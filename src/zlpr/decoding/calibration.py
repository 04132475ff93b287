r"""Probabilities from scores, and how far they can be trusted.

A model's scores become probabilities through a link, $\sigma(c s)$. For BCE $c = 1$. For ZLPR with
soft targets the loss is least at $p = \sigma(2s)$, so $c = 2$; but models are trained on hard
labels, and there $\sigma(2s)$ is not calibrated in general: with one label ZLPR is BCE and its
link is $\sigma(s)$, and it slides towards $\sigma(2s)$ as labels are added. Probabilities that are
shown to anyone or computed with need a `Calibrator` fitted on validation data.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from zlpr._errors import UserError
from zlpr.decoding._rule import (
    Array,
    BoolArray,
    Config,
    FloatArray,
    Validation,
    check_number,
    check_numbers,
    check_scores,
    check_width,
)
from zlpr.decoding._shortlist import Shortlist
from zlpr.metrics import Labels, Scores, TopScores

__all__ = ["Calibrator"]

BLOCK_CELLS = 1 << 17
LEAST_UNIT = 1e-30
"""Scores that differ by less are the same: slopes as steep as their fit exceed float32."""
Values = NDArray[np.float64]
Derivatives = Callable[[Values, Values], Values]


@dataclass
class Calibrator:
    r"""Probabilities from scores: $p_l = \sigma(c\, s_l / T_l + b_l)$.

    Unfitted, the temperature is 1 and the bias 0: the bare link $\sigma(c s)$, which for ZLPR
    ($c = 2$) is exact for soft targets only and not calibrated after training on hard labels
    (see this module's head). `fit` finds temperature and bias by maximum likelihood on validation
    data, with Platt's smoothed targets so that separable data does not drive them to infinity.

    Which labels get their own: those with at least `min_positives` validation samples that have
    the label and as many that do not. All others, absent ones included, share one temperature and
    bias fitted on all cells. Where scores fall as the label becomes more likely, the slope stops
    at a thousandth of the link's with half the scores' range as the unit, so that probabilities
    always rise with scores. Scores on another scale, or from another zero, get the same
    probabilities.

    Scores of -inf (impossible labels) get probability 0 and are left out of the fit.

    Args:
        link_scale: c, 2 for the ZLPR family and 1 for the BCE family
            (`zlpr.losses.info(name).link_scale`).
        temperature: T, one number or one per label.
        bias: b, one number or one per label.
        min_positives: how many samples on either side a label needs for its own T and b.

    Examples:
        >>> Calibrator()(np.array([[0.0, 1.0]])).round(3)
        array([[0.5  , 0.881]])
    """

    link_scale: float = 2.0
    temperature: float | list[float] = 1.0
    bias: float | list[float] = 0.0
    min_positives: int = 20

    def __post_init__(self) -> None:
        check_number("link_scale", self.link_scale)
        for name in ("temperature", "bias"):
            value = getattr(self, name)
            (check_numbers if isinstance(value, list) else check_number)(name, value)
        if self.link_scale <= 0 or np.min(self.temperature) <= 0:
            raise UserError("link_scale and temperature must be positive")
        if isinstance(self.temperature, list) != isinstance(self.bias, list) or np.shape(
            self.temperature
        ) != np.shape(self.bias):
            raise UserError("temperature and bias must both be numbers, or lists of one length")

    def fit(self, y_true: Labels, y_score: Scores) -> "Calibrator":
        """Fit temperature and bias on validation data.

        Args:
            y_true: true labels, shape (samples, labels), dense or CSR.
            y_score: scores of the same shape, dense or `TopScores`.

        Returns:
            The calibrator itself.
        """
        self.learn(Validation.check(y_true, y_score, "micro_f1", "paper"))
        return self

    def learn(self, data: Validation) -> None:
        """Fit temperature and bias on checked data."""
        shared = _fit_shared(data, self.link_scale)
        slopes = np.full(data.num_labels, shared.slope)
        biases = np.full(data.num_labels, shared.bias)
        finite = np.isfinite(data.scores)
        positives = data.count_by_label(data.true & finite)
        others = data.count_by_label(finite) - positives
        enough = np.minimum(positives, others) >= self.min_positives
        for labels in _column_blocks(np.flatnonzero(enough), data.label_lengths()):
            slopes[labels], biases[labels] = _fit_labels(data, labels, shared, self.link_scale)
        self.temperature = (self.link_scale / slopes).tolist()
        self.bias = biases.tolist()

    @overload
    def __call__(self, y_score: TopScores) -> TopScores: ...
    @overload
    def __call__(self, y_score: Array) -> Array: ...
    def __call__(self, y_score: Any) -> Any:
        """Probabilities of the same shape and kind as the scores, float32 or float64.

        Of `TopScores` those of the candidates; any other label has the probability 0.
        """
        scores = check_scores(y_score)
        return scores.like(y_score, self.probabilities(scores.values, scores.shortlist))

    def probabilities(self, scores: FloatArray, shortlist: Shortlist | None = None) -> FloatArray:
        """Probabilities of checked scores."""
        return _sigmoid(self.log_odds(scores, shortlist))

    def log_odds(self, scores: FloatArray, shortlist: Shortlist | None = None) -> FloatArray:
        """Log odds of checked scores: infinite where the scores are."""
        slope = (self.link_scale / np.asarray(self.temperature)).astype(scores.dtype)
        bias = np.asarray(self.bias, dtype=scores.dtype)
        if isinstance(self.temperature, list):
            check_width(scores, len(self.temperature), shortlist)
            if shortlist is not None:
                slope, bias = shortlist.take(slope), shortlist.take(bias)
        odds: FloatArray = scores * slope + bias
        return odds

    def to_config(self) -> Config:
        """The calibrator as plain JSON."""
        return {
            "link_scale": self.link_scale,
            "temperature": self.temperature,
            "bias": self.bias,
            "min_positives": self.min_positives,
        }

    @classmethod
    def from_config(cls, config: Config) -> "Calibrator":
        """The calibrator that `to_config` described."""
        try:
            if not {"temperature", "bias"} <= set(config):
                raise TypeError("it lacks temperature or bias")
            return cls(**config)
        except TypeError as error:
            raise UserError(f"not a calibrator's configuration: {error}") from None


def _sigmoid(values: FloatArray) -> FloatArray:
    """The logistic function, without overflow."""
    decay = np.exp(-np.abs(values))
    result: FloatArray = np.where(values >= 0, 1, decay) / (1 + decay)
    return result


def _derivatives(
    scores: Values, targets: Values, weights: BoolArray, slope: Values, bias: Values
) -> Values:
    """Loss of `sigmoid(slope s + bias)` against targets, its gradient and second derivatives.

    Returns:
        Shape (6, columns): loss, d/dslope, d/dbias, d2/dslope2, d2/dslope dbias, d2/dbias2.
    """
    logits = scores * slope + bias
    decay = np.exp(-np.abs(logits))
    p = np.where(logits >= 0, 1, decay) / (1 + decay)
    loss = (np.log1p(decay) + np.maximum(logits, 0) - targets * logits) * weights
    error, curvature = (p - targets) * weights, p * (1 - p) * weights
    terms = (loss, error * scores, error, curvature * scores**2, curvature * scores, curvature)
    return np.array([term.sum(axis=0) for term in terms])


def _newton(
    derivatives: Derivatives, slope: Values, bias: Values, *, fixed_slope: bool = False
) -> tuple[Values, Values, BoolArray]:
    """Minimise a convex loss in (slope, bias), for several independent problems at once.

    Newton's method with steps halved until the loss no longer rises; shapes (problems,).

    Returns:
        Slopes and biases, and which problems ended elsewhere than at the minimum.
    """
    current = derivatives(slope, bias)
    stuck = np.zeros(slope.shape, dtype=bool)
    for _ in range(100):
        slope_step, bias_step, decrement = _newton_step(current, fixed_slope)
        tolerance = 1e-12 * (1 + np.abs(current[0]))
        unfinished = ~(decrement <= tolerance)
        length = np.where(unfinished & ~stuck, 1.0, 0.0)
        if not length.any():
            break
        for _ in range(40):
            trial_slope, trial_bias = slope - length * slope_step, bias - length * bias_step
            trial = derivatives(trial_slope, trial_bias)
            worse = ~(trial[0] <= current[0] + tolerance)
            if not worse.any():
                break
            length = np.where(worse, length / 2, length)
        slope, bias = np.where(worse, slope, trial_slope), np.where(worse, bias, trial_bias)
        current = np.where(worse, current, trial)
        stuck |= worse
    return slope, bias, unfinished


def _newton_step(derivatives: Values, fixed_slope: bool) -> tuple[Values, Values, Values]:
    """Steps in slope and bias, and twice the fall in loss they promise."""
    _, slope_gradient, bias_gradient, aa, ab, bb = derivatives
    if fixed_slope:
        slope_gradient, aa, ab = 0 * slope_gradient, 0 * aa + 1, 0 * ab
    # A trace of ridge keeps the system solvable when all scores are equal, or none finite; more
    # than rounding would end far from the minimum where few scores are far from all others.
    ridge = 1e-15 * (aa + bb) + 1e-30
    aa, bb = aa + ridge, bb + ridge
    determinant = aa * bb - ab**2
    slope_step = (bb * slope_gradient - ab * bias_gradient) / determinant
    bias_step = (aa * bias_gradient - ab * slope_gradient) / determinant
    return slope_step, bias_step, slope_step * slope_gradient + bias_step * bias_gradient


def _rising(
    derivatives: Derivatives, slope: Values, bias: Values, least: float
) -> tuple[Values, Values]:
    """`_newton`, with the slope held at `least` where it would not rise."""
    slope, bias, lost = _newton(derivatives, slope, bias)
    if lost.any():  # far from all scores the loss has no curvature to go by; at 0 it has most
        middle = np.zeros_like(slope)
        middle_slope, middle_bias, _ = _newton(derivatives, middle, middle)
        slope, bias = np.where(lost, middle_slope, slope), np.where(lost, middle_bias, bias)
    low = ~(slope > 1e-6 * least)  # what rises by rounding alone does not rise
    if low.any():
        held, held_bias = np.full_like(slope, least), np.zeros_like(bias)
        held, held_bias, _ = _newton(derivatives, held, held_bias, fixed_slope=True)
        slope, bias = np.where(low, held, slope), np.where(low, held_bias, bias)
    return slope, bias


def _smoothed(true: BoolArray, positives: Any, negatives: Any) -> Values:
    """Platt's targets: (n+ + 1) / (n+ + 2) for positives, 1 / (n- + 2) for the others."""
    targets: Values = np.where(true, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    return targets


def _finite(scores: FloatArray) -> tuple[Values, BoolArray]:
    """Scores in float64 with infinities as 0, and where they were finite."""
    finite = np.isfinite(scores)
    return np.where(finite, scores, 0).astype(np.float64), finite


@dataclass(frozen=True)
class _Ruler:
    """Scores as `u = (s - centre) / unit`, from -1 to 1, on which every fit is as easy as another.

    `sigmoid(slope u + bias)` is `sigmoid(slope / unit s + bias - slope centre / unit)`.

    Attributes:
        centre: the middle of the scores' range, one number or one per column.
        unit: half of that range; where all scores are the same, no less than they are.
    """

    centre: Values
    unit: Values

    @classmethod
    def of(cls, scores: FloatArray, finite: BoolArray, axis: int | None, default: Any) -> "_Ruler":
        """The ruler of finite scores, with a default for the unit of equal ones."""
        some = finite.any(axis=axis)
        low = np.where(some, np.min(scores, axis=axis, where=finite, initial=np.inf), 0)
        high = np.where(some, np.max(scores, axis=axis, where=finite, initial=-np.inf), 0)
        low, high = low.astype(np.float64), high.astype(np.float64)
        centre, half = high / 2 + low / 2, high / 2 - low / 2
        return cls(centre, np.where(half > LEAST_UNIT, half, np.maximum(default, np.abs(centre))))

    def measure(self, scores: Values) -> Values:
        """Scores on this ruler."""
        return (scores - self.centre) / self.unit

    def to_units(self, slope: Values, bias: Values) -> tuple[Values, Values]:
        """Slope and bias of scores as those of `u`."""
        return slope * self.unit, bias + slope * self.centre

    def to_scores(self, slope: Values, bias: Values) -> tuple[Values, Values]:
        """Slope and bias of `u` as those of scores."""
        return slope / self.unit, bias - slope * (self.centre / self.unit)


@dataclass(frozen=True)
class _SharedFit:
    """Slope and bias of all cells together, and the unit of their scores."""

    slope: float
    bias: float
    unit: float


def row_blocks(data: Validation) -> Iterator[tuple[FloatArray, BoolArray]]:
    step = max(1, BLOCK_CELLS // data.true.shape[1])
    for start in range(0, len(data.true), step):
        yield data.scores[start : start + step], data.true[start : start + step]


def _column_blocks(
    labels: NDArray[np.int64], lengths: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    """Labels of similar numbers of cells together, the longest first."""
    labels = labels[np.argsort(-lengths[labels], kind="stable")]
    while len(labels):
        step = max(1, BLOCK_CELLS // max(1, int(lengths[labels[0]])))
        yield labels[:step]
        labels = labels[step:]


def _fit_shared(data: Validation, link_scale: float) -> _SharedFit:
    """Slope and bias of all cells together."""
    possible = data.scores > -np.inf
    positives = np.count_nonzero(data.true & possible)
    negatives = np.count_nonzero(possible) - positives
    ruler = _Ruler.of(data.scores, np.isfinite(data.scores), None, 1.0)
    start = np.array([link_scale]), np.array([0.0])
    stride = data.true.size // (8 * BLOCK_CELLS)
    if stride > 1:  # a start from part of the samples spares rounds over all of them
        part = _fit_shared(data.select(np.arange(0, len(data.true), stride)), link_scale)
        start = ruler.to_units(np.array([part.slope]), np.array([part.bias]))

    def derivatives(slope: Values, bias: Values) -> Values:
        total = np.zeros((6, 1))
        for block, true in row_blocks(data):
            scores, finite = _finite(block)
            targets = _smoothed(true, positives, negatives)
            parts = _derivatives(ruler.measure(scores), targets, finite, slope, bias)
            total += parts.sum(axis=1, keepdims=True)
        return total

    slope, bias = ruler.to_scores(*_rising(derivatives, *start, least=1e-3 * link_scale))
    return _SharedFit(float(slope[0]), float(bias[0]), float(ruler.unit))


def _fit_labels(
    data: Validation, labels: NDArray[np.int64], shared: _SharedFit, link_scale: float
) -> tuple[Values, Values]:
    """Slope and bias of each of these labels, starting from the shared ones."""
    given, true = data.columns(labels)
    scores, finite = _finite(given)
    possible = given > -np.inf
    positives = np.count_nonzero(true & possible, axis=0)
    targets = _smoothed(true, positives, np.count_nonzero(possible, axis=0) - positives)
    ruler = _Ruler.of(scores, finite, 0, shared.unit)
    measured = ruler.measure(scores)

    def derivatives(slope: Values, bias: Values) -> Values:
        return _derivatives(measured, targets, finite, slope, bias)

    start = np.full(len(labels), shared.slope), np.full(len(labels), shared.bias)
    found = _rising(derivatives, *ruler.to_units(*start), least=1e-3 * link_scale)
    return ruler.to_scores(*found)

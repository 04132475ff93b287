r"""The label set with the highest expected F1, given probabilities.

If the labels of a sample are independent given its probabilities, the best set of size k holds the
k most probable labels, and with $S$ the number of true labels its expected F1 is

$$f(k) = E\left[\frac{2\, |Y \cap \hat{Y}_k|}{k + S}\right].$$

Writing $1/(k+S) = \int_0^1 x^{k+S-1} dx$ turns the expectation over $2^L$ label sets into one
integral,

$$f(k) = 2 \int_0^1 x^k\, G(x) \sum_{i \le k} \frac{p_i}{1 - p_i (1-x)}\, dx, \qquad
G(x) = \prod_j (1 - p_j (1 - x)),$$

of a polynomial of degree at most $k + L - 1$, which Gauss-Legendre quadrature integrates exactly.
All terms are positive, so nothing cancels. Where S is all but sure to stay below some number,
that number takes the place of L (the chance of exceeding it, below 1e-13, bounds the error).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import ceil, log
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from zlpr.decoding._rule import (
    BoolArray,
    Config,
    Features,
    FloatArray,
    Rule,
    Validation,
    check_number,
    descending_order,
)
from zlpr.decoding._shortlist import Shortlist
from zlpr.decoding._sweep import best_cut
from zlpr.decoding.calibration import Calibrator
from zlpr.metrics import Empty
from zlpr.metrics._inputs import check_empty

__all__ = ["ExpectedF1", "expected_f1_curve"]

BLOCK_CELLS = 1 << 18
MARGIN = 1e-6
"""Of expected F1, far more than what rounding changes in it."""
Values = NDArray[np.float64]
Positions = NDArray[np.int64]


@dataclass
class ExpectedF1(Rule):
    r"""Predict the set with the highest expected F1 under calibrated, independent probabilities.

    The expected F1 of every size k is computed exactly, O(L) per sample and quadrature node, and
    with it that of predicting nothing: the chance that nothing is true if `empty="paper"` (an
    empty prediction for an empty truth counts 1), 0 if `"sklearn"`.

    `fit` fits the calibrator. For `metric="example_f1"` that is all. For any other metric it also
    finds, by the sweep that `Threshold` makes over scores, the best `price` per label: the set is
    then the one with the highest expected F1 minus `price` times its size, so that a price above 0
    gives smaller sets and one below 0 larger ones, up to the size beyond which no set could have
    been the best at price 0. Rare labels are guarded by the calibrator's rule.

    Args:
        calibrator: makes probabilities from scores.
        price: what each predicted label costs, in expected F1.
        empty: what an empty prediction for an empty truth counts.

    Examples:
        >>> rule = ExpectedF1(Calibrator(link_scale=1.0))
        >>> rule(np.array([[2.0, -0.5, -3.0]]))  # probabilities 0.88, 0.38, 0.05
        array([[ True, False, False]])
        >>> rule(np.array([[-0.3, -0.5, -0.7]]))  # 0.43, 0.38, 0.33: more likely some than none
        array([[ True,  True,  True]])
    """

    name: ClassVar[str] = "expected_f1"
    calibrator: Calibrator = field(default_factory=Calibrator)
    price: float = 0.0
    empty: Empty = "paper"

    def __post_init__(self) -> None:
        check_number("price", self.price)
        check_empty(self.empty)

    def learn(self, data: Validation) -> None:
        """Fit the calibrator and, unless the metric is example F1, the price."""
        self.calibrator.learn(data)
        self.empty, self.price = data.empty, 0.0
        if data.metric != "example_f1":
            worth = self._worth(data.scores, data.shortlist)
            price = best_cut(replace(data, scores=worth)).cut
            self.price = _off_the_ends(price, worth[worth > -np.inf])

    def decide(
        self,
        scores: FloatArray,
        features: Features | None = None,
        shortlist: Shortlist | None = None,
    ) -> BoolArray:
        """The set of each sample with the highest expected F1 less its price."""
        chosen = np.zeros(scores.shape, dtype=bool)
        for rows, order, curve in self._curves(scores, shortlist):
            sizes = np.argmax(curve - self.price * np.arange(curve.shape[1]), axis=1)
            taken = np.arange(order.shape[1]) < sizes[:, None]
            chosen[rows[np.nonzero(taken)[0]], order[taken]] = True
        return chosen

    def _worth(self, scores: FloatArray, shortlist: Shortlist | None) -> Values:
        """The price at which each label leaves its sample's set; -inf if it is never in it."""
        worth = np.full(scores.shape, -np.inf)
        for rows, order, curve in self._curves(scores, shortlist):
            worth[rows[:, None], order] = _leaving_prices(curve)
        return worth

    def _curves(
        self, scores: FloatArray, shortlist: Shortlist | None
    ) -> Iterator[tuple[Positions, Positions, Values]]:
        """Samples in blocks: their rows, most probable labels, and expected F1 by set size."""
        step = max(1, BLOCK_CELLS // scores.shape[1])
        for start in range(0, len(scores), step):
            block = slice(start, start + step)
            part = None if shortlist is None else shortlist.select(block)
            probabilities = self.calibrator.probabilities(scores[block], part)
            for rows, order, curve in _bounded_curves(probabilities.astype(np.float64), self.empty):
                yield rows + start, order, curve

    def to_config(self) -> Config:
        """The rule as plain JSON."""
        return super().to_config() | {"calibrator": self.calibrator.to_config()}

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """The rule that `to_config` described."""
        return super().from_config(
            config | {"calibrator": Calibrator.from_config(config.get("calibrator", {}))}
        )


def expected_f1_curve(probabilities: Values, sizes: int, *, empty: Empty = "paper") -> Values:
    """Expected F1 of predicting the 0, 1, ..., `sizes` most probable labels.

    Args:
        probabilities: of independent labels, each row in descending order, shape (samples, labels).
        sizes: the largest set to look at, at most the number of labels.
        empty: what an empty prediction for an empty truth counts.

    Returns:
        Shape (samples, sizes + 1).

    Examples:
        >>> expected_f1_curve(np.array([[0.9, 0.2]]), 2).round(3)
        array([[0.08 , 0.84 , 0.673]])
    """
    curve = np.zeros((len(probabilities), sizes + 1))
    if empty == "paper":
        curve[:, 0] = np.prod(1 - probabilities, axis=1)
    if sizes == 0:
        return curve
    most = _sure_bound(float(probabilities.sum(axis=1).max()), probabilities.shape[1])
    nodes, weights = np.polynomial.legendre.leggauss(ceil((sizes + most) / 2))
    powers = np.arange(1, sizes + 1)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        factors = 1 - probabilities * (1 - node)
        inner = np.cumsum(probabilities[:, :sizes] / factors[:, :sizes], axis=1)
        product = np.multiply.reduce(factors, axis=1, keepdims=True)
        curve[:, 1:] += 2 * weight * product * node**powers * inner
    return curve


def _sure_bound(mean: float, labels: int, chance: float = 1e-13) -> int:
    """A number that a count of independent events with this mean exceeds with at most `chance`.

    Chernoff: P(S >= a) <= exp(a - mean) (mean / a)^a for a > mean.
    """
    bound = ceil(mean) + 1
    while bound < labels and bound - mean + bound * log(max(mean, 1e-300) / bound) > log(chance):
        bound += 1
    return min(bound, labels)


def _bounded_curves(
    probabilities: Values, empty: Empty
) -> Iterator[tuple[Positions, Positions, Values]]:
    """Curves of a block, each just long enough to hold its maximum.

    By Jensen's inequality f(k) <= 2 m / (k + m) with m the expected number of labels, so sizes
    beyond m (2 / best - 1) cannot be the best; their entries are -inf. Curves are first made
    to a small size, then doubled for the samples that need it.
    """
    order = descending_order(probabilities)
    descending = np.take_along_axis(probabilities, order, axis=1)
    labels, means = probabilities.shape[1], probabilities.sum(axis=1)
    pending, sizes = np.arange(len(probabilities)), min(labels, 8)
    while len(pending):
        curve = expected_f1_curve(descending[pending], sizes, empty=empty)
        best = np.maximum(curve.max(axis=1), 1e-300)
        needed = np.minimum(labels, means[pending] * (2 / best - 1) * (1 + 1e-9))
        done = needed < sizes + 1
        beyond = np.arange(sizes + 1) > needed[done, None]
        yield (
            pending[done],
            order[pending[done], :sizes],
            np.where(beyond, -np.inf, curve[done]),
        )
        pending, sizes = pending[~done], min(labels, 2 * sizes)


def _off_the_ends(price: float, worth: Values) -> float:
    """A price beyond all worths a little farther off: at the last one rounding would decide."""
    if len(worth) == 0 or worth.min() <= price < worth.max():
        return price
    return price - MARGIN if price < worth.min() else price + MARGIN


def _leaving_prices(curve: Values) -> Values:
    """For each rank, the price up to which the best set still holds it.

    These are the slopes of the curve's least concave majorant: the smallest over a < r of the
    largest over b >= r of (f(b) - f(a)) / (b - a).
    """
    sizes = curve.shape[1] - 1
    prices = np.full((len(curve), sizes), np.inf)
    for a in range(sizes):
        with np.errstate(invalid="ignore"):  # -inf less -inf: sizes that are never taken
            slopes = (curve[:, a + 1 :] - curve[:, a, None]) / np.arange(1, sizes - a + 1)
        slopes[np.isnan(slopes)] = -np.inf
        largest = np.maximum.accumulate(slopes[:, ::-1], axis=1)[:, ::-1]
        np.minimum(prices[:, a:], largest, out=prices[:, a:])
    return prices

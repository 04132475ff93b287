r"""The second stage for scores that only rank: how many labels, learned from the sorted scores.

Losses such as LSEP, WARP or BP-MLL order the labels and leave open where to cut; the scale of their
scores differs from sample to sample, so a threshold does not help. Here the number of labels is
read off the shape of the sorted scores.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from zlpr._errors import UserError
from zlpr.decoding._rule import (
    BoolArray,
    FloatArray,
    Rule,
    Validation,
    check_number,
    check_numbers,
)
from zlpr.decoding._sweep import best_cut, predicted_above
from zlpr.decoding.top_k import top_labels
from zlpr.metrics import Empty, Labels, Scores

__all__ = ["LabelCount"]

Values = NDArray[np.float64]
NUM_FEATURES = 6


@dataclass
class LabelCount(Rule):
    r"""Predict the first N labels of each sample, N learned from its sorted scores.

    A continuation-ratio model: having kept $r - 1$ labels, one more is kept with probability

    $$h_r = \sigma(w \cdot \phi_r(s) + b),$$

    where $\phi_r$ holds the r-th highest score, how many standard deviations it stands above the
    sample's mean, its distance from the highest, from the one before and from the one after it,
    and $\log r$. The chance that a sample has at least r labels is
    $\prod_{q \le r} h_q$, and the labels for which it exceeds `cut` are predicted.

    `fit` learns w and b by ridge-penalised logistic regression (Newton's method, deterministic),
    then finds the best `cut` for the metric by the sweep that `Threshold` makes over scores. No
    parameter belongs to one label, so there is none to guard. A sample never gets more labels than
    the largest validation sample had.

    Args:
        weights: w over standardised features, then b.
        mean: of the features.
        scale: of the features.
        max_count: most labels a sample can get.
        cut: the chance above which a label is kept.

    Examples:
        >>> generator = np.random.default_rng(0)
        >>> true = np.arange(5) < generator.integers(1, 4, size=(200, 1))
        >>> scores = true + generator.normal(scale=0.1, size=(200, 5))  # a gap after the last label
        >>> rule = LabelCount().fit(true[:100], scores[:100])
        >>> bool((rule(scores[100:]) == true[100:]).mean() > 0.99)
        True
    """

    name: ClassVar[str] = "label_count"
    weights: list[float] = field(default_factory=list)
    mean: list[float] = field(default_factory=list)
    scale: list[float] = field(default_factory=list)
    max_count: int = 0
    cut: float = 0.5

    def __post_init__(self) -> None:
        for name in ("weights", "mean", "scale"):
            check_numbers(name, getattr(self, name))
        check_number("cut", self.cut)
        check_number("max_count", self.max_count)
        lengths = [len(self.weights), len(self.mean), len(self.scale)]
        if lengths not in ([0, 0, 0], [NUM_FEATURES + 1, NUM_FEATURES, NUM_FEATURES]):
            raise UserError(
                f"label_count has {NUM_FEATURES + 1} weights, {NUM_FEATURES} means and scales, "
                f"got {lengths}"
            )

    def fit(
        self, y_true: Labels, y_score: Scores, metric: str = "micro_f1", *, empty: Empty = "paper"
    ) -> Self:
        """Learn the number of labels, then the best cut for the metric."""
        data = Validation.check(y_true, y_score, metric, empty)
        counts = data.true.sum(axis=1)
        self.max_count = int(counts.max())
        features = _features(_descending(data.scores, self.max_count)[1], data.scores)
        # A sample with c labels says "one more" at ranks 1 to c and "no more" at rank c + 1.
        ranks = np.arange(1, self.max_count + 1)
        asked, more = ranks <= counts[:, None] + 1, ranks <= counts[:, None]
        rows = features[asked]
        mean, scale = _moments(rows)
        weights = _logistic_regression((rows - mean) / scale, more[asked])
        self.mean, self.scale, self.weights = mean.tolist(), scale.tolist(), weights.tolist()
        self.cut = best_cut(replace(data, scores=self._survival(data.scores))).cut
        return self

    def decide(self, scores: FloatArray) -> BoolArray:
        """The labels that a sample has with a chance above the cut."""
        if not self.weights:
            raise UserError("label_count has learned nothing yet: call fit first")
        return predicted_above(self._survival(scores), self.cut)

    def _survival(self, scores: FloatArray) -> Values:
        """For each label, the chance that the sample has so many labels; -inf beyond the most."""
        order, descending = _descending(scores, min(self.max_count, scores.shape[1]))
        features = (_features(descending, scores) - self.mean) / self.scale
        logits = features @ np.array(self.weights[:-1]) + self.weights[-1]
        survival = np.exp(np.cumsum(-np.logaddexp(0, -logits), axis=1))
        chances = np.full(scores.shape, -np.inf)
        np.put_along_axis(chances, order[:, : survival.shape[1]], survival, axis=1)
        return chances


def _descending(scores: FloatArray, count: int) -> tuple[NDArray[np.int64], Values]:
    """The `count` + 1 labels with the highest scores, best first, and their scores.

    A score of -inf counts as the sample's lowest finite one; a missing last score as equal to
    the one before it.
    """
    order = top_labels(scores, count + 1)
    finite = np.isfinite(scores)
    lowest = np.min(scores, axis=1, where=finite, initial=np.inf, keepdims=True)
    top = np.take_along_axis(scores, order, axis=1)
    top = np.where(np.isfinite(top), top, np.where(np.isfinite(lowest), lowest, 0.0))
    if top.shape[1] == count:
        top = np.concatenate([top, top[:, -1:]], axis=1)
    return order, top.astype(np.float64)


def _features(top: Values, scores: FloatArray) -> Values:
    """Features of each rank but the last of `top`, shape (samples, ranks, NUM_FEATURES)."""
    finite = np.isfinite(scores)
    known = np.maximum(finite.sum(axis=1, keepdims=True), 1)
    filled = np.where(finite, scores, 0).astype(np.float64)
    mean = filled.sum(axis=1, keepdims=True) / known
    deviation = np.sqrt((((filled - mean) * finite) ** 2).sum(axis=1, keepdims=True) / known)
    here = top[:, :-1]
    before = np.concatenate([top[:, :1], here[:, :-1]], axis=1)
    ranks = np.broadcast_to(np.log(np.arange(1, here.shape[1] + 1)), here.shape)
    standard = (here - mean) / np.maximum(deviation, 1e-12)
    return np.stack(
        [here, standard, top[:, :1] - here, before - here, here - top[:, 1:], ranks], axis=2
    )


def _moments(rows: Values) -> tuple[Values, Values]:
    """Mean and standard deviation of each feature, 1 where it does not vary."""
    if len(rows) == 0:
        return np.zeros(NUM_FEATURES), np.ones(NUM_FEATURES)
    scale = rows.std(axis=0)
    return rows.mean(axis=0), np.where(scale > 1e-12, scale, 1.0)


def _logistic_regression(features: Values, targets: BoolArray, ridge: float = 1.0) -> Values:
    """Weights, then intercept, of a ridge-penalised logistic regression (Newton's method)."""
    design = np.concatenate([features, np.ones((len(features), 1))], axis=1)
    penalty = np.full(design.shape[1], ridge)

    def loss(weights: Values) -> float:
        logits = design @ weights
        fit = np.logaddexp(0, logits) - targets * logits
        return float(fit.sum() + 0.5 * (penalty * weights**2).sum())

    weights = np.zeros(design.shape[1])
    for _ in range(100):
        p = 1 / (1 + np.exp(-np.clip(design @ weights, -500, 500)))
        gradient = design.T @ (p - targets) + penalty * weights
        hessian = (design * (p * (1 - p))[:, None]).T @ design + np.diag(penalty)
        step = np.linalg.solve(hessian, gradient)
        before, length = loss(weights), 1.0
        while loss(weights - length * step) > before and length > 1e-8:
            length /= 2
        weights = weights - length * step
        if gradient @ step < 1e-10:
            break
    return weights

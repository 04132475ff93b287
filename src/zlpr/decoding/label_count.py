r"""The second stage for scores that only rank: how many labels, learned from the sorted scores.

Losses such as LSEP, WARP or BP-MLL order the labels and leave open where to cut; the scale of their
scores differs from sample to sample, so a threshold does not help. Here the number of labels is
read off the shape of the sorted scores.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from zlpr._errors import UserError
from zlpr.decoding._feature_columns import condense, moments
from zlpr.decoding._logistic import logistic_regression
from zlpr.decoding._rule import BoolArray, Features, FloatArray, Validation, check_number
from zlpr.decoding._second_stage import ReadsFeatures, SecondStage, bounded
from zlpr.decoding._shortlist import Shortlist
from zlpr.decoding._sweep import best_cut, predicted_above
from zlpr.decoding.top_k import top_labels

__all__ = ["FeatureCount", "LabelCount"]

Values = NDArray[np.float64]
NUM_FEATURES = 6


@dataclass
class LabelCount(SecondStage):
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
    num_inputs: ClassVar[int] = NUM_FEATURES
    max_count: int = 0
    cut: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("cut", self.cut)
        check_number("max_count", self.max_count)
        if self.max_count < 0:
            raise UserError(f"max_count must be at least 0, got {self.max_count}")

    def learn(self, data: Validation) -> None:
        """Learn the number of labels, then the best cut for the metric."""
        counts = data.sample_sizes()
        self.max_count = int(counts.max())
        inputs = self._inputs(data.scores, data.features, self.max_count)[1]
        # A sample with c labels says "one more" at ranks 1 to c and "no more" at rank c + 1.
        ranks = np.arange(1, inputs.shape[1] + 1)
        asked, more = ranks <= counts[:, None] + 1, ranks <= counts[:, None]
        rows = inputs[asked]
        mean, scale = moments(rows, NUM_FEATURES)
        weights = logistic_regression((rows - mean) / scale, more[asked])
        self.mean, self.scale, self.weights = mean.tolist(), scale.tolist(), weights.tolist()
        survival = self._survival(data.scores, data.features)
        self.cut = best_cut(replace(data, scores=survival)).cut

    def decide(
        self,
        scores: FloatArray,
        features: Features | None = None,
        shortlist: Shortlist | None = None,
    ) -> BoolArray:
        """The labels that a sample has with a chance above the cut."""
        return predicted_above(self._survival(scores, features), self.cut)

    def _inputs(
        self, scores: FloatArray, features: Features | None, count: int
    ) -> tuple[NDArray[np.int64], Values]:
        """The labels in the order of their scores, and the inputs of so many ranks."""
        order, descending = _descending(scores, count)
        return order, _features(descending, scores)

    def _survival(self, scores: FloatArray, features: Features | None) -> Values:
        """For each label, the chance that the sample has so many labels.

        -inf beyond the most, and for what is no candidate or an impossible label.
        """
        count = min(self.max_count, scores.shape[1])
        order, inputs = self._inputs(scores, features, count)
        survival = np.exp(np.cumsum(-np.logaddexp(0, -self._linear(inputs)), axis=1))
        chances = np.full(scores.shape, -np.inf)
        np.put_along_axis(chances, order[:, : survival.shape[1]], survival, axis=1)
        chances[scores == -np.inf] = -np.inf
        return chances


@dataclass
class FeatureCount(ReadsFeatures, LabelCount):
    r"""Predict the first N labels of each sample, N learned from its scores and its features.

    As `LabelCount`, with the sample's features beside the shape of its scores, the same at each
    rank: $h_r = \sigma(w \cdot \phi_r(s) + v \cdot x + b)$. Features of many columns are added into
    128, so that the rule stays small.

    Args:
        columns: of the features it was fitted with.

    Examples:
        >>> generator = np.random.default_rng(0)
        >>> counts = generator.integers(1, 4, size=(200, 1))
        >>> order = generator.permuted(np.tile(np.arange(5), (200, 1)), axis=1)
        >>> true, scores = order < counts, 0.0 - order  # scores say nothing about the number
        >>> rule = FeatureCount().fit(true[:100], scores[:100], features=counts[:100])
        >>> bool((rule(scores[100:], features=counts[100:]) == true[100:]).mean() > 0.95)
        True
    """

    name: ClassVar[str] = "feature_count"

    def _inputs(
        self, scores: FloatArray, features: Features | None, count: int
    ) -> tuple[NDArray[np.int64], Values]:
        order, inputs = super()._inputs(scores, features, count)
        columns = condense(features, self.columns)[:, None]
        repeated = np.broadcast_to(columns, (*inputs.shape[:2], columns.shape[2]))
        return order, np.concatenate([inputs, repeated], axis=2)


def _descending(scores: FloatArray, count: int) -> tuple[NDArray[np.int64], Values]:
    """The `count` + 1 labels with the highest scores, best first, and their scores.

    Infinite scores count as the sample's nearest finite ones, and so do those of labels that are
    missing, as those of what is no candidate are.
    """
    order = top_labels(scores, count + 1)
    top = np.take_along_axis(bounded(scores), order, axis=1)
    missing = np.repeat(top[:, -1:], count + 1 - top.shape[1], axis=1)
    return order, np.concatenate([top, missing], axis=1).astype(np.float64)


def _features(top: Values, scores: FloatArray) -> Values:
    """Features of each rank but the last of `top`, shape (samples, ranks, NUM_FEATURES)."""
    finite = np.isfinite(scores)
    known = np.maximum(finite.sum(axis=1, keepdims=True), 1)
    filled = np.where(finite, scores, 0).astype(np.float64, order="C")  # rows alike, few or many
    mean = filled.sum(axis=1, keepdims=True) / known
    deviation = np.sqrt((((filled - mean) * finite) ** 2).sum(axis=1, keepdims=True) / known)
    here = top[:, :-1]
    before = np.concatenate([top[:, :1], here[:, :-1]], axis=1)
    ranks = np.broadcast_to(np.log(np.arange(1, here.shape[1] + 1)), here.shape)
    standard = (here - mean) / np.maximum(deviation, 1e-12)
    return np.stack(
        [here, standard, top[:, :1] - here, before - here, here - top[:, 1:], ranks], axis=2
    )

r"""The second stage of Elisseeff and Weston (2001): a threshold for each sample.

BP-MLL and Rank-SVM learn a threshold as a linear function of a sample's scores; here of the sorted
scores, so that the number of weights does not grow with the labels, and if wanted of features.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from zlpr.decoding._feature_columns import condense, moments
from zlpr.decoding._rule import BoolArray, Features, FloatArray, Validation, check_number
from zlpr.decoding._second_stage import ReadsFeatures, SecondStage, bounded
from zlpr.decoding._shortlist import Shortlist
from zlpr.decoding._sweep import best_cut, predicted_above
from zlpr.decoding.top_k import top_labels

__all__ = ["FeatureThreshold", "SampleThreshold"]

Values = NDArray[np.float64]
SHOWN = 8
"""Highest scores that the threshold depends on."""
SUMMARY = SHOWN + 3
STEPS = (0.1, 1.0)
"""Standard deviations of a sample's scores from its last one to a cut beyond all of them: how far
that should be the scores do not say, so both are tried."""


@dataclass
class SampleThreshold(SecondStage):
    r"""Predict the labels whose score exceeds the sample's own threshold.

    $$\hat{Y} = \{l : s_l > t(s) + c\}, \qquad t(s) = w \cdot \phi(s) + b$$

    $\phi$ holds the eight highest scores, their mean, and the mean and standard deviation of all.
    `fit` learns w and b by ridge regression towards the threshold that would have cost each
    validation sample the fewest errors, then finds the best offset c for the metric by the sweep
    that `Threshold` makes over scores.

    Args:
        weights: w over standardised inputs, then b.
        mean: of the inputs.
        scale: of the inputs.
        offset: c.

    Examples:
        >>> generator = np.random.default_rng(0)
        >>> true = generator.random((300, 6)) < 0.3
        >>> level = 5 * generator.normal(size=(300, 1))  # each sample has a level of its own
        >>> scores = level + true + generator.normal(scale=0.1, size=true.shape)
        >>> rule = SampleThreshold().fit(true[:200], scores[:200])
        >>> bool((rule(scores[200:]) == true[200:]).mean() > 0.9)
        True
    """

    name: ClassVar[str] = "sample_threshold"
    num_inputs: ClassVar[int] = SUMMARY
    offset: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("offset", self.offset)

    def learn(self, data: Validation) -> None:
        """Learn the threshold, then the best offset for the metric."""
        inputs = self._inputs(data.scores, data.features)
        mean, scale = moments(inputs, SUMMARY, _apart(inputs))
        design = np.concatenate([(inputs - mean) / scale, np.ones((len(inputs), 1))], axis=1)
        penalty = np.diag(np.append(np.ones(design.shape[1] - 1), 1e-9))
        told = np.isfinite(data.scores).any(axis=1)  # without a finite score no threshold is best
        design = design[told]
        self.mean, self.scale = mean.tolist(), scale.tolist()
        found = []
        for step in STEPS:
            aims = _least_errors(data.scores[told], data.true[told], step)
            weights = np.linalg.solve(design.T @ design + penalty, design.T @ aims)
            self.weights = weights.tolist()
            above = data.scores - self._linear(inputs)[:, None]
            found.append((best_cut(replace(data, scores=above)), self.weights))
        best, self.weights = max(found, key=lambda one: one[0].value)
        self.offset = best.cut

    def decide(
        self,
        scores: FloatArray,
        features: Features | None = None,
        shortlist: Shortlist | None = None,
    ) -> BoolArray:
        """The labels with a score above the sample's threshold."""
        above = scores - self._linear(self._inputs(scores, features))[:, None]
        return predicted_above(above, self.offset)

    def _inputs(self, scores: FloatArray, features: Features | None) -> Values:
        return _summary(scores)


@dataclass
class FeatureThreshold(ReadsFeatures, SampleThreshold):
    r"""Predict the labels whose score exceeds the sample's own threshold, from scores and features.

    As `SampleThreshold`, with $t(s, x) = w \cdot \phi(s) + v \cdot x + b$. Features of many columns
    are added into 128, so that the rule stays small.

    Args:
        columns: of the features it was fitted with.

    Examples:
        >>> generator = np.random.default_rng(0)
        >>> true = generator.random((300, 2)) < 0.5
        >>> level = 5 * generator.normal(size=(300, 1))  # two labels: the scores do not tell it
        >>> scores = level + true + generator.normal(scale=0.1, size=true.shape)
        >>> rule = FeatureThreshold().fit(true[:200], scores[:200], features=level[:200])
        >>> bool((rule(scores[200:], features=level[200:]) == true[200:]).mean() > 0.95)
        True
    """

    name: ClassVar[str] = "feature_threshold"

    def _inputs(self, scores: FloatArray, features: Features | None) -> Values:
        columns = condense(features, self.columns)
        return np.concatenate([_summary(scores), columns], axis=1)


def _summary(scores: FloatArray) -> Values:
    """The highest scores and moments of each sample, shape (samples, SUMMARY).

    Infinite scores count as the sample's nearest finite ones, but moments leave those of -inf out;
    with fewer labels than are shown, the last is repeated.
    """
    scores = np.ascontiguousarray(scores)  # whose rows are summed alike, few or many
    known_scores = bounded(scores).astype(np.float64)
    top = np.take_along_axis(known_scores, top_labels(known_scores, SHOWN), axis=1)
    top = np.pad(top, ((0, 0), (0, SHOWN - top.shape[1])), mode="edge")
    possible = scores > -np.inf
    known = np.maximum(np.count_nonzero(possible, axis=1), 1)
    mean = (known_scores * possible).sum(axis=1) / known
    deviation = np.sqrt((((known_scores - mean[:, None]) * possible) ** 2).sum(axis=1) / known)
    averages = [top.mean(axis=1), mean, deviation]
    return np.concatenate([top, np.stack(averages, axis=1)], axis=1)


def _apart(inputs: Values) -> Values:
    """How far apart the scores lie that each input is an average of, 0 for those that are none."""
    shown, deviation = inputs[:, :SHOWN].std(axis=1), inputs[:, SUMMARY - 1]
    apart = np.zeros(inputs.shape[1])
    apart[SHOWN:SUMMARY] = [np.sqrt(np.mean(x**2)) for x in (shown, deviation, deviation)]
    return apart


def _least_errors(scores: FloatArray, true: BoolArray, step: float) -> Values:
    """Halfway between the scores where cutting costs the fewest errors, shape (samples,).

    Every sample has a finite score; infinite ones count as a step beyond its nearest finite one,
    and so does the cut above or below all of them.

    Args:
        scores: shape (samples, labels).
        true: likewise.
        step: in units of how much the scores of a sample differ, so that scores in other units are
            cut alike.
    """
    possible, finite = scores > -np.inf, np.isfinite(scores)
    middle, spread = _spread(scores, finite)
    limited = np.clip(scores.astype(np.float64), middle - 1e6 * spread, middle + 1e6 * spread)
    step *= spread
    nearest = bounded(np.where(finite, limited, scores))
    beyond = np.where(finite, 0.0, np.where(possible, step, -step))
    ranked = nearest + beyond
    order = np.argsort(-ranked, axis=1, kind="stable")
    ranked = np.take_along_axis(ranked, order, axis=1)
    hits = np.take_along_axis(true & possible, order, axis=1)
    # Taking the first k is wrong on the false ones among them and on the true ones after them.
    errors = np.cumsum(1 - 2 * hits.astype(np.int64), axis=1)
    errors = np.concatenate([np.zeros((len(errors), 1), dtype=np.int64), errors], axis=1)
    best = np.argmin(errors, axis=1)
    padded = np.concatenate([ranked[:, :1] + step, ranked, ranked[:, -1:] - step], axis=1)
    rows = np.arange(len(padded))
    halfway: Values = (padded[rows, best] + padded[rows, best + 1]) / 2
    return halfway


def _spread(scores: FloatArray, finite: BoolArray) -> tuple[float, float]:
    """The median of all finite scores, and by how much those of a sample differ, above 0.

    That is the median of the samples' standard deviations, or of all scores' distances from their
    median where samples have but one score each, or equal ones.
    """
    if not finite.any():
        return 0.0, 1.0
    middle = float(np.median(scores[finite]))
    known = np.maximum(np.count_nonzero(finite, axis=1), 1)
    centred = np.where(finite, scores - middle, 0.0).astype(np.float64)
    means = centred.sum(axis=1) / known
    squares = (((centred - means[:, None]) * finite) ** 2).sum(axis=1) / known
    for spread in (np.median(np.sqrt(squares)), np.median(np.abs(centred[finite]))):
        if spread > 0:
            return middle, float(spread)
    return middle, 1.0

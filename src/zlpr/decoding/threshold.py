"""Rules that cut the scores themselves: at zero, at one number, or at one number per label."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from zlpr._errors import UserError
from zlpr.decoding._rule import (
    BoolArray,
    Features,
    FloatArray,
    Rule,
    Validation,
    check_number,
    check_numbers,
    check_width,
)
from zlpr.decoding._shortlist import Shortlist
from zlpr.decoding._sweep import best_cut, between, choose, finite, predicted_above, set_values

__all__ = ["PerLabelThreshold", "Threshold", "ZeroBound"]


@dataclass
class ZeroBound(Rule):
    r"""Predict the labels whose score exceeds 0: the paper's rule for ZLPR.

    $$\hat{Y} = \{l : s_l > 0\}$$

    There is nothing to fit; `fit` checks its input and returns the rule unchanged.

    Examples:
        >>> ZeroBound()(np.array([[0.3, -1.0, 0.0]]))
        array([[ True, False, False]])
    """

    name: ClassVar[str] = "zero"

    def learn(self, data: Validation) -> None:
        """Nothing: the bound stays at 0 whatever the metric."""

    def decide(
        self,
        scores: FloatArray,
        features: Features | None = None,
        shortlist: Shortlist | None = None,
    ) -> BoolArray:
        """The labels with a positive score."""
        return predicted_above(scores, 0.0)


@dataclass
class Threshold(Rule):
    r"""Predict the labels whose score exceeds one threshold, the same for all labels.

    $$\hat{Y} = \{l : s_l > t\}$$

    On the scores of a model trained with ZLPR this is the paper's TLPR at prediction time: its
    loss with threshold $s_0 = t$ is ZLPR of $s - t$, so cutting $s$ at $t$ is cutting $s - t$ at
    the zero bound.

    `fit` finds the best threshold of all: the metric is followed exactly while the threshold
    sweeps down the sorted scores, O(nL log nL). It lies halfway between the lowest predicted
    score and the next below it. One number for all labels needs no guard for rare ones.

    Args:
        threshold: t.

    Examples:
        >>> rule = Threshold().fit([[1, 0], [1, 1]], np.array([[0.9, 0.1], [0.8, 0.5]]))
        >>> rule.threshold
        0.3
        >>> rule(np.array([[0.7, 0.2]]))
        array([[ True, False]])
    """

    name: ClassVar[str] = "threshold"
    threshold: float = 0.0

    def __post_init__(self) -> None:
        check_number("threshold", self.threshold)

    def learn(self, data: Validation) -> None:
        """Find the threshold that makes the metric best on these scores."""
        self.threshold = best_cut(data).cut

    def decide(
        self,
        scores: FloatArray,
        features: Features | None = None,
        shortlist: Shortlist | None = None,
    ) -> BoolArray:
        """The labels with a score above the threshold."""
        return predicted_above(scores, self.threshold)


@dataclass
class PerLabelThreshold(Rule):
    r"""Predict each label where its score exceeds the label's own threshold.

    $$\hat{Y} = \{l : s_l > t_l\}$$

    `fit` is exact for the metrics in which labels are separate problems, given the labels that
    are guarded: macro F1, weighted F1 and Hamming loss by one sweep per label, micro F1 by
    Dinkelbach's method (for a fixed ratio the labels separate; the ratio rises to its maximum in
    a few rounds). For the metrics of samples' sets (example F1, Jaccard, subset accuracy) labels
    interact: starting from the best single threshold, each label's threshold is swept exactly
    with the others held, until no label gains. That is never worse than the single threshold.

    Guard for rare labels: a label with fewer than `min_positives` validation samples, none
    included, takes the best single threshold for all labels instead of its own, which so few
    samples cannot tell from chance; samples where its score is -inf do not count.
    `bench/decoding.py` shows what the rules do to fresh data.

    Args:
        thresholds: t, one per label.
        min_positives: how many validation samples a label needs for a threshold of its own.

    Examples:
        >>> true = np.array([[1, 0], [1, 1], [0, 1], [0, 0]])
        >>> scores = np.array([[0.9, 0.1], [0.8, 0.4], [0.7, 0.3], [0.6, 0.2]])
        >>> rule = PerLabelThreshold(min_positives=1).fit(true, scores, metric="macro_f1")
        >>> rule.thresholds
        [0.75, 0.25]
    """

    name: ClassVar[str] = "per_label_threshold"
    thresholds: list[float] = field(default_factory=list)
    min_positives: int = 20

    def __post_init__(self) -> None:
        check_numbers("thresholds", self.thresholds)
        if not isinstance(self.min_positives, int) or self.min_positives < 1:
            raise UserError(f"min_positives must be at least 1, got {self.min_positives!r}")

    def learn(self, data: Validation) -> None:
        """Find the thresholds that make the metric best on these scores."""
        possible = data.true & (data.scores > -np.inf)
        free = data.count_by_label(possible) >= self.min_positives
        thresholds = np.full(data.num_labels, best_cut(data).cut)
        if free.any():
            fit = _fit_separately if data.metric in _SEPARABLE else _fit_in_turn
            thresholds = fit(data, thresholds, free)
        self.thresholds = thresholds.tolist()

    def decide(
        self,
        scores: FloatArray,
        features: Features | None = None,
        shortlist: Shortlist | None = None,
    ) -> BoolArray:
        """The labels with a score above their threshold."""
        if not self.thresholds:
            raise UserError("per_label_threshold has no thresholds yet: call fit first")
        check_width(scores, len(self.thresholds), shortlist)
        return predicted_above(scores, self.thresholds, shortlist)


_SEPARABLE = ("micro_f1", "macro_f1", "weighted_f1", "hamming_loss")


@dataclass(frozen=True)
class _Candidates:
    """Every cut of every label that can be best: the highest, or one just below a true label.

    Attributes:
        label: the label, ascending, shape (candidates,).
        predicted: samples predicted, ascending within a label.
        hits: true ones among them.
        cut: the threshold.
    """

    label: NDArray[np.int64]
    predicted: NDArray[np.int64]
    hits: NDArray[np.int64]
    cut: NDArray[np.float64]

    def best(self, values: FloatArray) -> NDArray[np.int64]:
        """Index of each label's first best candidate, shape (labels that have any,)."""
        starts = np.flatnonzero(np.diff(self.label, prepend=-1))
        highest = np.repeat(
            np.maximum.reduceat(values, starts), np.diff(starts, append=len(values))
        )
        winners = np.flatnonzero(values == highest)
        return winners[np.unique(self.label[winners], return_index=True)[1]]


def _candidates(data: Validation, labels: NDArray[np.int64]) -> _Candidates:
    """Sort the scores of each of these labels once and keep the cuts that can be best."""
    cells = [data.cells_of(label) for label in labels.tolist()]
    columns = [_label_candidates(data.scores[cell], data.true[cell]) for cell in cells]
    label = np.repeat(labels, [len(cuts) for _, _, cuts in columns])
    return _Candidates(label, *(np.concatenate(parts) for parts in zip(*columns, strict=True)))


def _label_candidates(
    scores: FloatArray, true: BoolArray
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Predicted samples, hits and cuts of one label, from as few predicted as can be downwards.

    That is none, or those with a score of +inf, which is above every cut.
    """
    ascending = np.sort(scores)
    always = scores == np.inf
    fewest = int(always.sum())
    highest = ascending[-fewest - 1] if fewest < len(ascending) else -np.inf
    levels, counts = np.unique(scores[true & (scores > -np.inf)], return_counts=True)
    levels, counts = levels[::-1], counts[::-1]
    rank = np.searchsorted(ascending, levels)
    below = np.where(rank > 0, ascending[rank - 1], -np.inf)
    return (
        np.append(fewest, len(scores) - rank),
        np.append(int((always & true).sum()), np.cumsum(counts)),
        np.append(finite(highest), between(below, levels)).astype(np.float64),
    )


def _fit_separately(
    data: Validation, thresholds: NDArray[np.float64], free: BoolArray
) -> NDArray[np.float64]:
    """Thresholds for the metrics in which labels are separate problems."""
    candidates = _candidates(data, np.flatnonzero(free))
    if data.metric == "hamming_loss":
        best = candidates.best(2.0 * candidates.hits - candidates.predicted)
    elif data.metric == "micro_f1":
        best = _dinkelbach(data, candidates, thresholds, free)
    else:
        sizes = data.label_sizes()[candidates.label]
        best = candidates.best(2 * candidates.hits / np.maximum(candidates.predicted + sizes, 1))
    thresholds[free] = candidates.cut[best]
    return thresholds


def _dinkelbach(
    data: Validation, candidates: _Candidates, thresholds: NDArray[np.float64], free: BoolArray
) -> NDArray[np.int64]:
    """Candidates that make micro F1 best, the labels that are not free held at their threshold.

    Micro F1 is 2 hits / (predicted + true). For a ratio r, the labels' cuts that maximise
    2 hits - r predicted are found one by one; the ratio they reach is the next r. It rises
    until it is the maximum.
    """
    held = predicted_above(data.scores, thresholds.tolist(), data.shortlist) & ~data.per_cell(free)
    held_hits, held_predicted = (held & data.true).sum(), held.sum()
    true = data.label_sizes().sum()
    ratio, reached = -1.0, 0.0
    while reached > ratio:
        ratio = reached
        best = candidates.best(2.0 * candidates.hits - ratio * candidates.predicted)
        hits = held_hits + candidates.hits[best].sum()
        predicted = held_predicted + candidates.predicted[best].sum()
        reached = float(2 * hits / (predicted + true))
    return best


def _fit_in_turn(
    data: Validation, thresholds: NDArray[np.float64], free: BoolArray
) -> NDArray[np.float64]:
    """Thresholds for the metrics of samples' sets: sweep label by label until none gains."""
    predictions = predicted_above(data.scores, thresholds.tolist(), data.shortlist)
    predicted, hits = predictions.sum(axis=1), (predictions & data.true).sum(axis=1)
    sizes = data.sample_sizes()
    values = set_values(data, hits, predicted, sizes)
    columns = [_Column.of(data, predictions, label) for label in np.flatnonzero(free).tolist()]
    moved = True
    while moved:
        moved = False
        for column in columns:
            if len(column.samples) == 0:
                continue
            at, true = column.samples, column.true
            others, other_hits = predicted[at] - column.chosen, hits[at] - (column.chosen & true)
            without = set_values(data, other_hits, others, sizes[at])
            gains = set_values(data, other_hits + true, others + 1, sizes[at]) - without
            rest = float(without.sum() - values[at].sum())
            cut = choose(column.scores, rest + np.cumsum(gains), rest)
            if cut.value <= 1e-9:  # what moving the threshold adds to the sum over samples
                continue
            moved, thresholds[column.label] = True, cut.cut
            column.chosen = predicted_above(column.scores, cut.cut)
            predicted[at], hits[at] = others + column.chosen, other_hits + (column.chosen & true)
            values[at] = set_values(data, hits[at], predicted[at], sizes[at])
    return thresholds


@dataclass
class _Column:
    """The samples of a label that a threshold can matter for, from high to low score.

    Below its lowest true sample a lower cut adds errors alone, so what lies there is left out
    unless it is predicted to begin with.
    """

    label: int
    samples: NDArray[np.int64]
    scores: FloatArray
    true: BoolArray
    chosen: BoolArray

    @classmethod
    def of(cls, data: Validation, predictions: BoolArray, label: int) -> "_Column":
        cells = data.cells_of(label)
        scores, true, chosen = data.scores[cells], data.true[cells], predictions[cells]
        possible = scores > -np.inf
        lowest = np.min(scores, where=(true | chosen) & possible, initial=np.inf)
        kept = np.flatnonzero((scores >= lowest) & possible)
        kept = kept[np.argsort(-scores[kept])]
        samples = np.arange(len(data.true))[cells[0]]
        return cls(label, samples[kept], scores[kept], true[kept], chosen[kept])

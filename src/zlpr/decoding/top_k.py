"""The rule that gives every sample the same number of labels."""

from dataclasses import dataclass, replace
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
    descending_order,
)
from zlpr.decoding._shortlist import Shortlist
from zlpr.decoding._sweep import best_cut

__all__ = ["TopK"]


@dataclass
class TopK(Rule):
    r"""Predict the k labels with the highest scores; of tied labels, those that come first.

    `fit` finds the best k of all, 0 to L, by the sweep that `Threshold` makes over scores, made
    over ranks. One number for all labels needs no guard for rare ones.

    Args:
        k: how many labels every sample gets (at most L).

    Examples:
        >>> TopK(k=1)(np.array([[0.3, 0.9, 0.9]]))
        array([[False,  True, False]])
    """

    name: ClassVar[str] = "top_k"
    k: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 0:
            raise UserError(f"k must be a whole number of at least 0, got {self.k!r}")

    def learn(self, data: Validation) -> None:
        """Find the k that makes the metric best on these scores."""
        ranks = _ranks(data.scores)
        worth = -ranks.astype(np.float32)
        if data.shortlist is not None:
            worth[data.scores == -np.inf] = -np.inf  # no candidate
        cut = best_cut(replace(data, scores=worth)).cut
        self.k = int(np.count_nonzero(ranks[0] < -cut))

    def decide(
        self,
        scores: FloatArray,
        features: Features | None = None,
        shortlist: Shortlist | None = None,
    ) -> BoolArray:
        """The k labels with the highest scores."""
        labels = scores.shape[1]
        k = min(self.k, labels)
        if k == 0:
            return np.zeros(scores.shape, dtype=bool)
        last = np.partition(scores, labels - k, axis=1)[:, labels - k, None]
        above, tied = scores > last, scores == last
        room = k - above.sum(axis=1, keepdims=True)
        chosen: BoolArray = above | (tied & (np.cumsum(tied, axis=1) <= room))
        return chosen


def top_labels(scores: FloatArray, k: int) -> NDArray[np.int64]:
    """The k labels of each sample with the highest scores, best first; ties in label order."""
    k = min(k, scores.shape[1])
    chosen = np.nonzero(TopK(k).decide(scores))[1].reshape(len(scores), k)
    order = np.argsort(-np.take_along_axis(scores, chosen, axis=1), axis=1, kind="stable")
    return np.take_along_axis(chosen, order, axis=1)


def _ranks(scores: FloatArray) -> NDArray[np.int64]:
    """Rank of each label within its sample, 1 the highest score; ties in label order."""
    order = descending_order(scores)
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(1, scores.shape[1] + 1)[None], axis=1)
    return ranks

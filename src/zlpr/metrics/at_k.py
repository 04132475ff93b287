r"""Metrics of the k labels with the highest scores.

Which of several tied labels is among the first k is a matter of chance, so each metric is its
expectation over all orders of the ties, as in scikit-learn's `ndcg_score`. A sample without true
labels counts 0 everywhere, as it does there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from zlpr.metrics._inputs import Labels, Scores, blocks
from zlpr.metrics._ranks import PositiveRanks, positive_ranks
from zlpr.metrics._totals import Totals, ratio

__all__ = ["ndcg_at_k", "precision_at_k", "recall_at_k"]


@dataclass(frozen=True)
class AtKTotals(Totals):
    """What the metrics at k add up over samples, one entry per k.

    Attributes:
        samples: how many samples.
        precision: sum of precision at k, shape (number of k,).
        recall: sum of recall at k, same shape.
        ndcg: sum of nDCG at k, same shape.
    """

    samples: int
    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    ndcg: NDArray[np.float64]

    @classmethod
    def zero(cls, ks: Sequence[int]) -> Self:
        """The totals of no samples."""
        precision, recall, ndcg = np.zeros((3, len(ks)))
        return cls(0, precision, recall, ndcg)

    @classmethod
    def of_block(cls, ranks: PositiveRanks, ks: Sequence[int]) -> Self:
        """The totals of a block of samples."""
        hits = [ranks.sum_by_sample(share_in_top(ranks, k)) for k in ks]
        gains = [ratio(ranks.sum_by_sample(gain(ranks, k)), ideal(ranks, k), 0.0) for k in ks]
        return cls(
            samples=len(ranks.counts),
            precision=np.array([hit.sum() / k for hit, k in zip(hits, ks, strict=True)]),
            recall=np.array([ratio(hit, ranks.counts, 0.0).sum() for hit in hits]),
            ndcg=np.array([gained.sum() for gained in gains]),
        )

    @classmethod
    def of(cls, y_true: Labels, y_score: Scores, ks: Sequence[int]) -> Self:
        """The totals of whole matrices."""
        check_ks(ks)
        totals = cls.zero(ks)
        for block in blocks(y_true, y_score):
            assert block.scores is not None  # noqa: S101 (scores were given)
            ranks = positive_ranks(block.scores, block.true, above=True)
            totals = totals + cls.of_block(ranks, ks)
        if totals.samples == 0:
            raise ValueError("y_true has no samples")
        return totals


def check_ks(ks: Sequence[int]) -> None:
    """Refuse anything but positive whole numbers."""
    for k in ks:
        if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
            raise ValueError(f"k must be a whole number of at least 1, got {k!r}")


def _ties(ranks: PositiveRanks) -> tuple[Any, Any]:
    """Labels strictly above each true label, and the size of its tie (itself included)."""
    assert ranks.above is not None  # noqa: S101 (asked for by every caller)
    return ranks.above, ranks.at_or_above - ranks.above


def share_in_top(ranks: PositiveRanks, k: int) -> NDArray[np.float64]:
    """Chance of each true label to stand among the first k."""
    above, tied = _ties(ranks)
    share: NDArray[np.float64] = np.clip(k - above, 0, tied) / tied
    return share


def discounts(length: int) -> NDArray[np.float64]:
    """Sum of the first 0, 1, ..., `length` discounts 1 / log2(1 + rank)."""
    return np.concatenate([[0.0], np.cumsum(1.0 / np.log2(np.arange(2, length + 2)))])


def gain(ranks: PositiveRanks, k: int) -> NDArray[np.float64]:
    """Mean discount of each true label over the ranks of its tie, 0 beyond rank k."""
    above, tied = _ties(ranks)
    k = min(k, ranks.num_labels)
    total = discounts(k)
    over_tie = total[np.minimum(ranks.at_or_above, k)] - total[np.minimum(above, k)]
    mean: NDArray[np.float64] = over_tie / tied
    return mean


def ideal(ranks: PositiveRanks, k: int) -> NDArray[np.float64]:
    """The gain of each sample if its true labels came first."""
    k = min(k, ranks.num_labels)
    best: NDArray[np.float64] = discounts(k)[np.minimum(ranks.counts, k)]
    return best


def precision_at_k(y_true: Labels, y_score: Scores, k: int = 1) -> float:
    r"""Share of true labels among the k with the highest scores, averaged over samples.

    $$\frac{1}{n} \sum_i \frac{|Y_i \cap \mathrm{top}_k(s_i)|}{k}$$

    The divisor is k even where a sample has fewer labels, or there are fewer in all.

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR.
        y_score: scores of the same shape, dense or `TopScores`.
        k: how many labels to look at.

    Returns:
        A number from 0 to 1, larger is better.

    Examples:
        >>> precision_at_k([[1, 0, 1]], [[0.9, 0.8, 0.1]], k=2)
        0.5
    """
    totals = AtKTotals.of(y_true, y_score, [k])
    return float(totals.precision[0] / totals.samples)


def recall_at_k(y_true: Labels, y_score: Scores, k: int = 1) -> float:
    r"""Share of a sample's labels among the k with the highest scores, averaged over samples.

    $$\frac{1}{n} \sum_i \frac{|Y_i \cap \mathrm{top}_k(s_i)|}{|Y_i|}$$

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR.
        y_score: scores of the same shape, dense or `TopScores`.
        k: how many labels to look at.

    Returns:
        A number from 0 to 1, larger is better.

    Examples:
        >>> recall_at_k([[1, 0, 1]], [[0.9, 0.8, 0.1]], k=1)
        0.5
    """
    totals = AtKTotals.of(y_true, y_score, [k])
    return float(totals.recall[0] / totals.samples)


def ndcg_at_k(y_true: Labels, y_score: Scores, k: int = 5) -> float:
    r"""Discounted gain of the first k labels over the best possible, averaged over samples.

    $$\frac{1}{n} \sum_i \frac{\sum_{r=1}^{k} [\mathrm{label}_r \in Y_i] / \log_2(1 + r)}
    {\sum_{r=1}^{\min(k, |Y_i|)} 1 / \log_2(1 + r)}$$

    Equal to scikit-learn's `ndcg_score(y_true, y_score, k=k)`, ties included.

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR.
        y_score: scores of the same shape, dense or `TopScores`.
        k: how many labels to look at.

    Returns:
        A number from 0 to 1, larger is better.

    Examples:
        >>> round(ndcg_at_k([[1, 0, 1]], [[0.9, 0.8, 0.1]], k=3), 4)
        0.9197
    """
    totals = AtKTotals.of(y_true, y_score, [k])
    return float(totals.ndcg[0] / totals.samples)

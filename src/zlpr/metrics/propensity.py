r"""Metrics at k in which a hit counts by the inverse of its label's propensity.

With $p_l$ the propensity of a label (`LabelFrequencies`), the gain of the first k labels is set
against the best that any ranking could gain, both averaged over samples before they are divided, as
in the Extreme Classification Repository's tables and pyxclib. Ties are counted as in
`zlpr.metrics.at_k`: by expectation over their orders.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from zlpr.metrics._inputs import Labels, Scores, blocks
from zlpr.metrics._ranks import PositiveRanks, positive_ranks
from zlpr.metrics._totals import Totals, ratio
from zlpr.metrics.at_k import check_ks, discounts, gain, ideal, share_in_top
from zlpr.metrics.frequency import LabelFrequencies

__all__ = ["ps_ndcg_at_k", "ps_precision_at_k", "ps_recall_at_k"]

Values = NDArray[np.float64]


@dataclass(frozen=True)
class PropensityTotals(Totals):
    """What the propensity-scored metrics add up over samples; row 0 gained, row 1 the best.

    Attributes:
        samples: how many samples.
        precision: weighted hits, shape (2, number of k).
        recall: weighted hits over the number of true labels, same shape.
        ndcg: weighted discounted hits over the best without weights, same shape.
    """

    samples: int
    precision: Values
    recall: Values
    ndcg: Values

    @classmethod
    def zero(cls, ks: Sequence[int]) -> Self:
        """The totals of no samples."""
        precision, recall, ndcg = np.zeros((3, 2, len(ks)))
        return cls(0, precision, recall, ndcg)

    @classmethod
    def of_block(cls, ranks: PositiveRanks, ks: Sequence[int]) -> Self:
        """The totals of a block of samples whose ranks have weights."""
        weights, best = ranks.weights, _best_places(ranks)
        hits, dcg = np.zeros((2, len(ks))), np.zeros((2, len(ks)))
        recall = np.zeros((2, len(ks)))
        for place, k in enumerate(ks):
            total, limit = discounts(min(k, ranks.num_labels)), min(k, ranks.num_labels)
            own: Values = total[np.minimum(best + 1, limit)] - total[np.minimum(best, limit)]
            for row, (shares, gains) in enumerate(
                ((share_in_top(ranks, k), gain(ranks, k)), (best < k, own))
            ):
                by_sample = ranks.sum_by_sample(weights * shares.astype(np.float64))
                hits[row, place] = by_sample.sum()
                recall[row, place] = ratio(by_sample, ranks.counts, 0.0).sum()
                summed = ranks.sum_by_sample(weights * gains)
                dcg[row, place] = ratio(summed, ideal(ranks, k), 0.0).sum()
        return cls(len(ranks.counts), hits, recall, dcg)

    @classmethod
    def of(
        cls, y_true: Labels, y_score: Scores, frequencies: LabelFrequencies, ks: Sequence[int]
    ) -> Self:
        """The totals of whole matrices."""
        check_ks(ks)
        totals = cls.zero(ks)
        for block in blocks(y_true, y_score, num_labels=len(frequencies.counts)):
            assert block.scores is not None  # noqa: S101 (scores were given)
            weights = 1 / frequencies.propensity
            ranks = positive_ranks(block.scores, block.true, above=True, weights=weights)
            totals = totals + cls.of_block(ranks, ks)
        if totals.samples == 0:
            raise ValueError("y_true has no samples")
        return totals

    def means(self, name: str) -> Values:
        """A metric at each k: what was gained over the best, 0 where nothing could be."""
        gained, best = getattr(self, name)
        values: Values = ratio(gained, best, 0.0)
        return values


def _best_places(ranks: PositiveRanks) -> NDArray[np.int64]:
    """Where each true label would stand if a sample's came by falling weight, from 0."""
    order = np.lexsort((-ranks.weights, ranks.rows))
    first = np.cumsum(ranks.counts) - ranks.counts
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order)) - first[ranks.rows[order]]
    return places


def _at(name: str, y_true: Any, y_score: Any, frequencies: LabelFrequencies, k: int) -> float:
    return float(PropensityTotals.of(y_true, y_score, frequencies, [k]).means(name)[0])


def ps_precision_at_k(
    y_true: Labels, y_score: Scores, frequencies: LabelFrequencies, k: int = 1
) -> float:
    r"""Precision at k with hits weighed by inverse propensities, over the best possible (PSP@k).

    $$\frac{\sum_i \sum_{l \in \mathrm{top}_k(s_i) \cap Y_i} 1 / p_l}
    {\sum_i \max_{|S| = k} \sum_{l \in S \cap Y_i} 1 / p_l}$$

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR.
        y_score: scores of the same shape, dense or `TopScores`.
        frequencies: of the labels in training.
        k: how many labels to look at.

    Returns:
        A number from 0 to 1, larger is better.

    Examples:
        >>> seen = LabelFrequencies(np.array([90, 9, 1]), samples=100)
        >>> round(ps_precision_at_k([[1, 0, 1]], [[0.9, 0.8, 0.1]], seen, k=1), 4)
        0.3252
    """
    return _at("precision", y_true, y_score, frequencies, k)


def ps_recall_at_k(
    y_true: Labels, y_score: Scores, frequencies: LabelFrequencies, k: int = 5
) -> float:
    r"""Recall at k with hits weighed by inverse propensities, over the best possible (PSR@k).

    $$\frac{\sum_i \frac{1}{|Y_i|} \sum_{l \in \mathrm{top}_k(s_i) \cap Y_i} 1 / p_l}
    {\sum_i \frac{1}{|Y_i|} \max_{|S| = k} \sum_{l \in S \cap Y_i} 1 / p_l}$$

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR.
        y_score: scores of the same shape, dense or `TopScores`.
        frequencies: of the labels in training.
        k: how many labels to look at.

    Returns:
        A number from 0 to 1, larger is better.

    Examples:
        >>> seen = LabelFrequencies(np.array([90, 9, 1]), samples=100)
        >>> round(ps_recall_at_k([[1, 0, 1]], [[0.9, 0.8, 0.1]], seen, k=3), 4)
        1.0
    """
    return _at("recall", y_true, y_score, frequencies, k)


def ps_ndcg_at_k(
    y_true: Labels, y_score: Scores, frequencies: LabelFrequencies, k: int = 5
) -> float:
    r"""The nDCG at k with hits weighed by inverse propensities, over the best (PSnDCG@k).

    With $Z_i = \sum_{r \le \min(k, |Y_i|)} 1 / \log_2(1 + r)$ and l(r) the label at rank r, the sum
    over samples of

    $$\frac{1}{Z_i} \sum_{r=1}^{k} \frac{[l(r) \in Y_i]}{p_{l(r)} \log_2(1 + r)},$$

    over the same with each sample's true labels first, the least probable foremost.

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR.
        y_score: scores of the same shape, dense or `TopScores`.
        frequencies: of the labels in training.
        k: how many labels to look at.

    Returns:
        A number from 0 to 1, larger is better.

    Examples:
        >>> seen = LabelFrequencies(np.array([90, 9, 1]), samples=100)
        >>> round(ps_ndcg_at_k([[1, 0, 1]], [[0.1, 0.8, 0.9]], seen, k=3), 4)
        0.9647
    """
    return _at("ndcg", y_true, y_score, frequencies, k)

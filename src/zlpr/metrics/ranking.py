r"""Metrics of scores: whether the true labels stand above the others.

All take true labels (dense or CSR) and finite or infinite scores of shape (samples, labels), or
`TopScores` of each sample's candidates; only the order of a sample's scores matters, so they may be
logits or probabilities. Labels with equal scores are counted as scikit-learn counts them: each at
the worst rank of its tie.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from zlpr.metrics._inputs import Empty, Labels, Scores, blocks, check_empty
from zlpr.metrics._ranks import PositiveRanks, positive_ranks
from zlpr.metrics._totals import Totals, ratio

__all__ = ["average_precision", "coverage_error", "one_error", "ranking_loss"]


@dataclass(frozen=True)
class RankingTotals(Totals):
    """What the ranking metrics add up over samples.

    Attributes:
        samples: how many samples.
        unlabelled: samples without a true label.
        average_precision: sum over samples with labels.
        ranking_loss: sum over samples with both true and other labels.
        coverage: sum over samples with labels.
        one_error: samples with labels where another label stands at the top.
    """

    samples: int = 0
    unlabelled: int = 0
    average_precision: float = 0.0
    ranking_loss: float = 0.0
    coverage: int = 0
    one_error: int = 0

    @classmethod
    def of_block(cls, ranks: PositiveRanks) -> Self:
        """The totals of a block of samples."""
        counts, others = ranks.counts, ranks.num_labels - ranks.counts
        wrong_above = ranks.at_or_above - ranks.true_at_or_above
        precision = ranks.sum_by_sample(ranks.true_at_or_above / ranks.at_or_above)
        worst = np.zeros(len(counts), dtype=np.int64)
        np.maximum.at(worst, ranks.rows, ranks.at_or_above)
        right_at_top = np.zeros(len(counts), dtype=bool)
        right_at_top[ranks.rows[wrong_above == 0]] = True
        labelled = counts > 0
        return cls(
            samples=len(counts),
            unlabelled=int(np.count_nonzero(~labelled)),
            average_precision=float(ratio(precision, counts, 0.0).sum()),
            ranking_loss=float(ratio(ranks.sum_by_sample(wrong_above), counts * others, 0.0).sum()),
            coverage=int(worst.sum()),
            one_error=int(np.count_nonzero(labelled & ~right_at_top)),
        )

    @classmethod
    def of(cls, y_true: Labels, y_score: Scores) -> Self:
        """The totals of whole matrices."""
        totals = cls()
        for block in blocks(y_true, y_score):
            assert block.scores is not None  # noqa: S101 (scores were given)
            totals = totals + cls.of_block(positive_ranks(block.scores, block.true))
        if totals.samples == 0:
            raise ValueError("y_true has no samples")
        return totals

    def mean_average_precision(self, empty: Empty) -> float:
        """Mean over samples, with those that have no label as the convention counts them."""
        perfect = self.unlabelled if empty == "sklearn" else 0
        return (self.average_precision + perfect) / self.samples

    def mean_ranking_loss(self) -> float:
        """Mean over samples."""
        return self.ranking_loss / self.samples

    def coverage_error(self) -> float:
        """Mean over samples."""
        return self.coverage / self.samples

    def mean_one_error(self, empty: Empty) -> float:
        """Mean over samples, with those that have no label as the convention counts them."""
        return (self.one_error + (self.unlabelled if empty == "paper" else 0)) / self.samples


def average_precision(y_true: Labels, y_score: Scores, *, empty: Empty = "paper") -> float:
    r"""Average precision of each sample's ranking, averaged over samples (AvgPrec).

    For every true label, the share of true labels among those that stand at its rank or above:

    $$\frac{1}{n} \sum_i \frac{1}{|Y_i|} \sum_{j \in Y_i}
    \frac{|\{k \in Y_i : s_k \ge s_j\}|}{|\{k : s_k \ge s_j\}|}$$

    With `empty="sklearn"` this is `label_ranking_average_precision_score`.

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR.
        y_score: scores of the same shape, dense or `TopScores`.
        empty: a sample without labels counts 0 (`"paper"`) or 1 (`"sklearn"`).

    Returns:
        A number from 0 to 1, larger is better.

    Examples:
        >>> round(average_precision([[1, 0, 0], [0, 0, 1]], [[0.75, 0.5, 1], [1, 0.2, 0.1]]), 4)
        0.4167
    """
    check_empty(empty)
    return RankingTotals.of(y_true, y_score).mean_average_precision(empty)


def ranking_loss(y_true: Labels, y_score: Scores, *, empty: Empty = "paper") -> float:
    r"""Share of (true, other) label pairs of a sample in the wrong order or tied (RankLoss).

    $$\frac{1}{n} \sum_i \frac{|\{(j, k) \in Y_i \times \bar{Y}_i : s_k \ge s_j\}|}
    {|Y_i| |\bar{Y}_i|}$$

    The denominator is the number of pairs, true labels times others, as in scikit-learn's
    `label_ranking_loss`; the paper prints |ŷ| |y|, which cannot give its own figures. A sample
    without a pair (no label, or all of them) counts 0, in the paper's tables and there alike.

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR.
        y_score: scores of the same shape, dense or `TopScores`.
        empty: has no effect here; accepted so that all metrics are called alike.

    Returns:
        A number from 0 to 1, smaller is better.

    Examples:
        >>> ranking_loss([[1, 0, 0], [0, 0, 1]], [[0.75, 0.5, 1], [1, 0.2, 0.1]])
        0.75
    """
    check_empty(empty)
    return RankingTotals.of(y_true, y_score).mean_ranking_loss()


def coverage_error(y_true: Labels, y_score: Scores, *, empty: Empty = "paper") -> float:
    r"""How far down the ranking the last true label stands, averaged over samples.

    $$\frac{1}{n} \sum_i \max_{j \in Y_i} |\{k : s_k \ge s_j\}|$$

    A sample without labels counts 0, as in scikit-learn's `coverage_error`.

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR.
        y_score: scores of the same shape, dense or `TopScores`.
        empty: has no effect here; accepted so that all metrics are called alike.

    Returns:
        A number from 0 to L, smaller is better; the best possible is the mean number of labels.

    Examples:
        >>> coverage_error([[1, 0, 0], [0, 0, 1]], [[0.75, 0.5, 1], [1, 0.2, 0.1]])
        2.5
    """
    check_empty(empty)
    return RankingTotals.of(y_true, y_score).coverage_error()


def one_error(y_true: Labels, y_score: Scores, *, empty: Empty = "paper") -> float:
    r"""Share of samples where a label that is not true stands at the top, alone or tied.

    $$\frac{1}{n} \sum_i [\max_{k \notin Y_i} s_k \ge \max_{j \in Y_i} s_j]$$

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR.
        y_score: scores of the same shape, dense or `TopScores`.
        empty: a sample without labels is an error (`"paper"`, as its average precision is 0) or
            none (`"sklearn"`, as its average precision is 1; scikit-learn lacks this metric).

    Returns:
        A number from 0 to 1, smaller is better.

    Examples:
        >>> one_error([[1, 0, 0], [0, 0, 1]], [[1.5, 0.5, 1], [1, 0.2, 0.1]])
        0.5
    """
    check_empty(empty)
    return RankingTotals.of(y_true, y_score).mean_one_error(empty)

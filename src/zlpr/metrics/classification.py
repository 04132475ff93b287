r"""Metrics of label sets: how well the predicted sets match the true ones.

All take indicator matrices of shape (samples, labels), dense (numpy, torch, lists; booleans or
zeros and ones) or scipy CSR, in scikit-learn's order, true labels first.

What an empty case counts is a convention, named by `empty`:

- `"paper"`: nothing predicted where there was nothing to predict is right. The F1 and Jaccard of
  an empty prediction for an empty truth are 1, and so are the precision, recall and F1 of a label
  with no true, false or missed positive.
- `"sklearn"`: scikit-learn's default (`zero_division=0` without the warning): all of these are 0.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from zlpr.metrics._inputs import (
    Empty,
    IntArray,
    Labels,
    SampleBlock,
    as_labels,
    blocks,
    check_empty,
)
from zlpr.metrics._totals import Totals, ratio

__all__ = [
    "LabelReport",
    "cardinality",
    "empty_share",
    "example_f1",
    "hamming_loss",
    "jaccard",
    "label_report",
    "macro_f1",
    "micro_f1",
    "subset_accuracy",
    "weighted_f1",
]


@dataclass(frozen=True)
class LabelReport:
    """How each label fares; every attribute has shape (labels,).

    Attributes:
        precision: share of the label's predictions that are right.
        recall: share of the samples with the label for which it is predicted.
        f1: their harmonic mean.
        support: samples with the label.
        predicted: samples for which the label is predicted.
    """

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    f1: NDArray[np.float64]
    support: IntArray
    predicted: IntArray


@dataclass(frozen=True)
class DecisionTotals(Totals):
    """What the metrics of label sets add up over samples.

    Attributes:
        samples: how many samples.
        exact: samples whose predicted set is the true one.
        f1: sum over samples of F1, an empty prediction for an empty truth as 0.
        jaccard: the same for Jaccard.
        both_empty: samples without a true and without a predicted label.
        empty_predictions: samples without a predicted label.
        hits: per label, samples where it is true and predicted, shape (labels,).
        predicted: per label, samples where it is predicted, shape (labels,).
        true: per label, samples where it is true, shape (labels,).
    """

    samples: int
    exact: int
    f1: float
    jaccard: float
    both_empty: int
    empty_predictions: int
    hits: IntArray
    predicted: IntArray
    true: IntArray

    @classmethod
    def zero(cls, num_labels: int) -> Self:
        """The totals of no samples."""
        hits, predicted, true = np.zeros((3, num_labels), dtype=np.int64)
        return cls(0, 0, 0.0, 0.0, 0, 0, hits, predicted, true)

    @classmethod
    def of_block(cls, block: SampleBlock) -> Self:
        """The totals of a block of samples with predictions."""
        true, predicted = block.true, block.predicted
        assert predicted is not None  # noqa: S101 (blocks were made with predictions)
        samples, labels = len(true.counts), true.num_labels
        hit = predicted.among(true)
        hits = np.bincount(predicted.rows[hit], minlength=samples)
        together = true.counts + predicted.counts
        return cls(
            samples=samples,
            exact=int(np.count_nonzero(together == 2 * hits)),
            f1=float(ratio(2 * hits, together, empty=0.0).sum()),
            jaccard=float(ratio(hits, together - hits, empty=0.0).sum()),
            both_empty=int(np.count_nonzero(together == 0)),
            empty_predictions=int(np.count_nonzero(predicted.counts == 0)),
            hits=np.bincount(predicted.columns[hit], minlength=labels),
            predicted=np.bincount(predicted.columns, minlength=labels),
            true=np.bincount(true.columns, minlength=labels),
        )

    @classmethod
    def of(cls, y_true: Labels, y_pred: Labels) -> Self:
        """The totals of whole matrices."""
        totals = cls.zero(as_labels("y_true", y_true).shape[1])
        for block in blocks(y_true, y_pred=y_pred):
            totals = totals + cls.of_block(block)
        if totals.samples == 0:
            raise ValueError("y_true has no samples")
        return totals

    def subset_accuracy(self) -> float:
        """Share of samples whose set is exactly right."""
        return self.exact / self.samples

    def example_f1(self, empty: Empty) -> float:
        """Mean F1 of the samples."""
        return (self.f1 + (self.both_empty if empty == "paper" else 0)) / self.samples

    def jaccard_index(self, empty: Empty) -> float:
        """Mean Jaccard index of the samples."""
        return (self.jaccard + (self.both_empty if empty == "paper" else 0)) / self.samples

    def hamming_loss(self) -> float:
        """Share of cells that are wrong."""
        wrong = self.predicted.sum() + self.true.sum() - 2 * self.hits.sum()
        return float(wrong / (self.samples * len(self.true)))

    def micro_f1(self, empty: Empty) -> float:
        """F1 over all cells."""
        together = self.predicted.sum() + self.true.sum()
        return float(ratio(2 * self.hits.sum(), together, empty=float(empty == "paper")))

    def label_report(self, empty: Empty) -> LabelReport:
        """Precision, recall and F1 of each label."""
        together = self.predicted + self.true
        absent = np.where((together == 0) & (empty == "paper"), 1.0, 0.0)
        return LabelReport(
            precision=ratio(self.hits, self.predicted, 0.0) + absent,
            recall=ratio(self.hits, self.true, 0.0) + absent,
            f1=ratio(2 * self.hits, together, 0.0) + absent,
            support=self.true,
            predicted=self.predicted,
        )

    def macro_f1(self, empty: Empty) -> float:
        """Mean F1 of the labels."""
        return float(self.label_report(empty).f1.mean())

    def weighted_f1(self, empty: Empty) -> float:
        """Mean F1 of the labels weighted by support."""
        if self.true.sum() == 0:
            return self.micro_f1(empty)
        return float(np.average(self.label_report(empty).f1, weights=self.true))


def subset_accuracy(y_true: Labels, y_pred: Labels, *, empty: Empty = "paper") -> float:
    r"""Share of samples whose predicted set is exactly the true one (SubACC).

    $$\frac{1}{n} \sum_i [\hat{Y}_i = Y_i]$$

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR.
        y_pred: predicted labels, same shape.
        empty: has no effect here; accepted so that all metrics are called alike.

    Returns:
        A number from 0 to 1, larger is better.

    Examples:
        >>> subset_accuracy([[1, 0], [1, 1]], [[1, 0], [1, 0]])
        0.5
    """
    check_empty(empty)
    return DecisionTotals.of(y_true, y_pred).subset_accuracy()


def example_f1(y_true: Labels, y_pred: Labels, *, empty: Empty = "paper") -> float:
    r"""F1 of each sample's set, averaged over samples (MLC-F1).

    $$\frac{1}{n} \sum_i \frac{2 |Y_i \cap \hat{Y}_i|}{|Y_i| + |\hat{Y}_i|}$$

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR.
        y_pred: predicted labels, same shape.
        empty: an empty prediction for an empty truth counts 1 (`"paper"`) or 0 (`"sklearn"`).

    Returns:
        A number from 0 to 1, larger is better.

    Examples:
        >>> truth, predicted = [[1, 0], [0, 0]], [[1, 1], [0, 0]]
        >>> round(example_f1(truth, predicted), 4)
        0.8333
        >>> round(example_f1(truth, predicted, empty="sklearn"), 4)
        0.3333
    """
    check_empty(empty)
    return DecisionTotals.of(y_true, y_pred).example_f1(empty)


def micro_f1(y_true: Labels, y_pred: Labels, *, empty: Empty = "paper") -> float:
    r"""F1 over all cells at once (Micro-F1).

    $$\frac{2 \sum_l tp_l}{\sum_l (2 tp_l + fp_l + fn_l)}$$

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR.
        y_pred: predicted labels, same shape.
        empty: with no true and no predicted label anywhere, 1 (`"paper"`) or 0 (`"sklearn"`).

    Returns:
        A number from 0 to 1, larger is better.

    Examples:
        >>> micro_f1([[1, 0], [1, 1]], [[1, 0], [1, 0]])
        0.8
    """
    check_empty(empty)
    return DecisionTotals.of(y_true, y_pred).micro_f1(empty)


def macro_f1(y_true: Labels, y_pred: Labels, *, empty: Empty = "paper") -> float:
    r"""F1 of each label, averaged over labels (Macro-F1).

    $$\frac{1}{L} \sum_l \frac{2 tp_l}{2 tp_l + fp_l + fn_l}$$

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR.
        y_pred: predicted labels, same shape.
        empty: a label with no true, false or missed positive counts 1 (`"paper"`) or 0
            (`"sklearn"`).

    Returns:
        A number from 0 to 1, larger is better.

    Examples:
        >>> macro_f1([[1, 0], [1, 1]], [[1, 0], [1, 0]])
        0.5
    """
    check_empty(empty)
    return DecisionTotals.of(y_true, y_pred).macro_f1(empty)


def weighted_f1(y_true: Labels, y_pred: Labels, *, empty: Empty = "paper") -> float:
    r"""F1 of each label, averaged with the labels' support as weights.

    $$\frac{\sum_l n_l F1_l}{\sum_l n_l}$$ with $n_l$ the samples that have label $l$.

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR.
        y_pred: predicted labels, same shape.
        empty: with no true label anywhere, 0 if something is predicted, else as `micro_f1`.

    Returns:
        A number from 0 to 1, larger is better.

    Examples:
        >>> round(weighted_f1([[1, 0], [1, 1]], [[1, 0], [1, 0]]), 4)
        0.6667
    """
    check_empty(empty)
    return DecisionTotals.of(y_true, y_pred).weighted_f1(empty)


def hamming_loss(y_true: Labels, y_pred: Labels, *, empty: Empty = "paper") -> float:
    r"""Share of cells that are wrong; smaller is better.

    $$\frac{1}{nL} \sum_i |Y_i \triangle \hat{Y}_i|$$

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR.
        y_pred: predicted labels, same shape.
        empty: has no effect here; accepted so that all metrics are called alike.

    Returns:
        A number from 0 to 1, smaller is better.

    Examples:
        >>> hamming_loss([[1, 0], [1, 1]], [[1, 0], [1, 0]])
        0.25
    """
    check_empty(empty)
    return DecisionTotals.of(y_true, y_pred).hamming_loss()


def jaccard(y_true: Labels, y_pred: Labels, *, empty: Empty = "paper") -> float:
    r"""Jaccard index of each sample's set, averaged over samples.

    $$\frac{1}{n} \sum_i \frac{|Y_i \cap \hat{Y}_i|}{|Y_i \cup \hat{Y}_i|}$$

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR.
        y_pred: predicted labels, same shape.
        empty: an empty prediction for an empty truth counts 1 (`"paper"`) or 0 (`"sklearn"`).

    Returns:
        A number from 0 to 1, larger is better.

    Examples:
        >>> jaccard([[1, 0], [1, 1]], [[1, 0], [1, 0]])
        0.75
    """
    check_empty(empty)
    return DecisionTotals.of(y_true, y_pred).jaccard_index(empty)


def label_report(y_true: Labels, y_pred: Labels, *, empty: Empty = "paper") -> LabelReport:
    """Precision, recall, F1 and support of each label.

    A precision without predictions and a recall without support are 0, unless the label is
    absent from both and `empty="paper"`: then all three are 1.

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR.
        y_pred: predicted labels, same shape.
        empty: see above.

    Returns:
        A `LabelReport` of arrays of shape (labels,).

    Examples:
        >>> report = label_report([[1, 0], [1, 1]], [[1, 0], [1, 0]])
        >>> report.f1, report.support
        (array([1., 0.]), array([2, 1]))
    """
    check_empty(empty)
    return DecisionTotals.of(y_true, y_pred).label_report(empty)


def cardinality(labels: Labels) -> float:
    """Mean number of labels per sample: predicted sets should come close to the true ones here.

    Args:
        labels: true or predicted labels, shape (samples, labels), dense or CSR.

    Returns:
        A number from 0 to L.

    Examples:
        >>> cardinality([[1, 0], [1, 1]])
        1.5
    """
    return float(_set_sizes(labels).mean())


def empty_share(labels: Labels) -> float:
    """Share of samples without any label.

    Args:
        labels: true or predicted labels, shape (samples, labels), dense or CSR.

    Returns:
        A number from 0 to 1.

    Examples:
        >>> empty_share([[1, 0], [0, 0]])
        0.5
    """
    return float((_set_sizes(labels) == 0).mean())


def _set_sizes(labels: Labels) -> IntArray:
    """How many labels each sample has."""
    sizes = [block.true.counts for block in blocks(labels)]
    if not sizes:
        raise ValueError("there are no samples")
    return np.concatenate(sizes)

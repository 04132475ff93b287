r"""Metrics in which a label counts with its ancestors (Kiritchenko et al., 2006).

With $\hat{P}_i$ and $\hat{T}_i$ the predicted and true labels of sample i, each with all its
ancestors, hierarchical precision is $\sum_i |\hat{P}_i \cap \hat{T}_i| / \sum_i |\hat{P}_i|$,
recall is $\sum_i |\hat{P}_i \cap \hat{T}_i| / \sum_i |\hat{T}_i|$, and F1 their harmonic mean: a
sibling in the place of a label is partly right, for the ancestors that they share.
"""

from collections.abc import Sequence

from zlpr._ancestors import Ancestors
from zlpr.metrics._inputs import Labels, SampleLabels, blocks

__all__ = ["hierarchical_f1", "hierarchical_precision", "hierarchical_recall"]


def hierarchical_precision(
    y_true: Labels, y_pred: Labels, *, parents: Sequence[Sequence[int]]
) -> float:
    """Share of the predicted labels and their ancestors that are true.

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR; ancestors may be missing.
        y_pred: predicted labels of the same shape.
        parents: the direct parents of each label, by number.

    Returns:
        1 where nothing is predicted.

    Examples:
        >>> sports = [[], [0], [0]]  # two labels below the first
        >>> hierarchical_precision([[0, 1, 0]], [[0, 0, 1]], parents=sports)
        0.5
    """
    hits, predicted, _ = _totals(y_true, y_pred, parents)
    return hits / predicted if predicted else 1.0


def hierarchical_recall(
    y_true: Labels, y_pred: Labels, *, parents: Sequence[Sequence[int]]
) -> float:
    """Share of the true labels and their ancestors that are predicted, or above what is.

    The arguments are those of `hierarchical_precision`; 1 where nothing is true.
    """
    hits, _, true = _totals(y_true, y_pred, parents)
    return hits / true if true else 1.0


def hierarchical_f1(y_true: Labels, y_pred: Labels, *, parents: Sequence[Sequence[int]]) -> float:
    """Micro-F1 over labels and their ancestors.

    The arguments are those of `hierarchical_precision`; 1 where nothing is true or predicted.

    Examples:
        >>> hierarchical_f1([[0, 1, 0]], [[1, 0, 0]], parents=[[], [0], [0]])
        0.6666666666666666
    """
    hits, predicted, true = _totals(y_true, y_pred, parents)
    return 2 * hits / (predicted + true) if predicted + true else 1.0


def _totals(
    y_true: Labels, y_pred: Labels, parents: Sequence[Sequence[int]]
) -> tuple[int, int, int]:
    """Hits, predicted and true labels, ancestors among them, over all samples."""
    ancestors = Ancestors.of(parents)
    hits = predicted = true = 0
    for block in blocks(y_true, y_pred=y_pred, num_labels=len(parents)):
        if block.predicted is None:
            raise AssertionError("predictions are given")
        held, chosen = _closed(block.true, ancestors), _closed(block.predicted, ancestors)
        hits += int(chosen.among(held).sum())
        predicted, true = predicted + len(chosen.columns), true + len(held.columns)
    return hits, predicted, true


def _closed(labels: SampleLabels, ancestors: Ancestors) -> SampleLabels:
    cells = ancestors.close(labels.cells)
    return SampleLabels.from_cells(cells, len(labels.counts), labels.num_labels)

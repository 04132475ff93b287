"""Scores of candidates: which label each stands for, where columns are no labels.

Rules see scores of shape (samples, width) either way. Where all labels have one, column l is label
l and there is no `Shortlist`; of `TopScores`, each sample has its own candidates, and the shortlist
says which. What looks at one sample at a time need not know the difference; what belongs to a label
asks here.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlpr.metrics import TopScores
from zlpr.metrics._inputs import SampleLabels

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Shortlist:
    """The candidates of some samples.

    Attributes:
        labels: of each cell, shape (samples, width), ascending within a sample; L where a sample
            has fewer candidates.
        num_labels: L.
    """

    labels: IntArray
    num_labels: int

    @classmethod
    def of(cls, scores: TopScores) -> "Shortlist":
        """The candidates of scores that are ordered `by_label`."""
        labels = np.where(scores.labels < 0, scores.num_labels, scores.labels)
        return cls(labels.astype(np.int64, copy=False), scores.num_labels)

    def take(self, values: Any) -> NDArray[Any]:
        """A value per label as one per cell."""
        return np.asarray(values).take(self.labels, mode="clip")

    def count(self, cells: BoolArray) -> IntArray:
        """How many cells of each label are set, shape (labels,)."""
        counts = np.bincount(self.labels[cells], minlength=self.num_labels)
        return counts[: self.num_labels]

    def cells_of(self, label: int) -> tuple[IntArray, IntArray]:
        """Samples whose candidate a label is, and its place among each one's."""
        order, starts = self._by_label
        cells = order[starts[label] : starts[label + 1]]
        return cells // self.labels.shape[1], cells % self.labels.shape[1]

    @property
    def lengths(self) -> IntArray:
        """How many samples have each label as a candidate, shape (labels,)."""
        return np.diff(self._by_label[1])

    @cached_property
    def _by_label(self) -> tuple[IntArray, IntArray]:
        """Cells in the order of their labels, and where each label's start."""
        flat = self.labels.ravel()
        starts = np.append(0, np.cumsum(np.bincount(flat, minlength=self.num_labels + 1)))
        return np.argsort(flat, kind="stable"), starts[: self.num_labels + 1]

    def select(self, rows: Any) -> "Shortlist":
        """Some of the samples."""
        return Shortlist(self.labels[rows], self.num_labels)


def place_truth(true: SampleLabels, scores: TopScores) -> tuple[BoolArray, SampleLabels]:
    """Which candidates are true, and the true labels that are no candidates.

    Args:
        true: labels of the samples.
        scores: of the same samples, ordered `by_label`.
    """
    place, found = scores.find(true.rows, true.columns)
    cells = np.zeros(scores.labels.size, dtype=bool)
    cells[place[found]] = True
    missed = SampleLabels(
        true.rows[~found],
        true.columns[~found],
        np.bincount(true.rows[~found], minlength=len(scores)),
        true.num_labels,
    )
    return cells.reshape(scores.labels.shape), missed

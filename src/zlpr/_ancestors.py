"""Labels above labels: all ancestors of each, from links to parents, for sets of numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MOST_PAIRS = 1 << 26
"""Pairs of a label and an ancestor that are held, 4 bytes each: ten thousand labels in one chain
have 50 million, a million labels at a depth of 20 have 20 million."""


@dataclass(frozen=True, eq=False)
class Ancestors:
    """All ancestors of each label, in the layout of a CSR matrix; no label is its own.

    Attributes:
        indptr: where each label's ancestors start in `indices`, shape (labels + 1,).
        indices: the ancestors.

    Examples:
        >>> above = Ancestors.of([[], [0], [1], []])
        >>> above[2].tolist()
        [1, 0]
        >>> above.close(np.array([2, 7]))  # of two samples with four labels each
        array([0, 1, 2, 7])
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]

    @classmethod
    def of(cls, parents: Sequence[Sequence[int]]) -> "Ancestors":
        """All ancestors, from the direct parents of each label, by number.

        Raises:
            ValueError: a number is of no label, a label is above itself, or there are more pairs
                than `MOST_PAIRS`.
        """
        outside = next((p for row in parents for p in row if not 0 <= p < len(parents)), None)
        if outside is not None:
            raise ValueError(f"parent {outside}, but labels run from 0 to {len(parents) - 1}")
        order, cycle = parents_first(parents)
        if cycle:
            raise ValueError(f"label {cycle[0]} is its own ancestor")
        above = [np.zeros(0, dtype=np.int32)] * len(parents)
        pairs = 0
        for label in order:
            if parents[label]:
                above[label] = _joined(parents[label], above)
                pairs += len(above[label])
                if pairs > MOST_PAIRS:
                    raise ValueError(f"more than {MOST_PAIRS:,} pairs of a label and an ancestor")
        sizes = [len(row) for row in above]
        indptr = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        return cls(indptr, np.concatenate([np.zeros(0, dtype=np.int32), *above]))

    @property
    def num_labels(self) -> int:
        """L."""
        return len(self.indptr) - 1

    def __getitem__(self, label: int) -> NDArray[np.int32]:
        """The ancestors of one label."""
        return self.indices[self.indptr[label] : self.indptr[label + 1]]

    def to_lists(self) -> list[list[int]]:
        """The ancestors of each label, as plain JSON."""
        return [self[label].tolist() for label in range(self.num_labels)]

    def among(self, labels: NDArray[np.int64]) -> "Ancestors":
        """Of some labels alone, those that are among them, by their places there.

        Examples:
            >>> Ancestors.of([[], [0], [1]]).among(np.array([0, 2])).to_lists()
            [[], [0]]
        """
        places = np.full(self.num_labels, -1, dtype=np.int32)
        places[labels] = np.arange(len(labels))
        above = [places[self[label]] for label in labels]
        above = [row[row >= 0] for row in above]
        sizes = [len(row) for row in above]
        indptr = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        return Ancestors(indptr, np.concatenate([np.zeros(0, dtype=np.int32), *above]))

    def close(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Label sets with the ancestors of their labels.

        Args:
            cells: positions in the flattened matrix (samples, labels).

        Returns:
            Positions, ascending, none twice.
        """
        rows, labels = np.divmod(np.asarray(cells, dtype=np.int64), max(1, self.num_labels))
        sizes = np.diff(self.indptr)[labels]
        ends = np.cumsum(sizes)
        first = np.repeat(self.indptr[labels] - (ends - sizes), sizes)
        above = self.indices[first + np.arange(len(first))]
        added = np.repeat(rows * self.num_labels, sizes) + above
        closed: NDArray[np.int64] = np.unique(np.concatenate([cells, added]))
        return closed


def parents_first(parents: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Labels in an order in which each comes after its parents, and a cycle where there is one.

    Args:
        parents: of each label, by number.

    Returns:
        The order, without the labels that stand on a cycle or below one, and the labels of a
        cycle, each followed by a parent; empty where there is none.

    Examples:
        >>> parents_first([[1], [], [0]])
        ([1, 0, 2], [])
        >>> parents_first([[1], [0]])
        ([], [0, 1])
    """
    children: list[list[int]] = [[] for _ in parents]
    waiting = [len(row) for row in parents]
    for label, row in enumerate(parents):
        for parent in row:
            children[parent].append(label)
    order = [label for label, count in enumerate(waiting) if count == 0]
    for label in order:  # grows as it is gone through
        for child in children[label]:
            waiting[child] -= 1
            if waiting[child] == 0:
                order.append(child)
    left = next((label for label, count in enumerate(waiting) if count), None)
    return order, [] if left is None else _cycle_above(left, parents, waiting)


def _cycle_above(label: int, parents: Sequence[Sequence[int]], waiting: Sequence[int]) -> list[int]:
    """A cycle, which who goes up from a label that still waits for a parent comes to."""
    path: dict[int, None] = {}
    while label not in path:
        path[label] = None
        label = next(parent for parent in parents[label] if waiting[parent])
    return list(path)[list(path).index(label) :]


def _joined(parents: Sequence[int], above: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    """Parents and what is above them."""
    own = np.array(parents, dtype=np.int32)
    if len(parents) == 1:
        return np.concatenate([own, above[parents[0]]])
    return np.unique(np.concatenate([own, *(above[parent] for parent in parents)]))

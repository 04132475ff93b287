"""Scores of a few candidates of each sample, and label sets, without a matrix over all labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["LabelLists", "TopScores"]

CHECKED_CELLS = 1 << 20
"""Cells that are looked at together, so that a check takes a few megabytes."""


@dataclass(frozen=True, eq=False)
class TopScores:
    """The scores of each sample's candidate labels; every other label's counts as -inf.

    With millions of labels a model scores those few of a sample that may be its own. Wherever
    `y_score` is taken these stand for the matrix of shape (samples, labels) that `to_dense` gives,
    which is never made: a true label that is no candidate is tied with all others outside, at the
    worst rank, and no rule predicts it.

    Args:
        labels: label indices, whole numbers of shape (samples, k), distinct within a row and in any
            order; -1 where a sample has fewer than k candidates.
        scores: of these, float32 or float64 of the same shape; -inf where `labels` is -1.
        num_labels: L.

    Examples:
        >>> few = TopScores(np.array([[2, 0], [1, -1]]), np.array([[3.0, 0.5], [2.0, -np.inf]]), 4)
        >>> few.shape
        (2, 4)
        >>> few[1:].to_dense()
        array([[-inf,   2., -inf, -inf]])
    """

    labels: NDArray[np.integer[Any]]
    scores: NDArray[np.floating[Any]]
    num_labels: int

    # Without these numpy would make an array of objects of it, and a loop would go over rows.
    __iter__ = None
    __array_ufunc__ = None

    def __post_init__(self) -> None:
        _check_types(self.labels, self.scores, self.num_labels)
        if self.num_labels > np.iinfo(self.labels.dtype).max:  # which stands for "none" at times
            object.__setattr__(self, "labels", self.labels.astype(np.int64))
        step = max(1, CHECKED_CELLS // max(1, self.labels.shape[1]))
        for start in range(0, len(self.labels), step):
            rows = slice(start, start + step)
            _check_rows(self.labels[rows], self.scores[rows], self.num_labels, start)

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and labels, as of the matrix that this stands for."""
        return len(self.labels), self.num_labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: slice | ArrayLike) -> "TopScores":
        """Some of the samples.

        Args:
            rows: a slice, or an array of indices or booleans.
        """
        chosen: Any = rows if isinstance(rows, slice) else np.asarray(rows)
        if not isinstance(chosen, slice) and chosen.ndim != 1:
            raise TypeError("rows must be a slice or an array; one sample is scores[i : i + 1]")
        return self._with(self.labels[chosen], self.scores[chosen])

    @classmethod
    def of(cls, scores: ArrayLike, k: int) -> "TopScores":
        """The k highest scores of each sample, best first; of tied labels those that come first.

        Args:
            scores: shape (samples, labels).
            k: how many candidates to keep, at least 1; all where there are no more labels.

        Examples:
            >>> TopScores.of([[0.1, 0.7, 0.7]], k=2).labels
            array([[1, 2]])
        """
        if isinstance(scores, np.ma.MaskedArray):
            raise TypeError("scores is a masked array, whose mask would be lost; fill it first")
        dense = np.asarray(scores)
        if np.iscomplexobj(dense):
            raise TypeError("scores must be real numbers, got complex ones")
        if dense.ndim != 2:
            raise ValueError(f"scores must have shape (samples, labels), got {dense.shape}")
        if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
            raise ValueError(f"k must be a whole number of at least 1, got {k}")
        if np.isnan(dense).any():
            row, label = np.argwhere(np.isnan(dense))[0]
            raise ValueError(f"scores is NaN for sample {row}, label {label}")
        if dense.dtype not in (np.float32, np.float64):
            dense = dense.astype(np.float64)
        labels = np.argsort(-dense, axis=1, kind="stable")[:, :k]
        return cls(labels, np.take_along_axis(dense, labels, axis=1), dense.shape[1])

    def by_label(self) -> "TopScores":
        """The same with each sample's candidates in ascending order of labels, -1 last.

        Examples:
            >>> few = TopScores(np.array([[2, -1, 0]]), np.array([[3.0, -np.inf, 0.5]]), 4)
            >>> few.by_label().labels
            array([[ 0,  2, -1]])
        """
        ascending = np.where(self.labels < 0, self.num_labels, self.labels)
        if (ascending[:, 1:] >= ascending[:, :-1]).all():
            return self
        order = np.argsort(ascending, axis=1)
        labels = np.take_along_axis(self.labels, order, axis=1)
        return self._with(labels, np.take_along_axis(self.scores, order, axis=1))

    def find(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Where labels stand among the candidates, of scores that are ordered `by_label`.

        Args:
            rows: a sample each, shape (labels,).
            columns: a label of it each, same shape.

        Returns:
            Places in the flattened candidates, any where there is none, and whether there is one.
        """
        if self.labels.size == 0:
            return np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=bool)
        stride = self.num_labels + 1  # the last for what is no candidate
        held = np.where(self.labels < 0, self.num_labels, self.labels).astype(np.int64)
        held += stride * np.arange(len(held))[:, None]
        wanted = rows * stride + columns
        place = np.minimum(np.searchsorted(held.ravel(), wanted), held.size - 1)
        return place, held.ravel()[place] == wanted

    def with_scores(self, scores: NDArray[np.floating[Any]]) -> "TopScores":
        """Other scores of the same candidates, such as their probabilities."""
        return TopScores(self.labels, scores, self.num_labels)

    def chosen(self, chosen: NDArray[np.bool_]) -> "LabelLists":
        """Label sets from a choice among candidates that are ordered `by_label`.

        Args:
            chosen: of the shape of `labels`; what has a score of -inf is never taken.
        """
        taken = chosen & (self.scores > -np.inf)
        starts = np.append(0, np.cumsum(np.count_nonzero(taken, axis=1)))
        return LabelLists(starts, self.labels[taken].astype(np.int64), self.num_labels)

    def _with(self, labels: Any, scores: Any) -> "TopScores":
        """Rows that were checked already."""
        made = object.__new__(TopScores)
        made.__dict__.update(labels=labels, scores=scores, num_labels=self.num_labels)
        return made

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Refused: a matrix of all labels is never made by accident.

        Raises:
            TypeError: always; it says what to call.
        """
        raise TypeError("scores of candidates are no matrix; to_dense() makes one of all labels")

    def to_dense(self, others: float = -np.inf) -> NDArray[np.floating[Any]]:
        """The matrix of shape (samples, labels) that this stands for: for tests and small data.

        Args:
            others: what stands for labels that are no candidates; 0 for probabilities.
        """
        dense = np.full(self.shape, others, dtype=self.scores.dtype)
        rows, places = np.nonzero(self.labels >= 0)
        dense[rows, self.labels[rows, places]] = self.scores[rows, places]
        return dense


@dataclass(frozen=True, eq=False)
class LabelLists:
    """Label sets of samples, each as a list of label indices, in the layout of a CSR matrix.

    What a decoding rule makes of `TopScores`. Metrics take it wherever they take labels, and
    `scipy.sparse.csr_array((sets.data, sets.indices, sets.indptr), shape=sets.shape)` is the same.

    Args:
        indptr: where each sample's labels start in `indices`, shape (samples + 1,).
        indices: labels, in ascending order within a sample.
        num_labels: L.

    Examples:
        >>> sets = LabelLists(np.array([0, 2, 2]), np.array([1, 3]), 4)
        >>> sets.shape, sets[0].tolist(), sets[1].tolist()
        ((2, 4), [1, 3], [])
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]
    num_labels: int

    def __post_init__(self) -> None:
        starts = self.indptr
        if len(starts) == 0 or starts[0] != 0 or starts[-1] != len(self.indices):
            raise ValueError(f"indptr must go from 0 to the {len(self.indices)} labels listed")
        if (np.diff(starts) < 0).any():
            raise ValueError("indptr must not fall from one sample to the next")
        indices = self.indices
        if len(indices) and (indices.min() < 0 or indices.max() >= self.num_labels):
            raise ValueError(f"indices must lie from 0 to {self.num_labels - 1}")

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and labels."""
        return len(self.indptr) - 1, self.num_labels

    @property
    def data(self) -> NDArray[np.bool_]:
        """True for every label that is listed."""
        return np.ones(len(self.indices), dtype=bool)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, sample: int) -> NDArray[np.int64]:
        """The labels of a sample."""
        row = range(len(self))[sample]
        return self.indices[self.indptr[row] : self.indptr[row + 1]]

    def to_dense(self) -> NDArray[np.bool_]:
        """Booleans of shape (samples, labels): for tests and small data."""
        dense = np.zeros(self.shape, dtype=bool)
        dense[np.repeat(np.arange(len(self)), np.diff(self.indptr)), self.indices] = True
        return dense


def _check_types(labels: Any, scores: Any, num_labels: Any) -> None:
    """Refuse anything but two matrices of one shape and a number of labels."""
    if not isinstance(labels, np.ndarray) or not np.issubdtype(labels.dtype, np.integer):
        raise TypeError(f"labels must be an array of whole numbers, got {_kind(labels)}")
    if not isinstance(scores, np.ndarray) or scores.dtype not in (np.float32, np.float64):
        raise TypeError(f"scores must be an array of float32 or float64, got {_kind(scores)}")
    if labels.ndim != 2 or labels.shape != scores.shape:
        raise ValueError(
            f"labels and scores must both have shape (samples, k), got {labels.shape} "
            f"and {scores.shape}"
        )
    if not isinstance(num_labels, int | np.integer) or num_labels < 1:
        raise ValueError(f"num_labels must be a whole number of at least 1, got {num_labels!r}")


def _check_rows(labels: Any, scores: Any, num_labels: int, first: int) -> None:
    """Refuse labels that do not exist or stand twice, and scores that are none."""
    if labels.size == 0:
        return
    if labels.min() < -1 or labels.max() >= num_labels:
        row, place = np.argwhere((labels < -1) | (labels >= num_labels))[0]
        raise ValueError(
            f"sample {first + row} has label {labels[row, place]}, but labels run from 0 to "
            f"{num_labels - 1}, with -1 for none"
        )
    # The minimum of an array with a NaN is NaN, and needs no array of booleans.
    if np.isnan(scores.min()):
        row, place = np.argwhere(np.isnan(scores))[0]
        raise ValueError(f"scores is NaN for sample {first + row}, label {labels[row, place]}")
    if (scores[labels == -1] != -np.inf).any():
        row = np.flatnonzero(((labels == -1) & (scores != -np.inf)).any(axis=1))[0]
        raise ValueError(f"sample {first + row} has a score without a label; it must be -inf")
    ascending = np.sort(labels, axis=1)
    twice = (ascending[:, 1:] == ascending[:, :-1]) & (ascending[:, 1:] >= 0)
    if twice.any():
        row, place = np.argwhere(twice)[0]
        raise ValueError(f"sample {first + row} has label {ascending[row, place]} twice")


def _kind(values: Any) -> str:
    """What something is, for a refusal."""
    return str(getattr(values, "dtype", type(values).__name__))

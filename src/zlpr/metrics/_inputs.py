"""What the metrics accept, checked and cut into blocks of samples.

Everything below works on blocks of about a million cells, so that no metric holds more than a
few megabytes beside its inputs, however large they are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from zlpr._counted import counted
from zlpr.metrics.top_scores import TopScores

BLOCK_CELLS = 1 << 20

Empty = Literal["paper", "sklearn"]
IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.floating[Any]]


class CSRMatrix(Protocol):
    """The part of scipy's `csr_array` and `csr_matrix` that the metrics read."""

    @property
    def indptr(self) -> Any:
        """Where each row starts in `indices`."""

    @property
    def indices(self) -> Any:
        """Column of each stored entry."""

    @property
    def data(self) -> Any:
        """Value of each stored entry."""

    @property
    def shape(self) -> Any:
        """Samples and labels."""


Scores: TypeAlias = NDArray[Any] | torch.Tensor | Sequence[Sequence[float]] | TopScores
Labels: TypeAlias = NDArray[Any] | torch.Tensor | CSRMatrix | Sequence[Sequence[int]]


@dataclass(frozen=True)
class SampleLabels:
    """The labels of a block of samples, as positions sorted by row, then column.

    Attributes:
        rows: sample of each label, shape (nnz,).
        columns: index of each label, shape (nnz,).
        counts: how many labels each sample has, shape (samples,).
        num_labels: L.
    """

    rows: IntArray
    columns: IntArray
    counts: IntArray
    num_labels: int

    @property
    def cells(self) -> IntArray:
        """Position of each label in the flattened (samples, labels) matrix."""
        return self.rows * self.num_labels + self.columns

    def among(self, others: "SampleLabels") -> NDArray[np.bool_]:
        """Whether each label is also one of `others`, of the same samples; shape (nnz,)."""
        area = len(self.counts) * self.num_labels
        if area <= 4 * BLOCK_CELLS:  # looking up beats searching
            held = np.zeros(area, dtype=bool)
            held[others.cells] = True
            return held[self.cells]
        if len(others.columns) == 0:
            return np.zeros(len(self.columns), dtype=bool)
        wanted, held_cells = self.cells, others.cells
        place = np.minimum(np.searchsorted(held_cells, wanted), len(held_cells) - 1)
        found: NDArray[np.bool_] = held_cells[place] == wanted
        return found

    def select(self, samples: IntArray) -> "SampleLabels":
        """Some of the samples, in the order given."""
        starts = np.append(0, np.cumsum(self.counts))
        counts = self.counts[samples]
        rows = np.repeat(np.arange(len(counts)), counts)
        first = np.cumsum(counts) - counts
        stored = np.arange(len(rows)) - first[rows] + starts[:-1][samples][rows]
        return SampleLabels(rows, self.columns[stored], counts, self.num_labels)

    @classmethod
    def from_cells(cls, cells: IntArray, samples: int, num_labels: int) -> "SampleLabels":
        """From sorted, unique positions in the flattened matrix."""
        rows = cells // num_labels
        counts = np.bincount(rows, minlength=samples)
        return cls(rows, cells - rows * num_labels, counts, num_labels)


class DenseLabels:
    """A dense indicator matrix of zeros and ones."""

    def __init__(self, name: str, values: NDArray[Any]) -> None:
        self.name, self.values, self.shape = name, values, values.shape
        self.stored = values.size

    def block(self, start: int, stop: int) -> SampleLabels:
        """The label sets of samples `start` to `stop`."""
        values = self.values[start:stop]
        positive = values if values.dtype == bool else values == 1
        cells = np.flatnonzero(positive)
        if values.dtype != bool and len(cells) != np.count_nonzero(values):
            wrong = values[(values != 0) & ~positive][0]
            raise ValueError(f"{self.name} must hold only 0 and 1 (or booleans), found {wrong}")
        return SampleLabels.from_cells(cells, *values.shape)


class SparseLabels:
    """A CSR indicator matrix; stored zeros are no labels, a label stored twice counts once."""

    def __init__(self, name: str, matrix: CSRMatrix) -> None:
        self.name, self.shape = name, (int(matrix.shape[0]), int(matrix.shape[1]))
        self.indptr = np.asarray(matrix.indptr, dtype=np.int64)
        self.indices, self.data = np.asarray(matrix.indices), np.asarray(matrix.data)
        self.stored = len(self.indices)
        outside = (self.indices < 0) | (self.indices >= self.shape[1])
        if outside.any():
            raise ValueError(
                f"{name} has label index {self.indices[outside][0]}, "
                f"but labels run from 0 to {self.shape[1] - 1}"
            )
        if self.data.dtype != bool and not ((self.data == 0) | (self.data == 1)).all():
            raise ValueError(f"{name} must hold only 0 and 1 (or booleans)")

    def block(self, start: int, stop: int) -> SampleLabels:
        """The label sets of samples `start` to `stop`."""
        stored = slice(self.indptr[start], self.indptr[stop])
        sizes = np.diff(self.indptr[start : stop + 1])
        rows = np.repeat(np.arange(stop - start), sizes)
        cells = rows * self.shape[1] + self.indices[stored]
        cells = cells[self.data[stored].astype(bool)]
        if (np.diff(cells) <= 0).any():
            cells = np.unique(cells)
        return SampleLabels.from_cells(cells, stop - start, self.shape[1])


@dataclass(frozen=True)
class SampleBlock:
    """A few samples: their true labels and, where given, scores and predicted labels."""

    true: SampleLabels
    scores: FloatArray | TopScores | None
    predicted: SampleLabels | None


def check_empty(empty: str) -> None:
    """Refuse a convention that does not exist."""
    if empty not in get_args(Empty):
        raise ValueError(f'empty must be "paper" or "sklearn", got {empty!r}')


def as_numpy(name: str, values: Any) -> NDArray[Any]:
    """A tensor, array or nested list as a matrix, without a copy where possible."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array, whose mask would be lost; fill it first")
    if isinstance(values, torch.Tensor):
        if values.layout != torch.strided:
            raise TypeError(f"{name} is a sparse tensor; give a dense one or scipy's csr_array")
        tensor = values.detach().cpu()
        values = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} has rows of different lengths") from error
    if array.ndim != 2:
        raise ValueError(f"{name} must have shape (samples, labels), got {array.shape}")
    real = np.issubdtype(array.dtype, np.number) and array.dtype.kind != "c"
    if not real and array.dtype != bool:
        raise TypeError(f"{name} must be real numbers, got {array.dtype} ({type(values).__name__})")
    return array


def as_labels(name: str, values: Any) -> DenseLabels | SparseLabels:
    """Check an indicator matrix, dense or sparse."""
    if hasattr(values, "tocsr"):
        values = values.tocsr()
    if hasattr(values, "indptr") and hasattr(values, "indices"):  # scipy's, not a tensor's methods
        return SparseLabels(name, values)
    return DenseLabels(name, as_numpy(name, values))


def as_scores(name: str, values: Any) -> FloatArray | TopScores:
    """Check a score matrix; the values themselves are checked block by block."""
    if isinstance(values, TopScores):  # checked when it was made
        return values
    if hasattr(values, "indptr"):
        raise TypeError(
            f"{name} must be dense or TopScores: a sparse matrix has no score for most labels"
        )
    return as_numpy(name, values)


def score_block(
    name: str, scores: FloatArray | TopScores, start: int, stop: int
) -> FloatArray | TopScores:
    """Samples `start` to `stop` in a type that sorts fast, refusing NaN (infinities are scores)."""
    return (
        scores[start:stop]
        if isinstance(scores, TopScores)
        else dense_block(name, scores, start, stop)
    )


def dense_block(name: str, scores: FloatArray, start: int, stop: int) -> FloatArray:
    """As `score_block`, of scores of all labels."""
    block = scores[start:stop]
    if block.dtype not in (np.float32, np.float64):
        block = block.astype(np.float32 if block.dtype == np.float16 else np.float64)
    # The minimum of an array with a NaN is NaN, and needs no array of booleans.
    if block.size and np.isnan(block.min()):
        row, column = np.argwhere(np.isnan(block))[0]
        raise ValueError(f"{name} is NaN for sample {start + row}, label {column}")
    return block


def blocks(
    y_true: Any, y_score: Any = None, y_pred: Any = None, *, num_labels: int | None = None
) -> Iterator[SampleBlock]:
    """Check that the matrices belong together, then hand them out a few samples at a time."""
    true = as_labels("y_true", y_true)
    scores = None if y_score is None else as_scores("y_score", y_score)
    predicted = None if y_pred is None else as_labels("y_pred", y_pred)
    for name, matrix in (("y_score", scores), ("y_pred", predicted)):
        if matrix is not None and matrix.shape != true.shape:
            raise ValueError(f"{name} has shape {matrix.shape}, y_true has {true.shape}")
    samples, labels = true.shape
    if num_labels is not None and labels != num_labels:
        raise ValueError(f"y_true has {counted(labels, 'label')}, expected {num_labels}")
    if labels == 0:
        raise ValueError("y_true has no labels (shape (samples, 0))")
    stored = max(matrix.stored for matrix in (true, predicted) if matrix is not None)
    if scores is not None:
        stored = max(stored, scores.scores.size if isinstance(scores, TopScores) else scores.size)
    step = max(1, BLOCK_CELLS * samples // max(1, stored))
    for start in range(0, samples, step):
        stop = min(start + step, samples)
        yield SampleBlock(
            true.block(start, stop),
            None if scores is None else score_block("y_score", scores, start, stop),
            None if predicted is None else predicted.block(start, stop),
        )

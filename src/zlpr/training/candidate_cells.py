"""The training problem over candidates: which cells it has, their kernel, prior and loss."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from zlpr.models.candidates import as_matrix, label_groups, table_size
from zlpr.models.mixed_candidates import squared_lengths
from zlpr.models.mixed_matrix import MixedMatrix, sparse_part
from zlpr.training.block_workers import HERE, BlockWorkers
from zlpr.training.divided_candidates import score_cells
from zlpr.training.lbfgs import minimise
from zlpr.training.objective import loss_and_slopes

# The feature that is the same for every sample, and so is each label's bias.
# Below 1, since a label of thousands of cells would otherwise bend the objective thousands of times
# as much in its bias as anywhere else, and the solver would take as many steps more.
CONSTANT = 0.5

Integers = NDArray[np.integer[Any]]
Vector = NDArray[np.float32]


def smallest_integers(most: int) -> type[np.signedinteger[Any]]:
    """Of 32 bits where these hold the largest number, else of 64."""
    return np.int32 if most < 2**31 else np.int64


@dataclass(frozen=True, eq=False)
class Cells:
    """The pairs of a training sample and one of its candidates, in order of labels, then samples.

    Attributes:
        rows: the sample of each.
        labels: the label of each, ascending.
        positive: whether the sample has the label.
        places: where each stands in a matrix of shape (samples, width) of candidates, flat.
        shape: of that matrix.
        num_labels: L.
    """

    rows: Integers
    labels: Integers
    positive: NDArray[np.bool_]
    places: Integers
    shape: tuple[int, int]
    num_labels: int

    @classmethod
    def of(cls, nearest: Integers, labels: Any) -> "Cells":
        """A sample's own labels and those that are near it.

        Args:
            nearest: label indices of shape (samples, k), -1 for none.
            labels: the samples' own, CSR of shape (samples, labels).
        """
        near = as_matrix(nearest, labels.shape[1])
        both = sparse.csr_array(near + 2 * labels.astype(np.int8))
        both.sort_indices()
        counts = np.diff(both.indptr)
        width = max(int(counts.max(initial=0)), 1)
        rows = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        # Samples are in order, so that a stable sort by labels leaves them so within each.
        order = np.argsort(both.indices, kind="stable").astype(np.int32)
        flat = np.repeat(np.arange(len(counts)) * width - both.indptr[:-1], counts)
        flat += np.arange(len(rows))
        return cls(
            rows[order],
            both.indices[order].astype(np.int32),
            both.data[order] >= 2,
            flat[order].astype(smallest_integers(len(counts) * width)),
            (len(counts), width),
            int(labels.shape[1]),
        )

    @classmethod
    def of_candidates(cls, candidates: Integers, labels: Any) -> "Cells":
        """The candidates alone: labels of a sample that are none do not count.

        Args:
            candidates: label indices of shape (samples, k), -1 for none.
            labels: the samples' own, CSR of shape (samples, labels).
        """
        return cls.of(candidates, as_matrix(candidates, labels.shape[1]).multiply(labels))

    @cached_property
    def starts(self) -> Integers:
        """Where each label's cells begin, and the last ones end, shape (labels + 1,)."""
        return np.searchsorted(self.labels, np.arange(self.num_labels + 1))

    def of_labels(self, first: int, last: int) -> "Cells":
        """The cells of a range of labels, which are counted from the first."""
        if (first, last) == (0, self.num_labels):
            return self
        own = slice(self.starts[first], self.starts[last])
        return Cells(
            self.rows[own],
            self.labels[own] - first,
            self.positive[own],
            self.places[own],
            self.shape,
            last - first,
        )

    def spread(self, values: NDArray[Any]) -> Tensor:
        """A value per cell, as a matrix of shape (samples, width) with 0 where there is no cell."""
        matrix = np.zeros(self.shape, dtype=values.dtype)
        matrix.reshape(-1)[self.places] = values
        return torch.from_numpy(matrix)


class CandidateKernel:
    """The product with `K = X X'`, in which cells of different labels have nothing in common.

    `X` has a row for every cell, with the features of its sample as features of its label's own. A
    feature that only one sample of a label has adds to that cell's diagonal alone, and is left out
    of `X`: of rare labels that is most of them.
    """

    def __init__(self, features: Any, cells: Cells) -> None:
        self.cells = cells
        lengths = np.diff(features.indptr).astype(np.int64)[cells.rows]
        most = int(lengths.sum())
        # Memory that is never written to is never taken.
        data, indices = np.empty(most, dtype=np.float32), np.empty(most, dtype=np.int32)
        counts = np.zeros(len(cells.rows) + 1, dtype=np.int64)
        self.diagonal = np.zeros(len(cells.rows), dtype=np.float32)
        filled = columns = 0
        numbering = _Numbering(features.shape[1])
        for first, last, numbers in label_groups(cells.labels, cells.rows, features):
            own = features[cells.rows[first:last]]
            owners = np.repeat(np.arange(last - first), np.diff(own.indptr))
            shared, named = numbering.of(numbers[owners] * features.shape[1] + own.indices)
            squares = np.where(shared, np.float32(0.0), own.data) ** 2
            self.diagonal[first:last] = np.bincount(owners, squares, last - first)
            counts[first + 1 : last + 1] = np.bincount(owners[shared], minlength=last - first)
            data[filled : filled + len(named)] = own.data[shared]
            indices[filled : filled + len(named)] = named + columns
            filled += len(named)
            columns += int(named.max(initial=-1)) + 1
        for entries in (data, indices):
            entries.resize(filled, refcheck=False)  # in place, where scipy would copy half of it
        pointer = np.cumsum(counts, dtype=smallest_integers(filled))
        shape = (len(cells.rows), max(columns, 1))
        self.shared = sparse.csr_array((data, indices, pointer), shape=shape)
        self.transposed = self.shared.T

    def __call__(self, vector: Vector) -> Vector:
        """The product with a number per cell."""
        product = self.shared @ (self.transposed @ vector)
        product += self.diagonal * vector
        sums = np.bincount(self.cells.labels, vector, self.cells.num_labels).astype(np.float32)
        product += CONSTANT**2 * sums[self.cells.labels]
        found: Vector = product
        return found


class MixedKernel:
    """The same for n-grams beside embeddings: the sum of the two kinds' kernels."""

    def __init__(self, features: MixedMatrix, cells: Cells) -> None:
        self.cells, self.vectors = cells, features.right
        self.ngrams = CandidateKernel(features.left, cells)

    def __call__(self, vector: Vector) -> Vector:
        """The product with a number per cell."""
        product, starts = self.ngrams(vector), self.cells.starts.tolist()
        for first, last in itertools.pairwise(starts):
            if first < last:
                own = self.vectors[self.cells.rows[first:last]]
                product[first:last] += own @ (vector[first:last] @ own)
        return product


class _Numbering:
    """Finds keys that occur twice or more, by a table that is kept between calls."""

    def __init__(self, num_features: int) -> None:
        self._last = np.zeros(table_size(num_features), dtype=np.int32)
        self._shared = np.zeros(table_size(num_features), dtype=bool)

    def of(self, keys: Integers) -> tuple[NDArray[np.bool_], Integers]:
        """Which keys occur more than once, and numbers without gaps for these."""
        keys = keys.astype(np.intp)  # once, and not for every look into the tables
        places = np.arange(len(keys), dtype=np.int32)
        self._last[keys] = places
        self._shared[keys[self._last[keys] != places]] = True
        shared = self._shared[keys]
        self._shared[keys] = False
        again = keys[shared]
        self._last[again] = places[: len(again)]
        standing = self._last[again]
        numbers = np.cumsum(standing == places[: len(again)]) - 1
        return shared, numbers[standing]


def prior_products(
    features: Any, sums: Any, cells: Cells, labels: Any, workers: BlockWorkers = HERE
) -> Vector:
    """The product of each cell's sample and the centroid of the label's *other* samples.

    A sample's own part in a centroid would tell what is to be learned. Where it is the label's
    only one, the mean over labels of two samples stands for what another one would have shown.

    Args:
        features: of the samples, CSR, or n-grams beside embeddings.
        sums: of each label's samples, of the same kind and shape (labels, features).
        cells: which to compute.
        labels: the samples' own, CSR.
        workers: compute the products.
    """
    squares = squared_lengths(sums)[cells.labels]
    products = score_cells(features, sums, cells.rows, cells.labels, workers).astype(np.float64)
    own = np.zeros(len(cells.rows))
    own[cells.positive] = _own_parts(
        features, sums, cells.rows[cells.positive], cells.labels[cells.positive], workers
    )
    others = np.where(cells.positive, products - own, products)
    length = np.where(cells.positive, squares - 2 * products + own, squares)
    counts = np.asarray(labels.sum(axis=0)).ravel()[cells.labels]
    only = cells.positive & (counts == 1)
    known = ~only & (length > 1e-9)
    found = np.where(known, others / np.sqrt(np.maximum(length, 1e-9)), 0.0)
    pairs = cells.positive & (counts == 2)
    alike = pairs if pairs.any() else cells.positive & known
    found[only] = found[alike].mean() if alike.any() else 0.0
    return found.astype(np.float32)


def _own_parts(
    features: Any, sums: Any, rows: Integers, labels: Integers, workers: BlockWorkers
) -> Vector:
    """What each sample adds to its product with a sum that it is part of: its own square.

    Of its n-grams those count that the sum has kept.
    """
    ngrams, kept = sparse_part(features), sparse_part(sums)
    stored = sparse.csr_array((np.ones_like(kept.data), kept.indices, kept.indptr), kept.shape)
    squared = sparse.csr_array(ngrams.multiply(ngrams))
    own = score_cells(squared, stored, rows, labels, workers)
    if isinstance(features, MixedMatrix):
        own += np.square(features.right).sum(axis=1)[rows]
    return own


class CandidateLoss:
    """The summed loss of the samples over their candidates, as a function of the cells' scores.

    Args:
        loss: with `reduction="none"`.
        cells: which scores there are.
        offset: added to them, a number per cell.
    """

    def __init__(self, loss: nn.Module, cells: Cells, offset: Vector) -> None:
        self.cells, self.offset = cells, offset
        self._loss = _Masked(loss, cells.spread(np.ones(len(cells.rows), dtype=bool)))
        self._targets = cells.spread(cells.positive)

    def __call__(self, scores: Vector) -> tuple[float, Vector]:
        """The sum over the samples, and its gradient."""
        spread = self.cells.spread(scores + self.offset)
        value, slopes = loss_and_slopes(self._loss, spread, self._targets, None)
        return value, slopes.numpy().reshape(-1)[self.cells.places]


class _Masked(nn.Module):
    """A loss that does not see the places without a cell."""

    def __init__(self, loss: nn.Module, mask: Tensor) -> None:
        super().__init__()
        self.loss, self.mask = loss, mask

    def forward(
        self, scores: Tensor, targets: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        values: Tensor = self.loss(
            scores, targets, label_mask=self.mask, sample_weight=sample_weight
        )
        return values


def fit_mix(
    loss: nn.Module,
    cells: Cells,
    parts: Sequence[Vector],
    start: Sequence[float],
    *,
    offset: float = 0.0,
    penalty: float | Sequence[float] = 0.0,
) -> list[float]:
    """The sum of parts of the scores, and a bias, that the loss itself finds best.

    Args:
        loss: with `reduction="none"`.
        cells: which scores there are.
        parts: of the scores, a number per cell each.
        start: a factor for each part, and the bias at the end.
        offset: added to the scores that the loss sees.
        penalty: `p` in `sum of losses + p/2 |factors - start|^2`, one for all or one for each.

    Returns:
        The factors and the bias.
    """
    problem = CandidateLoss(loss, cells, np.full(len(cells.rows), offset, dtype=np.float32))
    columns = np.stack([*parts, np.ones(len(cells.rows), dtype=np.float32)])
    first, pull = torch.tensor(start), torch.tensor(penalty)

    def objective(factors: Tensor) -> tuple[float, Tensor]:
        value, slopes = problem(factors.numpy() @ columns)
        away = factors - first
        value += float((pull * away.square()).sum()) / 2
        return value, torch.from_numpy(columns @ slopes) + pull * away

    found = minimise(objective, first, first_step=1.0, max_iterations=50).parameters
    factors: list[float] = found.tolist()
    return factors

"""The linear model's training objective over the whole data, with its gradient."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from zlpr.models.features import Matrix
from zlpr.models.mixed_matrix import MixedMatrix
from zlpr.training.lbfgs import dot, minimise

Weights = NDArray[np.float64]

# Scores of so many cells are held at a time (64 MB); the sum over blocks is exact all the same.
BLOCK_CELLS = 2**24
# Cells of distinct label sets that the starting point is computed from.
PATTERN_CELLS = 2**22
# Finite differences of the loss's gradient: the step, and how many random directions.
_STEP, _DIRECTIONS = 1e-2, 8


@dataclass(frozen=True)
class _Columns:
    """Features of one kind: where they stand among all, their values, and these transposed."""

    place: slice
    features: Tensor
    transposed: Tensor

    @classmethod
    def of(cls, place: slice, part: Any) -> "_Columns":
        features = as_tensor(part)
        # A sparse product needs its own copy; a dense one reads the same numbers the other way.
        is_dense = features.layout == torch.strided
        return cls(place, features, features.T if is_dense else as_tensor(part.T))


@dataclass(frozen=True)
class _TrainingBlock:
    """Consecutive samples: features of one kind or two, targets, and what each sample counts."""

    columns: tuple[_Columns, ...]
    targets: Tensor
    weights: Tensor | None

    def scores(self, weight: Tensor, bias: Tensor) -> Tensor:
        """`x W + b` of every sample."""
        first, *others = self.columns
        scores = torch.mm(first.features, weight[first.place])
        for columns in others:
            scores.addmm_(columns.features, weight[columns.place])
        return scores.add_(bias)


class LinearObjective:
    r"""`sum_i loss(x_i W + b, y_i) + r/2 |W|^2` as a function of `[W; b]`, (features + 1, labels).

    A loss over the batch, which is no sum over samples, takes all of them as one batch:
    `n loss(X W + b, Y) + r/2 |W|^2` with n samples. A sample of weight w counts as w samples.

    Args:
        features: of shape (samples, features), dense, CSR or both side by side.
        labels: of shape (samples, labels), CSR.
        loss: a loss per sample, with `reduction="none"`; or one over the batch, with "mean".
        bias: to start from, of shape (labels,); None finds the best without weights.
        over_batch: whether the loss is one over the batch.
        sample_weight: above 0, of shape (samples,); None weighs all alike.
    """

    def __init__(
        self,
        features: Matrix,
        labels: Any,
        loss: nn.Module,
        bias: Tensor | None = None,
        *,
        over_batch: bool = False,
        sample_weight: Weights | None = None,
    ) -> None:
        self.loss = _TimesSamples(loss) if over_batch else loss
        self.over_batch = over_batch
        self.num_features = features.shape[1]
        self.num_samples = number_of_samples(labels, sample_weight)
        self.num_labels = int(labels.shape[1])
        self.squares = column_squares(features, sample_weight)
        self._sample_weight = sample_weight
        self._labels = labels
        self._given_bias = bias
        self._blocks = list(self._cut(features, labels))

    def _cut(self, features: Matrix, labels: Any) -> Iterator[_TrainingBlock]:
        rows = labels.shape[0]
        if not self.over_batch:
            rows = max(1, BLOCK_CELLS // max(self.num_labels, 1))
        for first in range(0, labels.shape[0], rows):
            here = slice(first, first + rows)
            targets = torch.from_numpy(np.asarray(labels[here].toarray(), bool))
            columns = tuple(
                _Columns.of(place, of_kind) for place, of_kind in kinds_of_columns(features[here])
            )
            weights = None if self._sample_weight is None else as_tensor(self._sample_weight[here])
            yield _TrainingBlock(columns, targets, weights)

    def start(self) -> Tensor:
        """No weights, and the starting biases."""
        parameters = torch.zeros(self.num_features + 1, self.num_labels)
        parameters[-1] = self._bias
        return parameters

    def preconditioner(self, regularisation: float) -> Tensor:
        """The inverse of an estimate of the Hessian's diagonal between start and solution.

        At the start the entry of feature j and label l is about `h_l sum_i x_ij^2 + r`, with `h_l`
        the loss's mean curvature in label l, and that of its bias `n h_l`. Later a rare label's
        curvature gathers on the few features that tell it, and weights do what the bias did. So
        each `h_l` is taken half-way to their mean and a bias's entry a third of the way to its
        weights' mean, in logarithms, which saves a third of the evaluations.
        """
        curvature = (self._curvature * self._curvature.mean()).sqrt_()
        weights = torch.outer(self.squares, curvature).add_(regularisation)
        if regularisation == 0:  # then a column of zeros has no curvature, and any will do
            weights[weights == 0] = 1.0
        biases = (self.num_samples * curvature).pow_(2 / 3) * weights.mean(0).pow_(1 / 3)
        return torch.cat([weights, biases.unsqueeze(0)]).reciprocal_()

    @cached_property
    def reference(self) -> float:
        """The objective at the start."""
        return float(self._patterns(self._bias)[0] * self.num_samples)

    def balance(self) -> float:
        """The regularisation that is as strong as the data: the scales of loss and features.

        Half a sample's summed absolute slopes at the start (for binary cross entropy the sum of
        `p (1 - p)` over the labels) times a sample's mean squared length (1 for TF-IDF).
        """
        slopes = float(self._patterns.mean_slopes(self._bias).sum()) / 2.0
        return float(slopes * self.squares.sum() / self.num_samples)

    @cached_property
    def _bias(self) -> Tensor:
        if self._given_bias is not None:
            return self._given_bias
        start = torch.zeros(self.num_labels)
        return minimise(self._patterns, start, tolerance=1e-5, max_iterations=50).parameters

    @cached_property
    def _curvature(self) -> Tensor:
        # At least half the mean absolute slope, which the curvature equals for binary cross entropy
        # at its best bias: keeps the first steps short where a loss is flat or bends downwards.
        steepness = self._patterns.mean_slopes(self._bias) / 2.0
        curvature = torch.maximum(self._patterns.curvature(self._bias), steepness)
        return curvature.clamp_(min=max(1e-3 * float(curvature.max()), 1e-12))

    @cached_property
    def _patterns(self) -> "_Patterns":
        """The distinct label sets, enough to fit scores that are the same for every sample."""
        if self.over_batch:  # which does not weigh the samples in all its terms
            everyone = np.arange(self._labels.shape[0])
            return _Patterns(self._labels, self.loss, everyone, self._sample_weight)
        distinct = _distinct_rows(self._labels, self._sample_weight)
        return _Patterns(self._labels, self.loss, *distinct)

    def __call__(self, parameters: Tensor, regularisation: float) -> tuple[float, Tensor]:
        """Value and gradient."""
        if parameters.shape != (self.num_features + 1, self.num_labels):
            raise ValueError(f"parameters of shape {tuple(parameters.shape)} for other features")
        weight, bias = parameters[:-1], parameters[-1]
        value = 0.5 * regularisation * dot(weight, weight)
        gradient = torch.empty_like(parameters)
        torch.mul(weight, regularisation, out=gradient[:-1])
        gradient[-1] = 0.0
        for block in self._blocks:
            scores = block.scores(weight, bias)
            loss, slopes = loss_and_slopes(self.loss, scores, block.targets, block.weights)
            value += loss
            # Into the gradient itself: a sum of two products' size less memory and time.
            for columns in block.columns:
                rows = gradient[columns.place]
                torch.addmm(rows, columns.transposed, slopes, out=rows)
            gradient[-1] += slopes.sum(0)
        return value, gradient


class _TimesSamples(nn.Module):
    """A loss over the batch on the scale of a sum over the samples."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(
        self, scores: Tensor, targets: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        """The loss of a batch, times its samples."""
        value: Tensor = self.loss(scores, targets, sample_weight=sample_weight)
        return value * (len(scores) if sample_weight is None else sample_weight.sum())


class _Patterns:
    """The loss of scores that all samples share, over the distinct label sets of the data."""

    def __init__(
        self,
        labels: Any,
        loss: nn.Module,
        rows: NDArray[np.int64],
        counts: Weights | None,
    ) -> None:
        targets = np.asarray(labels[rows].toarray(), bool)
        self.loss = loss
        self.targets = torch.from_numpy(targets)
        self.counts = None if counts is None else torch.from_numpy(counts.astype(np.float32))
        self.total = float(len(rows) if counts is None else counts.sum())

    def __call__(self, bias: Tensor) -> tuple[float, Tensor]:
        value, slopes = self._slopes(bias)
        return value / self.total, slopes.sum(0) / self.total

    def _slopes(self, bias: Tensor) -> tuple[float, Tensor]:
        scores = bias.expand(len(self.targets), -1).contiguous()
        return loss_and_slopes(self.loss, scores, self.targets, self.counts)

    def mean_slopes(self, bias: Tensor) -> Tensor:
        """The mean over samples of the absolute slope in each label's score."""
        return self._slopes(bias)[1].abs().sum(0) / self.total

    def curvature(self, bias: Tensor) -> Tensor:
        """Mean second derivative of the loss in each label's score, by Hutchinson's estimate."""
        generator = torch.Generator().manual_seed(0)
        total = torch.zeros_like(bias)
        for _ in range(_DIRECTIONS):
            signs = torch.randint(0, 2, self.targets.shape, generator=generator).float()
            signs.mul_(2.0).sub_(1.0)
            above = self._at(bias + _STEP * signs)
            below = self._at(bias - _STEP * signs)
            total += ((above - below) * signs).sum(0)
        return total / (2.0 * _STEP * _DIRECTIONS * self.total)

    def _at(self, scores: Tensor) -> Tensor:
        return loss_and_slopes(self.loss, scores, self.targets, self.counts)[1]


def loss_and_slopes(
    loss: nn.Module, scores: Tensor, targets: Tensor, weights: Tensor | None
) -> tuple[float, Tensor]:
    """The samples' summed loss, in double precision, and its gradient in the scores."""
    scores.requires_grad_()
    with torch.enable_grad():
        values = loss(scores, targets, sample_weight=weights)
        (slopes,) = torch.autograd.grad(values.sum(), scores)
    return float(values.detach().sum(dtype=torch.float64)), slopes


def log_odds(labels: Any, scale: float, sample_weight: Weights | None = None) -> Tensor:
    """The bias of each label by its frequency alone, for a loss with link `sigma(scale * s)`."""
    weight = np.ones(labels.shape[0]) if sample_weight is None else sample_weight
    counts = np.asarray(weight @ labels, dtype=np.float64)
    odds = np.log((counts + 1.0) / (weight.sum() - counts + 1.0))
    return torch.from_numpy((odds / scale).astype(np.float32))


def csr(matrix: Any) -> Any:
    """A matrix in rows, as it is where it already is."""
    return sparse.csr_array(matrix)


def as_tensor(matrix: Any) -> Tensor:
    """A float32 tensor, sparse in rows where the matrix is sparse."""
    if not sparse.issparse(matrix):
        return torch.from_numpy(np.ascontiguousarray(matrix, dtype=np.float32))
    rows = csr(matrix)
    index = np.int64 if rows.nnz >= 2**31 else np.int32
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        return torch.sparse_csr_tensor(
            torch.from_numpy(rows.indptr.astype(index)),
            torch.from_numpy(rows.indices.astype(index)),
            torch.from_numpy(rows.data.astype(np.float32)),
            rows.shape,
        )


def kinds_of_columns(features: Any) -> tuple[tuple[slice, Any], ...]:
    """The sparse and the dense columns of features, with their places; one kind is all of them."""
    if isinstance(features, MixedMatrix):
        return features.parts
    return ((slice(0, features.shape[1]), features),)


def number_of_samples(labels: Any, sample_weight: Weights | None) -> float:
    """How many samples there are, one of weight w counting as w."""
    return labels.shape[0] if sample_weight is None else float(sample_weight.sum())


def column_squares(features: Matrix, sample_weight: Weights | None = None) -> Tensor:
    """The sum of each column's squares, each row's times its weight."""
    if isinstance(features, MixedMatrix):
        return torch.cat([column_squares(part, sample_weight) for _, part in features.parts])
    if not sparse.issparse(features):
        weighted = features if sample_weight is None else features * sample_weight[:, None]
        return torch.from_numpy(np.einsum("ij,ij->j", weighted, features).astype(np.float32))
    matrix: Any = features
    cells = np.square(matrix.data)
    if sample_weight is not None:
        cells = cells * np.repeat(sample_weight, np.diff(matrix.indptr))
    squares = np.bincount(matrix.indices, weights=cells, minlength=matrix.shape[1])
    return torch.from_numpy(squares.astype(np.float32))


def _distinct_rows(
    labels: Any, sample_weight: Weights | None = None
) -> tuple[NDArray[np.int64], Weights]:
    """A sample of each distinct label set, and how many samples have it.

    Sets are told apart by the sum of a random 64-bit number per label. Where there are too many,
    an even choice of them has to do: only a starting point hangs on it.
    """
    rows = csr(labels)
    codes = np.random.default_rng(0).integers(2**63, size=rows.shape[1], dtype=np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(codes[rows.indices])])
    keys = sums[rows.indptr[1:]] - sums[rows.indptr[:-1]]
    _, first, pattern_of = np.unique(keys, return_index=True, return_inverse=True)
    counts = np.bincount(pattern_of, sample_weight, minlength=len(first)).astype(np.float64)
    every = -(-len(first) * rows.shape[1] // PATTERN_CELLS)
    return first[::every], counts[::every]

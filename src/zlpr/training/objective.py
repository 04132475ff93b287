"""The linear model's training objective over the whole data, with its gradient."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from zlpr.models.features import Matrix
from zlpr.models.mixed_matrix import MixedMatrix
from zlpr.training.lbfgs import Trial, dot, minimise

Weights = NDArray[np.float64]

# Scores of so many cells are held at a time (64 MB); the sum over blocks is exact all the same.
BLOCK_CELLS = 2**24
# Of a dense matrix with zeros at the ends of its rows so many rows are multiplied at a time, unless
# what they hold is more than this share of all.
ROWS_OF_A_PIECE, MOST_OF_A_TRIANGLE = 256, 0.8
# Cells of distinct label sets that the starting point is computed from.
PATTERN_CELLS = 2**22
# Finite differences of the loss's gradient: the step, and how many random directions.
_STEP, _DIRECTIONS = 1e-2, 8


@dataclass(frozen=True)
class _Columns:
    """Features of one kind, cut into rows that are as long as what they hold.

    A row of a triangular matrix ends at its diagonal: half of a product with it is with zeros.

    Attributes:
        place: where the columns stand among all.
        pieces: consecutive rows up to their last column that is not zero, and these transposed.
    """

    place: slice
    pieces: tuple[tuple[slice, Tensor, Tensor], ...]

    @classmethod
    def of(cls, place: slice, part: Any) -> "_Columns":
        features = as_tensor(part)
        if features.layout == torch.strided:
            return cls(place, tuple(_rows_as_long_as_they_are(features)))
        # A sparse product skips zeros, and needs its own copy.
        return cls(place, ((slice(0, len(features)), features, as_tensor(part.T)),))

    def add_scores(self, weight: Tensor, scores: Tensor) -> None:
        """Add `x W` to the scores of every sample."""
        for rows, features, _ in self.pieces:
            of_rows = scores[rows]
            torch.addmm(of_rows, features, self._seen(weight, features), out=of_rows)

    def add_gradient(self, slopes: Tensor, gradient: Tensor) -> None:
        """Add `X' G` to the gradient, in its place: a sum of two products takes more memory."""
        for rows, features, transposed in self.pieces:
            of_weights = self._seen(gradient, features)
            torch.addmm(of_weights, transposed, slopes[rows], out=of_weights)

    def _seen(self, weight: Tensor, features: Tensor) -> Tensor:
        """The weights of the columns that some rows have."""
        return weight[self.place.start : self.place.start + features.shape[1]]


def _rows_as_long_as_they_are(features: Tensor) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Dense rows, so many at a time, without the zeros at their common end; one piece if none."""
    rows, columns = features.shape
    ends = []
    for first in range(0, rows, ROWS_OF_A_PIECE):
        held = features[first : first + ROWS_OF_A_PIECE].any(0).nonzero()
        ends.append(int(held[-1]) + 1 if len(held) else 0)
    if sum(ends) > MOST_OF_A_TRIANGLE * len(ends) * columns:
        yield slice(0, rows), features, features.T
        return
    for piece, end in enumerate(ends):
        here = slice(piece * ROWS_OF_A_PIECE, min((piece + 1) * ROWS_OF_A_PIECE, rows))
        yield here, features[here, :end], features[here, :end].T


@dataclass(frozen=True)
class _TrainingBlock:
    """Consecutive samples: features of one kind or two, targets, and what each sample counts."""

    columns: tuple[_Columns, ...]
    targets: Tensor
    weights: Tensor | None

    def scores(self, parameters: Tensor) -> Tensor:
        """`x W + b` of every sample."""
        scores = parameters[-1].repeat(len(self.targets), 1)
        for columns in self.columns:
            columns.add_scores(parameters, scores)
        return scores

    def loss(self, loss: nn.Module, scores: Tensor) -> "_Loss":
        """The samples' loss at these scores."""
        return _Loss.of(loss, scores, self.targets, self.weights)

    def add_gradient(self, slopes: Tensor, gradient: Tensor) -> None:
        """Add the loss's gradient in weights and biases, given that in the scores."""
        for columns in self.columns:
            columns.add_gradient(slopes, gradient)
        gradient[-1] += slopes.sum(0)


class _Loss(NamedTuple):
    """The loss of samples, each its own, and the scores that it is of."""

    values: Tensor
    scores: Tensor

    @classmethod
    def of(
        cls, loss: nn.Module, scores: Tensor, targets: Tensor, weights: Tensor | None
    ) -> "_Loss":
        scores.requires_grad_()
        with torch.enable_grad():
            return cls(loss(scores, targets, sample_weight=weights), scores)

    def sum(self) -> float:
        """In double precision."""
        return float(self.values.detach().sum(dtype=torch.float64))

    def slopes(self) -> Tensor:
        """The gradient of the sum in the scores; to be asked for once."""
        with torch.enable_grad():
            (slopes,) = torch.autograd.grad(self.values.sum(), self.scores)
        return slopes


class _Known(NamedTuple):
    """Where a search is, the scores there and the weights' squared length."""

    parameters: Tensor
    scores: Tensor
    square: float


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
        own = self.num_samples * curvature
        mean = weights.mean(0) if len(weights) else own  # samples of zeros have an empty basis
        biases = own.pow(2 / 3) * mean.pow(1 / 3)
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
        value = 0.5 * regularisation * dot(parameters[:-1], parameters[:-1])
        gradient = _of_penalty(parameters, regularisation)
        for block in self._blocks:
            loss = block.loss(self.loss, block.scores(parameters))
            value += loss.sum()
            block.add_gradient(loss.slopes(), gradient)
        return value, gradient

    def on_lines(self, regularisation: float) -> "OnLines | None":
        """For searches along lines; None where the scores of all samples are too many to hold."""
        return (
            OnLines(self.loss, self._blocks[0], regularisation) if len(self._blocks) == 1 else None
        )


class OnLines:
    """The objective at one regularisation, along lines that go on from where the last one ended.

    Scores are linear in the length of a step, so that a product with the features is made once for
    a line and once for the gradient at its end, however many lengths are tried.
    """

    def __init__(self, loss: nn.Module, block: _TrainingBlock, regularisation: float) -> None:
        self.loss, self.block, self.regularisation = loss, block, regularisation
        self._known: _Known | None = None

    def __call__(self, parameters: Tensor, direction: Tensor) -> Trial:
        """The objective at `parameters - length * direction`."""
        known = self._at(parameters)
        change = self.block.scores(direction)
        across, square = dot(parameters[:-1], direction[:-1]), dot(direction[:-1], direction[:-1])

        def trial(length: float) -> tuple[float, Callable[[Tensor], Tensor]]:
            scores = torch.add(known.scores, change, alpha=-length)
            # Of next to no weights rounding may leave less than nothing.
            there = max(0.0, known.square - 2.0 * length * across + length * length * square)
            loss = self.block.loss(self.loss, scores)

            def gradient_at(parameters: Tensor) -> Tensor:
                self._known = _Known(parameters, scores.detach(), there)
                gradient = _of_penalty(parameters, self.regularisation)
                self.block.add_gradient(loss.slopes(), gradient)
                return gradient

            return 0.5 * self.regularisation * there + loss.sum(), gradient_at

        return trial

    def _at(self, parameters: Tensor) -> _Known:
        """What the last line ended with, or the same computed anew."""
        if self._known is None or self._known.parameters is not parameters:
            square = dot(parameters[:-1], parameters[:-1])
            self._known = _Known(parameters, self.block.scores(parameters), square)
        return self._known


def _of_penalty(parameters: Tensor, regularisation: float) -> Tensor:
    """The gradient of `r/2 |W|^2`; biases cost nothing."""
    gradient = parameters * regularisation
    gradient[-1] = 0.0
    return gradient


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
    found = _Loss.of(loss, scores, targets, weights)
    return found.sum(), found.slopes()


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

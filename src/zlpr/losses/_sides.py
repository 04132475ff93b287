"""ZLPR's two sides, `log(1 + sum_l a_l e^-s_l) + log(1 + sum_l b_l e^s_l)`, in three ways.

- `two_sides` is the formula in differentiable operations: for `torch.compile`, for `torch.func`,
  and where weights or targets want a gradient.
- `HardSides` is for targets of 0 and 1 with few positive labels, given by their positions. It
  reads the scores once, in blocks that stay in the cache, and keeps the exponentials: scaled in
  place they are the gradient, so no memory of the scores' size is needed beyond it.
- `SoftSides` is for all other targets. It computes block by block, forward and backward, and keeps
  nothing of the scores' size.

No side is found by subtracting the other from the whole, and no large constant stands for a label
that does not count: its exponential is exactly 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from zlpr.losses._arguments import Cells, Weighting, working_dtype
from zlpr.losses._logsumexp import excess, exponentiate, logsumexp1, softmax1

# Cells of a block: in float32 they take 1 MB, about what a core's cache holds.
_BLOCK = 1 << 18


# Where more of the cells than this are positive, a list of their positions does not pay.
_FEW = 1 / 16


def values_from_targets(scores: Tensor, targets: Tensor, weighting: Weighting) -> Tensor:
    """One value per sample, shape (...), by the way that suits the targets; all shaped (..., L)."""
    if not _is_plain(scores, targets, weighting):
        return two_sides(weighting.cells(scores, targets))
    if scores.dim() != 2:
        shape = (-1, scores.shape[-1])
        flat = weighting.flat(scores.shape[-1])
        values = values_from_targets(scores.reshape(shape), targets.reshape(shape), flat)
        return values.view(scores.shape[:-1])
    positions = _positions(targets)
    if positions is not None:
        return _hard_values(scores, positions, weighting)
    soft: Tensor = SoftSides.apply(scores, targets, weighting)  # type: ignore[no-untyped-call]
    return soft


def values_from_indices(scores: Tensor, indices: Tensor, weighting: Weighting) -> Tensor:
    """One value per sample, shape (...), from the positive labels' indices, padded with -1."""
    if not _is_plain(scores, indices, weighting):
        return two_sides(weighting.cells(scores, _targets_of(indices, scores)))
    num_labels = scores.shape[-1]
    matrix = scores if scores.dim() == 2 else scores.reshape(-1, num_labels)
    indices = indices.reshape(len(matrix), indices.shape[-1])
    first = torch.arange(len(matrix), device=indices.device).unsqueeze(1) * num_labels
    positions = torch.unique((indices + first)[indices >= 0])
    return _hard_values(matrix, positions, weighting.flat(num_labels)).view(scores.shape[:-1])


def two_sides(cells: Cells) -> Tensor:
    """One value per sample, shape (...), in differentiable operations."""
    return logsumexp1(-cells.scores, cells.positive) + logsumexp1(cells.scores, cells.negative)


def slope_of_sides(cells: Cells) -> Tensor:
    """The gradients of the samples' values in their scores, shape (..., L), differentiable."""
    return softmax1(cells.scores, cells.negative) - softmax1(-cells.scores, cells.positive)


@dataclass(frozen=True)
class Positives:
    """The positive labels among the cells of a score matrix of shape (B, L).

    Attributes:
        positions: Shape (n,), `row * L + label` of each positive cell, ascending, without repeats.
        shape: (B, L).
        weighting: Mask and weights.
        rows: Shape (n,), the row of each positive cell.
        starts: Shape (B + 1,), where in `positions` each row starts.
    """

    positions: Tensor
    shape: tuple[int, int]
    weighting: Weighting
    rows: Tensor
    starts: Tensor

    @classmethod
    def at(cls, positions: Tensor, shape: tuple[int, int], weighting: Weighting) -> "Positives":
        """Find the rows of the positions, and leave out the masked ones."""
        if weighting.label_mask is not None:
            mask = weighting.label_mask.expand(shape).reshape(-1)
            positions = positions[mask[positions]]
        num_rows, num_labels = shape
        rows = positions.div(num_labels, rounding_mode="floor")
        edges = torch.arange(0, (num_rows + 1) * num_labels, num_labels, device=positions.device)
        return cls(positions, shape, weighting, rows, torch.searchsorted(positions, edges))

    def cells(self, scores: Tensor) -> Cells:
        """The same as cells."""
        targets = torch.zeros(self.shape, dtype=torch.bool, device=scores.device)
        targets.view(-1)[self.positions] = True
        return self.weighting.cells(scores, targets)

    def exponents(self, scores: Tensor) -> Tensor:
        """`log a_i - s_i` of the positive cells, shape (n,)."""
        values = scores.view(-1).index_select(0, self.positions).to(working_dtype(scores)).neg_()
        for weight in (self.weighting.label_weight, self.weighting.pos_weight):
            if weight is not None:
                weight = torch.as_tensor(weight, dtype=values.dtype, device=values.device)
                values += weight.expand(self.shape)[self.rows, self.positions % self.shape[1]].log()
        return values.clamp_(max=torch.finfo(values.dtype).max)

    def reduce(self, values: Tensor, how: str) -> Tensor:
        """The "sum" of each row's positive cells, or the "max" of these and 0; shape (B,)."""
        return torch.segment_reduce(values, how, offsets=self.starts, initial=0)

    def write_negatives(self, out: Tensor, scores: Tensor, rows: slice, cells: slice) -> None:
        """Write `log b_j + s_j` of some rows to `out`, and -inf where a cell is not negative."""
        weighting = self.weighting.of(rows)
        torch.clamp(scores[rows].to(out.dtype), max=torch.finfo(out.dtype).max, out=out)
        if weighting.label_weight is not None:
            weight = torch.as_tensor(weighting.label_weight, dtype=out.dtype, device=out.device)
            out.add_(weight.log())
        if weighting.label_mask is not None:
            out.masked_fill_(~weighting.label_mask, -torch.inf)
        out.view(-1).index_fill_(0, self.positions[cells] - rows.start * self.shape[1], -torch.inf)

    def blocks(self) -> Iterator[tuple[slice, slice]]:
        """The rows of each block, and where in `positions` their positive cells are."""
        blocks = list(_blocks(self.shape, self.positions.device))
        if len(blocks) == 1:
            yield blocks[0], slice(None)
            return
        edges = self.starts[[0, *(rows.stop for rows in blocks)]].tolist()
        for rows, first, last in zip(blocks, edges[:-1], edges[1:], strict=True):
            yield rows, slice(first, last)


class HardSides(torch.autograd.Function):
    """One value per row from few positive cells: `HardSides.apply(scores, positives, keep)`.

    The scores are contiguous, of shape (B, L). `keep` holds the exponentials for the backward pass.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, positives: Positives, keep: bool) -> Tensor:
        """The values, shape (B,)."""
        exponents = positives.exponents(scores)
        # The first row of each is for the positive side, the second for the negative.
        shifts = exponents.new_empty((2, scores.shape[0]))
        totals = torch.empty_like(shifts)
        shifts[0] = positives.reduce(exponents, "max")
        positive = exponents.sub_(shifts[0].index_select(0, positives.rows)).exp_()
        totals[0] = positives.reduce(positive, "sum")
        kept = torch.empty_like(scores) if keep else None
        for rows, cells in positives.blocks():
            part = exponents.new_empty(scores[rows].shape) if kept is None else kept[rows]
            positives.write_negatives(part, scores, rows, cells)
            torch.amax(part, dim=1, out=shifts[1, rows]).clamp_(min=0.0)
            torch.sum(exponentiate(part, shifts[1, rows]), dim=1, out=totals[1, rows])
        over = excess(shifts, totals)
        ctx.save_for_backward(scores, positive, shifts, over)
        ctx.positives, ctx.kept = positives, kept
        return _saturate((shifts + torch.log1p(over)).sum(dim=0))

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        """The gradient in the scores."""
        scores, positive, shifts, over = ctx.saved_tensors
        positives: Positives = ctx.positives
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted
            slope = slope_of_sides(positives.cells(scores))
            return upstream.unsqueeze(1) * slope, None, None
        scales = upstream / (1 + over)
        # The kept exponentials become the gradient, once; a second pass computes them again.
        slope, ctx.kept = ctx.kept, None
        if slope is None:
            slope = _slope_of_negatives(scores, positives, shifts[1], scales[1])
        else:
            slope.mul_(scales[1].unsqueeze(1))
        positive = scales[0].neg_().index_select(0, positives.rows).mul_(positive)
        slope.view(-1).index_copy_(0, positives.positions, positive.to(slope.dtype))
        return slope, None, None


class SoftSides(torch.autograd.Function):
    """One value per row from any targets: `SoftSides.apply(scores, targets, weighting)`."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, targets: Tensor, weighting: Weighting) -> Tensor:
        """The values, shape (B,)."""
        ctx.save_for_backward(scores, targets)
        ctx.weighting = weighting
        values = [
            two_sides(weighting.of(rows).cells(scores[rows], targets[rows]))
            for rows in _blocks(scores.shape, scores.device)
        ]
        return _saturate(torch.cat(values))

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        """The gradient in the scores."""
        scores, targets = ctx.saved_tensors
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted
            slope = slope_of_sides(ctx.weighting.cells(scores, targets))
            return upstream.unsqueeze(1) * slope, None, None
        gradient = torch.empty_like(scores)
        for rows in _blocks(scores.shape, scores.device):
            slope = slope_of_sides(ctx.weighting.of(rows).cells(scores[rows], targets[rows]))
            gradient[rows] = slope.mul_(upstream[rows].unsqueeze(1))
        return gradient, None, None


def _is_plain(scores: Tensor, truth: Tensor, weighting: Weighting) -> bool:
    """Whether the tensors hold numbers, not a tracer's marks, and only scores want a gradient."""
    if torch.compiler.is_compiling() or scores.numel() == 0:
        return False
    if scores.device.type not in ("cpu", "cuda"):
        return False
    others = [truth, weighting.label_mask, weighting.label_weight, weighting.pos_weight]
    tensors = [tensor for tensor in others if isinstance(tensor, Tensor)]
    if any(tensor.requires_grad for tensor in tensors):
        return False
    try:
        for tensor in (scores, *tensors):
            tensor.data_ptr()  # refused by fake tensors and within torch.func's transforms
    except RuntimeError:
        return False
    tangent = forward_ad.unpack_dual(scores).tangent  # type: ignore[no-untyped-call]
    return tangent is None


def _positions(targets: Tensor) -> Tensor | None:
    """Ascending positions of the ones among targets of 0 and 1; None where they are not few."""
    if targets.device.type != "cpu":  # to find them would wait for the device
        return None
    nonzero = targets.detach().to(torch.bool).contiguous().numpy().ravel().nonzero()[0]
    positions = torch.from_numpy(nonzero)  # by way of NumPy, whose search is four times as fast
    if positions.numel() > _FEW * targets.numel():
        return None
    if targets.is_floating_point() and not bool((targets.reshape(-1)[positions] == 1).all()):
        return None
    return positions


def _targets_of(indices: Tensor, scores: Tensor) -> Tensor:
    """Boolean targets, shape (..., L), with the given positive labels."""
    num_labels = scores.shape[-1]
    shape = (*scores.shape[:-1], num_labels + 1)  # the last is for the padding
    columns = torch.where(indices < 0, num_labels, indices).long()
    targets = torch.zeros(shape, dtype=torch.bool, device=scores.device)
    return targets.scatter(-1, columns, True)[..., :num_labels]


def _hard_values(scores: Tensor, positions: Tensor, weighting: Weighting) -> Tensor:
    """The values of the rows, shape (B,)."""
    wanted = torch.is_grad_enabled() and scores.requires_grad
    keep = wanted and scores.dtype == working_dtype(scores)
    positives = Positives.at(positions, (scores.shape[0], scores.shape[1]), weighting)
    matrix = scores.contiguous()
    values: Tensor = HardSides.apply(matrix, positives, keep)  # type: ignore[no-untyped-call]
    return values


def _slope_of_negatives(
    scores: Tensor, positives: Positives, shift: Tensor, scale: Tensor
) -> Tensor:
    """The gradient but for the positive cells, by the operations of the forward pass."""
    gradient = torch.empty_like(scores)
    for rows, cells in positives.blocks():
        part = shift.new_empty(scores[rows].shape)
        positives.write_negatives(part, scores, rows, cells)
        gradient[rows] = exponentiate(part, shift[rows]).mul_(scale[rows].unsqueeze(1))
    return gradient


def _blocks(shape: tuple[int, ...], device: torch.device) -> Iterator[slice]:
    """Rows that fit a cache, one at least; all rows on a device that hides its latency itself."""
    num_rows, num_labels = shape
    step = max(_BLOCK // max(num_labels, 1), 1) if device.type == "cpu" else max(num_rows, 1)
    for row in range(0, num_rows, step):
        yield slice(row, min(row + step, num_rows))


def _saturate(values: Tensor) -> Tensor:
    """Hold the sum of two sides to the largest number; bfloat16 scores can exceed half of it."""
    return values.clamp_(max=torch.finfo(values.dtype).max)

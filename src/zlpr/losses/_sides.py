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
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from zlpr.losses._arguments import Cells, Weighting, working_dtype
from zlpr.losses._logsumexp import LOG2_E, excess, exponentiate, logsumexp1, softmax1
from zlpr.losses._reduce import Reduction, reduce

# Cells of a block: in float32 they take 1 MB, about what a core's cache holds.
_BLOCK = 1 << 18
# Where more of the cells than this are positive, a list of their positions does not pay.
_FEW = 1 / 16
# A sum of exponentials up to this one comes from exponents up to 16, which need no shift: their
# exponentials are far from overflow and right but for the last digit.
_GENTLE = 1e7


def loss_from_targets(
    scores: Tensor,
    targets: Tensor,
    weighting: Weighting,
    sample_weight: Tensor | None,
    reduction: Reduction,
) -> Tensor:
    """The loss of scores and targets of shape (..., L), by the way that suits the targets."""
    if not _is_plain(scores, targets, weighting):
        return reduce(two_sides(weighting.cells(scores, targets)), sample_weight, reduction)
    matrix, truth = _as_matrix(scores), _as_matrix(targets)
    weighting = weighting.flat(scores.shape[-1])
    positions = _positions(truth)
    if positions is not None:
        positives = Positives.at(positions, (matrix.shape[0], matrix.shape[1]), weighting)
        return _hard_loss(matrix, positives, scores.shape[:-1], sample_weight, reduction)
    values: Tensor = SoftSides.apply(matrix, truth, weighting)  # type: ignore[no-untyped-call]
    return reduce(values.view(scores.shape[:-1]), sample_weight, reduction)


def loss_from_indices(
    scores: Tensor,
    indices: Tensor,
    weighting: Weighting,
    sample_weight: Tensor | None,
    reduction: Reduction,
) -> Tensor:
    """The same from the positive labels' indices, shape (..., K), padded with -1."""
    if not _is_plain(scores, indices, weighting):
        cells = weighting.cells(scores, _targets_of(indices, scores))
        return reduce(two_sides(cells), sample_weight, reduction)
    matrix, indices = _as_matrix(scores), _as_matrix(indices)
    num_rows, num_labels = matrix.shape
    first = torch.arange(0, num_rows * num_labels, num_labels, device=indices.device)
    positions = torch.unique((indices + first.unsqueeze(1))[indices >= 0])
    positives = Positives.at(positions, (num_rows, num_labels), weighting.flat(num_labels))
    return _hard_loss(matrix, positives, scores.shape[:-1], sample_weight, reduction)


def two_sides(cells: Cells) -> Tensor:
    """One value per sample, shape (...), in differentiable operations."""
    return logsumexp1(-cells.scores, cells.positive) + logsumexp1(cells.scores, cells.negative)


def slope_of_sides(cells: Cells) -> Tensor:
    """The gradients of the samples' values in their scores, shape (..., L), differentiable."""
    return softmax1(cells.scores, cells.negative) - softmax1(-cells.scores, cells.positive)


@dataclass(frozen=True)
class Block:
    """Some rows of a matrix, and which of the positive cells are theirs."""

    rows: slice
    cells: slice


@dataclass(frozen=True)
class Positives:
    """The positive labels among the cells of a score matrix of shape (B, L).

    Attributes:
        positions: Shape (n,), `row * L + label` of each positive cell, ascending, without repeats,
            none of them masked.
        shape: (B, L).
        weighting: Mask and weights.
    """

    positions: Tensor
    shape: tuple[int, int]
    weighting: Weighting

    @classmethod
    def at(cls, positions: Tensor, shape: tuple[int, int], weighting: Weighting) -> "Positives":
        """Leave out the masked positions."""
        if weighting.label_mask is not None:
            mask = weighting.label_mask.expand(shape).reshape(-1)
            positions = positions[mask[positions]]
        return cls(positions, shape, weighting)

    @cached_property
    def rows(self) -> Tensor:
        """The row of each positive cell, shape (n,)."""
        return self.positions.div(self.shape[1], rounding_mode="floor")

    @cached_property
    def starts(self) -> Tensor:
        """Where in `positions` each row starts, shape (B + 1,)."""
        num_rows, num_labels = self.shape
        device = self.positions.device
        edges = torch.arange(0, (num_rows + 1) * num_labels, num_labels, device=device)
        return torch.searchsorted(self.positions, edges)

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
        return values

    def reduce(self, values: Tensor, how: str) -> Tensor:
        """The "sum" of each row's positive cells, or the "max" of these and 0; shape (B,)."""
        return torch.segment_reduce(values, how, offsets=self.starts, initial=0)

    def largest_negatives(self, scores: Tensor, block: Block, scratch: Tensor) -> Tensor:
        """The largest `log b_j + s_j` of a block's rows, or 0 where that is more; shape (rows,)."""
        self._weigh(scores, block, scratch)
        self._silence(scratch, block, -torch.inf)
        return scratch.amax(dim=1).clamp_(min=0.0)

    def exponentiate_negatives(
        self, scores: Tensor, block: Block, shift: Tensor | None, out: Tensor
    ) -> None:
        """Write `b_j e^(s_j - shift)` of a block to `out`, 0 where a cell is not negative."""
        if shift is not None:
            self._weigh(scores, block, out)
            exponentiate(out, shift)
        elif self.weighting.label_weight is not None:
            self._weigh(scores, block, out)
            out.mul_(LOG2_E).exp2_()
        else:
            torch.mul(_part(scores, block.rows).to(out.dtype), LOG2_E, out=out).exp2_()
        self._silence(out, block, 0.0)

    def blocks(self) -> Iterator[Block]:
        """The matrix in blocks of rows."""
        blocks = list(_blocks(self.shape, self.positions.device))
        if len(blocks) == 1:
            yield Block(blocks[0], slice(0, len(self.positions)))
            return
        edges = self.starts[[0, *(rows.stop for rows in blocks)]].tolist()
        for rows, first, last in zip(blocks, edges[:-1], edges[1:], strict=True):
            yield Block(rows, slice(first, last))

    def _weigh(self, scores: Tensor, block: Block, out: Tensor) -> None:
        """Write `log b_j + s_j` of a block's rows to `out`, as if all cells were negative."""
        torch.clamp(_part(scores, block.rows).to(out.dtype), max=_largest(out), out=out)
        weight = self.weighting.of(block.rows).label_weight
        if weight is not None:
            out.add_(torch.as_tensor(weight, dtype=out.dtype, device=out.device).log())

    def _silence(self, out: Tensor, block: Block, value: float) -> None:
        """Overwrite the cells of a block that are not negative."""
        positions = _part(self.positions, block.cells)
        if block.rows.start > 0:
            positions = positions - block.rows.start * self.shape[1]
        out.view(-1).index_fill_(0, positions, value)
        if self.weighting.label_mask is not None:
            mask = self.weighting.label_mask
            out.masked_fill_(~(mask[block.rows] if mask.dim() > 1 else mask), value)


@dataclass(frozen=True)
class Sums:
    """What the two sides of each row add up to: `e^shift * total`.

    Attributes:
        positive: Shape (n,), the positive cells' parts of the totals.
        totals: Shape (2, B), of the positive and of the negative side.
        shifts: As `totals`, at least 0; None for 0.
    """

    positive: Tensor
    totals: Tensor
    shifts: Tensor | None

    @classmethod
    def of(cls, scores: Tensor, positives: Positives, kept: Tensor | None) -> "Sums":
        """Without shifts where the scores allow it, which is found by trying; else with shifts.

        Either leaves the exponentials of the negative cells in `kept` if that is given.
        """
        if scores.device.type == "cpu":  # to look at the sums, another device would be waited for
            sums = cls.plain(scores, positives, kept)
            if sums.totals.max().item() < _GENTLE:  # not so for NaN
                return sums
        return cls.shifted(scores, positives, kept)

    @classmethod
    def plain(cls, scores: Tensor, positives: Positives, kept: Tensor | None) -> "Sums":
        """Sums of bare exponentials, which may overflow."""
        positive = positives.exponents(scores).exp_()
        totals = positive.new_zeros((2, scores.shape[0]))
        totals[0].index_add_(0, positives.rows, positive)
        for block in positives.blocks():
            part = _scratch(kept, totals, scores, block.rows)
            positives.exponentiate_negatives(scores, block, None, part)
            torch.sum(part, dim=1, out=_part(totals[1], block.rows))
        return cls(positive, totals, None)

    @classmethod
    def shifted(cls, scores: Tensor, positives: Positives, kept: Tensor | None) -> "Sums":
        """Sums of exponentials of which the largest is 1."""
        positive = positives.exponents(scores)
        positive.clamp_(max=_largest(positive))
        totals = positive.new_empty((2, scores.shape[0]))
        shifts = torch.empty_like(totals)
        shifts[0] = positives.reduce(positive, "max")
        positive.sub_(shifts[0].index_select(0, positives.rows)).exp_()
        totals[0] = positives.reduce(positive, "sum")
        for block in positives.blocks():
            rows = block.rows
            part = _scratch(kept, totals, scores, rows)
            shifts[1, rows] = positives.largest_negatives(scores, block, part)
            positives.exponentiate_negatives(scores, block, shifts[1, rows], part)
            torch.sum(part, dim=1, out=totals[1, rows])
        return cls(positive, totals, shifts)

    @cached_property
    def over(self) -> Tensor:
        """The x in `log(1 + e^shift * total) = shift + log(1 + x)`, shape (2, B)."""
        return self.totals if self.shifts is None else excess(self.shifts, self.totals)

    def values(self) -> Tensor:
        """The rows' losses, shape (B,)."""
        if self.shifts is None:
            return torch.log1p(self.totals).sum(dim=0)
        return _saturate(torch.log1p(self.over).add_(self.shifts).sum(dim=0))


class HardSides(torch.autograd.Function):
    """Values or loss from few positive cells: `HardSides.apply(scores, positives, keep, factor)`.

    The scores are contiguous, of shape (B, L). `keep` holds the exponentials for the backward pass.
    With a `factor` it gives the factor times the sum of the values, else one value per row.
    """

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, positives: Positives, keep: bool, factor: float | None
    ) -> Tensor:
        """The values, shape (B,), or the loss, shape ()."""
        kept = torch.empty_like(scores) if keep else None
        sums = Sums.of(scores, positives, kept)
        ctx.save_for_backward(scores)
        ctx.positives, ctx.sums, ctx.kept, ctx.factor = positives, sums, kept, factor
        values = sums.values()
        return values if factor is None else values.mul_(factor).sum()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        """The gradient in the scores."""
        (scores,) = ctx.saved_tensors
        if ctx.factor is not None:
            upstream = (upstream * ctx.factor).expand(scores.shape[0])
        positives: Positives = ctx.positives
        sums: Sums = ctx.sums
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted
            slope = slope_of_sides(positives.cells(scores))
            return upstream.unsqueeze(1) * slope, None, None, None
        scales = upstream / (1 + sums.over)
        # The kept exponentials become the gradient, once; a second pass computes them again.
        slope, ctx.kept = ctx.kept, None
        if slope is None:
            slope = _slope_of_negatives(scores, positives, sums.shifts, scales[1])
        else:
            slope.mul_(scales[1].unsqueeze(1))
        positive = scales[0].neg_().index_select(0, positives.rows).mul_(sums.positive)
        slope.view(-1).index_copy_(0, positives.positions, positive.to(slope.dtype))
        return slope, None, None, None


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


def _hard_loss(
    scores: Tensor,
    positives: Positives,
    shape: torch.Size,
    sample_weight: Tensor | None,
    reduction: Reduction,
) -> Tensor:
    """The loss of a score matrix whose rows are the samples of a batch of some shape."""
    wanted = torch.is_grad_enabled() and scores.requires_grad
    keep = wanted and scores.dtype == working_dtype(scores)
    # Without sample weights the sum is taken in the same function, which spares its gradient.
    factors = {"sum": 1.0, "mean": 1.0 / scores.shape[0]}
    factor = factors.get(reduction) if sample_weight is None else None
    loss: Tensor = HardSides.apply(scores.contiguous(), positives, keep, factor)  # type: ignore[no-untyped-call]
    return loss if factor is not None else reduce(loss.view(shape), sample_weight, reduction)


def _as_matrix(values: Tensor) -> Tensor:
    """All leading dimensions in one."""
    return values if values.dim() == 2 else values.reshape(-1, values.shape[-1])


def _slope_of_negatives(
    scores: Tensor, positives: Positives, shifts: Tensor | None, scale: Tensor
) -> Tensor:
    """The gradient but for the positive cells, by the operations of the forward pass."""
    gradient = torch.empty_like(scores)
    for block in positives.blocks():
        rows = block.rows
        part = scale.new_empty(scores[rows].shape)
        shift = None if shifts is None else shifts[1, rows]
        positives.exponentiate_negatives(scores, block, shift, part)
        gradient[rows] = part.mul_(scale[rows].unsqueeze(1))
    return gradient


def _blocks(shape: tuple[int, ...], device: torch.device) -> Iterator[slice]:
    """Rows that fit a cache, one at least; all rows on a device that hides its latency itself."""
    num_rows, num_labels = shape
    step = max(_BLOCK // max(num_labels, 1), 1) if device.type == "cpu" else max(num_rows, 1)
    for row in range(0, num_rows, step):
        yield slice(row, min(row + step, num_rows))


def _part(values: Tensor, part: slice) -> Tensor:
    """`values[part]`, or the values themselves for all of them, which is sooner had."""
    return values if part == slice(0, len(values)) else values[part]


def _scratch(kept: Tensor | None, like: Tensor, scores: Tensor, rows: slice) -> Tensor:
    """Where to write the exponentials of some rows."""
    if kept is not None:
        return _part(kept, rows)
    return like.new_empty((rows.stop - rows.start, scores.shape[1]))


def _largest(values: Tensor) -> float:
    """The largest number of their dtype."""
    return torch.finfo(values.dtype).max


def _saturate(values: Tensor) -> Tensor:
    """Hold the sum of two sides to the largest number; bfloat16 scores can exceed half of it."""
    return values.clamp_(max=_largest(values))

"""ZLPR's two sides, `log(1 + sum_l a_l e^-s_l) + log(1 + sum_l b_l e^s_l)`, in three ways.

- `two_sides` is the formula in differentiable operations: for `torch.compile`, for `torch.func`,
  and where weights or targets want a gradient.
- `HardSides` is for targets of 0 and 1 with few positive labels, given by their positions. It
  reads the scores once, in blocks that stay in the cache, and scales the exponentials in place to
  the gradient, so no memory of the scores' size is needed beyond it.
- `SoftSides` is for all other targets. It computes block by block, forward and backward, and keeps
  nothing of the scores' size.

No side is found by subtracting the other from the whole, and no large constant stands for a label
that does not count: its exponential is exactly 0.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import forward_ad

from zlpr.losses._arguments import Cells, Weight, Weighting, working_dtype
from zlpr.losses._logsumexp import LOG2_E, exponentiate, logsumexp1, softmax1
from zlpr.losses._reduce import Reduction, reduce

# Cells of a block: in float32 they take 1 MB, about what a core's cache holds.
_BLOCK = 1 << 18
# Where more of the cells than this are positive, a list of their positions does not pay.
_FEW = 1 / 16
# A sum of exponentials up to this one comes from exponents up to 30, which need no shift: their
# exponentials are far from overflow and right but for the last digit.
_GENTLE = 1e13
# As a tensor, since to make one of a number takes longer than a small product.
_LOG2_E = torch.tensor(LOG2_E, dtype=torch.float64, device="cpu")


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
        values = two_sides(weighting.cells(scores, _targets_of(indices, scores)))
        # Where values cannot be looked at, an index outside the labels shows as NaN, not as none.
        is_outside = ((indices < -1) | (indices >= scores.shape[-1])).any(dim=-1)
        return reduce(torch.where(is_outside, torch.nan, values), sample_weight, reduction)
    if scores.device.type != "cpu":
        targets = _targets_of(indices, scores)
        return loss_from_targets(scores, targets, weighting, sample_weight, reduction)
    matrix, labels = _as_matrix(scores), _as_matrix(indices).numpy()
    num_rows, num_labels = matrix.shape
    first = np.arange(0, num_rows * num_labels, num_labels)
    positions = _distinct((labels + first[:, None])[labels >= 0])
    positives = Positives.at(positions, (num_rows, num_labels), weighting.flat(num_labels))
    return _hard_loss(matrix, positives, scores.shape[:-1], sample_weight, reduction)


def two_sides(cells: Cells) -> Tensor:
    """One value per sample, shape (...), in differentiable operations."""
    return logsumexp1(-cells.scores, cells.positive) + logsumexp1(cells.scores, cells.negative)


def slope_of_sides(cells: Cells) -> Tensor:
    """The gradients of the samples' values in their scores, shape (..., L), differentiable."""
    return softmax1(cells.scores, cells.negative) - softmax1(-cells.scores, cells.positive)


class Block(NamedTuple):
    """Some rows of a matrix, and the positive cells in them.

    Attributes:
        rows: Which rows.
        cells: Which of all positive cells are theirs.
        positions: These cells' positions in the block, shape (n,).
        owners: These cells' rows in the block, shape (n,).
    """

    rows: slice
    cells: slice
    positions: NDArray[np.int64]
    owners: NDArray[np.int64]


class Positives(NamedTuple):
    """The positive labels among the cells of a score matrix of shape (B, L), on the CPU.

    Attributes:
        positions: Shape (n,), `row * L + label` of each positive cell, ascending, without repeats,
            none of them masked or without weight.
        rows: Shape (n,), the row of each positive cell.
        weights: The weight of each positive cell, shape (n,) or one for all; None for 1.
        shape: (B, L).
        weighting: Mask and weights; what has no weight is masked.
    """

    positions: NDArray[np.int64]
    rows: NDArray[np.int64]
    weights: NDArray[Any] | float | None
    shape: tuple[int, int]
    weighting: Weighting

    @classmethod
    def at(
        cls, positions: NDArray[np.int64], shape: tuple[int, int], weighting: Weighting
    ) -> "Positives":
        """Leave out the positions that are masked or have no weight."""
        weighting = weighting.masked_where_zero(shape[1])
        if weighting.label_mask is not None:
            positions = positions[_entries(weighting.label_mask, positions, shape[1])]
        weights = None
        for weight in (weighting.label_weight, weighting.pos_weight):
            if weight is not None:
                part = _entries(weight, positions, shape[1])
                weights = part if weights is None else weights * part
        if weights is not None:
            kept = np.broadcast_to(np.asarray(weights) > 0, positions.shape)
            positions = positions[kept]
            weights = weights if np.ndim(weights) == 0 else weights[kept]
        return cls(positions, positions // shape[1], weights, shape, weighting)

    def cells(self, scores: Tensor) -> Cells:
        """The same as cells."""
        targets = torch.zeros(self.shape, dtype=torch.bool, device="cpu")
        targets.numpy().reshape(-1)[self.positions] = True
        return self.weighting.cells(scores, targets)

    def negated_scores(self, scores: Tensor) -> NDArray[Any]:
        """`-s_i` of the positive cells, shape (n,), in the dtype to compute in."""
        if scores.dtype is torch.bfloat16 or scores.dtype is torch.float16:
            places = torch.from_numpy(self.positions)
            values: NDArray[Any] = scores.detach().view(-1)[places].float().numpy()
        else:
            values = scores.detach().numpy().reshape(-1)[self.positions]
        np.negative(values, out=values)
        return values

    def sum(self, values: NDArray[Any]) -> NDArray[Any]:
        """The sum of each row's positive cells, shape (B,)."""
        return np.bincount(self.rows, values, minlength=self.shape[0])

    def largest_negatives(self, scores: Tensor, block: Block, scratch: Tensor) -> NDArray[Any]:
        """The largest `log b_j + s_j` of a block's rows, or 0 where that is more; shape (rows,)."""
        part = _part(scores, block.rows).to(scratch.dtype)
        torch.clamp(part, max=torch.finfo(part.dtype).max, out=scratch)
        weight = self.weighting.of(block.rows).label_weight
        if weight is not None:
            scratch.add_(torch.as_tensor(weight, dtype=scratch.dtype, device="cpu").log())
        self._silence(scratch, block, -torch.inf)
        largest: NDArray[Any] = scratch.amax(dim=1).clamp_(min=0.0).numpy()
        return largest

    def exponentiate_negatives(
        self, scores: Tensor, block: Block, shifts: NDArray[Any] | None, out: Tensor
    ) -> None:
        """Write `b_j e^(s_j - shift)` of a block to `out`, 0 where a cell is not negative.

        The weight is multiplied by, since added to a large score as a logarithm it would be lost.
        """
        part = _part(scores, block.rows).to(out.dtype)
        if shifts is None:
            torch.mul(part, _LOG2_E, out=out).exp2_()
        else:
            torch.clamp(part, max=torch.finfo(part.dtype).max, out=out)
            exponentiate(out, torch.from_numpy(shifts[1, block.rows]))
        weight = self.weighting.of(block.rows).label_weight
        if weight is not None:
            out.mul_(weight)
        self._silence(out, block, 0.0)

    def blocks(self) -> Iterator[Block]:
        """The matrix in blocks of rows."""
        num_rows, num_labels = self.shape
        if num_rows * num_labels <= _BLOCK:
            cells = slice(0, len(self.positions))
            yield Block(slice(0, num_rows), cells, self.positions, self.rows)
            return
        for rows in _blocks(self.shape, "cpu"):
            first, last = np.searchsorted(self.rows, (rows.start, rows.stop)).tolist()
            positions = self.positions[first:last] - rows.start * num_labels
            yield Block(rows, slice(first, last), positions, self.rows[first:last] - rows.start)

    def _silence(self, out: Tensor, block: Block, value: float) -> None:
        """Overwrite the cells of a block that are not negative."""
        out.numpy().reshape(-1)[block.positions] = value
        mask = self.weighting.of(block.rows).label_mask
        if mask is not None:
            out.masked_fill_(~mask, value)


class Sums(NamedTuple):
    """What the two sides of each row add up to, as `log(1 + sum) = shift + log(1 + over)`.

    What has one entry a row or a positive cell is NumPy's, of which a call on a short vector costs
    a third of torch's.

    Attributes:
        positive: Shape (n,), the positive cells' exponentials, scaled by `e^-shift`.
        over: Shape (2, B), of the positive and of the negative side.
        shifts: As `over`, at least 0; None for 0.
    """

    positive: NDArray[Any]
    over: NDArray[Any]
    shifts: NDArray[Any] | None

    @classmethod
    def of(
        cls, scores: Tensor, positives: Positives, slope: Tensor | None, factor: float
    ) -> "Sums":
        """Of bare exponentials where the scores allow it, which is found by trying; else shifted.

        Either leaves the gradient of `factor` times the values in `slope` if that is given.
        """
        sums = cls.plain(scores, positives)
        if not sums.add_negatives(scores, positives, slope, factor):
            sums = cls.shifted(scores, positives)
            sums.add_negatives(scores, positives, slope, factor)
        return sums

    @classmethod
    def plain(cls, scores: Tensor, positives: Positives) -> "Sums":
        """The positive side, of bare exponentials, which may overflow."""
        positive = positives.negated_scores(scores)
        np.exp(positive, out=positive)
        if positives.weights is not None:
            positive *= positives.weights
        over = np.empty((2, scores.shape[0]), positive.dtype)
        over[0] = positives.sum(positive)
        return cls(positive, over, None)

    @classmethod
    def shifted(cls, scores: Tensor, positives: Positives) -> "Sums":
        """The positive side, of exponentials of which the largest is 1."""
        values = positives.negated_scores(scores)
        np.minimum(values, np.finfo(values.dtype).max, out=values)
        weights = positives.weights
        shifts = np.zeros((2, scores.shape[0]), values.dtype)
        largest = values if weights is None else values + np.log(weights).astype(values.dtype)
        np.maximum.at(shifts[0], positives.rows, largest)
        positive = np.exp(values - shifts[0][positives.rows])
        if weights is not None:
            positive *= weights
        over = np.empty_like(shifts)
        over[0] = positives.sum(positive) + np.expm1(-shifts[0])
        return cls(positive, over, shifts)

    def add_negatives(
        self, scores: Tensor, positives: Positives, slope: Tensor | None, factor: float
    ) -> bool:
        """Fill in the negative side; False, before the end, where bare exponentials will not do."""
        for block in positives.blocks():
            part = _scratch(slope, scores, block.rows)
            over = self.over[:, block.rows]
            if self.shifts is not None:
                shifts = self.shifts[1, block.rows]
                shifts[:] = positives.largest_negatives(scores, block, part)
            positives.exponentiate_negatives(scores, block, self.shifts, part)
            over[1] = part.sum(dim=1).numpy()
            if self.shifts is not None:
                over[1] += np.expm1(-shifts)
            elif not over.max() < _GENTLE:  # so for NaN, too
                return False
            if slope is not None:
                self.scale(part, block, factor)
        return True

    def values(self) -> NDArray[Any]:
        """The rows' losses, shape (B,)."""
        sides: NDArray[Any] = np.log1p(self.over)
        if self.shifts is not None:
            sides += self.shifts
        values: NDArray[Any] = sides[0] + sides[1]
        if self.shifts is not None:  # scores of bfloat16 can exceed half of the largest number
            np.minimum(values, np.finfo(values.dtype).max, out=values)
        return values

    def scale(self, part: Tensor, block: Block, upstream: NDArray[Any] | float) -> None:
        """Turn a block's exponentials into the gradient, given that of its rows' losses."""
        share = upstream / (1 + self.over[:, block.rows])
        part.mul_(torch.from_numpy(share[1]).unsqueeze(1))
        slopes = share[0][block.owners] * self.positive[block.cells]
        part.numpy().reshape(-1)[block.positions] = np.negative(slopes, out=slopes)

    def slope(self, scores: Tensor, positives: Positives, upstream: NDArray[Any]) -> Tensor:
        """The gradient in the scores, by the operations of the forward pass."""
        gradient = torch.empty_like(scores)
        for block in positives.blocks():
            part = _scratch(None, scores, block.rows)
            positives.exponentiate_negatives(scores, block, self.shifts, part)
            self.scale(part, block, upstream[block.rows])
            gradient[block.rows] = part
        return gradient


class HardSides(torch.autograd.Function):
    """Values or loss from few positive cells: `HardSides.apply(scores, positives, keep, factor)`.

    The scores are contiguous, of shape (B, L), on the CPU. With `keep` the gradient is made on the
    way, block by block while the exponentials are in the cache. With a `factor` it gives the factor
    times the sum of the values, else one value per row.
    """

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, positives: Positives, keep: bool, factor: float | None
    ) -> Tensor:
        """The values, shape (B,), or the loss, shape ()."""
        slope = torch.empty_like(scores) if keep else None
        with np.errstate(all="ignore"):  # infinities and NaNs go through, as they do in torch
            sums = Sums.of(scores, positives, slope, 1.0 if factor is None else factor)
            values = sums.values()
        ctx.save_for_backward(scores, *positives.weighting.tensors())
        ctx.positives, ctx.sums, ctx.slope, ctx.factor = positives, sums, slope, factor
        if factor is None:
            return torch.from_numpy(values)
        loss = (values * factor).sum()
        return torch.scalar_tensor(loss, dtype=working_dtype(scores), device=scores.device)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        """The gradient in the scores."""
        is_plain = not torch.is_grad_enabled() and _has_numbers(upstream)
        if is_plain and ctx.slope is not None:
            # A gradient made on the way is handed out once; a second pass computes it again.
            slope, ctx.slope = ctx.slope, None
            if ctx.factor is None:
                slope.mul_(upstream.unsqueeze(1))
            elif upstream.item() != 1.0:
                slope.mul_(upstream)
            return slope, None, None, None
        scores, *_ = ctx.saved_tensors  # refused where one was changed in place
        if ctx.factor is not None:
            upstream = (upstream * ctx.factor).expand(scores.shape[0])
        if is_plain:
            with np.errstate(all="ignore"):
                return ctx.sums.slope(scores, ctx.positives, upstream.numpy()), None, None, None
        # A gradient of the gradient is wanted, or those of many upstream gradients at once.
        slope = upstream.unsqueeze(1) * slope_of_sides(ctx.positives.cells(scores))
        return slope, None, None, None


class SoftSides(torch.autograd.Function):
    """One value per row from any targets: `SoftSides.apply(scores, targets, weighting)`."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, targets: Tensor, weighting: Weighting) -> Tensor:
        """The values, shape (B,)."""
        ctx.save_for_backward(scores, targets, *weighting.tensors())
        ctx.weighting = weighting
        values = [
            two_sides(weighting.of(rows).cells(scores[rows], targets[rows]))
            for rows in _blocks(scores.shape, scores.device.type)
        ]
        return _saturate(torch.cat(values))

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        """The gradient in the scores."""
        scores, targets, *_ = ctx.saved_tensors
        if torch.is_grad_enabled() or not _has_numbers(upstream):
            slope = slope_of_sides(ctx.weighting.cells(scores, targets))
            return upstream.unsqueeze(1) * slope, None, None
        gradient = torch.empty_like(scores)
        for rows in _blocks(scores.shape, scores.device.type):
            slope = slope_of_sides(ctx.weighting.of(rows).cells(scores[rows], targets[rows]))
            gradient[rows] = slope.mul_(upstream[rows].unsqueeze(1))
        return gradient, None, None


def _is_plain(scores: Tensor, truth: Tensor, weighting: Weighting) -> bool:
    """Whether the tensors hold numbers, not a tracer's marks, and only scores want a gradient."""
    if torch.compiler.is_compiling() or scores.numel() == 0:
        return False
    if scores.device.type not in ("cpu", "cuda"):
        return False
    if not _has_numbers(scores):
        return False
    return all(
        _has_numbers(tensor) and not tensor.requires_grad
        for tensor in (truth, *weighting.tensors())
    )


def _has_numbers(tensor: Tensor) -> bool:
    """Whether a tensor holds numbers, not a tracer's marks or a batch of them, and no tangent."""
    try:
        tensor.data_ptr()  # refused by fake tensors and within torch.func's transforms
    except RuntimeError:
        return False
    if not tensor.is_floating_point():
        return True
    tangent = forward_ad.unpack_dual(tensor).tangent  # type: ignore[no-untyped-call]
    return tangent is None


def _positions(targets: Tensor) -> NDArray[np.int64] | None:
    """Ascending positions of the ones among targets of 0 and 1; None where they are not few."""
    if targets.device.type != "cpu":  # to find them would wait for the device
        return None
    truth = targets if targets.dtype is torch.bool else targets.detach().to(torch.bool)
    # by way of NumPy, whose search is four times as fast
    positions: NDArray[np.int64] = truth.numpy().ravel().nonzero()[0]
    if len(positions) > _FEW * targets.numel():
        return None
    if targets.is_floating_point():
        found = targets.detach().reshape(-1)[torch.from_numpy(positions)]
        if not bool((found == 1).all()):
            return None
    return positions


def _distinct(positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each once, ascending; `np.unique` takes twice as long for a few thousand."""
    positions.sort()
    is_new = np.ones(len(positions), bool)
    np.not_equal(positions[1:], positions[:-1], out=is_new[1:])
    return positions if is_new.all() else positions[is_new]


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


def _blocks(shape: tuple[int, ...], device_type: str) -> Iterator[slice]:
    """Rows that fit a cache, one at least; all rows on a device that hides its latency itself."""
    num_rows, num_labels = shape
    step = max(_BLOCK // max(num_labels, 1), 1) if device_type == "cpu" else max(num_rows, 1)
    for row in range(0, num_rows, step):
        yield slice(row, min(row + step, num_rows))


def _part(values: Tensor, part: slice) -> Tensor:
    """`values[part]`, or the values themselves for all of them, which is sooner had."""
    return values if part == slice(0, len(values)) else values[part]


def _scratch(slope: Tensor | None, scores: Tensor, rows: slice) -> Tensor:
    """Where to write the exponentials of some rows."""
    if slope is not None:
        return _part(slope, rows)
    shape = (rows.stop - rows.start, scores.shape[1])
    return scores.new_empty(shape, dtype=working_dtype(scores))


def _entries(values: Weight, positions: NDArray[np.int64], num_labels: int) -> Any:
    """The entries of some cells, of a number or of one for each label or cell; as NumPy's."""
    if not isinstance(values, Tensor):
        return values
    if values.dim() == 0:
        return values.item()
    flat = values.detach().numpy().reshape(-1)
    return flat[positions if values.dim() > 1 else positions % num_labels]


def _saturate(values: Tensor) -> Tensor:
    """Hold the sum of two sides to the largest number; bfloat16 scores can exceed half of it."""
    return values.clamp_(max=torch.finfo(values.dtype).max)

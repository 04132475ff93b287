"""ZLPR's values, `log(1 + sum_l a_l e^-s_l) + log(1 + sum_l b_l e^s_l)`, and their gradient.

There are two ways to the same numbers:

- `two_sides` is the formula in differentiable operations: for `torch.compile` and `torch.func`, for
  second derivatives, and where targets or weights want a gradient.
- `FusedLoss` makes values and gradient together, in blocks of rows that stay in a cache, and keeps
  nothing else of the scores' size. On a CPU it tries bare exponentials first, which takes the
  fewest passes over the cells, and falls back to `shifted_sides` where they do not suffice; other
  devices go there at once, since to ask whether they do would wait for the device. Where
  `ZLPR_TRITON=1` is set, Triton kernels take the place of both.

No side is found by subtracting the other from the whole, and no large constant stands for a label
that does not count: its exponential is exactly 0.
"""

import math
import threading
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import forward_ad

from zlpr.losses._arguments import (
    NO_WEIGHTING,
    Weighting,
    as_bytes,
    as_numbers,
    lie_within,
    wants_triton,
    working_dtype,
)
from zlpr.losses._cells import held, with_finite_gradient
from zlpr.losses._reduce import Reduction, check_reduction, reduce

# Cells of a block: its three intermediate results take two megabytes in float32 and stay near the
# core; smaller blocks cost more in calls than they save.
BLOCK = 5 << 15
# From so many cells on a block's memory is kept for the next: below, giving it back costs nothing.
LEAST_KEPT = 1 << 14
# Sums up to this one are of exponentials far from overflow, which need no shift.
GENTLE = 1e13
# log(1 + e^x) is x to the last digit of a float64 from here on.
LINEAR_FROM = 40.0


def zlpr_of_targets(
    scores: Tensor,
    targets: Tensor,
    weighting: Weighting,
    sample_weight: Tensor | None,
    reduction: Reduction,
) -> Tensor:
    """The loss of scores and targets of shape (..., L), all arguments checked."""
    check_reduction(reduction)
    if not _is_plain(scores, targets, weighting):
        return reduce(two_sides(scores, targets, weighting), sample_weight, reduction)
    matrix, truth = scores, targets
    if scores.dim() != 2 or not scores.is_contiguous():  # each view costs small batches a tenth
        matrix = scores.reshape(-1, scores.shape[-1]).contiguous()
        truth, weighting = targets.reshape(matrix.shape), weighting.flat(scores.shape[-1])
    # Without sample weights the sum is taken in the same function, which spares its gradient.
    factor = None
    if sample_weight is None and reduction != "none":
        factor = 1.0 if reduction == "sum" else 1.0 / matrix.shape[0]
    keep = torch.is_grad_enabled() and scores.requires_grad
    loss: Tensor = FusedLoss.apply(matrix, truth, weighting, factor, keep)  # type: ignore[no-untyped-call]
    if factor is not None:
        return loss
    return reduce(loss.view(scores.shape[:-1]), sample_weight, reduction)


def multi_hot(indices: Tensor, num_labels: int) -> Tensor:
    """Boolean targets, shape (..., L), from positive labels of shape (..., K), padded with -1."""
    shape = (*indices.shape[:-1], num_labels + 1)  # the last column is for the padding
    targets = torch.zeros(shape, dtype=torch.bool, device=indices.device)
    return targets.scatter(-1, indices.long() % (num_labels + 1), True)[..., :num_labels]


def two_sides(scores: Tensor, targets: Tensor, weighting: Weighting) -> Tensor:
    """One value per sample, shape (...), in differentiable operations."""
    scores = scores.to(working_dtype(scores))
    if weighting.label_mask is not None:  # not even a NaN there reaches the gradient
        scores = torch.where(weighting.label_mask, scores, 0.0)
    largest = torch.finfo(scores.dtype).max
    scores = held(scores, -largest, largest)
    positive, negative = weighting.coefficients(targets, scores.dtype)
    if scores.shape[-1] == 0:
        return scores.sum(dim=-1)
    if positive.requires_grad or negative.requires_grad:  # an infinite one passes on no NaN
        positive, negative = with_finite_gradient(positive), with_finite_gradient(negative)
    sides = ((-scores, positive), (scores, negative))
    # Both largest terms, then both sums: the compiler makes one pass over the cells of each.
    is_hard = targets.dtype is torch.bool and weighting is NO_WEIGHTING
    shifts = [_largest_term(*side, is_hard) for side in sides]
    above, below = (_side(*side, shift) for side, shift in zip(sides, shifts, strict=True))
    return above + below


def _largest_term(exponents: Tensor, coefficients: Tensor, is_hard: bool) -> Tensor:
    """The largest of 0 and `x_l + log c_l`, shape (..., 1), by which the exponents are shifted."""
    if is_hard:  # without a logarithm of what is 0 or 1
        counted = torch.where(coefficients > 0, exponents, 0.0)
    else:
        counted = exponents + coefficients.log()
    return counted.detach().clamp(min=0.0).amax(dim=-1, keepdim=True)


def _side(exponents: Tensor, coefficients: Tensor, shift: Tensor) -> Tensor:
    """`log(1 + sum_l c_l e^x_l)`, differentiable in x and c, be all c 0."""
    # What counts for little may exceed the shift, what does not count by any amount, and its
    # coefficient has a slope.
    highest = math.log(torch.finfo(exponents.dtype).max) - 1
    total = (coefficients * (exponents - shift).clamp(max=highest).exp()).sum(dim=-1)
    is_empty = total == 0
    log_total = shift.squeeze(-1) + torch.where(is_empty, 1.0, total).log()
    # An empty sum, which has no logarithm, was not shifted.
    return torch.where(is_empty, total.log1p(), F.softplus(log_total, threshold=LINEAR_FROM))


class FusedLoss(torch.autograd.Function):
    """`FusedLoss.apply(scores, targets, weighting, factor, keep)`, a matrix to values or a loss.

    With a `factor` it gives the factor times the sum of the rows' values, else the values. With
    `keep` the gradient is made on the way. That of half-precision scores waits for the backward
    pass, in which the upstream gradient may lift it into the range of the dtype.
    """

    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        targets: Tensor,
        weighting: Weighting,
        factor: float | None,
        keep: bool,
    ) -> Tensor:
        """The values, shape (B,), or the loss, shape ()."""
        ctx.save_for_backward(scores, targets, *weighting.tensors())
        ctx.weighting, ctx.factor = weighting, factor
        scale = 1.0 if factor is None else factor
        keep = keep and scores.dtype == working_dtype(scores)
        sides, ctx.slope = sides_and_slope(scores, targets, weighting, scale if keep else None)
        # Two sides of bfloat16 scores can together exceed the largest number.
        largest = torch.finfo(sides.dtype).max
        if factor is None:
            return sides.sum(dim=0).clamp_max_(largest).squeeze(1)
        return (sides * _number(factor, sides.dtype)).sum().clamp_max_(largest)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient in the scores."""
        if torch.is_grad_enabled() or not _has_numbers(upstream):
            return _gradient_of_formula(ctx, upstream), None, None, None, None
        slope, ctx.slope = ctx.slope, None  # handed out once; a second pass computes it again
        if slope is None:
            scores, targets, *_ = ctx.saved_tensors  # refused where one was changed in place
            is_half = scores.dtype != working_dtype(scores)
            scale = _scale_of_rows(ctx, upstream) if is_half else ctx.factor or 1.0
            slope = sides_and_slope(scores, targets, ctx.weighting, scale)[1]
            if is_half:
                return slope, None, None, None, None
        if ctx.factor is None:
            slope.mul_(upstream.unsqueeze(1))
        elif not (_is_on_cpu(upstream) and upstream.item() == 1.0):
            slope.mul_(upstream)
        return slope, None, None, None, None


def _gradient_of_formula(ctx: Any, upstream: Tensor) -> Tensor:
    """Where a gradient of the gradient is wanted, or those of many upstream gradients at once."""
    scores, targets, *_ = ctx.saved_tensors
    with torch.enable_grad():
        values = two_sides(scores, targets, ctx.weighting)
    create, scale = torch.is_grad_enabled(), _scale_of_rows(ctx, upstream)
    slope: Tensor = torch.autograd.grad(values, scores, scale, create_graph=create)[0]
    return slope


def _scale_of_rows(ctx: Any, upstream: Tensor) -> Tensor:
    """The upstream gradient of each row's value, shape (B,)."""
    if ctx.factor is None:
        return upstream
    scale: Tensor = upstream * ctx.factor
    return scale.expand(len(ctx.saved_tensors[0]))


def sides_and_slope(
    scores: Tensor, targets: Tensor, weighting: Weighting, scale: Tensor | float | None
) -> tuple[Tensor, Tensor | None]:
    """The two sides of each row, shape (2, B, 1), and their gradient in the scores, (B, L).

    Args:
        scores: Shape (B, L).
        targets: Shape (B, L).
        weighting: Mask and weights of rows in one dimension.
        scale: Factor of the gradient, for all or for each row, shape (B,); None for no gradient.
    """
    slope = None if scale is None else torch.empty_like(scores)
    if not _is_on_cpu(scores) or scores.numel() <= BLOCK:
        return _block_of_sides(scores, targets, weighting, scale, slope), slope
    sides = scores.new_empty((2, len(scores), 1), dtype=working_dtype(scores))
    for rows in _blocks(scores.shape):
        sides[:, rows] = _block_of_sides(
            scores[rows],
            targets[rows],
            weighting.of(rows),
            scale[rows] if isinstance(scale, Tensor) else scale,
            None if slope is None else slope[rows],
        )
    return sides, slope


def _block_of_sides(
    scores: Tensor,
    targets: Tensor,
    weighting: Weighting,
    scale: Tensor | float | None,
    slope: Tensor | None,
) -> Tensor:
    """The two sides of some rows, shape (2, B, 1); fills in their part of the gradient."""
    if wants_triton() and working_dtype(scores) is torch.float32:
        from zlpr.losses._zlpr_triton import triton_sides

        return triton_sides(scores, targets, weighting, scale, slope)
    if _is_on_cpu(scores):
        sides = bare_sides(scores, targets, weighting, scale, slope)
        if sides is not None:
            return sides
    return shifted_sides(scores, targets, weighting, scale, slope)


def bare_sides(
    scores: Tensor,
    targets: Tensor,
    weighting: Weighting,
    scale: Tensor | float | None,
    slope: Tensor | None,
) -> Tensor | None:
    """As `shifted_sides`, from bare exponentials; None where they do not suffice."""
    terms = _weighted_terms if weighting is not NO_WEIGHTING else _plain_terms
    found = terms(scores, targets, weighting, slope)
    if found is None:
        return None
    above, below, sums = found
    highest = sums.max().item()
    if math.isnan(highest) and not targets.is_floating_point():
        above.nan_to_num_(0.0, posinf=torch.inf)  # 0 / 0, where a score is minus infinity
        sums = _sums(above, below)
        highest = sums.max().item()
    if not highest < GENTLE:  # so for NaN, too
        return None
    if slope is not None:
        one = _number(1.0, sums.dtype)
        shares = torch.div(_number(_factor_of(scale), sums.dtype), one + sums)
        if isinstance(scale, Tensor):
            shares *= scale.unsqueeze(1)
        of_above, of_below = shares.unbind()
        torch.addcmul(below.mul_(of_below), above, of_above, value=-1, out=slope)
    return sums.log1p_()


Terms = tuple[Tensor, Tensor, Tensor]


def _plain_terms(
    scores: Tensor, targets: Tensor, _: Weighting, slope: Tensor | None
) -> Terms | None:
    """`y_l e^-s_l` and `(1 - y_l) e^s_l`, shape (B, L), and their sums, shape (2, B, 1).

    A block of some size goes through as little memory as it can: the second takes the place of the
    gradient, unless that is of another dtype. None as in `_weighted_terms`.
    """
    dtype, both = working_dtype(scores), None
    if LEAST_KEPT <= scores.numel() <= BLOCK:
        above, below, truth = _KEPT.memory_for(scores.shape, dtype)
        if slope is not None and slope.dtype is dtype:
            below = slope
        truth = targets if targets.dtype is dtype else truth.copy_(as_bytes(targets))
    else:  # a call more would cost more than the memory
        both, truth = scores.new_empty((2, *scores.shape), dtype=dtype), as_numbers(targets, dtype)
        above, below = both.unbind()
    torch.exp(scores if scores.dtype is dtype else scores.to(dtype), out=below)
    if targets.is_floating_point():
        if not _are_normal(below):
            return None
        torch.div(truth, below, out=above)
        below.lerp_(_number(0.0, dtype), truth)  # e^s (1 - y), exact for a target near 1, too
    else:
        torch.div(truth, below, out=above)
        below.addcmul_(below, truth, value=-1)  # exact, since the target is 0 or 1
    return above, below, _sums(above, below) if both is None else both.sum(dim=2, keepdim=True)


def _weighted_terms(
    scores: Tensor, targets: Tensor, weighting: Weighting, _: Tensor | None
) -> Terms | None:
    """`a_l e^-s_l` and `b_l e^s_l`, shape (B, L), and their sums, shape (2, B, 1).

    None where an exponential has lost digits: beside a small coefficient no sum would tell of it.
    """
    dtype = working_dtype(scores)
    constants = _side_constants(scores.device, dtype)
    both = _coefficients(as_numbers(targets, dtype), constants, weighting)
    if weighting.label_mask is not None:
        both.mul_(weighting.label_mask)
    exponentials = scores.to(dtype).exp()
    if not _are_normal(exponentials):
        return None
    above, below = both.unbind()
    above.div_(exponentials)
    below.mul_(exponentials)
    return above, below, both.sum(dim=2, keepdim=True)


def _are_normal(exponentials: Tensor) -> bool:
    """Whether none is so small that it has lost digits."""
    return lie_within(exponentials, torch.finfo(exponentials.dtype).smallest_normal, math.inf)


def _sums(above: Tensor, below: Tensor) -> Tensor:
    """The sums of both sides, shape (2, B, 1)."""
    return torch.stack((above.sum(dim=1, keepdim=True), below.sum(dim=1, keepdim=True)))


class _KeptMemory(threading.local):
    """Memory for a block in each dtype, of each thread its own.

    What is given back to the system after every call has to be made anew, page by page, which takes
    longer than the loss itself.
    """

    def __init__(self) -> None:
        self.by_dtype: dict[torch.dtype, Tensor] = {}
        self.cut_for: tuple[torch.Size, torch.dtype] | None = None
        self.cut: tuple[Tensor, ...] = ()

    def memory_for(self, shape: torch.Size, dtype: torch.dtype) -> tuple[Tensor, ...]:
        """Three tensors of a shape and dtype, the same as before for the same."""
        if self.cut_for != (shape, dtype):
            with torch.inference_mode(False):  # or no later call outside could write to it
                if dtype not in self.by_dtype:
                    self.by_dtype[dtype] = torch.empty(3 * BLOCK, dtype=dtype, device="cpu")
                memory = self.by_dtype[dtype][: 3 * shape.numel()]
                self.cut = memory.view(3, *shape).unbind()
            self.cut_for = shape, dtype
        return self.cut


_KEPT = _KeptMemory()


def shifted_sides(
    scores: Tensor,
    targets: Tensor,
    weighting: Weighting,
    scale: Tensor | float | None,
    slope: Tensor | None,
) -> Tensor:
    """The two sides of some rows, shape (2, B, 1), from exponentials relative to the largest.

    It fills in the rows' part of the gradient, too. Both sides stand in one tensor, for the sake of
    devices on which the number of operations counts.
    """
    dtype = working_dtype(scores)
    largest = torch.finfo(dtype).max
    scores = scores.to(dtype).clamp(-largest, largest)
    worst, terms = _terms(scores, targets, weighting)
    total = terms.sum(dim=-1, keepdim=True)
    log_sums = total.log() - worst
    divisors = worst.exp_().add_(total)  # which make shares of the terms
    if slope is not None:
        if isinstance(scale, Tensor):
            terms.mul_(scale.unsqueeze(1))
        factor, zero = _factor_of(scale), _side_constants(scores.device, dtype).offsets[0]
        below = torch.addcdiv(zero, terms[1], divisors[1], value=factor)
        torch.addcdiv(below, terms[0], divisors[0], value=-factor, out=slope)
    return F.softplus(log_sums, threshold=LINEAR_FROM)


def _terms(scores: Tensor, targets: Tensor, weighting: Weighting) -> tuple[Tensor, Tensor]:
    """Of both sides, in dimension 0: the worst margin, (2, B, 1), and `c_l e^(worst - margin_l)`.

    A cell's margin on a side is by how much it is right there: the score on the positive side, the
    negated score on the negative one, and the largest number where it does not count, so that not
    even a NaN there reaches the gradient.
    """
    constants = _side_constants(scores.device, scores.dtype)
    margins, counted = scores * constants.signs, weighting.label_mask
    is_hard = targets.dtype is torch.bool and weighting.is_moderate
    if is_hard:
        chosen = targets != constants.offsets
        counted = chosen if counted is None else chosen & counted
    if counted is not None:
        margins = torch.where(counted, margins, constants.largest)
    if is_hard:  # the weights do not decide which term is the largest to count
        worst = margins.amin(dim=-1, keepdim=True)
        return worst, _weigh_(torch.sub(worst, margins, out=margins).exp_(), weighting)
    # Whole numbers become the scores' dtype on the way; other floating-point ones would decide it.
    truth = targets.to(scores.dtype) if targets.is_floating_point() else targets
    logs = _coefficients(truth, constants, weighting).log_()
    worst = (margins - logs).amin(dim=-1, keepdim=True).clamp_(max=0.0)
    # The logarithms are added after the shift, since beside a large score they would be lost.
    return worst, torch.sub(worst, margins, out=margins).add_(logs).exp_()


def _factor_of(scale: Tensor | float | None) -> float:
    """The part of a gradient's scale that is the same for all rows."""
    return scale if isinstance(scale, float) else 1.0


def _coefficients(truth: Tensor, constants: "SideConstants", weighting: Weighting) -> Tensor:
    """The weighted coefficients of both sides, shape (2, B, L), in fresh memory."""
    return _weigh_(torch.addcmul(constants.offsets, truth, constants.signs), weighting)


def _weigh_(sides: Tensor, weighting: Weighting) -> Tensor:
    """Multiply both sides, shape (2, B, L), by their weights."""
    if weighting.label_weight is not None:
        sides.mul_(weighting.label_weight)
    if weighting.pos_weight is not None:
        sides[0].mul_(weighting.pos_weight)
    return sides


class SideConstants(NamedTuple):
    """Numbers for the positive and the negative side, shape (2, 1, 1), and for both, shape ().

    Attributes:
        offsets: 0 and 1; the coefficient of a side is `offset + sign * target`.
        signs: 1 and -1, of the margins.
        largest: The largest finite margin, whose exponential no sum feels.
    """

    offsets: Tensor
    signs: Tensor
    largest: Tensor


@lru_cache(maxsize=64)
def _number(value: float, dtype: torch.dtype) -> Tensor:
    """A number as a tensor, which takes part in an operation sooner than a Python number does."""
    return torch.tensor(value, dtype=dtype, device="cpu")


@cache
def _side_constants(device: torch.device, dtype: torch.dtype) -> SideConstants:
    """Made once, since on a device each would be an operation."""
    offsets = torch.tensor([0.0, 1.0], dtype=dtype, device=device).view(2, 1, 1)
    largest = torch.tensor(torch.finfo(dtype).max, dtype=dtype, device=device)
    return SideConstants(offsets, 1 - 2 * offsets, largest)


def _blocks(shape: torch.Size) -> Iterator[slice]:
    """Rows that fit a cache, one at least."""
    num_rows, num_labels = shape
    step = max(BLOCK // num_labels, 1)
    for row in range(0, num_rows, step):
        yield slice(row, min(row + step, num_rows))


def _is_on_cpu(tensor: Tensor) -> bool:
    """Whether to look at a number costs little, and to start an operation, too."""
    return tensor.is_cpu


def _is_plain(scores: Tensor, targets: Tensor, weighting: Weighting) -> bool:
    """Whether the tensors hold numbers, not a tracer's marks, and only scores want a gradient."""
    if torch.compiler.is_compiling() or scores.numel() == 0:
        return False
    if not (scores.is_cpu or scores.is_cuda) or not _has_numbers(scores):
        return False
    for tensor in (targets, *weighting.tensors()):
        if tensor.requires_grad or not _has_numbers(tensor):
            return False
    return True


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

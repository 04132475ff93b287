"""ZLPR's two sides and their gradient as Triton kernels: one forward, one backward.

Taken where `ZLPR_TRITON=1` asks for them. The kernels are tested with Triton's interpreter on CPU;
they have not been measured on hardware.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from zlpr.losses._arguments import Weighting
from zlpr.losses._zlpr_and_gradient import LINEAR_FROM

LABELS = 1024  # of a row, at once


@triton.jit  # type: ignore[untyped-decorator]
def _cells(  # type: ignore[no-untyped-def]
    scores, targets, mask, label_weight, pos_weight, row, columns, num_labels,
    target_stride, mask_row, mask_column, label_row, label_column, pos_row, pos_column,
    HAS_MASK: tl.constexpr, HAS_LABEL_WEIGHT: tl.constexpr, HAS_POS_WEIGHT: tl.constexpr,
):  # fmt: skip
    """Scores without infinities, and the coefficients of both sides; 0 beyond the last label."""
    inside = columns < num_labels
    row = row.to(tl.int64)
    score = tl.load(scores + row * num_labels + columns, mask=inside, other=0.0).to(tl.float32)
    score = tl.where(score == float("inf"), 3.4028234663852886e38, score)
    score = tl.where(score == float("-inf"), -3.4028234663852886e38, score)
    truth = tl.load(targets + row * target_stride + columns, mask=inside, other=0).to(tl.float32)
    positive, negative = truth, 1.0 - truth
    if HAS_LABEL_WEIGHT:
        weight = tl.load(
            label_weight + row * label_row + columns * label_column, mask=inside, other=0.0
        )
        positive, negative = positive * weight, negative * weight
    if HAS_POS_WEIGHT:
        positive *= tl.load(
            pos_weight + row * pos_row + columns * pos_column, mask=inside, other=0.0
        )
    if HAS_MASK:
        inside &= tl.load(mask + row * mask_row + columns * mask_column, mask=inside, other=0) != 0
    return score, tl.where(inside, positive, 0.0), tl.where(inside, negative, 0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _forward(  # type: ignore[no-untyped-def]
    scores, targets, mask, label_weight, pos_weight, shifts, totals, num_rows, num_labels,
    target_stride, mask_row, mask_column, label_row, label_column, pos_row, pos_column,
    HAS_MASK: tl.constexpr, HAS_LABEL_WEIGHT: tl.constexpr, HAS_POS_WEIGHT: tl.constexpr,
    LABELS: tl.constexpr,
):  # fmt: skip
    """Of one row: both sides' largest exponent, or 0, and their sums relative to it."""
    row = tl.program_id(0)
    shift_above, shift_below = 0.0, 0.0
    above, below = 0.0, 0.0
    for start in range(0, num_labels, LABELS):
        score, positive, negative = _cells(
            scores, targets, mask, label_weight, pos_weight,
            row, start + tl.arange(0, LABELS), num_labels,
            target_stride, mask_row, mask_column, label_row, label_column, pos_row, pos_column,
            HAS_MASK, HAS_LABEL_WEIGHT, HAS_POS_WEIGHT,
        )  # fmt: skip
        exponents = tl.where(positive > 0, -score, float("-inf"))
        larger = tl.maximum(shift_above, tl.max(exponents + tl.log(positive), axis=0))
        above = above * tl.exp(shift_above - larger)
        above += tl.sum(tl.exp(exponents - larger) * positive, axis=0)
        shift_above = larger
        exponents = tl.where(negative > 0, score, float("-inf"))
        larger = tl.maximum(shift_below, tl.max(exponents + tl.log(negative), axis=0))
        below = below * tl.exp(shift_below - larger)
        below += tl.sum(tl.exp(exponents - larger) * negative, axis=0)
        shift_below = larger
    tl.store(shifts + row, shift_above)
    tl.store(shifts + num_rows + row, shift_below)
    tl.store(totals + row, above)
    tl.store(totals + num_rows + row, below)


@triton.jit  # type: ignore[untyped-decorator]
def _backward(  # type: ignore[no-untyped-def]
    scores, targets, mask, label_weight, pos_weight, shifts, totals, scales, slope,
    num_rows, num_labels,
    target_stride, mask_row, mask_column, label_row, label_column, pos_row, pos_column,
    HAS_MASK: tl.constexpr, HAS_LABEL_WEIGHT: tl.constexpr, HAS_POS_WEIGHT: tl.constexpr,
    LABELS: tl.constexpr,
):  # fmt: skip
    """The gradient of a part of a row."""
    row = tl.program_id(0)
    columns = tl.program_id(1) * LABELS + tl.arange(0, LABELS)
    score, positive, negative = _cells(
        scores, targets, mask, label_weight, pos_weight, row, columns, num_labels,
        target_stride, mask_row, mask_column, label_row, label_column, pos_row, pos_column,
        HAS_MASK, HAS_LABEL_WEIGHT, HAS_POS_WEIGHT,
    )  # fmt: skip
    shift_above, shift_below = tl.load(shifts + row), tl.load(shifts + num_rows + row)
    above = tl.load(totals + row) + tl.exp(-shift_above)
    below = tl.load(totals + num_rows + row) + tl.exp(-shift_below)
    exponents = tl.where(positive > 0, -score - shift_above, float("-inf"))
    gradient = -tl.exp(exponents) * positive / above
    exponents = tl.where(negative > 0, score - shift_below, float("-inf"))
    gradient += tl.exp(exponents) * negative / below
    gradient *= tl.load(scales + row)
    tl.store(slope + row.to(tl.int64) * num_labels + columns, gradient, mask=columns < num_labels)


def triton_sides(
    scores: Tensor,
    targets: Tensor,
    weighting: Weighting,
    scale: Tensor | float | None,
    slope: Tensor | None,
) -> Tensor:
    """As `shifted_sides`, for contiguous scores whose sums are taken in float32."""
    num_rows, num_labels = scores.shape
    parts = (weighting.label_mask, weighting.label_weight, weighting.pos_weight)
    given = [_of_cells(part, scores) for part in parts]
    targets = targets.view(torch.uint8) if targets.dtype is torch.bool else targets
    if targets.stride(1) != 1:
        targets = targets.contiguous()
    strides = [step for part in given for step in (part.stride() if part is not None else (0, 0))]
    shifts = torch.empty((2, num_rows), dtype=torch.float32, device=scores.device)
    totals = torch.empty_like(shifts)
    constants = {
        "HAS_MASK": given[0] is not None,
        "HAS_LABEL_WEIGHT": given[1] is not None,
        "HAS_POS_WEIGHT": given[2] is not None,
        "LABELS": min(LABELS, triton.next_power_of_2(num_labels)),
    }
    _forward[(num_rows,)](
        scores, targets, *given, shifts, totals, num_rows, num_labels,
        targets.stride(0), *strides, **constants,
    )  # fmt: skip
    if slope is not None:
        scales = torch.as_tensor(scale, dtype=torch.float32, device=scores.device)
        _backward[(num_rows, triton.cdiv(num_labels, constants["LABELS"]))](
            scores, targets, *given, shifts, totals, scales.expand(num_rows).contiguous(), slope,
            num_rows, num_labels, targets.stride(0), *strides, **constants,
        )  # fmt: skip
    return F.softplus(totals.log_().add_(shifts), threshold=LINEAR_FROM).unsqueeze(2)


def _of_cells(part: Tensor | float | None, scores: Tensor) -> Tensor | None:
    """A mask or weight with a stride for each dimension of the scores, without a copy."""
    if part is None:
        return None
    if isinstance(part, Tensor) and part.dtype is torch.bool:
        return part.view(torch.uint8).expand(scores.shape)
    return torch.as_tensor(part, dtype=torch.float32, device=scores.device).expand(scores.shape)

"""Logarithms of sums of exponentials that are exact wherever their value is.

No masks by large constants, no epsilons: what does not belong to a sum has the coefficient 0.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from zlpr.losses._arguments import may_have_slope
from zlpr.losses._cells import with_finite_gradient
from zlpr.losses._reduce import ONE_PROCESS, BatchReduction

LOG2_E = 1 / math.log(2)


def exponentiate(values: Tensor, shift: Tensor) -> Tensor:
    """`e^(values - shift)` in place, values (B, L), shift (B,).

    By way of `exp2`, which is up to three times as fast as `exp`.
    """
    return values.sub_(shift.unsqueeze(1)).mul_(LOG2_E).exp2_()


def _exp(values: Tensor, temperature: float = 1.0) -> Tensor:
    """`e^(x / T)` by `exp2`, which takes no longer where it is 0: `exp` takes 20 times as long."""
    return (values * (LOG2_E / temperature)).exp2()


def softplus(values: Tensor, scale: float = 1.0) -> Tensor:
    """`log(1 + e^(c x)) / c`.

    From the threshold on torch gives x itself, at its usual 20 off by 2e-9: of no account in
    float32 only. Its gradient has `e^(c x)` in it, so that a threshold is not to be too high.
    """
    return F.softplus(values, scale, 40.0 if values.dtype is torch.float64 else 20.0)


class ShiftedTerms(NamedTuple):
    """Terms `c_l e^(v_l / T)` as `e^(v / T + log c) t_l`, with v and c of the largest.

    Attributes:
        value: v, shape (..., 1), without a gradient. Where nothing counts it is a large negative
            number, or the largest of all values where coefficients have slopes, seen from there.
        log: log c, shape (..., 1), or 0.
        terms: t, shape (..., L), at most 1.
        empty: Where nothing counts, shape (..., 1); None where coefficients have no slopes.
    """

    value: Tensor
    log: Tensor | float
    terms: Tensor
    empty: Tensor | None = None


def shifted_terms(values: Tensor, coefficients: Tensor, temperature: float = 1.0) -> ShiftedTerms:
    """Terms that can be added up, whatever their size.

    Args:
        values: Shape (..., L), finite.
        coefficients: Shape (..., L): boolean, or not negative; 0 leaves a value out.
        temperature: T, above 0.
    """
    if values.shape[-1] == 0:  # a maximum needs something to look at
        values, coefficients = F.pad(values, (0, 1)), F.pad(coefficients, (0, 1))
    if coefficients.dtype is torch.bool:
        # 0 off what counts, infinity off the rest; a choice by a mask branches at every cell.
        counted = values - coefficients.to(values.dtype).reciprocal_().sub_(1)
        lowest = torch.finfo(values.dtype).min
        shift = counted.detach().amax(dim=-1, keepdim=True).clamp(min=lowest)
        return ShiftedTerms(shift, 0.0, _exp(counted - shift, temperature))
    return _weighted_terms(values, coefficients, temperature)


def _weighted_terms(values: Tensor, coefficients: Tensor, temperature: float) -> ShiftedTerms:
    """The same for coefficients that are numbers, into which a gradient may flow.

    Differences of values and differences of logarithms of coefficients are taken apart: added to a
    large value, a logarithm would be lost.
    """
    is_out = coefficients == 0
    empty = is_out.all(dim=-1, keepdim=True)
    safe = torch.where(is_out, 1.0, coefficients).detach()
    logs = safe.log()
    visible = torch.where(is_out & ~empty, -torch.inf, values.detach())
    # Seen from the largest value, beside which a logarithm may be lost.
    behind = (visible - visible.amax(dim=-1, keepdim=True)) / temperature + logs
    top = behind.argmax(dim=-1, keepdim=True)
    largest, log = values.detach().gather(-1, top), logs.gather(-1, top)
    exponents = (values - largest) / temperature + (logs - log)
    # No more than 0 where the coefficient is not 0.
    exponentials = _exp(exponents.clamp(max=80.0))
    if not may_have_slope(coefficients):
        lowest = torch.finfo(values.dtype).min
        terms = exponentials * (coefficients / safe)
        return ShiftedTerms(torch.where(empty, lowest, largest), log, terms)
    # What has the coefficient 0 may have a slope that is infinite, and is to pass none on.
    terms = exponentials * (with_finite_gradient(coefficients) / safe)
    return ShiftedTerms(largest, log, with_finite_gradient(terms), empty)


def logsumexp(values: Tensor, coefficients: Tensor) -> Tensor:
    """`log sum_l c_l e^v_l` over the labels; -inf, with a gradient of 0, where all c are 0."""
    value, log, terms, _ = shifted_terms(values, coefficients)
    total = terms.sum(dim=-1)
    empty = total == 0
    shift = (value + log).squeeze(-1)
    return torch.where(empty, -torch.inf, shift + torch.where(empty, 1.0, total).log())


def log_of_product(
    values: tuple[Tensor, Tensor], coefficients: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor | None]:
    """`log (sum_l a_l e^v_l sum_l b_l e^w_l)`, with the values v, w and the coefficients a, b.

    The largest of v and of w are added first: where they are scores of opposite sign only their
    difference counts, and it loses no digits by what both have in common.

    Returns:
        The logarithm, below `no_logarithm` and without a gradient where one of the sums is empty;
        and the product there, which is 0 and has slopes in the coefficients, up to e^80, and 0
        elsewhere; None where coefficients have no slopes.
    """
    if coefficients[0].dtype is not coefficients[1].dtype:
        coefficients = (coefficients[0].to(values[0].dtype), coefficients[1].to(values[0].dtype))
    # Both at once takes half of the operations.
    value, log, terms, empty = shifted_terms(torch.stack(values), torch.stack(coefficients))
    sums = terms.sum(dim=-1)
    # A sum is at least 1, but for a rounding, where it is not empty.
    logs = sums.clamp(min=0.5).log().sum(dim=0)
    shift = value.sum(dim=0) if isinstance(log, float) else value.sum(dim=0) + log.sum(dim=0)
    if empty is None:
        return shift.squeeze(-1) + logs, None
    is_nothing, shift = empty.any(dim=0).squeeze(-1), shift.squeeze(-1)
    product = shift.clamp(max=80.0).exp() * sums[0] * sums[1]
    log_product = torch.where(is_nothing, -torch.inf, shift + logs)
    return log_product, torch.where(is_nothing, product, 0.0)


def no_logarithm(dtype: torch.dtype) -> float:
    """What the logarithm of no sum is below, and any other, of scores within limits, above."""
    return 0.25 * torch.finfo(dtype).min


def join_terms(terms: ShiftedTerms, temperature: float, batch: BatchReduction) -> ShiftedTerms:
    """The terms of all processes, those of each as one, shape (..., 1)."""
    value, log, each, empty = terms
    total = each.sum(dim=-1, keepdim=True)
    if batch is ONE_PROCESS:
        return ShiftedTerms(value, log, total, empty)
    lowest = torch.finfo(value.dtype).min
    # Of what counts anywhere, or else of all.
    counted = value if empty is None else torch.where(empty, lowest, value)
    largest, of_all = batch.max(torch.stack((counted, value)))
    largest = torch.where(largest == lowest, of_all, largest)
    factor = ((value - largest) / temperature + log).clamp(max=80.0).exp()
    joined = batch.sum(factor * total)
    return ShiftedTerms(largest, 0.0, joined, None if empty is None else joined == 0)


def logsumexp1(values: Tensor, coefficients: Tensor, offset: Tensor | float = 0.0) -> Tensor:
    """`log(1 + sum_l c_l e^(v_l + o))` over the labels; 0 where all c are 0.

    The offset, of shape (..., 1), is not added to the values, the differences of which it would
    cost digits.
    """
    value, log, terms, empty = shifted_terms(values, coefficients)
    peak = (value + (log + offset)).squeeze(-1)
    # 1 + e^m S as e^m (1 + x) for m > 0, and as 1 + x else: x keeps every digit of a small sum.
    shift = peak.clamp(min=0.0)
    if empty is not None:  # slopes of an empty sum, up to e^80
        shift = torch.where(empty.squeeze(-1), 0.0, shift)
    total = (peak - shift).clamp(max=80.0).exp() * terms.sum(dim=-1)
    return shift + torch.log1p(total + torch.expm1(-shift))


def softmax_shortfall(values: Tensor, counted: Tensor) -> Tensor:
    """`log sum_k e^v_k - v_l` over those that count; exact where it is near 0. Shape (..., L).

    The largest value is left out of the sum, `m + log(1 + sum_{k != top} e^(v_k - m))`, so that
    the 1 does not hide the others.

    Args:
        values: Shape (..., L).
        counted: Shape (..., L), boolean; what does not count has a shortfall of 0.
    """
    if values.shape[-1] == 0:
        return values
    visible = torch.where(counted, values, -torch.inf)
    top = visible.detach().argmax(dim=-1, keepdim=True)
    is_top = torch.zeros_like(counted).scatter(-1, top, True)
    largest = torch.where(counted.any(dim=-1, keepdim=True), values.gather(-1, top), 0.0)
    rest = torch.where(is_top, 0.0, _exp(visible - largest)).sum(dim=-1, keepdim=True)
    behind = torch.where(counted & ~is_top, largest - values, 0.0)
    return torch.where(counted, behind + torch.log1p(rest), 0.0)

"""Logarithms of sums of exponentials that are exact wherever their value is.

No masks by large constants, no epsilons: what does not belong to a sum has the coefficient 0.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from zlpr.losses._cells import held
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
        value: v, shape (..., 1), without a gradient; a large negative number where nothing counts.
        log: log c, shape (..., 1), or 0.
        terms: t, shape (..., L), at most 1.
    """

    value: Tensor
    log: Tensor | float
    terms: Tensor


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
    lowest = torch.finfo(values.dtype).min
    is_out = coefficients == 0
    safe = torch.where(is_out, 1.0, coefficients).detach()
    logs = safe.log()
    # Seen from the largest value, beside which a logarithm may be lost.
    highest = torch.where(is_out, -torch.inf, values.detach()).amax(dim=-1, keepdim=True)
    behind = (values.detach() - highest.clamp(min=lowest)) / temperature + logs
    top = torch.where(is_out, -torch.inf, behind).argmax(dim=-1, keepdim=True)
    largest, log = values.detach().gather(-1, top), logs.gather(-1, top)
    exponents = (values - largest) / temperature + (logs - log)
    # No more than 0 where the coefficient is not 0.
    terms = _exp(exponents.clamp(max=80.0)) * (coefficients / safe)
    empty = is_out.all(dim=-1, keepdim=True)
    return ShiftedTerms(torch.where(empty, lowest, largest), log, terms)


def logsumexp(values: Tensor, coefficients: Tensor) -> Tensor:
    """`log sum_l c_l e^v_l` over the labels; -inf, with a gradient of 0, where all c are 0."""
    value, log, terms = shifted_terms(values, coefficients)
    total = terms.sum(dim=-1)
    empty = total == 0
    shift = (value + log).squeeze(-1)
    return torch.where(empty, -torch.inf, shift + torch.where(empty, 1.0, total).log())


def log_of_product(one: ShiftedTerms, two: ShiftedTerms) -> Tensor:
    """The logarithm of the product of two sums of terms; -inf where one is empty.

    The values are added first: of the largest negative and the lowest positive score only the
    difference counts, and it loses no digits by what both have in common.
    """
    total = one.terms.sum(dim=-1) * two.terms.sum(dim=-1)
    empty = total == 0
    shift = ((one.value + two.value) + (one.log + two.log)).squeeze(-1)
    return torch.where(empty, -torch.inf, shift + torch.where(empty, 1.0, total).log())


def join_terms(terms: ShiftedTerms, temperature: float, batch: BatchReduction) -> ShiftedTerms:
    """The terms of all processes, those of each as one, shape (..., 1)."""
    value, log, each = terms
    total = each.sum(dim=-1, keepdim=True)
    if batch is ONE_PROCESS:
        return ShiftedTerms(value, log, total)
    largest = batch.max(value)
    factor = ((value - largest) / temperature + log).exp()
    return ShiftedTerms(largest, 0.0, batch.sum(factor * total))


def logsumexp1(values: Tensor, coefficients: Tensor, offset: Tensor | float = 0.0) -> Tensor:
    """`log(1 + sum_l c_l e^(v_l + o))` over the labels; 0 where all c are 0.

    The offset, of shape (..., 1), is not added to the values, the differences of which it would
    cost digits.
    """
    value, log, terms = shifted_terms(_finite(values), coefficients)
    shift, _, total = _shifted_sum(ShiftedTerms(value, log + offset, terms))
    return shift + torch.log1p(excess(shift, total))


def softmax1(values: Tensor, coefficients: Tensor) -> Tensor:
    """`c_l e^v_l / (1 + sum_k c_k e^v_k)`, the gradient of `logsumexp1` in the values.

    It is not taken as the exponential of a difference of logarithms, in which large values would
    lose the digits that tell them apart.
    """
    terms = shifted_terms(_finite(values), coefficients)
    shift, factor, total = _shifted_sum(terms)
    share = factor * terms.terms / (1 + excess(shift, total)).unsqueeze(-1)
    return share[..., : values.shape[-1]]


def _finite(values: Tensor) -> Tensor:
    """The values, infinite ones as the largest number, so that they have differences."""
    largest = torch.finfo(values.dtype).max
    return held(values, -largest, largest)


def _shifted_sum(terms: ShiftedTerms) -> tuple[Tensor, Tensor, Tensor]:
    """A shift `m >= 0`, a factor of the terms, and their sum `S`, such that it all is `e^m S`."""
    shift = terms.value + terms.log
    factor = shift.clamp(max=0.0).exp()
    return shift.clamp(min=0.0).squeeze(-1), factor, (factor * terms.terms).sum(dim=-1)


def excess(shift: Tensor, total: Tensor) -> Tensor:
    """The x in `log(1 + e^m S) = m + log(1 + x)`, from a shift `m >= 0` and the sum `S`.

    `1 + x = e^-m + S`; without the 1, x keeps every digit of a small sum (where `m = 0`).
    """
    return total + torch.expm1(-shift)


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

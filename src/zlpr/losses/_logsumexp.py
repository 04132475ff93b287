"""Logarithms of sums of exponentials that are exact wherever their value is.

No masks by large constants, no epsilons: what does not belong to a sum has the coefficient 0.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from zlpr.losses._reduce import ONE_PROCESS, BatchReduction


def softplus(values: Tensor) -> Tensor:
    """`log(1 + e^x)`; `F.softplus` is off by 2e-9 beyond its threshold of 20."""
    return -F.logsigmoid(-values)


def shifted_sum(
    values: Tensor,
    coefficients: Tensor,
    *,
    minimum: float,
    batch: BatchReduction = ONE_PROCESS,
) -> tuple[Tensor, Tensor]:
    """`m` and `S` such that `sum_l c_l e^v_l = e^m S`, with `m` the largest value that counts.

    Args:
        values: Shape (..., L).
        coefficients: Shape (..., L), not negative; 0 leaves a value out, even an infinite one.
        minimum: A lower limit of `m`.
        batch: What joins the processes where the sum runs over the batch.

    Returns:
        `m` without a gradient and `S`, each of shape (...); `S` is 0 where all coefficients are.
    """
    largest = torch.finfo(values.dtype).max
    values = values.clamp(max=largest)  # so that no difference of infinities may arise
    counted = torch.where(coefficients == 0, -torch.inf, values.detach())
    if counted.shape[-1] == 0:  # amax needs something to look at
        counted = counted.new_full((*counted.shape[:-1], 1), -torch.inf)
    maximum = batch.max(counted.amax(dim=-1)).clamp(min=max(minimum, -largest))
    terms = (values - maximum.unsqueeze(-1)).clamp(max=0.0).exp() * coefficients
    return maximum, batch.sum(terms.sum(dim=-1))


def logsumexp(values: Tensor, coefficients: Tensor, batch: BatchReduction = ONE_PROCESS) -> Tensor:
    """`log sum_l c_l e^v_l` over the labels; -inf, with a gradient of 0, where all c are 0."""
    shift, total = shifted_sum(values, coefficients, minimum=-torch.inf, batch=batch)
    empty = total == 0
    return torch.where(empty, -torch.inf, shift + torch.where(empty, 1.0, total).log())


def logsumexp1(values: Tensor, coefficients: Tensor) -> Tensor:
    """`log(1 + sum_l c_l e^v_l)` over the labels; 0 where all c are 0."""
    return logsumexp1_of(*shifted_sum(values, coefficients, minimum=0.0))


def logsumexp1_of(shift: Tensor, total: Tensor) -> Tensor:
    """`log(1 + e^m S)` from a shift `m >= 0` and the sum `S`, in which the largest term is c e^0.

    It is `m + log(e^-m + S) = m + log1p(S + expm1(-m))`, which keeps every digit of a small sum
    (`m = 0`) and never overflows.
    """
    return shift + torch.log1p(total + torch.expm1(-shift))

"""From one value per sample to the loss, and sums over a batch that may span processes."""

from typing import Literal, Protocol, get_args

import torch
from torch import Tensor

from zlpr.losses._arguments import may_have_slope, working_dtype

Reduction = Literal["mean", "sum", "none"]
_REDUCTIONS = get_args(Reduction)


class BatchReduction(Protocol):
    """How a loss over the batch joins what each process saw.

    A loss over the batch is a function of sums (and, for log-sum-exps, maxima) over the batch's
    samples. Give such a loss an object of this kind to make it span processes: each process then
    computes the same value, and `sum` carries the gradient back to each.
    """

    def sum(self, values: Tensor) -> Tensor:
        """The sum of `values` over the processes, differentiable."""
        ...

    def max(self, values: Tensor) -> Tensor:
        """The elementwise maximum of `values` over the processes; no gradient is needed."""
        ...


class OneProcess:
    """The batch is what this process has."""

    def sum(self, values: Tensor) -> Tensor:
        """The values."""
        return values

    def max(self, values: Tensor) -> Tensor:
        """The values."""
        return values


ONE_PROCESS = OneProcess()


def check_reduction(reduction: str) -> None:
    """A reduction is one of three words."""
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")


def check_sample_weight(scores: Tensor, sample_weight: Tensor | None) -> Tensor | None:
    """A sample weight is one number per sample."""
    if sample_weight is None:
        return None
    if not isinstance(sample_weight, Tensor):
        raise TypeError(f"sample_weight must be a tensor, got {type(sample_weight).__name__}")
    if sample_weight.shape != scores.shape[:-1]:
        raise ValueError(
            f"sample_weight must have the shape {tuple(scores.shape[:-1])}, one weight per sample, "
            f"got {tuple(sample_weight.shape)}"
        )
    return sample_weight.to(working_dtype(scores))


def reduce(values: Tensor, sample_weight: Tensor | None, reduction: Reduction) -> Tensor:
    """Weigh and reduce one value per sample.

    Args:
        values: Shape (...), the losses of the samples.
        sample_weight: Shape (...), multiplies the samples' losses. A weight of 0 takes a sample
            out, be its loss infinite; the slope in the weight is the loss, 0 for such a one.
        reduction: "none", "sum", or "mean": the sum over the number of samples, weighted or not,
            as `torch.nn.BCEWithLogitsLoss` does; 0 for a batch without samples.
    """
    check_reduction(reduction)
    shape_of_scores = values if sample_weight is None else values.unsqueeze(-1)
    weight = check_sample_weight(shape_of_scores, sample_weight)
    if weight is not None:
        is_out = weight == 0
        if may_have_slope(weight):  # which is the value, where that is a number
            is_out = is_out & ~values.detach().isfinite()
        values = torch.where(is_out, 0.0, values) * weight
    if reduction == "none":
        return values
    if reduction == "mean":
        values = values / max(values.numel(), 1)  # before the sum, which could overflow
    return torch.sum(values)

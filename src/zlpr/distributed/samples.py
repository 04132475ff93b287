"""Samples that each process has for itself: brought together, or summed over by a batch loss."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from zlpr.distributed._slices import Group, exchange, process_group


def gather_samples(values: Tensor, group: Group | None = None) -> Tensor:
    """The values of all processes' samples, in the order of the processes, on every process.

    Gradients flow back: each process gets the sum, over all processes, of the gradients by its own
    samples. Where all compute the same loss from the gathered values, as with
    `ShardedLinearZLPRLoss`, that sum is the number of processes times the gradient, which the mean
    that `DistributedDataParallel` takes over the encoders' gradients undoes.

    Args:
        values: Shape (b, ...), the same on every process; pad indices with -1 to one width.
        group: A process group, a `DeviceMesh` of one dimension, or None for all processes.

    Returns:
        Shape (n b, ...) for n processes.

    Raises:
        ProcessLostError: Another process died or did not answer within the group's time-out.

    Examples:
        >>> features = gather_samples(encoder(batch))  # doctest: +SKIP
        >>> loss = head(features, gather_samples(indices))  # doctest: +SKIP
    """
    gathered: Tensor = _Gathered.apply(  # type: ignore[no-untyped-call]
        values.contiguous(), process_group(group)
    )
    return gathered


class BatchOverProcesses:
    """Makes a loss over the batch span the processes of a group: a `zlpr.losses.BatchReduction`.

    Dice 2, sigmoid F1 and the two-way loss are functions of sums over the batch. Given this as
    `batch`, each process passes its own samples and gets the loss of all. Gradients are the sum
    over the processes, as with `gather_samples`: the number of processes times the gradient, which
    the mean that `DistributedDataParallel` takes undoes.

    Args:
        group: A process group, a `DeviceMesh` of one dimension, or None for all processes.

    Examples:
        >>> loss = Dice2Loss(batch=BatchOverProcesses())  # doctest: +SKIP
    """

    def __init__(self, group: Group | None = None) -> None:
        self.group = process_group(group)

    def sum(self, values: Tensor) -> Tensor:
        """The sum of `values` over the processes, differentiable."""
        total: Tensor = _Summed.apply(values, self.group)  # type: ignore[no-untyped-call]
        return total

    def max(self, values: Tensor) -> Tensor:
        """The elementwise maximum of `values` over the processes, without a gradient."""
        return _reduced(values.detach(), dist.ReduceOp.MAX, self.group)


class _Summed(torch.autograd.Function):
    """The sum over the processes, of values and of gradients alike."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, group: dist.ProcessGroup) -> Tensor:
        """Values of any shape."""
        ctx.group = group
        return _reduced(values, dist.ReduceOp.SUM, group)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        """The sum of the processes' gradients."""
        return _reduced(upstream, dist.ReduceOp.SUM, ctx.group), None


def _reduced(
    values: Tensor, operation: dist.ReduceOp.RedOpType, group: dist.ProcessGroup
) -> Tensor:
    result = values.clone(memory_format=torch.contiguous_format)
    with exchange(group):
        dist.all_reduce(result, operation, group=group)
    return result


class _Gathered(torch.autograd.Function):
    """Concatenation over the processes."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, group: dist.ProcessGroup) -> Tensor:
        """Values (b, ...) give (n b, ...)."""
        ctx.group = group
        parts = [torch.empty_like(values) for _ in range(group.size())]
        with exchange(group):
            dist.all_gather(parts, values, group=group)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        """The part of the processes' summed gradients that belongs to this process's samples."""
        total = upstream.clone(memory_format=torch.contiguous_format)
        with exchange(ctx.group):
            dist.all_reduce(total, group=ctx.group)
        return total.chunk(ctx.group.size())[ctx.group.rank()], None

"""Samples that each process has encoded for itself, brought together for a head of all labels."""

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

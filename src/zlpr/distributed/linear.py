"""A linear head whose labels are spread over processes, with ZLPR on top."""

import math

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from zlpr.distributed._slices import Group, SharedTally, Slice, slice_of
from zlpr.losses._arguments import Weight, Weighting, check_indices
from zlpr.losses._label_sweep import Positives, ZLPRTally
from zlpr.losses._linear_head import LinearHead, swept_losses
from zlpr.losses._reduce import Reduction, reduce


def sharded_linear_zlpr_loss(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    indices: Tensor,
    *,
    first_label: int | None = None,
    group: Group | None = None,
    threshold: Weight = 0.0,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""ZLPR of a linear layer of which each process holds the rows of some labels.

    $$\ell(x, P) = \log\Big(1 + \sum_{i \in P} e^{-s_i}\Big)
                 + \log\Big(1 + \sum_{j \notin P} e^{s_j}\Big), \qquad s = W x + b$$

    `linear_zlpr_loss` sweeps each slice, `sharded_zlpr_loss` joins the slices: no process ever
    holds its slice of the scores. The features are the same on every process; their gradient is
    summed over the group in the backward pass, so every process gets all of it.

    Args:
        features: Inputs of the layer, shape (..., F), the same on every process.
        weight: This process's rows, shape (l, F), or a `DTensor` of shape (L, F), `Shard(0)`.
        bias: This process's part, shape (l,), or a `DTensor` cut like the weight, or None.
        indices: Positive labels, counted over all slices, padded with -1, shape (..., K); the
            same on every process.
        first_label: Index of the slice's first label. A `DTensor` knows it.
        group: The processes that hold the slices: a process group, a `DeviceMesh` of one
            dimension, or None for all. A `DTensor` knows it.
        threshold: As in `linear_zlpr_loss`; per label it is the slice's, shape (l,). For one sample
            in one dimension it is per label, or a number.
        label_mask: As in `linear_zlpr_loss`, for the slice: shape (l,) or (..., l).
        label_weight: As in `linear_zlpr_loss`, for the slice.
        pos_weight: As in `linear_zlpr_loss`, for the slice.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none": a plain tensor, the same on every process.

    Raises:
        ProcessLostError: Another process died or did not answer within the group's time-out.

    Examples:
        Under `torchrun`, with 10 labels on each process:

        >>> head = torch.nn.Linear(8, 10)
        >>> first = 10 * torch.distributed.get_rank()  # doctest: +SKIP
        >>> sharded_linear_zlpr_loss(
        ...     features, head.weight, head.bias, indices, first_label=first
        ... )  # doctest: +SKIP
    """
    part = Slice.of(weight, 0, first_label, group)
    head = LinearHead(
        _same_on_all(features, part.group), part.local, None if bias is None else _local(bias)
    )
    check_indices(indices, head.cells, num_labels=None)
    weighting = Weighting.check(head.cells, label_mask, label_weight, pos_weight)
    positives = Positives.from_indices(indices, part.first_label, head.weight.shape[0])
    group_of_labels = SharedTally(indices, positives, part.group)
    losses = swept_losses(
        head, positives, weighting, ZLPRTally, threshold=threshold, group=group_of_labels
    )
    return reduce(losses, sample_weight, reduction)


class ShardedLinearZLPRLoss(nn.Module):
    """A linear layer over all labels, spread over a mesh of processes, with ZLPR on top.

    Weight and bias are `DTensor` parameters, `Shard(0)`: optimisers, gradient clipping and
    `torch.distributed.checkpoint` treat them as one weight over all labels, also when a
    checkpoint is read by another number of processes. Each process draws and holds its rows only.

    Args:
        in_features: Width of the features.
        num_labels: Number of labels over all processes.
        bias: Whether the layer has a bias.
        mesh: The processes, a `DeviceMesh` of one dimension.
        threshold: Score at which a label is predicted, a number.
        reduction: "mean", "sum" or "none".
        dtype: Data type of the parameters.

    Examples:
        Under `torchrun`:

        >>> mesh = torch.distributed.init_device_mesh("cuda", (8,))  # doctest: +SKIP
        >>> head = ShardedLinearZLPRLoss(768, 1_000_000, mesh=mesh)  # doctest: +SKIP
        >>> loss = head(encoder(batch), indices)  # doctest: +SKIP
    """

    def __init__(
        self,
        in_features: int,
        num_labels: int,
        bias: bool = True,
        *,
        mesh: DeviceMesh,
        threshold: float = 0.0,
        reduction: Reduction = "mean",
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if mesh.ndim != 1:
            raise ValueError(f"mesh must have one dimension, got {mesh.ndim}")
        self.mesh = mesh
        self.threshold = threshold
        self.reduction: Reduction = reduction
        limit = 1 / math.sqrt(max(in_features, 1))
        # Processes that were seeded alike must not draw alike.
        generator = torch.Generator(mesh.device_type)
        generator.manual_seed((torch.initial_seed() + mesh.get_local_rank()) % 2**63)
        self.weight = _sharded_parameter((num_labels, in_features), limit, mesh, generator, dtype)
        self.bias = (
            _sharded_parameter((num_labels,), limit, mesh, generator, dtype) if bias else None
        )

    def local_scores(self, features: Tensor) -> Tensor:
        """Scores of this process's labels, shape (..., l); a label is predicted above 0."""
        bias = None if self.bias is None else _local(self.bias)
        return F.linear(features, _local(self.weight), bias) - self.threshold

    def forward(
        self, features: Tensor, indices: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        """The loss over all labels of features (..., F) with positives `indices`, (..., K)."""
        return sharded_linear_zlpr_loss(
            features,
            self.weight,
            self.bias,
            indices,
            threshold=self.threshold,
            sample_weight=sample_weight,
            reduction=self.reduction,
        )

    def extra_repr(self) -> str:
        """What `print(module)` shows."""
        num_labels, in_features = self.weight.shape
        return f"in_features={in_features}, num_labels={num_labels}, processes={self.mesh.size()}"


def _same_on_all(features: Tensor, group: dist.ProcessGroup) -> Tensor:
    """This process's features as a plain tensor; all holders of labels must have the same."""
    if not isinstance(features, DTensor):
        return features
    holders = set(dist.get_process_group_ranks(group))
    for dim, how in enumerate(features.placements):
        others = dist.get_process_group_ranks(features.device_mesh.get_group(dim))
        cuts_samples = isinstance(how, Shard) and how.dim % features.dim() < features.dim() - 1
        if how != Replicate() and (not cuts_samples or len(holders & set(others)) > 1):
            raise ValueError(
                "features must be the same on all processes that share the labels, got "
                f"{features.placements}; redistribute them to Replicate() first"
            )
    return features.to_local()


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _sharded_parameter(
    shape: tuple[int, ...],
    limit: float,
    mesh: DeviceMesh,
    generator: torch.Generator,
    dtype: torch.dtype | None,
) -> nn.Parameter:
    """A parameter of the given shape, of which this process draws and holds its rows."""
    part = slice_of(shape[0], mesh.size(), mesh.get_local_rank())
    local = torch.empty(
        part.stop - part.start, *shape[1:], device=generator.device, dtype=dtype
    ).uniform_(-limit, limit, generator=generator)
    whole = torch.empty(shape, device="meta")
    return nn.Parameter(
        DTensor.from_local(
            local, mesh, [Shard(0)], run_check=False, shape=whole.shape, stride=whole.stride()
        )
    )

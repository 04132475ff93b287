"""ZLPR of scores whose labels are spread over processes."""

from typing import Any

import torch
from torch import Tensor, nn

from zlpr.distributed._slices import Group, SharedTally, Slice
from zlpr.losses._arguments import Weight, Weighting, check_indices, check_scores, working_dtype
from zlpr.losses._label_sweep import Positives, ZLPRTally, refuse_second_derivatives
from zlpr.losses._linear_head import split_threshold
from zlpr.losses._reduce import Reduction, reduce


def sharded_zlpr_loss(
    scores: Tensor,
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
    r"""ZLPR over all labels, of which each process holds the scores of a slice.

    $$\ell(s, P) = \log\Big(1 + \sum_{i \in P} e^{-s_i}\Big)
                 + \log\Big(1 + \sum_{j \notin P} e^{s_j}\Big)$$

    Each process sums over its slice; a maximum and a sum per sample and side are reduced over
    the group, and the bound (the 1) is counted once. Every process gets the loss of all labels
    and the gradient of its own scores, as in `sparse_zlpr_loss`; the backward pass needs no
    communication. Slices may differ in size and may be empty. All processes must call this
    together, with the same samples in the same order.

    Args:
        scores: This process's slice, shape (..., l), or a `DTensor` of shape (..., L) with its
            last dimension sharded over one dimension of its mesh.
        indices: Positive labels, counted over all slices, padded with -1, shape (..., K); the
            same on every process. A repeated index counts once.
        first_label: Index of the slice's first label. A `DTensor` knows it.
        group: The processes that hold the slices: a process group, a `DeviceMesh` of one
            dimension, or None for all. A `DTensor` knows it.
        threshold: As in `zlpr_loss`; per label it is the slice's, shape (l,). For one sample in
            one dimension it is per label, or a number.
        label_mask: As in `zlpr_loss`, for the slice: shape (l,) or (..., l).
        label_weight: As in `zlpr_loss`, for the slice.
        pos_weight: As in `zlpr_loss`, for the slice.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none": a plain tensor, the same on every process.

    Raises:
        ProcessLostError: Another process died or did not answer within the group's time-out.

    Examples:
        Under `torchrun`, with 10 labels on each process:

        >>> rank = torch.distributed.get_rank()  # doctest: +SKIP
        >>> sharded_zlpr_loss(head(x), indices, first_label=10 * rank)  # doctest: +SKIP
    """
    part = Slice.of(scores, -1, first_label, group)
    check_scores(part.local)
    cells = torch.empty_like(part.local, dtype=working_dtype(part.local), device="meta")
    check_indices(indices, cells, num_labels=None)
    device, num_labels = part.local.device, cells.shape[-1]
    per_label, bound = split_threshold(threshold, cells, device, of_slice=True)
    weighting = Weighting.check(cells, label_mask, label_weight, pos_weight)
    weighting = weighting.of_tiles(cells, device)
    positives = Positives.from_indices(indices, part.first_label, num_labels)
    known = positives.known(weighting)
    local = part.local if per_label is None else part.local - per_label
    losses: Tensor = _ShardedLosses.apply(  # type: ignore[no-untyped-call]
        local.reshape(len(bound), num_labels),
        bound,
        known,
        ZLPRTally(bound.detach(), weighting, known.weights(weighting)),
        SharedTally(indices, positives, part.group),
    )
    return reduce(losses.view(cells.shape[:-1]), sample_weight, reduction)


class ShardedZLPRLoss(nn.Module):
    """`sharded_zlpr_loss` as a module, called as `module(scores, indices)`.

    Args:
        first_label: Index of this process's first label; None where scores are a `DTensor`.
        group: The processes that hold the slices, as in `sharded_zlpr_loss`.
        threshold: The bound that scores are compared with.
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> from zlpr.distributed import ShardedZLPRLoss
        >>> ShardedZLPRLoss(first_label=10)
        ShardedZLPRLoss(first_label=10)
    """

    def __init__(
        self,
        *,
        first_label: int | None = None,
        group: Group | None = None,
        threshold: float = 0.0,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        self.first_label = first_label
        self.group = group
        self.threshold = threshold
        self.reduction: Reduction = reduction

    def forward(
        self,
        scores: Tensor,
        indices: Tensor,
        label_mask: Tensor | None = None,
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        """The loss over all labels of scores (..., l) with positives `indices`, (..., K)."""
        return sharded_zlpr_loss(
            scores,
            indices,
            first_label=self.first_label,
            group=self.group,
            threshold=self.threshold,
            label_mask=label_mask,
            sample_weight=sample_weight,
            reduction=self.reduction,
        )

    def extra_repr(self) -> str:
        """What `print(module)` shows."""
        return f"first_label={self.first_label}"


class _ShardedLosses(torch.autograd.Function):
    """Losses per sample; forward reduces over the processes, backward stays at home."""

    @staticmethod
    def forward(
        ctx: Any,
        scores: Tensor,
        bound: Tensor,
        positives: Positives,
        tally: ZLPRTally,
        shared: SharedTally,
    ) -> Tensor:
        """Scores (B, l) and bound (B,) give losses (B,)."""
        exponents = scores.to(bound.dtype, copy=True)
        picked = positives.padded(exponents[positives.rows, positives.labels], torch.inf)
        exponents[positives.rows, positives.labels] = -torch.inf
        tally.add_(exponents, slice(0, scores.shape[1]))  # leaves exponentials
        reference = tally.negative.maximum
        losses = shared.combine(tally, picked)
        ctx.factor = (reference - tally.negative.maximum).exp()
        ctx.exponentials, ctx.positives, ctx.tally = exponents, positives, tally
        return losses

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the slice's scores and of the bound."""
        refuse_second_derivatives("`sparse_zlpr_loss` of all scores has them")
        positives: Positives = ctx.positives
        of_scores = of_bound = None
        if ctx.needs_input_grad[0]:
            scale = ctx.tally.scale(upstream)
            of_scores = ctx.exponentials * (ctx.factor * scale)[:, None]
            slopes = ctx.tally.positive_slopes() * scale[:, None]
            of_scores[positives.rows, positives.labels] = slopes[positives.rows, positives.slots]
        if ctx.needs_input_grad[1]:
            of_bound = ctx.tally.bound_gradient(upstream)
        return of_scores, of_bound, None, None, None

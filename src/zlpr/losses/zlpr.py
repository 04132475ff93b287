"""ZLPR, the zero-bounded log-sum-exp and pairwise rank-based loss, from targets or from indices."""

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor

from zlpr.losses._arguments import (
    Weight,
    Weighting,
    can_look_at,
    check_indices,
    check_number,
    check_scores,
    check_targets,
    working_dtype,
)
from zlpr.losses._module import LossModule
from zlpr.losses._reduce import Reduction
from zlpr.losses._threshold import kept_threshold, subtract_threshold
from zlpr.losses._zlpr_and_gradient import multi_hot, zlpr_of_targets


def zlpr_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    threshold: Weight = 0.0,
    temperature: float = 1.0,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""ZLPR: raises the scores of a sample's labels above a bound and all others below it.

    $$\ell(s, y) = \log\Big(1 + \sum_l w_l\,u_l\,y_l\,e^{-(s_l - s_0) / t}\Big)
                 + \log\Big(1 + \sum_l w_l\,(1 - y_l)\,e^{(s_l - s_0) / t}\Big)$$

    with label weights $w$, positive weights $u$, the threshold $s_0$ (TLPR) and the temperature
    $t$ (FZLPR), all of which may be left out. Labels are predicted where $s_l > s_0$: at zero
    unless another threshold is given or fitted.

    Args:
        scores: Shape (..., L). An impossible label may have the score -inf.
        targets: Shape (..., L), bool, integer, or soft targets in [0, 1]. With soft targets the
            minimum is at $y = \sigma(2 (s - s_0) / t)$. Targets that are not bool are checked to
            lie in [0, 1], which waits for the device; bool targets need no check.
        threshold: $s_0$, a number or a tensor: of shape (L,) per label, (..., 1) per sample, or
            (..., L) per cell. It may require a gradient.
        temperature: $t$, above 0; below 1 the largest terms dominate sooner.
        label_mask: Shape (L,) or (..., L), bool; False = unknown or impossible label.
        label_weight: $w$, a number or of shape (L,) or (..., L), at least 0.
        pos_weight: $u$, as `label_weight`. $u = e^m$ is a margin of m for the positive labels.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> scores = torch.tensor([[2.0, -1.0, -3.0]])
        >>> targets = torch.tensor([[True, False, False]])
        >>> zlpr_loss(scores, targets)
        tensor(0.4759)
        >>> zlpr_loss(scores, targets, threshold=1.0)
        tensor(0.4562)
        >>> zlpr_loss(scores, targets, temperature=0.2)
        tensor(0.0068)

    References:
        Su et al., "ZLPR: A Novel Loss for Multi-label Classification", 2022; the temperature
        (0.2) as in Bioengineering 12(6):593, 2025.
    """
    check_scores(scores)
    check_targets(scores, targets)
    weighting = Weighting.check(scores, label_mask, label_weight, pos_weight)
    scores = _relative(scores, threshold, temperature)
    return zlpr_of_targets(scores, targets, weighting, sample_weight, reduction)


def sparse_zlpr_loss(
    scores: Tensor,
    indices: Tensor,
    *,
    threshold: Weight = 0.0,
    temperature: float = 1.0,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""ZLPR from the indices of the positive labels; the value of `zlpr_loss`.

    $$\ell(s, P) = \log\Big(1 + \sum_{i \in P} e^{-s_i}\Big)
                 + \log\Big(1 + \sum_{j \notin P} e^{s_j}\Big)$$

    The negative labels are summed themselves, never found by subtracting the positive ones from
    all, so that a confident positive label costs no precision.

    Args:
        scores: Shape (..., L).
        indices: Shape (..., K), integer: each sample's positive labels in any order, padded with
            -1. An index that is repeated counts once. One outside [-1, L) is an error.
        threshold: As in `zlpr_loss`.
        temperature: As in `zlpr_loss`.
        label_mask: As in `zlpr_loss`.
        label_weight: As in `zlpr_loss`.
        pos_weight: As in `zlpr_loss`.
        sample_weight: As in `zlpr_loss`.
        reduction: As in `zlpr_loss`.

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> scores = torch.tensor([[2.0, -1.0, -3.0], [0.5, 0.1, -2.0]])
        >>> indices = torch.tensor([[0, -1], [0, 1]])
        >>> sparse_zlpr_loss(scores, indices, reduction="none")
        tensor([0.4759, 1.0478])

    References:
        Su et al., "ZLPR: A Novel Loss for Multi-label Classification", 2022.
    """
    check_scores(scores)
    check_indices(indices, scores, num_labels=scores.shape[-1])
    weighting = Weighting.check(scores, label_mask, label_weight, pos_weight)
    scores = _relative(scores, threshold, temperature)
    targets = multi_hot(indices, scores.shape[-1])
    if not can_look_at(indices):  # an index outside the labels shows as NaN, not as none
        is_outside = ((indices < -1) | (indices >= scores.shape[-1])).any(dim=-1, keepdim=True)
        scores = torch.where(is_outside, torch.nan, scores)
    return zlpr_of_targets(scores, targets, weighting, sample_weight, reduction)


def _relative(scores: Tensor, threshold: Weight, temperature: float) -> Tensor:
    """`(scores - threshold) / temperature`; the scores themselves where both do nothing."""
    scores = subtract_threshold(scores, threshold)
    if temperature == 1.0:
        return scores
    return scores.to(working_dtype(scores)) / check_number("temperature", temperature, above=0.0)


class ZLPRLoss(LossModule):
    """`zlpr_loss` as a module, a drop-in for `torch.nn.BCEWithLogitsLoss`.

    Args:
        threshold: The bound that scores are compared with; a number or a tensor.
        learn_threshold: Make the threshold a parameter, to be trained with the model; that of a
            number is in torch's default dtype.
        temperature: What scores, seen from the bound, are divided by.
        label_weight: As in `zlpr_loss`.
        pos_weight: As in `zlpr_loss`.
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> loss = ZLPRLoss()
        >>> loss(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[True, False, False]]))
        tensor(0.4759)
    """

    function: ClassVar[Callable[..., Tensor]] = staticmethod(zlpr_loss)

    def __init__(
        self,
        *,
        threshold: Weight = 0.0,
        learn_threshold: bool = False,
        temperature: float = 1.0,
        label_weight: Weight | None = None,
        pos_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            threshold=kept_threshold(threshold, learn=True) if learn_threshold else threshold,
            temperature=temperature,
            label_weight=label_weight,
            pos_weight=pos_weight,
            reduction=reduction,
        )

    @property
    def bound(self) -> Tensor:
        """The threshold that scores are compared with."""
        return torch.as_tensor(self.options["threshold"])


class SparseZLPRLoss(ZLPRLoss):
    """`sparse_zlpr_loss` as a module, called as `module(scores, indices)`.

    Args:
        threshold: The bound that scores are compared with; a number or a tensor.
        learn_threshold: Make the threshold a parameter, to be trained with the model; that of a
            number is in torch's default dtype.
        temperature: What scores, seen from the bound, are divided by.
        label_weight: As in `zlpr_loss`.
        pos_weight: As in `zlpr_loss`.
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> loss = SparseZLPRLoss(reduction="sum")
        >>> loss(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[0, -1]]))
        tensor(0.4759)
    """

    function = staticmethod(sparse_zlpr_loss)

    def _example(self, scores: Tensor) -> Tensor:
        return torch.full((*scores.shape[:-1], 1), -1, device=scores.device)

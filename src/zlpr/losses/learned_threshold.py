"""Losses whose authors learn the threshold that they decide at: HBM and adaptive threshold."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from zlpr.losses._arguments import Weight, check_number
from zlpr.losses._cells import largest_score, prepare
from zlpr.losses._logsumexp import logsumexp1, softmax_shortfall
from zlpr.losses._module import LossModule
from zlpr.losses._reduce import Reduction, reduce
from zlpr.losses._threshold import kept_threshold, subtract_threshold


def hbm_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    threshold: Weight = 0.0,
    alpha: float = 1.0,
    margin: float = 0.01,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""HBM without the hierarchy: ZLPR with a learnable threshold, a bias and a margin.

    $$\ell(s, y) = \log\Big(1 + \sum_{i \in P} w_i\,u_i\,e^{d_i}\Big)
                 + \log\Big(1 + \sum_{j \in N} w_j\,e^{d_j}\Big)$$

    $$d_i = t - s_i + \alpha\,\mathrm{std}_P(s),\; d_j = s_j - t + \alpha\,\mathrm{std}_N(s)$$

    over the terms with $\sigma(2d) > m$. The standard deviations (of the sample's positive and of
    its negative scores) carry no gradient. Decides at the threshold t.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer or float, each 0 or 1.
        threshold: t, a number or a tensor: of shape (L,) per label, (..., 1) per sample, or
            (..., L) per cell. It may require a gradient.
        alpha: $\alpha$, at least 0, the size of the bias.
        margin: m, in [0, 1); labels that are right by that much count for nothing.
        label_mask: Shape (L,) or (..., L), bool; False = unknown or impossible label.
        label_weight: $w$, a number or of shape (L,) or (..., L), at least 0.
            More than 1.8e19 (9.7e288 in float64) counts as that.
        pos_weight: $u$, as `label_weight`, for positive labels.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> hbm_loss(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.8856)

    References:
        Kim et al., "Hierarchy-aware Biased Bound Margin Loss Function for Hierarchical Text
        Classification", 2024.
    """
    check_number("alpha", alpha, minimum=0.0)
    check_number("margin", margin, minimum=0.0, below=1.0)
    relative = subtract_threshold(scores, threshold)
    cells = prepare(relative, targets, label_mask, label_weight, pos_weight, hard=True)
    above = _biased_side(-cells.scores, cells.positive, alpha, margin)
    below = _biased_side(cells.scores, cells.negative, alpha, margin)
    return reduce(above + below, sample_weight, reduction)


def adaptive_threshold_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    threshold: Weight = 0.0,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Adaptive threshold loss (ATL): softmax against a threshold class, above and below.

    $$\ell(s, y) = -\sum_{i \in P} w_i\,u_i \log\frac{e^{s_i}}{\sum_{P} e^{s} + e^t}
                 - \log\frac{e^t}{\sum_{N} w\,e^{s} + e^t}$$

    The second term is ZLPR's with the threshold t. Decides at the threshold t. A positive label of
    weight 0 is none, and its weight has no slope: any more makes it share the softmax.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer or float, each 0 or 1.
        threshold: t, the score of the threshold class: a number or a tensor, of shape (L,) per
            label, (..., 1) per sample, or (..., L) per cell. It may require a gradient.
        label_mask: Shape (L,) or (..., L), bool; False = unknown or impossible label.
        label_weight: $w$, a number or of shape (L,) or (..., L), at least 0.
            More than 1.8e19 (9.7e288 in float64) counts as that.
        pos_weight: $u$, as `label_weight`, for positive labels.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> adaptive_threshold_loss(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.4759)

    References:
        Zhou et al., "Document-Level Relation Extraction with Adaptive Thresholding and Localized
        Context Pooling", 2021.
    """
    relative = subtract_threshold(scores, threshold)
    cells = prepare(relative, targets, label_mask, label_weight, pos_weight, hard=True)
    # The threshold class is one more label, at the score 0.
    values = F.pad(cells.scores, (0, 1))
    is_positive = F.pad(cells.is_positive, (0, 1), value=True)
    shortfall = softmax_shortfall(values, is_positive)[..., :-1]
    above = (cells.positive * shortfall).sum(dim=-1)
    below = logsumexp1(cells.scores, cells.negative)
    return reduce(above + below, sample_weight, reduction)


class HBMLoss(LossModule):
    """`hbm_loss` as a module.

    Args:
        threshold: Where the threshold starts; a number or a tensor.
        learn_threshold: Make the threshold a parameter, as the authors do; that of a number is in
            torch's default dtype.
        alpha: Size of the bias.
        margin: Labels that are right by that much count for nothing.
        label_weight: A number or of shape (L,).
        pos_weight: As `label_weight`, for positive labels.
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> loss = HBMLoss(learn_threshold=False)
        >>> loss(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.8856)
    """

    function = staticmethod(hbm_loss)
    threshold: Weight

    def __init__(
        self,
        *,
        threshold: Weight = 0.0,
        learn_threshold: bool = True,
        alpha: float = 1.0,
        margin: float = 0.01,
        label_weight: Weight | None = None,
        pos_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            threshold=kept_threshold(threshold, learn=learn_threshold),
            alpha=alpha,
            margin=margin,
            label_weight=label_weight,
            pos_weight=pos_weight,
            reduction=reduction,
        )


class AdaptiveThresholdLoss(LossModule):
    """`adaptive_threshold_loss` as a module.

    Args:
        threshold: Where the score of the threshold class starts; a number or a tensor.
        learn_threshold: Make the threshold a parameter, trained with the model; that of a number is
            in torch's default dtype.
        label_weight: A number or of shape (L,).
        pos_weight: As `label_weight`, for positive labels.
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> loss = AdaptiveThresholdLoss(learn_threshold=False)
        >>> loss(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.4759)
    """

    function = staticmethod(adaptive_threshold_loss)
    threshold: Weight

    def __init__(
        self,
        *,
        threshold: Weight = 0.0,
        learn_threshold: bool = True,
        label_weight: Weight | None = None,
        pos_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            threshold=kept_threshold(threshold, learn=learn_threshold),
            label_weight=label_weight,
            pos_weight=pos_weight,
            reduction=reduction,
        )


def _biased_side(values: Tensor, counted: Tensor, alpha: float, margin: float) -> Tensor:
    """`log(1 + sum c e^d)` of one side, over the terms that are not right by the margin."""
    bias = alpha * _standard_deviation(values, counted) if alpha > 0.0 else 0.0
    # sigma(2d) > m, where a sigma of 0 is no less than a margin of 0
    cut = 0.5 * math.log(margin / (1 - margin)) if margin > 0.0 else -math.inf
    kept = values.detach() + bias > cut
    part = counted & kept if counted.dtype is torch.bool else counted * kept
    return logsumexp1(values, part, bias)


def _standard_deviation(values: Tensor, counted: Tensor) -> Tensor:
    """Of the finite values that count, without a gradient; 0 for none or one. Shape (..., 1)."""
    values = values.detach()
    if values.shape[-1] == 0:
        return values.new_zeros((*values.shape[:-1], 1))
    part = (counted != 0) & (values.abs() < largest_score(values.dtype))
    values = torch.where(part, values, 0.0)
    number = part.sum(dim=-1, keepdim=True).clamp(min=1)
    # In units of the largest, whose square need then not be a number of the dtype.
    unit = values.abs().amax(dim=-1, keepdim=True).clamp(min=torch.finfo(values.dtype).tiny)
    values = values / unit
    mean = values.sum(dim=-1, keepdim=True) / number
    square = torch.where(part, values - mean, 0.0).square().sum(dim=-1, keepdim=True)
    return unit * (square / number).sqrt()

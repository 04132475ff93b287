"""A linear head and its loss in one, for more labels than a matrix of scores has room for."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zlpr.losses._arguments import Weight, Weighting
from zlpr.losses._cells import largest_weight
from zlpr.losses._label_sweep import BCETally, LSEPTally, ZLPRTally
from zlpr.losses._linear_head import Impl, LinearHead, check_threshold, linear_losses
from zlpr.losses._reduce import Reduction, reduce
from zlpr.losses._threshold import kept_threshold, subtract_threshold
from zlpr.losses._zlpr_and_gradient import multi_hot, zlpr_of_targets
from zlpr.losses.binary import bce_loss
from zlpr.losses.optimiser_steps import WeightStep
from zlpr.losses.pairwise import lsep_loss


def linear_zlpr_loss(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    indices: Tensor,
    *,
    threshold: Weight = 0.0,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
    impl: Impl = "auto",
    weight_step: WeightStep | None = None,
) -> Tensor:
    r"""ZLPR of a linear layer's scores, without ever holding the scores of all labels.

    $$\ell(x, P) = \log\Big(1 + \sum_{i \in P} w_i\,u_i\,e^{s_0 - s_i}\Big)
                 + \log\Big(1 + \sum_{j \notin P} w_j\,e^{s_j - s_0}\Big), \qquad s = W x + b$$

    exactly as `sparse_zlpr_loss(F.linear(features, weight, bias), indices)`, value and gradients.
    Labels are swept in tiles that fit a cache: a running maximum and sum per sample go forward,
    and each tile is turned into gradients on the way back. Sums run in float32 for half inputs.

    Args:
        features: Inputs of the layer, shape (..., F).
        weight: Weight of the layer, shape (L, F).
        bias: Bias of the layer, shape (L,), or None.
        indices: Positive labels of each sample, padded with -1, shape (..., K). A repeated index
            counts once.
        threshold: Score at which a label is predicted: a number, or a tensor per label (L,) or
            per sample (..., 1); one per cell would hold as much as the scores. Gradients reach it.
        label_mask: False for unknown or impossible labels, shape (L,) or (..., L).
        label_weight: Weight of each label's term inside the logarithms: a number, shape (L,) or
            (..., L).
        pos_weight: Further weight of positive terms, of the same shapes; e^m is a margin m.
        sample_weight: Factor on each sample's loss, shape (...).
        reduction: "mean" over samples, "sum", or "none" for a loss per sample, shape (...).
        impl: "recompute" makes the tiles again on the way back: four products instead of three,
            no memory. "store" keeps them as float16 exponentials: half the scores' memory,
            gradients within 2^-11 of the exact ones. "dense" holds the scores. "auto" takes
            "dense" where all scores fit one tile, "store" where that adds at most an eighth to
            the weight and its gradient, else "recompute".
        weight_step: Applied to the weight tile by tile during the backward pass, such as
            `SGDStep`; the weight gets no gradient then, and its full gradient never exists. It
            acts at every backward pass: clipping, loss scaling and accumulation over batches
            do not see it.

    Returns:
        The loss, a scalar or shape (...), in float32 or wider.

    Examples:
        >>> import torch
        >>> from zlpr.losses import linear_zlpr_loss
        >>> head = torch.nn.Linear(8, 1000)
        >>> features, indices = torch.randn(3, 8), torch.tensor([[3, 17], [5, -1], [-1, -1]])
        >>> loss = linear_zlpr_loss(features, head.weight, head.bias, indices)
        >>> loss.backward()
        >>> head.weight.grad.shape
        torch.Size([1000, 8])
    """
    head = LinearHead(features, weight, bias)
    weighting = Weighting.check(head.cells, label_mask, label_weight, pos_weight)
    check_threshold(threshold, head.cells.shape)

    def dense(scores: Tensor) -> Tensor:
        scores = subtract_threshold(scores, threshold)
        targets = multi_hot(indices, scores.shape[-1])
        return zlpr_of_targets(scores, targets, weighting, None, "none")

    losses = linear_losses(
        head,
        indices,
        weighting,
        ZLPRTally,
        dense,
        threshold=threshold,
        impl=impl,
        weight_step=weight_step,
    )
    return reduce(losses, sample_weight, reduction)


def linear_lsep_loss(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    indices: Tensor,
    *,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
    impl: Impl = "auto",
    weight_step: WeightStep | None = None,
) -> Tensor:
    r"""LSEP of a linear layer's scores, by the same sweep as `linear_zlpr_loss`.

    $$\ell(x, P) = \log\Big(1 + \sum_{i \in P} w_i\,u_i\,e^{-s_i}
                 \sum_{j \notin P} w_j\,e^{s_j}\Big), \qquad s = W x + b$$

    The arguments are those of `linear_zlpr_loss`; LSEP only ranks, so it has no threshold.

    Examples:
        >>> import torch
        >>> from zlpr.losses import linear_lsep_loss
        >>> weight, indices = torch.zeros(3, 2), torch.tensor([[1]])
        >>> linear_lsep_loss(torch.ones(1, 2), weight, None, indices).item()  # log(1 + 1 * 2)
        1.0986123085021973
    """
    head, weights = LinearHead(features, weight, bias), (label_mask, label_weight, pos_weight)
    losses = _without_threshold(head, indices, weights, LSEPTally, lsep_loss, impl, weight_step)
    return reduce(losses, sample_weight, reduction)


def linear_bce_loss(
    features: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    indices: Tensor,
    *,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
    impl: Impl = "auto",
    weight_step: WeightStep | None = None,
) -> Tensor:
    r"""Binary cross entropy of a linear layer's scores, by the sweep of `linear_zlpr_loss`.

    $$\ell(x, P) = \sum_{i \in P} w_i\,u_i \log(1 + e^{-s_i})
                 + \sum_{j \notin P} w_j \log(1 + e^{s_j}), \qquad s = W x + b$$

    The arguments are those of `linear_zlpr_loss`, with weights outside the logarithms.

    Examples:
        >>> import torch
        >>> from zlpr.losses import linear_bce_loss
        >>> weight, indices = torch.zeros(3, 2), torch.tensor([[1]])
        >>> linear_bce_loss(torch.ones(1, 2), weight, None, indices).item()  # 3 log 2
        2.079441547393799
    """
    head, weights = LinearHead(features, weight, bias), (label_mask, label_weight, pos_weight)
    losses = _without_threshold(head, indices, weights, BCETally, bce_loss, impl, weight_step)
    return reduce(losses, sample_weight, reduction)


def _without_threshold(
    head: LinearHead,
    indices: Tensor,
    weights: tuple[Tensor | None, Weight | None, Weight | None],
    tally: type[LSEPTally | BCETally],
    loss: Callable[..., Tensor],
    impl: Impl,
    weight_step: WeightStep | None,
) -> Tensor:
    """One value per sample, by the tally of a loss or, where all scores fit, by the loss itself."""
    label_mask, label_weight, pos_weight = weights
    weighting = Weighting.check(
        head.cells, label_mask, label_weight, pos_weight, largest=largest_weight(head.dtype)
    )

    def dense(scores: Tensor) -> Tensor:
        return loss(
            scores,
            multi_hot(indices, scores.shape[-1]),
            label_mask=label_mask,
            label_weight=label_weight,
            pos_weight=pos_weight,
            reduction="none",
        )

    return linear_losses(head, indices, weighting, tally, dense, impl=impl, weight_step=weight_step)


class LinearZLPRLoss(nn.Module):
    """A linear layer with ZLPR on top, trained without holding the scores of all labels.

    Args:
        in_features: Width of the features.
        num_labels: Number of labels.
        bias: Whether the layer has a bias.
        threshold: Score at which a label is predicted, as in `linear_zlpr_loss`.
        learn_threshold: Make the threshold a parameter; that of a number is in `dtype`, or torch's
            default one where that is wider.
        label_weight: Weight of each label, shape (num_labels,).
        pos_weight: Further weight of positive terms, a number or shape (num_labels,).
        reduction: "mean", "sum" or "none".
        impl: "auto", "recompute", "store" or "dense".
        weight_step: Optimiser step for the weight inside the backward sweep; leave the weight
            out of the other optimiser then.
        device: Device of the parameters.
        dtype: Data type of the parameters.

    Examples:
        >>> import torch
        >>> from zlpr.losses import LinearZLPRLoss
        >>> head = LinearZLPRLoss(8, 1000)
        >>> loss = head(torch.randn(2, 8), torch.tensor([[3, 17], [5, -1]]))
        >>> head.scores(torch.randn(2, 8)).shape
        torch.Size([2, 1000])
    """

    threshold: Weight
    label_weight: Weight | None
    pos_weight: Weight | None

    def __init__(
        self,
        in_features: int,
        num_labels: int,
        bias: bool = True,
        *,
        threshold: Weight = 0.0,
        learn_threshold: bool = False,
        label_weight: Weight | None = None,
        pos_weight: Weight | None = None,
        reduction: Reduction = "mean",
        impl: Impl = "auto",
        weight_step: WeightStep | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_labels, in_features, device=device, dtype=dtype))
        self.bias = (
            nn.Parameter(torch.empty(num_labels, device=device, dtype=dtype)) if bias else None
        )
        if learn_threshold:
            threshold = kept_threshold(threshold, learn=True, dtype=dtype)
        _set_tensor(self, "threshold", threshold)
        _set_tensor(self, "label_weight", label_weight)
        _set_tensor(self, "pos_weight", pos_weight)
        self.reduction: Reduction = reduction
        self.impl: Impl = impl
        self.weight_step = weight_step
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias as `torch.nn.Linear` does."""
        limit = 1 / math.sqrt(max(self.weight.shape[1], 1))
        nn.init.uniform_(self.weight, -limit, limit)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -limit, limit)

    def scores(self, features: Tensor) -> Tensor:
        """Scores of all labels, shape (..., num_labels); a label is predicted above 0.

        The threshold is already taken off.
        """
        return F.linear(features, self.weight, self.bias) - self.threshold

    def forward(
        self,
        features: Tensor,
        indices: Tensor,
        label_mask: Tensor | None = None,
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        """The loss of features (..., F) whose positive labels are `indices`, (..., K)."""
        return linear_zlpr_loss(
            features,
            self.weight,
            self.bias,
            indices,
            threshold=self.threshold,
            label_mask=label_mask,
            label_weight=self.label_weight,
            pos_weight=self.pos_weight,
            sample_weight=sample_weight,
            reduction=self.reduction,
            impl=self.impl,
            weight_step=self.weight_step,
        )

    def extra_repr(self) -> str:
        """What `print(module)` shows."""
        num_labels, in_features = self.weight.shape
        return f"in_features={in_features}, num_labels={num_labels}, impl={self.impl!r}"


def _set_tensor(module: nn.Module, name: str, value: float | Tensor | None) -> None:
    """A parameter stays one, another tensor becomes a buffer, a number an attribute."""
    if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
        module.register_buffer(name, value, persistent=False)  # an option, as in `LossModule`
    else:
        setattr(module, name, value)

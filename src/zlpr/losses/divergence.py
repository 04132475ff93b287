"""ZLPR's divergence between two score vectors, for R-Drop and adversarial training."""

import torch
from torch import Tensor

from zlpr.losses._arguments import Weight, check_mask, check_scores, check_weight, working_dtype
from zlpr.losses._cells import limited_weight, within_limits
from zlpr.losses._logsumexp import softplus
from zlpr.losses._module import LossModule
from zlpr.losses._reduce import Reduction, reduce


def zlpr_divergence(
    scores: Tensor,
    other: Tensor,
    *,
    symmetric: bool = False,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Divergence of the label probabilities that two score vectors stand for under ZLPR.

    With $p = \sigma(2s)$ and $p' = \sigma(2s')$,

    $$\mathrm{KL}(s, s') = \sum_l 2 p_l (s_l - s'_l) + \log\frac{1 - p_l}{1 - p'_l},
    \qquad D(s, s') = \sum_l 2 (p_l - p'_l)(s_l - s'_l).$$

    Both are 0 for equal scores and never negative. The gradient flows into both arguments; detach
    one to hold it fixed.

    Args:
        scores: $s$, shape (..., L).
        other: $s'$, of the same shape.
        symmetric: $D = \mathrm{KL}(s, s') + \mathrm{KL}(s', s)$ instead of the plain form.
        label_mask: Shape (L,) or (..., L), bool; False = unknown or impossible label.
        label_weight: A number or of shape (L,) or (..., L), multiplies the labels' terms.
        sample_weight: Shape (...), multiplies the samples' values.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> s, t = torch.tensor([1.0, -1.0]), torch.tensor([0.5, -1.0])
        >>> zlpr_divergence(s, t)
        tensor(0.0671)
        >>> zlpr_divergence(s, t, symmetric=True)
        tensor(0.1497)

    References:
        Su et al., "ZLPR: A Novel Loss for Multi-label Classification", 2022;
        Liang et al., "R-Drop: Regularized Dropout for Neural Networks", 2021.
    """
    check_scores(scores)
    check_scores(other, "other")
    if other.shape != scores.shape:
        raise ValueError(
            f"other must have the scores' shape {tuple(scores.shape)}, got {tuple(other.shape)}"
        )
    check_mask(scores, label_mask)
    weight = check_weight("label_weight", label_weight, scores)
    scores, other = scores.to(working_dtype(scores)), other.to(working_dtype(other))
    if label_mask is not None:
        scores, other = (torch.where(label_mask, given, 0.0) for given in (scores, other))
    s, t = within_limits(scores), within_limits(other)
    weight = limited_weight(weight, s.dtype)
    terms = _symmetric(s, t) if symmetric else _kullback_leibler(s, t)
    values = (terms if weight is None else terms * weight).sum(dim=-1)
    return reduce(values, sample_weight, reduction)


class ZLPRDivergence(LossModule):
    """`zlpr_divergence` as a module, called as `module(scores, other)`.

    Args:
        symmetric: The symmetric form instead of the plain one.
        label_weight: A number or of shape (L,).
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> divergence = ZLPRDivergence(symmetric=True)
        >>> divergence(torch.tensor([1.0, -1.0]), torch.tensor([0.5, -1.0]))
        tensor(0.1497)
    """

    function = staticmethod(zlpr_divergence)

    def __init__(
        self,
        *,
        symmetric: bool = False,
        label_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(symmetric=symmetric, label_weight=label_weight, reduction=reduction)

    def _example(self, scores: Tensor) -> Tensor:
        return torch.zeros_like(scores)


def _probability(scores: Tensor) -> Tensor:
    """`sigma(2s)`; at 0 and 1 its slope of 0 wins over what it is multiplied by, be that infinite.

    So weighted differences of scores may exceed the dtype.
    """
    p = torch.sigmoid(2 * scores)
    return torch.where((p == 0) | (p == 1), p.detach(), p)


def _symmetric(s: Tensor, t: Tensor) -> Tensor:
    """The terms of the symmetric form, from the side on which not both p are near 1."""
    sign = torch.where(s + t > 0, -1.0, 1.0)
    s, t = s * sign, t * sign
    return 2 * (_probability(s) - _probability(t)) * (s - t)


def _kullback_leibler(s: Tensor, t: Tensor) -> Tensor:
    """The terms of the plain form, from the side on which p <= 1/2 so that nothing cancels.

    Near each other the scores' softplus functions agree to many digits; there their difference is
    taken as `log1p(p expm1(d))`, with `d = 2 (t - s)`.
    """
    sign = torch.where(s > 0, -1.0, 1.0)
    s, t = s * sign, t * sign
    p, step = _probability(s), 2 * (t - s)
    near = step.abs() < 1
    small = torch.log1p(p * torch.expm1(torch.where(near, step, 0.0)))
    return torch.where(near, small, softplus(2 * t) - softplus(2 * s)) - p * step

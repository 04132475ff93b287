"""Losses that know how often each label occurs, for labels that are rare."""

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from zlpr.losses._arguments import (
    Weight,
    check_label_counts,
    check_number,
    check_scores,
    check_weight,
    working_dtype,
)
from zlpr.losses._cells import Cells, limited_weight, prepare
from zlpr.losses._module import LossModule
from zlpr.losses._reduce import Reduction, reduce
from zlpr.losses.binary import focal_loss, focal_term, sum_terms

if TYPE_CHECKING:
    from zlpr.losses.registry import LossInfo


def class_balanced_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    label_counts: Tensor,
    num_samples: int,
    beta: float = 0.9999,
    gamma: float = 0.0,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Class-balanced loss: focal loss, each label weighted by its effective number of samples.

    $$\ell(s, y) = \sum_l \frac{1 - \beta}{1 - \beta^{n_l}}\,\mathrm{focal}_\gamma(s_l, y_l)$$

    Decides at 0. With `gamma=0` the labels' loss is binary cross entropy.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer, or soft targets in [0, 1].
        label_counts: n, shape (L,): how many training samples carry each label; 0 counts as 1.
        num_samples: The number of training samples, which no count may exceed.
        beta: In [0, 1); 0 weighs all labels alike, towards 1 a label weighs $1/n$.
        gamma: Focus of the focal loss, at least 0.
        label_mask: Shape (L,) or (..., L), bool; False = unknown or impossible label.
        label_weight: A number or of shape (L,) or (..., L); multiplies the labels' terms.
        pos_weight: As `label_weight`; multiplies the positive terms.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> counts = torch.tensor([90, 5, 1])
        >>> scores, targets = torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]])
        >>> class_balanced_loss(scores, targets, label_counts=counts, num_samples=100)
        tensor(0.1127)

    References:
        Cui et al., "Class-Balanced Loss Based on Effective Number of Samples", 2019.
    """
    check_scores(scores)
    check_number("beta", beta, minimum=0.0, below=1.0)
    counts = check_label_counts(scores, label_counts, num_samples).double()
    weight = _by_effective_number(counts, beta)
    extra = limited_weight(
        check_weight("label_weight", label_weight, scores), working_dtype(scores)
    )
    return focal_loss(
        scores,
        targets,
        gamma=gamma,
        label_mask=label_mask,
        label_weight=weight if extra is None else weight * extra,
        pos_weight=pos_weight,
        sample_weight=sample_weight,
        reduction=reduction,
    )


def distribution_balanced_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    label_counts: Tensor,
    num_samples: int,
    alpha: float = 0.1,
    beta: float = 10.0,
    mu: float = 0.2,
    negative_scale: float = 2.0,
    prior_scale: float = 0.05,
    gamma: float = 2.0,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Distribution-balanced loss: weighs rare labels up and tolerates easy negatives.

    With $r_l = \frac{1}{n_l} / \sum_j \frac{y_j}{n_j}$, $\omega = \alpha + \sigma(\beta (r - \mu))$
    and $z = s - \frac{\kappa}{\lambda} \log(\frac{N}{n} - 1)$,

    $$\ell(s, y) = \sum_l \omega_l \Big( y_l\,(1 - \sigma(z_l))^\gamma \log(1 + e^{-z_l})
                 + (1 - y_l)\,\sigma(\lambda z_l)^\gamma\,\tfrac{1}{\lambda}
                   \log(1 + e^{\lambda z_l}) \Big)$$

    Decides at 0. A sample without a positive label has $r = \infty$, that is $\omega = 1 + \alpha$,
    or $\alpha$ where $\beta$ is negative.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer, or soft targets in [0, 1].
        label_counts: n, shape (L,): how many training samples carry each label, held to
            [1, N - 1] in the formula.
        num_samples: N, the number of training samples, at least 2.
        alpha: $\alpha$, at least 0, the least weight.
        beta: $\beta$, steepness of the weights.
        mu: $\mu$, the ratio at which a weight is half way.
        negative_scale: $\lambda$, above 0.
        prior_scale: $\kappa$, how much of the label's prior log odds to take off.
        gamma: Focus, at least 0.
        label_mask: Shape (L,) or (..., L), bool; False = unknown or impossible label.
        label_weight: A number or of shape (L,) or (..., L); multiplies the labels' terms.
        pos_weight: As `label_weight`; multiplies the positive terms.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> counts = torch.tensor([90, 5, 1])
        >>> scores, targets = torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]])
        >>> distribution_balanced_loss(scores, targets, label_counts=counts, num_samples=100)
        tensor(0.0024)

    References:
        Wu et al., "Distribution-Balanced Loss for Multi-Label Classification in Long-Tailed
        Datasets", 2020.
    """
    check_number("alpha", alpha, minimum=0.0)
    check_number("beta", beta)
    check_number("mu", mu)
    check_number("negative_scale", negative_scale, above=0.0)
    check_number("prior_scale", prior_scale)
    check_number("gamma", gamma, minimum=0.0)
    cells = prepare(scores, targets, label_mask, label_weight, pos_weight)
    counts = _counts_of_some(scores, label_counts, num_samples)
    shift = prior_scale / negative_scale * torch.log(num_samples / counts - 1)
    balance = _rebalancing(cells, counts, alpha, beta, mu)
    values = sum_terms(
        cells,
        lambda s: balance * focal_term(shift - s, gamma),
        lambda s: balance * focal_term(s - shift, gamma, scale=negative_scale),
    )
    return reduce(values, sample_weight, reduction)


def _rebalancing(cells: Cells, counts: Tensor, alpha: float, beta: float, mu: float) -> Tensor:
    """The weights omega, shape (..., L), by the inverse frequency of a sample's labels."""
    if beta == 0.0:  # also where the ratio is infinite, in a sample without labels
        return torch.full_like(cells.scores, alpha + 0.5)
    truth = cells.targets * cells.known
    total = (truth / counts).sum(dim=-1, keepdim=True)
    # By 0, where the ratio is infinite, without a gradient that would be NaN.
    ratio = 1 / counts / torch.where(total == 0, 0.0, total)
    return alpha + torch.sigmoid(beta * (ratio - mu))


def cb_ntr_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    label_counts: Tensor,
    num_samples: int,
    beta: float = 0.9,
    negative_scale: float = 2.0,
    prior_scale: float = 0.05,
    gamma: float = 2.0,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Class-balanced focal loss that tolerates easy negatives (CB-NTR); NTR-FL with `beta=0`.

    With $z = s - \frac{\kappa}{\lambda} \log(\frac{N}{n} - 1)$,

    $$\ell(s, y) = \sum_l \frac{1 - \beta}{1 - \beta^{n_l}} \Big(
                   y_l\,(1 - \sigma(z_l))^\gamma \log(1 + e^{-z_l})
                 + (1 - y_l)\,\sigma(\lambda z_l)^\gamma\,\tfrac{1}{\lambda}
                   \log(1 + e^{\lambda z_l}) \Big)$$

    Decides at 0. `distribution_balanced_loss` has the same terms under other weights.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer, or soft targets in [0, 1].
        label_counts: n, shape (L,): how many training samples carry each label, held to
            [1, N - 1] in the formula.
        num_samples: N, the number of training samples, at least 2.
        beta: $\beta$, in [0, 1); 0 weighs all labels alike, towards 1 a label weighs $1/n$.
        negative_scale: $\lambda$, above 0.
        prior_scale: $\kappa$, how much of the label's prior log odds to take off.
        gamma: Focus, at least 0.
        label_mask: Shape (L,) or (..., L), bool; False = unknown or impossible label.
        label_weight: A number or of shape (L,) or (..., L); multiplies the labels' terms.
        pos_weight: As `label_weight`; multiplies the positive terms.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> counts = torch.tensor([90, 5, 1])
        >>> scores, targets = torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]])
        >>> cb_ntr_loss(scores, targets, label_counts=counts, num_samples=100)
        tensor(0.0003)

    References:
        Huang et al., "Balancing Methods for Multi-label Text Classification with Long-Tailed Class
        Distribution", 2021.
    """
    check_number("beta", beta, minimum=0.0, below=1.0)
    check_number("negative_scale", negative_scale, above=0.0)
    check_number("prior_scale", prior_scale)
    check_number("gamma", gamma, minimum=0.0)
    cells = prepare(scores, targets, label_mask, label_weight, pos_weight)
    counts = _counts_of_some(scores, label_counts, num_samples)
    shift = prior_scale / negative_scale * torch.log(num_samples / counts - 1)
    balance = _by_effective_number(counts.double(), beta).to(cells.scores.dtype)
    values = sum_terms(
        cells,
        lambda s: balance * focal_term(shift - s, gamma),
        lambda s: balance * focal_term(s - shift, gamma, scale=negative_scale),
    )
    return reduce(values, sample_weight, reduction)


def _counts_of_some(scores: Tensor, label_counts: Tensor, num_samples: int) -> Tensor:
    """Counts held to [1, N - 1], so that a label has prior odds."""
    counts = check_label_counts(scores, label_counts, num_samples)
    if num_samples < 2:
        raise ValueError(f"num_samples must be at least 2, got {num_samples}")
    return counts.clamp(max=num_samples - 1)


def _by_effective_number(counts: Tensor, beta: float) -> Tensor:
    """`(1 - b) / (1 - b^n)`, which keeps its digits for b near 1."""
    # b = 0 has the logarithm -inf and weighs 1.
    return (1 - beta) / -torch.expm1(counts * (math.log(beta) if beta > 0 else -math.inf))


def logit_adjusted_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    label_counts: Tensor,
    num_samples: int,
    loss: str = "bce",
    tau: float = 1.0,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Another loss, of scores that are moved by the labels' priors.

    $$\ell(s, y) = \ell'(s + \tau \log \tfrac{n}{N},\, y)$$

    Decides at 0, by the bare scores.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), as the other loss takes them.
        label_counts: n, shape (L,): how many training samples carry each label; 0 counts as 1.
        num_samples: N, the number of training samples.
        loss: Name of the other loss; one that decides, over samples, and needs no label counts.
        tau: $\tau$, at least 0; 0 is the other loss.
        label_mask: As the other loss takes it.
        label_weight: As the other loss takes it.
        pos_weight: As the other loss takes it.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> counts = torch.tensor([90, 5, 1])
        >>> scores, targets = torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]])
        >>> logit_adjusted_loss(scores, targets, label_counts=counts, num_samples=100)
        tensor(0.1588)

    References:
        Menon et al., "Long-Tail Learning via Logit Adjustment", 2021.
    """
    check_scores(scores)
    check_label_counts(scores, label_counts, num_samples)
    counts = label_counts.to(scores.device, working_dtype(scores))
    return _adjustable(loss).function(
        scores.to(counts.dtype) + logit_adjustment(counts, num_samples, tau=tau),
        targets,
        label_mask=label_mask,
        label_weight=label_weight,
        pos_weight=pos_weight,
        sample_weight=sample_weight,
        reduction=reduction,
    )


def _adjustable(name: str) -> "LossInfo":
    """What is known of a loss whose scores may be moved and stay cut at 0."""
    from zlpr.losses import registry

    known = {
        info.name: info
        for info in map(registry.info, registry.available())
        if info.decides and not (info.over_batch or info.needs_label_counts or info.by_epoch)
    }
    if name not in known:
        raise ValueError(f"loss must be one of {', '.join(known)}, got {name!r}")
    return known[name]


def logit_adjustment(label_counts: Tensor, num_samples: int, *, tau: float = 1.0) -> Tensor:
    r"""How far each label's scores are moved by the label's prior, $\tau \log \frac{n_l}{N}$.

    Train on `scores + logit_adjustment(...)` with any loss (`LogitAdjustedLoss` does) and predict
    with the bare scores, or train on the bare scores and subtract it at prediction.

    Args:
        label_counts: n, shape (L,): how many training samples carry each label; 0 counts as 1.
        num_samples: N, the number of training samples.
        tau: $\tau$, at least 0; 0 adjusts nothing.

    Returns:
        Shape (L,), at most 0.

    Examples:
        >>> logit_adjustment(torch.tensor([50, 5]), num_samples=100)
        tensor([-0.6931, -2.9957])

    References:
        Menon et al., "Long-Tail Learning via Logit Adjustment", 2021.
    """
    check_number("tau", tau, minimum=0.0)
    like = label_counts if label_counts.is_floating_point() else label_counts.float()
    return tau * torch.log(check_label_counts(like, label_counts, num_samples) / num_samples)


class ClassBalancedLoss(LossModule):
    """`class_balanced_loss` as a module.

    Args:
        label_counts: Shape (L,), how many training samples carry each label.
        num_samples: The number of training samples.
        beta: In [0, 1); 0 weighs all labels alike.
        gamma: Focus of the focal loss.
        label_weight: A number or of shape (L,).
        pos_weight: As `label_weight`; multiplies the positive terms.
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> loss = ClassBalancedLoss(label_counts=torch.tensor([90, 5, 1]), num_samples=100)
        >>> loss(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.1127)
    """

    function = staticmethod(class_balanced_loss)

    def __init__(
        self,
        *,
        label_counts: Tensor,
        num_samples: int,
        beta: float = 0.9999,
        gamma: float = 0.0,
        label_weight: Weight | None = None,
        pos_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            label_counts=label_counts,
            num_samples=num_samples,
            beta=beta,
            gamma=gamma,
            label_weight=label_weight,
            pos_weight=pos_weight,
            reduction=reduction,
        )


class DistributionBalancedLoss(LossModule):
    """`distribution_balanced_loss` as a module.

    Args:
        label_counts: Shape (L,), how many training samples carry each label.
        num_samples: The number of training samples.
        alpha: The least weight.
        beta: Steepness of the weights.
        mu: The ratio at which a weight is half way.
        negative_scale: Scale of the negative labels' scores.
        prior_scale: How much of the label's prior log odds to take off.
        gamma: Focus.
        label_weight: A number or of shape (L,).
        pos_weight: As `label_weight`; multiplies the positive terms.
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> loss = DistributionBalancedLoss(label_counts=torch.tensor([90, 5, 1]), num_samples=100)
        >>> loss(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.0024)
    """

    function = staticmethod(distribution_balanced_loss)

    def __init__(
        self,
        *,
        label_counts: Tensor,
        num_samples: int,
        alpha: float = 0.1,
        beta: float = 10.0,
        mu: float = 0.2,
        negative_scale: float = 2.0,
        prior_scale: float = 0.05,
        gamma: float = 2.0,
        label_weight: Weight | None = None,
        pos_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            label_counts=label_counts,
            num_samples=num_samples,
            alpha=alpha,
            beta=beta,
            mu=mu,
            negative_scale=negative_scale,
            prior_scale=prior_scale,
            gamma=gamma,
            label_weight=label_weight,
            pos_weight=pos_weight,
            reduction=reduction,
        )


class CBNTRLoss(LossModule):
    """`cb_ntr_loss` as a module.

    Args:
        label_counts: Shape (L,), how many training samples carry each label.
        num_samples: The number of training samples.
        beta: In [0, 1); 0 weighs all labels alike.
        negative_scale: Scale of the negative labels' scores.
        prior_scale: How much of the label's prior log odds to take off.
        gamma: Focus.
        label_weight: A number or of shape (L,).
        pos_weight: As `label_weight`; multiplies the positive terms.
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> loss = CBNTRLoss(label_counts=torch.tensor([90, 5, 1]), num_samples=100)
        >>> loss(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.0003)
    """

    function = staticmethod(cb_ntr_loss)

    def __init__(
        self,
        *,
        label_counts: Tensor,
        num_samples: int,
        beta: float = 0.9,
        negative_scale: float = 2.0,
        prior_scale: float = 0.05,
        gamma: float = 2.0,
        label_weight: Weight | None = None,
        pos_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            label_counts=label_counts,
            num_samples=num_samples,
            beta=beta,
            negative_scale=negative_scale,
            prior_scale=prior_scale,
            gamma=gamma,
            label_weight=label_weight,
            pos_weight=pos_weight,
            reduction=reduction,
        )


class LogitAdjustedLoss(nn.Module):
    """Any loss, trained on scores that are moved by the labels' priors.

    Args:
        loss: The loss module to wrap, with its options; or the name of a loss.
        label_counts: Shape (L,), how many training samples carry each label.
        num_samples: The number of training samples.
        tau: How far to move, in log priors.
        label_weight: Of the loss by name.
        pos_weight: Of the loss by name.
        reduction: Of the loss by name.

    Examples:
        >>> from zlpr.losses import ZLPRLoss
        >>> counts = torch.tensor([90, 5, 1])
        >>> loss = LogitAdjustedLoss(ZLPRLoss(), label_counts=counts, num_samples=100)
        >>> loss(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.1588)
    """

    label_counts: Tensor

    def __init__(
        self,
        loss: nn.Module | str = "bce",
        *,
        label_counts: Tensor,
        num_samples: int,
        tau: float = 1.0,
        label_weight: Weight | None = None,
        pos_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        options = {"label_weight": label_weight, "pos_weight": pos_weight, "reduction": reduction}
        if isinstance(loss, str):
            loss = _adjustable(loss).module(**options)
        elif options != {"label_weight": None, "pos_weight": None, "reduction": "mean"}:
            raise ValueError("weights and reduction are the wrapped module's; give them to it")
        self.loss = loss
        logit_adjustment(label_counts, num_samples, tau=tau)  # for its checks
        self.register_buffer("label_counts", label_counts, persistent=False)
        self.num_samples, self.tau = num_samples, tau

    def forward(
        self,
        scores: Tensor,
        targets: Tensor,
        label_mask: Tensor | None = None,
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        """The wrapped loss of the adjusted scores."""
        counts = self.label_counts.to(working_dtype(scores))
        adjusted = scores.to(counts.dtype) + logit_adjustment(
            counts, self.num_samples, tau=self.tau
        )
        loss: Tensor = self.loss(adjusted, targets, label_mask, sample_weight)
        return loss

    def begin_epoch(self, epoch: int) -> None:
        """Tell a wrapped loss that is another from some epoch on which one begins, from 1."""
        tell = getattr(self.loss, "begin_epoch", None)
        if callable(tell):
            tell(epoch)

r"""Losses that judge each label by itself: BCE, focal, asymmetric, APL, Hill, SPLC.

Each is a sum over the labels of a positive and a negative term,
$\sum_l w_l\,u_l\,y_l\,f_+(s_l) + w_l\,(1 - y_l)\,f_-(s_l)$, with $p = \sigma(s)$.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from zlpr.losses._arguments import Weight, as_numbers, check_number
from zlpr.losses._cells import Cells, prepare
from zlpr.losses._logsumexp import softplus
from zlpr.losses._module import LossModule
from zlpr.losses._reduce import Reduction, reduce

Term = Callable[[Tensor], Tensor]

# Scores as wrong as that have a focus of 1, whatever the dtype.
_FAR = 1000.0


def bce_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Binary cross entropy, summed over the labels.

    $$\ell(s, y) = \sum_l w_l \big( u_l\,y_l \log(1 + e^{-s_l})
                 + (1 - y_l) \log(1 + e^{s_l}) \big)$$

    Decides at 0. `torch.nn.BCEWithLogitsLoss` averages over the labels, too: its value is this one
    divided by L.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer, or soft targets in [0, 1].
        label_mask: Shape (L,) or (..., L), bool; False = unknown or impossible label.
        label_weight: $w$, a number or of shape (L,) or (..., L), at least 0.
            More than 1.8e19 (9.7e288 in float64) counts as that.
        pos_weight: $u$, as `label_weight`; multiplies the positive terms.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> bce_loss(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.4888)

    References:
        Zhang and Zhou, "A Review on Multi-Label Learning Algorithms", 2014.
    """
    cells = prepare(scores, targets, label_mask, label_weight, pos_weight)
    return reduce(sum_of_wrongness(cells, softplus), sample_weight, reduction)


def focal_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    gamma: float = 2.0,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Focal loss: binary cross entropy that looks away from labels that are right already.

    $$\ell(s, y) = -\sum_l w_l \big( u_l\,y_l (1 - p_l)^\gamma \log p_l
                 + (1 - y_l)\,p_l^\gamma \log(1 - p_l) \big)$$

    Decides at 0. `gamma=0` is `bce_loss`.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer, or soft targets in [0, 1].
        gamma: How strongly to look away, at least 0.
        label_mask: Shape (L,) or (..., L), bool; False = unknown or impossible label.
        label_weight: $w$, a number or of shape (L,) or (..., L), at least 0.
            More than 1.8e19 (9.7e288 in float64) counts as that.
        pos_weight: $u$, as `label_weight`; multiplies the positive terms.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> focal_loss(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.0246)

    References:
        Lin et al., "Focal Loss for Dense Object Detection", 2017.
    """
    check_number("gamma", gamma, minimum=0.0)
    cells = prepare(scores, targets, label_mask, label_weight, pos_weight)
    values = sum_of_wrongness(cells, lambda z: focal_term(z, gamma))
    return reduce(values, sample_weight, reduction)


def asymmetric_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    gamma_positive: float = 1.0,
    gamma_negative: float = 4.0,
    margin: float = 0.05,
    focus_gradient: bool = False,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Asymmetric loss (ASL): focal loss that looks away from negative labels sooner.

    $$\ell(s, y) = -\sum_l w_l \big( u_l\,y_l (1 - p_l)^{\gamma_+} \log p_l
                 + (1 - y_l)\,q_l^{\gamma_-} \log(1 - q_l) \big), \quad q = \max(p - m, 0)$$

    Decides at 0.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer, or soft targets in [0, 1].
        gamma_positive: $\gamma_+$, at least 0.
        gamma_negative: $\gamma_-$, at least 0.
        margin: m, in [0, 1); negative labels with a probability below it count for nothing.
        focus_gradient: Let the gradient flow through the powers, too; the authors do not.
        label_mask: Shape (L,) or (..., L), bool; False = unknown or impossible label.
        label_weight: $w$, a number or of shape (L,) or (..., L), at least 0.
            More than 1.8e19 (9.7e288 in float64) counts as that.
        pos_weight: $u$, as `label_weight`; multiplies the positive terms.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> asymmetric_loss(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.0157)

    References:
        Ridnik et al., "Asymmetric Loss For Multi-Label Classification", 2021.
    """
    check_number("gamma_positive", gamma_positive, minimum=0.0)
    check_number("gamma_negative", gamma_negative, minimum=0.0)
    check_number("margin", margin, minimum=0.0, below=1.0)
    cells = prepare(scores, targets, label_mask, label_weight, pos_weight)

    def positive(s: Tensor) -> Tensor:
        return focal_term(-s, gamma_positive, focus_gradient=focus_gradient)

    def negative(s: Tensor) -> Tensor:
        return _margin_term(s, gamma_negative, margin, focus_gradient=focus_gradient)

    return reduce(sum_terms(cells, positive, negative), sample_weight, reduction)


def asymmetric_polynomial_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    gamma_positive: float = 0.0,
    gamma_negative: float = 4.0,
    margin: float = 0.05,
    first: float = 1.0,
    second: float = -2.5,
    focus_gradient: bool = False,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Asymmetric polynomial loss (APL): ASL with other weights for two Taylor terms of $-\log p$.

    $$\ell(s, y) = \sum_l w_l \Big( u_l\,y_l (1 - p_l)^{\gamma_+} \big( -\log p_l
                 - \epsilon_1 (1 - p_l) - \tfrac{\epsilon_2}{2} (1 - p_l)^2 \big)
                 - (1 - y_l)\,q_l^{\gamma_-} \log(1 - q_l) \Big)$$

    with $q = \max(p - m, 0)$. Of $-\log p = \sum_m (1 - p)^m / m$ the first two terms get the
    weights $1 - \epsilon_1$ and $(1 - \epsilon_2) / 2$: by default 0 and 1.75. Decides at 0. With
    `first=0, second=0` this is `asymmetric_loss`.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer, or soft targets in [0, 1].
        gamma_positive: $\gamma_+$, at least 0.
        gamma_negative: $\gamma_-$, at least 0.
        margin: m, in [0, 1); negative labels with a probability below it count for nothing.
        first: $\epsilon_1$, taken off the weight of the first Taylor term.
        second: $\epsilon_2$, of which a half is taken off the weight of the second.
        focus_gradient: Let the gradient flow through the powers, too; the authors do not.
        label_mask: Shape (L,) or (..., L), bool; False = unknown or impossible label.
        label_weight: $w$, a number or of shape (L,) or (..., L), at least 0.
            More than 1.8e19 (9.7e288 in float64) counts as that.
        pos_weight: $u$, as `label_weight`; multiplies the positive terms.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> scores, targets = torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]])
        >>> asymmetric_polynomial_loss(scores, targets)
        tensor(0.0261)

    References:
        Huang et al., "Asymmetric Polynomial Loss for Multi-Label Classification", 2023.
    """
    check_number("gamma_positive", gamma_positive, minimum=0.0)
    check_number("gamma_negative", gamma_negative, minimum=0.0)
    check_number("margin", margin, minimum=0.0, below=1.0)
    check_number("first", first)
    check_number("second", second)
    cells = prepare(scores, targets, label_mask, label_weight, pos_weight)

    def positive(s: Tensor) -> Tensor:
        rest = torch.sigmoid(-s)
        focus = sigmoid_power(-s, gamma_positive)
        term = softplus(-s) - rest * (first + 0.5 * second * rest)
        return (focus if focus_gradient else focus.detach()) * term

    def negative(s: Tensor) -> Tensor:
        return _margin_term(s, gamma_negative, margin, focus_gradient=focus_gradient)

    return reduce(sum_terms(cells, positive, negative), sample_weight, reduction)


def hill_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    weighting: float = 1.5,
    margin: float = 1.0,
    gamma: float = 2.0,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Hill loss: forgives confident "false" positives, which may be labels that were missed.

    $$\ell(s, y) = \sum_l w_l \big( -u_l\,y_l (1 - \pi_l)^\gamma \log \pi_l
                 + (1 - y_l) (\lambda - p_l)\,p_l^2 \big), \quad \pi = \sigma(s - m)$$

    Decides at 0.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer, or soft targets in [0, 1].
        weighting: $\lambda$, at least 1; at 1.5 the slope is 0 for p = 0 and p = 1.
        margin: m, what a positive label's score has to exceed.
        gamma: The focus of the positive terms, at least 0.
        label_mask: Shape (L,) or (..., L), bool; False = unknown or impossible label.
        label_weight: $w$, a number or of shape (L,) or (..., L), at least 0.
            More than 1.8e19 (9.7e288 in float64) counts as that.
        pos_weight: $u$, as `label_weight`; multiplies the positive terms.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> hill_loss(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.1150)

    References:
        Zhang et al., "Simple and Robust Loss Design for Multi-Label Learning with Missing Labels",
        2021.
    """
    check_number("weighting", weighting, minimum=1.0)
    check_number("margin", margin)
    check_number("gamma", gamma, minimum=0.0)
    cells = prepare(scores, targets, label_mask, label_weight, pos_weight)

    def negative(s: Tensor) -> Tensor:
        p = torch.sigmoid(s)
        return (weighting - 1 + torch.sigmoid(-s)) * p**2  # 1 - p keeps its digits so

    values = sum_terms(cells, lambda s: focal_term(margin - s, gamma), negative)
    return reduce(values, sample_weight, reduction)


def splc_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    tau: float = 0.6,
    margin: float = 1.0,
    gamma: float = 2.0,
    correct: bool = True,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Self-paced loss correction (SPLC): a label that is missing but likely counts as positive.

    $$\ell(s, y) = \sum_l w_l \begin{cases}
        u_l\,f(m - s_l) & y_l = 1 \\
        u_l\,f(-s_l) & y_l = 0 \text{ and } \sigma(s_l) > \tau \\
        f(s_l) & \text{else} \end{cases}, \quad f(z) = \sigma(z)^\gamma \log(1 + e^z)$$

    Decides at 0. For data in which some true labels are missing. A network that has learned
    nothing yet would correct at random, so the first epoch goes without; see `SPLCLoss`.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer or float, each 0 or 1.
        tau: $\tau$, in (0, 1): above this probability a missing label counts as positive.
        margin: m, what a given label's score has to exceed.
        gamma: $\gamma$, the focus, at least 0.
        correct: False corrects nothing, as in the first epoch.
        label_mask: Shape (L,) or (..., L), bool; False = unknown or impossible label.
        label_weight: $w$, a number or of shape (L,) or (..., L), at least 0.
            More than 1.8e19 (9.7e288 in float64) counts as that.
        pos_weight: $u$, as `label_weight`; multiplies the positive terms.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> scores, targets = torch.tensor([[2.0, 1.0, -3.0]]), torch.tensor([[1, 0, 0]])
        >>> splc_loss(scores, targets), splc_loss(scores, targets, correct=False)
        (tensor(0.0454), tensor(0.7246))

    References:
        Zhang et al., "Simple and Robust Loss Design for Multi-Label Learning with Missing Labels",
        2021.
    """
    check_number("tau", tau, above=0.0, below=1.0)
    check_number("margin", margin)
    check_number("gamma", gamma, minimum=0.0)
    if not isinstance(correct, bool):
        raise TypeError(f"correct must be True or False, got {correct!r}")
    cells = prepare(scores, targets, label_mask, label_weight, pos_weight, hard=True)
    shift = cells.targets.to(cells.scores.dtype) * margin
    if correct:
        is_likely = cells.scores.detach() > math.log(tau / (1 - tau))
        cells = cells._replace(targets=cells.targets | is_likely)
    values = sum_terms(
        cells, lambda s: focal_term(shift - s, gamma), lambda s: focal_term(s, gamma)
    )
    return reduce(values, sample_weight, reduction)


class BCELoss(LossModule):
    """`bce_loss` as a module.

    Args:
        label_weight: A number or of shape (L,).
        pos_weight: As `label_weight`; multiplies the positive terms.
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> BCELoss()(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.4888)
    """

    function = staticmethod(bce_loss)

    def __init__(
        self,
        *,
        label_weight: Weight | None = None,
        pos_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(label_weight=label_weight, pos_weight=pos_weight, reduction=reduction)


class FocalLoss(LossModule):
    """`focal_loss` as a module.

    Args:
        gamma: How strongly to look away from labels that are right already.
        label_weight: A number or of shape (L,).
        pos_weight: As `label_weight`; multiplies the positive terms.
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> FocalLoss()(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.0246)
    """

    function = staticmethod(focal_loss)

    def __init__(
        self,
        *,
        gamma: float = 2.0,
        label_weight: Weight | None = None,
        pos_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            gamma=gamma, label_weight=label_weight, pos_weight=pos_weight, reduction=reduction
        )


class AsymmetricLoss(LossModule):
    """`asymmetric_loss` as a module.

    Args:
        gamma_positive: Focus of the positive terms.
        gamma_negative: Focus of the negative terms.
        margin: Negative labels with a probability below it count for nothing.
        focus_gradient: Let the gradient flow through the powers, too.
        label_weight: A number or of shape (L,).
        pos_weight: As `label_weight`; multiplies the positive terms.
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> AsymmetricLoss()(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.0157)
    """

    function = staticmethod(asymmetric_loss)

    def __init__(
        self,
        *,
        gamma_positive: float = 1.0,
        gamma_negative: float = 4.0,
        margin: float = 0.05,
        focus_gradient: bool = False,
        label_weight: Weight | None = None,
        pos_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            gamma_positive=gamma_positive,
            gamma_negative=gamma_negative,
            margin=margin,
            focus_gradient=focus_gradient,
            label_weight=label_weight,
            pos_weight=pos_weight,
            reduction=reduction,
        )


class AsymmetricPolynomialLoss(LossModule):
    """`asymmetric_polynomial_loss` as a module.

    Args:
        gamma_positive: Focus of the positive terms.
        gamma_negative: Focus of the negative terms.
        margin: Negative labels with a probability below it count for nothing.
        first: Taken off the weight of the first Taylor term.
        second: Half of it is taken off the weight of the second.
        focus_gradient: Let the gradient flow through the powers, too.
        label_weight: A number or of shape (L,).
        pos_weight: As `label_weight`; multiplies the positive terms.
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> AsymmetricPolynomialLoss()(torch.tensor([[2.0, -1.0]]), torch.tensor([[1, 0]]))
        tensor(0.0261)
    """

    function = staticmethod(asymmetric_polynomial_loss)

    def __init__(
        self,
        *,
        gamma_positive: float = 0.0,
        gamma_negative: float = 4.0,
        margin: float = 0.05,
        first: float = 1.0,
        second: float = -2.5,
        focus_gradient: bool = False,
        label_weight: Weight | None = None,
        pos_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            gamma_positive=gamma_positive,
            gamma_negative=gamma_negative,
            margin=margin,
            first=first,
            second=second,
            focus_gradient=focus_gradient,
            label_weight=label_weight,
            pos_weight=pos_weight,
            reduction=reduction,
        )


class HillLoss(LossModule):
    """`hill_loss` as a module.

    Args:
        weighting: Height of the negative terms.
        margin: What a positive label's score has to exceed.
        gamma: Focus of the positive terms.
        label_weight: A number or of shape (L,).
        pos_weight: As `label_weight`; multiplies the positive terms.
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> HillLoss()(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.1150)
    """

    function = staticmethod(hill_loss)

    def __init__(
        self,
        *,
        weighting: float = 1.5,
        margin: float = 1.0,
        gamma: float = 2.0,
        label_weight: Weight | None = None,
        pos_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            weighting=weighting,
            margin=margin,
            gamma=gamma,
            label_weight=label_weight,
            pos_weight=pos_weight,
            reduction=reduction,
        )


class SPLCLoss(LossModule):
    """`splc_loss` as a module, which corrects from an epoch on.

    Tell it each epoch, from 1 on, by `begin_epoch`, as `zlpr train` does. Until it is told, it
    corrects in every call.

    Args:
        tau: Above this probability a missing label counts as positive.
        margin: What a given label's score has to exceed.
        gamma: Focus.
        first_epoch: The first epoch that corrects.
        label_weight: A number or of shape (L,).
        pos_weight: As `label_weight`; multiplies the positive terms.
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> loss, scores = SPLCLoss(), torch.tensor([[2.0, 1.0, -3.0]])
        >>> loss.begin_epoch(1)
        >>> loss(scores, torch.tensor([[1, 0, 0]]))
        tensor(0.7246)
        >>> loss.begin_epoch(2)
        >>> loss(scores, torch.tensor([[1, 0, 0]]))
        tensor(0.0454)
    """

    function = staticmethod(splc_loss)

    def __init__(
        self,
        *,
        tau: float = 0.6,
        margin: float = 1.0,
        gamma: float = 2.0,
        first_epoch: int = 2,
        label_weight: Weight | None = None,
        pos_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        check_number("first_epoch", first_epoch, minimum=1)
        super().__init__(
            tau=tau,
            margin=margin,
            gamma=gamma,
            correct=True,
            label_weight=label_weight,
            pos_weight=pos_weight,
            reduction=reduction,
        )
        self.first_epoch = first_epoch

    def begin_epoch(self, epoch: int) -> None:
        """Correct in the epoch that begins, the first of which is 1, or not yet."""
        self.correct = epoch >= self.first_epoch


def focal_term(
    wrongness: Tensor, gamma: float, *, scale: float = 1.0, focus_gradient: bool = True
) -> Tensor:
    """`sigma(c z)^gamma log(1 + e^(c z)) / c` of a score z that is right where it is negative.

    Far on the wrong side it is z itself, and computed so: the focus then has a slope of 0, which
    must not meet an infinite product.
    """
    if gamma == 0.0:
        return softplus(wrongness, scale)
    near = wrongness.clamp(max=_FAR / scale)
    focus = sigmoid_power(scale * near if scale != 1.0 else near, gamma)
    term = (focus if focus_gradient else focus.detach()) * softplus(near, scale)
    return term + F.relu(wrongness - _FAR / scale)


def sigmoid_power(values: Tensor, exponent: float) -> Tensor:
    """`sigma(v)^a`, for exponents below 1 in the log domain, in which its slope stays finite."""
    if exponent < 1.0:
        return torch.exp(exponent * F.logsigmoid(values))
    return torch.sigmoid(values) ** exponent


def _margin_term(s: Tensor, gamma: float, margin: float, *, focus_gradient: bool) -> Tensor:
    """`-q^gamma log(1 - q)` with `q = max(sigma(s) - m, 0)`, of ASL's negative labels."""
    if margin == 0.0:
        return focal_term(s, gamma, focus_gradient=focus_gradient)
    shifted = F.relu(torch.sigmoid(s) - margin)
    focus = _power(shifted if focus_gradient else shifted.detach(), gamma)
    return torch.log1p(-shifted) * -focus


def _power(base: Tensor, exponent: float) -> Tensor:
    """`base ** exponent`, 1 for an exponent of 0, with a finite slope at 0."""
    if exponent == 0.0:
        return torch.ones_like(base)
    if exponent >= 1.0:
        return base**exponent
    safe = torch.where(base == 0, 1.0, base)
    return torch.where(base == 0, 0.0, safe**exponent)


def sum_terms(cells: Cells, positive: Term, negative: Term) -> Tensor:
    """One value per sample: its labels' positive and negative terms, weighted."""
    terms = cells.positive * positive(cells.scores) + cells.negative * negative(cells.scores)
    return terms.sum(dim=-1)


def sum_of_wrongness(cells: Cells, term: Term) -> Tensor:
    """The same for a loss that is one function of `-s` where positive and of `s` where negative.

    For targets of 0 and 1 the function then is computed once.
    """
    if cells.targets.dtype is not torch.bool:
        return sum_terms(cells, lambda s: term(-s), term)
    sign = as_numbers(cells.targets, cells.scores.dtype).mul_(-2).add_(1)
    terms = term(cells.scores * sign)
    weight = cells.weight
    return (terms if weight is None else terms * weight).sum(dim=-1)

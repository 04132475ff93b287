"""Losses that measure the overlap of predicted and true labels: dice and F1 in soft form.

Two of them compare over the batch: their value is a function of sums over the batch's samples.
Under data parallelism give them a `batch` (`zlpr.losses.BatchReduction`) that joins the
processes' sums.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from zlpr.losses._arguments import Weight, as_numbers, check_number, check_weight, working_dtype
from zlpr.losses._cells import Cells, limited_weight, prepare
from zlpr.losses._module import LossModule
from zlpr.losses._reduce import (
    ONE_PROCESS,
    BatchReduction,
    Reduction,
    check_reduction,
    check_sample_weight,
    reduce,
)
from zlpr.losses.binary import sigmoid_power, sum_terms


def dice1_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    smoothing: float = 1.0,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Dice loss, label by label (DL1).

    $$\ell(s, y) = \sum_l w_l \Big( u_l\,y_l \Big(1 - \frac{2 p_l + g}{p_l^2 + 1 + g}\Big)
                 + (1 - y_l) \Big(1 - \frac{g}{p_l^2 + g}\Big) \Big), \quad p = \sigma(s)$$

    Decides at 0.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer, or soft targets in [0, 1].
        smoothing: g, above 0.
        label_mask: Shape (L,) or (..., L), bool; False = unknown or impossible label.
        label_weight: $w$, a number or of shape (L,) or (..., L), at least 0.
            More than 1.8e19 (9.7e288 in float64) counts as that.
        pos_weight: $u$, as `label_weight`; multiplies the positive terms.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> dice1_loss(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.0748)

    References:
        Milletari et al., "V-Net", 2016; Li et al., "Dice Loss for Data-imbalanced NLP Tasks", 2020.
    """
    check_number("smoothing", smoothing, above=0.0)
    cells = prepare(scores, targets, label_mask, label_weight, pos_weight)

    def positive(s: Tensor) -> Tensor:
        p, q = torch.sigmoid(s), torch.sigmoid(-s)
        return q**2 / (p**2 + 1 + smoothing)  # p^2 + 1 - 2p = (1 - p)^2

    def negative(s: Tensor) -> Tensor:
        square = torch.sigmoid(s) ** 2
        return square / (square + smoothing)

    return reduce(sum_terms(cells, positive, negative), sample_weight, reduction)


def self_adjusting_dice_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    alpha: float = 0.6,
    smoothing: float = 1.0,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Self-adjusting dice loss: dice on $(1 - p)^\alpha p$, which looks away from easy labels.

    $$\ell(s, y) = \sum_l w_l\,u_l^{y_l} \Big(1 - \frac{2 (1 - p_l)^\alpha p_l\,y_l + g}
                 {(1 - p_l)^\alpha p_l + y_l + g}\Big), \quad p = \sigma(s)$$

    Decides at 0: a positive label is best off at $p = 1 / (1 + \alpha)$, so keep $\alpha < 1$.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer, or soft targets in [0, 1], which mix the two cases.
        alpha: $\alpha$, at least 0.
        smoothing: g, above 0.
        label_mask: Shape (L,) or (..., L), bool; False = unknown or impossible label.
        label_weight: $w$, a number or of shape (L,) or (..., L), at least 0.
            More than 1.8e19 (9.7e288 in float64) counts as that.
        pos_weight: $u$, as `label_weight`; multiplies the positive terms.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> self_adjusting_dice_loss(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.5621)

    References:
        Li et al., "Dice Loss for Data-imbalanced NLP Tasks", 2020.
    """
    check_number("alpha", alpha, minimum=0.0)
    check_number("smoothing", smoothing, above=0.0)
    cells = prepare(scores, targets, label_mask, label_weight, pos_weight)

    def positive(s: Tensor) -> Tensor:
        p, q = torch.sigmoid(s), torch.sigmoid(-s)
        # 1 - p q^alpha, which keeps its digits for p near 1
        rest = q - p * torch.expm1(alpha * F.logsigmoid(-s))
        return rest / (p * sigmoid_power(-s, alpha) + 1 + smoothing)

    def negative(s: Tensor) -> Tensor:
        adjusted = torch.sigmoid(s) * sigmoid_power(-s, alpha)
        return adjusted / (adjusted + smoothing)

    return reduce(sum_terms(cells, positive, negative), sample_weight, reduction)


def dice2_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    smoothing: float = 1.0,
    batch: BatchReduction = ONE_PROCESS,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Dice loss over the batch, label by label (DL2).

    $$\ell = \sum_l w_l \Big(1 - \frac{2 \sum_k p_{kl}\,y_{kl} + g}
           {\sum_k p_{kl}^2 + \sum_k y_{kl} + g}\Big), \quad p = \sigma(s)$$

    k runs over the samples of the batch. Decides at 0.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer, or soft targets in [0, 1].
        smoothing: g, above 0.
        batch: What joins the sums over the batch when several processes share it.
        label_mask: Shape (L,) or (..., L), bool; a cell with False is left out of the sums.
        label_weight: $w$, a number or of shape (L,).
        sample_weight: Shape (...), multiplies the sample's part of each sum.
        reduction: "none" gives the labels' terms, shape (L,); "sum" and "mean" both give their
            sum, which is the paper's loss of a batch.

    Returns:
        A number, or shape (L,) for "none"; float32 for scores in half precision.

    Examples:
        >>> scores = torch.tensor([[2.0, -1.0], [-3.0, 1.0]])
        >>> dice2_loss(scores, torch.tensor([[1, 0], [0, 1]]))
        tensor(0.0614)

    References:
        Li et al., "Dice Loss for Data-imbalanced NLP Tasks", 2020.
    """
    check_number("smoothing", smoothing, above=0.0)
    check_reduction(reduction)
    cells = prepare(scores, targets, label_mask)
    weight = label_terms_weight(label_weight, scores)
    truth, p, wrong = _truth_and_probabilities(cells)
    # p^2 + y - 2py, which keeps its digits where the loss is small
    is_hard = cells.targets.dtype is torch.bool
    gap = wrong.square() if is_hard else (p - truth) ** 2 + truth - truth**2
    each = _each_sample(cells, check_sample_weight(scores, sample_weight), batch)
    gaps, both = each.sums([gap, p * truth], batch)
    terms = gaps / (gaps + 2 * both + smoothing / each.unit)
    terms = terms if weight is None else weight * terms
    return terms if reduction == "none" else torch.sum(terms)


def sigmoid_f1_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    batch: BatchReduction = ONE_PROCESS,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""sigmoidF1: one minus the macro F1 of a batch, with probabilities for predictions.

    $$\ell = \frac{1}{L} \sum_l w_l \Big(1 - \frac{2\,tp_l}{2\,tp_l + fn_l + fp_l}\Big)$$

    $$tp_l = \sum_k p_{kl}\,y_{kl},\; fn_l = \sum_k (1 - p_{kl})\,y_{kl},\;
    fp_l = \sum_k p_{kl} (1 - y_{kl})$$

    k runs over the samples of the batch, $p = \sigma(s)$. Decides at 0.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer, or soft targets in [0, 1].
        batch: What joins the sums over the batch when several processes share it.
        label_mask: Shape (L,) or (..., L), bool; a cell with False is left out of the sums, a
            label without any cell out of the mean.
        label_weight: $w$, a number or of shape (L,).
        sample_weight: Shape (...), multiplies the sample's part of each sum.
        reduction: "none" gives the labels' terms, shape (L,); "sum" their sum; "mean" their mean,
            the authors' loss of a batch.

    Returns:
        A number, or shape (L,) for "none"; float32 for scores in half precision.

    Examples:
        >>> scores = torch.tensor([[2.0, -1.0], [-3.0, 1.0]])
        >>> sigmoid_f1_loss(scores, torch.tensor([[1, 0], [0, 1]]))
        tensor(0.1777)

    References:
        Bénédict et al., "sigmoidF1: A Smooth F1 Score Surrogate Loss for Multilabel
        Classification", 2022.
    """
    check_reduction(reduction)
    cells = prepare(scores, targets, label_mask)
    weight = label_terms_weight(label_weight, scores)
    truth, p, wrong = _truth_and_probabilities(cells)
    each = _each_sample(cells, check_sample_weight(scores, sample_weight), batch)
    # 2 tp + fn + fp = sum p + sum y, of which fn + fp are wrong
    errors, predicted, true, count = each.sums([wrong, p, truth, torch.ones_like(p)], batch)
    total, seen = predicted + true, count > 0
    share = torch.where(total == 0, 1.0, errors / torch.where(total == 0, 1.0, total))
    share = share if weight is None else weight * share
    terms = torch.where(seen, share, 0.0)
    if reduction == "none":
        return terms
    return terms.sum() if reduction == "sum" else terms.sum() / seen.sum().clamp(min=1)


class Dice1Loss(LossModule):
    """`dice1_loss` as a module.

    Args:
        smoothing: g, above 0.
        label_weight: A number or of shape (L,).
        pos_weight: As `label_weight`; multiplies the positive terms.
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> Dice1Loss()(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.0748)
    """

    function = staticmethod(dice1_loss)

    def __init__(
        self,
        *,
        smoothing: float = 1.0,
        label_weight: Weight | None = None,
        pos_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            smoothing=smoothing,
            label_weight=label_weight,
            pos_weight=pos_weight,
            reduction=reduction,
        )


class SelfAdjustingDiceLoss(LossModule):
    """`self_adjusting_dice_loss` as a module.

    Args:
        alpha: How strongly to look away from easy labels.
        smoothing: g, above 0.
        label_weight: A number or of shape (L,).
        pos_weight: As `label_weight`; multiplies the positive terms.
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> SelfAdjustingDiceLoss()(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.5621)
    """

    function = staticmethod(self_adjusting_dice_loss)

    def __init__(
        self,
        *,
        alpha: float = 0.6,
        smoothing: float = 1.0,
        label_weight: Weight | None = None,
        pos_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            alpha=alpha,
            smoothing=smoothing,
            label_weight=label_weight,
            pos_weight=pos_weight,
            reduction=reduction,
        )


class Dice2Loss(LossModule):
    """`dice2_loss` as a module.

    Args:
        smoothing: g, above 0.
        batch: What joins the sums over the batch when several processes share it.
        label_weight: A number or of shape (L,).
        reduction: "mean", "sum" or "none", as in `dice2_loss`.

    Examples:
        >>> Dice2Loss()(torch.tensor([[2.0, -1.0], [-3.0, 1.0]]), torch.tensor([[1, 0], [0, 1]]))
        tensor(0.0614)
    """

    function = staticmethod(dice2_loss)

    def __init__(
        self,
        *,
        smoothing: float = 1.0,
        batch: BatchReduction = ONE_PROCESS,
        label_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            smoothing=smoothing, batch=batch, label_weight=label_weight, reduction=reduction
        )


class SigmoidF1Loss(LossModule):
    """`sigmoid_f1_loss` as a module.

    Args:
        batch: What joins the sums over the batch when several processes share it.
        label_weight: A number or of shape (L,).
        reduction: "mean", "sum" or "none", as in `sigmoid_f1_loss`.

    Examples:
        >>> loss = SigmoidF1Loss()
        >>> loss(torch.tensor([[2.0, -1.0], [-3.0, 1.0]]), torch.tensor([[1, 0], [0, 1]]))
        tensor(0.1777)
    """

    function = staticmethod(sigmoid_f1_loss)

    def __init__(
        self,
        *,
        batch: BatchReduction = ONE_PROCESS,
        label_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(batch=batch, label_weight=label_weight, reduction=reduction)


def _truth_and_probabilities(cells: Cells) -> tuple[Tensor, Tensor, Tensor]:
    """The targets y, the probabilities p, and how wrong these are: y (1 - p) + (1 - y) p."""
    truth = as_numbers(cells.targets, cells.scores.dtype)
    if cells.targets.dtype is not torch.bool:
        p = torch.sigmoid(cells.scores)
        return truth, p, truth * torch.sigmoid(-cells.scores) + (1 - truth) * p
    sign = truth.mul(-2).add_(1)
    wrong = torch.sigmoid(cells.scores * sign)
    return truth, torch.addcmul(truth, wrong, sign), wrong


@dataclass(frozen=True)
class _EachSample:
    """What each cell counts for in a sum over the batch, in units of the largest weight.

    Attributes:
        factor: Broadcasts to (..., L); None where every cell counts once.
        unit: At least 1; the largest sample weight.
    """

    factor: Tensor | None
    unit: Tensor | float

    def sums(self, values: list[Tensor], batch: BatchReduction) -> Sequence[Tensor]:
        """The sums over the samples of several tensors of shape (..., L); of shape (L,) each."""
        if self.factor is not None:
            values = [value * self.factor for value in values]
        if values[0].dim() > 1:
            samples = tuple(range(values[0].dim() - 1))
            values = [value.sum(dim=samples) for value in values]
        return values if batch is ONE_PROCESS else batch.sum(torch.stack(values)).unbind()


def _each_sample(cells: Cells, sample_weight: Tensor | None, batch: BatchReduction) -> _EachSample:
    if sample_weight is None:
        return _EachSample(cells.mask, 1.0)
    if sample_weight.numel() == 0:
        largest = sample_weight.new_ones(())
    else:
        largest = sample_weight.detach().abs().amax()
    unit = batch.max(largest).clamp(min=1.0)
    factor = (sample_weight / unit).unsqueeze(-1)
    return _EachSample(factor if cells.mask is None else factor * cells.mask, unit)


def label_terms_weight(label_weight: Weight | None, scores: Tensor) -> Weight | None:
    """A weight for the labels' terms of a loss over the batch, which has none per sample."""
    weight = limited_weight(
        check_weight("label_weight", label_weight, scores), working_dtype(scores)
    )
    if isinstance(weight, Tensor) and weight.dim() > 1:
        raise ValueError(
            f"label_weight must be a number or have the shape {tuple(scores.shape[-1:])} in a loss "
            f"over the batch, got {tuple(weight.shape)}"
        )
    return weight

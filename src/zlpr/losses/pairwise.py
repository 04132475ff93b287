"""Losses that put a sample's labels above its other labels; all but cross entropy over pairs.

They rank: adding a constant to all scores of a sample changes nothing, so none has a bound to
decide at. A sample without a pair, and one without a positive label in cross entropy, has the
loss 0 and no gradient. Targets must be 0 or 1, for soft targets do not define pairs; cross
entropy takes both.
"""

import math

import torch
from torch import Tensor

from zlpr.losses._arguments import Weight, check_number
from zlpr.losses._cells import (
    Cells,
    held,
    largest_score,
    prepare,
    with_finite_gradient,
    within_limits,
)
from zlpr.losses._hinge import RankWeight, hinge_sum, rank_of_labels, weigh_ranks
from zlpr.losses._logsumexp import (
    join_terms,
    log_of_product,
    logsumexp,
    no_logarithm,
    shifted_terms,
    softmax_shortfall,
    softplus,
)
from zlpr.losses._module import LossModule
from zlpr.losses._reduce import (
    ONE_PROCESS,
    BatchReduction,
    Reduction,
    check_reduction,
    check_sample_weight,
    reduce,
)


def cross_entropy_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Softmax cross entropy.

    $$\ell(s, y) = \sum_i \frac{w_i\,y_i}{\sum_l y_l} \log \sum_j e^{s_j - s_i}$$

    For one positive label i this is $\log(1 + \sum_{j \ne i} e^{s_j - s_i})$; several share the
    target evenly. Only ranks.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer, or soft targets in [0, 1].
        label_mask: Shape (L,) or (..., L), bool; False = unknown or impossible label.
        label_weight: $w$, a number or of shape (L,) or (..., L); weighs a label where positive.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> cross_entropy_loss(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.0550)

    References:
        Mahajan et al., "Exploring the Limits of Weakly Supervised Pretraining", 2018, for several
        positive labels.
    """
    cells = prepare(scores, targets, label_mask, label_weight)
    truth = (cells.targets * cells.known).to(cells.scores.dtype)
    total = truth.sum(dim=-1, keepdim=True)
    share = cells.positive / torch.where(total == 0, 1.0, total)
    values = (share * softmax_shortfall(cells.scores, cells.known)).sum(dim=-1)
    return reduce(values, sample_weight, reduction)


def decoupled_softmax_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Decoupled softmax: each positive label against the negative labels alone.

    $$\ell(s, y) = -\frac{1}{|P|} \sum_{i \in P} w_i\,u_i
                   \log\frac{e^{s_i}}{e^{s_i} + \sum_{j \in N} w_j\,e^{s_j}}$$

    Unlike in `cross_entropy_loss`, positive labels do not compete with each other. Only ranks.
    With one positive label this is the cross entropy.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer or float, each 0 or 1.
        label_mask: Shape (L,) or (..., L), bool; False = unknown or impossible label.
        label_weight: $w$, a number or of shape (L,) or (..., L), at least 0.
            More than 1.8e19 (9.7e288 in float64) counts as that.
        pos_weight: $u$, as `label_weight`, for positive labels.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> decoupled_softmax_loss(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.0550)

    References:
        Gupta et al., "Dual-Encoders for Extreme Multi-Label Classification", 2024.
    """
    cells = prepare(scores, targets, label_mask, label_weight, pos_weight, hard=True)
    number = (cells.targets & cells.known).sum(dim=-1, keepdim=True).clamp(min=1)
    value, log, terms, empty = shifted_terms(cells.scores, cells.negative)
    total = terms.sum(dim=-1, keepdim=True)
    # A sum is at least 1, but for a rounding, where it is not empty.
    logs = log + total.clamp(min=0.5).log()
    # The difference of scores first: what they have in common would cost digits.
    difference = value - cells.scores
    if empty is None:
        shortfall = softplus(difference + logs)
    else:  # an empty sum has slopes, up to e^80
        nothing = torch.where(empty, total, 0.0) * difference.clamp(max=80.0).exp()
        shortfall = softplus(difference + torch.where(empty, -torch.inf, logs)) + nothing.log1p()
    share = cells.positive.to(cells.scores.dtype) / number
    values = (share * shortfall).sum(dim=-1)
    return reduce(values, sample_weight, reduction)


def lsep_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    pairs: int | None = None,
    generator: torch.Generator | None = None,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Log-sum-exp pairwise loss (LSEP), over all pairs or a sample of them.

    $$\ell(s, y) = \log\Big(1 + \sum_{i \in P} \sum_{j \in N} w_i\,u_i\,w_j\,e^{s_j - s_i}\Big)$$

    Only ranks. Over all pairs the double sum is a product of two sums, so it costs O(L).

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer or float, each 0 or 1.
        pairs: Sum over at most so many pairs a sample, drawn at random without repetition; a
            sample that has no more keeps all of them. A pair with a weight of 0 is never drawn, so
            that this weight has no slope. None = all pairs.
        generator: Source of the draws; torch's default generator if None.
        label_mask: Shape (L,) or (..., L), bool; False = unknown or impossible label.
        label_weight: $w$, a number or of shape (L,) or (..., L), at least 0.
            More than 1.8e19 (9.7e288 in float64) counts as that.
        pos_weight: $u$, as `label_weight`, for positive labels.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> lsep_loss(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.0550)

    References:
        Li et al., "Improving Pairwise Ranking for Multi-label Image Classification", 2017.
    """
    if pairs is not None and (isinstance(pairs, bool) or not isinstance(pairs, int) or pairs < 1):
        raise ValueError(f"pairs must be None or an integer of at least 1, got {pairs!r}")
    cells = prepare(scores, targets, label_mask, label_weight, pos_weight, hard=True)
    if pairs is not None:
        return reduce(softplus(_sampled(cells, pairs, generator)), sample_weight, reduction)
    return reduce(_log1(*_log_pair_sum(cells)), sample_weight, reduction)


def bp_mll_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    log: bool = True,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""BP-MLL: the sum of the exponentials of all wrong-way score differences, or its logarithm.

    $$\ell(s, y) = \log \sum_{i \in P} \sum_{j \in N} w_i\,u_i\,w_j\,e^{s_j - s_i}$$

    Only ranks. The log form is not bounded below; the plain form grows without the logarithm, and
    is the dtype's largest number for score differences beyond 88 in float32.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer or float, each 0 or 1.
        log: The log form, in which it is trained; False for the plain sum.
        label_mask: Shape (L,) or (..., L), bool; False = unknown or impossible label.
        label_weight: $w$, a number or of shape (L,) or (..., L), at least 0.
            More than 1.8e19 (9.7e288 in float64) counts as that.
        pos_weight: $u$, as `label_weight`, for positive labels.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> scores, targets = torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]])
        >>> bp_mll_loss(scores, targets)
        tensor(-2.8731)
        >>> bp_mll_loss(scores, targets, log=False)
        tensor(0.0565)

    References:
        Zhang and Zhou, "Multilabel Neural Networks with Applications to Functional Genomics and
        Text Categorization", 2006.
    """
    if not isinstance(log, bool):
        raise TypeError(f"log must be True or False, got {log!r}")
    cells = prepare(scores, targets, label_mask, label_weight, pos_weight, hard=True)
    log_sum, nothing = _log_pair_sum(cells)
    if log:
        values = torch.where(log_sum < no_logarithm(log_sum.dtype), 0.0, log_sum)
    else:
        dtype = torch.finfo(log_sum.dtype)
        largest = (1 - dtype.eps) * math.log(dtype.max)  # which would else be rounded up
        values = torch.exp(held(with_finite_gradient(log_sum), -math.inf, largest))
        values = values if nothing is None else values + nothing
    return reduce(values, sample_weight, reduction)


def circle_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    gamma: float = 1.0,
    margin: float = 0.25,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Circle loss: LSEP that weighs each label by how far it is from its optimum.

    $$\ell(s, y) = \log\Big(1 + \sum_{j \in N} e^{\gamma\,a_j (s_j - m)}
                   \sum_{i \in P} e^{-\gamma\,a_i (s_i - (1 - m))}\Big)$$

    $$a_j = \max(0, s_j + m),\; a_i = \max(0, 1 + m - s_i)$$

    The weights a carry no gradient. Only ranks. It was made for similarities in [-1, 1], where a
    larger `gamma` (64 and more) is usual.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer or float, each 0 or 1.
        gamma: Scale, above 0.
        margin: m, the relaxation.
        label_mask: Shape (L,) or (..., L), bool; False = unknown or impossible label.
        label_weight: A number or of shape (L,) or (..., L); multiplies the exponentials.
        pos_weight: As `label_weight`, for positive labels.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> circle_loss(torch.tensor([[0.9, -0.5, 0.2]]), torch.tensor([[1, 0, 0]]))
        tensor(1.0566)

    References:
        Sun et al., "Circle Loss: A Unified Perspective of Pair Similarity Optimization", 2020.
    """
    check_number("gamma", gamma, above=0.0)
    check_number("margin", margin)
    cells = prepare(scores, targets, label_mask, label_weight, pos_weight, hard=True)
    # An impossible label, of which the score is as low as can be, has a weight of 0.
    largest = largest_score(cells.scores.dtype)
    s = cells.scores.detach()
    weight_negative = (gamma * (s + margin).clamp(min=0)).clamp(max=largest)
    weight_positive = (gamma * (1 + margin - s).clamp(min=0)).clamp(max=largest)
    negative = within_limits(weight_negative * (cells.scores - margin))
    positive = within_limits(-weight_positive * (cells.scores - (1 - margin)))
    log_sum = log_of_product((negative, positive), (cells.negative, cells.positive))
    return reduce(_log1(*log_sum), sample_weight, reduction)


def ranking_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    margin: float = 1.0,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Ranking loss (RL): a hinge for each pair of a positive and a negative label.

    $$\ell(s, y) = \sum_{i \in P} \sum_{j \in N} w_i\,u_i\,w_j \max(0, a + s_j - s_i)$$

    Only ranks. Exact in O(L log L) time and O(L) memory a sample.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer or float, each 0 or 1.
        margin: a.
        label_mask: Shape (L,) or (..., L), bool; False = unknown or impossible label.
        label_weight: $w$, a number or of shape (L,) or (..., L), at least 0.
            More than 1.8e19 (9.7e288 in float64) counts as that. It gets no gradient.
        pos_weight: $u$, as `label_weight`, for positive labels.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> ranking_loss(torch.tensor([[0.5, -1.0, 0.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.5000)

    References:
        Gong et al., "Deep Convolutional Ranking for Multilabel Image Annotation", 2014.
    """
    check_number("margin", margin)
    cells = prepare(scores, targets, label_mask, label_weight, pos_weight, hard=True)
    values = hinge_sum(cells, margin)
    return reduce(values, sample_weight, reduction)


def warp_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    margin: float = 1.0,
    rank_weight: str | RankWeight = "identity",
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""WARP: the ranking loss, each positive label weighted by its rank.

    $$\ell(s, y) = \sum_{i \in P} \sum_{j \in N} \omega(r_i)\,w_i\,u_i\,w_j
                   \max(0, a + s_j - s_i)$$

    $r_i$ is the rank of label i among all labels of the sample, 1 for the top, and carries no
    gradient; labels with equal scores share the better rank. Only ranks. Exact in O(L log L) time
    and O(L) memory a sample: the rank is computed, not estimated by drawing negatives.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer or float, each 0 or 1.
        margin: a.
        rank_weight: $\omega$: "identity", r itself, as in the paper; "harmonic",
            $1 + \frac12 + \dots + \frac1r$, as in WSABIE; "log", $\log(1 + r)$; or a function
            from the ranks of all labels, float64, shape (..., L), to weights of the same shape,
            at least 0.
        label_mask: Shape (L,) or (..., L), bool; False = unknown or impossible label.
        label_weight: $w$, a number or of shape (L,) or (..., L), at least 0.
            More than 1.8e19 (9.7e288 in float64) counts as that. It gets no gradient.
        pos_weight: $u$, as `label_weight`, for positive labels.
        sample_weight: Shape (...), multiplies the samples' losses.
        reduction: "mean" over the samples, "sum" or "none".

    Returns:
        A number, or shape (...) for "none"; float32 for scores in half precision.

    Examples:
        >>> scores, targets = torch.tensor([[-0.5, -1.0, 0.0]]), torch.tensor([[1, 0, 0]])
        >>> warp_loss(scores, targets), warp_loss(scores, targets, rank_weight="harmonic")
        (tensor(4.), tensor(3.))

    References:
        Weston et al., "WSABIE: Scaling Up to Large Vocabulary Image Annotation", 2011;
        Gong et al., "Deep Convolutional Ranking for Multilabel Image Annotation", 2014.
    """
    check_number("margin", margin)
    cells = prepare(scores, targets, label_mask, label_weight, pos_weight, hard=True)
    visible = torch.where(cells.known, cells.scores.detach(), -torch.inf)
    # A function may look at the ranks of all labels, as for the lowest.
    wanted = None if callable(rank_weight) else cells.targets
    weight = weigh_ranks(rank_of_labels(visible, wanted), rank_weight)
    values = hinge_sum(cells, margin, weight)
    return reduce(values, sample_weight, reduction)


def two_way_loss(
    scores: Tensor,
    targets: Tensor,
    *,
    positive_temperature: float = 4.0,
    negative_temperature: float = 1.0,
    batch: BatchReduction = ONE_PROCESS,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    sample_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    r"""Two-way loss: pairs of labels within each sample and pairs of samples for each label.

    $$\ell = \frac{1}{|K|} \sum_{k \in K} f(s_{k\cdot}, y_{k\cdot})
           + \frac{1}{|M|} \sum_{l \in M} f(s_{\cdot l}, y_{\cdot l}),\quad
    f(s, y) = \log\Big(1 + \Big(\sum_N e^{s/T_n}\Big)^{T_n} \Big(\sum_P e^{-s/T_p}\Big)^{T_p}\Big)$$

    K are the samples and M the labels of the batch that have a positive cell. Only ranks.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L), bool, integer or float, each 0 or 1.
        positive_temperature: $T_p$, above 0.
        negative_temperature: $T_n$, above 0.
        batch: What joins the sums over the batch when several processes share it.
        label_mask: Shape (L,) or (..., L), bool; a cell with False is left out of all sums.
        label_weight: A number or of shape (L,) or (..., L); multiplies the exponentials.
        sample_weight: Shape (...), multiplies the samples' terms; the labels' terms stay.
        reduction: "mean" is the loss above; "sum" leaves out the two divisions; "none" gives the
            samples' terms and then the labels', shape (samples + L,).

    Returns:
        A number, or shape (samples + L,) for "none"; float32 for scores in half precision.

    Examples:
        >>> scores = torch.tensor([[2.0, -1.0], [-3.0, 1.0]])
        >>> two_way_loss(scores, torch.tensor([[1, 0], [0, 1]]))
        tensor(0.1002)

    References:
        Kobayashi, "Two-Way Multi-Label Loss", 2023.
    """
    check_number("positive_temperature", positive_temperature, above=0.0)
    check_number("negative_temperature", negative_temperature, above=0.0)
    check_reduction(reduction)
    cells = prepare(scores, targets, label_mask, label_weight, hard=True)
    weight = check_sample_weight(scores, sample_weight)
    temperatures = (positive_temperature, negative_temperature)
    sides = (cells.scores, cells.positive, cells.negative)
    rows = [x.reshape(math.prod(x.shape[:-1]), x.shape[-1]) for x in sides]
    samples, in_samples = _two_way_terms(rows, temperatures)
    labels, in_labels = _two_way_terms([x.mT for x in rows], temperatures, batch)
    samples = samples if weight is None else samples * weight.reshape(-1)
    if reduction == "none":
        return torch.cat([samples, labels])
    total, count = batch.sum(torch.stack([samples.sum(), in_samples.sum()]))
    if reduction == "sum":
        return torch.add(total, labels.sum())
    label_mean = labels.sum() / in_labels.sum().clamp(min=1)
    return torch.add(total / count.clamp(min=1), label_mean)


class CrossEntropyLoss(LossModule):
    """`cross_entropy_loss` as a module.

    Args:
        label_weight: A number or of shape (L,).
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> CrossEntropyLoss()(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.0550)
    """

    function = staticmethod(cross_entropy_loss)

    def __init__(
        self,
        *,
        label_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            label_weight=label_weight,
            reduction=reduction,
        )


class DecoupledSoftmaxLoss(LossModule):
    """`decoupled_softmax_loss` as a module.

    Args:
        label_weight: A number or of shape (L,).
        pos_weight: As `label_weight`, for positive labels.
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> DecoupledSoftmaxLoss()(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.0550)
    """

    function = staticmethod(decoupled_softmax_loss)

    def __init__(
        self,
        *,
        label_weight: Weight | None = None,
        pos_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(label_weight=label_weight, pos_weight=pos_weight, reduction=reduction)


class LSEPLoss(LossModule):
    """`lsep_loss` as a module.

    Args:
        pairs: Sum over at most so many random pairs a sample; None = all pairs.
        generator: Source of the draws; torch's default generator if None.
        label_weight: A number or of shape (L,).
        pos_weight: As `label_weight`, for positive labels.
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> LSEPLoss()(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.0550)
    """

    function = staticmethod(lsep_loss)

    def __init__(
        self,
        *,
        pairs: int | None = None,
        generator: torch.Generator | None = None,
        label_weight: Weight | None = None,
        pos_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            pairs=pairs,
            generator=generator,
            label_weight=label_weight,
            pos_weight=pos_weight,
            reduction=reduction,
        )


class BPMLLLoss(LossModule):
    """`bp_mll_loss` as a module.

    Args:
        log: The log form; False for the plain sum.
        label_weight: A number or of shape (L,).
        pos_weight: As `label_weight`, for positive labels.
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> BPMLLLoss()(torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[1, 0, 0]]))
        tensor(-2.8731)
    """

    function = staticmethod(bp_mll_loss)

    def __init__(
        self,
        *,
        log: bool = True,
        label_weight: Weight | None = None,
        pos_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            log=log,
            label_weight=label_weight,
            pos_weight=pos_weight,
            reduction=reduction,
        )


class CircleLoss(LossModule):
    """`circle_loss` as a module.

    Args:
        gamma: Scale, above 0.
        margin: The relaxation.
        label_weight: A number or of shape (L,).
        pos_weight: As `label_weight`, for positive labels.
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> CircleLoss()(torch.tensor([[0.9, -0.5, 0.2]]), torch.tensor([[1, 0, 0]]))
        tensor(1.0566)
    """

    function = staticmethod(circle_loss)

    def __init__(
        self,
        *,
        gamma: float = 1.0,
        margin: float = 0.25,
        label_weight: Weight | None = None,
        pos_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            gamma=gamma,
            margin=margin,
            label_weight=label_weight,
            pos_weight=pos_weight,
            reduction=reduction,
        )


class RankingLoss(LossModule):
    """`ranking_loss` as a module.

    Args:
        margin: By how much a positive label is to lead.
        label_weight: A number or of shape (L,).
        pos_weight: As `label_weight`, for positive labels.
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> RankingLoss()(torch.tensor([[0.5, -1.0, 0.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.5000)
    """

    function = staticmethod(ranking_loss)

    def __init__(
        self,
        *,
        margin: float = 1.0,
        label_weight: Weight | None = None,
        pos_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            margin=margin,
            label_weight=label_weight,
            pos_weight=pos_weight,
            reduction=reduction,
        )


class WARPLoss(LossModule):
    """`warp_loss` as a module.

    Args:
        margin: By how much a positive label is to lead.
        rank_weight: What a rank weighs: "identity", "harmonic", "log", or a function.
        label_weight: A number or of shape (L,).
        pos_weight: As `label_weight`, for positive labels.
        reduction: "mean" over the samples, "sum" or "none".

    Examples:
        >>> WARPLoss()(torch.tensor([[-0.5, -1.0, 0.0]]), torch.tensor([[1, 0, 0]]))
        tensor(4.)
    """

    function = staticmethod(warp_loss)

    def __init__(
        self,
        *,
        margin: float = 1.0,
        rank_weight: str | RankWeight = "identity",
        label_weight: Weight | None = None,
        pos_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            margin=margin,
            rank_weight=rank_weight,
            label_weight=label_weight,
            pos_weight=pos_weight,
            reduction=reduction,
        )


class TwoWayLoss(LossModule):
    """`two_way_loss` as a module.

    Args:
        positive_temperature: Temperature of the positive cells.
        negative_temperature: Temperature of the negative cells.
        batch: What joins the sums over the batch when several processes share it.
        label_weight: A number or of shape (L,).
        reduction: "mean", "sum" or "none", as in `two_way_loss`.

    Examples:
        >>> loss = TwoWayLoss()
        >>> loss(torch.tensor([[2.0, -1.0], [-3.0, 1.0]]), torch.tensor([[1, 0], [0, 1]]))
        tensor(0.1002)
    """

    function = staticmethod(two_way_loss)

    def __init__(
        self,
        *,
        positive_temperature: float = 4.0,
        negative_temperature: float = 1.0,
        batch: BatchReduction = ONE_PROCESS,
        label_weight: Weight | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            positive_temperature=positive_temperature,
            negative_temperature=negative_temperature,
            batch=batch,
            label_weight=label_weight,
            reduction=reduction,
        )


def _log1(log_sum: Tensor, nothing: Tensor | None) -> Tensor:
    """`log(1 + x)`, by the logarithm of x and, where it has none, by x; see `log_of_product`."""
    values = softplus(log_sum)
    return values if nothing is None else values + nothing.log1p()


def _log_pair_sum(cells: Cells) -> tuple[Tensor, Tensor | None]:
    """`log sum_P sum_N a_i b_j e^(s_j - s_i)` as `log_of_product` gives it."""
    return log_of_product((cells.scores, -cells.scores), (cells.negative, cells.positive))


def _sampled(cells: Cells, pairs: int, generator: torch.Generator | None) -> Tensor:
    """The logarithm over a sample of the pairs, -inf without one.

    Pairs are numbered: with the positive labels first, then the negative ones, pair n joins the
    positive label `n // |N|` and the negative label `n % |N|`.
    """
    if cells.scores.shape[-1] == 0:
        return _log_pair_sum(cells)[0]
    is_positive, is_negative = cells.positive > 0, cells.negative > 0
    order = (2 * is_positive.int() + is_negative.int()).argsort(dim=-1, descending=True)
    num_positive = is_positive.sum(dim=-1, keepdim=True)
    num_negative = is_negative.sum(dim=-1, keepdim=True)
    numbers, counted = draw_distinct(num_positive * num_negative, pairs, generator)
    divisor = num_negative.clamp(min=1)
    last = cells.scores.shape[-1] - 1
    positive = order.gather(-1, (numbers // divisor).clamp(max=last))
    negative = order.gather(-1, (num_positive + numbers % divisor).clamp(max=last))
    difference = cells.scores.gather(-1, negative) - cells.scores.gather(-1, positive)
    if cells.positive.dtype is torch.bool:
        return logsumexp(difference, counted)
    # In two factors, whose product may be no number.
    positive_weight = cells.positive.gather(-1, positive) * counted
    negative_weight = cells.negative.gather(-1, negative)
    log_weight = torch.where(counted, negative_weight, 1.0).log()
    return logsumexp(difference + log_weight, positive_weight)


def draw_distinct(
    total: Tensor, size: int, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Draw `size` different numbers of [0, total), all of them where there are no more.

    Every choice is as likely as any other. Where there are many numbers they are drawn with
    repetition, and the first different ones are kept: four times as many draws, and 32, always
    have enough. Where there are few they are put in a random order.

    Args:
        total: Shape (..., 1), integer.
        size: How many.
        generator: Source of the draws.

    Returns:
        Numbers, shape (..., size), and which of them count, boolean.
    """
    many = 4 * size
    shape = (*total.shape[:-1], many + 32)
    uniform = torch.rand(shape, dtype=torch.float64, device=total.device, generator=generator)
    drawn, places = (uniform * total).long().sort(dim=-1, stable=True)
    is_first = torch.ones_like(drawn, dtype=torch.bool)
    is_first[..., 1:] = drawn[..., 1:] != drawn[..., :-1]
    # In the order of the draws, repetitions last.
    turns = torch.where(is_first, places, places + shape[-1]).argsort(dim=-1)
    of_many = drawn.gather(-1, turns)[..., :size]
    columns = torch.arange(many, device=total.device)
    of_few = torch.where(columns < total, uniform[..., :many], 2.0).argsort(dim=-1)[..., :size]
    numbers = torch.where(total > many, of_many, of_few)
    return numbers, numbers < total


def _two_way_terms(
    sides: list[Tensor],
    temperatures: tuple[float, float],
    batch: BatchReduction = ONE_PROCESS,
) -> tuple[Tensor, Tensor]:
    """The two-way loss's term of each row, 0 without a positive cell, and 1 where there is one.

    The sides are the scores and what the cells count for as positive and as negative ones.
    """
    scores, positive, negative = sides
    warm, cool = temperatures
    up = join_terms(shifted_terms(-scores, positive, warm), warm, batch)
    down = join_terms(shifted_terms(scores, negative, cool), cool, batch)
    has_up, has_down = (~(side.terms <= 0) for side in (up, down))  # not > 0, which hides NaN
    is_pair = has_up & has_down
    of_up = torch.where(has_up, up.terms, 1.0).log() + up.log
    of_down = torch.where(has_down, down.terms, 1.0).log() + down.log
    # The difference of scores first: what they have in common would cost digits.
    pairs = (up.value + down.value) + (warm * of_up + cool * of_down)
    terms = softplus(torch.where(is_pair, pairs, -torch.inf))
    if up.empty is not None and 1.0 in temperatures:
        # An empty sum has a slope, up to e^80; not so its power above 1. Below, it is infinite.
        powers = (
            torch.where(has_up, 1.0, up.terms if warm == 1.0 else 0.0),
            torch.where(has_down, 1.0, down.terms if cool == 1.0 else 0.0),
        )
        nothing = pairs.clamp(max=80.0).exp() * powers[0] * powers[1]
        terms = terms + torch.where(is_pair, 0.0, nothing).log1p()
    return terms.squeeze(-1), has_up.squeeze(-1).to(scores.dtype)

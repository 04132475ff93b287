"""The losses by name, with what each can do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from zlpr._named_values import name_with_values
from zlpr._names import find, make
from zlpr.losses import balanced, binary, learned_threshold, overlap, pairwise, zlpr


@dataclass(frozen=True)
class LossInfo:
    """What a loss is and what can be done with scores that were trained on it.

    Attributes:
        name: The name that `create` takes.
        function: The loss as a function of (scores, targets).
        module: The loss as a module class.
        summary: One line.
        decides: Whether it places scores about a bound, so that labels are predicted where
            `score > bound`; if not, it only ranks.
        bound: That bound, None where it only ranks. Losses that can be given another, or learn
            it, call it their `threshold`.
        over_batch: Whether its value is one of the whole batch rather than a mean over samples.
        convex: Whether it is convex in the scores, with its default parameters.
        smooth: Whether its gradient is the continuous gradient of its value, with its default
            parameters, so that methods such as L-BFGS apply.
        needs_label_counts: Whether it must be given `label_counts` and `num_samples`.
        sampled_by: The parameter that makes it draw at random where it is not None; the loss then
            is another at each call, and takes a `generator`. None where there is no such.
        by_epoch: Whether it is another from some epoch on; its module then has `begin_epoch`.
        link_scale: c where `sigmoid(c * score)` is a first guess of a label's probability; None
            where scores only rank.
        in_paper: Whether the ZLPR paper defines it.
    """

    name: str
    function: Callable[..., Tensor]
    module: Callable[..., nn.Module]
    summary: str
    decides: bool
    bound: float | None
    over_batch: bool = False
    convex: bool = False
    smooth: bool = True
    needs_label_counts: bool = False
    sampled_by: str | None = None
    by_epoch: bool = False
    link_scale: float | None = None
    in_paper: bool = False

    def is_random(self, params: Mapping[str, object]) -> bool:
        """Whether the loss with these parameters draws at random.

        Examples:
            >>> info("lsep").is_random({}), info("lsep").is_random({"pairs": 100})
            (False, True)
        """
        return self.sampled_by is not None and params.get(self.sampled_by) is not None


def available() -> tuple[str, ...]:
    """The names of all losses, the paper's first.

    Examples:
        >>> available()[:3]
        ('zlpr', 'bce', 'focal')
    """
    return tuple(_LOSSES)


def info(name: str) -> LossInfo:
    """What is known of a loss.

    Examples:
        >>> info("zlpr").bound, info("lsep").bound
        (0.0, None)
    """
    return find("loss", name, _LOSSES)


def create(name: str, **params: object) -> nn.Module:
    """Make a loss module by name.

    Args:
        name: One of `available()`, or with options behind it as in `zlpr:pos_weight=2.7`.
        **params: The module's options.

    Returns:
        A module, called as `module(scores, targets, label_mask=None, sample_weight=None)`.

    Examples:
        >>> create("focal", gamma=1.0)
        FocalLoss(gamma=1.0, reduction='mean')
        >>> create("warp:rank_weight=harmonic")
        WARPLoss(margin=1.0, rank_weight='harmonic', reduction='mean')
    """
    name, given = name_with_values(name)
    if twice := set(given) & set(params):
        raise ValueError(f"loss {name}: {', '.join(sorted(twice))} given twice")
    params = {**given, **params}
    return make("loss", name, info(name).module, params)


def _decides(
    name: str,
    function: Callable[..., Tensor],
    module: Callable[..., nn.Module],
    summary: str,
    *,
    link_scale: float = 1.0,
    over_batch: bool = False,
    convex: bool = False,
    smooth: bool = True,
    needs_label_counts: bool = False,
    by_epoch: bool = False,
    in_paper: bool = False,
) -> LossInfo:
    """A loss that decides; all decide at 0."""
    return LossInfo(
        name,
        function,
        module,
        summary,
        decides=True,
        bound=0.0,
        over_batch=over_batch,
        convex=convex,
        smooth=smooth,
        needs_label_counts=needs_label_counts,
        by_epoch=by_epoch,
        link_scale=link_scale,
        in_paper=in_paper,
    )


def _ranks(
    name: str,
    function: Callable[..., Tensor],
    module: Callable[..., nn.Module],
    summary: str,
    *,
    over_batch: bool = False,
    convex: bool = False,
    smooth: bool = True,
    sampled_by: str | None = None,
    in_paper: bool = False,
) -> LossInfo:
    """A loss that only ranks."""
    return LossInfo(
        name,
        function,
        module,
        summary,
        decides=False,
        bound=None,
        over_batch=over_batch,
        convex=convex,
        smooth=smooth,
        sampled_by=sampled_by,
        in_paper=in_paper,
    )


_LOSSES = {
    loss.name: loss
    for loss in [
        _decides(
            "zlpr",
            zlpr.zlpr_loss,
            zlpr.ZLPRLoss,
            "two log-sum-exps about a bound at zero",
            convex=True,
            link_scale=2.0,
            in_paper=True,
        ),
        _decides(
            "bce",
            binary.bce_loss,
            binary.BCELoss,
            "binary cross entropy, each label by itself",
            convex=True,
            in_paper=True,
        ),
        _decides(
            "focal",
            binary.focal_loss,
            binary.FocalLoss,
            "binary cross entropy that looks away from easy labels",
            in_paper=True,
        ),
        _decides(
            "dice1",
            overlap.dice1_loss,
            overlap.Dice1Loss,
            "dice, each label by itself",
            in_paper=True,
        ),
        _decides(
            "dice2",
            overlap.dice2_loss,
            overlap.Dice2Loss,
            "dice of each label over the batch",
            over_batch=True,
            in_paper=True,
        ),
        _ranks(
            "ranking",
            pairwise.ranking_loss,
            pairwise.RankingLoss,
            "a hinge for each pair of labels",
            convex=True,
            smooth=False,
            in_paper=True,
        ),
        _ranks(
            "warp",
            pairwise.warp_loss,
            pairwise.WARPLoss,
            "the ranking loss, weighted by rank",
            smooth=False,
            in_paper=True,
        ),
        _ranks(
            "bp_mll",
            pairwise.bp_mll_loss,
            pairwise.BPMLLLoss,
            "an exponential for each pair of labels, in log form",
            convex=True,
            in_paper=True,
        ),
        _ranks(
            "lsep",
            pairwise.lsep_loss,
            pairwise.LSEPLoss,
            "log-sum-exp over pairs of labels",
            convex=True,
            sampled_by="pairs",
            in_paper=True,
        ),
        _ranks(
            "cross_entropy",
            pairwise.cross_entropy_loss,
            pairwise.CrossEntropyLoss,
            "softmax, the positive labels sharing the target",
            convex=True,
            in_paper=True,
        ),
        _decides(
            "asymmetric",
            binary.asymmetric_loss,
            binary.AsymmetricLoss,
            "focal loss that looks away from negatives sooner",
            smooth=False,  # its focus carries no gradient, so the gradient is not the value's
        ),
        _ranks(
            "two_way",
            pairwise.two_way_loss,
            pairwise.TwoWayLoss,
            "pairs of labels per sample and of samples per label",
            over_batch=True,
            convex=True,
        ),
        _decides(
            "hbm",
            learned_threshold.hbm_loss,
            learned_threshold.HBMLoss,
            "ZLPR with a learned bound, a bias and a margin",
            smooth=False,
            link_scale=2.0,
        ),
        _decides(
            "adaptive_threshold",
            learned_threshold.adaptive_threshold_loss,
            learned_threshold.AdaptiveThresholdLoss,
            "softmax against a learned threshold class",
            convex=True,
        ),
        _ranks(
            "circle",
            pairwise.circle_loss,
            pairwise.CircleLoss,
            "log-sum-exp over pairs, weighted by distance",
            smooth=False,  # its weights carry no gradient
        ),
        _ranks(
            "decoupled_softmax",
            pairwise.decoupled_softmax_loss,
            pairwise.DecoupledSoftmaxLoss,
            "softmax of each positive label against the negatives",
            convex=True,
        ),
        _decides(
            "distribution_balanced",
            balanced.distribution_balanced_loss,
            balanced.DistributionBalancedLoss,
            "focal loss rebalanced for rare labels",
            needs_label_counts=True,
        ),
        _decides(
            "class_balanced",
            balanced.class_balanced_loss,
            balanced.ClassBalancedLoss,
            "binary cross entropy by effective label counts",
            convex=True,
            needs_label_counts=True,
        ),
        _decides(
            "sigmoid_f1",
            overlap.sigmoid_f1_loss,
            overlap.SigmoidF1Loss,
            "one minus the soft macro F1 of the batch",
            over_batch=True,
        ),
        _decides(
            "self_adjusting_dice",
            overlap.self_adjusting_dice_loss,
            overlap.SelfAdjustingDiceLoss,
            "dice that looks away from easy labels",
        ),
        _decides(
            "hill",
            binary.hill_loss,
            binary.HillLoss,
            "forgives confident false positives",
        ),
        _decides(
            "asymmetric_polynomial",
            binary.asymmetric_polynomial_loss,
            binary.AsymmetricPolynomialLoss,
            "asymmetric loss with other Taylor weights (APL)",
            smooth=False,  # as the asymmetric loss's
        ),
        _decides(
            "splc",
            binary.splc_loss,
            binary.SPLCLoss,
            "counts missing but likely labels as positive",
            smooth=False,
            by_epoch=True,
        ),
        _decides(
            "cb_ntr",
            balanced.cb_ntr_loss,
            balanced.CBNTRLoss,
            "class-balanced focal loss, tolerant of easy negatives",
            needs_label_counts=True,
        ),
        _decides(
            "logit_adjusted",
            balanced.logit_adjusted_loss,
            balanced.LogitAdjustedLoss,
            "another loss of scores moved by the labels' priors",
            convex=True,
            needs_label_counts=True,
        ),
    ]
}

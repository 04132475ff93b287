"""Multi-label losses: scores and targets in, a number with a gradient out.

All functions take `(scores, targets, *, ...)` with the scores of shape (..., L), and have a module
class of the same name; `available()`, `info(name)` and `create(name)` find them by name.

Scores and weights may be as large as the dtype allows. What lies beyond it is held to a number: an
infinite score counts as a sixteenth of the largest number (as the largest in ZLPR), a weight as
2^-64 of it (1.8e19 in float32; ZLPR takes weights as they are), and so does the product of two. A
loss or a gradient that exceeds the dtype by these rules may be infinite, but is never NaN.

Weights are checked in every call; on a GPU, where that would wait for the device, when they are new
or were changed in place, which a change through `.data` does not tell.
"""

from zlpr.losses._reduce import BatchReduction
from zlpr.losses.balanced import (
    CBNTRLoss,
    ClassBalancedLoss,
    DistributionBalancedLoss,
    LogitAdjustedLoss,
    cb_ntr_loss,
    class_balanced_loss,
    distribution_balanced_loss,
    logit_adjusted_loss,
    logit_adjustment,
)
from zlpr.losses.binary import (
    AsymmetricLoss,
    AsymmetricPolynomialLoss,
    BCELoss,
    FocalLoss,
    HillLoss,
    SPLCLoss,
    asymmetric_loss,
    asymmetric_polynomial_loss,
    bce_loss,
    focal_loss,
    hill_loss,
    splc_loss,
)
from zlpr.losses.divergence import ZLPRDivergence, zlpr_divergence
from zlpr.losses.learned_threshold import (
    AdaptiveThresholdLoss,
    HBMLoss,
    adaptive_threshold_loss,
    hbm_loss,
)
from zlpr.losses.linear import (
    LinearZLPRLoss,
    linear_bce_loss,
    linear_lsep_loss,
    linear_zlpr_loss,
)
from zlpr.losses.optimiser_steps import RowAdagradStep, SGDStep, WeightStep
from zlpr.losses.overlap import (
    Dice1Loss,
    Dice2Loss,
    SelfAdjustingDiceLoss,
    SigmoidF1Loss,
    dice1_loss,
    dice2_loss,
    self_adjusting_dice_loss,
    sigmoid_f1_loss,
)
from zlpr.losses.pairwise import (
    BPMLLLoss,
    CircleLoss,
    CrossEntropyLoss,
    DecoupledSoftmaxLoss,
    LSEPLoss,
    RankingLoss,
    TwoWayLoss,
    WARPLoss,
    bp_mll_loss,
    circle_loss,
    cross_entropy_loss,
    decoupled_softmax_loss,
    lsep_loss,
    ranking_loss,
    two_way_loss,
    warp_loss,
)
from zlpr.losses.registry import LossInfo, available, create, info
from zlpr.losses.zlpr import SparseZLPRLoss, ZLPRLoss, sparse_zlpr_loss, zlpr_loss

__all__ = [
    "AdaptiveThresholdLoss",
    "AsymmetricLoss",
    "AsymmetricPolynomialLoss",
    "BCELoss",
    "BPMLLLoss",
    "BatchReduction",
    "CBNTRLoss",
    "CircleLoss",
    "ClassBalancedLoss",
    "CrossEntropyLoss",
    "DecoupledSoftmaxLoss",
    "Dice1Loss",
    "Dice2Loss",
    "DistributionBalancedLoss",
    "FocalLoss",
    "HBMLoss",
    "HillLoss",
    "LSEPLoss",
    "LinearZLPRLoss",
    "LogitAdjustedLoss",
    "LossInfo",
    "RankingLoss",
    "RowAdagradStep",
    "SGDStep",
    "SPLCLoss",
    "SelfAdjustingDiceLoss",
    "SigmoidF1Loss",
    "SparseZLPRLoss",
    "TwoWayLoss",
    "WARPLoss",
    "WeightStep",
    "ZLPRDivergence",
    "ZLPRLoss",
    "adaptive_threshold_loss",
    "asymmetric_loss",
    "asymmetric_polynomial_loss",
    "available",
    "bce_loss",
    "bp_mll_loss",
    "cb_ntr_loss",
    "circle_loss",
    "class_balanced_loss",
    "create",
    "cross_entropy_loss",
    "decoupled_softmax_loss",
    "dice1_loss",
    "dice2_loss",
    "distribution_balanced_loss",
    "focal_loss",
    "hbm_loss",
    "hill_loss",
    "info",
    "linear_bce_loss",
    "linear_lsep_loss",
    "linear_zlpr_loss",
    "logit_adjusted_loss",
    "logit_adjustment",
    "lsep_loss",
    "ranking_loss",
    "self_adjusting_dice_loss",
    "sigmoid_f1_loss",
    "sparse_zlpr_loss",
    "splc_loss",
    "two_way_loss",
    "warp_loss",
    "zlpr_divergence",
    "zlpr_loss",
]

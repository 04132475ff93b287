"""The losses that know label counts, and logit adjustment."""

import math

import pytest
import torch

from tests.losses.samples import COUNTS, SAMPLES, scores_and_targets
from zlpr import losses
from zlpr.losses import (
    BCELoss,
    ClassBalancedLoss,
    LogitAdjustedLoss,
    ZLPRLoss,
    bce_loss,
    class_balanced_loss,
    distribution_balanced_loss,
    focal_loss,
    logit_adjustment,
    zlpr_loss,
)

KNOWN = {"label_counts": COUNTS, "num_samples": SAMPLES}


def test_beta_runs_from_equal_weights_to_inverse_counts() -> None:
    scores, targets = scores_and_targets()
    torch.testing.assert_close(
        class_balanced_loss(scores, targets, beta=0.0, **KNOWN), bce_loss(scores, targets)
    )
    near_one = class_balanced_loss(scores, targets, beta=1 - 1e-9, **KNOWN)
    inverse = bce_loss(scores, targets, label_weight=1 / COUNTS.double())
    torch.testing.assert_close(near_one, inverse, rtol=1e-6, atol=0)


def test_gamma_makes_it_focal() -> None:
    scores, targets = scores_and_targets()
    weight = (1 - 0.99) / (1 - 0.99 ** COUNTS.double())
    torch.testing.assert_close(
        class_balanced_loss(scores, targets, beta=0.99, gamma=2.0, **KNOWN),
        focal_loss(scores, targets, label_weight=weight),
    )


def test_labels_without_or_with_every_sample_stay_finite() -> None:
    scores, targets = scores_and_targets()
    scores.requires_grad_()
    counts = COUNTS.clone()
    counts[0], counts[1] = 0, SAMPLES
    for loss in (class_balanced_loss, distribution_balanced_loss):
        value = loss(scores, targets, label_counts=counts, num_samples=SAMPLES)
        assert value.isfinite()
        assert torch.autograd.grad(value, scores)[0].isfinite().all()


def test_a_sample_without_labels_has_the_largest_weight() -> None:
    scores, _ = scores_and_targets()
    nothing = torch.zeros(6, 7, dtype=torch.bool)
    options = {"gamma": 0.0, "prior_scale": 0.0, "negative_scale": 1.0, **KNOWN}
    torch.testing.assert_close(
        distribution_balanced_loss(scores, nothing, **options), 1.1 * bce_loss(scores, nothing)
    )


def test_distribution_balanced_needs_two_samples() -> None:
    with pytest.raises(ValueError, match="num_samples must be at least 2, got 1"):
        distribution_balanced_loss(
            torch.zeros(1, 1), torch.zeros(1, 1), label_counts=torch.ones(1), num_samples=1
        )


def test_logit_adjustment_is_the_log_prior() -> None:
    adjustment = logit_adjustment(torch.tensor([50, 5, 0]), 100, tau=2.0)
    expected = torch.tensor([2 * math.log(0.5), 2 * math.log(0.05), 2 * math.log(0.01)])
    torch.testing.assert_close(adjustment, expected)
    with pytest.raises(ValueError, match="tau must be at least 0, got -1"):
        logit_adjustment(COUNTS, SAMPLES, tau=-1.0)


def test_logit_adjusted_zlpr_is_zlpr_with_a_threshold_per_label() -> None:
    scores, targets = scores_and_targets()
    loss = LogitAdjustedLoss(ZLPRLoss(), **KNOWN)
    threshold = -logit_adjustment(COUNTS, SAMPLES).double()
    torch.testing.assert_close(
        loss(scores, targets), zlpr_loss(scores, targets, threshold=threshold)
    )
    weight = torch.rand(6, dtype=torch.float64)
    mask = torch.rand(6, 7) < 0.5
    adjusted = scores - threshold
    torch.testing.assert_close(
        LogitAdjustedLoss(BCELoss(), **KNOWN)(scores, targets, mask, weight),
        bce_loss(adjusted, targets, label_mask=mask, sample_weight=weight),
    )


def test_counts_follow_the_module() -> None:
    loss = ClassBalancedLoss(**KNOWN)
    assert loss.label_counts.shape == (7,)
    assert loss.state_dict() == {}


def test_cb_ntr_with_equal_counts_is_focal_moved_and_scaled() -> None:
    scores, targets = scores_and_targets()
    counts = {"label_counts": torch.full((7,), 25), "num_samples": 50}  # prior odds of 1
    plain = losses.cb_ntr_loss(scores, targets, beta=0.0, negative_scale=1.0, **counts)
    torch.testing.assert_close(plain, losses.focal_loss(scores, targets))
    half = losses.cb_ntr_loss(scores, targets, beta=0.5, negative_scale=1.0, **counts)
    torch.testing.assert_close(half, plain * 0.5 / (1 - 0.5**25))


@pytest.mark.parametrize("name", ["lsep", "dice2", "class_balanced", "splc", "logit_adjusted"])
def test_logit_adjustment_refuses_losses_that_it_would_break(name: str) -> None:
    counts = {"label_counts": torch.tensor([40, 3]), "num_samples": 50}
    with pytest.raises(ValueError, match="loss must be one of zlpr, bce, focal"):
        losses.create("logit_adjusted", loss=name, **counts)
    with pytest.raises(ValueError, match="weights and reduction are the wrapped module's"):
        losses.LogitAdjustedLoss(losses.BCELoss(), pos_weight=2.0, **counts)


def test_a_wrapped_loss_is_told_its_epochs():
    inner = losses.SPLCLoss(first_epoch=3)
    loss = losses.LogitAdjustedLoss(inner, label_counts=torch.tensor([5, 2]), num_samples=10)
    scores, targets = torch.tensor([[2.0, 3.0]]), torch.tensor([[1, 0]])
    loss.begin_epoch(1)
    uncorrected = loss(scores, targets)
    loss.begin_epoch(3)
    assert loss(scores, targets) < uncorrected

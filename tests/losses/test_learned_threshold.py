"""The losses that learn their threshold."""

import pytest
import torch
from torch.testing import assert_close

from tests.losses.samples import scores_and_targets
from zlpr.losses import (
    AdaptiveThresholdLoss,
    HBMLoss,
    LinearZLPRLoss,
    ZLPRLoss,
    adaptive_threshold_loss,
    bce_loss,
    hbm_loss,
    zlpr_loss,
)


@pytest.mark.parametrize("loss", [hbm_loss, adaptive_threshold_loss])
@pytest.mark.parametrize("shape", [(), (7,), (6, 1)])
def test_a_threshold_moves_the_scores(loss, shape: tuple[int, ...]) -> None:  # type: ignore[no-untyped-def]
    scores, targets = scores_and_targets()
    threshold = torch.randn(shape, dtype=torch.float64)
    torch.testing.assert_close(
        loss(scores, targets, threshold=threshold), loss(scores - threshold, targets)
    )


def test_hbm_without_bias_and_margin_is_zlpr() -> None:
    scores, targets = scores_and_targets()
    torch.testing.assert_close(
        hbm_loss(scores, targets, alpha=0.0, margin=0.0), zlpr_loss(scores, targets)
    )


def test_hbm_drops_labels_that_are_right_by_the_margin() -> None:
    scores = torch.tensor([[5.0, -5.0, 0.0]], requires_grad=True)
    value = hbm_loss(scores, torch.tensor([[True, False, False]]), alpha=0.0, margin=0.1)
    (slope,) = torch.autograd.grad(value, scores)
    assert slope[0, 0] == 0
    assert slope[0, 1] == 0
    assert slope[0, 2] > 0


def test_adaptive_threshold_of_one_label_is_bce() -> None:
    scores = torch.randn(9, 1, dtype=torch.float64)
    for truth in (0, 1):
        targets = torch.full((9, 1), truth)
        torch.testing.assert_close(
            adaptive_threshold_loss(scores, targets), bce_loss(scores, targets)
        )


def test_its_second_term_is_zlprs() -> None:
    scores, targets = scores_and_targets()
    nothing = torch.zeros_like(targets)
    torch.testing.assert_close(adaptive_threshold_loss(scores, nothing), zlpr_loss(scores, nothing))


@pytest.mark.parametrize("module", [HBMLoss, AdaptiveThresholdLoss])
def test_the_threshold_is_learned_by_default(module) -> None:  # type: ignore[no-untyped-def]
    scores, targets = scores_and_targets(dtype=torch.float32)
    loss = module(threshold=0.5)
    assert isinstance(loss.threshold, torch.nn.Parameter)
    loss(scores, targets).backward()
    assert loss.threshold.grad.abs() > 0
    fixed = module(threshold=0.5, learn_threshold=False)
    assert not fixed.state_dict()
    assert list(fixed.parameters()) == []
    torch.testing.assert_close(fixed(scores, targets), loss(scores, targets))


@pytest.mark.parametrize(
    ("module", "loss"),
    [
        (HBMLoss, hbm_loss),
        (AdaptiveThresholdLoss, adaptive_threshold_loss),
        (ZLPRLoss, zlpr_loss),
        (LinearZLPRLoss, zlpr_loss),
    ],
)
@pytest.mark.parametrize("learn", [False, True])
@pytest.mark.parametrize("as_tensor", [False, True])
@pytest.mark.parametrize("threshold", [0.1, 1e8 + 1])
def test_no_digit_of_a_threshold_is_lost(module, loss, learn, as_tensor, threshold) -> None:  # type: ignore[no-untyped-def]
    """But of a number that is learned, which is a parameter of the module's dtype."""
    if learn and not as_tensor and module is not LinearZLPRLoss:
        return
    scores, targets = scores_and_targets()
    scores = scores + threshold
    given = torch.tensor(threshold, dtype=torch.float64) if as_tensor else threshold
    options = {"threshold": given, "learn_threshold": learn}
    if module is LinearZLPRLoss:
        head = LinearZLPRLoss(7, 7, bias=False, dtype=torch.float64, **options)
        torch.nn.init.eye_(head.weight)
        value = head(scores, torch.where(targets, torch.arange(7), -1))
    else:
        value = module(**options)(scores, targets)
    assert_close(value, loss(scores, targets, threshold=threshold), rtol=1e-15, atol=0)


@pytest.mark.parametrize("module", [HBMLoss, AdaptiveThresholdLoss, ZLPRLoss])
@pytest.mark.parametrize("threshold", [0.3, torch.tensor([0.3, 0.7], dtype=torch.float64)])
def test_a_learned_threshold_that_was_saved_in_single_precision_is_loaded(module, threshold):  # type: ignore[no-untyped-def]
    loss = module(threshold=threshold, learn_threshold=True)
    loss.load_state_dict({"threshold": torch.full_like(loss.threshold, 0.5).float()})
    assert (loss.threshold == 0.5).all()


@pytest.mark.parametrize("loss", [hbm_loss, adaptive_threshold_loss])
@pytest.mark.parametrize("truth", [False, True])
def test_extreme_and_impossible_scores(loss, truth: bool) -> None:  # type: ignore[no-untyped-def]
    scores = torch.tensor([[1e4, -1e4, 0.0, -torch.inf]], requires_grad=True)
    targets = torch.tensor([[truth, truth, truth, False]])
    value = loss(scores, targets)
    (slope,) = torch.autograd.grad(value, scores)
    assert value.isfinite()
    assert slope.isfinite().all()
    assert slope[0, 3] == 0


@pytest.mark.parametrize("size", [2e19, 1e30])
def test_a_spread_whose_square_is_no_number(size):
    scores = torch.tensor([[size, -size, size]], requires_grad=True)
    targets = torch.tensor([[False, False, True]])
    loss = hbm_loss(scores, targets)
    exact = hbm_loss(scores.detach().double(), targets)
    assert_close(loss.double(), exact, rtol=1e-5, atol=0)
    loss.backward()
    assert torch.isfinite(scores.grad).all()


def test_a_label_whose_weights_multiply_to_nothing_still_shares_the_softmax():
    scores = torch.tensor([[1.0, 2.0, -1.0]])
    targets = torch.tensor([[True, True, False]])
    weight = torch.tensor([1.0, 1e-30, 1.0])  # 1e-60 is no float32
    loss = adaptive_threshold_loss(scores, targets, label_weight=weight, pos_weight=weight)
    above = torch.logsumexp(torch.tensor([1.0, 2.0, 0.0]), 0) - 1.0
    below = torch.log1p(torch.tensor(-1.0).exp())
    assert_close(loss, above + below)
    without = torch.tensor([1.0, 0.0, 1.0])
    loss = adaptive_threshold_loss(scores, targets, label_weight=without)
    assert_close(loss, torch.logsumexp(torch.tensor([1.0, 0.0]), 0) - 1.0 + below)

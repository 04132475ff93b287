"""The losses that judge each label by itself."""

import pytest
import torch
import torch.nn.functional as F

from tests.losses.samples import scores_and_targets
from zlpr import losses
from zlpr.losses import asymmetric_loss, bce_loss, focal_loss, hill_loss

ALONE = ["bce", "focal", "asymmetric", "hill", "dice1", "self_adjusting_dice"]


def test_bce_is_torchs_summed_over_labels() -> None:
    scores, targets = scores_and_targets()
    scores.requires_grad_()
    soft = torch.rand(6, 7, dtype=torch.float64)
    weight, positive = torch.rand(7, dtype=torch.float64), torch.rand(7, dtype=torch.float64)
    upstream = torch.rand(6, dtype=torch.float64)
    for truth in (targets.double(), soft):
        expected = F.binary_cross_entropy_with_logits(
            scores, truth, weight=weight, pos_weight=positive, reduction="none"
        ).sum(dim=1)
        actual = bce_loss(scores, truth, label_weight=weight, pos_weight=positive, reduction="none")
        torch.testing.assert_close(actual, expected)
        torch.testing.assert_close(
            torch.autograd.grad(actual, scores, upstream)[0],
            torch.autograd.grad(expected, scores, upstream)[0],
        )
    mean = F.binary_cross_entropy_with_logits(scores, soft)
    torch.testing.assert_close(bce_loss(scores, soft) / 7, mean)


def test_bce_is_the_logarithm_of_two_products() -> None:
    scores, targets = scores_and_targets()
    above = torch.where(targets, 1 + (-scores).exp(), 1.0).prod(dim=1)
    below = torch.where(targets, 1.0, 1 + scores.exp()).prod(dim=1)
    torch.testing.assert_close(
        bce_loss(scores, targets, reduction="none"), above.log() + below.log()
    )


def test_bce_beyond_twenty_is_exact() -> None:
    scores = torch.tensor([[25.0]], dtype=torch.float64)
    exact = 25.0 + 1.3887943864771144e-11  # log(1 + e^25), which F.softplus cuts to 25
    assert bce_loss(scores, torch.tensor([[0]])).item() == pytest.approx(exact, rel=1e-15)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_focal_is_the_published_form(gamma: float) -> None:
    scores, targets = scores_and_targets()
    truth = targets.double()
    p = torch.sigmoid(scores)
    matched = torch.where(targets, p, 1 - p)
    terms = F.binary_cross_entropy_with_logits(scores, truth, reduction="none")
    expected = (terms * (1 - matched) ** gamma).sum(dim=1)
    torch.testing.assert_close(focal_loss(scores, targets, gamma=gamma, reduction="none"), expected)


def test_focal_without_focus_is_bce() -> None:
    scores, targets = scores_and_targets()
    torch.testing.assert_close(focal_loss(scores, targets, gamma=0.0), bce_loss(scores, targets))
    torch.testing.assert_close(
        asymmetric_loss(scores, targets, gamma_positive=0, gamma_negative=0, margin=0.0),
        bce_loss(scores, targets),
    )
    torch.testing.assert_close(
        asymmetric_loss(
            scores, targets, gamma_positive=2, gamma_negative=2, margin=0.0, focus_gradient=True
        ),
        focal_loss(scores, targets),
    )


def test_the_focus_of_asymmetric_carries_a_gradient_only_when_asked() -> None:
    scores, targets = scores_and_targets()
    slopes = []
    for focus in (False, True):
        s = scores.clone().requires_grad_()
        (slope,) = torch.autograd.grad(asymmetric_loss(s, targets, focus_gradient=focus), s)
        slopes.append(slope)
    assert not torch.allclose(*slopes)
    s = scores.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda s: asymmetric_loss(s, targets, focus_gradient=True), s)


def test_negatives_below_the_margin_count_for_nothing() -> None:
    scores = torch.tensor([[-4.0, -6.0]], requires_grad=True)  # p = 0.018, 0.0025
    value = asymmetric_loss(scores, torch.tensor([[False, False]]))
    assert value == 0
    assert (torch.autograd.grad(value, scores)[0] == 0).all()


def test_hill_forgives_confident_negatives() -> None:
    scores = torch.tensor([[0.0], [10.0], [-10.0]], requires_grad=True)
    value = hill_loss(scores, torch.zeros(3, 1), reduction="sum")
    slope = torch.autograd.grad(value, scores)[0].squeeze(1)
    assert slope[0] > 0.1
    assert slope[1].abs() < 1e-3
    assert slope[2].abs() < 1e-3


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_extreme_and_impossible_scores(name: str, dtype: torch.dtype) -> None:
    function = losses.info(name).function
    scores = torch.tensor([[1e4, -1e4, 1e4, -1e4, -torch.inf, 0.0]], dtype=dtype)
    targets = torch.tensor([[True, True, False, False, False, False]])
    scores.requires_grad_()
    value = function(scores, targets)
    (slope,) = torch.autograd.grad(value, scores)
    assert value.isfinite()
    assert slope.isfinite().all()
    assert slope[0, 4] == 0
    possible = [0, 1, 2, 3, 5]
    torch.testing.assert_close(value, function(scores[:, possible], targets[:, possible]))


@pytest.mark.parametrize("name", ALONE)
def test_pos_weight_multiplies_positive_terms(name: str) -> None:
    scores, targets = scores_and_targets()
    function = losses.info(name).function
    positive = function(scores, targets, label_weight=targets.double())
    negative = function(scores, targets, label_weight=(~targets).double())
    weighted = function(scores, targets, pos_weight=3.0)
    torch.testing.assert_close(weighted, 3 * positive + negative)
    torch.testing.assert_close(function(scores, targets), positive + negative)


@pytest.mark.parametrize("name", ALONE)
def test_soft_targets_mix_the_two_cases(name: str) -> None:
    scores, _ = scores_and_targets()
    function = losses.info(name).function
    ones, zeros = torch.ones_like(scores), torch.zeros_like(scores)
    mixed = function(scores, 0.3 * ones)
    expected = 0.3 * function(scores, ones) + 0.7 * function(scores, zeros)
    torch.testing.assert_close(mixed, expected)


def test_splc_is_of_the_scores_type_whatever_the_default() -> None:
    scores, targets = torch.tensor([[0.2, 0.5]]), torch.tensor([[1, 0]])
    torch.set_default_dtype(torch.float64)
    try:
        assert losses.splc_loss(scores, targets).dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


def test_splc_leaves_given_labels_and_the_first_epoch_alone() -> None:
    scores, targets = scores_and_targets()
    plain = losses.splc_loss(scores, targets, correct=False, reduction="none")
    focal = losses.focal_loss(torch.where(targets, scores - 1.0, scores), targets, reduction="none")
    torch.testing.assert_close(plain, focal)
    module = losses.SPLCLoss(reduction="none")
    module.begin_epoch(1)
    torch.testing.assert_close(module(scores, targets), plain)
    module.begin_epoch(2)
    assert (module(scores, targets) < plain).any()
    torch.testing.assert_close(
        module(-scores.abs(), targets), losses.SPLCLoss(reduction="none")(-scores.abs(), targets)
    )
    with pytest.raises(ValueError, match="first_epoch must be at least 1, got 0"):
        losses.SPLCLoss(first_epoch=0)


def test_apl_without_its_terms_is_the_asymmetric_loss() -> None:
    scores, targets = scores_and_targets()
    options = {"gamma_positive": 1.0, "gamma_negative": 2.0, "margin": 0.1}
    torch.testing.assert_close(
        losses.asymmetric_polynomial_loss(scores, targets, first=0.0, second=0.0, **options),
        losses.asymmetric_loss(scores, targets, **options),
    )

"""The losses of overlap: dice, label by label and over the batch, and soft F1."""

import pytest
import torch
from torch import Tensor

from tests.losses.samples import scores_and_targets
from zlpr import losses
from zlpr.losses import dice1_loss, dice2_loss, self_adjusting_dice_loss, sigmoid_f1_loss


def test_perfect_predictions_cost_nothing() -> None:
    _, targets = scores_and_targets()
    scores = torch.where(targets, 1e4, -1e4).double()
    for loss in (dice1_loss, dice2_loss):
        assert loss(scores, targets).item() == 0.0
    seen = targets[:, targets.any(dim=0)]
    assert sigmoid_f1_loss(scores[:, targets.any(dim=0)], seen).item() == 0.0


def test_a_batch_of_one_makes_dice2_into_dice1() -> None:
    scores, targets = scores_and_targets(shape=(1, 7))
    torch.testing.assert_close(dice2_loss(scores, targets), dice1_loss(scores, targets))


def test_dice2_is_of_the_batch_not_a_mean_of_samples() -> None:
    scores, targets = scores_and_targets()
    each = torch.stack([dice2_loss(s, y) for s, y in zip(scores, targets, strict=True)])
    assert not torch.isclose(dice2_loss(scores, targets), each.mean())


def test_sample_weights_count_a_sample_more_than_once_over_the_batch() -> None:
    scores, targets = scores_and_targets()
    weight = torch.tensor([1.0, 2.0, 0.0, 1.0, 3.0, 1.0])
    rows = [0, 1, 1, 3, 4, 4, 4, 5]
    for loss in (dice2_loss, sigmoid_f1_loss):
        weighted = loss(scores, targets, sample_weight=weight)
        torch.testing.assert_close(weighted, loss(scores[rows], targets[rows]))


def test_a_label_nobody_knows_is_left_out_of_the_soft_f1() -> None:
    scores, targets = scores_and_targets()
    mask = torch.ones(7, dtype=torch.bool)
    mask[3] = False
    rest = [0, 1, 2, 4, 5, 6]
    expected = sigmoid_f1_loss(scores[:, rest], targets[:, rest])
    torch.testing.assert_close(sigmoid_f1_loss(scores, targets, label_mask=mask), expected)


def test_soft_f1_without_any_mass_is_one_with_a_finite_gradient() -> None:
    scores = torch.full((2, 3), -torch.inf, requires_grad=True)
    value = sigmoid_f1_loss(scores, torch.zeros(2, 3, dtype=torch.bool))
    assert value == 1
    assert torch.autograd.grad(value, scores)[0].isfinite().all()


def test_self_adjusting_dice_keeps_a_positive_label_above_the_bound() -> None:
    scores = torch.linspace(-8, 8, 4001, dtype=torch.float64).unsqueeze(1)
    value = self_adjusting_dice_loss(scores, torch.ones_like(scores), reduction="none")
    best = torch.sigmoid(scores[value.argmin(), 0])
    assert best.item() == pytest.approx(1 / 1.6, abs=1e-3)


@pytest.mark.parametrize("name", ["dice2", "sigmoid_f1"])
def test_sums_over_the_batch_may_be_joined_over_processes(name: str) -> None:
    scores, targets = scores_and_targets(shape=(8, 7))
    function = losses.info(name).function
    whole = function(scores, targets)
    halves = [(scores[:5], targets[:5]), (scores[5:], targets[5:])]

    class Recorder:
        def __init__(self) -> None:
            self.values: list[Tensor] = []

        def sum(self, values: Tensor) -> Tensor:
            self.values.append(values)
            return values

        def max(self, values: Tensor) -> Tensor:
            return values

    recorder = Recorder()
    for s, y in halves:
        function(s, y, batch=recorder)
    total = recorder.values[0] + recorder.values[1]

    class Joined(Recorder):
        def sum(self, values: Tensor) -> Tensor:
            return total

    for s, y in halves:
        torch.testing.assert_close(function(s, y, batch=Joined()), whole)

"""The loss of a run's settings, and where it decides."""

import pytest
import torch
from scipy import sparse
from torch import nn

from zlpr import UserError
from zlpr.losses import (
    AdaptiveThresholdLoss,
    BCELoss,
    HBMLoss,
    LinearZLPRLoss,
    LogitAdjustedLoss,
    ZLPRLoss,
)
from zlpr.training.config import TrainingConfig
from zlpr.training.extras import Extras, Softened
from zlpr.training.loss import bound_of, create_loss

LABELS = sparse.csr_array([[1, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize("module", [ZLPRLoss, HBMLoss, AdaptiveThresholdLoss])
@pytest.mark.parametrize("learn", [False, True])
def test_the_bound_of_a_loss_is_its_threshold(module, learn) -> None:
    each = torch.tensor([1.0, 0.0, -2.0])
    for threshold in (1.0, each):
        bound = bound_of(module(threshold=threshold, learn_threshold=learn))
        assert torch.equal(bound, torch.as_tensor(threshold))
        assert not bound.requires_grad
    assert bound_of(module()) == 0


def test_a_loss_around_another_decides_where_that_one_does() -> None:
    counts = torch.tensor([3, 1])
    adjusted = LogitAdjustedLoss(ZLPRLoss(threshold=1), label_counts=counts, num_samples=4)
    assert bound_of(adjusted) == 1
    assert bound_of(Softened(adjusted, Extras(), 0)) == 1
    assert bound_of(LogitAdjustedLoss(BCELoss(), label_counts=counts, num_samples=4)) == 0


def test_a_strangers_loss_has_its_bound_in_an_attribute_a_buffer_or_a_parameter() -> None:
    loss = nn.Module()
    loss.threshold = 1.0
    assert bound_of(loss) == 1
    loss = nn.Module()
    loss.register_buffer("threshold", torch.tensor(1.0))
    assert bound_of(loss) == 1
    loss = nn.Module()
    loss.threshold = nn.Parameter(torch.tensor(1.0))
    assert bound_of(loss) == 1
    assert bound_of(LinearZLPRLoss(2, 3, threshold=1.0, learn_threshold=True)) == 1
    assert bound_of(nn.BCEWithLogitsLoss()) == 0


def test_a_loss_that_needs_counts_gets_those_of_the_data() -> None:
    loss = create_loss(TrainingConfig(loss="class_balanced"), LABELS)
    assert loss.label_counts.tolist() == [2, 1, 1]
    assert loss.options["num_samples"] == 4


@pytest.mark.parametrize("name", ["threshold", "pos_weight", "label_weight"])
def test_options_of_another_number_of_labels_are_refused(name: str) -> None:
    create_loss(TrainingConfig(loss_params={name: [1.0, 2.0, 3.0]}), LABELS)
    with pytest.raises(UserError, match=rf"{name} of the loss zlpr must be .* 3, .* got .*\(2,\)"):
        create_loss(TrainingConfig(loss_params={name: [1.0, 2.0]}), LABELS)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"gama": 1.0}, "did you mean 'gamma'"),
        ({"gamma": -1.0}, "gamma must be at least 0"),
        ({"gamma": "high"}, "gamma must be a number, got str"),
    ],
)
def test_a_fault_of_the_settings_is_the_users(params, message: str) -> None:
    with pytest.raises(UserError, match=message):
        create_loss(TrainingConfig(loss="focal", loss_params=params), LABELS)


def test_a_loss_that_draws_at_random_gets_the_generator() -> None:
    generator = torch.Generator()
    sampled = TrainingConfig(loss="lsep", loss_params={"pairs": 3})
    assert create_loss(sampled, LABELS, generator=generator).options["generator"] is generator
    whole = create_loss(TrainingConfig(loss="lsep"), LABELS, generator=generator)
    assert whole.options["generator"] is None


def test_the_reduction_is_not_a_users_to_choose() -> None:
    with pytest.raises(UserError, match="reduction is not for a training to choose"):
        create_loss(TrainingConfig(loss_params={"reduction": "sum"}), LABELS)

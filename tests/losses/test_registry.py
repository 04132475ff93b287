"""What the registry says of a loss is so."""

import pytest
import torch

from tests.losses.samples import ALL, Case, scores_and_targets
from zlpr import losses
from zlpr._errors import UserError

by_name = pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)


@by_name
def test_create_makes_the_module_of_the_function(case: Case) -> None:
    scores, targets = scores_and_targets(dtype=torch.float32)
    options = dict(case.options)
    module = losses.create(case.name, **options)
    assert type(module) is case.info.module
    assert type(module).__name__ in losses.__all__
    assert case.info.function.__name__ in losses.__all__
    expected = case.loss(scores, targets)
    torch.testing.assert_close(module(scores, targets), expected)
    mask, weight = torch.rand(6, 7) < 0.7, torch.rand(6)
    torch.testing.assert_close(
        module(scores, targets, mask, weight),
        case.loss(scores, targets, label_mask=mask, sample_weight=weight),
    )
    for reduction in ("sum", "none"):
        torch.testing.assert_close(
            losses.create(case.name, reduction=reduction, **options)(scores, targets),
            case.loss(scores, targets, reduction=reduction),
        )


@by_name
def test_a_loss_that_decides_has_a_bound_and_one_that_ranks_has_none(case: Case) -> None:
    info = case.info
    assert info.bound == (0.0 if info.decides else None)
    assert (info.link_scale is None) == (not info.decides)
    assert info.summary
    assert info.name == case.name


@by_name
def test_convexity_is_as_said(case: Case) -> None:
    """Between two points the value is below the chord, always or not always."""
    worst = -torch.inf
    for seed in range(300):
        generator = torch.Generator().manual_seed(seed)
        scores, targets = scores_and_targets(seed, shape=(1, 7))
        step = torch.zeros(1, 7).double()
        step[0, seed % 7] = (1, 4)[seed % 2] * torch.rand((), generator=generator)
        ends = [case.loss(2 * scores + sign * step, targets) for sign in (-1, 1)]
        worst = max(worst, (case.loss(2 * scores, targets) - (ends[0] + ends[1]) / 2).item())
    assert (worst <= 1e-9) == case.info.convex


@by_name
def test_over_batch_is_as_said(case: Case) -> None:
    """The mean over two halves of a batch is the whole's value, or is not."""
    scores, targets = scores_and_targets()
    halves = [case.loss(scores[rows], targets[rows]) for rows in (slice(0, 3), slice(3, 6))]
    same = torch.isclose(sum(halves) / 2, case.loss(scores, targets))
    assert bool(same) == (not case.info.over_batch)


@by_name
def test_the_gradient_is_that_of_the_value_where_it_is_smooth(case: Case) -> None:
    scores, targets = scores_and_targets()
    scores.requires_grad_()
    fine = torch.autograd.gradcheck(lambda s: case.loss(s, targets), scores, raise_exception=False)
    if case.info.smooth:
        assert fine
    elif case.name not in {"ranking", "warp", "splc"}:  # these have kinks, but not at random points
        assert not fine


@by_name
def test_where_it_decides_raising_a_label_over_the_bound_pays(case: Case) -> None:
    if not case.info.decides:
        return
    targets = torch.tensor([[True, False, True, False, True, False, True]] * 4)
    right = torch.where(targets, 0.4, -0.4).double()
    assert case.loss(right, targets) < case.loss(-right, targets)


def test_the_names_are_the_documented_ones() -> None:
    assert losses.available() == (
        "zlpr",
        "bce",
        "focal",
        "dice1",
        "dice2",
        "ranking",
        "warp",
        "bp_mll",
        "lsep",
        "cross_entropy",
        "asymmetric",
        "two_way",
        "hbm",
        "adaptive_threshold",
        "circle",
        "decoupled_softmax",
        "distribution_balanced",
        "class_balanced",
        "sigmoid_f1",
        "self_adjusting_dice",
        "hill",
        "asymmetric_polynomial",
        "splc",
        "cb_ntr",
        "logit_adjusted",
    )
    assert [name for name in losses.available() if losses.info(name).needs_label_counts] == [
        "distribution_balanced",
        "class_balanced",
        "cb_ntr",
        "logit_adjusted",
    ]
    paper = {"zlpr", "bce", "focal", "dice1", "dice2", "ranking", "warp", "bp_mll", "lsep"}
    assert {n for n in losses.available() if losses.info(n).in_paper} == paper | {"cross_entropy"}


def test_parameters_may_stand_behind_the_name() -> None:
    counts = {"label_counts": torch.tensor([40, 3]), "num_samples": 50}
    loss = losses.create("logit_adjusted:loss=zlpr,tau=0.5", **counts)
    scores, targets = torch.tensor([[0.3, -0.2]]), torch.tensor([[1, 0]])
    moved = scores + 0.5 * torch.log(torch.tensor([40, 3]) / 50)
    torch.testing.assert_close(loss(scores, targets), losses.zlpr_loss(moved, targets))
    with pytest.raises(ValueError, match="gamma given twice"):
        losses.create("focal:gamma=1", gamma=2.0)
    with pytest.raises(UserError, match=r"focal has no parameter 'gama'; did you mean 'gamma'"):
        losses.create("focal:gama=1")

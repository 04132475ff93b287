"""Values and gradients where scores, weights and shapes are as hard as they get."""

import math
from functools import partial

import pytest
import torch
from torch import Tensor

from tests.losses import fuzzing
from tests.losses.samples import ALL, PER_SAMPLE, Case
from zlpr import losses
from zlpr.losses import (
    adaptive_threshold_loss,
    bce_loss,
    bp_mll_loss,
    circle_loss,
    cross_entropy_loss,
    distribution_balanced_loss,
    focal_loss,
    hbm_loss,
    hill_loss,
    lsep_loss,
    ranking_loss,
    sparse_zlpr_loss,
    warp_loss,
    zlpr_loss,
)

INF = math.inf


def by_name(cases: list[Case]):  # type: ignore[no-untyped-def]
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


def value_and_slope(loss, scores, targets, **options) -> tuple[float, list[float]]:  # type: ignore[no-untyped-def]
    s = torch.tensor([scores], requires_grad=True)
    value = loss(s, torch.tensor([targets]), **options)
    return value.item(), torch.autograd.grad(value, s)[0][0].tolist()


@pytest.mark.parametrize("way", fuzzing.WAYS)
def test_hard_cases_are_as_in_extended_precision(way: str) -> None:
    for number in range(30):
        case = fuzzing.make_case(1, number, (way,))
        assert not fuzzing.complaints(case), f"bench/fuzz_losses.py --losses {way} --case {number}"


@by_name(ALL)
@pytest.mark.parametrize("shape", [(3, 0), (0, 4), (0, 0)])
def test_shapes_with_a_zero_have_no_loss(case: Case, shape: tuple[int, int]) -> None:
    options = {}
    if case.info.needs_label_counts:
        options = {"label_counts": torch.ones(shape[1]), "num_samples": 3}
    scores = torch.zeros(shape, requires_grad=True)
    value = case.info.function(scores, torch.zeros(shape), **options)
    assert value == 0
    assert torch.autograd.grad(value, scores)[0].shape == shape


@pytest.mark.parametrize("loss", [zlpr_loss, lsep_loss, bp_mll_loss, circle_loss])
def test_a_weight_of_zero_has_the_slope_of_a_small_one(loss) -> None:  # type: ignore[no-untyped-def]
    scores = torch.tensor([[2.0, 1.0, -0.5, 3.0]], dtype=torch.float64)
    targets = torch.tensor([[1, 0, 0, 0]])
    weights = [torch.tensor([1.0, 1.0, 1.0, x]).double().requires_grad_() for x in (0.0, 1e-12)]
    slopes = [
        torch.autograd.grad(loss(scores, targets, label_weight=weight), weight)[0]
        for weight in weights
    ]
    torch.testing.assert_close(slopes[0], slopes[1], rtol=1e-6, atol=0)


RANKING = {
    "lsep": lsep_loss,
    "bp_mll": partial(bp_mll_loss, log=False),
    "decoupled_softmax": losses.decoupled_softmax_loss,
    "two_way": losses.two_way_loss,
}
EXPONENTIAL = RANKING | {
    "zlpr": zlpr_loss,
    "circle": partial(circle_loss, gamma=0.5),
    "hbm": partial(hbm_loss, alpha=0.0, margin=0.0),
    "adaptive_threshold": adaptive_threshold_loss,
}
# A positive label without weight is none to these, so that there is a jump, not a slope.
JUMPS = {"two_way", "adaptive_threshold"}


def slopes_and_differences(loss, start: list[float]) -> tuple[Tensor, Tensor]:  # type: ignore[no-untyped-def]
    """Slopes of a function, and what differences from points on one side say: from 0 up."""
    at = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    (slopes,) = torch.autograd.grad(loss(at), at)
    steps = 1e-5 * torch.eye(at.numel(), dtype=at.dtype)
    with torch.no_grad():
        values = [4 * loss(at + step) - loss(at + 2 * step) - 3 * loss(at) for step in steps]
    return slopes, torch.stack(values) / 2e-5


@pytest.mark.parametrize(
    ("name", "weight", "start"),
    [
        *((name, "label_weight", [1.0, 1.0, 0.0]) for name in EXPONENTIAL),
        *((name, "pos_weight", [0.0, 0.0, 0.0]) for name in EXPONENTIAL if name not in JUMPS),
        ("zlpr", "label_weight", [0.0, 0.0, 0.0]),
        ("hbm", "label_weight", [0.0, 0.0, 0.0]),
    ],
)
def test_weights_of_a_side_that_counts_for_nothing_have_their_slopes(name, weight, start):  # type: ignore[no-untyped-def]
    scores = torch.tensor([[1.0, -1.0, 0.5], [2.0, -0.5, 0.0]], dtype=torch.float64)
    targets = torch.tensor([[1, 0, 0], [1, 1, 0]])

    def loss(given: Tensor) -> Tensor:
        value: Tensor = EXPONENTIAL[name](scores, targets, reduction="sum", **{weight: given})
        return value

    slopes, expected = slopes_and_differences(loss, start)
    assert (expected != 0).any()
    torch.testing.assert_close(slopes, expected, rtol=1e-6, atol=1e-8)
    at = torch.tensor(start, dtype=torch.float64)
    _, tangent = torch.func.jvp(loss, (at,), (torch.ones_like(at),))
    torch.testing.assert_close(tangent, expected.sum(), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", RANKING)
@pytest.mark.parametrize("offset", [-700.0, 700.0])
def test_what_only_ranks_has_such_slopes_whatever_scores_have_in_common(name, offset):  # type: ignore[no-untyped-def]
    scores = torch.tensor([[1.0, -1.0, 0.5], [2.0, -0.5, 0.0]], dtype=torch.float64)
    weight = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64, requires_grad=True)
    slopes = []
    for moved in (scores, scores + offset):
        value = RANKING[name](moved, torch.tensor([[1, 0, 0], [1, 1, 0]]), label_weight=weight)
        slopes.append(torch.autograd.grad(value, weight)[0])
    torch.testing.assert_close(slopes[1], slopes[0])


@pytest.mark.parametrize("truth", [0.0, 1.0])
def test_targets_of_a_sample_without_one_of_the_sides_have_their_slopes(truth: float) -> None:
    """By the formula: c e^x / (1 + sum c e^x) of each side, for c = 0 as well."""
    scores = torch.tensor([[1.0, -1.0, 0.0]], dtype=torch.float64)
    targets = torch.full_like(scores, truth).requires_grad_()
    (slope,) = torch.autograd.grad(zlpr_loss(scores, targets), targets)
    above = (-scores).exp() / (1 + truth * (-scores).exp().sum())
    below = scores.exp() / (1 + (1 - truth) * scores.exp().sum())
    torch.testing.assert_close(slope, above - below)


@pytest.mark.parametrize("loss", [zlpr_loss, lsep_loss])
def test_second_derivatives_in_weights_of_a_side_that_counts_for_nothing(loss) -> None:  # type: ignore[no-untyped-def]
    """Of log(1 + sum_i u_i x_i) at u = 0: -x_i x_j."""
    scores = torch.tensor([[1.0, -1.0, 0.5]], dtype=torch.float64)
    targets = torch.tensor([[1, 1, 0]])

    def of(weight: Tensor) -> Tensor:
        value: Tensor = loss(scores, targets, pos_weight=weight)
        return value

    x = (-scores[0]).exp() * targets[0] * (1.0 if loss is zlpr_loss else scores[0, 2].exp())
    start = torch.zeros(3, dtype=torch.float64)
    torch.testing.assert_close(torch.func.hessian(of)(start), -torch.outer(x, x))


@pytest.mark.parametrize("name", EXPONENTIAL)
@pytest.mark.parametrize("truth", [[1, 0, 0], [0, 0, 0], [1, 1, 1]])
@pytest.mark.parametrize("row", [[3.0, -INF, 1.0], [-INF, 1e3, -1e3], [300.0, -163.0, 0.0]])
def test_no_slope_is_nan_where_weights_are_learned(name, truth, row) -> None:  # type: ignore[no-untyped-def]
    """Be those in weights of 0 infinite, and the sample of great weight."""
    for start in ([1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]):
        scores = torch.tensor([row], requires_grad=True)
        weight = torch.tensor(start, requires_grad=True)
        options = {"label_weight": weight, "sample_weight": torch.tensor([1e10])}
        value = EXPONENTIAL[name](scores, torch.tensor([truth]), **options)
        slope, of_weight = torch.autograd.grad(value, (scores, weight))
        assert not slope.isnan().any()
        if name == "zlpr":
            assert not of_weight.isnan().any()


def test_no_labels_have_no_indices() -> None:
    nothing = torch.zeros(3, 0)
    assert sparse_zlpr_loss(nothing, torch.zeros(3, 0, dtype=torch.long)) == 0


@pytest.mark.parametrize(
    "loss", [lsep_loss, bp_mll_loss, hbm_loss, adaptive_threshold_loss, cross_entropy_loss]
)
def test_the_slope_at_an_infinite_wrong_score_is_the_limits(loss) -> None:  # type: ignore[no-untyped-def]
    value, slope = value_and_slope(loss, [INF, 0.0], [0, 1])
    assert value > 1e37
    assert slope[0] == 1.0
    right, flat = value_and_slope(loss, [INF, -INF], [1, 0])
    assert right == 0 or right < -1e37  # the log form of BP-MLL has no lower bound
    assert flat[1] == 0 or loss is bp_mll_loss


@pytest.mark.parametrize("loss", [cross_entropy_loss, adaptive_threshold_loss])
def test_a_sure_and_right_label_costs_nothing(loss) -> None:  # type: ignore[no-untyped-def]
    value, slope = value_and_slope(loss, [INF, 0.0], [1, 0])
    below = 0.0 if loss is cross_entropy_loss else math.log(2)
    assert value == pytest.approx(below)
    assert slope[0] == 0


@pytest.mark.parametrize("score", [17.0, 30.0, 60.0])
@pytest.mark.parametrize("loss", [cross_entropy_loss, adaptive_threshold_loss])
def test_a_small_loss_keeps_its_digits(loss, score: float) -> None:  # type: ignore[no-untyped-def]
    value, slope = value_and_slope(loss, [score, -INF], [1, 0], label_mask=torch.tensor([1, 1]) > 0)
    if loss is cross_entropy_loss:
        value, slope = value_and_slope(loss, [score, 0.0], [1, 0])
    assert value == pytest.approx(math.log1p(math.exp(-score)), rel=1e-5)
    assert slope[0] == pytest.approx(-1 / (1 + math.exp(score)), rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("loss", [focal_loss, hill_loss, circle_loss, bce_loss])
def test_slopes_are_numbers_at_the_largest_and_at_infinite_scores(loss, dtype) -> None:  # type: ignore[no-untyped-def]
    for size in (torch.finfo(dtype).max, INF):
        scores = torch.tensor([[size, -size, size, -size]], dtype=dtype, requires_grad=True)
        value = loss(scores, torch.tensor([[1, 0, 0, 1]]))
        (slope,) = torch.autograd.grad(value, scores)
        assert not value.isnan()
        assert slope.isfinite().all()


@pytest.mark.parametrize("loss", [ranking_loss, warp_loss])
def test_large_weights_are_no_nan(loss) -> None:  # type: ignore[no-untyped-def]
    value, slope = value_and_slope(loss, [0.0, 0.5], [1, 0], label_weight=1e30, pos_weight=1e30)
    assert value > 1e37
    assert slope[0] < -1e37
    assert slope[1] > 1e37


def test_the_hinges_do_not_see_a_label_that_is_far_on_the_right_side() -> None:
    near, _ = value_and_slope(ranking_loss, [0.5, 0.0, 0.2], [1, 0, 0])
    far, slope = value_and_slope(ranking_loss, [0.5, 0.0, 0.2, 1e30], [1, 0, 0, 1])
    assert far == pytest.approx(near)
    assert slope[3] == 0


def test_without_steepness_an_empty_sample_weighs_as_any_other() -> None:
    counts = torch.tensor([3, 1])
    options = {"label_counts": counts, "num_samples": 4, "beta": 0.0, "alpha": 0.1}
    value, slope = value_and_slope(distribution_balanced_loss, [1.0, -1.0], [0, 0], **options)
    # sigma(0) is a half whatever the counts: each cell weighs alpha + 1/2.
    expected = 0.0
    for score, count in zip([1.0, -1.0], counts.tolist(), strict=True):
        z = score - 0.05 / 2 * math.log(4 / count - 1)
        wrongness = 1 / (1 + math.exp(-2 * z))
        expected += (0.1 + 0.5) * wrongness**2 * math.log1p(math.exp(2 * z)) / 2
    assert value == pytest.approx(expected, rel=1e-5)
    assert all(map(math.isfinite, slope))


def test_targets_that_are_all_0_have_slopes_that_are_numbers() -> None:
    """The weights of a distribution-balanced sample without labels do not depend on them."""
    scores = torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    counts = {"label_counts": torch.tensor([1, 3]), "num_samples": 4}
    slopes, expected = slopes_and_differences(
        lambda row: distribution_balanced_loss(scores, row.unsqueeze(0), **counts), [0.0, 0.0]
    )
    torch.testing.assert_close(slopes, expected, rtol=1e-6, atol=1e-8)


@by_name(PER_SAMPLE)
def test_a_sample_without_weight_counts_for_nothing_whatever_its_loss(case: Case) -> None:
    scores = torch.full((2, 7), -3e38, requires_grad=True)
    targets = torch.ones(2, 7)
    targets[:, 0] = 0
    takes_weight = "pos_weight" in case.info.function.__kwdefaults__
    weight: dict[str, float | Tensor] = {"pos_weight": 1e30} if takes_weight else {}
    value = case.loss(scores, targets, sample_weight=torch.zeros(2), **weight)
    assert value == 0
    assert (torch.autograd.grad(value, scores)[0] == 0).all()


@pytest.mark.parametrize("wrong", [math.nan, INF, -INF, 3e38])
def test_a_sample_without_weight_is_out_where_the_weight_is_learned(wrong: float) -> None:
    """Whatever its loss and its slopes, be they no numbers; the other sample is as if alone."""
    scores = torch.tensor([[wrong, -wrong, 1.0], [0.5, -1.0, 2.0]], requires_grad=True)
    targets = torch.tensor([[False, True, True], [True, False, False]])
    for loss in (zlpr_loss, bce_loss, lsep_loss, focal_loss, hbm_loss, bp_mll_loss):
        weight = torch.tensor([0.0, 1.0], requires_grad=True)
        value = loss(scores, targets, sample_weight=weight, reduction="sum")
        slope, of_weight = torch.autograd.grad(value, (scores, weight))
        alone = loss(scores[1:], targets[1:], reduction="sum")
        torch.testing.assert_close(value, alone)
        torch.testing.assert_close(of_weight[1], alone)
        assert not of_weight.isnan().any()
        if not math.isnan(wrong):
            assert (slope[0] == 0).all()


@pytest.mark.parametrize("number", [float, torch.tensor])
def test_weights_whose_product_is_no_number_leave_a_loss_and_a_gradient(number):
    scores = torch.tensor([[2.0, 0.0]], requires_grad=True)
    targets = torch.tensor([[0.0, 1.0]])
    weights = {"pos_weight": number(1e30), "label_weight": number(1e30)}
    for loss in (losses.zlpr_loss, losses.bce_loss, losses.focal_loss):
        value = loss(scores, targets, **weights)
        (gradient,) = torch.autograd.grad(value, scores)
        assert not value.isnan()
        assert not gradient.isnan().any()
        assert gradient[0, 0] > 0 > gradient[0, 1]


@pytest.mark.parametrize("loss", [ranking_loss, warp_loss])
@pytest.mark.parametrize("weight", [1e15, 1e19, 3e38])
def test_hinges_with_huge_weights_have_slopes_that_are_numbers(loss, weight: float) -> None:  # type: ignore[no-untyped-def]
    scores, targets = [0.0, 1.0, 2.0, -3.0, 0.5], [1, 0, 0, 1, 0]
    _, plain = value_and_slope(loss, scores, targets)
    _, slope = value_and_slope(loss, scores, targets, label_weight=weight, pos_weight=weight)
    assert all(map(math.isfinite, slope))
    assert [math.copysign(1, one) for one in slope] == [math.copysign(1, one) for one in plain]


@pytest.mark.parametrize("tensor", [False, True])
@pytest.mark.parametrize("loss", [bce_loss, focal_loss, hill_loss])
def test_a_weight_beyond_the_limit_counts_as_the_limit(loss, tensor: bool) -> None:  # type: ignore[no-untyped-def]
    """Whatever it is multiplied with: a larger one must not count for less."""
    limit = 2.0**-64 * torch.finfo(torch.float32).max
    expected = value_and_slope(loss, [0.0, 1.0], [1, 0], label_weight=limit)
    for weight in (limit, 1e38, 3e38, torch.finfo(torch.float32).max):
        given = torch.tensor([weight, weight]) if tensor else weight
        for positive in ({}, {"pos_weight": given}):
            found = value_and_slope(loss, [0.0, 1.0], [1, 0], label_weight=given, **positive)
            assert found[0] == pytest.approx(expected[0])
            assert found[1] == pytest.approx(expected[1])


@by_name(ALL)
@pytest.mark.parametrize("wrong", [(0, 1), (slice(None), 1), (slice(None), slice(None))])
def test_a_score_that_is_no_number_is_not_hidden(case: Case, wrong: tuple[int, int]) -> None:
    scores = torch.linspace(-2, 2, 14).reshape(2, 7)
    scores[wrong] = math.nan
    for targets in ([[1, 0, 0], [0, 1, 1]], [[1, 1, 0], [0, 0, 1]], [[0, 1, 1], [1, 1, 0]]):
        padded = torch.nn.functional.pad(torch.tensor(targets), (0, 4))
        assert case.loss(scores, padded).isnan()

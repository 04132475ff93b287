"""Misuse is an error that names the argument, the value and what is allowed."""

import pytest
import torch

from tests.losses.samples import ALL, PAIRS, Case, scores_and_targets
from zlpr import losses
from zlpr.losses import _arguments as arguments
from zlpr.losses import sparse_zlpr_loss, zlpr_loss

by_name = pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)


@by_name
def test_swapped_arguments_are_an_error(case: Case) -> None:
    scores, targets = scores_and_targets()
    for truth in (targets, targets.long()):
        with pytest.raises(TypeError, match=r"scores must be a floating-point tensor, got torch\."):
            case.loss(truth, scores)
    with pytest.raises(ValueError, match=r"targets must lie in \[0, 1\], got values from -"):
        case.loss(targets.double(), scores)


@by_name
@pytest.mark.parametrize("bad", [-0.1, 1.5, float("nan"), float("inf"), -float("inf")])
def test_targets_outside_zero_and_one_are_an_error(case: Case, bad: float) -> None:
    scores, targets = scores_and_targets()
    wrong = targets.double()
    wrong[2, 3] = bad
    with pytest.raises(ValueError, match=r"targets must lie in \[0, 1\]"):
        case.loss(scores, wrong)
    if bad == 1.5:
        with pytest.raises(ValueError, match="targets must lie"):
            case.loss(scores, targets.long() * 2)


@pytest.mark.parametrize("size", [arguments.MANY - 1, arguments.MANY])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_range_of_few_and_many_targets(size: int, dtype: torch.dtype) -> None:
    scores, targets = torch.zeros(1, size), torch.zeros(1, size, dtype=dtype)
    step = torch.finfo(dtype).eps
    for good in (0.0, -0.0, 1.0, step, 1 - step, torch.finfo(dtype).smallest_normal):
        targets[0, 7] = good
        assert zlpr_loss(scores, targets).isfinite()
    for bad in (-step, -torch.finfo(dtype).smallest_normal, 1 + step, torch.inf, -torch.inf):
        targets[0, 7] = bad
        with pytest.raises(ValueError, match=rf"lie in \[0, 1\], .*{targets[0, 7].item():g}"):
            zlpr_loss(scores, targets)
    for nan in (torch.nan, -torch.nan):
        targets[0, 7] = nan
        with pytest.raises(ValueError, match=r"lie in \[0, 1\], got values from nan to nan"):
            zlpr_loss(scores, targets)


@pytest.mark.parametrize("size", [arguments.MANY - 1, arguments.MANY])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_numbers_that_lie_within_bounds(size: int, dtype: torch.dtype) -> None:
    smallest = torch.finfo(dtype).smallest_normal
    values = torch.ones(size, dtype=dtype)
    for value, is_within in (
        (smallest, True),
        (smallest / 2, False),
        (0.0, False),
        (-1.0, False),
        (torch.finfo(dtype).max, True),
        (torch.inf, True),
        (torch.nan, False),
    ):
        values[5] = value
        assert arguments.lie_within(values, smallest, torch.inf) is is_within
    values[5] = torch.inf
    assert not arguments.lie_within(values, smallest, torch.finfo(dtype).max)


@by_name
def test_another_shape_is_an_error(case: Case) -> None:
    scores, targets = scores_and_targets()
    with pytest.raises(ValueError, match=r"targets must have the scores' shape \(6, 7\), got \(7,"):
        case.loss(scores, targets[0])
    with pytest.raises(ValueError, match=r"label_mask must have the shape \(7,\) or \(6, 7\), got"):
        case.loss(scores, targets, label_mask=targets[:, :1])
    with pytest.raises(
        ValueError, match=r"sample_weight must have the shape \(6,\), .* got \(7,\)"
    ):
        case.loss(scores, targets, sample_weight=torch.ones(7))
    with pytest.raises(ValueError, match="scores must have the shape"):
        case.loss(torch.tensor(1.0), torch.tensor(1.0))


@by_name
def test_other_kinds_are_an_error(case: Case) -> None:
    scores, targets = scores_and_targets()
    with pytest.raises(TypeError, match="scores must be a tensor, got list"):
        case.loss(scores.tolist(), targets)
    with pytest.raises(TypeError, match="targets must be a tensor, got list"):
        case.loss(scores, targets.tolist())
    with pytest.raises(TypeError, match="label_mask must be a boolean tensor"):
        case.loss(scores, targets, label_mask=targets.long())
    with pytest.raises(TypeError, match="sample_weight must be a tensor, got float"):
        case.loss(scores, targets, sample_weight=0.5)
    with pytest.raises(
        ValueError, match="reduction must be 'mean', 'sum' or 'none', got 'average'"
    ):
        case.loss(scores, targets, reduction="average")


@by_name
def test_weights_are_checked(case: Case) -> None:
    scores, targets = scores_and_targets()
    negative = torch.linspace(-1.0, 1.0, 7)
    with pytest.raises(ValueError, match="label_weight must not be negative, got -"):
        case.loss(scores, targets, label_weight=negative)
    with pytest.raises(ValueError, match="label_weight must be a number or have the shape"):
        case.loss(scores, targets, label_weight=torch.ones(6))


@by_name
def test_label_weight_is_per_label_or_a_number(case: Case) -> None:
    scores, targets = scores_and_targets()
    same = case.loss(scores, targets)
    for weight in (1.0, torch.ones(7), torch.tensor(1.0)):
        torch.testing.assert_close(case.loss(scores, targets, label_weight=weight), same)
    assert case.loss(scores, targets, label_weight=torch.linspace(0, 2, 7)) != same


@pytest.mark.parametrize("name", [*PAIRS, "two_way", "hbm", "adaptive_threshold"])
def test_pairs_need_hard_targets(name: str) -> None:
    scores, targets = scores_and_targets()
    with pytest.raises(ValueError, match=r"targets of this loss must be 0 or 1, got 0\.5"):
        losses.info(name).function(scores, 0.5 * targets)


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("zlpr", {"threshold": "high"}, "threshold must be a number, got str"),
        ("zlpr", {"threshold": float("nan")}, "threshold must be finite, got nan"),
        ("zlpr", {"pos_weight": -1.0}, "pos_weight must be at least 0, got -1.0"),
        ("zlpr", {"reduction": "avg"}, "reduction must be .* got 'avg'"),
        ("focal", {"gamma": -1.0}, "gamma must be at least 0, got -1.0"),
        ("dice1", {"smoothing": 0.0}, "smoothing must be above 0, got 0.0"),
        ("dice2", {"smoothing": -1}, "smoothing must be above 0, got -1"),
        ("asymmetric", {"margin": 1.0}, "margin must be below 1, got 1.0"),
        ("ranking", {"margin": None}, "margin must be a number, got NoneType"),
        ("warp", {"margin": float("inf")}, "margin must be finite, got inf"),
        ("lsep", {"pairs": 0}, "pairs must be None or an integer of at least 1, got 0"),
        ("two_way", {"positive_temperature": 0.0}, "positive_temperature must be above 0"),
        ("hbm", {"alpha": -0.5}, "alpha must be at least 0, got -0.5"),
        ("circle", {"gamma": 0}, "gamma must be above 0, got 0"),
        ("hill", {"weighting": 0.5}, "weighting must be at least 1, got 0.5"),
        ("self_adjusting_dice", {"alpha": True}, "alpha must be a number, got bool"),
        ("bp_mll", {"log": "yes"}, "log must be True or False, got 'yes'"),
    ],
)
def test_options_are_checked_when_the_module_is_made(
    name: str, params: dict[str, object], message: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        losses.create(name, **params)


@pytest.mark.parametrize("name", ["class_balanced", "distribution_balanced"])
def test_label_counts_are_checked(name: str) -> None:
    counts = torch.tensor([3, 5])
    with pytest.raises(ValueError, match=f"{name} needs label_counts and num_samples"):
        losses.create(name)
    with pytest.raises(ValueError, match="num_samples must be an integer of at least 1, got 0"):
        losses.create(name, label_counts=counts, num_samples=0)
    with pytest.raises(ValueError, match="label_counts must lie between 0 and num_samples=4"):
        losses.create(name, label_counts=counts, num_samples=4)
    with pytest.raises(TypeError, match="label_counts must be a tensor, got list"):
        losses.create(name, label_counts=[3, 5], num_samples=9)
    loss = losses.create(name, label_counts=counts, num_samples=9)
    with pytest.raises(ValueError, match=r"label_counts must have the shape \(3,\)"):
        loss(torch.zeros(1, 3), torch.zeros(1, 3))


@pytest.mark.parametrize(
    ("indices", "error", "message"),
    [
        ([[0, 3]], ValueError, r"indices must lie in \[0, 3\) or be -1 .* from 0 to 3"),
        ([[-2, 1]], ValueError, r"indices must lie in \[0, 3\) or be -1 .* from -2 to 1"),
        ([[0.0, 1.0]], TypeError, "indices must be an integer tensor"),
        ([[True, False]], TypeError, "indices must be an integer tensor"),
        ([0, 1], ValueError, r"indices must have the shape \(1, 'K'\)"),
        ([[0], [1]], ValueError, "indices must have the shape"),
    ],
)
def test_indices_are_checked(indices: list[object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sparse_zlpr_loss(torch.zeros(1, 3), torch.tensor(indices))
    with pytest.raises(TypeError, match="indices must be a tensor, got list"):
        sparse_zlpr_loss(torch.zeros(1, 3), [[0]])  # type: ignore[arg-type]


def test_thresholds_are_checked() -> None:
    scores, targets = scores_and_targets()
    with pytest.raises(
        ValueError, match=r"threshold must be .* \(6, 1\) \(per sample\) or \(6, 7\) .*, got \(6,\)"
    ):
        zlpr_loss(scores, targets, threshold=torch.zeros(6))


@pytest.mark.parametrize("as_view", [False, True])
def test_a_weight_is_looked_at_again_when_it_has_changed(
    as_view: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arguments, "_waits_for_device", lambda tensor: True)
    looks: list[int] = []
    original = arguments.extremes
    monkeypatch.setattr(arguments, "extremes", lambda w: looks.append(1) or original(w))
    scores, weight = torch.zeros(2, 3), torch.ones(3)
    for _ in range(3):
        arguments.check_weight("label_weight", weight, scores)
    assert len(looks) == 1
    (weight[1:] if as_view else weight).sub_(2.0)
    with pytest.raises(ValueError, match="label_weight must not be negative, got -1"):
        arguments.check_weight("label_weight", weight, scores)


def test_other_weights_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "_waits_for_device", lambda tensor: True)
    scores = torch.zeros(2, 3)
    arguments.check_weight("label_weight", torch.ones(3), scores)
    with pytest.raises(ValueError, match="must not be negative"):
        arguments.check_weight("label_weight", -torch.ones(3), scores)
    with torch.inference_mode():  # where changes are not counted
        weight = torch.ones(3)
        arguments.check_weight("label_weight", weight, scores)
        weight.neg_()
        with pytest.raises(ValueError, match="must not be negative"):
            arguments.check_weight("label_weight", weight, scores)

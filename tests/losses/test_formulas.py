"""Every loss is its formula: value and gradient, against the formulas written out in float64."""

import pytest
import torch

from tests.losses.samples import ALL, CASES, OVER_BATCH, PER_SAMPLE, Case, scores_and_targets
from zlpr import losses


def by_name(cases: list[Case]):  # type: ignore[no-untyped-def]
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


def test_every_registered_loss_has_a_case() -> None:
    assert sorted(case.name for case in ALL) == sorted(losses.available())


@by_name(CASES)
@pytest.mark.parametrize("seed", range(3))
def test_value_is_the_formulas(case: Case, seed: int) -> None:
    scores, targets = scores_and_targets(seed)
    reduction = "mean" if case.info.over_batch else "none"
    actual = case.loss(scores, targets, reduction=reduction)
    torch.testing.assert_close(actual, case.expected(scores, targets), rtol=1e-11, atol=1e-12)


@by_name(CASES)
@pytest.mark.parametrize("seed", range(2))
def test_gradient_is_the_formulas_for_a_non_uniform_upstream_gradient(
    case: Case, seed: int
) -> None:
    scores, targets = scores_and_targets(seed)
    upstream = torch.linspace(-1.0, 2.0, len(scores), dtype=torch.float64)
    reduction = "mean" if case.info.over_batch else "none"
    weight = torch.ones(()).double() if case.info.over_batch else upstream
    gradients = []
    for function in (lambda s: case.loss(s, targets, reduction=reduction), None):
        s = scores.clone().requires_grad_()
        value = case.expected(s, targets) if function is None else function(s)
        gradients.append(torch.autograd.grad(value, s, weight)[0])
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-9, atol=1e-11)


@by_name(PER_SAMPLE)
def test_reductions_are_over_samples(case: Case) -> None:
    scores, targets = scores_and_targets()
    each = case.loss(scores, targets, reduction="none")
    assert each.shape == scores.shape[:-1]
    torch.testing.assert_close(case.loss(scores, targets, reduction="sum"), each.sum())
    torch.testing.assert_close(case.loss(scores, targets, reduction="mean"), each.mean())
    torch.testing.assert_close(case.loss(scores, targets), each.mean())


@by_name(OVER_BATCH)
def test_reductions_of_losses_over_the_batch(case: Case) -> None:
    scores, targets = scores_and_targets()
    terms = case.loss(scores, targets, reduction="none")
    torch.testing.assert_close(case.loss(scores, targets, reduction="sum"), terms.sum())
    assert case.loss(scores, targets).shape == ()


@by_name(PER_SAMPLE)
def test_any_leading_shape(case: Case) -> None:
    scores, targets = scores_and_targets(shape=(2, 3, 7))
    flat = case.loss(scores.view(6, 7), targets.view(6, 7), reduction="none")
    deep = case.loss(scores, targets, reduction="none")
    torch.testing.assert_close(deep, flat.view(2, 3))
    single = case.loss(scores[0, 0], targets[0, 0], reduction="none")
    assert single.shape == ()
    torch.testing.assert_close(single, flat[0])


@by_name(OVER_BATCH)
def test_losses_over_the_batch_take_any_leading_shape(case: Case) -> None:
    scores, targets = scores_and_targets(shape=(2, 3, 7))
    flat = case.loss(scores.view(6, 7), targets.view(6, 7))
    torch.testing.assert_close(case.loss(scores, targets), flat)


@by_name(ALL)
def test_bool_integer_and_float_targets_agree(case: Case) -> None:
    scores, targets = scores_and_targets()
    value = case.loss(scores, targets)
    for dtype in (torch.int64, torch.uint8, torch.float32, torch.float64):
        torch.testing.assert_close(case.loss(scores, targets.to(dtype)), value)


@by_name(PER_SAMPLE)
def test_sample_weight_multiplies(case: Case) -> None:
    scores, targets = scores_and_targets()
    weight = torch.rand(6, dtype=torch.float64)
    each = case.loss(scores, targets, reduction="none")
    for reduction, expected in [
        ("none", weight * each),
        ("sum", (weight * each).sum()),
        ("mean", (weight * each).sum() / 6),
    ]:
        actual = case.loss(scores, targets, sample_weight=weight, reduction=reduction)
        torch.testing.assert_close(actual, expected)


@by_name(PER_SAMPLE)
def test_the_slope_in_a_sample_weight_is_the_samples_loss_where_it_is_0_too(case: Case) -> None:
    scores, targets = scores_and_targets()
    weight = torch.tensor([0.0, 1.0, 0.0, 2.0, 0.0, 0.5], dtype=torch.float64, requires_grad=True)
    total = case.loss(scores, targets, sample_weight=weight, reduction="sum")
    each = case.loss(scores, targets, reduction="none")
    torch.testing.assert_close(torch.autograd.grad(total, weight)[0], each)


@by_name([case for case in PER_SAMPLE if not case.info.needs_label_counts])
def test_a_masked_label_is_as_if_it_were_not_there(case: Case) -> None:
    scores, targets = scores_and_targets()
    keep = torch.tensor([True, True, False, True, True, False, True])
    expected = case.loss(scores[:, keep], targets[:, keep], reduction="none")
    for mask in (keep, keep.expand(6, 7)):
        s = scores.clone().masked_fill(~keep, torch.nan).requires_grad_()
        actual = case.loss(s, targets, label_mask=mask, reduction="none")
        torch.testing.assert_close(actual, expected)
        (gradient,) = torch.autograd.grad(actual.sum(), s)
        assert (gradient[:, ~keep] == 0).all()
        assert gradient.isfinite().all()


@by_name([case for case in OVER_BATCH if case.name != "two_way"])
def test_a_masked_cell_counts_for_nothing_over_the_batch(case: Case) -> None:
    scores, targets = scores_and_targets()
    mask = torch.ones_like(targets)
    mask[2] = False
    s = scores.clone()
    s[2] = torch.nan
    s.requires_grad_()
    actual = case.loss(s, targets, label_mask=mask)
    rest = [0, 1, 3, 4, 5]
    torch.testing.assert_close(actual, case.loss(scores[rest], targets[rest]))
    (gradient,) = torch.autograd.grad(actual, s)
    assert (gradient[2] == 0).all()


@by_name(PER_SAMPLE)
def test_labels_in_another_order_change_nothing(case: Case) -> None:
    if case.info.needs_label_counts:
        return
    scores, targets = scores_and_targets()
    order = torch.randperm(7, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(
        case.loss(scores[:, order], targets[:, order]), case.loss(scores, targets)
    )


@by_name(ALL)
def test_value_in_lower_precision_is_near(case: Case) -> None:
    scores, targets = scores_and_targets()
    for dtype, tolerance in [(torch.float32, 1e-5), (torch.float16, 2e-3), (torch.bfloat16, 2e-2)]:
        # The scores are rounded first, so that the computation alone is judged.
        rounded = scores.to(dtype)
        actual = case.loss(rounded, targets)
        assert actual.dtype is torch.float32
        expected = case.loss(rounded.double(), targets)
        torch.testing.assert_close(actual.double(), expected, rtol=tolerance / 10, atol=1e-6)


@by_name(ALL)
def test_under_autocast(case: Case) -> None:
    features = torch.randn(6, 5)
    weight = torch.randn(5, 7)
    _, targets = scores_and_targets()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = features @ weight
        value = case.loss(scores, targets)
    assert scores.dtype is torch.bfloat16
    torch.testing.assert_close(value, case.loss(scores, targets))


@by_name(ALL)
def test_non_contiguous_scores(case: Case) -> None:
    scores, targets = scores_and_targets(shape=(7, 6))
    targets = targets.T.contiguous()
    targets[:, 0], targets[:, 1] = True, False
    strided = scores.T.requires_grad_()
    copied = scores.T.contiguous().requires_grad_()
    (one,) = torch.autograd.grad(case.loss(strided, targets), strided)
    (two,) = torch.autograd.grad(case.loss(copied, targets), copied)
    torch.testing.assert_close(one, two)


@by_name(ALL)
def test_is_deterministic(case: Case) -> None:
    scores, targets = scores_and_targets(dtype=torch.float32)
    gradients = []
    for _ in range(2):
        s = scores.clone().requires_grad_()
        gradients.append(torch.autograd.grad(case.loss(s, targets), s)[0])
    assert torch.equal(*gradients)

"""ZLPR: its paths against the formula, its invariants, and the faults of the copies about."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests import reference
from tests.losses.samples import scores_and_targets
from zlpr.losses import SparseZLPRLoss, ZLPRLoss, lsep_loss, sparse_zlpr_loss, zlpr_loss

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@st.composite
def problems(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Scores of moderate size and any targets, from no positive label to all."""
    samples, labels = draw(st.integers(1, 4)), draw(st.integers(1, 40))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    scale = draw(st.sampled_from([0.1, 1.0, 10.0]))
    scores = scale * torch.randn(samples, labels, generator=generator, dtype=torch.float64)
    share = draw(st.sampled_from([0.0, 0.04, 0.3, 1.0]))
    return scores, torch.rand(samples, labels, generator=generator) < share


def indices_of(targets: Tensor) -> Tensor:
    """The positive labels of each row, padded with -1."""
    width = max(int(targets.sum(dim=1).max()), 1)
    rows = [row.nonzero().squeeze(1) for row in targets]
    return torch.stack([F.pad(row, (0, width - len(row)), value=-1) for row in rows])


def gradient_of(function, scores: Tensor, upstream: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
    scores = scores.detach().clone().requires_grad_()
    return torch.autograd.grad(function(scores), scores, upstream)[0]


# --- the paths agree with the formula -----------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(problems())
def test_all_paths_are_the_formula(problem: tuple[Tensor, Tensor]) -> None:
    scores, targets = problem
    indices = indices_of(targets)
    upstream = torch.linspace(-1.0, 2.0, len(scores), dtype=torch.float64)
    expected = reference.zlpr(scores, targets)
    slope = gradient_of(lambda s: reference.zlpr(s, targets), scores, upstream)
    paths = {
        "bool": lambda s: zlpr_loss(s, targets, reduction="none"),
        "float": lambda s: zlpr_loss(s, targets.double(), reduction="none"),
        "sparse": lambda s: sparse_zlpr_loss(s, indices, reduction="none"),
        "soft": lambda s: zlpr_loss(s, targets.double().clamp(1e-300, 1.0), reduction="none"),
    }
    for name, path in paths.items():
        torch.testing.assert_close(path(scores), expected, rtol=1e-12, atol=1e-13, msg=name)
        actual = gradient_of(path, scores, upstream)
        torch.testing.assert_close(actual, slope, rtol=1e-11, atol=1e-13, msg=name)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("samples", "labels"), [(300, 2000), (3, 300_000)])
def test_many_labels_in_blocks(dtype: torch.dtype, samples: int, labels: int) -> None:
    generator = torch.Generator().manual_seed(3)
    scores = torch.randn(samples, labels, generator=generator).to(dtype)
    indices = torch.randint(0, labels, (samples, 5), generator=generator)
    targets = torch.zeros(samples, labels, dtype=torch.bool).scatter(1, indices, True)
    upstream = torch.linspace(0.5, 2.0, samples)
    exact = scores.double()
    expected = reference.zlpr(exact, targets)
    slope = gradient_of(lambda s: reference.zlpr(s, targets), exact, upstream.double())
    half = dtype in (torch.float16, torch.bfloat16)
    for path in (
        lambda s: zlpr_loss(s, targets, reduction="none"),
        lambda s: sparse_zlpr_loss(s, indices, reduction="none"),
        lambda s: zlpr_loss(s, targets.float().clamp(0.0, 1.0), reduction="none"),
    ):
        torch.testing.assert_close(path(scores).double(), expected, rtol=2e-6, atol=0)
        actual = gradient_of(path, scores, upstream.to(path(scores).dtype))
        assert actual.dtype is dtype
        relative = torch.finfo(dtype).eps if half else 1e-5
        floor = torch.finfo(dtype).smallest_normal * 1e-3 if half else 1e-12
        torch.testing.assert_close(actual.double(), slope, rtol=relative, atol=max(floor, 1e-7))


@settings(max_examples=30, deadline=None)
@given(problems(), st.integers(0, 10**6))
def test_weights_stand_inside_the_logarithms(problem: tuple[Tensor, Tensor], seed: int) -> None:
    scores, targets = problem
    generator = torch.Generator().manual_seed(seed)
    shape = scores.shape[1:] if seed % 2 else scores.shape
    w = torch.rand(shape, generator=generator, dtype=torch.float64) * 3
    u = torch.rand(shape, generator=generator, dtype=torch.float64) * 3
    upstream = torch.linspace(-1.0, 2.0, len(scores), dtype=torch.float64)

    def expected(s: Tensor) -> Tensor:
        return torch.cat(
            [
                reference.weighted_zlpr(row[None], y[None], w=wr, u=ur)
                for row, y, wr, ur in zip(
                    s, targets, w.expand(s.shape), u.expand(s.shape), strict=True
                )
            ]
        )

    for path in (
        lambda s: zlpr_loss(s, targets, label_weight=w, pos_weight=u, reduction="none"),
        lambda s: sparse_zlpr_loss(
            s, indices_of(targets), label_weight=w, pos_weight=u, reduction="none"
        ),
    ):
        torch.testing.assert_close(path(scores), expected(scores), rtol=1e-11, atol=1e-13)
        actual = gradient_of(path, scores, upstream)
        torch.testing.assert_close(
            actual, gradient_of(expected, scores, upstream), rtol=1e-10, atol=1e-13
        )


def test_pos_weight_of_e_to_the_m_is_a_margin() -> None:
    scores = torch.randn(4, 9, dtype=torch.float64)
    targets = torch.rand(4, 9) < 0.3
    moved = torch.where(targets, scores - 1.5, scores)
    torch.testing.assert_close(
        zlpr_loss(scores, targets, pos_weight=math.exp(1.5)), zlpr_loss(moved, targets)
    )


def test_a_mask_works_in_every_path() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(5, 60, generator=generator, dtype=torch.float64)
    targets = torch.rand(5, 60, generator=generator) < 0.04
    mask = torch.rand(5, 60, generator=generator) < 0.7
    holes = torch.where(mask, scores, torch.nan)
    expected = torch.cat(
        [
            reference.zlpr(s[None, m], y[None, m])
            for s, y, m in zip(scores, targets, mask, strict=True)
        ]
    )
    upstream = torch.rand(5, dtype=torch.float64)
    for path in (
        lambda s: zlpr_loss(s, targets, label_mask=mask, reduction="none"),
        lambda s: zlpr_loss(s, targets * 0.999999, label_mask=mask, reduction="none"),
        lambda s: sparse_zlpr_loss(s, indices_of(targets), label_mask=mask, reduction="none"),
    ):
        torch.testing.assert_close(path(holes), expected, rtol=1e-5, atol=1e-5)
        slope = gradient_of(path, holes, upstream)
        assert (slope[~mask] == 0).all()
        assert slope.isfinite().all()


# --- invariants ---------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(problems())
def test_two_logarithms_are_one(problem: tuple[Tensor, Tensor]) -> None:
    scores, targets = problem
    a = torch.where(targets, 0.0, scores.exp()).sum(dim=1)
    b = torch.where(targets, (-scores).exp(), 0.0).sum(dim=1)
    expected = torch.log(1 + a + b + a * b)
    torch.testing.assert_close(zlpr_loss(scores, targets, reduction="none"), expected)
    torch.testing.assert_close(lsep_loss(scores, targets, reduction="none"), torch.log(1 + a * b))


@settings(max_examples=40, deadline=None)
@given(problems(), st.floats(-3.0, 3.0))
def test_a_threshold_moves_the_bound(problem: tuple[Tensor, Tensor], threshold: float) -> None:
    scores, targets = problem
    value = zlpr_loss(scores, targets, threshold=threshold, reduction="none")
    torch.testing.assert_close(value, reference.tlpr(scores, targets, threshold=threshold))
    torch.testing.assert_close(value, zlpr_loss(scores - threshold, targets, reduction="none"))
    sparse = sparse_zlpr_loss(scores, indices_of(targets), threshold=threshold, reduction="none")
    torch.testing.assert_close(sparse, value)


def test_thresholds_per_label_and_per_sample_are_learnable() -> None:
    scores = torch.randn(4, 6, dtype=torch.float64)
    targets = torch.rand(4, 6) < 0.3
    for shape in [(), (6,), (4, 1), (4, 6)]:
        threshold = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        value = zlpr_loss(scores, targets, threshold=threshold)
        torch.testing.assert_close(value, zlpr_loss(scores - threshold, targets))
        torch.autograd.gradcheck(lambda t: zlpr_loss(scores, targets, threshold=t), threshold)


@settings(max_examples=40, deadline=None)
@given(problems())
def test_absolute_gradients_sum_to_one_minus_e_to_minus_the_side(
    problem: tuple[Tensor, Tensor],
) -> None:
    scores, targets = problem
    slope = gradient_of(
        lambda s: zlpr_loss(s, targets, reduction="none"), scores, torch.ones(len(scores)).double()
    )
    above = torch.log1p(torch.where(targets, (-scores).exp(), 0.0).sum(dim=1))
    below = torch.log1p(torch.where(targets, 0.0, scores.exp()).sum(dim=1))
    assert (slope[targets] <= 0).all()
    assert (slope[~targets] >= 0).all()
    for side, part in ((targets, above), (~targets, below)):
        total = torch.where(side, slope.abs(), 0.0).sum(dim=1)
        torch.testing.assert_close(total, -torch.expm1(-part))
    assert (slope.abs().sum(dim=1) < 2 + 1e-12).all()


def test_one_label_is_binary_cross_entropy() -> None:
    scores = torch.linspace(-50, 50, 41, dtype=torch.float64).unsqueeze(1)
    for truth in (0.0, 1.0):
        targets = torch.full_like(scores, truth)
        expected = F.binary_cross_entropy_with_logits(scores, targets, reduction="none")
        torch.testing.assert_close(
            zlpr_loss(scores, targets, reduction="none"), expected.squeeze(1), rtol=1e-8, atol=1e-14
        )


def test_one_positive_label_without_the_bound_is_cross_entropy() -> None:
    scores = torch.randn(5, 8, dtype=torch.float64)
    label = torch.randint(0, 8, (5,))
    targets = F.one_hot(label, 8).bool()
    # Far from the bound on both sides the bound's terms vanish: log(1 + A + B + AB) -> log(AB).
    far = torch.where(targets, scores - 60.0, scores + 60.0)
    expected = F.cross_entropy(far, label, reduction="none")
    torch.testing.assert_close(zlpr_loss(far, targets, reduction="none"), expected)


@settings(max_examples=30, deadline=None)
@given(problems())
def test_soft_targets_of_zero_and_one_are_hard_ones(problem: tuple[Tensor, Tensor]) -> None:
    scores, targets = problem
    soft = targets.double().requires_grad_()  # takes the differentiable path
    torch.testing.assert_close(
        zlpr_loss(scores, soft, reduction="none"), zlpr_loss(scores, targets, reduction="none")
    )


def test_soft_loss_is_flat_at_half_the_logit() -> None:
    targets = torch.linspace(0.01, 0.99, 15, dtype=torch.float64).unsqueeze(0)
    scores = torch.logit(targets) / 2
    # With one label the stationary point is logit(p) / 2; with more, too, for both sums are equal.
    slope = gradient_of(
        lambda s: zlpr_loss(s, targets, reduction="none"), scores, torch.ones(1).double()
    )
    torch.testing.assert_close(slope, torch.zeros_like(slope), atol=1e-14, rtol=0)


def test_binary_cross_entropy_has_all_higher_terms_too() -> None:
    scores = torch.tensor([[0.3, -0.7]], dtype=torch.float64)
    targets = torch.tensor([[False, False]])
    e = scores.exp().squeeze()
    product = torch.log(1 + e[0] + e[1] + e[0] * e[1])
    bce = F.binary_cross_entropy_with_logits(scores, targets.double(), reduction="sum")
    torch.testing.assert_close(bce, product)
    torch.testing.assert_close(zlpr_loss(scores, targets), torch.log(1 + e[0] + e[1]))


# --- numbers that must not break ----------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pattern", ["none", "all", "one", "mixed"])
@pytest.mark.parametrize("labels", [1, 3, 100])
def test_extreme_scores_are_finite_and_exact(dtype: torch.dtype, pattern: str, labels: int) -> None:
    targets = torch.zeros(4, labels, dtype=torch.bool)
    targets[:, {"none": labels, "all": 0, "one": labels - 1, "mixed": labels // 2}[pattern] :] = (
        True
    )
    size = 1e4 if dtype in (torch.float32, torch.float64) else torch.finfo(dtype).max
    signs = torch.tensor([[1.0], [-1.0], [1.0], [-1.0]]).repeat(1, labels)
    signs[2, ::2] *= -1
    signs[3, ::2] *= -1
    scores = (signs.double() * size).to(dtype)
    exact = scores.double()
    above = torch.where(targets, -exact, -torch.inf).amax(dim=1).clamp(min=0)
    below = torch.where(targets, -torch.inf, exact).amax(dim=1).clamp(min=0)
    largest = torch.finfo(torch.promote_types(dtype, torch.float32)).max
    expected = (above + below).clamp(max=largest)  # ties add log n, lost beside 1e4
    for path in (
        lambda s: zlpr_loss(s, targets, reduction="none"),
        lambda s: zlpr_loss(s, targets.float(), reduction="none"),
        lambda s: sparse_zlpr_loss(s, indices_of(targets), reduction="none"),
    ):
        value = path(scores)
        assert value.isfinite().all()
        torch.testing.assert_close(value.double(), expected, rtol=1e-3, atol=1e-30)
        slope = gradient_of(path, scores, torch.ones_like(value))
        assert slope.isfinite().all()
        for side, part, sign in ((targets, above, -1), (~targets, below, 1)):
            total = torch.where(side, slope.double(), 0.0).sum(dim=1)
            torch.testing.assert_close(total, sign * (part > 0).double(), rtol=0, atol=5e-3)
        assert zlpr_loss(scores, targets).isfinite()


@pytest.mark.parametrize("dtype", DTYPES)
def test_impossible_labels_may_have_a_score_of_minus_infinity(dtype: torch.dtype) -> None:
    scores = torch.randn(3, 50, generator=torch.Generator().manual_seed(0)).to(dtype)
    targets = torch.zeros(3, 50, dtype=torch.bool)
    targets[0, 2] = targets[1, 4] = True
    impossible = torch.zeros(50, dtype=torch.bool)
    impossible[10:20] = True
    barred = scores.masked_fill(impossible, -torch.inf)
    everything = torch.full_like(scores, -torch.inf)
    for path in (
        lambda s: zlpr_loss(s, targets, reduction="none"),
        lambda s: zlpr_loss(s, 0.5 * targets, reduction="none"),
        lambda s: sparse_zlpr_loss(s, indices_of(targets), reduction="none"),
    ):
        value = path(barred)
        slope = gradient_of(path, barred, torch.ones_like(value))
        assert slope.isfinite().all()
        assert (slope[:, impossible] == 0).all()
    kept = zlpr_loss(scores[:, ~impossible], targets[:, ~impossible], reduction="none")
    torch.testing.assert_close(zlpr_loss(barred, targets, reduction="none"), kept)
    nothing = torch.zeros_like(targets)
    slope = gradient_of(lambda s: zlpr_loss(s, nothing), everything, torch.ones(()))
    assert zlpr_loss(everything, nothing) == 0
    assert (slope == 0).all()


def test_a_positive_label_at_minus_infinity_is_no_nan() -> None:
    scores = torch.tensor([[-torch.inf, 0.0, 1.0], [0.0, torch.inf, 1.0]])
    targets = torch.tensor([[True, False, False], [True, False, False]])
    for path in (
        lambda s: zlpr_loss(s, targets, reduction="none"),
        lambda s: sparse_zlpr_loss(s, indices_of(targets), reduction="none"),
        lambda s: zlpr_loss(s, targets.float().clamp(1e-6, 1.0), reduction="none"),
    ):
        value = path(scores)
        assert (value > 1e38).all()
        assert not gradient_of(path, scores, torch.ones(2)).isnan().any()


def test_nan_scores_are_not_hidden() -> None:
    scores = torch.tensor([[torch.nan, 0.0, 0.0], [0.0, 0.0, 0.0]])
    targets = torch.tensor([[False, True, False], [False, True, False]])
    for value in (
        zlpr_loss(scores, targets, reduction="none"),
        sparse_zlpr_loss(scores, torch.tensor([[1], [1]]), reduction="none"),
    ):
        assert value.isnan().tolist() == [True, False]


def test_small_losses_keep_their_digits() -> None:
    scores = torch.tensor([[40.0, -41.0, -42.0]])
    expected = math.exp(-40) + math.exp(-41) + math.exp(-42)
    for value in (
        zlpr_loss(scores, torch.tensor([[True, False, False]])),
        sparse_zlpr_loss(scores, torch.tensor([[0]])),
    ):
        assert value.item() == pytest.approx(expected, rel=1e-5)


def test_an_empty_batch_is_zero() -> None:
    for labels in (0, 3):
        scores = torch.zeros(0, labels, requires_grad=True)
        value = zlpr_loss(scores, torch.zeros(0, labels, dtype=torch.bool))
        value.backward()
        assert value == 0
    assert zlpr_loss(torch.zeros(2, 0), torch.zeros(2, 0)) == 0
    assert sparse_zlpr_loss(torch.zeros(2, 3), torch.zeros(2, 0, dtype=torch.long)) > 0


# --- faults of the copies in circulation --------------------------------------------------------


def test_fault_large_constant_masks_overflow_in_half_precision() -> None:
    scores = torch.tensor([[1.0, -1.0]], dtype=torch.float16)
    targets = torch.tensor([[1.0, 0.0]], dtype=torch.float16)
    constant = torch.tensor(1e12).to(torch.float16)
    assert (constant * targets).isnan().any()  # infinity times zero
    expected = reference.zlpr(scores, targets)
    actual = zlpr_loss(scores, targets, reduction="none")
    torch.testing.assert_close(actual.double(), expected, rtol=1e-6, atol=0)


def test_fault_subtracting_the_positives_loses_the_negatives() -> None:
    scores = torch.tensor([[30.0, 2.0, -1.0]], requires_grad=True)
    indices = torch.tensor([[0]])
    targets = torch.tensor([[True, False, False]])
    expected = reference.zlpr(scores.detach(), targets)
    broken = reference.circulating_sparse_zlpr(scores.detach(), indices)
    assert (broken.double() - expected).abs() > 1  # the fault is there
    value = sparse_zlpr_loss(scores, indices, reduction="none")
    torch.testing.assert_close(value.double(), expected, rtol=1e-6, atol=0)
    (slope,) = torch.autograd.grad(value.sum(), scores)
    assert slope[0, 0] <= 0 < slope[0, 2] < slope[0, 1]


def test_fault_a_repeated_index_counts_once() -> None:
    scores = torch.randn(3, 6, dtype=torch.float64)
    once = torch.tensor([[1, 4, -1, -1], [2, -1, -1, -1], [-1, -1, -1, -1]])
    often = torch.tensor([[4, 1, 4, 1], [2, 2, -1, 2], [-1, -1, -1, -1]])
    ones = torch.ones(3).double()
    torch.testing.assert_close(
        sparse_zlpr_loss(scores, often, reduction="none"),
        sparse_zlpr_loss(scores, once, reduction="none"),
    )
    torch.testing.assert_close(
        gradient_of(lambda s: sparse_zlpr_loss(s, often, reduction="none"), scores, ones),
        gradient_of(lambda s: sparse_zlpr_loss(s, once, reduction="none"), scores, ones),
    )


def test_fault_plain_exponentials_overflow() -> None:
    scores = torch.tensor([[200.0, -200.0]])
    targets = torch.tensor([[False, True]])
    assert scores.exp().sum().log().isinf()
    assert zlpr_loss(scores, targets).item() == 400.0


def test_fault_a_side_without_labels_has_no_nan_gradient() -> None:
    scores = torch.zeros(1, 2, requires_grad=True)
    nothing = torch.full((1, 2), -torch.inf) + scores
    broken = torch.logaddexp(torch.zeros(1), torch.logsumexp(nothing, dim=1))
    assert torch.autograd.grad(broken.sum(), scores)[0].isnan().any()
    for truth in (False, True):
        targets = torch.full((1, 2), truth)
        (slope,) = torch.autograd.grad(zlpr_loss(scores, targets), scores)
        assert slope.isfinite().all()


def test_fault_samples_do_not_mix() -> None:
    scores = torch.randn(4, 5, dtype=torch.float64)
    targets = torch.rand(4, 5) < 0.5
    soft = torch.rand(4, 5, dtype=torch.float64)
    for truth in (targets, soft):
        each = torch.stack([zlpr_loss(s, y) for s, y in zip(scores, truth, strict=True)])
        torch.testing.assert_close(zlpr_loss(scores, truth, reduction="none"), each)
        changed = scores.clone()
        changed[0] += 1
        torch.testing.assert_close(
            zlpr_loss(changed, truth, reduction="none")[1:], each[1:], rtol=0, atol=0
        )


def test_fault_dense_and_sparse_reduce_alike() -> None:
    scores = torch.randn(4, 50)
    targets = torch.zeros(4, 50, dtype=torch.bool)
    targets[0, 3] = targets[2, 4] = targets[2, 5] = True
    for reduction in ("mean", "sum", "none"):
        torch.testing.assert_close(
            zlpr_loss(scores, targets, reduction=reduction),
            sparse_zlpr_loss(scores, indices_of(targets), reduction=reduction),
        )


# --- the modules --------------------------------------------------------------------------------


def test_module_is_a_drop_in_for_bce_with_logits() -> None:
    model = torch.nn.Linear(4, 3)
    targets = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    features = torch.randn(2, 4)
    ZLPRLoss()(model(features), targets).backward()
    assert model.weight.grad is not None
    torch.testing.assert_close(
        ZLPRLoss()(model(features), targets), zlpr_loss(model(features), targets)
    )


def test_a_learned_threshold_is_a_parameter_and_the_bound() -> None:
    for module in (ZLPRLoss, SparseZLPRLoss):
        loss = module(threshold=0.5, learn_threshold=True)
        assert [name for name, _ in loss.named_parameters()] == ["threshold"]
        assert loss.bound is loss.threshold
    loss = ZLPRLoss(threshold=torch.zeros(3), learn_threshold=True)
    loss(torch.randn(2, 3), torch.tensor([[True, False, False]] * 2)).backward()
    assert loss.threshold.grad.shape == (3,)
    assert ZLPRLoss().bound.item() == 0.0
    assert list(ZLPRLoss().parameters()) == []


@pytest.mark.parametrize("temperature", [0.2, 1.0, 5.0])
def test_a_temperature_divides_what_is_above_the_threshold(temperature: float) -> None:
    scores, targets = scores_and_targets()
    expected = reference.zlpr(scores, targets, threshold=0.5, temperature=temperature)
    options = {"threshold": 0.5, "temperature": temperature, "reduction": "none"}
    torch.testing.assert_close(zlpr_loss(scores, targets, **options), expected)
    indices = torch.where(targets, torch.arange(7), -1)
    torch.testing.assert_close(sparse_zlpr_loss(scores, indices, **options), expected)
    with pytest.raises(ValueError, match="temperature must be above 0, got 0"):
        zlpr_loss(scores, targets, temperature=0.0)

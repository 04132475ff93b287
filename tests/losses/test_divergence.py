"""ZLPR's divergence between score vectors."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import reference
from zlpr.losses import ZLPRDivergence, zlpr_divergence


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from([0.01, 1.0, 6.0]))
def test_is_the_formula(seed: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    s = scale * torch.randn(3, 5, generator=generator, dtype=torch.float64)
    t = scale * torch.randn(3, 5, generator=generator, dtype=torch.float64)
    plain = zlpr_divergence(s, t, reduction="none")
    torch.testing.assert_close(plain, reference.divergence(s, t), rtol=1e-9, atol=1e-13)
    symmetric = zlpr_divergence(s, t, symmetric=True, reduction="none")
    torch.testing.assert_close(symmetric, reference.symmetric_divergence(s, t))
    both = plain + zlpr_divergence(t, s, reduction="none")
    torch.testing.assert_close(symmetric, both, rtol=1e-9, atol=1e-13)
    assert (plain >= 0).all()


def test_is_the_divergence_of_bernoulli_variables() -> None:
    s, t = torch.randn(4, 6, dtype=torch.float64), torch.randn(4, 6, dtype=torch.float64)
    bernoulli = torch.distributions.Bernoulli
    expected = torch.distributions.kl_divergence(bernoulli(logits=2 * s), bernoulli(logits=2 * t))
    torch.testing.assert_close(zlpr_divergence(s, t, reduction="none"), expected.sum(dim=1))


@pytest.mark.parametrize("symmetric", [False, True])
def test_gradients_flow_into_both(symmetric: bool) -> None:
    s = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    t = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)

    def divergence(s: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return zlpr_divergence(s, t, symmetric=symmetric)

    assert torch.autograd.gradcheck(divergence, (s, t))
    assert torch.autograd.gradgradcheck(divergence, (s, t))


def test_small_steps_keep_their_digits() -> None:
    s = torch.tensor([[0.3, -2.0]])
    step = 1e-3
    p = torch.sigmoid(2 * s)
    expected = (2 * p * (1 - p) * step**2).sum()  # to second order
    actual = zlpr_divergence(s, s + step)
    assert actual.item() == pytest.approx(expected.item(), rel=5e-3)


@pytest.mark.parametrize("symmetric", [False, True])
def test_extreme_and_equal_scores(symmetric: bool) -> None:
    s = torch.tensor([[1e4, -1e4, -torch.inf, 0.0]], requires_grad=True)
    t = torch.tensor([[1e4 + 1, -1e4, -torch.inf, 1e4]], requires_grad=True)
    value = zlpr_divergence(s, t, symmetric=symmetric)
    assert value.isfinite()
    assert value >= 0
    for slope in torch.autograd.grad(value, (s, t)):
        assert slope.isfinite().all()
    one_sided = zlpr_divergence(torch.tensor([-torch.inf]), torch.tensor([0.0]))
    assert one_sided.item() == pytest.approx(0.6931472)  # log 2


EXTREMES = [torch.inf, 3e38, 1e30, 100.0, 20.0, 1.0, 0.0]
PAIRS = list(itertools.product([*EXTREMES, *(-value for value in EXTREMES)], repeat=2))


@pytest.mark.parametrize("weight", [None, 0.0, 1.0, 3e38])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_pair_of_scores_gives_nan(
    symmetric: bool, weight: float | None, dtype: torch.dtype
) -> None:
    """An infinite score counts as a sixteenth of the largest number, as in every loss."""
    pairs = torch.tensor(PAIRS, dtype=dtype)
    s, t = (column.clone().requires_grad_() for column in pairs[:, :, None].unbind(1))
    value = zlpr_divergence(s, t, symmetric=symmetric, label_weight=weight, reduction="none")
    limit = torch.finfo(dtype).max / 16
    held = pairs.clamp(-limit, limit)
    if weight in (None, 1.0) and dtype is torch.float32:
        expected = exact_divergence(*held.double().unbind(1))
        if symmetric:
            expected = expected + exact_divergence(*held.double().flip(1).unbind(1))
        torch.testing.assert_close(value.double(), expected, rtol=1e-5, atol=1e-7)
    elif weight == 0.0:
        assert (value == 0).all()
    assert (value >= 0).all()
    of_s, of_t = torch.autograd.grad(value.sum(), (s, t))
    assert not of_s.isnan().any()
    ahead = (held[:, 0] - held[:, 1]).sign()[:, None]
    assert (of_t * ahead <= 0).all()  # a step of one towards the other never adds
    if symmetric:
        assert (of_s * ahead >= 0).all()


def exact_divergence(s: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """The formula in float64, from the side on which p <= 1/2."""
    sign = torch.where(s > 0, -1.0, 1.0)
    s, t = s * sign, t * sign
    nothing = torch.zeros_like(s)
    gained = torch.logaddexp(2 * t, nothing) - torch.logaddexp(2 * s, nothing)
    return gained - 2 * torch.sigmoid(2 * s) * (t - s)


def test_masks_weights_reductions_and_checks() -> None:
    s, t = torch.randn(3, 4), torch.randn(3, 4)
    each = zlpr_divergence(s, t, reduction="none")
    torch.testing.assert_close(zlpr_divergence(s, t), each.mean())
    torch.testing.assert_close(zlpr_divergence(s, t, reduction="sum"), each.sum())
    mask = torch.tensor([True, False, True, True])
    kept = zlpr_divergence(s[:, mask], t[:, mask])
    torch.testing.assert_close(zlpr_divergence(s, t, label_mask=mask), kept)
    torch.testing.assert_close(zlpr_divergence(s, t, label_weight=mask.float()), kept)
    weight = torch.rand(3)
    torch.testing.assert_close(
        ZLPRDivergence(reduction="sum")(s, t, None, weight), (weight * each).sum()
    )
    weighted = ZLPRDivergence(symmetric=True, label_weight=mask.float())(s, t)
    kept = zlpr_divergence(s[:, mask], t[:, mask], symmetric=True)
    torch.testing.assert_close(weighted, kept)
    with pytest.raises(ValueError, match="label_weight must be at least 0, got -1"):
        ZLPRDivergence(label_weight=-1.0)
    with pytest.raises(ValueError, match=r"other must have the scores' shape \(3, 4\), got \(4,\)"):
        zlpr_divergence(s, t[0])
    with pytest.raises(TypeError, match="other must be a floating-point tensor"):
        zlpr_divergence(s, t > 0)

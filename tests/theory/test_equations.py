"""The paper's equations hold for the losses of the package."""

import math

import pytest
import torch

from zlpr.losses import bce_loss, zlpr_loss
from zlpr.theory import (
    coupled_scores,
    equal_marginals,
    expansion,
    independent,
    maxima,
    random_joint,
    zlpr_gradient,
    zlpr_over_pairs,
)

SCORES = torch.tensor([0.7, -0.4, 1.3, -2.0, 0.1], dtype=torch.float64)
TARGETS = torch.tensor([1, 0, 0, 1, 0])


def test_each_loss_is_at_most_a_logarithm_above_its_maximum() -> None:
    found = {entry.loss: entry for entry in maxima(SCORES, TARGETS)}
    assert found["cross_entropy"].maximum == pytest.approx(0.6)  # 1.3 - 0.7
    assert found["lsep"].maximum == pytest.approx(3.3)  # 1.3 + 2.0
    assert found["zlpr"].maximum == pytest.approx(3.3)
    for entry in found.values():
        for k, value in entry.by_scale.items():
            assert entry.maximum <= value + 1e-12
            assert value <= entry.maximum + math.log(1 + 6 + 5) / k
    alone = {entry.loss: entry.maximum for entry in maxima(torch.tensor([2.0, 1.0]), TARGETS[:2])}
    assert alone == {"cross_entropy": 0.0, "lsep": 0.0, "zlpr": 1.0}  # above zero, though ranked


@pytest.mark.parametrize("threshold", [0.0, 0.8])
def test_over_pairs_it_is_the_same_loss(threshold: float) -> None:
    expected = zlpr_loss(SCORES, TARGETS, threshold=threshold)
    torch.testing.assert_close(zlpr_over_pairs(SCORES, TARGETS, threshold), expected)


@pytest.mark.parametrize("targets", [TARGETS, TARGETS * 0, TARGETS * 0 + 1, TARGETS * 0.3])
def test_the_gradient_in_closed_form_is_that_of_the_loss(targets: torch.Tensor) -> None:
    scores = SCORES.clone().requires_grad_()
    (expected,) = torch.autograd.grad(zlpr_loss(scores, targets), scores)
    torch.testing.assert_close(zlpr_gradient(SCORES, targets), expected)


def test_the_expansion_adds_up_to_bce_and_its_first_orders_to_zlpr() -> None:
    terms = expansion(SCORES, TARGETS)
    assert len(terms) == 2**2 + 2**3

    def logarithms(of_zlpr: bool) -> float:
        sums = {"positive": 0.0, "negative": 0.0}
        for term in terms:
            sums[term.side] += term.value if term.in_zlpr or not of_zlpr else 0.0
        return sum(map(math.log, sums.values()))

    assert logarithms(False) == pytest.approx(bce_loss(SCORES, TARGETS).item())
    assert logarithms(True) == pytest.approx(zlpr_loss(SCORES, TARGETS).item())
    with pytest.raises(ValueError, match="expected scores of 1 to 12 labels"):
        expansion(torch.zeros(13), torch.zeros(13))


def test_a_label_that_always_or_never_applies_has_an_infinite_coupled_score() -> None:
    joint = independent([0.0, 0.5, 1.0])
    scores = torch.tensor([-math.inf, 0.0, math.inf])
    torch.testing.assert_close(coupled_scores(scores, joint), scores.double())
    with pytest.raises(ValueError, match=r"expected \(3,\)"):
        coupled_scores(scores[:2], joint)


@pytest.mark.parametrize(
    "make",
    [
        lambda: independent([1.2, 0.5]),
        lambda: independent([math.nan]),
        lambda: random_joint(3, 1.5, torch.Generator()),
        lambda: equal_marginals(2.0),
    ],
)
def test_what_would_be_no_distribution_is_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=r"expected (one|a number) from"):
        make()

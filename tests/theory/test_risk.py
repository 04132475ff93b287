"""The risk minimisers against the conditions that the paper derives for them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from zlpr.losses import registry, two_way_loss, zlpr_loss
from zlpr.theory import (
    coupled_scores,
    equal_marginals,
    independent,
    label_vectors,
    marginals,
    random_joint,
    risk_minimiser,
)
from zlpr.theory.hinge import hinge_minimiser, rankings
from zlpr.theory.risk import CELLS, _derivatives, batch_loss, expected_loss

joints = st.builds(
    lambda labels, dependence, seed: random_joint(
        labels, dependence, torch.Generator().manual_seed(seed)
    ),
    st.integers(1, 5),
    st.floats(0, 1),
    st.integers(0, 10_000),
)


@settings(max_examples=20, deadline=None)
@given(joints)
def test_bce_finds_the_marginals_and_nothing_else(joint):
    scores = risk_minimiser("bce", joint)
    torch.testing.assert_close(scores, marginals(joint).logit(), rtol=0, atol=1e-8)


@settings(max_examples=20, deadline=None)
@given(joints)
def test_zlpr_satisfies_its_coupling_equation(joint):
    scores = risk_minimiser("zlpr", joint)
    torch.testing.assert_close(coupled_scores(scores, joint), scores, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", ["zlpr", "lsep"])
def test_losses_over_all_labels_tell_joints_with_equal_marginals_apart(name):
    apart = risk_minimiser(name, equal_marginals(-0.9))
    together = risk_minimiser(name, equal_marginals(0.9))
    assert (apart - together).abs().max() > 0.05


def test_bce_cannot_tell_joints_with_equal_marginals_apart():
    apart, together = equal_marginals(-0.9), equal_marginals(0.9)
    assert (apart - together).abs().max() > 0.1
    torch.testing.assert_close(
        risk_minimiser("bce", apart), risk_minimiser("bce", together), rtol=0, atol=1e-8
    )


def test_soft_targets_are_recovered_by_twice_the_score():
    probability = torch.tensor([0.9, 0.3, 0.05, 0.5], dtype=torch.float64)

    def soft(scores, targets):
        return zlpr_loss(scores, probability.expand_as(scores), reduction="none")

    scores = risk_minimiser(soft, independent([0.5] * 4))
    torch.testing.assert_close((2 * scores).sigmoid(), probability, rtol=0, atol=1e-8)


def test_one_label_has_the_link_of_bce():
    joint = independent([0.2])
    torch.testing.assert_close(
        risk_minimiser("zlpr", joint), risk_minimiser("bce", joint), rtol=0, atol=1e-8
    )


@pytest.mark.parametrize("name", registry.available())
def test_no_step_from_the_minimiser_goes_down(name):
    joint = random_joint(4, 0.8, torch.Generator().manual_seed(7))
    if name == "bp_mll":  # bounded below only where a lone negative label is rare
        joint = independent([0.4, 0.3, 0.2, 0.1])
    value = expected_loss(name, joint)
    scores = risk_minimiser(name, joint).clamp(-1e4, 1e4)
    lowest = value(scores[None])[0]
    generator = torch.Generator().manual_seed(0)
    for size in (1e-4, 1e-2, 0.3, 1.0, 3.0):
        steps = size * torch.randn(40, 4, generator=generator, dtype=torch.float64)
        assert value((scores + steps)[:, None])[:, 0].min() >= lowest - 1e-9


@pytest.mark.parametrize("name", ["ranking", "warp", "bp_mll", "lsep"])
def test_rankers_are_centred(name):
    scores = risk_minimiser(name, independent([0.4, 0.3, 0.2, 0.1]))
    assert abs(scores.sum().item()) < 1e-9


def test_bp_mll_has_no_minimum_where_a_lone_negative_is_likely():
    joint = torch.tensor([[0.1, 0.6], [0.1, 0.2]])  # {second} is likely, the first label rare
    assert risk_minimiser("bp_mll", joint).tolist() == [-torch.inf, torch.inf]


@pytest.mark.parametrize("seed", range(12))
def test_bp_mll_is_infinite_exactly_where_its_risk_falls_without_end(seed):
    """By brute force: the slope far out along each of the 0/1 directions."""
    joint = random_joint(4, 0.6, torch.Generator().manual_seed(seed))
    value = expected_loss("bp_mll", joint)
    directions = label_vectors(4)[1:-1]
    slopes = (value(2e3 * directions[:, None]) - value(1e3 * directions[:, None]))[:, 0] / 1e3
    scores = risk_minimiser("bp_mll", joint)
    if slopes.min() < 0:
        assert scores.isinf().all()
        assert torch.equal((scores > 0).double(), directions[slopes.argmin()])
    else:
        assert scores.isfinite().all()


@pytest.mark.parametrize("name", registry.available())
def test_relabelling_relabels_the_minimiser(name):
    """Smooth convex losses to 1e-8 in the scores, the others in their risk."""
    for seed, order in ((7, [2, 0, 3, 1]), (11, [2, 0, 1])):
        joint = random_joint(len(order), 0.6, torch.Generator().manual_seed(seed))
        scores, relabelled = (
            risk_minimiser(name, joint)[order],
            risk_minimiser(name, joint.permute(order)),
        )
        entry = registry.info(name)
        if entry.smooth and entry.convex:
            torch.testing.assert_close(scores, relabelled, rtol=0, atol=1e-8)
        value = expected_loss(name, joint.permute(order))
        risks = value(torch.stack([scores, relabelled]).clamp(-1e4, 1e4))
        torch.testing.assert_close(risks[0], risks[1], rtol=0, atol=1e-8)


def test_the_two_way_loss_of_a_population_is_that_of_its_samples():
    """Counts of 1, 2 and 3 against a batch in which the rows are really repeated."""
    targets = label_vectors(3)
    scores = torch.randn(8, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    counts = torch.tensor([1, 2, 3, 1, 2, 3, 1, 2])
    expected = two_way_loss(
        scores.repeat_interleave(counts, 0), targets.repeat_interleave(counts, 0)
    )
    torch.testing.assert_close(batch_loss("two_way", targets)(scores, counts.double()), expected)


def test_the_ranking_loss_puts_likelier_labels_first():
    scores = risk_minimiser("ranking", independent([0.1, 0.8, 0.4]))
    assert scores.argsort(descending=True).tolist() == [1, 2, 0]


def test_all_rankings_find_what_the_linear_program_finds(monkeypatch):
    assert [len(rankings(labels)) for labels in (1, 2, 3, 4, 5)] == [1, 3, 13, 75, 541]
    joint = random_joint(4, 0.8, torch.Generator().manual_seed(2))
    for name in ("ranking", "warp"):
        value = expected_loss(name, joint)
        tried = hinge_minimiser(joint, value, by_rank=name == "warp")
        with monkeypatch.context() as patch:
            patch.setattr("zlpr.theory.hinge.ENUMERATED", 0)
            solved = hinge_minimiser(joint, value, by_rank=name == "warp")
        tried_risk, solved_risk = value(torch.stack([tried, solved])).tolist()
        assert tried_risk <= solved_risk + 1e-12
        if name == "ranking":
            assert tried_risk == pytest.approx(solved_risk, abs=1e-9)


def test_twelve_labels_are_within_reach():
    joint = random_joint(12, 0.7, torch.Generator().manual_seed(3))
    scores = risk_minimiser("zlpr", joint)
    torch.testing.assert_close(coupled_scores(scores, joint), scores, rtol=0, atol=1e-8)
    torch.testing.assert_close(
        risk_minimiser("bce", joint), marginals(joint).logit(), rtol=0, atol=1e-8
    )
    for name in ("lsep", "asymmetric", "ranking"):
        value = expected_loss(name, joint)
        scores = risk_minimiser(name, joint)
        steps = torch.randn(20, 1, 12, generator=torch.Generator().manual_seed(0)).double()
        assert value(scores + 0.1 * steps).min() > value(scores[None])[0]


def test_second_differences_of_twelve_labels_stay_small():
    """A loss is never handed more than `CELLS` scores at a time, whatever is asked at once."""
    largest = 0

    def detached(scores, targets):  # its slope is not its gradient, so that differences are taken
        nonlocal largest
        largest = max(largest, scores.numel())
        return (((scores - targets) ** 2) * (1 + (scores - targets) ** 2).detach()).sum(-1)

    value = expected_loss(detached, random_joint(12, 0.7, torch.Generator().manual_seed(3)))
    starts = torch.zeros(2, 12, dtype=torch.float64)
    _, hessian = _derivatives(value, starts)
    assert hessian(starts).shape == (2, 12, 12)
    assert largest <= CELLS


def test_label_vectors_follow_the_order_of_a_flat_joint():
    joint = torch.zeros(2, 2, 2)
    joint[1, 0, 1] = 1
    assert label_vectors(3)[joint.flatten().argmax()].tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("joint", "message"),
    [
        (torch.full((2, 3), 1 / 6), r"shape \(2, 3\), expected \(2,\) \* L"),
        (torch.full((2, 2), 0.3), "sums to 1.2"),
        (torch.tensor([1.5, -0.5]), "negative"),
        (torch.full((2,) * 13, 2.0**-13), "L from 1 to 12"),
    ],
)
def test_what_is_no_joint_is_refused(joint, message):
    with pytest.raises(ValueError, match=message):
        risk_minimiser("zlpr", joint)


def test_a_loss_that_is_reduced_is_refused():
    with pytest.raises(ValueError, match='reduction="none"'):
        risk_minimiser(lambda scores, targets: zlpr_loss(scores, targets), independent([0.5, 0.5]))

import itertools
import math

import pytest
import torch
from sklearn.metrics import label_ranking_average_precision_score, label_ranking_loss

from zlpr.losses import zlpr_loss
from zlpr.metrics import PAPER_METRICS, evaluate
from zlpr.theory import (
    best_possible,
    independent,
    label_vectors,
    marginals,
    measure,
    random_joint,
    regrets,
    risk_minimiser,
)
from zlpr.theory.hinge import rankings
from zlpr.theory.regret import LOSSES, Regret, at_best_cut, not_worse, scores_of
from zlpr.theory.risk import descend, expected_loss, starting_points


@pytest.fixture
def joints():
    generator = torch.Generator().manual_seed(5)
    return [random_joint(3, 0.9, generator) for _ in range(3)]


def test_no_predictor_beats_the_best_possible(joints):
    """All 8 x 8 x 8 decisions of three inputs, and all rankings with ties, by brute force."""
    best = best_possible(joints)
    signs = 2 * label_vectors(3) - 1
    reached = [measure(torch.stack(rows), joints) for rows in itertools.product(signs, repeat=3)]
    for metric in PAPER_METRICS[:4]:
        assert max(value[metric] for value in reached) == pytest.approx(best[metric], abs=1e-12)
    levels = rankings(3)
    ranked = [measure(torch.stack(rows), joints) for rows in itertools.product(levels, repeat=3)]
    precision = max(value["average_precision"] for value in ranked)
    assert precision == pytest.approx(best["average_precision"], abs=1e-12)
    loss = min(value["ranking_loss"] for value in ranked)
    assert loss == pytest.approx(best["ranking_loss"], abs=1e-12)


def test_tied_labels_may_be_worth_more_than_any_order():
    joint = torch.zeros(2, 2, 2)
    joint[0, 0, 1] = joint[1, 1, 0] = 0.5
    assert best_possible([joint])["average_precision"] == pytest.approx(5 / 6)
    assert measure(torch.tensor([[0.0, 0.0, 1.0]]), [joint])["average_precision"] == pytest.approx(
        5 / 6
    )


@pytest.mark.parametrize("labels", [1, 2, 4])
def test_the_best_ranking_is_the_best_of_all(labels):
    generator = torch.Generator().manual_seed(labels)
    for dependence in (0.0, 1.0):
        joint = random_joint(labels, dependence, generator)
        best = best_possible([joint])
        reached = [measure(row[None], [joint]) for row in rankings(labels)]
        for metric, pick in (("average_precision", max), ("ranking_loss", min)):
            assert pick(value[metric] for value in reached) == pytest.approx(best[metric])


@pytest.mark.parametrize(
    ("scores", "joints", "message"),
    [
        (torch.ones(1, 2), [torch.full((2, 2), 0.25)] * 3, r"\(1, 2\), expected \(3, 2\)"),
        (torch.ones(2), [torch.full((2, 2), 0.25)], "expected"),
        (torch.tensor([[math.nan, 1.0]]), [torch.full((2, 2), 0.25)], "not numbers"),
        (torch.ones(1, 2), [torch.ones(2, 2)], "sums to 4"),
        (torch.ones(1, 2), [], "at least one"),
        (torch.ones(2, 1), [torch.full((2,), 0.5), torch.full((2, 2), 0.25)], "same labels"),
    ],
)
def test_what_is_no_population_is_refused(scores, joints, message):
    for function in (measure, at_best_cut):
        with pytest.raises(ValueError, match=message):
            function(scores, joints)


def samples_of(joints, steps):
    """Every label set as often as its probability, in `steps`, says; which input each has."""
    counts = torch.stack([(joint.flatten() * steps).round().long() for joint in joints])
    which, sets = (torch.arange(size) for size in counts.shape)
    inputs = which[:, None].expand_as(counts).flatten().repeat_interleave(counts.flatten())
    rows = sets.repeat(len(joints)).repeat_interleave(counts.flatten())
    return label_vectors(joints[0].ndim)[rows].numpy().astype(bool), inputs


@pytest.mark.parametrize(
    "chances",
    [
        [[0.0, 0.5]],
        [[0.0, 0.5, 0.25], [0.0, 0.0, 0.75]],
        [[0.0, 0.0]],
        [[0.0, 1.0], [0.0, 0.0]],
    ],
)
def test_labels_that_never_apply_are_measured_as_in_samples(chances):
    joints = [independent(row) for row in chances]
    true, inputs = samples_of(joints, 16)
    signs = 2 * label_vectors(len(chances[0])) - 1
    best = dict.fromkeys(PAPER_METRICS[:4], 0.0)
    for rows in itertools.product(signs, repeat=len(joints)):
        scores = torch.stack(rows) * torch.arange(1, len(chances[0]) + 1)
        given = scores[inputs].numpy()
        expected = evaluate(true, given, given > 0, empty="paper")
        value = measure(scores, joints)
        assert value == pytest.approx({name: expected[name] for name in PAPER_METRICS})
        best = {name: max(top, value[name]) for name, top in best.items()}
    possible = best_possible(joints)
    assert {name: possible[name] for name in best} == pytest.approx(best)


def test_the_best_cut_leaves_out_a_label_that_never_applies():
    joints = [independent([0.0, 0.5]), independent([0.0, 1.0])]
    scores = torch.tensor([[0.1, 0.0], [0.2, 1.0]], dtype=torch.float64)
    assert at_best_cut(scores, joints)["macro_f1"] == pytest.approx((1 + 6 / 7) / 2)
    never = [independent([0.0, 0.0])]
    assert at_best_cut(scores[:1], never) == dict.fromkeys(PAPER_METRICS[:4], 1.0)


def test_ranking_metrics_agree_with_scikit_learn_where_both_define_them():
    scores = torch.tensor([[0.3, -1.0, 0.3, 2.0]], dtype=torch.float64)  # with a tie
    for row in label_vectors(4)[1:-1]:
        joint = torch.zeros(2, 2, 2, 2, dtype=torch.float64)
        joint[tuple(row.int().tolist())] = 1
        value = measure(scores, [joint])
        expected = label_ranking_average_precision_score(row[None].numpy(), scores.numpy())
        assert value["average_precision"] == pytest.approx(expected)
        assert value["ranking_loss"] == pytest.approx(
            label_ranking_loss(row[None].numpy(), scores.numpy())
        )


def test_independent_labels_have_no_regret_where_theory_says_so():
    """The mode of independent labels is each label on its own; their order is that of chance."""
    joints = [independent([0.9, 0.2, 0.4]), independent([0.1, 0.6, 0.3])]
    best, reached = (
        best_possible(joints),
        measure(
            torch.stack(
                [torch.tensor([0.9, 0.2, 0.4]).logit(), torch.tensor([0.1, 0.6, 0.3]).logit()]
            ).double(),
            joints,
        ),
    )
    assert reached["subset_accuracy"] == pytest.approx(best["subset_accuracy"])


def test_regrets_are_never_negative_and_rankers_are_judged_on_ranking_alone():
    found = regrets(
        ("zlpr", "bce", "lsep"), dependences=(0.0, 1.0), num_labels=3, inputs=3, populations=2
    )
    assert {r.metric for r in found if r.loss == "lsep"} == {"average_precision", "ranking_loss"}
    assert {r.metric for r in found if r.loss == "zlpr"} == set(PAPER_METRICS)
    assert min(r.mean for r in found) > -1e-9


@pytest.fixture(scope="module")
def groups():
    generator = torch.Generator().manual_seed(1)
    return [[random_joint(4, 0.9, generator) for _ in range(3)] for _ in range(2)]


@pytest.mark.parametrize("name", ["zlpr", "bce", "focal", "dice1", "lsep", "ranking", "warp"])
def test_all_populations_at_once_are_minimised_as_one_joint_is(name, groups):
    alone = torch.stack([torch.stack([risk_minimiser(name, one) for one in g]) for g in groups])
    together = scores_of(name, groups)
    if name not in {"zlpr", "bce", "focal", "dice1"}:  # only differences count
        together = together - together.mean(-1, keepdim=True)
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-7)


def test_dice2_finds_the_probabilities_of_its_fixed_point(groups):
    """At the minimum p is the chance over the ratio reached, at most 1, label by label."""
    chance = torch.stack([torch.stack([marginals(one) for one in group]) for group in groups])
    count, ratio = 1000 / 3, torch.tensor(0.5, dtype=torch.float64)
    for _ in range(200):
        p = (chance / ratio).clamp(max=1)
        both, sizes = (chance * p).sum(1), (p**2 + chance).sum(1)
        ratio = ((2 * count * both + 1) / (count * sizes + 1))[:, None]
    torch.testing.assert_close(scores_of("dice2", groups).sigmoid(), p, rtol=0, atol=5e-3)


def test_sigmoid_f1_reaches_the_best_macro_f1(groups):
    for scores, joints in zip(scores_of("sigmoid_f1", groups), groups, strict=True):
        best = best_possible(joints)["macro_f1"]
        assert measure(scores, joints)["macro_f1"] == pytest.approx(best, abs=1e-9)


def test_every_loss_of_the_table_has_regrets_and_errors():
    done = []
    found = regrets(dependences=(0.5,), num_labels=3, inputs=2, populations=3, progress=done.append)
    assert {regret.loss for regret in found} == set(LOSSES)
    assert len(done) == len(LOSSES)
    assert all(len(regret.gaps) == 3 for regret in found)
    assert all(regret.mean > -1e-9 and regret.error >= 0 for regret in found)


def test_a_difference_within_its_error_marks_no_winner():
    one = Regret("a", "micro_f1", 0.0, (1.0, 2.0, 3.0, 4.0))
    close = Regret("b", "micro_f1", 0.0, (1.1, 1.9, 3.1, 3.9))
    behind = Regret("c", "micro_f1", 0.0, (1.5, 2.5, 3.6, 4.5))  # by little, but always
    assert not_worse(one, [one, close, behind])
    assert not_worse(close, [one, close, behind])
    assert not not_worse(behind, [one, close, behind])


def test_one_population_has_no_error():
    with pytest.raises(ValueError, match="at least 2"):
        regrets(populations=1)


def test_the_best_cut_is_that_of_trying_them_all(joints):
    scores = torch.randn(3, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    best = at_best_cut(scores, joints)
    tried = [measure(scores - cut, joints) for cut in torch.linspace(-4, 4, 2001)]
    for metric in ("subset_accuracy", "example_f1", "micro_f1"):
        assert best[metric] == pytest.approx(max(value[metric] for value in tried), abs=1e-12)
    chance = torch.stack([marginals(one) for one in joints])
    reached = at_best_cut(chance.logit(), joints)["macro_f1"]
    assert reached == pytest.approx(best_possible(joints)["macro_f1"])  # marginals and a cut do


@pytest.mark.parametrize("weight", [math.e, 6.0])
def test_a_margin_takes_zlpr_most_of_the_way_to_f1_and_costs_subset_accuracy(weight):
    generator = torch.Generator().manual_seed(0)
    groups = [[random_joint(5, 1.0, generator) for _ in range(8)] for _ in range(12)]
    joints = [joint for group in groups for joint in group]
    starts = torch.cat([starting_points(joint, convex=True) for joint in joints])

    def regret(weight):
        def loss(scores, targets):
            return zlpr_loss(scores, targets, pos_weight=weight, reduction="none")

        scores = descend(expected_loss(loss, *joints), starts).reshape(12, 8, 5)
        pairs = [
            (best_possible(group), measure(rows, group))
            for rows, group in zip(scores, groups, strict=True)
        ]
        return {
            name: sum(best[name] - reached[name] for best, reached in pairs)
            for name in PAPER_METRICS
        }

    plain, margin = regret(1.0), regret(weight)
    for name in ("example_f1", "micro_f1", "macro_f1"):
        assert margin[name] < plain[name] / 2
    assert margin["subset_accuracy"] > plain["subset_accuracy"]

import itertools

import pytest
import torch
from sklearn.metrics import label_ranking_average_precision_score, label_ranking_loss

from zlpr.theory import best_possible, independent, label_vectors, measure, random_joint, regrets
from zlpr.theory.regret import METRICS


@pytest.fixture
def joints():
    generator = torch.Generator().manual_seed(5)
    return [random_joint(3, 0.9, generator) for _ in range(3)]


def test_no_predictor_beats_the_best_possible(joints):
    """All 8 x 8 x 8 decisions of three inputs, and all orders, by brute force."""
    best = best_possible(joints)
    signs = 2 * label_vectors(3) - 1
    reached = [measure(torch.stack(rows), joints) for rows in itertools.product(signs, repeat=3)]
    for metric in METRICS[:4]:
        assert max(value[metric] for value in reached) == pytest.approx(best[metric], abs=1e-12)
    orders = [
        torch.tensor(order, dtype=torch.float64) for order in itertools.permutations(range(3))
    ]
    ranked = [measure(torch.stack(rows), joints) for rows in itertools.product(orders, repeat=3)]
    precision = max(value["average_precision"] for value in ranked)
    assert precision == pytest.approx(best["average_precision"], abs=1e-12)
    loss = min(value["ranking_loss"] for value in ranked)
    assert loss == pytest.approx(best["ranking_loss"], abs=1e-12)


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
    assert {r.metric for r in found if r.loss == "zlpr"} == set(METRICS)
    assert min(r.mean for r in found) > -1e-9

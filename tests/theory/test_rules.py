import numpy as np
import pytest
import torch

from zlpr.theory.joint import random_joint
from zlpr.theory.rules import METRICS, RULES, RuleRegret, draw, rule_regrets


@pytest.fixture(scope="module")
def found():
    return {
        (regret.rule, regret.metric, regret.samples): regret
        for regret in rule_regrets(
            ("threshold", "label_count", "label_sets"), samples=(100, 6000), populations=3
        )
    }


@pytest.mark.parametrize("metric", METRICS)
def test_label_sets_approaches_the_best_decision_as_validation_grows(found, metric):
    few, many = (found["label_sets", metric, samples] for samples in (100, 6000))
    assert few.mean > 4 * many.mean
    assert many.mean < 0.3


def test_a_threshold_and_a_count_do_not(found):
    for rule in ("threshold", "label_count"):
        assert found[rule, "subset_accuracy", 6000].mean > 1.0
    assert found["label_count", "example_f1", 6000].mean > 0.5


def test_samples_are_drawn_from_the_joints():
    generator = torch.Generator().manual_seed(1)
    joints = [random_joint(3, 1.0, generator) for _ in range(2)]
    true, which = draw(joints, 40_000, seed=0)
    for number, joint in enumerate(joints):
        rows = true[which == number].astype(int)
        shares = np.zeros((2, 2, 2))
        np.add.at(shares, tuple(rows.T), 1 / len(rows))
        np.testing.assert_allclose(shares, joint.numpy(), atol=0.015)
    assert (draw(joints, 10, seed=3)[0] == draw(joints, 10, seed=3)[0]).all()


def test_every_rule_has_a_regret_on_every_metric():
    done = []
    found = rule_regrets(samples=(60,), num_labels=3, inputs=2, populations=2, progress=done.append)
    assert {(r.rule, r.metric) for r in found} == {(r, m) for r in RULES for m in METRICS}
    assert all(min(regret.gaps) > -1e-9 for regret in found)
    assert done == [1, 1]
    assert RuleRegret("a", "m", 1, (1.0, 3.0)).error == pytest.approx(1.0)
    with pytest.raises(ValueError, match="at least 2"):
        rule_regrets(populations=1)

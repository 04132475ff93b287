import json

import numpy as np
import pytest

from tests.metrics.cases import random_case
from zlpr._errors import UserError
from zlpr.decoding import (
    Calibrator,
    LabelCount,
    LabelSets,
    ProbabilityFloor,
    TopK,
    WithAncestors,
    ZeroBound,
    from_config,
    weigh,
)
from zlpr.metrics import TopScores

CASE = random_case(samples=80, labels=6, density=0.3, seed=80)


def test_labels_below_the_floor_are_left_out_and_none_is_added():
    bare = TopK().fit(CASE.true, CASE.scores)
    calibrator = Calibrator().fit(CASE.true, CASE.scores)
    chances = calibrator(CASE.scores)
    for floor in (0.0, 0.3, 1.0):
        rule = ProbabilityFloor(TopK(), min_probability=floor).fit(CASE.true, CASE.scores)
        np.testing.assert_array_equal(rule(CASE.scores), bare(CASE.scores) & (chances >= floor))


def test_round_trip_through_json():
    rule = ProbabilityFloor(LabelCount(), min_probability=0.4).fit(CASE.true, CASE.scores)
    again = from_config(json.loads(json.dumps(rule.to_config(), allow_nan=False)))
    assert again == rule
    assert rule.to_config()["rule"] == "floor"
    np.testing.assert_array_equal(again(CASE.scores), rule(CASE.scores))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"min_probability": 1.5}, r"must lie in \[0, 1\], got 1.5"),
        ({"min_probability": "0.5"}, "must be a finite number"),
        ({"rule_below": {"rule": "floor"}}, "cannot stand on a floor"),
        ({"rule_below": 3}, "must be a rule's configuration"),
        ({"rule_below": {"rule": "best"}}, "no decoding rule 'best'"),
        ({"price": 3}, "a floor needs rule_below, calibrator and min_probability"),
    ],
)
def test_damaged_configurations_are_refused(change, words):
    with pytest.raises(UserError, match=words):
        from_config(ProbabilityFloor().to_config() | change)
    with pytest.raises(UserError, match="cannot stand on a floor"):
        ProbabilityFloor(ProbabilityFloor())


def test_ancestors_are_added_above_a_floor_and_not_below():
    """Below, it would take off again what they add, or never see those that are no candidates."""
    ancestors = WithAncestors(ZeroBound(), [[], [0]])
    with pytest.raises(UserError, match="cannot stand on ancestors"):
        ProbabilityFloor(ancestors)
    with pytest.raises(UserError, match="cannot stand on ancestors"):
        from_config(ProbabilityFloor().to_config() | {"rule_below": ancestors.to_config()})
    rule = WithAncestors(ProbabilityFloor(ZeroBound(), Calibrator(), 0.4), [[], [0]])
    top = TopScores(np.array([[1]]), np.array([[2.0]]), 2)
    assert rule(top).to_dense().tolist() == rule(top.to_dense()).tolist() == [[True, True]]


@pytest.mark.parametrize(
    "upon",
    [
        ProbabilityFloor,
        lambda rule: WithAncestors(rule, [[]] * 6),
        lambda rule: WithAncestors(ProbabilityFloor(rule), [[]] * 6),
    ],
)
def test_a_rule_upon_one_that_reads_all_labels_refuses_candidates(upon):
    top = TopScores.of(CASE.scores, 3)
    fitted = upon(LabelSets()).fit(CASE.true, CASE.scores)
    for use in (
        lambda: fitted(top),
        lambda: upon(LabelSets()).fit(CASE.true, top),
        lambda: weigh(CASE.true, top, rules=[upon(LabelSets())]),
    ):
        with pytest.raises(UserError, match="reads the scores of all labels"):
            use()
    upon(LabelCount()).fit(CASE.true, top)(top)

import json

import numpy as np
import pytest

from tests.metrics.cases import random_case
from zlpr._errors import UserError
from zlpr.decoding import Calibrator, LabelCount, ProbabilityFloor, TopK, from_config

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

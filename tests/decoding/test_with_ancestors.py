import json

import numpy as np
import pytest
import torch

from tests.metrics.cases import random_case
from tests.test_ancestors import naive, random_parents
from zlpr._errors import UserError
from zlpr.decoding import (
    Calibrator,
    ProbabilityFloor,
    Threshold,
    TopK,
    WithAncestors,
    ZeroBound,
    by_hand,
    create,
    from_config,
    rules_of_scores,
)
from zlpr.metrics import TopScores

CASE = random_case(samples=60, labels=8, density=0.3, seed=81)
PARENTS = random_parents(8, seed=3)
SCORES = CASE.scores + 2.0 * CASE.true - 1.0


def closed(sets):
    expected = sets.copy()
    for row, label in zip(*np.nonzero(sets), strict=True):
        expected[row, list(naive(PARENTS, label))] = True
    return expected


@pytest.mark.parametrize("name", rules_of_scores())
def test_every_rule_is_followed_and_its_sets_closed(name):
    bare = create(name).fit(CASE.true, SCORES, train_labels=CASE.true)
    rule = WithAncestors(create(name), PARENTS)
    rule.fit(CASE.true, SCORES, train_labels=CASE.true)
    expected = closed(np.asarray(bare(SCORES)))
    np.testing.assert_array_equal(rule(SCORES), expected)
    np.testing.assert_array_equal(rule(torch.from_numpy(SCORES)).numpy(), expected)
    assert (expected != bare(SCORES)).any()


@pytest.mark.parametrize("name", rules_of_scores(of_candidates=True))
def test_of_candidates_ancestors_are_added_that_were_none(name):
    few = TopScores.of(SCORES, k=3)
    bare = create(name).fit(CASE.true, few)
    rule = WithAncestors(create(name), PARENTS).fit(CASE.true, few)
    np.testing.assert_array_equal(rule(few).to_dense(), closed(bare(few).to_dense()))


def test_one_threshold_is_that_of_the_highest_score_below_each_label():
    below = np.eye(8, dtype=bool)
    for label in range(8):
        below[list(naive(PARENTS, label)), label] = True
    highest = np.where(below, SCORES[:, None, :], -np.inf).max(axis=2)
    np.testing.assert_array_equal(WithAncestors(Threshold(0.2), PARENTS)(SCORES), highest > 0.2)


def test_a_decision_by_hand_keeps_the_ancestors():
    rule = WithAncestors(ZeroBound(), PARENTS)
    assert by_hand(rule, Calibrator()) == rule
    assert by_hand(rule, Calibrator(), top=2) == WithAncestors(TopK(2), PARENTS)
    floor = by_hand(rule, Calibrator(), min_probability=0.4)
    assert floor == WithAncestors(ProbabilityFloor(ZeroBound(), Calibrator(), 0.4), PARENTS)
    assert by_hand(floor, Calibrator(), min_probability=0.0) == rule


def test_round_trip_through_json():
    rule = WithAncestors(create("label_count"), PARENTS).fit(CASE.true, SCORES)
    again = from_config(json.loads(json.dumps(rule.to_config(), allow_nan=False)))
    assert again == rule
    np.testing.assert_array_equal(again(SCORES), rule(SCORES))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"parents": [[1], [0]]}, "parents: label 0 is its own ancestor"),
        ({"parents": [[5]]}, "parent 5, but labels run from 0 to 0"),
        ({"parents": [["0"]]}, "a list of whole numbers for each label"),
        ({"parents": [[True]]}, "a list of whole numbers for each label"),
        ({"parents": 3}, "a list of whole numbers for each label"),
        ({"rule_below": {"rule": "with_ancestors"}}, "must be the configuration of another rule"),
        ({"rule_below": 3}, "must be the configuration of another rule"),
        ({"price": 3}, "needs rule_below and parents"),
    ],
)
def test_damaged_configurations_are_refused(change, words):
    with pytest.raises(UserError, match=words):
        from_config(WithAncestors(ZeroBound(), PARENTS).to_config() | change)


def test_other_labels_than_those_of_the_hierarchy_are_refused():
    with pytest.raises(UserError, match="5 labels, and a hierarchy of 8"):
        WithAncestors(ZeroBound(), PARENTS)(SCORES[:, :5])
    with pytest.raises(UserError, match="ancestors are added once"):
        WithAncestors(WithAncestors(ZeroBound(), PARENTS), PARENTS)

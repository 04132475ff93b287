from dataclasses import replace

import pytest

from tests.compare.synthetic import RANKING, grid, record
from zlpr.compare.results import COLUMNS, FITTED, OWN, THRESHOLD, Contest, Results, largest_block


def test_the_paper_has_22_tables_of_which_6_have_rankers():
    paper = Results.from_paper()
    assert len(paper.contests) == 22
    with_rankers = [s for s in paper.contests if "lsep" in paper.judged(s, OWN[4])]
    assert len(with_rankers) == 6
    assert not any("lsep" in paper.judged(s, OWN[0]) for s in paper.contests)


def test_columns_stand_side_by_side_and_ranking_metrics_once():
    titles = [column.title for column in COLUMNS]
    ways = ("own bound", "one threshold", "chosen rule")
    assert titles[:3] == [f"Subset accuracy ({way})" for way in ways]
    assert titles[-2:] == ["Average precision", "Ranking loss"]
    assert len(COLUMNS) == len(OWN) + len(THRESHOLD) + len(FITTED) == 14


def test_values_are_by_seed_and_rankers_decide_only_when_fitted():
    results = Results.from_records(grid(seeds=(3, 5)))
    contest = Contest("toy", "linear")
    assert set(results.get(contest, "zlpr", OWN[0])) == {3, 5}
    assert not set(RANKING) & set(results.judged(contest, OWN[0]))
    assert set(RANKING) <= set(results.judged(contest, FITTED[0]))
    assert results.test_share(contest, [3, 5]) == 100 / 800


def test_failed_records_have_no_values():
    results = Results.from_records([record(), record(loss="bce", fault="no")])
    assert results.losses == ("zlpr",)


def test_published_splits_do_not_vary():
    results = Results.from_records([record(split="published")])
    assert results.test_share(Contest("toy", "linear"), [0]) is None


def test_the_overlap_of_splits_is_the_mean_over_the_runs_that_are_compared():
    first, second = record(seed=0), record(seed=1)
    facts = replace(second.outcome.data, train=600, test=150)
    second = replace(second, outcome=replace(second.outcome, data=facts))
    for records in ([first, second], [second, first]):
        results, contest = Results.from_records(records), Contest("toy", "linear")
        assert results.test_share(contest, [0, 1]) == pytest.approx((100 / 800 + 150 / 600) / 2)
        assert results.test_share(contest, [1]) == 150 / 600


@pytest.mark.parametrize(
    ("runs", "block"),
    [
        ({}, set()),
        ({"a": {0, 1}, "b": {0, 1}}, {0, 1}),
        ({"a": {0, 1, 2}, "b": {0, 1}}, {0, 1}),  # killed in the third seed
        ({"a": {0, 1, 2}, "b": {0, 1, 2}, "c": {2}}, {0, 1, 2}),  # one that mostly failed
        ({"a": {0, 1}, "b": {1, 2}}, {1}),
    ],
)
def test_the_largest_block_without_a_gap_is_compared(runs, block):
    assert largest_block(runs) == block


def test_losses_that_lack_seeds_are_withheld_and_the_others_matched():
    records = [*grid(losses=("zlpr", "bce")), record(loss="focal", seed=1)]
    results = Results.from_records(records)
    matched = results.matched(Contest("toy", "linear"), OWN[0])
    assert {loss: set(figures) for loss, figures in matched.figures.items()} == {
        "zlpr": {0, 1, 2},
        "bce": {0, 1, 2},
    }
    assert set(matched.get("focal")) == set(matched.withheld["focal"]) == {1}
    assert matched.unfinished
    assert results.unfinished
    assert not Results.from_records(grid()).unfinished

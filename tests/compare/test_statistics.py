import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from zlpr.compare.results import FITTED, METRICS, OWN, Contest, Results
from zlpr.compare.statistics import (
    Spread,
    Wins,
    count_wins,
    holm,
    paired_p_value,
    rank_test,
    smallest_lead,
    standing,
)
from zlpr.data import published
from zlpr.models.registry import NO_LOSS

SUBSET, RANK_LOSS = OWN[0], OWN[5]


def results_of(table, column=SUBSET, share=0.125):
    """Results from {data: {loss: [figure per seed]}}."""
    values, settings = {}, []
    for data, row in table.items():
        contest = Contest(data, "linear")
        settings.append(contest)
        for loss, figures in row.items():
            values[(contest, loss, column.metric.name, column.decoding)] = dict(enumerate(figures))
    losses = tuple(dict.fromkeys(loss for row in table.values() for loss in row))
    shares = dict.fromkeys(range(20), share)
    return Results(tuple(settings), losses, values, dict.fromkeys(settings, shares))


def test_recounting_the_paper_gives_its_summary_but_for_macro_f1():
    paper = Results.from_paper()
    differing = {}
    for column in OWN:
        counted = count_wins(paper, column, published.DECIDING_LOSSES)
        totals = {loss: wins.total for loss, wins in counted.items()}
        if totals != published.wins(column.metric.name):
            differing[column.metric.name] = totals
    assert list(differing) == ["macro_f1"]
    assert (differing["macro_f1"]["focal"], differing["macro_f1"]["dice2"]) == (8, 4)
    printed = published.wins("macro_f1")
    assert (printed["focal"], printed["dice2"]) == (6, 6)


def test_the_papers_single_runs_make_no_win_clear():
    counted = count_wins(Results.from_paper(), SUBSET, published.DECIDING_LOSSES)
    assert counted["zlpr"] == Wins(total=16, clear=0)


def test_spread_is_the_sample_standard_deviation():
    values = {0: 0.1, 1: 0.4, 2: 0.25}
    spread = Spread.of(values)
    assert spread.mean == pytest.approx(0.25)
    assert spread.deviation == pytest.approx(math.sqrt((0.15**2 + 0.15**2) / 2))
    assert Spread.of({7: 0.5}).deviation is None
    assert Spread.of({}) is None


def test_without_overlap_the_paired_test_is_scipys():
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.5, 0.1, 6), rng.normal(0.55, 0.1, 6)
    ours = paired_p_value(dict(enumerate(a)), dict(enumerate(b)), None)
    assert ours == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-9)


def test_overlapping_training_parts_weaken_the_evidence_as_nadeau_and_bengio_say():
    a, b = {0: 0.52, 1: 0.55, 2: 0.53}, {0: 0.50, 1: 0.52, 2: 0.50}
    d = np.array([0.02, 0.03, 0.03])
    t = d.mean() / math.sqrt(d.var(ddof=1) * (1 / 3 + 0.125))
    assert paired_p_value(a, b, 0.125) == pytest.approx(2 * stats.t.sf(t, 2))
    assert paired_p_value(a, b, 0.125) > paired_p_value(a, b, None)


def test_the_corrected_test_keeps_its_level_on_redrawn_splits():
    """Two rules of equal worth on redrawn splits: found different at most about 5 % of the time."""
    rng = np.random.default_rng(1)
    false_alarms = {"corrected": 0, "plain": 0}
    for _ in range(400):
        gains = rng.normal(0, 1, 200)  # per sample, what one rule gains over the other
        draws = [rng.permutation(200)[:40] for _ in range(10)]
        a = {i: gains[rows].mean() for i, rows in enumerate(draws)}
        zero = dict.fromkeys(a, 0.0)
        false_alarms["corrected"] += paired_p_value(a, zero, 40 / 160) <= 0.05
        false_alarms["plain"] += paired_p_value(a, zero, None) <= 0.05
    assert false_alarms["corrected"] / 400 < 0.09
    assert false_alarms["plain"] / 400 > 0.15


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ({0: 0.5}, {0: 0.4}, None),  # one seed
        ({0: 0.5, 1: 0.6}, {2: 0.5, 3: 0.6}, None),  # no seed in common
        ({0: 0.5, 1: 0.6}, {0: 0.5, 1: 0.6}, 1.0),  # the same
        ({0: 0.5, 1: 0.5}, {0: 0.4, 1: 0.4}, None),  # seeds change nothing
    ],
)
def test_where_chance_cannot_be_measured_it_is_not_guessed(a, b, expected):
    assert paired_p_value(a, b, 0.125) == expected


@pytest.mark.parametrize("share", [None, 0.125])
@pytest.mark.parametrize("seeds", [2, 3, 5, 20])
def test_a_lead_shows_exactly_from_the_smallest_one_on(seeds, share):
    noise = np.random.default_rng(seeds).normal(0, 0.01, seeds)
    noise -= noise.mean()
    zero = dict.fromkeys(range(seeds), 0.0)
    lead = smallest_lead(dict(enumerate(noise)), zero, share)
    for times, shows in ((0.99, False), (1.01, True)):
        ahead = dict(enumerate(noise + times * lead))
        assert (paired_p_value(ahead, zero, share) <= 0.05) == shows
        assert smallest_lead(ahead, zero, share) == pytest.approx(
            lead
        )  # the lead's own size is out


def test_several_comparisons_need_a_larger_lead_as_holm_has_it():
    rng = np.random.default_rng(3)
    best = 0.7 + rng.normal(0, 0.01, 5)
    rivals = {f"r{i}": list(best - 0.03 + rng.normal(0, 0.01, 5)) for i in range(8)}
    contest = Contest("toy", "linear")
    stand = standing(results_of({"toy": {"best": list(best), **rivals}}), contest, SUBSET)
    lead = {loss: float(np.mean(best - np.array(values))) for loss, values in rivals.items()}
    shown = {loss for loss in rivals if lead[loss] >= stand.leads[loss]}
    assert shown <= set(rivals) - set(stand.within_noise)  # Holm's later steps may add some
    assert min(stand.leads.values()) <= stand.lead_that_shows <= max(stand.leads.values())


def test_one_seed_shows_nothing():
    stand = standing(
        results_of({"toy": {"a": [0.5], "b": [0.4]}}), Contest("toy", "linear"), SUBSET
    )
    assert stand.leads == {"b": None}
    assert stand.lead_that_shows is None


def test_holm_is_the_step_down_procedure():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_best_is_the_largest_or_the_smallest_as_the_metric_wants():
    table = {"toy": {"a": [0.50, 0.52], "b": [0.60, 0.62]}}
    contest = Contest("toy", "linear")
    assert standing(results_of(table), contest, SUBSET).best == ("b",)
    assert standing(results_of(table, RANK_LOSS), contest, RANK_LOSS).best == ("a",)


def test_figures_that_print_alike_tie_and_count_for_each():
    table = {"toy": {"a": [0.50001], "b": [0.50004], "c": [0.4]}}
    assert standing(results_of(table), Contest("toy", "linear"), SUBSET).best == ("a", "b")
    wins = count_wins(results_of(table), SUBSET)
    assert {loss: entry.total for loss, entry in wins.items()} == {"a": 1, "b": 1, "c": 0}
    assert all(entry.clear == 0 for entry in wins.values())


def test_a_win_is_clear_only_if_every_rival_is_beaten_beyond_chance():
    far = [0.50, 0.51, 0.50, 0.51, 0.50]
    best = [0.70, 0.71, 0.71, 0.70, 0.72]
    near = [0.69, 0.72, 0.70, 0.71, 0.71]
    contest = Contest("toy", "linear")
    clear = results_of({"toy": {"best": best, "far": far}})
    assert standing(clear, contest, SUBSET).clear
    assert count_wins(clear, SUBSET)["best"] == Wins(1, 1)
    noisy = results_of({"toy": {"best": best, "near": near, "far": far}})
    assert standing(noisy, contest, SUBSET).within_noise == ("near",)
    assert count_wins(noisy, SUBSET)["best"] == Wins(1, 0)


def test_without_a_rival_there_is_no_win():
    assert count_wins(results_of({"toy": {"alone": [0.9, 0.8]}}), SUBSET)["alone"] == Wins(0, 0)


def test_an_unfinished_grid_is_compared_on_the_seeds_that_are_there():
    """b is better on every split; a lacks the hard one, which makes its own mean the higher one."""
    contest = Contest("toy", "linear")
    results = results_of({"toy": {"a": [0.80, 0.82], "b": [0.81, 0.83, 0.40]}})
    stand = standing(results, contest, SUBSET)
    assert stand.best == ("b",)
    assert count_wins(results, SUBSET) == {"a": Wins(0, 0), "b": Wins(1, 0)}


def test_the_overlap_is_that_of_the_seeds_compared():
    """a lacks the seed whose split had a test part of another size."""
    contest, figures = Contest("toy", "linear"), {"a": [0.80, 0.82], "b": [0.81, 0.85, 0.40]}
    results = results_of({"toy": figures})
    told = [
        standing(
            replace(results, test_shares={contest: {0: 0.1, 1: 0.2, 2: last}}), contest, SUBSET
        )
        for last in (0.15, 0.9)
    ]
    a, b = (dict(enumerate(figures[loss][:2])) for loss in "ab")
    assert [stand.p_values["a"] for stand in told] == [paired_p_value(a, b, 0.15)] * 2


def test_no_loss_is_best_where_no_two_have_a_seed_in_common():
    contest = Contest("toy", "linear")
    results = results_of({"toy": {"a": [0.8], "b": [0.9]}})
    key = (contest, "b", SUBSET.metric.name, SUBSET.decoding)
    results = replace(results, values={**results.values, key: {7: 0.9}})
    stand = standing(results, contest, SUBSET)
    assert (stand.best, stand.within_noise, stand.clear) == ((), (), False)
    assert count_wins(results, SUBSET) == {"a": Wins(0, 0), "b": Wins(0, 0)}


def test_ranks_are_of_matched_seeds():
    table = {f"set{i}": {"a": [0.9, 0.2], "b": [0.8, 0.1], "c": [0.85]} for i in range(8)}
    test = rank_test(results_of(table), SUBSET)
    assert test is None  # c lacks a seed on every set, and two losses are too few
    both = {f"set{i}": {"a": [0.9, 0.2], "b": [0.8], "c": [0.85]} for i in range(8)}
    assert rank_test(results_of(both), SUBSET).ranks == (1, 3, 2)


def make_blocks(count, order=("a", "b", "c", "d")):
    rng = np.random.default_rng(5)
    return {
        f"set{i}": {
            loss: [0.9 - 0.1 * place + rng.normal(0, 0.02)] for place, loss in enumerate(order)
        }
        for i in range(count)
    }


def test_friedman_is_scipys_and_the_ranks_are_averages():
    table = make_blocks(8)
    test = rank_test(results_of(table), SUBSET)
    matrix = np.array([[row[loss][0] for loss in "abcd"] for row in table.values()])
    assert test.p_value == pytest.approx(stats.friedmanchisquare(*(-matrix.T)).pvalue)
    assert test.ranks == pytest.approx(stats.rankdata(-matrix, axis=1).mean(axis=0))
    # Demšar's table of critical values: q = 2.569 for four classifiers at 5 %
    assert test.critical_difference == pytest.approx(2.569 * math.sqrt(4 * 5 / (6 * 8)), rel=1e-3)
    assert np.allclose(test.pairwise, test.pairwise.T)
    assert test.pairwise[0, 3] < 0.01 < test.pairwise[0, 1]


def test_for_ranking_loss_the_smallest_ranks_first():
    test = rank_test(results_of(make_blocks(8), RANK_LOSS), RANK_LOSS)
    assert test.ranks.index(min(test.ranks)) == 3


def test_too_few_data_sets_or_losses_are_not_tested():
    assert rank_test(results_of(make_blocks(5)), SUBSET) is None
    assert rank_test(results_of(make_blocks(8, ("a", "b"))), SUBSET) is None


def test_losses_seen_on_few_sets_do_not_stop_the_others():
    table = make_blocks(8)
    table["set0"]["rare"] = [0.99]
    assert "rare" not in rank_test(results_of(table), SUBSET).losses
    del table["set7"]["d"]
    test = rank_test(results_of(table), SUBSET)
    assert "set7" not in test.datasets
    assert len(test.datasets) == 7


def test_a_model_that_is_not_trained_with_a_loss_does_not_stop_the_test():
    results = results_of(make_blocks(8))
    values = dict(results.values)
    for contest in results.contests:
        beside = Contest(contest.data, "knn")
        values[beside, NO_LOSS, SUBSET.metric.name, SUBSET.decoding] = {0: 0.5}
    contests = dict.fromkeys((*results.contests, *(key[0] for key in values)))
    both = replace(
        results, contests=tuple(contests), losses=(*results.losses, NO_LOSS), values=values
    )
    assert rank_test(both, SUBSET).ranks == rank_test(results, SUBSET).ranks
    alone = replace(both, contests=tuple(c for c in contests if c.model == "knn"))
    assert rank_test(alone, SUBSET) is None


def test_pairs_differ_where_their_ranks_are_further_apart_than_the_critical_difference():
    test = rank_test(results_of(make_blocks(8)), SUBSET)
    assert test.p_value < 0.05
    for one, other in itertools.combinations(range(4), 2):
        distance = abs(test.ranks[one] - test.ranks[other])
        assert test.tells_apart(one, other) == (distance > test.critical_difference)
    assert not replace(test, p_value=0.06).tells_apart(0, 3)


def test_losses_that_are_all_alike_are_not_told_apart():
    table = {f"set{i}": {loss: [0.5] for loss in "abc"} for i in range(7)}
    assert rank_test(results_of(table), SUBSET).p_value == 1.0


def test_two_models_on_one_data_set_are_one_block():
    paper = Results.from_paper()
    assert len(rank_test(paper, SUBSET).datasets) == len(published.SETS)
    assert rank_test(paper, OWN[4]).losses == ("bce", "focal", "dice1", "dice2", "zlpr")
    assert len(METRICS) == len(FITTED) + 2

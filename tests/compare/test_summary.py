import re
from dataclasses import replace

import pytest

from tests.compare.synthetic import grid, record
from zlpr.compare.results import Results
from zlpr.compare.summary import findings, overview, verdict

SUBSET = "Subset accuracy (SubACC): share of samples whose whole label set is predicted exactly"
PRECISION = "Average precision (AvgPrec): how near the top of the ranking the true labels stand"


def told(records):
    return {f.question: f.answer for f in findings(Results.from_records(records), records)}


def test_the_overview_counts_what_ran():
    records = [*grid(losses=("zlpr", "bce")), record(loss="focal", fault="no")]
    text = overview(records, missing=2)
    assert text.startswith("3 losses on 1 data set with the model linear, 3 random splits each")
    assert "6 of 9 runs finished" in text


def test_the_overview_counts_no_loss_where_there_is_none():
    modes = [record(loss="none", model="knn"), record(loss="none", model="chain")]
    told = overview([*grid(losses=("zlpr", "bce")), *modes])
    assert told.startswith("2 losses on 1 data set with the model chain, the model knn and the ")
    assert overview(modes).startswith("1 data set with the model chain and the model knn, ")


def test_the_leader_is_named_with_those_it_cannot_be_told_from():
    answers = told(grid())
    subset = answers[SUBSET]
    assert subset.startswith("At the own bound, zlpr is ahead with 5")
    assert "With fitted decoding, zlpr" in subset


def test_what_does_not_show_is_said_with_what_could_have_shown():
    subset = told(grid(losses=("zlpr", "bce", "focal"), seeds=(0, 1, 2)))[SUBSET]
    own, _, _ = subset.partition(" With fitted decoding")
    found = re.search(r"\(3 seeds could only show a lead of ([\d.]+)(?: to [\d.]+)? points", own)
    assert found
    assert float(found[1]) > 1.2  # bce is behind by about so much in every seed, and does not show


def test_one_seed_claims_nothing():
    answers = told(grid(losses=("zlpr", "bce"), seeds=(0,)))
    assert "one seed cannot tell this from chance" in answers[PRECISION]


def test_seeds_that_change_nothing_are_not_called_one_seed():
    records = [
        replace(made, outcome=replace(made.outcome, evaluation=first.outcome.evaluation))
        for loss, quality in (("zlpr", 0.0), ("bce", -0.02))
        for first in [record(loss=loss, quality=quality)]
        for made in [record(loss=loss, seed=seed) for seed in range(3)]
    ]
    answer = told(records)[PRECISION]
    assert "with all 3 seeds: they changed nothing and cannot show chance." in answer
    assert "one seed" not in answer


def test_a_loss_that_lacks_seeds_is_said_not_to_be_compared():
    full = grid(losses=("zlpr", "bce"))
    answer = told([*full, record(loss="focal", quality=0.3, seed=1)])[PRECISION]
    assert answer.startswith("zlpr is ahead with")
    assert answer.endswith("(focal lacks seeds and is not compared.)")
    assert "one seed" not in answer
    apart = told([record(loss="zlpr", seed=0), record(loss="bce", seed=1)])
    assert apart[PRECISION].startswith("no two losses have the same seeds yet")


def test_shares_of_empty_predictions_are_of_the_same_runs():
    def empty(made, share):
        test = made.outcome.evaluation.test
        test = replace(test, own={**test.own, "empty_predictions": share})
        evaluation = replace(made.outcome.evaluation, test=test)
        return replace(made, outcome=replace(made.outcome, evaluation=evaluation))

    records = [
        empty(record(loss="zlpr", seed=0), 0.1),
        empty(record(loss="zlpr", seed=1), 0.9),  # a split that bce has not seen
        empty(record(loss="bce", seed=0), 0.2),
    ]
    answer = told(records)["Samples left without a label"]
    assert "bce gives no label at all to 20.0\xa0% of the samples, zlpr to 10.0\xa0%" in answer


def test_truly_empty_are_the_samples_of_the_runs_compared():
    def truly(made, share):
        data = replace(made.outcome.data, empty=share)
        return replace(made, outcome=replace(made.outcome, data=data))

    both = [truly(record("a", loss=loss), 0.0) for loss in ("zlpr", "bce", "lsep")]
    one = truly(record("b", loss="zlpr"), 0.6)  # a set that bce has not seen
    assert "truly without any are 0.0\xa0%" in told([*both, one])["Samples left without a label"]
    ranked = [truly(record("b", loss=loss), 0.6) for loss in ("zlpr", "bce")]  # once, as "a" is
    assert (
        "truly without any are 30.0\xa0%" in told([*both, *ranked])["Samples left without a label"]
    )


def test_where_decisions_are_alike_no_difference_is_explained():
    records = [record(loss=loss) for loss in ("zlpr", "bce")]
    same = records[0].outcome.evaluation
    records = [replace(r, outcome=replace(r.outcome, evaluation=same)) for r in records]
    answer = told(records)["What the decision rule changes"]
    assert answer.endswith("There is no difference to explain.")


@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)])
def test_a_loss_alone_is_ahead_of_nobody(seeds):
    answers = told(grid(losses=("zlpr", "lsep"), seeds=seeds))
    subset = answers[SUBSET]
    own, _, _ = subset.partition(" With fitted decoding")
    assert own.startswith("At the own bound, only zlpr is judged, with 5")
    assert not any(word in own for word in ("ahead", "chance"))
    alone = told(grid(losses=("zlpr",), seeds=seeds))
    assert not any("ahead" in answer for answer in alone.values())


def test_a_table_with_one_loss_is_no_contest():
    records = [*grid(datasets=("a", "b")), *grid(datasets=("c",), losses=("zlpr",))]
    answers = told(records)
    assert "best in 2 of 2 tables" in answers[PRECISION]


def test_over_several_tables_wins_are_counted():
    answers = told(grid(datasets=("a", "b", "c")))
    assert "zlpr is best in 3 of 3 tables" in answers[PRECISION]


def test_rankers_and_empty_predictions_are_explained():
    answers = told(grid())
    assert answers["Losses that only rank"].startswith("ranking, warp, bp_mll and lsep put labels")
    assert "gives no label at all to" in answers["Samples left without a label"]
    assert "Losses that only rank" not in told(grid(losses=("zlpr", "bce")))


def test_the_verdict_says_what_the_loss_and_what_the_decision_is_worth():
    apart = verdict(Results.from_records(grid(losses=("zlpr", "bce", "dice2"))))
    assert re.match(r"On toy the loss matters \(\d\.\d points of Micro-F1 between", apart)
    assert "zlpr ahead of" in apart
    assert re.search(r"choosing the decision on validation gains [23]\.\d points over", apart)
    alike = [record(loss=loss, quality=0.0, seed=s) for loss in ("zlpr", "bce") for s in range(3)]
    close = verdict(Results.from_records(alike))
    assert close.startswith("On toy the loss hardly matters (0.")
    assert "no lead beyond chance" in close
    several = verdict(Results.from_records(grid(datasets=("a", "b"), losses=("zlpr", "bce"))))
    assert several.startswith("On these 2 data sets the loss ")
    assert "on average over 2 tables" in several
    assert verdict(Results.from_records([record(loss="lsep")])) == ""


def test_a_lead_that_one_seed_cannot_show_is_not_said_to_be_nothing():
    losses = ("zlpr", "bce", "dice2")
    one = verdict(Results.from_records(grid(losses=losses, seeds=range(1))))
    assert re.match(r"On toy these seeds do not tell whether the loss matters \([1-9]", one)
    assert "no lead beyond chance" in one
    two = verdict(Results.from_records(grid(datasets=("a", "b"), losses=losses, seeds=range(1))))
    assert "do not tell whether the loss matters" in two
    assert "in 2 of 2 no loss is told from the best" in two


@pytest.mark.parametrize(("seeds", "spread"), [(1, 0.0), (4, 0.04)])
def test_few_seeds_that_could_not_show_a_lead_do_not_tell_that_there_is_none(seeds, spread):
    near = [
        record(loss=loss, seed=seed, quality=spread * (-1) ** (turn + seed))
        for turn, loss in enumerate(("zlpr", "bce"))
        for seed in range(seeds)
    ]
    said = verdict(Results.from_records(near))
    assert said.startswith("On toy these seeds do not tell whether the loss matters (0.")

import re
from dataclasses import replace

import pytest
from bench import study

from tests.compare.synthetic import DECIDING, grid
from zlpr.compare.records import write_record
from zlpr.compare.results import OWN, Results

LOSSES = (study.MARGIN, *DECIDING, "asymmetric", "hbm", "sigmoid_f1")
SETS = tuple(f"set{i}" for i in range(6))


@pytest.fixture(scope="module")
def records():
    def chosen(record):
        outcome = replace(record.done, chosen={"pos_weight": 1.6487 if record.settings.seed else 1})
        return replace(record, outcome=outcome)

    made = grid(SETS, LOSSES, seeds=(0, 1, 2, 3))
    return [chosen(r) if r.settings.loss.label == study.MARGIN else r for r in made]


@pytest.fixture(scope="module")
def results(records):
    return Results.from_records(records)


def test_a_duel_seen_from_the_other_side_is_its_mirror(results):
    for column in OWN:
        ours = study.duel(results, "zlpr", "bce", column)
        theirs = study.duel(results, "bce", "zlpr", column)
        assert ours["clearly_ahead"] == theirs["clearly_behind"]
        assert ours["clearly_behind"] == theirs["clearly_ahead"]
        assert ours["ahead"] + theirs["ahead"] <= ours["sets"] == len(SETS)
        assert ours["mean_points"] == pytest.approx(-theirs["mean_points"])
        assert ours["wilcoxon_p"] == pytest.approx(theirs["wilcoxon_p"])


def test_the_duel_table_tells_clear_leads_from_others(results):
    near, far = study.duel_table(results, "zlpr", ("bce", "dice2"), "duels").rows
    cell = r"(\d)/6 \((\d):(\d)\), [+-]\d+\.\d\d, p (?:< )?\d\.\d{3}"
    told = {name: [re.fullmatch(cell, c.text).groups() for c in row] for name, row in (near, far)}
    assert told["dice2"][0] == ("6", "6", "0")
    for ahead, clear, _ in (*told["bce"], *told["dice2"]):
        assert int(clear) <= int(ahead)
    behind = study.duel_table(results, "dice2", ("zlpr",), "duels").rows[0][1][0].text
    assert behind.startswith("0/6 (0:6), -")


def test_every_table_of_the_study_is_made_from_its_records(records, tmp_path):
    for record in records:
        write_record(record, tmp_path / "runs")
    tables = {table.title: table for table in study.study_tables(tmp_path)}
    assert len(tables) == 11  # the two of ranks share their title
    wins = dict(tables["Wins among all, own bound"].rows)
    assert wins[study.MARGIN][0].value == len(SETS)
    assert [name for name, _ in tables["zlpr against the paper's others"].rows] == [
        name for name in study.DECIDING if name != "zlpr"
    ]
    margins = tables["Seeds by the pos_weight chosen"]
    assert margins.columns == ("1", "1.6487")
    assert [[cell.text for cell in cells] for _, cells in margins.rows] == [["1", "3"]] * len(SETS)

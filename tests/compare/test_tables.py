import csv
import io
from dataclasses import replace

import numpy as np

from tests.compare.synthetic import grid, record
from zlpr.cli._console import print_table
from zlpr.compare.results import OWN, Contest, Results
from zlpr.compare.statistics import RankTest
from zlpr.compare.tables import (
    all_tables,
    contest_table,
    figures_csv,
    paper_table,
    rank_table,
    terminal_rows,
    terminal_tables,
    to_latex,
    to_markdown,
    wins_table,
)
from zlpr.data import published

RESULTS = Results.from_records(grid())
SETTING = Contest("toy", "linear")


def test_every_column_with_figures_has_a_best():
    table = contest_table(RESULTS, SETTING)
    for place in range(len(table.columns)):
        assert any(cells[place].best for _, cells in table.rows)


def test_a_loss_that_lacks_seeds_gets_no_star_and_its_number_of_seeds():
    records = [*grid(losses=("zlpr", "bce")), record(loss="focal", quality=0.3, seed=1)]
    table = contest_table(Results.from_records(records), SETTING, OWN)
    rows = dict(table.rows)
    assert not any(cell.best or cell.within_noise for cell in rows["focal"])
    assert all(cell.best for cell in rows["zlpr"])
    assert {cell.seeds for cell in rows["focal"]} == {1}
    assert {cell.seeds for cell in rows["zlpr"]} == {None}
    _, lines = terminal_rows(table)
    assert all(text.endswith("(n=1)") for text in lines[-2][1:])
    for text in (to_markdown(table), to_latex(table)):
        assert text.count("(n=1)") == len(OWN)
        assert "Not all runs are there" in text
    assert not contest_table(RESULTS, SETTING).note


def test_rankers_have_no_figure_at_an_own_bound():
    table = contest_table(RESULTS, SETTING, OWN)
    cells = dict(table.rows)["lsep"]
    assert [cell.text for cell in cells[:4]] == ["–"] * 4
    assert all(cell.value is not None for cell in cells[4:])


def test_the_papers_wins_table_shows_its_counts():
    table = wins_table(Results.from_paper(), OWN, published.DECIDING_LOSSES)
    row = dict(table.rows)["zlpr"]
    assert [cell.value for cell in row] == [16, 9, 5, 8, 13, 18]
    assert row[0].text == "16 (16~)"  # single runs: all within noise


def test_a_table_with_one_row_is_none_that_a_loss_could_win():
    alone = [record(loss="none", model="knn", quality=0.3, seed=seed) for seed in range(3)]
    table = wins_table(Results.from_records([*grid(datasets=["a", "b"]), *alone]))
    assert table.note.startswith("Tables in which a loss is best, of 2;")


def test_markdown_has_as_many_cells_in_each_line_as_headings():
    lines = [
        line for line in to_markdown(contest_table(RESULTS, SETTING)).splitlines() if "|" in line
    ]
    assert len({line.count("|") for line in lines}) == 1
    assert len(lines) == 2 + len(RESULTS.losses) + 1  # and the lead that shows
    assert "**" in lines[2]


def test_latex_escapes_and_balances():
    table = contest_table(
        Results.from_records(grid(datasets=["a_b & 100%"])), Contest("a_b & 100%", "linear")
    )
    text = to_latex(table)
    assert r"a\_b \& 100\%" in text
    assert r"bp\_mll" in text
    assert text.count("{") == text.count("}")
    assert text.count(r"\begin") == text.count(r"\end")
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {line.replace(r"\&", "").count("&") for line in rows} == {len(table.columns)}


def test_terminal_tables_fit_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for table in terminal_tables(RESULTS, SETTING):
        print_table(*terminal_rows(table))
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_the_papers_figures_stand_beside_ours_on_its_sets_only():
    results = Results.from_records(grid(datasets=("GoEmotions", "toy")))
    table = paper_table(results, Contest("GoEmotions", "linear"))
    cells = dict(zip(table.columns, dict(table.rows)["zlpr"], strict=True))
    assert cells["Subset accuracy, BERT"].value == published.result(
        "GoEmotions", "bert", "zlpr", "subset_accuracy"
    )
    assert cells["Subset accuracy, ours"].deviation
    assert paper_table(results, Contest("toy", "linear")) is None


def test_ranks_need_enough_data_sets():
    assert rank_table(RESULTS) is None
    many = Results.from_records(grid(datasets=[f"set{i}" for i in range(7)]))
    table = rank_table(many)
    assert dict(table.rows)["zlpr"][0].best
    assert [name for name, _ in table.rows][-2:] == ["Friedman p", "critical difference"]
    assert len(all_tables(many)) == 2 + 7


def test_where_friedman_finds_no_difference_no_rank_is_told_from_the_best(monkeypatch):
    losses = ("zlpr", "bce", "focal")
    apart = RankTest(
        losses=losses,
        datasets=tuple(f"set{i}" for i in range(6)),
        ranks=(1.0, 2.0, 3.0),
        p_value=0.001,
        pairwise=np.array([[1.0, 0.2, 0.001], [0.2, 1.0, 0.2], [0.001, 0.2, 1.0]]),
        critical_difference=1.35,
    )

    def near_the_best(test):
        monkeypatch.setattr("zlpr.compare.tables.rank_test", lambda *arguments: test)
        rows = dict(rank_table(RESULTS, OWN[:1]).rows)
        return [loss for loss in losses if rows[loss][0].within_noise]

    assert near_the_best(apart) == ["bce"]
    assert near_the_best(replace(apart, p_value=0.06)) == ["bce", "focal"]


def test_csv_holds_every_figure_exactly():
    made = record(loss="bce", seed=2)
    rows = list(csv.DictReader(io.StringIO(figures_csv([made, record(fault="no")]))))
    decoded = made.done.evaluation
    for name in ("own", "threshold", "fitted"):
        found = {
            r["metric"]: float(r["value"])
            for r in rows
            if (r["part"], r["decoding"]) == ("test", name)
        }
        assert found == getattr(decoded.test, name) != {}
    parts = (decoded.validation, decoded.test)
    assert len(rows) == sum(len(x) for y in parts for x in (y.own, y.threshold, y.fitted))
    assert {r["seed"] for r in rows} == {"2"}


def test_a_carriage_return_in_a_name_begins_no_row_of_the_csv():
    made = record(loss="bce")
    made = replace(made, settings=replace(made.settings, data="films\r=1+1"))
    rows = list(csv.DictReader(io.StringIO(figures_csv([made]), newline="")))
    assert {row["data"] for row in rows} == {"films\r=1+1"}

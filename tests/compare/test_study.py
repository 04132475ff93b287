from dataclasses import replace

import pytest
from bench import study

from tests.compare.synthetic import grid
from zlpr.compare.records import Evaluation
from zlpr.losses import registry
from zlpr.metrics import PAPER_METRICS


@pytest.fixture(scope="module")
def records():
    """One cell that chose and one that had nothing to choose."""
    plain, chosen = grid(("set0",), ("zlpr", "bce"), seeds=(0,))
    spec = replace(chosen.settings.loss, choose={"pos_weight": (1.0, 2.0)})
    settings = replace(chosen.settings, loss=spec)
    at = {"regularisation": 1.0, "pos_weight": 2.0}
    chosen_for = {name: dict.fromkeys(PAPER_METRICS, at) for name in study.DECISIONS}
    first = replace(chosen.done.evaluation.test, own=dict.fromkeys(PAPER_METRICS, 0.25))
    outcome = replace(
        chosen.done, chosen_for=chosen_for, first=Evaluation(chosen.done.evaluation.test, first)
    )
    return [plain, replace(chosen, settings=settings, outcome=outcome)]


def test_a_cell_that_chose_has_its_plain_version_beside_it(records, tmp_path):
    study.export("linear", records, tmp_path)
    rows = study.read_table(tmp_path / "linear.csv")
    versions = {(row["loss"], row["version"]) for row in rows}
    assert versions == {("zlpr", "plain"), ("bce", "chosen"), ("bce", "plain")}
    own = {
        row["version"]: row
        for row in rows
        if row["loss"] == "bce" and row["decision"] == "own bound"
    }
    assert own["plain"]["micro_f1"] == "25.000"
    expected = 100 * records[1].done.evaluation.test.own["micro_f1"]
    assert float(own["chosen"]["micro_f1"]) == pytest.approx(expected, abs=1e-3)
    assert own["chosen"]["values"] == ";".join(["2"] * 6)
    assert own["plain"]["values"] == ""


def test_what_is_in_the_table_is_kept_and_not_run_again(records, tmp_path):
    assert study.export("linear", records[:1], tmp_path) == 1
    before = [path.read_text() for path in study.tables_of("linear", tmp_path)]
    other = replace(records[0].settings, version="another")
    assert study.export("linear", [replace(records[0], settings=other)], tmp_path) == 1
    assert [path.read_text() for path in study.tables_of("linear", tmp_path)] == before
    assert study.export("linear", records, tmp_path) == 2


def test_the_protocol_gives_every_loss_five_values_or_says_why_not():
    plan = study.protocol()
    for entry in plan["loss"]:
        info = registry.info(entry["name"])
        values = next(iter(entry.get("choose", {}).values()), None)
        assert (values is None) == ("why" in entry)
        if values is not None:
            name = next(iter(entry["choose"]))
            assert len(set(values)) == 5
            for value in values:
                assert registry.create(info.name, **{name: value}) is not None


def test_the_first_value_is_the_losss_own_default():
    for entry in study.protocol()["loss"]:
        for name, values in entry.get("choose", {}).items():
            plain = str(registry.create(entry["name"]))
            assert (
                name == "pos_weight"
                or str(registry.create(entry["name"], **{name: values[0]})) == plain
            )


def test_small_sets_have_more_seeds_and_come_first():
    plan = study.protocol()
    counts = [len(study.seeds_of(plan, entry)) for entry in plan["data"]]
    assert set(counts) == {5, 10}
    assert counts == sorted(counts, reverse=True)
    assert len({entry["name"] for entry in plan["data"]}) == 18


def test_of_thousands_of_labels_the_most_frequent_are_kept():
    sets = [["a", "b"], ["b"], ["c"], ["d", "b"], ["d"], ["c", "a"]]
    rows = [{"text": str(place), "labels": labels} for place, labels in enumerate(sets)]
    kept = study.with_frequent_labels(rows, 2)  # b, and of a, c and d, two each, the first
    assert [(row["text"], row["labels"]) for row in kept] == [
        ("0", ["a", "b"]),
        ("1", ["b"]),
        ("3", ["b"]),
        ("5", ["a"]),
    ]


def test_a_learning_rate_is_chosen_once_all_were_tried_on_validation(tmp_path):
    rates = study.protocol()["part"]["fine-tuned"]["learning_rates"]
    path = study.tables_of("fine-tuned", tmp_path)[1]
    lines = [",".join(study.CELLS)]
    for place, rate in enumerate(rates):
        row = dict.fromkeys(study.CELLS, "")
        row |= {"data": "duee", "loss": f"zlpr@{rate:g}", "seed": "0"}
        row["validation_f1"] = str((50, 60, 40)[place])
        lines.append(",".join(row.values()))
        path.write_text("\n".join(lines) + "\n")
        known = study.chosen_rates(tmp_path)
        assert known == ({("duee", "zlpr"): rates[1]} if place == len(rates) - 1 else {})

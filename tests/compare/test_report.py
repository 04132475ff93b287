import csv
import html
import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from tests.compare.synthetic import DECIDING, grid, record
from zlpr._errors import UserError
from zlpr.compare import report
from zlpr.compare.folder import Selection
from zlpr.compare.records import LossSpec
from zlpr.compare.report import (
    check_place,
    data_table,
    html_report,
    latex_report,
    loss_table,
    markdown_report,
    method,
    provenance,
    warnings,
    write_report,
)
from zlpr.compare.results import Results
from zlpr.metrics.table import in_words

RECORDS = tuple(grid(datasets=("GoEmotions", "toy")))
SELECTION = Selection(RECORDS, 0, ())
SMALL = tuple(grid(datasets=("Toxic",), losses=("zlpr", "bce")))


@pytest.fixture(scope="module")
def page() -> str:
    return html_report(SELECTION)


class Checker(HTMLParser):
    """Collects ids and what the page refers to; counts what is opened and closed."""

    VOID = frozenset({"meta", "link", "br", "img", "input", "hr"})

    def __init__(self):
        super().__init__()
        self.ids, self.links, self.open = [], [], []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if "id" in found:
            self.ids.append(found["id"])
        self.links += [v for k, v in attributes if k in {"href", "src", "xlink:href"}]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_well_formed_with_unique_ids_and_no_link_out(page):
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert len(set(checker.ids)) == len(checker.ids)
    inside = {link[1:] for link in checker.links if link.startswith("#")}
    assert inside <= set(checker.ids)
    assert {link for link in checker.links if not link.startswith("#")} == {"data:,"}


def test_the_page_needs_no_network(page):
    without_namespaces = re.sub(r'xmlns(:xlink)?="[^"]*"', "", page)
    assert not re.search(r"https?://|@import|url\((?!#)", without_namespaces)
    assert "default-src 'none'" in page


def test_figures_take_their_colours_from_the_page(page):
    figures = re.findall(r"<svg .*?</svg>", page, flags=re.DOTALL)
    # per contest: six dot plots, time, empty predictions, and three kinds that come in pairs
    assert len(figures) == 1 + 2 * 14  # with the differences at the top
    for figure in figures:
        assert "var(--ink)" in figure
        assert not re.search(r"#[0-9a-f]{6}\b", re.sub(r'(?:href="|url\()#[\w-]+', "", figure))


def test_what_users_name_is_escaped():
    name = "<script>alert(1)</script>"
    text = html_report(Selection(tuple(grid(datasets=(name,), losses=("zlpr", "bce"))), 0, (name,)))
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


def test_the_papers_figures_stand_beside_its_sets(page):
    assert "beside the paper&#39;s GoEmotions" in page
    assert len(re.findall(r"<h3>[^<]*beside the paper", page)) == 1


def test_a_report_replaces_reports_and_no_file_of_the_users(tmp_path):
    selection = Selection(SMALL, 0, ())
    for path in write_report(selection, tmp_path).values():
        check_place(tmp_path)
        text = path.read_text()
        path.write_text("my own words")
        with pytest.raises(UserError, match=rf"{re.escape(path.name)}: is there already"):
            write_report(selection, tmp_path)
        assert path.read_text() == "my own words"
        path.write_text(text)


def test_every_form_is_written(tmp_path):
    paths = write_report(Selection(SMALL, 0, ()), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "report.csv",
        "report.html",
        "report.md",
        "report.tex",
    ]
    assert paths["html"].read_text().startswith("<!doctype html>")
    assert paths["latex"].read_text().count(r"\begin{table}") == 2  # the set, the paper
    assert "## Summary" in paths["markdown"].read_text()


def test_six_data_sets_bring_the_critical_difference_diagram(monkeypatch):
    monkeypatch.setattr(report, "_sections", lambda results, records: [])  # figures not looked at
    text = html_report(Selection(tuple(grid([f"set{i}" for i in range(6)], DECIDING)), 0, ()))
    assert text.count("average rank</text>") == 10
    assert "Ranks over data sets" in text


def test_failed_missing_and_left_out_runs_are_told():
    failed = record(loss="bce", seed=9, fault="ValueError: scores hold NaN")
    selection = Selection((*SMALL, failed), 2, ("1 record made by zlpr 0.0.9 not counted",))
    lines = " ".join(warnings(selection))
    assert "not made yet: 2" in lines
    assert "failed: 1" in lines
    assert "0.0.9" in lines
    for text in (html_report(selection), markdown_report(selection)):
        assert "ValueError: scores hold NaN" in text
        assert "1 record made by zlpr 0.0.9 not counted" in text


def test_one_seed_is_warned_about():
    assert any("One seed" in line for line in warnings(Selection(tuple(grid(seeds=(0,))), 0, ())))


def test_the_rules_of_choosing_are_stated():
    margin = LossSpec("margin", "zlpr", choose={"pos_weight": (1.0, 2.72)})
    made = replace(record(), settings=replace(record().settings, loss=margin))
    text = " ".join(method([*RECORDS, made]))
    assert "same budget" in text
    assert "It took 4 trainings per run" in text
    assert "pos_weight from 1, 2.72, on validation" in text
    assert "8:1:1" in text
    published = " ".join(method([record(split="published")]))
    assert "covers the initialisation alone" in published
    assert "8:1:1" not in published


def test_samples_drawn_of_a_published_split_are_a_spread_that_tests_know_of():
    facts = record().done.data
    taken = facts.train + facts.validation + facts.test
    drawn = [record(seed=seed, split="published", max_samples=taken) for seed in (0, 1)]
    results = Results.from_records(drawn)
    assert results.test_share(results.contests[0], (0, 1)) == facts.test / facts.train
    text = " ".join(method(drawn))
    assert "a seed draws them anew" in text
    assert "initialisation alone" not in text
    small = [record(split="published", max_samples=taken + 1)]  # all of it, whatever the seed
    results = Results.from_records(small)
    assert results.test_share(results.contests[0], (0,)) is None
    assert "covers the initialisation alone" in " ".join(method(small))


def test_a_published_split_of_exactly_the_most_samples_is_not_drawn():
    facts = record().done.data
    taken = facts.train + facts.validation + facts.test
    told = record(split="published", max_samples=taken)
    for drawn in (True, False):
        data = replace(facts, drawn=drawn)
        assert replace(told, outcome=replace(told.done, data=data)).redrawn is drawn


@pytest.mark.parametrize("empty", ["sklearn", "paper"])
def test_every_form_says_how_empty_cases_count(empty):
    made = tuple(replace(one, settings=replace(one.settings, empty=empty)) for one in SMALL)
    selection, sentence = Selection(made, 0, ()), in_words(empty)
    for text in (html_report(selection), markdown_report(selection)):
        assert sentence in " ".join(html.unescape(text).split())


def trained_once(**changes):
    made = record(**changes)
    return replace(made, outcome=replace(made.done, trainings=1))


def test_an_encoders_best_epoch_is_said_to_be_chosen():
    text = " ".join(method([trained_once(model="hf:bert-base-uncased")]))
    assert "With the model hf every loss was trained once" in text
    assert "the epoch that is best by average precision on validation was kept" in text
    assert "nothing was chosen" not in text
    assert "model linear" not in text
    fixed = trained_once(training={"regularisation": 1.0})
    both = " ".join(method([fixed, trained_once(model="hf:bert-base-uncased")]))
    assert "With the model linear every loss was trained once" in both
    assert "nothing was chosen for it" in both
    assert "With the model hf every loss was trained once" in both


@pytest.mark.parametrize(
    ("model", "trainings", "said"),
    [
        ("mmp", 1, "every run was trained once, with the same settings"),
        ("linear", 2, "every loss was trained with the same settings, in 2 trainings per run"),
    ],
)
def test_the_text_counts_as_many_trainings_as_the_table(model, trainings, said):
    loss = LossSpec("none", "none") if model == "mmp" else LossSpec("zlpr", "zlpr")
    made = record(model=model, training={} if model == "mmp" else {"regularisation": 1.0})
    outcome = replace(made.done, trainings=trainings, chosen={"epoch": 3})
    made = replace(made, settings=replace(made.settings, loss=loss), outcome=outcome)
    ((_, cells),) = loss_table([made]).rows
    assert cells[2].text == str(trainings)
    assert said in " ".join(method([made]))


def test_losses_that_all_choose_are_not_said_to_take_no_training():
    margin = LossSpec("margin", "zlpr", choose={"pos_weight": (1.0, 2.72)})
    made = replace(record(), settings=replace(record().settings, loss=margin))
    text = " ".join(method([made]))
    assert "It took 4 trainings per run, all candidates together" in text
    assert "than the others" not in text
    settings = replace(made.settings, training={"regularisation": 1.0})
    fixed = " ".join(method([replace(made, settings=settings)]))
    assert "every candidate was trained once" in fixed
    assert "trainings per run" not in fixed


def test_a_rule_that_was_given_is_not_said_to_be_chosen():
    def made(model="linear", **training):
        return record(model=model, training=training)

    assert "cross-validation on the validation part finds best" in " ".join(method([made()]))
    assert "Chosen rule: top_k, fitted on" in " ".join(method([made(decode="top_k")]))
    for training, rule in (
        ({"top": 2}, "top 2"),
        ({"threshold": 0.5}, "threshold 0.5"),
        ({"decode": "zero"}, "the loss's own bound"),
    ):
        text = " ".join(method([made(**training)]))
        assert f"Chosen rule: {rule}, as given." in text
        assert "cross-validation" not in text
        said = warnings(Selection((made(**training),), 0, ()))
        assert f"Nothing was chosen for the 'chosen rule': it is {rule}, as given." in said
    both = " ".join(method([made("hf:one"), made(top=2), made("hf:two")]))
    assert "Chosen rule of hf:one and hf:two: the one of all" in both
    assert "Chosen rule of linear: top 2, as given." in both


def test_too_few_sets_or_losses_are_told_as_they_are():
    records = grid(datasets=[f"set{i}" for i in range(7)], losses=("zlpr", "bce"))
    assert "here are 7 data sets and 2 losses" in html_report(Selection(tuple(records), 0, ()))


def test_how_it_was_made_names_commands_seeds_machine_and_versions():
    told = dict(provenance(RECORDS))
    assert told["command"] == ("zlpr compare --data toy.csv",)
    assert told["seeds"] == ("0, 1, 2",)
    assert "torch 2.9.0" in told["versions"]
    assert told["machine"] == ("Linux, x86_64, 2",)
    assert [name for name, _ in data_table(RECORDS).rows] == ["GoEmotions", "toy"]
    row = dict(loss_table(RECORDS).rows)["zlpr"]
    assert row[-1].text == "regularisation 0.3"


def test_sizes_that_differ_between_seeds_are_ranges():
    one, other = record(seed=0), record(seed=1)
    data = replace(other.done.data, train=1790, test=90, cardinality=1.46)
    other = replace(other, outcome=replace(other.done, data=data))
    ((name, cells),) = data_table([one, other, record(seed=2, fault="ValueError")]).rows
    texts = [cell.text for cell in cells]
    assert name == "toy"
    assert texts == ["800 to 1,790", "100", "90 to 100", "12", "1.40 to 1.46", "random"]
    assert (
        "800 to 1,790 samples for training, 100 for validation, 90 to 100 for test; 12 labels, "
        "1.40 to 1.46 per sample."
    ) in html_report(Selection((one, other), 0, ()))


HOSTILE = "=<img src=x onerror=alert(1)> $\\frac{$ **b** |\n\n# h \x1b[2J"


@pytest.fixture(scope="module")
def hostile() -> Selection:
    """Records whose data, model, loss and error are called what no sane person calls them."""
    losses = ("zlpr", HOSTILE)
    records = [
        record(HOSTILE, HOSTILE, loss, seed, quality=0.01 * place)
        for place, loss in enumerate(losses)
        for seed in (0, 1)
    ]
    records.append(record(HOSTILE, HOSTILE, "zlpr", 2, fault=f"ValueError: {HOSTILE} `x`"))
    return Selection(tuple(records), 0, (HOSTILE,))


def test_names_are_text_on_the_page_and_in_its_figures(hostile):
    made = html_report(hostile)
    checker = Checker()
    checker.feed(made)
    assert "<img" not in made
    assert "frac" in made  # drawn as it stands, not as mathematics


def test_names_are_text_in_markdown(hostile):
    text = markdown_report(hostile)
    assert "\x1b" not in text
    page = MarkdownIt("commonmark").enable("table").render(text)
    headings = re.findall(r"<h(\d)>", page)
    assert headings.count("1") == 1
    assert "<img" not in page
    assert "<strong>b</strong>" not in page
    assert page.count("<table>") >= 3
    for table in re.findall(r"<table>.*?</table>", page, flags=re.DOTALL):
        lines = re.findall(r"<tr>.*?</tr>", table, flags=re.DOTALL)
        assert len({len(re.findall(r"<t[hd]", line)) for line in lines}) == 1


def test_names_are_text_in_latex(hostile):
    tables = latex_report(hostile)
    assert "\x1b" not in tables
    assert r"\$\textbackslash{}frac\{\$" in tables
    assert tables.count(r"\begin{table}") == tables.count(r"\end{table}")


def test_no_name_is_a_formula_in_the_csv_unless_asked_for(hostile, tmp_path):
    def names(**options):
        path = write_report(hostile, tmp_path, **options)["csv"]
        rows = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline=""))
        return {row[column] for row in rows for column in ("data", "model", "loss")}

    assert names() == {"'" + HOSTILE, "zlpr"}
    assert names(raw_csv=True) == {HOSTILE, "zlpr"}


def test_sections_have_ids_of_their_own_however_data_is_called():
    names = ("a b", "a-b", "??", "!!")
    records = tuple(grid(datasets=names, models=("-",), losses=("zlpr", "bce"), seeds=(0,)))
    checker = Checker()
    checker.feed(html_report(Selection(records, 0, ())))
    assert len(checker.ids) == len(set(checker.ids))
    assert {link.removeprefix("#") for link in checker.links if link.startswith("#")} <= set(
        checker.ids
    )


def test_figures_of_labels_with_their_ancestors_are_called_so():
    flat, above = record("flat"), record("tree", reading={"hierarchy": "links.csv"})
    said = "Labels count with all their ancestors"
    assert not any(said in line for line in method([flat]))
    assert method([above])[-1].startswith(said)
    assert method([flat, above])[-1].startswith(f"tree: {said}")

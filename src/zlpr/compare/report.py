"""The report: one self-contained HTML page, Markdown, LaTeX and CSV, from run records alone."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from zlpr import __version__
from zlpr._atomic import write_text
from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr._escape import for_markdown, for_markdown_code
from zlpr._palette import COLOURS, ON_DARK
from zlpr.compare import figures
from zlpr.compare.figures import Figure
from zlpr.compare.folder import Selection
from zlpr.compare.records import DataFacts, RunRecord, versions_of
from zlpr.compare.results import METRICS, Contest, Results
from zlpr.compare.statistics import MIN_DATASETS
from zlpr.compare.summary import findings, overview, verdict
from zlpr.compare.tables import (
    EMPTY,
    LEAD_THAT_SHOWS,
    Table,
    TableCell,
    all_tables,
    contest_table,
    figures_csv,
    paper_table,
    rank_table,
    to_latex,
    to_markdown,
    wins_table,
)
from zlpr.compare.wording import duration, listed, short
from zlpr.metrics import info
from zlpr.metrics.table import in_words
from zlpr.models.card import IN_HIERARCHY
from zlpr.models.registry import NO_LOSS

FILES = {"html": "report.html", "markdown": "report.md", "latex": "report.tex", "csv": "report.csv"}
MARKS = {
    "html": "<title>Losses compared on ",
    "markdown": "# Losses compared on ",
    "latex": "% Tables of a zlpr comparison",
    "csv": "data,model,loss,seed,split,part,decoding,",
}
"""What stands near the top of each file, by which a report is told from a file of the user's."""
OPEN_SECTIONS = 3
"""With more data sets than this, their sections start closed."""

READING_THE_TABLES = (
    "In per cent, mean ± standard deviation over seeds. Own bound: labels with a score above 0, "
    "where "
    "the loss itself draws the line. One threshold and chosen rule: fitted on validation. Bold: "
    "best of its column. ~: these seeds do "
    "not tell it from the best (paired test, 5 %), which is not to say that they are alike: the "
    f"row '{LEAD_THAT_SHOWS}' has the smallest lead that could have been told from chance, by the "
    "spread of the paired differences over the seeds (median over the losses compared)."
)


@dataclass(frozen=True)
class Section:
    """One data set and model on the page."""

    anchor: str
    title: str
    open: bool
    facts: str
    table: Table
    beside_paper: Table | None
    dot_plots: list[Figure]
    other_figures: list[Figure]


def write_report(selection: Selection, folder: Path, *, raw_csv: bool = False) -> dict[str, Path]:
    """Write the report in all its forms; gives the path of each.

    Args:
        selection: the records to report on.
        folder: where the files go.
        raw_csv: leave names that a spreadsheet would take for formulas as they are.

    Raises:
        UserError: a file of such a name is there that is no report.
    """
    check_place(folder)
    texts = {
        "html": html_report(selection),
        "markdown": markdown_report(selection),
        "latex": latex_report(selection),
        "csv": figures_csv(selection.records, raw=raw_csv),
    }
    paths = {form: folder / FILES[form] for form in texts}
    for form, text in texts.items():
        write_text(paths[form], text)
    return paths


def check_place(folder: Path) -> None:
    """Refuse to put a report in the place of files that are none; they may be all a user has."""
    for form, name in FILES.items():
        path = folder / name
        if not path.is_file():
            continue
        with path.open(encoding="utf-8", errors="replace") as file:
            if MARKS[form] not in file.read(2_000):
                raise UserError(
                    f"{path}: is there already and no report of a comparison; move it away, or "
                    "choose another folder with --out"
                )


def html_report(selection: Selection) -> str:
    """The page: no network, light and dark, any width of screen."""
    import jinja2

    records = selection.records
    results = Results.from_records(records)
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(_resource("report.html.j2"))
    return template.render(
        title=_title(results),
        version=__version__,
        made_on=max(record.made.started for record in records)[:10],
        overview=overview(records, selection.missing),
        verdict=verdict(results),
        hero=figures.hero(results),
        palette=_trusted(palette()),
        style=_trusted(_resource("report.css")),
        script=_trusted(_resource("report.js")),
        warnings=warnings(selection),
        findings=findings(results, records),
        metrics=METRICS,
        reading=READING_THE_TABLES,
        footer=LEAD_THAT_SHOWS,  # stays below when a reader sorts the table
        wins=wins_table(results) if len(results.contests) > 1 else None,
        ranks=rank_table(results),
        diagrams=figures.critical_difference_diagrams(results),
        too_few=_too_few(results),
        sections=_sections(results, records),
        failed=selection.failed,
        method=method(records),
        data_table=data_table(records),
        loss_table=loss_table(records),
        provenance=provenance(records),
    )


def palette() -> str:
    """The losses' colours as the page's variables: on paper, and on a dark screen."""
    light, dark = (
        "".join(f"--c{i}: {colour}; " for i, colour in enumerate(colours))
        for colours in (COLOURS, ON_DARK)
    )
    dark = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark}}} }}"
    return f":root {{ {light}}}\n{dark}"


def markdown_report(selection: Selection) -> str:
    """The same words and tables, without the figures."""
    records = selection.records
    results = Results.from_records(records)
    lines = [f"# {for_markdown(_title(results))}", ""]
    lines += [
        for_markdown(f"{verdict(results)} {overview(records, selection.missing)}").strip(),
        "",
    ]
    lines += [f"> {for_markdown(line)}\n" for line in warnings(selection)]
    lines += ["## Summary", ""]
    found = ((for_markdown(f.question), for_markdown(f.answer)) for f in findings(results, records))
    lines += [f"- **{question}**: {answer}" for question, answer in found]
    lines += ["", "## Tables", ""]
    lines += [for_markdown(READING_THE_TABLES), ""]
    lines += [to_markdown(table) for table in all_tables(results)]
    if selection.failed:
        lines += ["## Failed runs", ""]
        lines += [
            f"- {for_markdown(r.settings.title())}: {for_markdown_code(r.error or '')}"
            for r in selection.failed
        ]
        lines += [""]
    lines += ["## How it was made", "", *(f"{for_markdown(line)}\n" for line in method(records))]
    lines += [to_markdown(data_table(records)), to_markdown(loss_table(records))]
    lines += [
        f"- {name}: {', '.join(map(for_markdown_code, values))}"
        for name, values in provenance(records)
    ]
    return "\n".join(lines) + "\n"


def latex_report(selection: Selection) -> str:
    """The tables, each a float for a document that loads booktabs."""
    results = Results.from_records(selection.records)
    head = "% Tables of a zlpr comparison; needs \\usepackage{booktabs}.\n"
    return head + "\n\n".join(to_latex(table) for table in all_tables(results)) + "\n"


def warnings(selection: Selection) -> list[str]:
    """What a reader must know before believing the rest."""
    lines = list(selection.left_out)
    if selection.missing:
        lines.append(f"Runs of the grid that are not made yet: {selection.missing}.")
    if selection.failed:
        lines.append(f"Runs that failed: {len(selection.failed)}; the tables go without them.")
    given = dict.fromkeys(_given_rule(record) for record in selection.records)
    lines += [f"Nothing was chosen for the 'chosen rule': it is {rule}." for rule in given if rule]
    seeds = {record.settings.seed for record in selection.records if record.outcome is not None}
    if len(seeds) == 1:
        lines.append("One seed only: no difference here can be told from chance.")
    return lines


def method(records: Sequence[RunRecord]) -> list[str]:
    """The rules of the comparison, in sentences."""
    splits = {record.settings.split for record in records}
    lines = []
    if splits - {"published"}:
        lines.append(
            "A seed draws the split into training, validation and test part (8:1:1) anew, as well "
            "as the initialisation, so that the spread covers both. The p-values take into account "
            "that the training parts of two seeds overlap (Nadeau and Bengio's correction)."
        )
    done = [record for record in records if record.outcome is not None]
    published = {record.redrawn for record in done if record.settings.split == "published"}
    if True in published:
        lines.append(
            "Where not all samples of the data's own split are taken, a seed draws them anew: the "
            "spread covers that draw too, and the p-values take the overlap into account likewise."
        )
    if False in published:
        lines.append(
            "Where the data's own split is used"
            + (" whole" if True in published else "")
            + ", the spread covers the initialisation alone, and where it has no validation part "
            "the draw of one."
        )
    lines += budget(records)
    chosen = {r.settings.loss.label: r.settings.loss for r in records if r.settings.loss.choose}
    for label, loss in chosen.items():
        candidates = "; ".join(
            f"{name} from {', '.join(map(short, values))}" for name, values in loss.choose.items()
        )
        lines.append(
            f"{label} also chose its {candidates}, on validation: the first value goes the whole "
            "way, and the others start from where it ended."
        )
    lines.append(
        "One threshold: the same for all labels, fitted on validation for the metric that it is "
        "judged by. The chosen rule is the same for every loss, too, and nothing is chosen on the "
        "test part."
    )
    rules = _rules(records)
    for words, models in rules.items():
        whose = "" if len(rules) == 1 else f" of {listed(models)}"
        lines.append(f"Chosen rule{whose}: {words}.")
    return [*lines, *conventions(records)]


HIERARCHY = frozenset(("hierarchy", "hierarchy_separator"))
"""Options of reading by which labels count with their ancestors."""


def conventions(records: Iterable[RunRecord]) -> list[str]:
    """What empty cases count in the figures, and which count labels with their ancestors."""
    settings = [record.settings for record in records]
    lines = [in_words(empty) for empty in dict.fromkeys(one.empty for one in settings)]
    all_data = dict.fromkeys(one.data for one in settings)
    closed = dict.fromkeys(one.data for one in settings if HIERARCHY & one.reading.keys())
    if closed:
        lines.append(IN_HIERARCHY if closed == all_data else f"{', '.join(closed)}: {IN_HIERARCHY}")
    return lines


def data_table(records: Sequence[RunRecord]) -> Table:
    """Sizes of the data sets; from the least to the most where the seeds' splits differ."""
    done: dict[str, list[RunRecord]] = {}
    for record in records:
        if record.outcome is not None:
            done.setdefault(record.settings.data, []).append(record)
    rows = []
    for name, own in done.items():
        facts = [record.done.data for record in own]
        fields = ("train", "validation", "test", "labels")
        cells = [TableCell(_span(facts, field), getattr(facts[0], field)) for field in fields]
        cells.append(TableCell(_span(facts, "cardinality", ".2f"), facts[0].cardinality))
        rows.append((name, (*cells, TableCell(own[0].settings.split))))
    columns = ("training", "validation", "test", "labels", "labels per sample", "split")
    return Table("Data", columns, tuple(rows), first_column="data")


def _span(facts: Sequence[DataFacts], field: str, form: str = ",") -> str:
    """The least and the most of a figure over the runs, or the one that all of them have."""
    values = [getattr(data, field) for data in facts]
    least, most = format(min(values), form), format(max(values), form)
    return least if least == most else f"{least} to {most}"


def loss_table(records: Sequence[RunRecord]) -> Table:
    """What each loss was trained with, and how often, and how long that took."""
    rows = []
    for label in dict.fromkeys(record.settings.loss.label for record in records):
        own = [r for r in records if r.settings.loss.label == label and r.outcome is not None]
        if not own:
            continue
        loss = own[0].settings.loss
        seconds = sum(record.seconds.fit for record in own) / len(own)
        params = ", ".join(f"{k} = {short(v)}" for k, v in loss.params.items()) or "defaults"
        cells = (
            TableCell(loss.name),
            TableCell(params),
            TableCell(_times(own), min(record.done.trainings for record in own)),
            TableCell(f"{seconds:.2f}", seconds),
            _chosen_cell(own),
        )
        rows.append((label, cells))
    columns = ("loss in zlpr", "parameters", "trainings per run", "seconds per run", "chosen")
    return Table("Losses", columns, tuple(rows))


def provenance(records: Sequence[RunRecord]) -> list[tuple[str, tuple[str, ...]]]:
    """Commands, seeds, versions and machines, each once."""
    made = [record.made for record in records]
    started = sorted(entry.started for entry in made)
    seconds = sum(r.seconds.prepare + r.seconds.fit + r.seconds.evaluate for r in records)
    machines = dict.fromkeys(", ".join(entry.machine.values()) for entry in made)
    return [
        ("command", tuple(dict.fromkeys(entry.command for entry in made))),
        ("seeds", (", ".join(map(str, sorted({r.settings.seed for r in records}))),)),
        ("made", (f"{started[0]} to {started[-1]}",)),
        ("time", (f"{duration(seconds)} over all runs",)),
        ("threads", (", ".join(map(str, sorted({entry.threads for entry in made}))) + " per run",)),
        ("machine", tuple(machines)),
        ("versions", tuple(f"{k} {', '.join(v)}" for k, v in versions_of(records).items())),
    ]


def _sections(results: Results, records: Sequence[RunRecord]) -> list[Section]:
    few = len(results.contests) <= OPEN_SECTIONS
    anchors = _anchors(results.contests)
    return [
        _section(results, records, contest, anchor, few)
        for contest, anchor in zip(results.contests, anchors, strict=True)
    ]


def _anchors(contests: Sequence[Contest]) -> list[str]:
    """An id for each section, readable where the names are, and unlike any other."""
    anchors: list[str] = []
    for number, contest in enumerate(contests, start=1):
        slug = re.sub(r"\W+", "-", f"{contest.data}-{contest.model}").strip("-").lower()
        taken = slug in {*anchors, "", "summary", "wins", "failed", "made"}
        anchors.append(f"{slug}-{number}".lstrip("-") if taken else slug)
    return anchors


def _section(
    results: Results, records: Sequence[RunRecord], contest: Contest, anchor: str, is_open: bool
) -> Section:
    others = [
        *figures.training_curves(records, contest),
        figures.time_against_quality(records, contest),
        figures.empty_predictions(records, contest),
        *figures.label_frequency_plots(records, contest),
        *figures.reliability_plots(records, contest),
    ]
    return Section(
        anchor=anchor,
        title=f"{contest.data} · {contest.model}",
        open=is_open,
        facts=_facts(records, contest),
        table=contest_table(results, contest),
        beside_paper=paper_table(results, contest),
        dot_plots=figures.dot_plots(results, contest),
        other_figures=[figure for figure in others if figure is not None],
    )


def _facts(records: Sequence[RunRecord], contest: Contest) -> str:
    facts = [
        record.outcome.data
        for record in records
        if (record.settings.data, record.settings.model) == (contest.data, contest.model)
        and record.outcome is not None
    ]
    if not facts:
        return ""
    return (
        f"{_span(facts, 'train')} samples for training, {_span(facts, 'validation')} for "
        f"validation, {_span(facts, 'test')} for test; {counted(facts[0].labels, 'label')}, "
        f"{_span(facts, 'cardinality', '.2f')} per sample."
    )


def budget(records: Sequence[RunRecord]) -> list[str]:
    """What was chosen for every loss alike, a sentence or two per kind of model."""
    kinds: dict[str, list[RunRecord]] = {}
    searched = []
    for record in (record for record in records if record.outcome is not None):
        given = record.settings.training.get("regularisation")
        if "regularisation" in record.done.chosen and given is None:
            searched.append(record)
        else:
            kinds.setdefault(record.settings.model.partition(":")[0], []).append(record)
    lines = [_search_budget(searched)] if searched else []
    for kind, group in kinds.items():
        chosen = "nothing was chosen for it"
        if any("epoch" in record.done.chosen for record in group):
            chosen = f"the epoch that is best by {_metrics(group)} on validation was kept"
        once, times = "was trained once, with the same settings", _times(group)
        if times != "1" and not any(record.settings.loss.choose for record in group):
            once = f"was trained with the same settings, in {times} trainings per run"
        trained = f"every {_trained_unit(group)} {once}"
        lines.append(f"With the model {kind} {trained}; {chosen}.")
    return lines


def _search_budget(records: Sequence[RunRecord]) -> str:
    plain = [record for record in records if not record.settings.loss.choose]
    times = _times(plain or records)
    together = "" if plain else ", all candidates together"
    return (
        "Every loss had the same budget for choosing how strongly its weights are held back: one "
        "search, which begins at the loss's own scale, goes on in equal steps for as long as "
        f"{_metrics(records)} on validation improves, and stops after the same number of steps for "
        f"all. It took {times} training{'' if times == '1' else 's'} per run{together}."
    )


def _times(records: Sequence[RunRecord]) -> str:
    """How many trainings each run took, the least and the most."""
    counts = sorted({record.done.trainings for record in records})
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _trained_unit(records: Sequence[RunRecord]) -> str:
    """What was trained once: a loss, or a candidate where every loss has several."""
    if all(record.settings.loss.name == NO_LOSS for record in records):
        return "run"
    return "candidate" if all(record.settings.loss.choose for record in records) else "loss"


def _metrics(records: Sequence[RunRecord]) -> str:
    settings = [record.settings.training for record in records]
    names = {str(s.get("metric") or s.get("decode_metric") or "micro_f1") for s in settings}
    return ", ".join(info(name).words for name in sorted(names))


def _rules(records: Sequence[RunRecord]) -> dict[str, list[str]]:
    """What the chosen rule is, in words, and of which models."""
    models: dict[str, dict[str, None]] = {}
    for record in records:
        words = _given_rule(record) or _fitted_rule(record)
        models.setdefault(words, {})[record.settings.model] = None
    return {words: list(names) for words, names in models.items()}


def _given_rule(record: RunRecord) -> str:
    """The rule that the settings give, for which nothing is chosen; empty where one is fitted."""
    settings = record.settings.training
    names = (name for name in ("threshold", "top") if settings.get(name) is not None)
    given = [f"{name} {settings[name]}" for name in names]
    if settings.get("decode") == "zero":
        given.append("the loss's own bound")
    return f"{' and '.join(given)}, as given" if given else ""


def _fitted_rule(record: RunRecord) -> str:
    name = record.settings.training.get("decode", "auto")
    if name != "auto":
        return f"{name}, fitted on validation as the one threshold is"
    return (
        "the one of all decoding rules that cross-validation on the validation part finds best for "
        "the metric that it is judged by"
    )


def _chosen_cell(records: Sequence[RunRecord]) -> TableCell:
    """What validation chose, as the range over data sets and seeds."""
    values: dict[str, list[float]] = {}
    for record in records:
        for name, value in record.done.chosen.items():
            if isinstance(value, int | float):
                values.setdefault(name, []).append(float(value))
    texts = []
    for name, numbers in values.items():
        low, high = min(numbers), max(numbers)
        same = math.isclose(low, high)
        texts.append(f"{name} {short(low)}" + ("" if same else f" to {short(high)}"))
    return TableCell(", ".join(texts)) if texts else EMPTY


def _too_few(results: Results) -> str:
    losses = [loss for loss in results.losses if loss != NO_LOSS]
    return (
        f"A test over data sets (Friedman's, with its critical-difference diagram) needs at least "
        f"{MIN_DATASETS} of them, with figures of the same three losses or more by every model; "
        f"here are {counted(len(results.datasets), 'data set')} and "
        f"{counted(len(losses), 'loss', 'losses')}. Differences are tested within each data set, "
        "in pairs over seeds."
    )


def _title(results: Results) -> str:
    names = results.datasets
    return f"Losses compared on {names[0] if len(names) == 1 else f'{len(names)} data sets'}"


def _resource(name: str) -> str:
    return resources.files("zlpr.compare").joinpath("templates", name).read_text("utf-8")


def _trusted(text: str) -> object:
    """Our own style and script, which the page must carry unescaped."""
    import markupsafe

    return markupsafe.Markup(text)  # noqa: S704 - files of this package, no data in them

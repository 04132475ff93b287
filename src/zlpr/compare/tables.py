"""Tables as in the paper, in the forms that people paste: terminal, Markdown, LaTeX, CSV.

A table is built once, as cells with what is known about each; every form prints the same cells.
"""

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from zlpr._csv_rows import CsvRows
from zlpr._escape import for_markdown, for_spreadsheet, for_terminal
from zlpr.compare.records import RunRecord
from zlpr.compare.results import COLUMNS, FITTED, METRICS, OWN, THRESHOLD, Column, Contest, Results
from zlpr.compare.statistics import Spread, count_wins, printed, rank_test, standing
from zlpr.compare.wording import percent
from zlpr.data import published

BEST_MARK, NOISE_MARK = "*", "~"
LEGEND = (
    f"{BEST_MARK} best, {NOISE_MARK} these seeds do not tell it from the best (paired test, 5 %)"
)

UNFINISHED = (
    "Not all runs are there: losses are compared, and their means taken, over the seeds that most "
    "of them have; (n=…) stands behind the mean of so many seeds of a loss that lacks some of "
    "these and is not compared."
)

LEAD_THAT_SHOWS = "lead that shows"
"""The row that says how far apart two losses must be for these seeds to tell them apart."""


@dataclass(frozen=True)
class TableCell:
    """One figure of a table.

    Attributes:
        text: as printed.
        value: what to sort by; None where there is no figure.
        deviation: the printed spread over seeds, or "".
        best: whether it is the best of its column.
        within_noise: whether these seeds do not tell it from the best.
        seeds: how many it is of, where it is not compared for lack of some; None otherwise.
    """

    text: str
    value: float | None = None
    deviation: str = ""
    best: bool = False
    within_noise: bool = False
    seeds: int | None = None

    @property
    def is_text(self) -> bool:
        """Whether it holds words, which stand to the left where numbers stand to the right."""
        return self.value is None and self.text[:1] not in "–<0123456789"

    @property
    def incomplete(self) -> str:
        """What stands behind a figure that is not compared."""
        return "" if self.seeds is None else f"(n={self.seeds})"


EMPTY = TableCell("–")


@dataclass(frozen=True)
class Table:
    """A titled table whose first column names the rows."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[TableCell, ...]], ...]
    first_column: str = "loss"
    note: str = ""


def contest_table(results: Results, contest: Contest, columns: Sequence[Column] = COLUMNS) -> Table:
    """One data set and model: a row per loss, in percent, mean and spread over seeds.

    The last row says how large a lead must be for these seeds to tell it from chance.
    """
    stands = {column: standing(results, contest, column) for column in columns}
    matched = {column: results.matched(contest, column) for column in columns}
    rows = []
    for loss in results.losses:
        cells = []
        for column in columns:
            spread = Spread.of(matched[column].get(loss))
            stand = stands[column]
            if spread is None or stand is None:
                cells.append(EMPTY)
                continue
            best = loss in stand.best
            noise = loss in stand.within_noise and not best
            few = loss in matched[column].withheld
            cells.append(_spread_cell(spread, best=best, noise=noise, few=few))
        rows.append((loss, tuple(cells)))
    leads = [None if stand is None else stand.lead_that_shows for stand in stands.values()]
    if any(lead is not None for lead in leads):
        shown = (EMPTY if lead is None else TableCell(percent(lead, 1)) for lead in leads)
        rows.append((LEAD_THAT_SHOWS, tuple(shown)))
    note = UNFINISHED if any(entry.unfinished for entry in matched.values()) else ""
    return Table(str(contest), tuple(column.title for column in columns), tuple(rows), note=note)


def wins_table(
    results: Results,
    columns: Sequence[Column] = COLUMNS,
    losses: Sequence[str] | None = None,
    *,
    title: str = "Wins",
    short: bool = False,
) -> Table:
    """How often each loss is best, ties counting for each, and how many wins are within noise.

    `short` leaves the decoding out of the headings, where the title says it.
    """
    counts = {column: count_wins(results, column, losses) for column in columns}
    rows = []
    for loss in losses or results.losses:
        cells = []
        for column in columns:
            if not any(results.get(contest, loss, column) for contest in results.contests):
                cells.append(EMPTY)
                continue
            wins = counts[column][loss]
            top = max(entry.total for entry in counts[column].values())
            noise = wins.total - wins.clear
            text = f"{wins.total} ({noise}{NOISE_MARK})" if noise else str(wins.total)
            best = wins.total == top > 0
            cells.append(TableCell(text, wins.total, best=best))
        rows.append((loss, tuple(cells)))
    rivalled = [  # a model that has no loss to choose has a table of its own alone
        contest
        for contest in results.contests
        if any(len(results.matched(contest, column).figures) > 1 for column in columns)
    ]
    note = (
        f"Tables in which a loss is best, of {len(rivalled)}; a tie counts for each. "
        f"In brackets with {NOISE_MARK}: how many of these wins are within noise, that is, the "
        "loss does not beat every other one beyond chance (paired test over seeds, 5 %)."
    )
    titles = tuple(c.metric.title if short else c.title for c in columns)
    return Table(title, titles, tuple(rows), note=note)


def rank_table(results: Results, columns: Sequence[Column] = COLUMNS) -> Table | None:
    """Average ranks over data sets with Friedman's p-value, None where there are too few."""
    tests = {column: test for column in columns if (test := rank_test(results, column))}
    if not tests:
        return None
    rows = []
    for loss in results.losses:
        cells = []
        for test in tests.values():
            if loss not in test.losses:
                cells.append(EMPTY)
                continue
            place = test.losses.index(loss)
            first = min(range(len(test.ranks)), key=lambda i: test.ranks[i])
            rank = test.ranks[place]
            best = rank == test.ranks[first]
            noise = not best and not test.tells_apart(first, place)
            cells.append(TableCell(f"{rank:.2f}", rank, best=best, within_noise=noise))
        rows.append((loss, tuple(cells)))
    p_values = (_p_cell(test.p_value) for test in tests.values())
    rows.append(("Friedman p", tuple(p_values)))
    distances = (f"{t.critical_difference:.2f}" for t in tests.values())
    rows.append(("critical difference", tuple(TableCell(text) for text in distances)))
    fewest = min(len(test.datasets) for test in tests.values())
    note = (
        f"Average rank over {fewest} data sets, 1 is best; Nemenyi's test at 5 %, where "
        "Friedman's finds a difference at all."
    )
    return Table("Ranks over data sets", tuple(c.title for c in tests), tuple(rows), note=note)


def paper_table(results: Results, contest: Contest) -> Table | None:
    """Our figures beside the paper's, for one of its eleven sets, at the loss's own bound."""
    name = published.set_name(contest.data)
    if name is None:
        return None
    rows = []
    for loss in (*published.DECIDING_LOSSES, *published.RANKING_LOSSES):
        ours = [Spread.of(results.matched(contest, column).get(loss)) for column in OWN]
        if not any(ours):
            continue
        cells = []
        for metric, spread in zip(METRICS, ours, strict=True):
            cells.append(EMPTY if spread is None else _spread_cell(spread))
            for encoder in published.ENCODERS:
                value = published.result(name, encoder, loss, metric.name)
                cells.append(EMPTY if value is None else TableCell(f"{value:.1f}", value))
        rows.append((loss, tuple(cells)))
    columns = tuple(
        f"{metric.title}, {who}" for metric in METRICS for who in ("ours", "BERT", "RoBERTa")
    )
    note = (
        "The paper's figures are single runs of fine-tuned base-size encoders on its own split; "
        f"ours are {contest.model} on the data given here."
    )
    title = f"{contest} beside the paper's {name}"
    return Table(title, columns, tuple(rows), note=note) if rows else None


def all_tables(results: Results) -> list[Table]:
    """The tables of a report, in its order."""
    tables = [wins_table(results)] if len(results.contests) > 1 else []
    ranks = rank_table(results)
    if ranks is not None:
        tables.append(ranks)
    for contest in results.contests:
        tables.append(contest_table(results, contest))
        beside = paper_table(results, contest)
        if beside is not None:
            tables.append(beside)
    return tables


def terminal_rows(table: Table) -> tuple[list[str], list[list[str]]]:
    """Headers and rows for `print_table`; one decimal, so that six columns fit a terminal."""
    rows = [[name, *(_terminal_text(cell) for cell in cells)] for name, cells in table.rows]
    return [table.first_column, *table.columns], rows


def terminal_tables(results: Results, contest: Contest) -> tuple[Table, ...]:
    """The same figures in narrow tables: own bound, one threshold, and the chosen rule."""
    return tuple(
        Table(
            f"{contest}: {words}, %",
            tuple(column.metric.title for column in columns),
            contest_table(results, contest, columns).rows,
        )
        for words, columns in (
            ("at each loss's own bound", OWN),
            ("at one threshold fitted on validation", THRESHOLD),
            ("by the rule chosen on validation", FITTED),
        )
    )


def to_markdown(table: Table) -> str:
    """A Markdown table, the best in bold."""
    lines = [
        "| " + " | ".join(map(for_markdown, [table.first_column, *table.columns])) + " |",
        "|---" + "|--:" * len(table.columns) + "|",
    ]
    for name, cells in table.rows:
        texts = (_markdown_text(cell) for cell in cells)
        lines.append("| " + " | ".join([for_markdown(name), *texts]) + " |")
    note = [f"\n{for_markdown(table.note)}"] if table.note else []
    return "\n".join([f"### {for_markdown(table.title)}", "", *lines, *note]) + "\n"


def to_latex(table: Table) -> str:
    """A LaTeX table for the package booktabs, the best in bold, noise marked by a tilde."""
    head = " & ".join(map(_escape_latex, [table.first_column, *table.columns]))
    body = [
        " & ".join([_escape_latex(name), *(_latex_text(cell) for cell in cells)]) + r" \\"
        for name, cells in table.rows
    ]
    caption = _escape_latex(" ".join(filter(None, [f"{table.title}.", table.note])))
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering\small",
            rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
            r"\toprule",
            head + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{caption}}}",
            r"\end{table}",
        ]
    )


def figures_csv(records: Iterable[RunRecord], *, raw: bool = False) -> str:
    """Every metric of every finished cell in long form, one figure per line.

    Names that a spreadsheet would take for formulas get an apostrophe, unless `raw`.
    """
    out = io.StringIO()
    writer = CsvRows(out)
    writer.writerow(
        ["data", "model", "loss", "seed", "split", "part", "decoding", "empty", "metric", "value"]
    )
    for record in (record for record in records if record.outcome is not None):
        settings = record.settings
        names = (settings.data, settings.model, settings.loss.label)
        cell = [*(names if raw else map(for_spreadsheet, names)), settings.seed, settings.split]
        for part in ("validation", "test"):
            decoded = getattr(record.done.evaluation, part)
            for decoding in ("own", "threshold", "fitted"):
                values: Mapping[str, float] = getattr(decoded, decoding)
                for metric, value in values.items():
                    writer.writerow([*cell, part, decoding, settings.empty, metric, repr(value)])
    return out.getvalue()


def _spread_cell(
    spread: Spread, *, best: bool = False, noise: bool = False, few: bool = False
) -> TableCell:
    deviation = "" if spread.deviation is None else percent(spread.deviation, 1)
    mean, seeds = printed(spread.mean), spread.seeds if few else None
    return TableCell(
        percent(spread.mean, 1), mean, deviation, best=best, within_noise=noise, seeds=seeds
    )


def _p_cell(p_value: float) -> TableCell:
    return TableCell(f"{p_value:.3f}" if p_value >= 0.001 else "< 0.001")


def _terminal_text(cell: TableCell) -> str:
    text = cell.text
    if cell.deviation and cell.value is not None:
        text = f"{text}±{cell.deviation}"
    mark = BEST_MARK if cell.best else NOISE_MARK if cell.within_noise else " "
    return text + (cell.incomplete or mark)


def _markdown_text(cell: TableCell) -> str:
    spread = f" ± {cell.deviation}" if cell.deviation else ""
    text = for_markdown(cell.text)
    text = f"**{text}**" if cell.best else text
    tilde = " ~" if cell.within_noise else ""
    few = f" {cell.incomplete}" if cell.incomplete else ""
    return text + spread + tilde + few


def _latex_text(cell: TableCell) -> str:
    text = _escape_latex(cell.text).replace("–", "--")
    spread = rf"\,{{\scriptsize$\pm${cell.deviation}}}" if cell.deviation else ""
    tilde = r"$^{\sim}$" if cell.within_noise else ""
    few = f" {cell.incomplete}" if cell.incomplete else ""
    return (rf"\textbf{{{text}}}" if cell.best else text) + spread + tilde + few


def _escape_latex(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {character: "\\" + character for character in "&%$#_{}"}
    escaped = "".join(special.get(c, c) for c in for_terminal(" ".join(text.split())))
    return escaped.replace("<", r"$<$").replace(">", r"$>$")

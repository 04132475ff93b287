"""Makes docs/study-tables.md: every table behind the study's page, of the study's CSV alone."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench import study
from bench.study_numbers import (
    CODES,
    DECIDED,
    FIVE,
    METRICS,
    PARTS,
    Part,
    duel,
    lead_on,
    mean_of,
    read_part,
    title_of,
    tuned,
)
from bench.study_words import folded, in_words, table, with_interval

from zlpr import metrics
from zlpr.compare.practical import ROPE
from zlpr.compare.results import Column, Contest, DecodingName
from zlpr.metrics import PAPER_METRICS

MARK = "†"
"""Behind a loss of which a cell had not settled."""

BY_SET = ("subset_accuracy", "micro_f1", "macro_f1")
"""The metrics of the tables of single sets."""


def page(tables: Path = study.TABLES) -> str:
    """The text of docs/study-tables.md."""
    plan = study.protocol()
    sections = [
        "# The study's tables",
        "Every figure behind [the study](study.md), which says how it was made and what it shows. "
        "In per cent; differences in points, above 0 where ZLPR is better, ± their 95 % interval; "
        "worse / alike / better: the probability that each of the three is the likeliest on a new "
        "set, by half a point. A star: the parameter of the loss was chosen. "
        f"{MARK}: a cell of the loss had not settled on that set "
        "(the last tenth of its training still moved it). Own bound, one threshold and chosen rule "
        "are the three decisions; losses that only rank have no own bound.",
    ]
    for name in PARTS:
        part = read_part(name, tables, plan)
        if part.sets and name != "extras":
            sections += _of_part(part, plan, study.read_table(study.tables_of(name, tables)[0]))
    return "\n\n".join(sections) + "\n"


def _of_part(
    part: Part, plan: Mapping[str, Any], figures: Sequence[Mapping[str, str]]
) -> Iterator[str]:
    yield f"## {PARTS[part.name].capitalize()}"
    yield (
        "Sizes of the parts with the first seed, seeds, and at one threshold half of the 95 % "
        "interval of ZLPR's lead over BCE, in points: a true difference of that size is found "
        "every second time.\n\n" + sets_table(plan, part)
    )
    for words, code in CODES.items():
        yield folded(f"Means over {len(part.sets)} sets: {words}", means_table(part, code))
    for contest in part.results.contests:
        yield folded(f"{contest.data}: every loss", set_table(part, contest))
    yield from _duels(part)
    chosen = choices_table(part, figures)
    if chosen:
        yield folded("Which values of its parameter a loss chose, for each metric", chosen)
    marked, known, by_loss = unsettled(part)
    yield folded(f"How far training had settled: {marked} of {known} cells are marked", by_loss)


def _duels(part: Part) -> Iterator[str]:
    """ZLPR against each of the five, plain and with the parameters chosen."""
    versions = (False, True) if any(tuned(part, x) != x for x in FIVE) else (False,)
    for chosen in versions:
        for rival in FIVE[1:]:
            if rival not in part.losses:
                continue
            how = "both chosen" if chosen else "both plain"
            for words, code in CODES.items():
                yield folded(
                    f"{part.name}: ZLPR against {rival}, {how}, {words}",
                    duel_table(part, rival, code, chosen=chosen),
                )


def columns_for(decision: DecodingName) -> tuple[Column, ...]:
    """All six at the own bound, the four that a decision changes otherwise."""
    return tuple(Column(metric, decision) for metric in (METRICS if decision == "own" else DECIDED))


def duel_table(part: Part, rival: str, decision: DecodingName, *, chosen: bool) -> str:
    """ZLPR against one rival: mean difference with its interval over sets, and the verdict."""
    rows = []
    for column in columns_for(decision):
        names = [tuned(part, x) if chosen else x for x in ("zlpr", rival)]
        made = duel(part, names[0], names[1], column)
        if made is not None:
            leads = list(made.by_set.values())
            rows.append(
                [
                    column.metric.title,
                    with_interval(made.size),
                    f"{sum(x > 0 for x in leads)} of {len(leads)}",
                    f"{sum(x < -ROPE for x in leads)} / {sum(x > ROPE for x in leads)}",
                    f"{made.size.rank_biserial:+.2f}".replace("-", "−"),
                    in_words(made.verdict),
                ]
            )
    titles = ["metric", "points", "sets ahead", "half a point behind / ahead", "rank-biserial"]
    return table([*titles, "worse / alike / better"], rows)


def sets_table(plan: Mapping[str, Any], part: Part) -> str:
    """Data, sizes, seeds and how far chance alone may move ZLPR from BCE."""
    sizes = {entry["name"]: entry["samples"] for entry in plan["data"]}
    rows = []
    for contest in part.results.contests:
        cell = next(row for row in part.cells if row["data"] == contest.data)
        leads = [
            lead_on(
                part, contest, tuned(part, "zlpr"), tuned(part, "bce"),
                Column(metrics.info(name), "threshold"),
            )
            for name in BY_SET
        ]  # fmt: skip
        halves = [None if lead is None else lead[1] for lead in leads]
        done, asked = part.seeds[contest.data]
        rows.append(
            [
                contest.data,
                f"{sizes[contest.data]:,}",
                cell["labels"],
                f"{cell['train']} + {cell['validation']} + {cell['test']}",
                f"{done}" if done == asked else f"{done} of {asked}",
                *("–" if half is None else f"± {100 * half:.1f}" for half in halves),
            ]
        )
    titles = ["set", "samples", "labels", "train + validation + test", "seeds"]
    return table([*titles, *(metrics.info(name).title for name in BY_SET)], rows)


def means_table(part: Part, decision: DecodingName) -> str:
    """Every loss, plain and with its parameter chosen: the mean over the sets, in per cent."""
    rows = []
    columns = columns_for(decision)
    for label in part.results.losses:
        values = [mean_of(part, label, column) for column in columns]
        if any(value is not None for value in values):
            rows.append([label, *("–" if x is None else f"{100 * x:.2f}" for x in values)])
    return table(["loss", *(column.metric.title for column in columns)], rows)


def set_table(part: Part, contest: Contest) -> str:
    """One set: every loss, mean over seeds under each decision."""
    columns = [Column(metrics.info(name), code) for name in BY_SET for code in CODES.values()]
    columns.append(Column(metrics.info("average_precision"), "own"))
    marked = {
        title_of(row)
        for row in part.cells
        if row["data"] == contest.data and row["settled"] == "no"
    }
    rows = []
    for label in part.results.losses:
        values = [part.results.get(contest, label, column) for column in columns]
        if any(values):
            cells = (f"{100 * np.mean(list(x.values())):.1f}" if x else "–" for x in values)
            rows.append([label + f" {MARK}" * (label.rstrip("*") in marked), *cells])
    titles = [
        f"{metrics.info(name).title + ': ' if place == 0 else ''}{words}"
        for name in BY_SET
        for place, words in enumerate(CODES)
    ]
    return table(["loss", *titles, metrics.info("average_precision").title], rows)


def unsettled(part: Part) -> tuple[int, int, str]:
    """Cells that are marked, of how many, and a table of them by loss."""
    known = [row for row in part.cells if row["settled"]]
    marked = [row for row in known if row["settled"] == "no"]
    rows = []
    for loss in part.losses:
        own = [row for row in known if title_of(row) == loss]
        if own:
            bad = [row for row in own if row["settled"] == "no"]
            rows.append(
                [
                    loss,
                    f"{len(bad)} of {len(own)}",
                    _largest(own, "objective", " %"),
                    _largest(own, "metric", ""),
                ]
            )
    titles = ["loss", "cells marked", "most of the objective", "most points of the metric"]
    return len(marked), len(known), table(titles, rows)


def _largest(cells: Sequence[Mapping[str, str]], column: str, unit: str) -> str:
    """How far the last tenth moved the worst of some cells, where that was measured."""
    values = [float(row[column]) for row in cells if row[column]]
    return f"{100 * max(values):.2f}{unit}" if values else "–"


def choices_table(part: Part, figures: Sequence[Mapping[str, str]]) -> str:
    """How often each value was chosen, by loss, decision and metric; empty where none was."""
    counts: dict[tuple[str, str], list[dict[str, int]]] = {}
    for row in figures:
        chosen = row["version"] == "chosen" and row["decision"] != "chosen rule"
        if chosen and row["values"] and row["data"] in part.sets:
            key = (row["loss"], row["decision"])
            by_metric = counts.setdefault(key, [{} for _ in PAPER_METRICS])
            for found, value in zip(by_metric, row["values"].split(";"), strict=True):
                if value:
                    found[value] = found.get(value, 0) + 1
    rows = [
        [
            *(loss, decision, metric.title),
            ", ".join(f"{value}: {n}" for value, n in sorted(found.items(), key=_by_value)),
        ]
        for (loss, decision), by_metric in sorted(counts.items())
        for metric, found in zip(METRICS, by_metric, strict=True)
        if found
    ]
    return table(["loss", "decision", "metric", "value: cells"], rows) if rows else ""


def _by_value(item: tuple[str, int]) -> float:
    return float(item[0])


def share_at_the_end(
    part: Part,
    figures: Sequence[Mapping[str, str]],
    loss: str,
    metric: str,
    values: Sequence[float],
) -> float | None:
    """In how many cells the largest value of a parameter was chosen for the own bound."""
    place = PAPER_METRICS.index(metric)
    chosen = [
        row["values"].split(";")[place]
        for row in figures
        if (row["loss"], row["version"], row["decision"]) == (loss, "chosen", "own bound")
        and row["data"] in part.sets
        and row["values"]
    ]
    known = [float(value) for value in chosen if value]
    return sum(value >= max(values) for value in known) / len(known) if known else None

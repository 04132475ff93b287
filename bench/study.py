"""The study of docs/study.md: lay out its data, and sum up its run records.

    python bench/study.py data DATA study-data
    zlpr compare --grid bench/study.toml --data-root study-data --out study
    python bench/study.py tables study
    python bench/study.py summary study > docs/study.csv

DATA holds the folders that `study.toml` names, as their publishers give them; the films come as
one JSON file per decade, of which those with an extract and a genre are kept. `tables` prints the
tables of docs/study.md in Markdown, or with `--json` as values; `summary` prints each figure's mean
and standard deviation over the seeds as CSV.
"""

import argparse
import csv
import json
import lzma
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from zlpr import metrics
from zlpr._atomic import write_text
from zlpr.compare import Results, RunFolder, RunRecord
from zlpr.compare.results import FITTED, OWN, Column
from zlpr.compare.statistics import Spread, holm, paired_p_value, printed
from zlpr.compare.tables import Table, TableCell, rank_table, to_markdown, wins_table
from zlpr.data import published

MARGIN = "zlpr_margin"
DECIDING = published.DECIDING_LOSSES


def read_films(folder: Path) -> list[dict[str, object]]:
    """Films with their extract as text and their genres as labels."""
    films = []
    for path in sorted(folder.glob("movies-*.json*")):
        opened = lzma.open if path.suffix == ".xz" else open
        with opened(path, "rt", encoding="utf-8") as stream:
            films += json.load(stream)
    return [
        {"text": film["extract"], "labels": sorted(set(film["genres"]))}
        for film in films
        if film.get("extract") and film.get("genres")
    ]


def lay_out(data: Path, out: Path) -> None:
    """Make the folder that `--data-root` is to name: links, and the films in one file."""
    out.mkdir(parents=True, exist_ok=True)
    for name in ("goemotions", "arxiv6", "uspto", "duee", "mulan"):
        link = out / name
        if not link.exists():
            link.symlink_to((data / name).resolve(), target_is_directory=True)
    films = read_films(data / "wikimovies")
    lines = (json.dumps(film, ensure_ascii=False) + "\n" for film in films)
    write_text(out / "wikimovies.jsonl", "".join(lines))
    print(f"{len(films):,} films; now: zlpr compare --grid bench/study.toml --data-root {out}")


def mean_table(results: Results, columns: Sequence[Column], title: str) -> Table:
    """Each loss's figure, averaged over the data sets."""
    means = {
        loss: [_mean_over_sets(results, loss, column) for column in columns]
        for loss in results.losses
    }
    rows = []
    for loss, values in means.items():
        cells = []
        for place, column in enumerate(columns):
            known = [row[place] for row in means.values() if row[place] is not None]
            best = (max if column.metric.larger_is_better else min)(known, default=None)
            value = values[place]
            cells.append(
                TableCell("–")
                if value is None
                else TableCell(f"{value:.2f}", value, best=value == best)
            )
        rows.append((loss, tuple(cells)))
    titles = tuple(column.metric.title for column in columns)
    return Table(title, titles, tuple(rows))


def _mean_over_sets(results: Results, loss: str, column: Column) -> float | None:
    spreads = [Spread.of(results.get(contest, loss, column)) for contest in results.contests]
    known = [printed(spread.mean) for spread in spreads if spread is not None]
    return float(np.mean(known)) if len(known) == len(spreads) else None


def duel(results: Results, ours: str, theirs: str, column: Column) -> dict[str, Any]:
    """One loss against another over the data sets: who is ahead how often, and by how much."""
    from scipy import stats

    sign = 1 if column.metric.larger_is_better else -1
    differences, clear = [], {"ahead": 0, "behind": 0}
    p_values = []
    for contest in results.contests:
        a, b = results.get(contest, ours, column), results.get(contest, theirs, column)
        if not a or not b:
            continue
        differences.append(sign * 100 * (np.mean(list(a.values())) - np.mean(list(b.values()))))
        p_value = paired_p_value(a, b, results.test_share(contest, a))
        p_values.append(1.0 if p_value is None else p_value)
    for difference, p_value in zip(differences, holm(p_values), strict=True):
        if p_value <= 0.05:
            clear["ahead" if difference > 0 else "behind"] += 1
    return {
        "sets": len(differences),
        "ahead": sum(difference > 0 for difference in differences),
        "clearly_ahead": clear["ahead"],
        "clearly_behind": clear["behind"],
        "mean_points": float(np.mean(differences)),
        "wilcoxon_p": float(stats.wilcoxon(differences).pvalue),
    }


def duel_table(results: Results, ours: str, rivals: Sequence[str], title: str) -> Table:
    """Duels at the own bound, a row per rival and a column per metric."""
    rows = []
    for rival in rivals:
        cells = []
        for column in OWN:
            told = duel(results, ours, rival, column)
            text = f"{told['ahead']}/{told['sets']} ({told['clearly_ahead']}:"
            text += f"{told['clearly_behind']}), {told['mean_points']:+.2f}"
            p_value = told["wilcoxon_p"]
            text += ", p < 0.001" if p_value < 0.0005 else f", p {p_value:.3f}"
            cells.append(TableCell(text, told["mean_points"]))
        rows.append((rival, tuple(cells)))
    titles = tuple(column.metric.title for column in OWN)
    note = (
        "Data sets on which it is ahead; in brackets, on how many it is ahead and on how many "
        "behind beyond chance (paired test over seeds, 5 %, with Holm's correction over the data "
        "sets); mean difference in points (positive: ahead, for RankLoss as well); and the p-value "
        "of Wilcoxon's signed-rank test over data sets."
    )
    return Table(title, titles, tuple(rows), first_column="against", note=note)


def spread_table(results: Results, losses: Sequence[str]) -> Table:
    """Distance from the best to the worst of some losses, before and after fitting."""
    rows = []
    for how, columns in (("own bound", OWN[:4]), ("fitted", FITTED)):
        cells = []
        for column in columns:
            gaps = []
            for contest in results.contests:
                means = [
                    np.mean(list(results.get(contest, loss, column).values())) for loss in losses
                ]
                gaps.append(100 * (max(means) - min(means)))
            cells.append(TableCell(f"{np.mean(gaps):.2f}", float(np.mean(gaps))))
        rows.append((how, tuple(cells)))
    titles = tuple(column.metric.title for column in OWN[:4])
    title = "From best to worst of the paper's five, points, mean over data sets"
    return Table(title, titles, tuple(rows), first_column="decoding")


def chosen_margins(records: Sequence[RunRecord]) -> Table:
    """Which pos_weight validation chose, by data set."""
    counts: dict[str, Counter[float]] = {}
    for record in records:
        if record.settings.loss.label == MARGIN and record.outcome is not None:
            chosen = record.outcome.chosen["pos_weight"]
            counts.setdefault(record.settings.data, Counter())[chosen] += 1
    weights = sorted({weight for counter in counts.values() for weight in counter})
    rows = tuple(
        (data, tuple(TableCell(str(counter[weight])) for weight in weights))
        for data, counter in counts.items()
    )
    titles = tuple(f"{weight:g}" for weight in weights)
    return Table("Seeds by the pos_weight chosen", titles, rows, first_column="data")


def study_tables(folder: Path) -> list[Table]:
    """All that docs/study.md rests on."""
    records = RunFolder(folder).select().records
    results = Results.from_records(records)
    five = replace(results, losses=tuple(x for x in results.losses if x in DECIDING))
    rivals = tuple(x for x in DECIDING if x != "zlpr")
    others = (*DECIDING, "asymmetric", "hbm", "sigmoid_f1")
    tables = [
        wins_table(five, OWN, title="Wins among the paper's five, own bound", short=True),
        wins_table(five, FITTED, title="Wins among the paper's five, fitted", short=True),
        wins_table(results, OWN, title="Wins among all, own bound", short=True),
        wins_table(results, FITTED, title="Wins among all, fitted", short=True),
        mean_table(results, OWN, "Means over data sets, own bound"),
        mean_table(results, FITTED, "Means over data sets, fitted"),
        rank_table(results, OWN),
        rank_table(results, FITTED),
        duel_table(results, "zlpr", rivals, "zlpr against the paper's others"),
        duel_table(results, MARGIN, others, f"{MARGIN} against the others that decide"),
        spread_table(results, DECIDING),
        chosen_margins(records),
    ]
    return [table for table in tables if table is not None]


def summary(folder: Path) -> list[tuple[str | int, ...]]:
    """Rows of each data set, loss, decoding and metric: mean and deviation over the seeds, in %."""
    found: dict[tuple[str, str, str, str], list[float]] = {}
    for record in RunFolder(folder).select().records:
        if record.outcome is None:
            continue
        test = record.outcome.evaluation.test
        for decoding, figures in (("own bound", test.own), ("fitted", test.fitted)):
            for metric in (*metrics.PAPER_METRICS, "empty_predictions"):
                if metric in figures:
                    key = (record.settings.data, record.settings.loss.label, decoding, metric)
                    found.setdefault(key, []).append(100 * figures[metric])
    return [
        (*key, f"{np.mean(values):.2f}", f"{np.std(values, ddof=1):.2f}", len(values))
        for key, values in sorted(found.items())
    ]


def main() -> None:
    """Run one of the steps."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    steps = parser.add_subparsers(dest="step", required=True)
    data = steps.add_parser("data", help="lay out the data")
    data.add_argument("data", type=Path, help="folder of the public data")
    data.add_argument("out", type=Path, help="folder to make")
    tables = steps.add_parser("tables", help="print the tables")
    tables.add_argument("folder", type=Path, help="folder of the comparison")
    tables.add_argument("--json", action="store_true", help="as JSON")
    summed = steps.add_parser("summary", help="print means and deviations as CSV")
    summed.add_argument("folder", type=Path, help="folder of the comparison")
    args = parser.parse_args()
    if args.step == "data":
        lay_out(args.data, args.out)
    elif args.step == "summary":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        titles = ("data", "loss", "decoding", "metric", "mean", "standard deviation", "seeds")
        writer.writerows([titles, *summary(args.folder)])
    elif args.json:
        made = study_tables(args.folder)
        plain = [
            {
                "title": table.title,
                "columns": table.columns,
                "rows": {name: [cell.text for cell in cells] for name, cells in table.rows},
            }
            for table in made
        ]
        print(json.dumps(plain, indent=1))
    else:
        print("\n".join(to_markdown(table) for table in study_tables(args.folder)))


if __name__ == "__main__":
    main()

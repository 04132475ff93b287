"""What `zlpr train` does by default, against what a user would pick instead, over text sets.

    python bench/default_against_peers.py run DATA OUT --peers FOLDER --seeds 5
    python bench/default_against_peers.py table OUT [--json]
    python bench/default_against_peers.py figure OUT FIGURE.png

DATA holds the folders that `SETS` names, as their publishers give them. A set's rows are drawn anew
for each seed into 8:1:1, whatever split was published, of which at most `--train` are trained on,
an eighth of that validated on and half of it tested on; all arms get the same parts. `--peers`
holds a virtual environment per peer (`napkinxc`, `libmultilabel`, `fasttext`); LinearSVC and
logistic regression need scikit-learn, which is here. Every draw of an arm leaves a record; a run
that is started again goes on where it stopped. Everything has one thread.

`table` compares by the metrics of scikit-learn, from the decisions alone. The default is first on a
set and metric, or within noise of it, if the 95 % interval of its paired differences over the seeds
(Student's t) to the peer with the best mean is not all below 0. It exits with 1 unless that holds
for all three metrics on nine tenths of the sets. The default decides for Micro-F1, and so do the
rows of peers that it is compared with; a run that was told a metric (`--metric`) is compared with
peers whose strength and threshold were chosen for that metric as well.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from study import read_films
from zlpr._atomic import write_text
from zlpr.data import Dataset, load
from zlpr.training import divide

METRICS = {
    "micro_f1": "Micro-F1",
    "example_f1": "Example F1",
    "subset_accuracy": "Subset accuracy",
    "macro_f1": "Macro-F1",
}
TOLD = {"example_f1": "example F1", "subset_accuracy": "subset accuracy"}
JUDGED = ("micro_f1", "example_f1", "subset_accuracy")
SHARES = {"train": 1.0, "validation": 0.125, "test": 0.5}
MOST_SAMPLES = 1_000
DEFAULT = "zlpr"
WITHOUT_REFIT = "zlpr, without the last fit"
SETTINGS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "zlpr, for example F1": {"metric": "example_f1"},
    "zlpr, for subset accuracy": {"metric": "subset_accuracy"},
    WITHOUT_REFIT: {"refit": False},
}
PEERS = ("linearsvc", "logistic", "libmultilabel", "napkinxc", "fasttext")
TITLES = {
    "linearsvc": "LinearSVC",
    "logistic": "logistic regression",
    "libmultilabel": "LibMultiLabel",
    "napkinxc": "napkinXC",
    "fasttext": "fastText",
}
IN_THIS_ENVIRONMENT = ("linearsvc", "logistic")

# By name: the file or folder, and how it is read where that does not follow from it.
SETS: dict[str, tuple[str, dict[str, Any]]] = {
    "goemotions": (
        "goemotions",
        {
            "header": False,
            "quoted": False,
            "text": 0,
            "labels": 1,
            "label_delimiter": ",",
            "id": 2,
        },
    ),
    "arxiv6-title": ("arxiv6/sample.csv.xz", {"text": "TITLE"}),
    "arxiv6-abstract": ("arxiv6/sample.csv.xz", {"text": "ABSTRACT"}),
    "arxiv157": ("arxiv157/titles.jsonl.xz", {}),
    "toxic": ("toxic/sample.csv.xz", {}),
    "uspto": ("uspto", {"text": "application_type_abstract"}),
    "wikimovies": ("wikimovies", {}),
    "duee": ("duee", {}),
    "brighter-chn": ("brighter/chn", {}),
    "brighter-deu": ("brighter/deu", {}),
    "brighter-rus": ("brighter/rus", {}),
    "brighter-esp": ("brighter/esp", {}),
}
WITHOUT_SPACES = ("duee", "brighter-chn")


def read_set(folder: Path, name: str) -> Dataset:
    """All rows of a set."""
    path, options = SETS[name]
    if name != "wikimovies":
        return load(folder / path, **options)
    films = read_films(folder / path)
    return Dataset.from_label_sets(
        [film["labels"] for film in films], texts=[str(film["text"]) for film in films]
    )


def draw(data: Dataset, name: str, seed: int, most_samples: int) -> dict[str, Any]:
    """The parts of one seed, as every arm reads them."""
    divided = divide(data, "random", seed)
    generator = np.random.default_rng(seed)
    parts = {}
    for part, share in SHARES.items():
        rows: Any = getattr(divided, part)
        most = round(share * most_samples)
        if len(rows) > most:
            rows = rows.select(np.sort(generator.choice(len(rows), most, replace=False)))
        labels = np.split(rows.labels.indices, rows.labels.indptr[1:-1])
        parts[part] = {"texts": list(rows.texts), "labels": [row.tolist() for row in labels]}
    analyzer = "char" if name in WITHOUT_SPACES else "word"
    return {"num_labels": data.num_labels, "analyzer": analyzer, "parts": parts}


def lay_out(
    folder: Path, out: Path, names: Sequence[str], seeds: Sequence[int], most_samples: int
) -> None:
    """Write the parts that are not there yet."""
    for name in names:
        missing = [seed for seed in seeds if not parts_file(out, name, seed).exists()]
        data = read_set(folder, name) if missing else None
        for seed in missing:
            assert data is not None
            text = json.dumps(draw(data, name, seed, most_samples), ensure_ascii=False)
            write_text(parts_file(out, name, seed), text)


def parts_file(out: Path, name: str, seed: int) -> Path:
    """Where the parts of one draw are."""
    return out / "parts" / f"{name}-{seed}.json"


@dataclass(frozen=True)
class Cell:
    """One arm on one draw."""

    name: str
    seed: int
    arm: str

    def file(self, out: Path) -> Path:
        """Its record."""
        arm = self.arm.replace(", ", "-").replace(" ", "_")
        return out / "records" / f"{self.name}-{self.seed}-{arm}.json"


def run_cells(cells: Sequence[Cell], out: Path, peers: Path | None) -> str:
    """Run an arm on some draws of a set, in a process of its own, and keep its figures.

    Returns:
        What to print about it.
    """
    name, arm = cells[0].name, cells[0].arm
    parts = [parts_file(out, name, cell.seed) for cell in cells]
    script = Path(__file__).with_name("default_arms.py")
    ours = arm in SETTINGS
    python = sys.executable
    if not ours and arm not in IN_THIS_ENVIRONMENT:
        if peers is None:
            return f"{name} {arm}: left out, no --peers"
        python = str(peers / arm / "bin" / "python")
    with tempfile.TemporaryDirectory() as folder:
        found = [Path(folder) / f"{cell.seed}.npz" for cell in cells]
        command = [python, str(script), "zlpr" if ours else arm, "--parts", *map(str, parts)]
        command += ["--decisions", *map(str, found)]
        if ours:
            command += ["--settings", json.dumps(SETTINGS[arm])]
        one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, **one}
        )
        lines = []
        for cell, part, decisions in zip(cells, parts, found, strict=True):
            if not decisions.exists():
                last = (done.stderr.strip().splitlines() or ["failed"])[-1]
                lines.append(f"{name} {cell.seed} {arm}: FAILED ({last})")
                continue
            record = judge(cell, dict(np.load(decisions)), part)
            write_text(cell.file(out), json.dumps(record, indent=1))
            lines += list(figures_of(record))
    return "\n".join(lines)


def figures_of(record: dict[str, Any]) -> Iterator[str]:
    """A line per row of a record."""
    for row, values in record["figures"].items():
        figures = " ".join(f"{values[metric]:.4f}" for metric in METRICS)
        yield f"{record['set']} {record['seed']} {row}: {figures} ({record['seconds']:.0f} s)"


def judge(cell: Cell, found: dict[str, Any], parts: Path) -> dict[str, Any]:
    """The record of a cell: every row's figures by scikit-learn."""
    import warnings

    from sklearn.metrics import accuracy_score, f1_score

    data = json.loads(parts.read_text(encoding="utf-8"))
    labels = data["parts"]["test"]["labels"]
    truth = np.zeros((len(labels), data["num_labels"]), dtype=bool)
    for row, numbers in enumerate(labels):
        truth[row, numbers] = True
    chosen = json.loads(str(found.pop("chosen")))
    seconds = float(found.pop("seconds"))
    figures = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row, decided in found.items():
            title = cell.arm if row == "decided" else f"{cell.arm}, {row}"
            figures[title] = {
                "micro_f1": f1_score(truth, decided, average="micro", zero_division=0),
                "example_f1": f1_score(truth, decided, average="samples", zero_division=0),
                "subset_accuracy": accuracy_score(truth, decided),
                "macro_f1": f1_score(truth, decided, average="macro", zero_division=0),
            }
    return {
        "set": cell.name,
        "seed": cell.seed,
        "arm": cell.arm,
        "samples": {part: len(rows["texts"]) for part, rows in data["parts"].items()},
        "labels": data["num_labels"],
        "figures": figures,
        "chosen": chosen,
        "seconds": seconds,
    }


def run(args: argparse.Namespace) -> int:
    """Every cell that has no record yet, `--jobs` at a time."""
    names = args.sets or list(SETS)
    seeds = list(range(args.first_seed, args.first_seed + args.seeds))
    lay_out(args.data, args.out, names, seeds, args.train)
    arms = args.arms or [*SETTINGS, *PEERS]
    cells = [Cell(name, seed, arm) for arm in arms for name in names for seed in seeds]
    missing = [cell for cell in cells if not cell.file(args.out).exists()]
    groups = [list(group) for _, group in groupby(missing, lambda cell: (cell.arm, cell.name))]
    with ThreadPoolExecutor(args.jobs) as pool:
        for text in pool.map(lambda group: run_cells(group, args.out, args.peers), groups):
            print(text, flush=True)
    return 0 if all(cell.file(args.out).exists() for cell in cells) else 1


Figures = dict[str, dict[str, dict[str, dict[int, float]]]]


def read_records(out: Path) -> Figures:
    """By set, row and metric: the figures by seed."""
    figures: Figures = {}
    for path in sorted((out / "records").glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        for row, values in record["figures"].items():
            by_metric = figures.setdefault(record["set"], {}).setdefault(row, {})
            for metric, value in values.items():
                by_metric.setdefault(metric, {})[record["seed"]] = value
    return {name: figures[name] for name in SETS if name in figures}


@dataclass(frozen=True)
class Duel:
    """The default against the best peer on one set and metric, in points."""

    ours: float
    theirs: float
    peer: str
    difference: float
    half_width: float

    @property
    def holds(self) -> bool:
        """First, or within noise of first."""
        return self.difference + self.half_width >= 0


def duel(rows: dict[str, dict[str, dict[int, float]]], metric: str, ours: str) -> Duel:
    """Paired over the seeds that both have; 95 % by Student's t."""
    from scipy import stats

    means = {
        row: float(np.mean(list(values[metric].values())))
        for row, values in rows.items()
        if row not in SETTINGS and is_fair(row, metric, ours)
    }
    peer = max(means, key=means.__getitem__)
    mine, best = rows[ours][metric], rows[peer][metric]
    pairs = [100 * (mine[seed] - best[seed]) for seed in sorted(mine.keys() & best.keys())]
    width = float("nan")
    if len(pairs) > 1:
        error = float(np.std(pairs, ddof=1)) / len(pairs) ** 0.5
        width = float(stats.t.ppf(0.975, len(pairs) - 1)) * error
    mean = float(np.mean(list(mine.values())))
    return Duel(100 * mean, 100 * means[peer], peer, float(np.mean(pairs)), width)


def is_fair(row: str, metric: str, ours: str) -> bool:
    """Whether a peer's row was told no more about the metric than our run was."""
    _, told, words = row.partition(" for ")
    return not told or (ours != DEFAULT and words == TOLD.get(metric))


def duels(figures: Figures) -> Iterator[tuple[str, str, str, Duel]]:
    """Of the default on every judged metric, and of the run that decides for the metric."""
    for name, rows in figures.items():
        for metric in JUDGED:
            for arm in dict.fromkeys((DEFAULT, asked_for(metric))):
                if arm in rows:
                    yield name, metric, arm, duel(rows, metric, arm)


def asked_for(metric: str) -> str:
    """The run that was told to be best at a metric; the default already is for Micro-F1."""
    arms = (arm for arm, settings in SETTINGS.items() if settings.get("metric") == metric)
    return next(arms, DEFAULT)


def table(args: argparse.Namespace) -> int:
    """Print the comparison as Markdown or JSON; 0 where the bar is met."""
    figures = read_records(args.out)
    found = list(duels(figures))
    held = {
        name: all(d.holds for at, _, arm, d in found if at == name and arm == DEFAULT)
        for name in figures
    }
    met = 10 * sum(held.values()) >= 9 * len(held)
    if args.json:
        rows = [
            {"set": name, "metric": metric, "arm": arm, **vars(d), "holds": d.holds}
            for name, metric, arm, d in found
        ]
        print(json.dumps({"duels": rows, "held": held, "met": met, "figures": figures}, indent=1))
        return 0 if met else 1
    for line in (*markdown(figures, found), *calibration(args.out)):
        print(line)
    print(f"\nfirst or within noise on all three: {sum(held.values())} of {len(held)} sets")
    return 0 if met else 1


def markdown(figures: Figures, found: Sequence[tuple[str, str, str, Duel]]) -> Iterator[str]:
    """The duels of the default, those of the runs that were asked for a metric, and all means."""
    yield from duel_table(found, lambda arm, metric: arm == DEFAULT)
    yield "\nEach metric asked for with `--metric`\n"
    yield from duel_table(found, lambda arm, metric: arm == asked_for(metric))
    for metric, title in METRICS.items():
        rows = list(dict.fromkeys(row for values in figures.values() for row in values))
        yield f"\n{title}\n"
        yield f"| | {' | '.join(figures)} | mean |"
        yield "|---" + "|--:" * (len(figures) + 1) + "|"
        best = [max(mean_of(values, row, metric) for row in values) for values in figures.values()]
        for row in rows:
            means = [mean_of(values, row, metric) for values in figures.values()]
            cells = [
                f"**{value:.1f}**" if round(value, 1) >= round(top, 1) else f"{value:.1f}"
                for value, top in zip(means, best, strict=True)
            ]
            yield f"| {title_of(row)} | {' | '.join(cells)} | {np.mean(means):.1f} |"


def duel_table(
    found: Sequence[tuple[str, str, str, Duel]], shown: Callable[[str, str], bool]
) -> Iterator[str]:
    """A row per set: our figure, and the lead on the best peer with its 95 % interval."""
    yield f"| set | {' | '.join(METRICS[metric] for metric in JUDGED)} |"
    yield "|---" * (len(JUDGED) + 1) + "|"
    for name in dict.fromkeys(name for name, *_ in found):
        cells = []
        for metric in JUDGED:
            d = next(d for at, of, arm, d in found if (at, of) == (name, metric) and shown(arm, of))
            verdict = "**" if d.difference - d.half_width > 0 else "" if d.holds else "_"
            lead = f"{verdict}{d.difference:+.1f} ± {d.half_width:.1f}{verdict}"
            cells.append(f"{d.ours:.1f}: {lead} ({title_of(d.peer)})")
        yield f"| {name} | {' | '.join(cells)} |"


def title_of(row: str) -> str:
    """A row as people call it."""
    arm, comma, rest = row.partition(", ")
    return f"{TITLES.get(arm, arm)}{comma}{rest}"


def calibration(out: Path) -> Iterator[str]:
    """Calibration errors on the test part, before and after the last fit, in points."""
    kinds = ("calibration_error", "label_calibration_error")
    found: dict[str, dict[tuple[str, int], dict[str, float]]] = {}
    for path in sorted((out / "records").glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["arm"] in (DEFAULT, WITHOUT_REFIT):
            of_set = found.setdefault(record["set"], {})
            of_set[record["arm"], record["seed"]] = record["chosen"]
    yield "\nExpected calibration error, of all cells and as the labels see it\n"
    yield "| set | before the last fit | after it | runs |"
    yield "|---|---|---|---|"
    for name, runs in found.items():
        seeds = [seed for arm, seed in runs if arm == WITHOUT_REFIT and (DEFAULT, seed) in runs]
        means = [
            " and ".join(
                f"{100 * np.mean([runs[arm, seed][kind] for seed in seeds]):.1f}" for kind in kinds
            )
            for arm in (WITHOUT_REFIT, DEFAULT)
        ]
        if seeds:
            yield f"| {name} | {' | '.join(means)} | {len(seeds)} |"


def mean_of(rows: dict[str, dict[str, dict[int, float]]], row: str, metric: str) -> float:
    """A row's mean over the seeds, in points."""
    return 100 * float(np.mean(list(rows[row][metric].values()))) if row in rows else float("nan")


# Okabe and Ito's colours, which stay apart for colour-blind readers.
COLOURS = {
    "linearsvc": "#0072B2",
    "logistic": "#E69F00",
    "libmultilabel": "#009E73",
    "napkinxc": "#CC79A7",
    "fasttext": "#D55E00",
}


def figure(args: argparse.Namespace) -> int:
    """Draw, per set and metric, the default's lead over each peer's better row."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figures = read_records(args.out)
    names = list(figures)
    drawing, axes = plt.subplots(1, len(JUDGED), figsize=(11, 4.6), sharey=True)
    for axis, metric in zip(axes, JUDGED, strict=True):
        for place, (peer, title) in enumerate(TITLES.items()):
            leads = [lead(figures[name], peer, metric) for name in names]
            heights = np.arange(len(names)) + 0.15 * (place - 2)
            means, widths = zip(*leads, strict=True)
            axis.errorbar(
                *(means, heights),
                xerr=np.nan_to_num(widths),
                fmt="o",
                markersize=4,
                linewidth=1,
                color=COLOURS[peer],
                label=title,
            )
        axis.axvline(0.0, color="black", linewidth=1)
        axis.set_title(METRICS[metric], fontsize=11)
        axis.set_xlabel("points that the default is ahead", fontsize=10)
        axis.set_xlim(-6, 16)
        axis.grid(axis="x", color="0.9")
        axis.set_axisbelow(True)
    axes[0].set_yticks(range(len(names)), names, fontsize=10)
    axes[0].invert_yaxis()
    handles, labels = axes[0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="lower center", ncols=len(TITLES), frameon=False)
    drawing.tight_layout(rect=(0, 0.06, 1, 1))
    drawing.savefig(args.figure, dpi=130)
    return 0


def lead(
    rows: dict[str, dict[str, dict[int, float]]], peer: str, metric: str
) -> tuple[float, float]:
    """How far the default is ahead of the better of a peer's rows, and half its interval."""
    found = duel(
        {row: values for row, values in rows.items() if row == DEFAULT or row.startswith(peer)},
        metric,
        DEFAULT,
    )
    return found.difference, found.half_width


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="measure, going on where an earlier run stopped")
    running.add_argument("data", type=Path)
    running.add_argument("out", type=Path)
    running.add_argument("--peers", type=Path, help="a folder with an environment per peer")
    running.add_argument("--sets", nargs="+", choices=SETS)
    running.add_argument("--arms", nargs="+", choices=[*SETTINGS, *PEERS])
    running.add_argument("--train", type=int, default=MOST_SAMPLES, help="most samples to train on")
    running.add_argument("--seeds", type=int, default=5)
    running.add_argument("--first-seed", type=int, default=0)
    running.add_argument("--jobs", type=int, default=2)
    running.set_defaults(act=run)
    showing = commands.add_parser("table", help="the comparison, as Markdown")
    showing.add_argument("out", type=Path)
    showing.add_argument("--json", action="store_true")
    showing.set_defaults(act=table)
    drawing = commands.add_parser("figure", help="the comparison as a picture")
    drawing.add_argument("out", type=Path)
    drawing.add_argument("figure", type=Path)
    drawing.set_defaults(act=figure)
    args = parser.parse_args()
    code: int = args.act(args)
    return code


if __name__ == "__main__":
    raise SystemExit(main())

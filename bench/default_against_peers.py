"""What `zlpr train` does by default, against what a user would pick instead, over text sets.

    python bench/default_against_peers.py run DATA OUT --peers FOLDER --seeds 5
    python bench/default_against_peers.py table OUT [--json]
    python bench/default_against_peers.py figure OUT FIGURE.png

DATA holds the folders that `SETS` names, as their publishers give them. A set's rows are drawn anew
for each seed into 8:1:1, whatever split was published, of which at most 3,000 are trained on, 375
validated on and 2,000 tested on, so that a run of one arm takes seconds; all arms get the same
parts. `--peers` holds a virtual environment per peer (`napkinxc`, `libmultilabel`,
`fasttext`); LinearSVC and logistic regression need scikit-learn, which is here. Every cell is a
process with one thread and leaves one record; a run that is started again goes on where it stopped.

`table` compares by the metrics of scikit-learn, from the decisions alone. The default is first on a
set and metric, or within noise of it, if the 95 % interval of its paired differences over the seeds
(Student's t) to the peer with the best mean is not all below 0. It exits with 1 unless that holds
for all three metrics on nine tenths of the sets.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
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
JUDGED = ("micro_f1", "example_f1", "subset_accuracy")
MOST = {"train": 3_000, "validation": 375, "test": 2_000}
DEFAULT = "zlpr"
SETTINGS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "zlpr, for example F1": {"decode_metric": "example_f1"},
    "zlpr, for subset accuracy": {"decode_metric": "subset_accuracy"},
}
PEERS = ("linearsvc", "logistic", "libmultilabel", "napkinxc", "fasttext")
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


def draw(data: Dataset, name: str, seed: int) -> dict[str, Any]:
    """The parts of one seed, as every arm reads them."""
    divided = divide(data, "random", seed)
    generator = np.random.default_rng(seed)
    parts = {}
    for part, most in MOST.items():
        rows: Any = getattr(divided, part)
        if len(rows) > most:
            rows = rows.select(np.sort(generator.choice(len(rows), most, replace=False)))
        labels = np.split(rows.labels.indices, rows.labels.indptr[1:-1])
        parts[part] = {"texts": list(rows.texts), "labels": [row.tolist() for row in labels]}
    analyzer = "char" if name in WITHOUT_SPACES else "word"
    return {"num_labels": data.num_labels, "analyzer": analyzer, "parts": parts}


def lay_out(folder: Path, out: Path, names: Sequence[str], seeds: Sequence[int]) -> None:
    """Write the parts that are not there yet."""
    for name in names:
        missing = [seed for seed in seeds if not parts_file(out, name, seed).exists()]
        data = read_set(folder, name) if missing else None
        for seed in missing:
            assert data is not None
            text = json.dumps(draw(data, name, seed), ensure_ascii=False)
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


def run_cell(cell: Cell, out: Path, peers: Path | None) -> str:
    """Run an arm in a process of its own and keep its figures; what to print about it."""
    parts = parts_file(out, cell.name, cell.seed)
    script = Path(__file__).with_name("default_arms.py")
    ours = cell.arm in SETTINGS
    python = sys.executable
    if not ours and cell.arm not in IN_THIS_ENVIRONMENT:
        if peers is None:
            return f"{cell}: left out, no --peers"
        python = str(peers / cell.arm / "bin" / "python")
    with tempfile.TemporaryDirectory() as folder:
        decisions = Path(folder) / "decisions.npz"
        command = [python, str(script), "zlpr" if ours else cell.arm, str(parts), str(decisions)]
        if ours:
            command += ["--settings", json.dumps(SETTINGS[cell.arm])]
        one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, **one}
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["failed"])[-1]
            return f"{cell.name} {cell.seed} {cell.arm}: FAILED ({last})"
        record = judge(cell, dict(np.load(decisions)), parts)
    write_text(cell.file(out), json.dumps(record, indent=1))
    rows = {
        row: " ".join(f"{values[metric]:.4f}" for metric in METRICS)
        for row, values in record["figures"].items()
    }
    return "\n".join(
        f"{cell.name} {cell.seed} {row}: {values} ({record['seconds']:.0f} s)"
        for row, values in rows.items()
    )


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
    lay_out(args.data, args.out, names, seeds)
    arms = args.arms or [*SETTINGS, *PEERS]
    cells = [Cell(name, seed, arm) for seed in seeds for name in names for arm in arms]
    missing = [cell for cell in cells if not cell.file(args.out).exists()]
    with ThreadPoolExecutor(args.jobs) as pool:
        for line in pool.map(lambda cell: run_cell(cell, args.out, args.peers), missing):
            print(line, flush=True)
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
        if row not in SETTINGS
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


def duels(figures: Figures) -> Iterator[tuple[str, str, str, Duel]]:
    """Of the default on every judged metric, and of the run that decides for the metric."""
    for name, rows in figures.items():
        for metric in JUDGED:
            asked = next(
                (
                    arm
                    for arm, settings in SETTINGS.items()
                    if settings.get("decode_metric") == metric
                ),
                DEFAULT,
            )
            for arm in dict.fromkeys((DEFAULT, asked)):
                if arm in rows:
                    yield name, metric, arm, duel(rows, metric, arm)


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
    for line in markdown(figures, found):
        print(line)
    print(f"\nfirst or within noise on all three: {sum(held.values())} of {len(held)} sets")
    return 0 if met else 1


def markdown(figures: Figures, found: Sequence[tuple[str, str, str, Duel]]) -> Iterator[str]:
    """The duels, then all rows' means."""
    yield "| set | metric | run | ours | best peer | difference | |"
    yield "|---|---|---|---|---|---|---|"
    for name, metric, arm, d in found:
        verdict = "ahead" if d.difference - d.half_width > 0 else "" if d.holds else "behind"
        yield (
            f"| {name} | {METRICS[metric]} | {arm} | {d.ours:.1f} | {d.theirs:.1f} ({d.peer}) "
            f"| {d.difference:+.1f} ± {d.half_width:.1f} | {verdict} |"
        )
    for metric, title in METRICS.items():
        rows = list(dict.fromkeys(row for values in figures.values() for row in values))
        yield f"\n{title}\n"
        yield f"| | {' | '.join(figures)} | mean |"
        yield "|---" * (len(figures) + 2) + "|"
        for row in rows:
            means = [mean_of(figures[name], row, metric) for name in figures]
            best = [
                max(mean_of(values, other, metric) for other in values)
                for values in figures.values()
            ]
            cells = [
                f"**{value:.1f}**" if round(value, 1) >= round(top, 1) else f"{value:.1f}"
                for value, top in zip(means, best, strict=True)
            ]
            yield f"| {row} | {' | '.join(cells)} | {np.mean(means):.1f} |"


def mean_of(rows: dict[str, dict[str, dict[int, float]]], row: str, metric: str) -> float:
    """A row's mean over the seeds, in points."""
    return 100 * float(np.mean(list(rows[row][metric].values()))) if row in rows else float("nan")


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
    running.add_argument("--seeds", type=int, default=5)
    running.add_argument("--first-seed", type=int, default=0)
    running.add_argument("--jobs", type=int, default=2)
    running.set_defaults(act=run)
    showing = commands.add_parser("table", help="the comparison, as Markdown")
    showing.add_argument("out", type=Path)
    showing.add_argument("--json", action="store_true")
    showing.set_defaults(act=table)
    args = parser.parse_args()
    code: int = args.act(args)
    return code


if __name__ == "__main__":
    raise SystemExit(main())

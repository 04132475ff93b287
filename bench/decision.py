"""What the choice of a decoding rule is worth: the table of docs/decision.md.

    python bench/decision.py DATA --out decision [--seeds 5] [--json]
    python bench/decision.py DATA --out decision --tolerance-study [--json]
    python bench/decision.py --speed [--json]

DATA holds the folders that `SETS` names, as their publishers give them. For each data set and seed
a linear model is trained with ZLPR (8:1:1 at random by the seed); its scores and labels are kept in
`decision/scores`, so that rules can be worked on without training. Every rule is then fitted on
validation for each of four metrics and judged on test, and so is `auto`, the rule that
`zlpr.decoding.choose` takes; `decision/figures` keeps these. A run that was stopped goes on where
it was. Nothing is chosen on test.

The bars: over all sets `auto` is at least 4 points above one threshold in subset accuracy and 1 in
example F1, and not below it in Micro- and Macro-F1; and on no set further below the best single
rule (chosen by hindsight) than chance explains. Chance is judged as `zlpr compare` does: a paired
test over the seeds, corrected for the overlap of their splits and, by Holm's method, for the number
of sets, at 5 %. What the plain paired t-test at 5 % would name, set by set, is printed beside it.

`--tolerance-study` asks in which order rules should be preferred, by how much the preferred may be
behind, and whether rules that read features are worth weighing, without a look at test: on each
validation part a rule is chosen and fitted on one half and judged on the other, both ways.

`--speed` needs no data: it times `label_sets`, once fitted, on made-up scores of 50,000 samples
with 28 labels and of 20,000 with 600. The bars are 2 s and 10 s on two cores, for every metric.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from zlpr import decoding, metrics
from zlpr._atomic import replacing, write_text
from zlpr.compare.statistics import holm, paired_p_value
from zlpr.decoding._folds import TOLERANCE
from zlpr.training.selection import rules_of

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
RULES = decoding.available()
AUTO = rules_of("zlpr")
"""What `zlpr train` chooses among."""
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
        model = training.fit(train, validation, config).model
        arrays = _packed("train_labels", train.labels)
        for part, samples in (("validation", validation), ("test", test)):
            features = model.read(samples.inputs)
            arrays[f"{part}_true"] = samples.labels.toarray().astype(bool)
            arrays[f"{part}_score"] = model.score(features)
            arrays |= _packed(f"{part}_features", features)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as beside, beside.open("wb") as stream:
            np.savez_compressed(stream, **arrays)
    with np.load(path) as kept:
        found = dict(kept)
    for name in ("train_labels", "validation_features", "test_features"):
        if f"{name}_shape" in found:
            cells = tuple(found.pop(f"{name}_{part}") for part in ("data", "indices", "indptr"))
            found[name] = sparse.csr_array(cells, shape=tuple(found.pop(f"{name}_shape")))
    return found


def _packed(name: str, matrix: Any) -> dict[str, Any]:
    """A matrix, dense or sparse, as named arrays."""
    if not sparse.issparse(matrix):
        return {name: np.asarray(matrix, dtype=np.float32)}
    rows = sparse.csr_array(matrix)
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    return {f"{name}_{part}": values for part, values in (*parts.items(), ("shape", rows.shape))}


def judge(scores: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """For each metric the test value of every rule in points, and what validation says of them."""
    found: dict[str, dict[str, Any]] = {"log_loss": probabilities(scores)}
    part = Part.of(scores, "validation")
    for metric in BARS:
        start = time.perf_counter()
        choice = part.weigh(metric)
        found[metric] = {
            "test": part.values_elsewhere(metric, Part.of(scores, "test")),
            "judged": [vars(judged) for judged in choice.judged],
            "seconds": time.perf_counter() - start,
        }
        if picked(found[metric]["judged"]) != choice.rule.name:
            raise AssertionError("the bench and zlpr.decoding.weigh choose differently")
    return found


@dataclass(frozen=True)
class Part:
    """Samples with their scores, labels and features, and the labels trained on."""

    true: Any
    score: Any
    features: Any
    train_labels: Any

    @classmethod
    def of(cls, scores: dict[str, Any], name: str) -> "Part":
        """A part by name."""
        own = (scores[f"{name}_{kind}"] for kind in ("true", "score", "features"))
        return cls(*own, scores["train_labels"])

    def select(self, rows: Any) -> "Part":
        """Some of the samples."""
        return Part(self.true[rows], self.score[rows], self.features[rows], self.train_labels)

    def weigh(self, metric: str) -> decoding.Choice:
        """What `auto` does on this part."""
        labels = self.train_labels
        return decoding.weigh(
            self.true, self.score, metric, rules=AUTO, train_labels=labels, empty=EMPTY
        )

    def values_elsewhere(self, metric: str, other: "Part") -> dict[str, float]:
        """What each rule, fitted here, reaches on another part, in points."""
        values = {}
        for name in RULES:
            rule = decoding.create(name).fit(
                self.true,
                self.score,
                metric,
                train_labels=self.train_labels,
                features=self.features,
                empty=EMPTY,
            )
            predicted = rule(other.score, features=other.features)
            values[name] = 100 * metrics.evaluate(other.true, y_pred=predicted, empty=EMPTY)[metric]
        return values


def picked(
    judged: list[dict[str, Any]], tolerance: float = TOLERANCE, order: tuple[str, ...] = AUTO
) -> str:
    """The rule that is taken at a tolerance: the first in order that is near enough to the best."""
    rows = {row["name"]: row for row in judged}
    near = (name for name in order if name in rows and _is_near(rows[name], tolerance))
    return next(near)


def _is_near(row: dict[str, Any], tolerance: float) -> bool:
    return bool(row["behind"] <= tolerance * row["error"])


TOLERANCES = (0.0, 0.25, 0.5, 1.0, 2.0)


def study(scores: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """What cross-validation on one half of validation says of the rules, and what they reach there.

    For each metric and for both directions; the other half's values in points.
    """
    part = Part.of(scores, "validation")
    order = np.random.default_rng(1).permutation(len(part.true))
    one, other = (part.select(np.sort(half)) for half in np.array_split(order, 2))
    return {
        metric: [
            {
                "judged": [vars(rule) for rule in here.weigh(metric).judged],
                "there": here.values_elsewhere(metric, there),
            }
            for here, there in ((one, other), (other, one))
        ]
        for metric in BARS
    }


def show_study(found: dict[str, list[dict[str, Any]]]) -> None:
    """Means over sets and seeds in Markdown, by order and tolerance and by rule.

    The last column is the distance from the best order and tolerance, with its standard error over
    the sets.
    """
    orders = {"simplest first": tuple(sorted(AUTO, key=RULES.index)), "joint first": AUTO}
    rows = {
        f"{words}, {tolerance:g}": _means(found, lambda j, t=tolerance, o=order: picked(j, t, o))
        for words, order in orders.items()
        for tolerance in TOLERANCES
    }
    best = max(rows, key=lambda row: rows[row].mean())
    rows |= {name: _means(found, lambda _, name=name: name) for name in RULES}
    print("| | " + " | ".join(metrics.info(m).words for m in BARS) + f" | mean | less {best} |")
    print("|---" + "|--:" * (len(BARS) + 2) + "|")
    for row, values in rows.items():
        cells = [*values.mean(axis=0), values.mean()]
        apart = (values - rows[best]).mean(axis=1)
        error = apart.std(ddof=1) / np.sqrt(len(apart))
        shown = " | ".join(f"{cell:.2f}" for cell in cells)
        print(f"| {row} | {shown} | {apart.mean():+.2f} ± {error:.2f} |")


def _means(found: dict[str, list[dict[str, Any]]], pick: Any) -> Any:
    """What is reached by the rule that is picked of those judged, shape (sets, metrics)."""
    return np.array(
        [
            [
                np.mean(
                    [each["there"][pick(each["judged"])] for run in runs for each in run[metric]]
                )
                for metric in BARS
            ]
            for runs in found.values()
        ]
    )


def probabilities(scores: dict[str, Any]) -> dict[str, Any]:
    """Test log loss of a cell: calibrator, marginals of label sets, and what validation takes."""
    truth, given = scores["validation_true"], scores["validation_score"]
    options = {"train_labels": scores["train_labels"]}
    chosen = decoding.choose_probabilities(truth, given, **options)
    maps = {
        "calibrator": decoding.Calibrator().fit(truth, given),
        "marginals": decoding.LabelSets().fit(truth, given, **options).posterior,
        "chosen": chosen.probabilities,
    }
    losses: dict[str, Any] = {"by": chosen.name, "validation": chosen.log_loss}
    for name, chances_of in maps.items():
        chances = np.clip(chances_of(scores["test_score"]).astype(np.float64), 1e-6, 1 - 1e-6)
        cells = np.where(scores["test_true"], chances, 1 - chances)
        losses[name] = float(-np.log(cells).mean())
    return losses


def gather(args: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Figures of every set and seed, made where they are not there yet."""
    kind, make = ("study", study) if args.tolerance_study else ("figures", judge)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in args.sets}
    for seed in range(args.seeds):
        for name in args.sets:
            path = args.out / kind / f"{name}-{seed}.json"
            if not path.exists():
                kept = args.out / "scores" / f"{name}-{seed}.npz"
                figures = make(scores_of(args.data, name, seed, kept))
                path.parent.mkdir(parents=True, exist_ok=True)
                write_text(path, json.dumps(figures, indent=1))
                print(f"{name}, seed {seed}: done", file=sys.stderr, flush=True)
            found[name].append(json.loads(path.read_text(encoding="utf-8")))
    return found


def made_up(samples: int, labels: int, seed: int) -> tuple[Any, Any]:
    """Labels that come by topics, a few a sample and most rare, and scores that see them."""
    generator = np.random.default_rng(seed)
    chance = 1 / np.arange(1, labels + 1) ** 0.9
    chance *= 3 / chance.sum()
    liked = np.random.default_rng(0).random((40, labels)) < 0.03
    topic = generator.integers(40, size=samples)
    true = generator.random((samples, labels)) < np.where(liked[topic], 8, 0.7) * chance
    noise = generator.normal(scale=1.3, size=true.shape)
    return true, (4.0 * true - 5 + 0.3 * np.log(chance) + noise).astype(np.float32)


def speed() -> list[dict[str, Any]]:
    """Seconds to decide, by metric and size."""
    found = []
    for samples, labels, bar in ((50_000, 28, 2.0), (20_000, 600, 10.0)):
        train, _ = made_up(40_000, labels, seed=1)
        true, given = made_up(3_000, labels, seed=2)
        _, scores = made_up(samples, labels, seed=3)
        for metric in (*BARS, "jaccard", "hamming_loss"):
            rule = decoding.LabelSets()
            rule.fit(true, given, metric, train_labels=sparse.csr_array(train))
            rule(scores[:100])
            wall, processor = time.perf_counter(), time.process_time()
            rule(scores)
            found.append(
                {
                    "samples": samples,
                    "labels": labels,
                    "metric": metric,
                    "seconds": time.perf_counter() - wall,
                    "processor_seconds": time.process_time() - processor,
                    "bar": bar,
                }
            )
    return found


def show_speed(rows: list[dict[str, Any]]) -> None:
    """For people."""
    for row in rows:
        print(
            f"{row['samples']:,} x {row['labels']}, {row['metric']}: {row['seconds']:.2f} s "
            f"({row['processor_seconds']:.2f} s of processors; bar {row['bar']:g} s)"
        )


def summarise(found: dict[str, list[dict[str, Any]]], metric: str) -> dict[str, Any]:
    """Means over the seeds, and how `auto` stands to one threshold and to the best rule."""
    columns = (*RULES, "auto")
    sets: dict[str, dict[str, Any]] = {}
    for name, runs in found.items():
        chosen = [picked(run[metric]["judged"]) for run in runs]
        single = [[run[metric]["test"][rule] for rule in RULES] for run in runs]
        auto = [run[metric]["test"][rule] for run, rule in zip(runs, chosen, strict=True)]
        values = np.column_stack([single, auto])
        best = int(values[:, :-1].mean(axis=0).argmax())
        behind = values[:, best] - values[:, -1]
        error = behind.std(ddof=1) / np.sqrt(len(behind)) if len(behind) > 1 else np.inf
        sets[name] = {
            **dict(zip(columns, values.mean(axis=0).tolist(), strict=True)),
            "best": columns[best],
            "behind_best": float(behind.mean()),
            "error": float(error),
            "plain": _chance(values[:, best], values[:, -1], None),
            "corrected": _chance(values[:, best], values[:, -1], TEST_SHARE),
            "chosen": chosen,
        }
    means = {column: float(np.mean([row[column] for row in sets.values()])) for column in columns}
    return {
        "sets": sets,
        "means": means,
        "above_threshold": means["auto"] - means["threshold"],
        "bar": BARS[metric],
        "too_far_behind": _named(sets, holm([row["corrected"] for row in sets.values()])),
        "by_plain_test": _named(sets, [row["plain"] for row in sets.values()]),
    }


TEST_SHARE = 1 / 8


def _chance(best: Any, auto: Any, test_share: float | None) -> float:
    """The chance that runs differ as much without a reason; 1 where `auto` is not behind."""
    if best.mean() <= auto.mean():
        return 1.0
    found = paired_p_value(dict(enumerate(best)), dict(enumerate(auto)), test_share)
    return 0.0 if found is None else found


def _named(sets: dict[str, Any], chances: list[float]) -> list[str]:
    return [name for name, chance in zip(sets, chances, strict=True) if chance < 0.05]


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
        f"{', '.join(summary['too_far_behind']) or 'no set'} (by the plain test: "
        f"{', '.join(summary['by_plain_test']) or 'no set'})."
    )


def draw(summaries: dict[str, dict[str, Any]], path: Path) -> None:
    """A panel per metric: what `auto` and the best rule by hindsight gain on one threshold."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 3.6), layout="constrained")
    axes = figure.subplots(1, len(summaries), sharey=True)
    for axis, (metric, summary) in zip(axes, summaries.items(), strict=True):
        names = list(summary["sets"])[::-1]
        rows = [summary["sets"][name] for name in names]
        gains = [row["auto"] - row["threshold"] for row in rows]
        best = [row[row["best"]] - row["threshold"] for row in rows]
        axis.axvline(0, color="#9b9a97", linestyle=":")
        axis.scatter(best, names, s=60, facecolors="none", edgecolors="#d9730d", label="best rule")
        axis.scatter(gains, names, s=20, color="#0b6e99", label="auto")
        axis.set_title(metrics.info(metric).words, fontsize=10)
        axis.set_xlabel("points above one threshold")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False)
    with replacing(path) as beside:
        figure.savefig(beside, format=path.suffix.lstrip("."), dpi=150)


def show_probabilities(
    found: dict[str, list[dict[str, Any]]], losses: dict[str, dict[str, float]]
) -> None:
    """Log losses in Markdown, and how often validation took the marginals."""
    print("\n### probabilities\n")
    print("| data | calibrator | marginals of label sets | chosen | marginals chosen |")
    print("|---|--:|--:|--:|--:|")
    for name, runs in found.items():
        cells = " | ".join(f"{each[name]:.4f}" for each in losses.values())
        taken = sum(run["log_loss"]["by"] == "label_sets" for run in runs)
        print(f"| {name} | {cells} | {taken} of {len(runs)} |")


def main() -> int:
    """Measure, print, and fail where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path, nargs="?", help="folder of the public data")
    parser.add_argument("--out", type=Path, help="where scores and figures are kept")
    parser.add_argument("--speed", action="store_true", help="time label_sets and nothing else")
    parser.add_argument(
        "--tolerance-study", action="store_true", help="choose and judge on halves of validation"
    )
    parser.add_argument("--figure", type=Path, help="draw what is gained on one threshold")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.speed:
        rows = speed()
        print(json.dumps(rows, indent=1)) if args.json else show_speed(rows)
        return 0 if all(row["seconds"] <= row["bar"] for row in rows) else 1
    if args.data is None or args.out is None:
        parser.error("give DATA and --out, or --speed")
    found = gather(args)
    if args.tolerance_study:
        print(json.dumps(found, indent=1)) if args.json else show_study(found)
        return 0
    summaries = {metric: summarise(found, metric) for metric in BARS}
    losses = {
        kind: {
            name: float(np.mean([r["log_loss"][kind] for r in runs]))
            for name, runs in found.items()
        }
        for kind in ("calibrator", "marginals", "chosen")
    }
    if args.figure:
        draw(summaries, args.figure)
    if args.json:
        print(json.dumps({**summaries, "log_loss": losses}, indent=1))
    else:
        for metric, summary in summaries.items():
            show(metric, summary)
        show_probabilities(found, losses)
    met = all(
        summary["above_threshold"] >= summary["bar"] and not summary["too_far_behind"]
        for summary in summaries.values()
    )
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())

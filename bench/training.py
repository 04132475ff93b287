"""Training and prediction speed of the linear model, beside what a user would pick instead.

    python bench/training.py linear --data goemotions --peer fasttext=ENV/bin/python …
    python bench/training.py scale --data titles.jsonl.xz
    python bench/training.py convergence --data mulan/medical
    python bench/training.py transformer --data goemotions

`linear`: `--data` is a folder with the published simplified split of GoEmotions. One fit at a fixed
regularisation, features included, of zlpr and of each peer, one after the other in one run, the
best of `--repeat`; then each one's test Micro-F1 at the threshold that is best on validation; then
what choosing the regularisation costs, and how many texts a second the fitted model predicts.
`--peer NAME=PYTHON` gives a peer's own environment; a peer without one, or whose package is
missing, is left out with a word. Bars: no slower than any peer, Micro-F1 at least theirs, choosing
within three fits, 20,000 texts a second.

`scale`: one file of texts; trains with the defaults and reports time and peak memory. Bars: 10
minutes, 6 GB.

`convergence`: whether each loss is trained to its end. One fit at a fixed share of the balanced
regularisation, then a second one from there with a tenth of the tolerance: what it still gains, as
a share of all gain, and by how much it moves validation's average precision and Micro-F1; and, for
the losses that are not smooth sums over samples, the same figures of 15 epochs of Adam. Bars: 1 %
of the gain, half a point of either metric. GoEmotions' published split needs `--simplified`.

`transformer`: see `bench/training_transformer.py`, which takes the same arguments.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import training_peers
import training_transformer
from zlpr.cli._console import print_table
from zlpr.data import Dataset, load, make_split
from zlpr.decoding import Threshold
from zlpr.losses import available, registry
from zlpr.metrics import evaluate
from zlpr.training import LinearConfig, fit
from zlpr.training.linear_features import extract_features
from zlpr.training.objective import LinearObjective
from zlpr.training.regularisation import train_linear
from zlpr.training.solvers import Batches, WholeData

REGULARISATION = 0.3
SHARE_OF_BALANCE = 0.1
# The published simplified split of GoEmotions: text, label numbers, id, without a header.
SIMPLIFIED = {
    "header": False,
    "quoted": False,
    "text": 0,
    "labels": 1,
    "label_delimiter": ",",
    "id": 2,
}
OURS = "zlpr"


@dataclass(frozen=True)
class Arm:
    """One way to train, its time and its quality."""

    name: str
    seconds: float
    micro_f1: float
    subset_accuracy: float


def judge(name: str, seconds: list[float], scores: dict[str, Any], data: dict[str, Dataset]) -> Arm:
    """The best time, and the test figures at the threshold that is best on validation."""
    rule = Threshold().fit(data["validation"].labels, scores["validation"], metric="micro_f1")
    figures = evaluate(data["test"].labels, scores["test"], rule(scores["test"]))
    return Arm(name, min(seconds), figures["micro_f1"], figures["subset_accuracy"])


def timed(work: Callable[[], Any], repeat: int) -> tuple[list[float], Any]:
    """Times of several runs, and what the last one gave."""
    seconds, result = [], None
    for _ in range(repeat):
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
    return seconds, result


def fit_once(data: dict[str, Dataset], config: LinearConfig) -> Any:
    """Features of the training texts and one fit, as the peers do it."""
    nothing = data["validation"].select([0])
    features = extract_features(data["train"], nothing, config.features)
    return train_linear(data["train"], nothing, config, features, run={}).model


def run_peer(name: str, python: str, source: Path, repeat: int) -> tuple[list[float], Any] | str:
    """A peer's times and scores, or why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        scores = Path(folder) / "scores.npz"
        script = Path(training_peers.__file__)
        command = [python, str(script), name, str(source), str(scores), "--repeat", str(repeat)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as trouble:
            return str(trouble)
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["failed"])[-1]
        found = np.load(scores)
        return found["seconds"].tolist(), {part: found[part] for part in ("validation", "test")}


def linear(args: argparse.Namespace) -> dict[str, Any]:
    """The linear model beside its peers."""
    whole = load(args.data, **SIMPLIFIED)
    data = {part: whole.part(part) for part in ("train", "validation", "test")}
    config = LinearConfig(regularisation=args.regularisation)
    fit_once({**data, "train": data["train"].select(range(500))}, config)  # imports, first use
    seconds, model = timed(lambda: fit_once(data, config), args.repeat)
    scores = {part: model.predict_scores(data[part].texts) for part in ("validation", "test")}
    arms = [judge(OURS, seconds, scores, data)]
    peers = dict(entry.split("=", 1) for entry in args.peer)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "data.json"
        source.write_text(json.dumps(as_json(data)), encoding="utf-8")
        for name in training_peers.PEERS:
            found = (
                run_peer(name, peers[name], source, args.repeat) if name in peers else "no --peer"
            )
            if isinstance(found, str):
                print(f"{name}: left out ({found})", file=sys.stderr)
            else:
                arms.append(judge(name, *found, data))
    return {
        "arms": [asdict(arm) for arm in arms],
        "choosing": choosing(data, args),
        "texts_per_second": prediction(model, data["test"].texts, args.repeat),
    }


def as_json(data: dict[str, Dataset]) -> dict[str, Any]:
    """The data for a process that knows nothing of zlpr."""
    parts = {
        name: {"texts": list(part.texts or []), "labels": [r.tolist() for r in label_rows(part)]}
        for name, part in data.items()
    }
    return {**parts, "num_labels": data["train"].num_labels}


def label_rows(data: Dataset) -> list[np.ndarray]:
    """The label numbers of each sample."""
    return np.split(data.labels.indices, data.labels.indptr[1:-1])


def choosing(data: dict[str, Dataset], args: argparse.Namespace) -> dict[str, float]:
    """Time to choose the regularisation and to fit once at the chosen one, features at hand."""
    features = extract_features(data["train"], data["validation"])

    def run(regularisation: float | None) -> Any:
        config = LinearConfig(regularisation=regularisation)
        return train_linear(data["train"], data["validation"], config, features, run={})

    path, chosen = timed(lambda: run(None), args.repeat)
    single, _ = timed(lambda: run(chosen.chosen["regularisation"]), args.repeat)
    return {
        "regularisation": chosen.chosen["regularisation"],
        "values": len(chosen.history),
        "path_seconds": min(path),
        "single_seconds": min(single),
        "fits": min(path) / min(single),
    }


def prediction(model: Any, texts: Any, repeat: int) -> float:
    """Short texts a second, from text to scores, over as many texts as make a fair sample."""
    many = list(texts) * -(-20_000 // len(texts))
    seconds, _ = timed(lambda: model.predict_scores(many), repeat)
    return len(many) / min(seconds)


def scale(args: argparse.Namespace) -> dict[str, Any]:
    """Train on one large file with the defaults."""
    start = time.perf_counter()
    data = make_split(load(args.data))
    parts = {part: data.part(part) for part in ("train", "validation", "test")}
    read = time.perf_counter()
    config = LinearConfig(regularisation=args.regularisation)
    result = fit(parts["train"], parts["validation"], config)
    trained = time.perf_counter()
    scores = result.model.predict_scores(parts["test"].texts)
    figures = evaluate(parts["test"].labels, scores, result.model.decoder(scores))
    return {
        "samples": len(data),
        "labels": data.num_labels,
        "features": result.num_features,
        "reading_seconds": read - start,
        "training_seconds": trained - read,
        "seconds": time.perf_counter() - start,
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "chosen": dict(result.chosen),
        "micro_f1": figures["micro_f1"],
        "subset_accuracy": figures["subset_accuracy"],
        "average_precision": figures["average_precision"],
    }


@dataclass(frozen=True)
class Convergence:
    """How a loss's training ended; `more` is after the stricter fit, `adam` after 15 epochs."""

    loss: str
    steps: int
    seconds: float
    last_tenth: float
    left: float
    average_precision: float
    more_average_precision: float
    micro_f1: float
    more_micro_f1: float
    adam_seconds: float | None = None
    adam_left: float | None = None
    adam_average_precision: float | None = None


def convergence(args: argparse.Namespace) -> dict[str, Any]:
    """Every loss at one regularisation, with and without going on."""
    whole = load(args.data, **(SIMPLIFIED if args.simplified else {}))
    whole = whole if args.simplified else make_split(whole)
    train, validation = whole.part("train"), whole.part("validation")
    features = extract_features(train, validation)
    ends = []
    for loss in args.losses or available():
        ends.append(end_of_training(loss, features, train.labels, validation.labels))
        print(ends[-1], file=sys.stderr)
    return {"losses": [asdict(end) for end in ends]}


def of_features(objective: LinearObjective, features: Any, labels: Any) -> LinearObjective:
    """The same objective, of weights of the features where it is in a basis of the samples."""
    if objective.num_features == features.shape[1]:
        return objective
    loss: Any = objective.loss
    loss = loss.loss if objective.over_batch else loss
    return LinearObjective(features, labels, loss, over_batch=objective.over_batch)


def end_of_training(loss: str, features: Any, labels: Any, truth: Any) -> Convergence:
    """One loss, to its usual end and on from there."""
    solver = WholeData(features.train, labels, LinearConfig(loss=loss))
    objective, samples = solver.objective, solver.objective.num_samples
    regularisation = SHARE_OF_BALANCE * solver.balance()

    def judge(parameters: Any) -> tuple[float, float]:
        weight, bias = solver.model(parameters)
        scores = np.asarray(features.validation @ weight + bias, dtype=np.float32)
        rule = Threshold().fit(truth, scores, metric="micro_f1")
        figures = evaluate(truth, scores, rule(scores))
        return figures["average_precision"], figures["micro_f1"]

    start = time.perf_counter()
    usual = solver.solve(solver.start(), regularisation)
    seconds = time.perf_counter() - start
    solver.tolerance /= 10
    more = solver.solve(usual.parameters, regularisation)
    gain = objective.reference / samples - more.loss
    (precision, f1), (more_precision, more_f1) = judge(usual.parameters), judge(more.parameters)
    adam: list[float] = []
    if registry.info(loss).over_batch or not registry.info(loss).smooth:
        batches = Batches(features.train, labels, LinearConfig(loss=loss, epochs=15))
        start = time.perf_counter()
        theirs = batches.solve(batches.start(), regularisation).parameters
        adam = [time.perf_counter() - start]
        value, _ = of_features(objective, features.train, labels)(theirs, regularisation)
        adam += [(value / samples - more.loss) / gain, judge(theirs)[0]]
    return Convergence(
        loss,
        usual.steps,
        seconds,
        usual.last_tenth,
        (usual.loss - more.loss) / gain,
        precision,
        more_precision,
        f1,
        more_f1,
        *adam,
    )


def show_convergence(result: dict[str, Any]) -> bool:
    """The table, and whether the bars are met."""
    ends = [Convergence(**end) for end in result["losses"]]

    def shown(value: float | None, form: str) -> str:
        return "" if value is None else format(value, form)

    rows = [
        [
            end.loss,
            str(end.steps),
            f"{end.seconds:.2f}",
            f"{end.last_tenth:.2%}",
            f"{end.left:.2%}",
            f"{100 * end.average_precision:.1f}",
            f"{100 * (end.more_average_precision - end.average_precision):+.1f}",
            f"{100 * end.micro_f1:.1f}",
            f"{100 * (end.more_micro_f1 - end.micro_f1):+.1f}",
            shown(end.adam_seconds, ".2f"),
            shown(end.adam_left, ".1%"),
            shown(end.adam_average_precision and 100 * end.adam_average_precision, ".1f"),
        ]
        for end in ends
    ]
    head = "loss,steps,seconds,last tenth,left,AP,moves,Micro-F1,moves,Adam: s,left,AP"
    print_table(head.split(","), rows)
    bars = {}
    for end in ends:
        bars[f"{end.loss}: within 1 % of the gain"] = end.left <= 0.01
        moved = max(
            abs(end.more_average_precision - end.average_precision),
            abs(end.more_micro_f1 - end.micro_f1),
        )
        bars[f"{end.loss}: metrics within half a point"] = moved <= 0.005
    return show_bars({name: met for name, met in bars.items() if not met} or {"all bars": True})


def show_linear(result: dict[str, Any]) -> bool:
    """The table, and whether the bars are met."""
    ours, *peers = result["arms"]
    rows = [
        [
            arm["name"],
            f"{arm['seconds']:.2f}",
            f"{arm['seconds'] / ours['seconds']:.2f}",
            f"{arm['micro_f1']:.4f}",
            f"{arm['subset_accuracy']:.4f}",
        ]
        for arm in result["arms"]
    ]
    print_table(["arm", "seconds", "times ours", "test Micro-F1", "subset accuracy"], rows)
    choice = result["choosing"]
    print(
        f"choosing among {choice['values']} regularisations: {choice['path_seconds']:.2f} s, "
        f"{choice['fits']:.2f} times one fit at the chosen {choice['regularisation']:.3g}"
    )
    print(f"prediction: {result['texts_per_second']:,.0f} texts a second")
    bars = {}
    for peer in peers:
        bars[f"no slower than {peer['name']}"] = ours["seconds"] <= peer["seconds"]
        bars[f"Micro-F1 at least {peer['name']}'s"] = ours["micro_f1"] >= peer["micro_f1"]
    bars["choosing costs at most three fits"] = choice["fits"] <= 3
    bars["20,000 texts a second"] = result["texts_per_second"] >= 20_000
    return show_bars(bars)


def show_scale(result: dict[str, Any]) -> bool:
    """The figures, and whether the bars are met."""
    for name, value in result.items():
        print(f"{name}: {value:,.3f}" if isinstance(value, float) else f"{name}: {value}")
    bars = {
        "within 10 minutes": result["seconds"] <= 600,
        "within 6 GB": result["peak_gigabytes"] <= 6,
    }
    return show_bars(bars)


def show_bars(bars: dict[str, bool]) -> bool:
    """Each bar and whether it is met; whether all are."""
    for name, met in bars.items():
        print(f"{'met' if met else 'MISSED'}: {name}")
    return all(bars.values())


def main() -> int:
    """Run one of the benchmarks; say by the exit code whether every bar is met."""
    if sys.argv[1:2] == ["transformer"]:
        sys.argv.pop(1)
        training_transformer.main()
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = parser.add_subparsers(
        required=True, metavar="linear | scale | convergence | transformer"
    )
    for name, work, show, default in (
        ("linear", linear, show_linear, REGULARISATION),
        ("scale", scale, show_scale, None),
        ("convergence", convergence, show_convergence, None),
    ):
        kind = kinds.add_parser(name)
        kind.add_argument("--data", required=True)
        kind.add_argument("--regularisation", type=float, default=default)
        kind.add_argument("--repeat", type=int, default=3)
        kind.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON")
        if name == "convergence":
            kind.add_argument("--simplified", action="store_true", help="GoEmotions' split")
            kind.add_argument("--losses", nargs="+", choices=available())
        kind.add_argument("--json", metavar="FILE", help="write the figures here as well")
        kind.set_defaults(work=work, show=show)
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count()))
    result = args.work(args)
    if args.json:
        Path(args.json).write_text(json.dumps(result, indent=2), encoding="utf-8")
    return 0 if args.show(result) else 1


if __name__ == "__main__":
    sys.exit(main())

"""A frozen encoder with few samples a label, against setfit and the linear model.

    python bench/few_samples.py run DATA OUT --set brighter-chn --encoder FOLDER
        [--samples 8 16 32 64] [--seeds 3] [--setfit PYTHON] [--setfit-steps 100]
    python bench/few_samples.py table OUT

DATA holds the folders that `SETS` of `default_against_peers.py` names. For each number and seed so
many samples of each label are drawn, a sample counting for all of its labels, and as many samples
without labels as of one label where the data has such; 1,000 others are tested on. All arms get the
same samples:

    linear      `zlpr train` by default
    embed       `zlpr train --model embed:FOLDER`, by default
    fine-tuned  `zlpr train --model hf:FOLDER`, by default (if `--arms` names it)
    setfit      setfit with a one-vs-rest logistic head, its defaults but for `--setfit-steps` of
                contrastive training, in the environment of `--setfit`; decided at 0.5 as it does,
                and by the one threshold that is best on the test part: what no choice can beat

zlpr's arms hold out a part of the samples to choose on, as `zlpr train FEW --test TEST` does;
setfit has nothing to choose and trains on all of them. Judged by scikit-learn. Every cell leaves
one record; a run that is started again goes on where it stopped.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

METRICS = {"micro_f1": "Micro-F1", "macro_f1": "Macro-F1", "subset_accuracy": "Subset accuracy"}
MOST_TESTED = 1_000
SETFIT, BEST = "setfit", "setfit, best threshold"
MODELS = {"linear": "linear", "embed": "embed:{}", "fine-tuned": "hf:{}"}


def draw(data: Any, count: int, seed: int) -> tuple[Any, Any]:
    """Samples to train on and to test on."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(data))
    labels = data.labels[order].toarray()
    wanted = np.full(labels.shape[1] + 1, count)
    with_none = np.concatenate([labels, ~labels.any(axis=1, keepdims=True)], axis=1)
    taken = np.zeros(len(data), dtype=bool)
    for row in np.argsort(with_none.sum(axis=1), kind="stable"):
        if (wanted[with_none[row]] > 0).any():
            taken[row] = True
            wanted[with_none[row]] -= 1
    rest = order[~taken]
    return data.select(np.sort(order[taken])), data.select(np.sort(rest[:MOST_TESTED]))


def run_zlpr(few: Any, test: Any, settings: dict[str, Any], seed: int) -> Any:
    """As `zlpr train FEW --test TEST`."""
    from zlpr.training import TrainingConfig
    from zlpr.training.fitting import fit_parts
    from zlpr.training.parts import combine

    result = fit_parts(combine(few, None, test, seed), TrainingConfig(seed=seed, **settings))
    assert result.test is not None
    return result.test.decided(result.model.decoder)


def run_setfit(few: Any, test: Any, python: str, encoder: str, steps: int, seed: int) -> Any:
    """Probabilities by this script in setfit's own environment."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given.json", Path(folder) / "found.npy"
        content = {
            "train": list(few.texts),
            "labels": few.labels.toarray().astype(int).tolist(),
            "test": list(test.texts),
            "encoder": encoder,
            "steps": steps,
            "seed": seed,
        }
        given.write_text(json.dumps(content), encoding="utf-8")
        command = [python, str(Path(__file__).resolve()), "setfit", str(given), str(found)]
        subprocess.run(command, check=True, capture_output=True, cwd=folder)
        return np.load(found)


def setfit_arm(args: argparse.Namespace) -> int:
    """Train setfit and write its probabilities; runs in its environment, without zlpr."""
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    given = json.loads(args.given.read_text(encoding="utf-8"))
    model = SetFitModel.from_pretrained(given["encoder"], multi_target_strategy="one-vs-rest")
    arguments = TrainingArguments(
        max_steps=given["steps"],
        batch_size=16,
        num_epochs=1,
        seed=given["seed"],
        save_strategy="no",
        report_to="none",
        output_dir="checkpoints",
    )
    data = Dataset.from_dict({"text": given["train"], "label": given["labels"]})
    Trainer(model=model, args=arguments, train_dataset=data).train()
    np.save(args.found, np.asarray(model.predict_proba(given["test"]), dtype=np.float64))
    return 0


def best_threshold(truth: np.ndarray, probabilities: np.ndarray) -> float:
    """The lowest probability of a label that is predicted where Micro-F1 is best."""
    order = np.argsort(-probabilities, axis=None)
    hits = np.cumsum(truth.ravel()[order])
    f1 = 2 * hits / (np.arange(1, len(hits) + 1) + truth.sum())
    return float(probabilities.ravel()[order[np.argmax(f1)]])


def judge(truth: np.ndarray, decided: np.ndarray) -> dict[str, float]:
    """Figures by scikit-learn."""
    from sklearn.metrics import accuracy_score, f1_score

    return {
        "micro_f1": f1_score(truth, decided, average="micro", zero_division=0),
        "example_f1": f1_score(truth, decided, average="samples", zero_division=0),
        "macro_f1": f1_score(truth, decided, average="macro", zero_division=0),
        "subset_accuracy": accuracy_score(truth, decided),
    }


def processor_seconds() -> float:
    """Of this process and of those that it has started and that have ended."""
    of = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in of)


def run(args: argparse.Namespace) -> int:
    """Every cell that has no record yet."""
    from default_against_peers import read_set
    from zlpr._atomic import write_text

    data = read_set(args.data, args.set)
    arms = [*args.arms, *([SETFIT] if args.setfit else [])]
    for count in args.samples:
        for seed in range(args.seeds):
            few, test = draw(data, count, seed)
            for arm in arms:
                path = args.out / f"{args.set}-{count}-{seed}-{arm}.json"
                if path.exists():
                    continue
                start = processor_seconds()
                if arm == SETFIT:
                    given = (args.setfit, args.encoder, args.setfit_steps, seed)
                    chances, truth = run_setfit(few, test, *given), test.labels.toarray()
                    best = best_threshold(truth, chances)
                    found = {BEST: chances >= best, SETFIT: chances >= 0.5}
                else:
                    model = MODELS[arm].format(args.encoder)
                    found = {arm: run_zlpr(few, test, {"model": model}, seed)}
                seconds = processor_seconds() - start
                for name, decided in found.items():
                    record = {
                        "set": args.set,
                        "count": count,
                        "seed": seed,
                        "arm": name,
                        "samples": len(few),
                        "seconds": seconds,
                        **({"steps": args.setfit_steps} if arm == SETFIT else {}),
                        **judge(test.labels.toarray(), decided),
                    }
                    path = args.out / f"{args.set}-{count}-{seed}-{name}.json"
                    write_text(path, json.dumps(record))
                    print(json.dumps(record), flush=True)
    return 0


def table(args: argparse.Namespace) -> int:
    """Means over the seeds, as Markdown."""
    records = [json.loads(path.read_text()) for path in sorted(args.out.glob("*.json"))]
    for name in sorted({record["set"] for record in records}):
        of_set = [record for record in records if record["set"] == name]
        counts = sorted({record["count"] for record in of_set})
        print(f"\n{name}: {' / '.join(METRICS.values())}\n")
        print(f"| samples a label | {' | '.join(map(str, counts))} |")
        print("|---" * (len(counts) + 1) + "|")
        for arm in sorted({record["arm"] for record in of_set}):
            cells = []
            for count in counts:
                found = [r for r in of_set if (r["arm"], r["count"]) == (arm, count)]
                means = [100 * np.mean([r[metric] for r in found]) for metric in METRICS]
                shown = " / ".join(f"{mean:.1f}" for mean in means)
                cells.append(f"{shown} ({len(found)})" if found else "")
            print(f"| {arm} | {' | '.join(cells)} |")
    return 0


def main() -> int:
    """Run, print, or be setfit."""
    parser = argparse.ArgumentParser(description=__doc__)
    actions = parser.add_subparsers(required=True)
    cells = actions.add_parser("run")
    cells.add_argument("data", type=Path)
    cells.add_argument("out", type=Path)
    cells.add_argument("--set", required=True)
    cells.add_argument("--encoder", required=True)
    cells.add_argument("--samples", type=int, nargs="+", default=[8, 16, 32, 64])
    cells.add_argument("--seeds", type=int, default=3)
    cells.add_argument("--arms", nargs="*", default=["linear", "embed"])
    cells.add_argument("--setfit", help="a Python that has setfit")
    cells.add_argument("--setfit-steps", type=int, default=100)
    cells.set_defaults(action=run)
    shown = actions.add_parser("table")
    shown.add_argument("out", type=Path)
    shown.set_defaults(action=table)
    other = actions.add_parser("setfit")
    other.add_argument("given", type=Path)
    other.add_argument("found", type=Path)
    other.set_defaults(action=setfit_arm)
    args = parser.parse_args()
    code: int = args.action(args)
    return code


if __name__ == "__main__":
    sys.exit(main())

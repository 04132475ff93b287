"""A frozen encoder beside n-grams, against the linear default, over English and Chinese text sets.

    python bench/embed_against_default.py run DATA OUT --english FOLDER --chinese FOLDER
        [--sets …] [--seeds 5] [--train 3000] [--arms default embed fine-tuned]
    python bench/embed_against_default.py table OUT [--arms default embed]

DATA holds the folders that `SETS` of `default_against_peers.py` names. A set's rows are drawn anew
for each seed into 8:1:1, of which at most `--train` are trained on, an eighth of that validated on
and two thirds of it tested on. All arms get the same parts: `zlpr train` by default, with
`--model embed:FOLDER`, and with `--model hf:FOLDER`, which fine-tunes the same encoder. Judged by
scikit-learn. Every cell leaves one record; a run that is started again goes on where it stopped,
and embeddings are in the cache of `zlpr cache`.

`table` compares two of them, and exits with 1 unless the second's mean Micro-F1 is ahead on every
set.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from few_samples import judge

CHINESE = ("duee", "brighter-chn")
ENGLISH = (
    "goemotions",
    "arxiv6-title",
    "arxiv6-abstract",
    "arxiv157",
    "toxic",
    "uspto",
    "wikimovies",
)
SHARES = {"train": 1.0, "validation": 1 / 8, "test": 2 / 3}
METRICS = {
    "micro_f1": "Micro-F1",
    "example_f1": "Example F1",
    "subset_accuracy": "Subset accuracy",
    "macro_f1": "Macro-F1",
}
ARMS = {"default": "linear", "embed": "embed:{}", "fine-tuned": "hf:{}"}


def draw(data: Any, seed: int, most: int) -> list[Any]:
    """Training, validation and test part of one seed."""
    from zlpr.training import divide

    divided = divide(data, "random", seed)
    generator = np.random.default_rng(seed)
    parts = []
    for name, share in SHARES.items():
        rows: Any = getattr(divided, name)
        count = round(share * most)
        if len(rows) > count:
            rows = rows.select(np.sort(generator.choice(len(rows), count, replace=False)))
        parts.append(rows)
    return parts


def run_cell(parts: list[Any], model: str) -> dict[str, Any]:
    """Train, and judge on the test part."""
    from zlpr.training import TrainingConfig, fit

    train, validation, test = parts
    start = time.process_time()
    result = fit(train, validation, TrainingConfig(model=model), test=test)
    assert result.test is not None
    decided = result.test.decided(result.model.decoder)
    return {
        **judge(test.labels.toarray(), decided),
        "chosen": dict(result.chosen),
        "samples": [len(part) for part in parts],
        "seconds": time.process_time() - start,
    }


def run(args: argparse.Namespace) -> int:
    """Every cell that has no record yet."""
    from default_against_peers import read_set
    from zlpr._atomic import write_text

    for name in args.sets:
        encoder = args.chinese if name in CHINESE else args.english
        models = {arm: ARMS[arm].format(encoder) for arm in args.arms}
        data = read_set(args.data, name)
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            parts = None
            for arm, model in models.items():
                path = args.out / f"{name}-{seed}-{arm}.json"
                if path.exists():
                    continue
                parts = parts or draw(data, seed, args.train)
                record = {"set": name, "seed": seed, "arm": arm, **run_cell(parts, model)}
                write_text(path, json.dumps(record))
                print(json.dumps(record), flush=True)
    return 0


def rows_of(
    records: list[dict[str, Any]], arms: list[str]
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Per set: how many seeds both arms have, and by metric both means and the spread."""
    first, second = arms
    for name in (*ENGLISH, *CHINESE):
        by_arm = {
            arm: {r["seed"]: r for r in records if (r["set"], r["arm"]) == (name, arm)}
            for arm in arms
        }
        seeds = sorted(by_arm[first].keys() & by_arm[second].keys())
        if not seeds:
            continue
        figures = {}
        for metric in METRICS:
            pairs = [[100 * by_arm[arm][seed][metric] for arm in arms] for seed in seeds]
            values = np.array(pairs)
            spread = float(np.std(values[:, 1] - values[:, 0], ddof=1)) if len(seeds) > 1 else None
            figures[metric] = (*values.mean(axis=0).tolist(), spread)
        yield name, len(seeds), figures


def table(args: argparse.Namespace) -> int:
    """Means over the seeds of two arms, as Markdown, and the deviation of their difference."""
    records = [json.loads(path.read_text()) for path in sorted(args.out.glob("*.json"))]
    print(f"| set (draws) | {' | '.join(METRICS.values())} |")
    print("|---" * (len(METRICS) + 1) + "|")
    ahead = True
    for name, seeds, figures in rows_of(records, args.arms):
        cells = []
        for before, after, spread in figures.values():
            told = "" if spread is None else f" ± {spread:.1f}"
            cells.append(f"{before:.1f} → {after:.1f} ({after - before:+.1f}{told})")
        print(f"| {name} ({seeds}) | {' | '.join(cells)} |")
        ahead = ahead and figures["micro_f1"][1] > figures["micro_f1"][0]
    return 0 if ahead else 1


def main() -> int:
    """Run or print."""
    parser = argparse.ArgumentParser(description=__doc__)
    actions = parser.add_subparsers(required=True)
    cells = actions.add_parser("run")
    cells.add_argument("data", type=Path)
    cells.add_argument("out", type=Path)
    cells.add_argument("--english", required=True)
    cells.add_argument("--chinese", required=True)
    cells.add_argument("--sets", nargs="+", default=[*ENGLISH, *CHINESE])
    cells.add_argument("--seeds", type=int, default=5)
    cells.add_argument("--first-seed", type=int, default=0)
    cells.add_argument("--train", type=int, default=3_000)
    cells.add_argument("--arms", nargs="+", choices=ARMS, default=["default", "embed"])
    cells.set_defaults(action=run)
    shown = actions.add_parser("table")
    shown.add_argument("out", type=Path)
    shown.add_argument("--arms", nargs=2, choices=ARMS, default=["default", "embed"])
    shown.set_defaults(action=table)
    args = parser.parse_args()
    code: int = args.action(args)
    return code


if __name__ == "__main__":
    sys.exit(main())

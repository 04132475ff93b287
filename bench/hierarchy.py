"""What it costs to make label sets agree with a hierarchy: closed upwards, or pruned.

    python bench/hierarchy.py titles.jsonl.xz --separator . --samples 3000

trains a linear model on labels that are closed upwards, fits each rule for Micro-F1 on the scores
as they are, and prints Micro-F1 and example-based F1 of the test part's label sets as they come, of
these with all ancestors added, and of these without the labels that lack an ancestor. The share of
samples whose set disagrees with the hierarchy stands before them.
"""

import argparse

import numpy as np

from zlpr import decoding, metrics
from zlpr.data import load
from zlpr.decoding.with_ancestors import close
from zlpr.training import TrainingConfig, divide, fit

RULES = ("zero", "threshold", "per_label_threshold", "label_count", "label_sets", "expected_f1")


def main() -> None:
    """Train, decide by each rule, print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data")
    parser.add_argument("--separator", default="/")
    parser.add_argument("--samples", type=int, default=3000)
    args = parser.parse_args()
    data = load(args.data, hierarchy_separator=args.separator)
    rows = np.random.default_rng(0).permutation(len(data))[: args.samples]
    parts = divide(data.select(rows))
    config = TrainingConfig(regularisation=0.1, refit=False, decode="zero")
    result = fit(parts.train, parts.validation, config, test=parts.test)
    seen, test = result.validation, result.test
    above = test.ancestors
    print(f"{data.num_labels} labels, {len(test.scores)} test samples")
    print(f"{'rule':20} {'disagree':>8} {'as they come':>15} {'with ancestors':>15} {'pruned':>15}")
    for name in RULES:
        rule = decoding.create(name)
        rule.fit(seen.truth, seen.scores, train_labels=parts.train.labels)
        chosen = rule(test.scores)
        closed = close(chosen, above)
        pruned = np.stack([_pruned(row, above) for row in chosen])
        figures = [_figures(test.truth, sets) for sets in (chosen, closed, pruned)]
        disagree = (closed != chosen).any(axis=1).mean()
        print(f"{name:20} {disagree:>8.3f} " + " ".join(f"{text:>15}" for text in figures))


def _pruned(row: np.ndarray, above) -> np.ndarray:
    return row & np.array([row[above[label]].all() for label in range(len(row))])


def _figures(truth, sets) -> str:
    return f"{metrics.micro_f1(truth, sets):.4f} {metrics.example_f1(truth, sets):.4f}"


if __name__ == "__main__":
    main()

"""What choosing the regularisation costs, in fits, and what rough fits on the way change.

    python bench/selection.py DATA [--sets …] [--seeds 3] [--train 1000] [--json FILE]

DATA holds the folders that `SETS` of `default_against_peers.py` names, and `mulan/NAME`. A set's
rows are drawn for each seed as `embed_against_default.py` draws them. The unit is one fit: the same
solver at the regularisation that was chosen, from a model without weights, to the usual tolerance.
`path` is the search on the validation part, to the end of the fit that it chooses, `last` the fit
on training and validation part together that follows it. Beside it stands the same search with
every fit to its end, and what it reaches on the test part. Seconds are of processor time.

Exits with 1 where a path takes more than three fits on average over the seeds of a set.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from default_against_peers import SETS, read_set
from embed_against_default import draw
from few_samples import judge
from zlpr.data import load

BAR = 3.0
MULAN = ("emotions", "scene", "yeast", "medical", "enron", "bibtex")
ARMS = {"rough": True, "whole": False}


def read(folder: Path, name: str) -> Any:
    """All rows of a set."""
    return load(folder / name) if name.startswith("mulan/") else read_set(folder, name)


def clocked(function: Any) -> tuple[float, Any]:
    """Seconds of processor time, and what it gives."""
    start = time.process_time()
    found = function()
    return time.process_time() - start, found


def run_cell(parts: list[Any]) -> dict[str, Any]:
    """Both ways to search, and one fit from nothing at what the first has chosen."""
    from zlpr.training import TrainingConfig
    from zlpr.training.linear_features import extract_features
    from zlpr.training.solvers import choose_solver

    train, validation, _ = parts
    config: Any = TrainingConfig()
    features = extract_features(train, validation, config.features)
    found = {arm: run_arm(parts, config, features, roughly) for arm, roughly in ARMS.items()}
    solver = choose_solver(features.train, train.labels, config)
    for record in found.values():
        strength = record["regularisation"]
        record["once"] = clocked(lambda: solver.solve(solver.start(), strength))[0]  # noqa: B023
    return found


def run_arm(parts: list[Any], config: Any, features: Any, roughly: bool) -> dict[str, Any]:
    """Search, fit once more on both parts, and judge on the test part."""
    from scipy import sparse

    from zlpr.training.judging import ScoredPart
    from zlpr.training.regularisation import Search
    from zlpr.training.selection import choose_rule
    from zlpr.training.solvers import choose_solver

    train, validation, test = parts
    search = Search(train.labels, validation.labels, config, features, None, None)
    search.fits_roughly = roughly
    search.recall()
    path, best = clocked(search.run)
    labels = sparse.vstack([train.labels, validation.labels], format="csr")
    both, start = choose_solver(features.both, labels, config), search.saved.parameters
    last, solution = clocked(lambda: both.solve(start, best.regularisation))
    layer = search.layer(best, *both.model(solution.parameters), search.best_scores)
    scores = np.asarray(features.read(test.inputs) @ layer.weight + layer.bias, dtype=np.float32)
    held = ScoredPart(validation.labels, search.best_scores, features.validation)
    rule = choose_rule(config, train.labels, held).rule
    return {
        "values": len({attempt.regularisation for attempt in search.saved.attempts}),
        "path": path,
        "last": last,
        "regularisation": best.regularisation,
        **judge(test.labels.toarray(), np.asarray(rule(scores), dtype=bool)),
    }


def main() -> int:
    """Print a row per set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", default=[*SETS, *(f"mulan/{name}" for name in MULAN)])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--train", type=int, default=1_000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found: dict[str, list[dict[str, Any]]] = {}
    within = True
    print("| set | values | path | last fit | path, all to their end | Micro-F1 | then |")
    print("|---|--:|--:|--:|--:|--:|--:|", flush=True)
    for name in args.sets:
        data = read(args.data, name)
        cells = [run_cell(draw(data, seed, args.train)) for seed in range(args.seeds)]
        found[name] = cells
        rough, whole = ([cell[arm] for cell in cells] for arm in ARMS)

        def mean(records: list[dict[str, Any]], key: str, over: str = "") -> float:
            return float(np.mean([r[key] / (r[over] if over else 1.0) for r in records]))

        path = mean(rough, "path", "once")
        shown = [
            f"{mean(rough, 'values'):.1f}",
            f"{path:.2f}",
            f"{mean(rough, 'last', 'once'):.2f}",
            f"{mean(whole, 'path', 'once'):.2f}",
            *(f"{100 * mean(records, 'micro_f1'):.1f}" for records in (rough, whole)),
        ]
        print(f"| {name} | {' | '.join(shown)} |", flush=True)
        within = within and path <= BAR
    if args.json:
        args.json.write_text(json.dumps(found), encoding="utf-8")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())

"""How much of a training on many labels divides among workers, and what stays on one machine.

    python bench/divided_training.py [--samples 20000] [--labels 5000] [--workers 2]

Trains `shortlist` on a synthetic set in one process, then with workers of Ray on this machine, and
says whether both have the same bits. Seconds are of the processor, of this process alone: what the
workers take is not among them, what it takes to talk to them is.
"""

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from zlpr.data import Dataset
from zlpr.training import FitResult, TrainingConfig, fit
from zlpr.training.block_workers import InProcess
from zlpr.training.candidate_cells import CandidateLoss
from zlpr.training.ray_block_workers import RayBlockWorkers

OWN, COMMON = 8, 40  # features of a sample: for each of its labels, and of no label


def main() -> int:
    """Train in both ways, and print the seconds of each part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--labels", type=int, default=5_000)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    data = make(args.samples + args.samples // 10, args.labels)
    parts = [data.select(range(args.samples)), data.select(range(args.samples, len(data)))]
    config = TrainingConfig(model="shortlist")
    spent = {"loss": 0.0, "blocks": 0.0}
    setattr(CandidateLoss, "__call__", timed(CandidateLoss.__call__, spent, "loss"))  # noqa: B010
    alone, seconds = measured(lambda: fit(*parts, config, workers=TimedBlocks(spent)))
    print(f"one process: {seconds:.1f} s")
    for name, own in {**spent, "all else": seconds - sum(spent.values())}.items():
        print(f"  {name:<9}{own:6.1f} s  {own / seconds:6.1%}")
    with RayBlockWorkers("local", args.workers) as workers:
        divided, seconds = measured(lambda: fit(*parts, config, workers=workers))
    print(f"with {args.workers} workers, without their own: {seconds:.1f} s")
    same = bits(alone) == bits(divided)
    print("the bits are the same" if same else "THE BITS DIFFER")
    return 0 if same else 1


class TimedBlocks(InProcess):
    """Computes here, and adds up how long it takes."""

    def __init__(self, spent: dict[str, float]) -> None:
        super().__init__()
        self._spent = spent

    def run(self, function: Any, blocks: Any) -> list[Any]:
        """Call the function."""
        return timed(super().run, self._spent, "blocks")(function, blocks)

    def hold(self, make: Any, blocks: Any) -> Any:
        """Make the objects."""
        return timed(
            timed(super().hold, self._spent, "blocks")(make, blocks), self._spent, "blocks"
        )


def timed(function: Callable[..., Any], spent: dict[str, float], name: str) -> Callable[..., Any]:
    """The function, which notes how long it takes."""

    def call(*arguments: Any) -> Any:
        result, seconds = measured(lambda: function(*arguments))
        spent[name] += seconds
        return result

    return call


def measured(function: Callable[[], Any]) -> tuple[Any, float]:
    """What a function gives, and the processor seconds of this process."""
    started = time.process_time()
    return function(), time.process_time() - started


def bits(result: FitResult) -> bytes:
    """The numbers of a model."""
    weight = result.model.weight
    return b"".join(a.tobytes() for a in (weight.data, weight.indices, result.model.bias))


def make(samples: int, labels: int) -> Dataset:
    """One to five labels a sample, few of them frequent, each told by some of 20 features."""
    random = np.random.default_rng(0)
    features = 10 * labels
    rows = np.repeat(np.arange(samples), random.integers(1, 6, samples))
    own = random.choice(labels, len(rows), p=shares(labels, 0.8))
    told = random.integers(0, features, (labels, 20))[
        own[:, None], random.integers(0, 20, (len(own), OWN))
    ]
    common = random.choice(features, samples * COMMON, p=shares(features, 0.9))
    places = (
        np.concatenate([np.repeat(rows, OWN), np.repeat(np.arange(samples), COMMON)]),
        np.concatenate([told.ravel(), common]),
    )
    counts = sparse.csr_array((np.ones(len(places[0])), places), (samples, features))
    counts.data *= np.log(samples / np.bincount(counts.indices, minlength=features).clip(1))[
        counts.indices
    ]
    lengths = sparse.diags_array(1 / np.sqrt(counts.multiply(counts).sum(axis=1)))
    truth = sparse.csr_array((np.ones(len(rows), dtype=bool), (rows, own)), (samples, labels))
    names = tuple(map(str, range(labels)))
    return Dataset(truth, names, features=sparse.csr_array(lengths @ counts, dtype=np.float32))


def shares(count: int, power: float) -> Any:
    """Of a few frequent ones and many rare ones."""
    weights = 1 / np.arange(1, count + 1) ** power
    return weights / weights.sum()


if __name__ == "__main__":
    sys.exit(main())

"""The model for many labels on synthetic sets of up to a million labels and samples.

    python bench/million_labels.py run OUT [--sizes 10000 100000 1000000]
    python bench/million_labels.py table OUT [--figure FILE]

Of each size n a set is drawn with n labels, n training samples, a hundredth of that for validation
and 10,000 test samples. Labels are as unequal as those of shops are (Zipf), come in groups that
occur together, three a sample on average, and are told by words of their own that other labels
share; most words of a sample tell nothing. A set is drawn, trained, saved, loaded and predicted in
a process of its own with one thread, whose processor time by step and peak of memory are recorded.

A size that has a record is not run again, and a training that was stopped goes on from the last
penalty that it had tried. `table` prints what was found, and the time of each size over what
n log n would make of the smallest; `--figure` draws it.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from zlpr import load
from zlpr._atomic import write_text
from zlpr.data import Dataset
from zlpr.metrics import precision_at_k
from zlpr.training import TrainingConfig, fit
from zlpr.training.naming import recall_of

SIZES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
TEST = 10_000
OWN_WORDS, TOLD_WORDS, OTHER_WORDS = 6, 4, 24
GROUP = 20

Numbers = NDArray[np.int64]


class World:
    """What labels there are, how often they occur, and which words tell them."""

    def __init__(self, labels: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.labels, self.words = labels, 20_000 + labels // 5
        weights = (np.arange(labels) + 10.0) ** -0.8
        self.bounds = np.cumsum(rng.permutation(weights))
        self.tells = rng.integers(0, self.words, (labels, OWN_WORDS))

    def draw(self, samples: int, seed: int) -> Dataset:
        """So many samples."""
        rng = np.random.default_rng(seed)
        rows, labels = self._labels(samples, rng)
        told = self.tells[labels[:, None], rng.integers(0, OWN_WORDS, (len(labels), TOLD_WORDS))]
        others = (self.words ** rng.random((samples, OTHER_WORDS))).astype(np.int64)  # Zipf
        owners = [np.repeat(rows, TOLD_WORDS), np.repeat(np.arange(samples), OTHER_WORDS)]
        cells = (np.concatenate(owners), np.concatenate([told.ravel(), others.ravel()]))
        ones = np.ones(len(cells[0]), dtype=np.float32)
        features = sparse.csr_array((ones, cells), shape=(samples, self.words))
        features.sum_duplicates()
        return Dataset(
            labels=sparse.csr_array(
                (np.ones(len(rows), dtype=bool), (rows, labels)), shape=(samples, self.labels)
            ),
            label_names=tuple(map(str, range(self.labels))),
            features=features,
        )

    def _labels(self, samples: int, rng: np.random.Generator) -> tuple[Numbers, Numbers]:
        """A label of each sample, and up to four others of its group."""
        first = np.searchsorted(self.bounds, rng.random(samples) * self.bounds[-1])
        count = 1 + rng.integers(0, 5, samples)
        rows = np.repeat(np.arange(samples), count)
        starts = np.concatenate([[0], np.cumsum(count)[:-1]])
        others = first[rows] // GROUP * GROUP + rng.integers(0, GROUP, len(rows)) ** 2 // GROUP
        others[starts] = first
        pairs = np.unique(rows * self.labels + np.minimum(others, self.labels - 1))
        return pairs // self.labels, pairs % self.labels


def weighted(data: Dataset, rarity: NDArray[np.float32]) -> Dataset:
    """Rows of length one, of words that count by how rare they are."""
    features: Any = data.features
    scaled = features * rarity[None, :]
    lengths = np.sqrt(np.asarray((scaled * scaled).sum(axis=1)).ravel())
    units = sparse.csr_array(scaled / np.maximum(lengths, 1e-9)[:, None], dtype=np.float32)
    return Dataset(labels=data.labels, label_names=data.label_names, features=units)


def draw_parts(size: int) -> tuple[Dataset, Dataset, Dataset]:
    """Training, validation and test part."""
    world = World(size)
    drawn = [world.draw(n, seed) for seed, n in enumerate((size, max(size // 100, 500), TEST), 1)]
    features: Any = drawn[0].features
    held = np.bincount(features.indices, minlength=world.words)
    rarity = np.log(size / np.maximum(held, 1)).astype(np.float32) + 1
    train, validation, test = (weighted(data, rarity) for data in drawn)
    return train, validation, test


class Steps:
    """Processor and wall seconds of what is done, and the peak of memory so far."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, float]] = {}
        self._last = self._now()

    def end(self, name: str) -> None:
        """Since the last step ended."""
        now = self._now()
        cpu, wall = (b - a for a, b in zip(self._last, now, strict=True))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        self.found[name] = {"cpu": cpu, "wall": wall, "peak": float(peak)}
        self._last = self._now()
        print(f"{name}: {cpu:,.0f} s of processor time, peak {peak / 1e9:.2f} GB", flush=True)

    @staticmethod
    def _now() -> tuple[float, float]:
        return time.process_time(), time.perf_counter()


def run_size(size: int, out: Path) -> dict[str, Any]:
    """Everything of one size."""
    import torch

    torch.set_num_threads(1)
    steps = Steps()
    train, validation, test = draw_parts(size)
    features: Any = train.features
    steps.end("draw")
    resumed = (out / f"{size}.checkpoint").exists()
    config = TrainingConfig(model="shortlist")
    result = fit(train, validation, config, checkpoint=out / f"{size}.checkpoint")
    steps.end("train")
    result.model.save(out / f"{size}.model", overwrite=True)
    steps.end("save")
    model = load(out / f"{size}.model")
    steps.end("load")
    scores: Any = model.predict_scores(test.features)
    steps.end("predict")
    files = sum(path.stat().st_size for path in (out / f"{size}.model").iterdir())
    return {
        "size": size,
        "features": int(features.shape[1]),
        "labels_a_sample": train.labels.nnz / size,
        "features_a_sample": features.nnz / size,
        "resumed": resumed,
        "steps": steps.found,
        "model_bytes": files,
        "iterations": sum(line.step for line in result.history),
        "chosen": result.chosen,
        "figures": {
            "precision_at_1": precision_at_k(test.labels, scores, k=1),
            "precision_at_5": precision_at_k(test.labels, scores, k=5),
            "recall_of_candidates": recall_of(scores.labels, test.labels),
        },
    }


def run(out: Path, sizes: Sequence[int]) -> None:
    """Each size that has no record, in a process of its own."""
    out.mkdir(parents=True, exist_ok=True)
    for size in sizes:
        if not (out / f"{size}.json").exists():
            print(f"-- {size:,} labels and samples", flush=True)
            subprocess.run([sys.executable, __file__, "one", str(out), str(size)], check=True)


def read(out: Path) -> list[dict[str, Any]]:
    """The records, by size."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in out.glob("*.json")]
    return sorted(records, key=lambda record: int(record["size"]))


def usual_time(first: dict[str, Any], size: int) -> float:
    """What training would take if it grew as n log n from the smallest size on."""
    smallest, seconds = first["size"], first["steps"]["train"]["cpu"]
    return float(seconds * size * math.log(size) / (smallest * math.log(smallest)))


def draw_figure(records: Sequence[dict[str, Any]], path: Path) -> None:
    """Time and memory by size, on logarithmic axes, beside n log n."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    from zlpr._palette import BLUE, GREY

    sizes = [record["size"] for record in records]
    trained = [record["steps"]["train"] for record in records]
    figure, (time_axis, memory_axis) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    usual = [usual_time(records[0], size) for size in sizes]
    time_axis.loglog(sizes, usual, color=GREY, linestyle="--", label="n log n")
    time_axis.loglog(sizes, [step["cpu"] for step in trained], "o-", color=BLUE, label="training")
    time_axis.set_ylabel("seconds of one processor")
    time_axis.legend(frameon=False)
    memory_axis.loglog(sizes, [step["peak"] / 1e9 for step in trained], "o-", color=BLUE)
    memory_axis.set_ylabel("peak of memory, GB")
    for axis in (time_axis, memory_axis):
        axis.set_xlabel("labels, and as many samples")
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
        for side in (axis.xaxis, axis.yaxis):
            side.set_minor_formatter(NullFormatter())
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.yaxis.set_major_formatter("{x:,g}")
        axis.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)


def table(records: Sequence[dict[str, Any]]) -> str:
    """Markdown: what each size took, and how that grew."""
    lines = [
        "| labels = samples | training, s | over n log n | prediction, ms a sample | peak, GB "
        "| model, GB | recall | P@1 | P@5 |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for record in records:
        size, seconds = record["size"], record["steps"]["train"]["cpu"]
        grown = seconds / usual_time(records[0], size)
        figures = record["figures"]
        lines.append(
            f"| {size:,} | {seconds:,.0f}{' (resumed)' if record['resumed'] else ''} "
            f"| {grown:.2f} "
            f"| {1000 * record['steps']['predict']['cpu'] / TEST:.2f} "
            f"| {record['steps']['train']['peak'] / 1e9:.1f} | {record['model_bytes'] / 1e9:.2f} "
            f"| {100 * figures['recall_of_candidates']:.1f} "
            f"| {100 * figures['precision_at_1']:.1f} | {100 * figures['precision_at_5']:.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run, or show what was found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    steps = parser.add_subparsers(dest="step", required=True)
    for name in ("run", "one", "table"):
        step = steps.add_parser(name)
        step.add_argument("out", type=Path)
    steps.choices["run"].add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    steps.choices["one"].add_argument("size", type=int)
    steps.choices["table"].add_argument("--figure", type=Path)
    args = parser.parse_args()
    if args.step == "run":
        run(args.out, args.sizes)
    elif args.step == "one":
        found = run_size(args.size, args.out)
        write_text(args.out / f"{args.size}.json", json.dumps(found, indent=1) + "\n")
    else:
        records = read(args.out)
        print(table(records))
        if args.figure:
            draw_figure(records, args.figure)


if __name__ == "__main__":
    main()

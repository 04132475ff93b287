"""A linear head over 10^4 to 10^6 labels: fused with ZLPR, against `nn.Linear` and the sparse loss.

    python bench/scale.py [--delicious FOLDER] [--json]

Prints, for one run on this machine: peak memory of a training step beyond the weight, its gradient
and the inputs, in units of the dense scores' size (each in a child process); time as a ratio to
the dense head's; how cost grows with the labels; and how far the losses of training runs, fused
and dense, are apart. FOLDER holds the delicious set as Mulan publishes it.
"""

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from zlpr.losses import linear_zlpr_loss, sparse_zlpr_loss

SAMPLES, FEATURES, POSITIVES = 256, 256, 5
COMPARED = (100_000, 670_000)
GROWTH = (10_000, 30_000, 100_000, 300_000, 1_000_000)
REPEATS = 5

Step = Callable[[Tensor, nn.Linear, Tensor], Tensor]


def fused(features: Tensor, head: nn.Linear, indices: Tensor) -> Tensor:
    """Head and loss in one."""
    return linear_zlpr_loss(features, head.weight, head.bias, indices)


def swept(features: Tensor, head: nn.Linear, indices: Tensor) -> Tensor:
    """Head and loss in one, by tiles also where "auto" would hold all scores."""
    return linear_zlpr_loss(features, head.weight, head.bias, indices, impl="recompute")


def dense(features: Tensor, head: nn.Linear, indices: Tensor) -> Tensor:
    """The scores of all labels, then the loss."""
    return sparse_zlpr_loss(head(features), indices)


STEPS: dict[str, Step] = {"fused": fused, "dense": dense}


@dataclass(frozen=True)
class Figure:
    """A measured number and what it must not exceed."""

    what: str
    value: float
    bar: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the number is within its bar, if it has one."""
        return None if self.bar is None else self.value <= self.bar


def make(labels: int, features: int = FEATURES) -> tuple[Tensor, nn.Linear, Tensor]:
    """A batch and a head."""
    torch.manual_seed(0)
    indices = torch.randint(labels, (SAMPLES, POSITIVES))
    return torch.randn(SAMPLES, features, requires_grad=True), nn.Linear(features, labels), indices


def seconds(step: Step, problem: tuple[Tensor, nn.Linear, Tensor]) -> float:
    """Time of one forward and backward pass with gradients that start out absent."""
    features, head, _ = problem
    features.grad = None
    head.zero_grad(set_to_none=True)
    begin = time.perf_counter()
    step(*problem).backward()
    return time.perf_counter() - begin


def measure_time(labels: int) -> Iterator[Figure]:
    """Fused against dense, taken in turns; the fastest of each."""
    problem = make(labels)
    times: dict[str, list[float]] = {name: [] for name in STEPS}
    for _ in range(REPEATS if labels <= 100_000 else 3):
        for name, step in STEPS.items():
            times[name].append(seconds(step, problem))
    best = {name: min(values) for name, values in times.items()}
    yield Figure(f"seconds, dense, {labels:,} labels", best["dense"])
    yield Figure(f"seconds, fused, {labels:,} labels", best["fused"])
    yield Figure(f"time, fused / dense, {labels:,} labels", best["fused"] / best["dense"], 1.3)


def measure_growth() -> Iterator[Figure]:
    """The exponent with which time grows from 10^4 to 10^6 labels, by least squares."""
    points = []
    for labels in GROWTH:
        problem = make(labels)
        best = min(seconds(fused, problem) for _ in range(REPEATS if labels <= 100_000 else 2))
        points.append((math.log(labels), math.log(best)))
        yield Figure(f"microseconds a label, fused, {labels:,} labels", 1e6 * best / labels)
    center = [sum(column) / len(points) for column in zip(*points, strict=True)]
    above = sum((x - center[0]) * (y - center[1]) for x, y in points)
    slope = above / sum((x - center[0]) ** 2 for x, _ in points)
    yield Figure("exponent of time in labels", slope, 1.1)


def measure_memory(labels: int) -> Iterator[Figure]:
    """Peak memory in children, in units of the dense scores' size."""
    for name in STEPS:
        command = [sys.executable, __file__, "--child", name, "--labels", str(labels)]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        share = float(result.stdout) / (SAMPLES * labels * 4)
        bar = 0.15 if name == "fused" else None
        yield Figure(f"memory / dense scores, {name}, {labels:,} labels", share, bar)


def child_memory(name: str, labels: int) -> float:
    """Bytes a step needs at its peak beyond weight, bias, their gradients and the inputs."""
    seconds(STEPS[name], (torch.randn(2, 4), nn.Linear(4, 9), torch.zeros(2, 1).long()))
    problem = make(labels)
    gradients = sum(each.numel() * each.itemsize for each in problem[1].parameters())
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from what is held now
    held = _status("VmRSS")
    seconds(STEPS[name], problem)
    return _status("VmHWM") - held - gradients


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def measure_training(
    what: str, batches: list[tuple[Tensor, Tensor]], labels: int
) -> Iterator[Figure]:
    """Train an embedding and a head twice, fused and dense, and compare every step's loss."""
    ours, theirs = train(swept, batches, labels), train(dense, batches, labels)
    apart = max(abs(our - their) / their for our, their in zip(ours, theirs, strict=True))
    yield Figure(f"first loss, {what}", ours[0])
    yield Figure(f"last loss, {what}, after {len(ours)} steps", ours[-1])
    yield Figure(f"last loss / first, {what}", ours[-1] / ours[0], 0.9)
    yield Figure(f"largest relative gap to dense in any step, {what}", apart, 1e-4)


def train(step: Step, batches: list[tuple[Tensor, Tensor]], labels: int) -> list[float]:
    """Losses of every step of a two-layer model."""
    torch.manual_seed(0)
    width = 32
    embedding = nn.Linear(batches[0][0].shape[1], width)
    head = nn.Linear(width, labels)
    optimiser = torch.optim.Adam([*embedding.parameters(), *head.parameters()], lr=0.03)
    losses = []
    for inputs, indices in batches:
        optimiser.zero_grad()
        loss = step(embedding(inputs).tanh(), head, indices)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def synthetic_batches(labels: int, steps: int) -> list[tuple[Tensor, Tensor]]:
    """Samples around centres; a centre has its own labels."""
    torch.manual_seed(1)
    centres, owned = torch.randn(50, 16), torch.randint(labels, (50, POSITIVES))
    batches = []
    for _ in range(steps):
        which = torch.randint(50, (64,))
        batches.append((centres[which] + 0.1 * torch.randn(64, 16), owned[which]))
    return batches


def delicious_batches(folder: Path) -> tuple[list[tuple[Tensor, Tensor]], int]:
    """Two epochs of the training part, in batches of 256."""
    import numpy as np

    from zlpr import data

    dataset = data.load(folder)
    rows = np.flatnonzero(dataset.split == "train")
    features = torch.from_numpy(dataset.features[rows].toarray()).float()
    labels = dataset.labels[rows]
    counts = np.diff(labels.indptr)
    indices = torch.full((len(rows), int(counts.max())), -1)
    for row, (start, count) in enumerate(zip(labels.indptr, counts, strict=False)):
        indices[row, :count] = torch.from_numpy(labels.indices[start : start + count].copy())
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    batches = [(features[part], indices[part]) for part in order.split(SAMPLES)]
    return 2 * batches, labels.shape[1]


def measure_all(delicious: Path | None) -> Iterator[Figure]:
    """Every figure, the quick ones first."""
    for labels in COMPARED:
        yield from measure_memory(labels)
    if delicious is not None:
        batches, labels = delicious_batches(delicious)
        yield from measure_training("delicious", batches, labels)
    yield from measure_training("synthetic, 10^6 labels", synthetic_batches(10**6, 8), 10**6)
    for labels in COMPARED:
        yield from measure_time(labels)
    yield from measure_growth()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--delicious", type=Path, metavar="FOLDER")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--child", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--labels", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(child_memory(arguments.child, arguments.labels))
        return
    figures = []
    for figure in measure_all(arguments.delicious):
        figures.append(figure)
        if not arguments.json:
            verdict = "" if figure.met is None else f"  <= {figure.bar:g}: {figure.met}"
            print(f"{figure.what:62} {figure.value:10.4g}{verdict}", flush=True)
    if arguments.json:
        print(json.dumps([asdict(figure) | {"met": figure.met} for figure in figures], indent=2))


if __name__ == "__main__":
    main()

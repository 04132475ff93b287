"""Speed and memory of the losses, as ratios within one run.

    python bench/losses.py            # a table
    python bench/losses.py --json     # the same as JSON

Times are of forward plus backward in float32 on two threads, the best of interleaved turns of
several calls; for the smallest shape also that of a single call right after a model's step, when
neither loss is in the caches, which is held to no bar. The baseline is
`F.binary_cross_entropy_with_logits`. Memory is the peak resident size beyond the inputs, of a child
process that runs one step, in units of the scores' size; the gradient, one such unit, is taken off.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tests.reference import circulating_zlpr  # noqa: E402

from zlpr import losses  # noqa: E402

SHAPES = [(256, 600), (256, 10_000), (64, 167_500)]
POSITIVES = 5
TURN = 10
BASELINE = "bce (torch)"
PAIRS_SHAPE = (256, 10_000)
PAIRS_LIMIT = 2 << 30

# loss, of which one's time, at most; the sparse form only where there are many labels
BARS = [
    ("zlpr dense", BASELINE, 1.0, 0),
    ("zlpr dense", "zlpr in circulation", 0.2, 0),
    ("zlpr from indices", BASELINE, 0.6, 10_000),
]
MEMORY_BAR = 1.2


@dataclass
class Measurement:
    """One loss at one shape."""

    loss: str
    samples: int
    labels: int
    milliseconds: float
    of_baseline: float
    memory_of_scores: float | None


@dataclass
class Verdict:
    """One requirement and what was measured."""

    what: str
    bar: float
    measured: float
    met: bool


def main() -> int:
    """Measure, print and say by the exit code whether every bar is met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--rounds", type=int, default=0, help="rounds a shape; 0 chooses")
    parser.add_argument("--child", nargs=3, metavar=("LOSS", "SAMPLES", "LABELS"), help="internal")
    args = parser.parse_args()
    torch.set_num_threads(2)
    if args.child:
        name, samples, labels = args.child
        print(peak_of_one_step(name, int(samples), int(labels)))
        return 0
    measurements = [m for shape in SHAPES for m in measure(*shape, args.rounds)]
    cold = after_a_model(*SHAPES[0])
    verdicts = [*judge(measurements), *judge_pairs()]
    if args.json:
        records = {"measurements": measurements, "verdicts": verdicts}
        plain: dict[str, object] = {k: [asdict(x) for x in v] for k, v in records.items()}
        print(json.dumps({**plain, "after_a_model": cold}, indent=2))
    else:
        print_report(measurements, verdicts)
        print(f"no bar {cold:7.3f}         dense / bce right after a model's step at {SHAPES[0]}")
    return 0 if all(verdict.met for verdict in verdicts) else 1


def steps(samples: int, labels: int) -> dict[str, Callable[[], None]]:
    """Forward plus backward of each loss, on the same scores."""
    torch.manual_seed(0)
    scores = torch.randn(samples, labels, requires_grad=True)
    indices = torch.stack([torch.randperm(labels)[:POSITIVES] for _ in range(samples)])
    targets = torch.zeros(samples, labels, dtype=torch.bool).scatter_(1, indices, True)
    floats = targets.float()

    def step(loss: Callable[[], Tensor]) -> Callable[[], None]:
        def run() -> None:
            scores.grad = None
            loss().backward()  # type: ignore[no-untyped-call]

        return run

    return {
        BASELINE: step(lambda: F.binary_cross_entropy_with_logits(scores, floats)),
        "zlpr in circulation": step(lambda: circulating_zlpr(scores, floats).mean()),
        "zlpr dense": step(lambda: losses.zlpr_loss(scores, targets)),
        "zlpr dense, float targets": step(lambda: losses.zlpr_loss(scores, floats)),
        "zlpr from indices": step(lambda: losses.sparse_zlpr_loss(scores, indices)),
        "ranking": step(lambda: losses.ranking_loss(scores, targets)),
        "warp": step(lambda: losses.warp_loss(scores, targets)),
    }


def measure(samples: int, labels: int, rounds: int) -> list[Measurement]:
    """Times and memory of all losses at one shape."""
    seconds = time_of(steps(samples, labels), rounds or max(3, 10_000_000 // (samples * labels)))
    return [
        Measurement(
            name,
            samples,
            labels,
            1000 * value,
            value / seconds[BASELINE],
            memory_of(name, samples, labels) if name.startswith(("zlpr", "bce")) else None,
        )
        for name, value in seconds.items()
    ]


def time_of(runs: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """The best time of each, over rounds that go through all of them in turn.

    At its turn each runs several times: the first of these find in the caches what the loss before
    it left there, and the losses differ in how much they leave.
    """
    best = dict.fromkeys(runs, float("inf"))
    for count in range(rounds):
        for name, run in runs.items():
            if name in ("ranking", "warp") and count > 0:
                continue  # slow, and held to no time
            for _ in range(TURN):
                start = time.perf_counter()
                run()
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def after_a_model(samples: int, labels: int, rounds: int = 200) -> float:
    """The dense loss's time over the baseline's, medians of single calls, each after a model."""
    model = torch.nn.Sequential(
        torch.nn.Linear(768, 768), torch.nn.ReLU(), torch.nn.Linear(768, labels)
    )
    features = torch.randn(samples, 768)
    runs = steps(samples, labels)
    seconds: dict[str, list[float]] = {BASELINE: [], "zlpr dense": []}
    for _ in range(rounds):
        for name, times in seconds.items():
            model(features).sum().backward()
            start = time.perf_counter()
            runs[name]()
            times.append(time.perf_counter() - start)
    return statistics.median(seconds["zlpr dense"]) / statistics.median(seconds[BASELINE])


def peak_of_one_step(name: str, samples: int, labels: int) -> int:
    """Bytes by which the peak resident size grows in one step beyond what was there before."""
    steps(8, 400)[name]()  # loads what is loaded lazily
    run = steps(samples, labels)[name]
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    run()
    return resident("VmHWM") - before


def resident(field: str) -> int:
    """A size in bytes from the kernel's account of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"the kernel does not report {field}")


def memory_of(name: str, samples: int, labels: int) -> float:
    """Peak memory beyond the inputs and the gradient, in units of the scores' size.

    A small gradient may fit in what the process already had, and then nothing is seen to grow.
    """
    size = 4 * samples * labels
    return max(grown(name, samples, labels) / size - 1, 0.0)


def grown(name: str, samples: int, labels: int) -> int:
    """What `peak_of_one_step` gives in a process of its own."""
    command = [sys.executable, __file__, "--child", name, str(samples), str(labels)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout)


def judge(measurements: list[Measurement]) -> list[Verdict]:
    """The bars on time and memory."""
    found = {(m.loss, m.samples, m.labels): m for m in measurements}
    verdicts = []
    for loss, other, bar, least in BARS:
        for samples, labels in SHAPES:
            if labels < least:
                continue
            ours, theirs = found[loss, samples, labels], found[other, samples, labels]
            ratio = ours.milliseconds / theirs.milliseconds
            what = f"time of {loss} / {other} at ({samples}, {labels})"
            verdicts.append(Verdict(what, bar, ratio, ratio <= bar))
    for m in measurements:
        if m.loss in ("zlpr dense", "zlpr from indices") and m.memory_of_scores is not None:
            what = f"memory of {m.loss} / scores at ({m.samples}, {m.labels})"
            met = m.memory_of_scores <= MEMORY_BAR
            verdicts.append(Verdict(what, MEMORY_BAR, m.memory_of_scores, met))
    return verdicts


def judge_pairs() -> list[Verdict]:
    """The bar on the memory of the losses over pairs."""
    verdicts = []
    for name in ("ranking", "warp"):
        share = grown(name, *PAIRS_SHAPE) / PAIRS_LIMIT
        what = f"memory of {name} / 2 GB at {PAIRS_SHAPE}"
        verdicts.append(Verdict(what, 1.0, share, share <= 1.0))
    return verdicts


def print_report(measurements: list[Measurement], verdicts: list[Verdict]) -> None:
    """Two tables: what was measured, and how it stands to the bars."""
    print(f"{'loss':<26}{'samples':>8}{'labels':>9}{'ms':>10}{'/ bce':>8}{'memory':>8}")
    for m in measurements:
        memory = "" if m.memory_of_scores is None else f"{m.memory_of_scores:.2f}"
        print(
            f"{m.loss:<26}{m.samples:>8}{m.labels:>9}{m.milliseconds:>10.3f}"
            f"{m.of_baseline:>8.2f}{memory:>8}"
        )
    print()
    for verdict in verdicts:
        mark = "met   " if verdict.met else "MISSED"
        print(f"{mark} {verdict.measured:7.3f} <= {verdict.bar:<4} {verdict.what}")


if __name__ == "__main__":
    raise SystemExit(main())

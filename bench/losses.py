"""Speed and memory of the losses over a grid of shapes, as ratios within one run.

    python bench/losses.py                      # the table, the bars
    python bench/losses.py --plot grid.svg      # and a heat map
    python bench/losses.py --compile            # and compiled against eager
    python bench/losses.py --device cuda        # on a card; without bars on memory

Times are of forward plus backward in float32 on two threads. `runs` are the best of interleaved
turns of several calls each; `single` are medians of single calls in turn, when each loss finds the
caches as another left them; `step` is what a loss adds to a model's step right before it. The
baselines are `F.binary_cross_entropy_with_logits` and the version of ZLPR in circulation. Memory is
the peak resident size beyond the inputs, of a child process that runs one step, in units of the
scores' size; the gradient, one such unit, is taken off.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tests.reference import circulating_zlpr  # noqa: E402

from zlpr import losses  # noqa: E402

BATCHES = (8, 32, 256, 1024)
LABELS = (4, 28, 142, 600, 2400, 10_000)
DENSITIES = (0.002, 0.01, 0.05, 0.1, 0.3, 0.5)
KINDS = ("bool", "float", "soft")
BCE, SNIPPET = "bce (torch)", "zlpr in circulation"
TURN = 10
SMALL, LARGE = 10_000, 100_000  # cells
JUMP = 1.5
KEYS: tuple[Callable[..., float], ...] = (int, int, float, KINDS.index)  # the axes' order
STEP_SHAPES = [(32, 28, 0.042), (32, 618, 0.002), (256, 600, 0.01), (256, 600, 0.3)]
MEMORY_SHAPE = (256, 10_000)
MEMORY_BAR = 1.2
OTHERS_SHAPES = [(32, 28), (256, 28), (256, 600)]
OTHERS_BAR = 2.0


@dataclass(frozen=True)
class Point:
    """ZLPR at one point of the grid, in microseconds."""

    samples: int
    labels: int
    density: float
    kind: str
    runs: float
    runs_bce: float
    runs_snippet: float
    single: float
    single_bce: float

    @property
    def of_bce(self) -> float:
        """Of BCE's time."""
        return self.runs / self.runs_bce

    @property
    def of_snippet(self) -> float:
        """Of the circulating version's time."""
        return self.runs / self.runs_snippet

    def bars(self) -> Iterator[tuple[str, float, float]]:
        """What, bar, measured."""
        where = f"({self.samples}, {self.labels}), {self.density:g} positive, {self.kind}"
        cells = self.samples * self.labels
        yield f"zlpr / circulating at {where}", 0.8, self.of_snippet
        if cells < SMALL:
            yield f"zlpr / bce at {where}", 3.0, self.of_bce
        elif cells >= LARGE and self.density <= 0.3:
            yield f"zlpr / bce at {where}", 1.0 if self.density <= 0.01 else 2.0, self.of_bce


def main() -> int:
    """Measure, print and say by the exit code whether every bar is met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--plot", type=Path, help="write a heat map of the grid, SVG or PNG")
    parser.add_argument("--compile", action="store_true", help="torch.compile against eager")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=120.0, help="for the grid, about")
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES, help="of the grid")
    parser.add_argument("--labels", type=int, nargs="+", default=LABELS, help="of the grid")
    parser.add_argument("--densities", type=float, nargs="+", default=DENSITIES, help="of the grid")
    parser.add_argument("--child", help="internal")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.child:
        print(peak_of_one_step(args.child))
        return 0
    axes = (args.batches, args.labels, args.densities)
    points = grid(axes, args.device, args.seconds)
    extra = {"step": after_a_model(args.device), "others": other_losses(args.device)}
    if args.device == "cpu":
        extra["memory"] = {kind: memory_of(kind) for kind in (*KINDS, "indices")}
    if args.compile:
        extra["compiled"] = compiled(args.device)
    verdicts = [*judge(points), *judge_rest(extra)]
    if args.json:
        print(json.dumps({"points": [asdict(p) for p in points], **extra}, indent=2))
    else:
        print_report(points, extra, verdicts)
    if args.plot:
        draw(points, args.plot)
    return 0 if all(measured <= bar for _, bar, measured in verdicts) else 1


# --- what is measured ---------------------------------------------------------------------------


def steps(samples: int, labels: int, density: float, device: str) -> dict[str, Callable[[], None]]:
    """Forward plus backward of each loss, on the same scores."""
    generator = torch.Generator().manual_seed(0)
    targets = torch.rand(samples, labels, generator=generator) < density
    scores = torch.randn(samples, labels, generator=generator).to(device).requires_grad_()
    soft = torch.where(targets, 0.9, 0.1 * torch.rand(samples, labels, generator=generator))
    indices = torch.where(targets, torch.arange(labels), -1).sort(descending=True).values
    indices = indices[:, : max(int(targets.sum(dim=1).max()), 1)].to(device)
    targets, soft = targets.to(device), soft.to(device)
    floats = targets.float()

    def step(loss: Callable[[], Tensor]) -> Callable[[], None]:
        def run() -> None:
            scores.grad = None
            loss().backward()  # type: ignore[no-untyped-call]
            if device != "cpu":
                torch.cuda.synchronize()

        return run

    return {
        BCE: step(lambda: F.binary_cross_entropy_with_logits(scores, floats)),
        SNIPPET: step(lambda: circulating_zlpr(scores, floats).mean()),
        "bool": step(lambda: losses.zlpr_loss(scores, targets)),
        "float": step(lambda: losses.zlpr_loss(scores, floats)),
        "soft": step(lambda: losses.zlpr_loss(scores, soft)),
        "indices": step(lambda: losses.sparse_zlpr_loss(scores, indices)),
    }


def seconds_of(run: Callable[[], None]) -> float:
    """One call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def in_turn(
    runs: dict[str, Callable[[], None]], seconds: float, slow: tuple[str, ...] = ()
) -> tuple[dict[str, float], dict[str, float]]:
    """Best of runs of calls, and medians of single calls, in microseconds.

    Rounds go through all of them in turn until the time is over, three at least; the slow ones
    have a tenth of the calls.
    """
    best = dict.fromkeys(runs, float("inf"))
    singles: dict[str, list[float]] = {name: [] for name in runs}
    start = time.perf_counter()
    rounds = 0
    while rounds < 3 or time.perf_counter() - start < seconds:
        for name, run in runs.items():
            singles[name].append(seconds_of(run))
        for name, run in runs.items():
            for _ in range(1 if name in slow else TURN):
                best[name] = min(best[name], seconds_of(run))
        rounds += 1
    return (
        {name: 1e6 * min(value, *singles[name]) for name, value in best.items()},
        {name: 1e6 * statistics.median(values) for name, values in singles.items()},
    )


def grid(
    axes: tuple[Sequence[int], Sequence[int], Sequence[float]], device: str, seconds: float
) -> list[Point]:
    """ZLPR at every point, small shapes first for what they say soonest."""
    places = sorted(product(*axes), key=lambda place: place[0] * place[1])
    points = []
    for samples, labels, density in places:
        runs = steps(samples, labels, density, device)
        del runs["indices"]
        slow = (SNIPPET,) if samples * labels >= LARGE else ()
        best, single = in_turn(runs, seconds / len(places), slow)
        points += [
            Point(
                samples, labels, density, kind,
                best[kind], best[BCE], best[SNIPPET], single[kind], single[BCE],
            )
            for kind in KINDS
        ]  # fmt: skip
    return points


def after_a_model(device: str, rounds: int = 60) -> list[dict[str, object]]:
    """What ZLPR adds to a model's step beyond BCE: medians, each call right after the model."""
    rows: list[dict[str, object]] = []
    for samples, labels, density in STEP_SHAPES:
        layers = [torch.nn.Linear(768, 768), torch.nn.ReLU(), torch.nn.Linear(768, labels)]
        model = torch.nn.Sequential(*layers).to(device)
        features = torch.randn(samples, 768, device=device)
        runs = steps(samples, labels, density, device)
        times: dict[str, list[float]] = {"model": [], BCE: [], "bool": []}
        for _ in range(rounds):
            for name in (BCE, "bool"):
                times["model"].append(seconds_of(lambda: model(features).sum().backward()))  # noqa: B023
                times[name].append(seconds_of(runs[name]))
        medians = {name: 1e6 * statistics.median(values) for name, values in times.items()}
        rows.append(
            {
                "shape": [samples, labels, density],
                "model": medians["model"],
                "bce": medians[BCE],
                "zlpr": medians["bool"],
                "step": (medians["model"] + medians["bool"]) / (medians["model"] + medians[BCE]),
            }
        )
    return rows


def other_losses(device: str) -> list[dict[str, object]]:
    """Losses of training loops against their straightforward torch version."""
    rows: list[dict[str, object]] = []
    for samples, labels in OTHERS_SHAPES:
        scores = torch.randn(samples, labels, device=device, requires_grad=True)
        targets = (torch.rand(samples, labels) < 0.1).to(device)
        runs = {}
        for name, plain in STRAIGHTFORWARD.items():
            ours, truth = losses.info(name).function, targets.float()
            for key, loss in ((name, ours), (f"{name} plain", plain)):

                def run(loss: Callable[..., Tensor] = loss, truth: Tensor = truth) -> None:
                    scores.grad = None  # noqa: B023
                    loss(scores, truth).backward()  # noqa: B023

                runs[key] = run
        best, _ = in_turn(runs, 2.0)
        for name in STRAIGHTFORWARD:
            ratio = best[name] / best[f"{name} plain"]
            rows.append({"loss": name, "shape": [samples, labels], "of_plain": ratio})
    return rows


def _focal(s: Tensor, y: Tensor) -> Tensor:
    p = torch.sigmoid(s)
    bce = F.binary_cross_entropy_with_logits(s, y, reduction="none")
    return (bce * (1 - torch.where(y > 0, p, 1 - p)) ** 2).sum(dim=1).mean()


def _asymmetric(s: Tensor, y: Tensor) -> Tensor:
    p = torch.sigmoid(s)
    shifted = (1 - p + 0.05).clamp(max=1)
    log = y * p.clamp(min=1e-8).log() + (1 - y) * shifted.clamp(min=1e-8).log()
    focus = (1 - (p * y + shifted * (1 - y))) ** (y + 4 * (1 - y))
    return -(log * focus).sum(dim=1).mean()


def _lsep(s: Tensor, y: Tensor) -> Tensor:
    above = torch.logsumexp(torch.where(y > 0, -s, -1e9), dim=1)
    below = torch.logsumexp(torch.where(y > 0, -1e9, s), dim=1)
    return F.softplus(above + below).mean()


def _dice2(s: Tensor, y: Tensor) -> Tensor:
    p = torch.sigmoid(s)
    both = 2 * (p * y).sum(dim=0) + 1
    return (1 - both / ((p * p).sum(dim=0) + y.sum(dim=0) + 1)).sum()


def _hbm(s: Tensor, y: Tensor) -> Tensor:
    sides = []
    for part, sign in ((y > 0, -1), (y <= 0, 1)):
        count = part.sum(dim=1).clamp(min=1)
        mean = torch.where(part, s.detach(), 0.0).sum(dim=1) / count
        centred = torch.where(part, s.detach() - mean[:, None], 0.0)
        margin = 0.8 * (centred.square().sum(dim=1) / count).sqrt()
        terms = torch.where(part, sign * s + margin[:, None], -1e9)
        sides.append(torch.log1p(torch.exp(torch.logsumexp(terms, dim=1))))
    return (sides[0] + sides[1]).mean()


STRAIGHTFORWARD: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "bce": lambda s, y: F.binary_cross_entropy_with_logits(s, y, reduction="none").sum(1).mean(),
    "focal": _focal,
    "asymmetric": _asymmetric,
    "lsep": _lsep,
    "dice2": _dice2,
    "hbm": _hbm,
}


def compiled(device: str) -> list[dict[str, object]]:
    """`torch.compile` against eager, both losses."""
    rows: list[dict[str, object]] = []
    zlpr = torch.compile(losses.zlpr_loss)
    bce = torch.compile(F.binary_cross_entropy_with_logits)
    for samples, labels in ((32, 28), (256, 600), (256, 10_000)):
        scores = torch.randn(samples, labels, device=device, requires_grad=True)
        targets = (torch.rand(samples, labels) < 0.01).to(device)
        floats = targets.float()
        calls = {
            "bce": lambda s=scores, y=floats: F.binary_cross_entropy_with_logits(s, y),
            "bce compiled": lambda s=scores, y=floats: bce(s, y),
            "zlpr": lambda s=scores, y=targets: losses.zlpr_loss(s, y),
            "zlpr compiled": lambda s=scores, y=targets: zlpr(s, y),
        }
        best, _ = in_turn({k: lambda c=c: c().backward() for k, c in calls.items()}, 2.0)
        rows.append({"shape": [samples, labels], **best})
    return rows


def peak_of_one_step(kind: str) -> int:
    """Bytes by which the peak resident size grows in one step beyond what was there before."""
    steps(8, 400, 0.01, "cpu")[kind]()  # loads what is loaded lazily
    run = steps(*MEMORY_SHAPE, 0.01, "cpu")[kind]
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


def memory_of(kind: str) -> float:
    """Peak memory of a step beyond the inputs and the gradient, in units of the scores' size."""
    command = [sys.executable, __file__, "--child", kind]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return max(int(done.stdout) / (4 * MEMORY_SHAPE[0] * MEMORY_SHAPE[1]) - 1, 0.0)


# --- what is made of it -------------------------------------------------------------------------


def judge(points: list[Point]) -> list[tuple[str, float, float]]:
    """The bars on the grid: what, bar, measured."""
    verdicts = [bar for point in points for bar in point.bars()]
    found = {(p.samples, p.labels, p.density, p.kind): p for p in points}
    for key, place in product(found, range(4)):
        axis = sorted({other[place] for other in found}, key=KEYS[place])
        for other in axis[axis.index(key[place]) + 1 :][:1]:
            ours, theirs = found[key], found[(*key[:place], other, *key[place + 1 :])]
            # Between neighbours the time may grow by so much more than the cells do.
            cells = theirs.samples * theirs.labels / (ours.samples * ours.labels)
            jump = max(theirs.runs / ours.runs / cells, ours.runs / theirs.runs)
            verdicts.append((f"jump from {key} to {other}", JUMP, jump))
    return verdicts


def judge_rest(extra: dict[str, object]) -> list[tuple[str, float, float]]:
    """The bars on memory and on the other losses."""
    verdicts = [
        (f"memory of {kind} targets / scores at {MEMORY_SHAPE}", MEMORY_BAR, share)
        for kind, share in extra.get("memory", {}).items()  # type: ignore[attr-defined]
    ]
    for row in extra["others"]:  # type: ignore[attr-defined]
        what = f"{row['loss']} / its plain version at {tuple(row['shape'])}"
        verdicts.append((what, OTHERS_BAR, row["of_plain"]))
    return verdicts


def draw(points: list[Point], path: Path) -> None:
    """A heat map: the worst kind of targets, of BCE's and of the circulating version's time."""
    import matplotlib.pyplot as plt

    shapes = sorted({(p.samples, p.labels) for p in points}, key=lambda s: (s[0] * s[1], s))
    densities = sorted({p.density for p in points})
    figure, panels = plt.subplots(1, 2, figsize=(9, 7), sharey=True, layout="constrained")
    for panel, name, limit in zip(panels, ("of_bce", "of_snippet"), (3.0, 1.0), strict=True):
        table = [
            [max(getattr(p, name) for p in points if (p.samples, p.labels) == s and p.density == d)
             for d in densities]
            for s in shapes
        ]  # fmt: skip
        panel.imshow(table, aspect="auto", cmap="RdYlGn_r", vmin=0.0, vmax=limit)
        for row, values in enumerate(table):
            for column, value in enumerate(values):
                panel.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7)
        panel.set_xticks(range(len(densities)), [f"{100 * d:g} %" for d in densities])
        panel.set_xlabel("positive cells")
        panel.set_title("of BCE's time" if name == "of_bce" else "of the circulating version's")
    panels[0].set_yticks(range(len(shapes)), [f"{b} x {n:,}" for b, n in shapes])
    panels[0].set_ylabel("batch x labels")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def print_report(
    points: list[Point],
    extra: dict[str, object],
    verdicts: list[tuple[str, float, float]],
) -> None:
    """Tables of what was measured, and how it stands to the bars."""
    print(f"{'batch x labels':>16}{'positive':>9} {'kind':<6}{'us':>9}"
          f"{'/ bce':>7}{'/ circ.':>8}{'single / bce':>14}")  # fmt: skip
    for p in points:
        print(
            f"{p.samples:>7} x{p.labels:>7}{p.density:>9.3f} {p.kind:<6}{p.runs:>9.0f}"
            f"{p.of_bce:>7.2f}{p.of_snippet:>8.2f}{p.single / p.single_bce:>14.2f}"
        )
    for name, found in extra.items():
        print(f"\n{name}")
        for row in found.items() if isinstance(found, dict) else found:  # type: ignore[attr-defined]
            print("  ", row)
    missed = [verdict for verdict in verdicts if verdict[2] > verdict[1]]
    print(f"\n{len(verdicts) - len(missed)} of {len(verdicts)} bars met")
    for what, bar, measured in missed:
        print(f"MISSED {measured:7.3f} <= {bar:<4} {what}")


if __name__ == "__main__":
    raise SystemExit(main())

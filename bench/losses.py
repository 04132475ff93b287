"""Speed and memory of ZLPR over a grid of shapes, as ratios within one run.

    python bench/losses.py --out grid.json                    # measure, print, judge
    python bench/losses.py --out grid.json --compile          # compiled against eager, too
    python bench/losses.py --device cuda                      # on a card; without bars on memory

Times are of forward plus backward in float32 on two threads, the losses in turn, round by round.
`runs` are the best of turns of several calls each; `single` are medians of single calls, when each
loss finds the caches as another left them; `step` is what a loss adds to a model's step right
before it. The baselines are `F.binary_cross_entropy_with_logits` and the version of ZLPR in
circulation. A place of the grid that misses a bar is measured again, all losses for as long as
before, at most twice, and the best turns of all rounds count, for every loss. The time may grow
between neighbours by half more than the cells do, or than BCE's where that changes more: there the
scores have outgrown a cache, or other work has slowed the memory. With `--out` every place is kept
as soon as it is measured, and a run goes on where it stopped. Memory is the peak resident size
beyond the inputs, of a child process that runs one step, in units of the scores' size; the
gradient, one such unit, is taken off.
"""

import argparse
import ctypes
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
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
TURN, TURN_SECONDS = 10, 0.002  # calls of a turn, and what it takes at most
SMALL, LARGE = 10_000, 100_000  # cells
JUMP = 1.5
KEYS: tuple[Callable[..., float], ...] = (int, int, float, KINDS.index)  # the axes' order
STEP_SHAPES = [(32, 28, 0.042), (32, 618, 0.002), (256, 600, 0.01), (256, 600, 0.3)]
MEMORY_SHAPE = (256, 10_000)
MEMORY_BAR = 1.2
AGAIN = 2  # times that a place with a miss is measured again


Place = tuple[int, int, float]


@dataclass(frozen=True)
class Point:
    """ZLPR at one place of the grid with one kind of targets, in microseconds."""

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
    def place(self) -> Place:
        """Batch, labels and share of positive cells."""
        return self.samples, self.labels, self.density

    @property
    def of_bce(self) -> float:
        """Of BCE's time."""
        return self.runs / self.runs_bce

    @property
    def of_snippet(self) -> float:
        """Of the circulating version's time."""
        return self.runs / self.runs_snippet

    def verdicts(self) -> Iterator["Verdict"]:
        """How it stands to the bars."""
        where = f"({self.samples}, {self.labels}), {self.density:g} positive, {self.kind}"
        cells = self.samples * self.labels
        yield Verdict(f"zlpr / circulating at {where}", 0.8, self.of_snippet, (self.place,))
        if cells < SMALL:
            yield Verdict(f"zlpr / bce at {where}", 3.0, self.of_bce, (self.place,))
        elif cells >= LARGE and self.density <= 0.3:
            bar = 1.0 if self.density <= 0.01 else 2.0
            yield Verdict(f"zlpr / bce at {where}", bar, self.of_bce, (self.place,))

    def better(self, other: "Point") -> "Point":
        """The best turns of both; the single calls of the first."""
        names = ("runs", "runs_bce", "runs_snippet")
        return replace(self, **{n: min(getattr(self, n), getattr(other, n)) for n in names})


@dataclass(frozen=True)
class Verdict:
    """A bar and what was measured, at which places."""

    what: str
    bar: float
    measured: float
    places: tuple[Place, ...] = ()

    @property
    def is_met(self) -> bool:
        """Whether it is at most the bar."""
        return self.measured <= self.bar


def main() -> int:
    """Measure, print and say by the exit code whether every bar is met."""
    args = arguments()
    torch.set_num_threads(args.threads)
    if args.child:
        print(peak_of_one_step(args.child))
        return 0
    record = Record(args.out, {"device": args.device, "threads": args.threads,
                               "torch": torch.__version__})  # fmt: skip
    # As in a process that trains: the C library keeps what is freed up to the largest size it saw.
    torch.ones(30 * 2**20 // 4)
    measure_grid(record, (args.batches, args.labels, args.densities), args.device, args.seconds)
    record.measure("step", lambda: after_a_model(args.device))
    if args.device == "cpu":
        record.measure("memory", lambda: {kind: memory_of(kind) for kind in (*KINDS, "indices")})
    if args.compile:
        record.measure("compiled", lambda: compiled(args.device))
    points = [point for found in record.points.values() for point in found]
    verdicts = [*judge(points), *judge_memory(record.rest)]
    if args.json:
        print(json.dumps(record.as_json(), indent=2))
    elif args.table:
        print_table(points)
    else:
        print_report(points, record.rest, verdicts)
    return 0 if all(verdict.is_met for verdict in verdicts) else 1


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="JSON file to keep and to go on from")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--table", action="store_true", help="print a short table in Markdown")
    parser.add_argument("--compile", action="store_true", help="torch.compile against eager")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=200.0, help="for the grid, at least")
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES, help="of the grid")
    parser.add_argument("--labels", type=int, nargs="+", default=LABELS, help="of the grid")
    parser.add_argument("--densities", type=float, nargs="+", default=DENSITIES, help="of the grid")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser.parse_args()


class Record:
    """What has been measured, kept in a file if there is one.

    Args:
        path: The file to go on from.
        settings: What must be the same for that.
    """

    def __init__(self, path: Path | None, settings: dict[str, object]) -> None:
        self.path, self.settings = path, settings
        self.points: dict[Place, list[Point]] = {}
        self.rounds: dict[Place, int] = {}
        self.rest: dict[str, object] = {}
        if path is None or not path.exists():
            return
        kept = json.loads(path.read_text())
        if kept["settings"] != settings:
            raise SystemExit(f"{path} was measured with {kept['settings']}, not {settings}")
        for row in kept["places"]:
            found = [Point(**point) for point in row["points"]]
            self.points[found[0].place], self.rounds[found[0].place] = found, row["rounds"]
        self.rest = kept["rest"]

    def as_json(self) -> dict[str, object]:
        """What the file holds."""
        places = [
            {"rounds": self.rounds[place], "points": [asdict(point) for point in found]}
            for place, found in self.points.items()
        ]
        return {"settings": self.settings, "places": places, "rest": self.rest}

    def add(self, place: Place, found: list[Point]) -> None:
        """Keep what was measured at a place, beside what was measured there before."""
        before = self.points.get(place)
        if before is not None:
            found = [one.better(two) for one, two in zip(before, found, strict=True)]
        self.points[place] = found
        self.rounds[place] = self.rounds.get(place, 0) + 1
        self._write()

    def measure(self, name: str, function: Callable[[], object]) -> None:
        """Keep a part besides the grid, unless it is there."""
        if name not in self.rest:
            self.rest[name] = function()
            self._write()

    def _write(self) -> None:
        if self.path is not None:
            part = self.path.with_suffix(".part")
            part.write_text(json.dumps(self.as_json()))
            part.replace(self.path)


# --- what is measured ---------------------------------------------------------------------------


def steps(samples: int, labels: int, density: float, device: str) -> dict[str, Callable[[], None]]:
    """Forward plus backward of each loss, on the same scores."""
    generator = torch.Generator().manual_seed(0)
    targets = torch.rand(samples, labels, generator=generator) < density
    scores = torch.randn(samples, labels, generator=generator).to(device).requires_grad_()
    soft = torch.where(targets, 0.9, 0.1 * torch.rand(samples, labels, generator=generator))
    most = max(int(targets.sum(dim=1).max()), 1)
    indices = torch.where(targets, torch.arange(labels), -1).topk(most, sorted=False).indices
    indices = torch.where(targets.gather(1, indices), indices, -1).to(device)
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
    """Best of turns of calls, and medians of single calls, in microseconds.

    Rounds go through all of them in turn until the time is over, six at least. Turns are of one
    call where calls are long, and the slow ones have theirs in every third round only.
    """
    turns = {}
    for name, run in runs.items():
        run()  # the first is not counted
        turns[name] = max(1, min(TURN, int(TURN_SECONDS / seconds_of(run))))
    best = dict.fromkeys(runs, float("inf"))
    singles: dict[str, list[float]] = {name: [] for name in runs}
    start = time.perf_counter()
    rounds = 0
    while rounds < 6 or time.perf_counter() - start < seconds:
        now = [name for name in runs if name not in slow or rounds % 3 == 0]
        for name in now:
            singles[name].append(seconds_of(runs[name]))
        for name in now:
            best[name] = min(best[name], turn_of(runs[name], turns[name]), singles[name][-1])
        rounds += 1
    return (
        {name: 1e6 * value for name, value in best.items()},
        {name: 1e6 * statistics.median(values) for name, values in singles.items()},
    )


def turn_of(run: Callable[[], None], calls: int) -> float:
    """Seconds of a call, in a turn of several after one that finds what another loss left."""
    if calls > 1:
        run()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def measure_grid(
    record: Record,
    axes: tuple[Sequence[int], Sequence[int], Sequence[float]],
    device: str,
    seconds: float,
) -> None:
    """ZLPR at every place, small shapes first; then anew where a bar is missed."""
    places = sorted(product(*axes), key=lambda place: place[0] * place[1])
    share = seconds / len(places)
    for place in shown(places):
        if place not in record.points:
            record.add(place, measure(place, device, share))
    for _ in range(AGAIN):
        points = [point for place in places for point in record.points[place]]
        missed = {p for verdict in judge(points) if not verdict.is_met for p in verdict.places}
        for place in shown([place for place in places if place in missed]):
            if record.rounds[place] <= AGAIN:
                record.add(place, measure(place, device, share))


def shown(places: list[Place]) -> Iterable[Place]:
    """The places, each announced where somebody watches."""
    for number, place in enumerate(places, start=1):
        if sys.stderr.isatty():
            print(f"\r{number} of {len(places)}: {place}   ", end="", file=sys.stderr)
        yield place


def measure(place: Place, device: str, seconds: float) -> list[Point]:
    """ZLPR at one place, with each kind of targets."""
    runs = steps(*place, device)
    del runs["indices"]
    slow = (SNIPPET,) if place[0] * place[1] >= LARGE else ()
    best, single = in_turn(runs, seconds, slow)
    return [
        Point(*place, kind, best[kind], best[BCE], best[SNIPPET], single[kind], single[BCE])
        for kind in KINDS
    ]


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
    ctypes.CDLL(None).malloc_trim(0)  # what is free but not given back would hide what is taken
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


def judge(points: list[Point]) -> list[Verdict]:
    """The bars on the grid, at each point and between neighbours."""
    verdicts = [verdict for point in points for verdict in point.verdicts()]
    found = {(*p.place, p.kind): p for p in points}
    for key, axis in product(found, range(4)):
        values = sorted({other[axis] for other in found}, key=KEYS[axis])
        for value in values[values.index(key[axis]) + 1 :][:1]:
            one, two = found[key], found[(*key[:axis], value, *key[axis + 1 :])]
            what = f"jump from {key} to {value}"
            verdicts.append(Verdict(what, JUMP, jump(one, two), (one.place, two.place)))
    return verdicts


def jump(one: Point, two: Point) -> float:
    """By how much more the time changes between neighbours than the cells, or than BCE's does."""
    cells = max(two.samples * two.labels / (one.samples * one.labels), 1.0)
    growth, growth_of_bce = two.runs / one.runs, two.runs_bce / one.runs_bce
    return max(growth / max(cells, growth_of_bce), min(growth_of_bce, 1.0) / growth)


def jumps_of_all(points: list[Point]) -> int:
    """How many neighbours are further apart than the bar, whatever BCE does there."""
    alone = [replace(point, runs_bce=1.0) for point in points]
    found = [v for v in judge(alone) if v.what.startswith("jump") and not v.is_met]
    return len(found)


def judge_memory(rest: dict[str, object]) -> list[Verdict]:
    """The bars on memory."""
    return [
        Verdict(f"memory of {kind} targets / scores at {MEMORY_SHAPE}", MEMORY_BAR, share)
        for kind, share in rest.get("memory", {}).items()  # type: ignore[attr-defined]
    ]


def in_words(low: float, high: float) -> str:
    """A span of ratios of times as people say it: how many times faster or slower."""
    if low >= 1.0:
        return f"{_span(low, high)} times slower"
    if high <= 1.0:
        return f"{_span(1 / high, 1 / low)} times faster"
    if low > 0.9 and high < 1.11:
        return "as fast"
    return f"{high:.1f} times slower to {1 / low:.1f} times faster"


def _span(low: float, high: float) -> str:
    first, last = f"{low:.1f}", f"{high:.1f}"
    return first if first == last else f"{first} to {last}"


def print_table(points: list[Point]) -> None:
    """By shape, over all densities, how many times faster or slower, in Markdown."""
    heads = [f"{kind} targets, against BCE" for kind in KINDS]
    print("| batch x labels", *heads, "all, against the usual ZLPR", sep=" | ", end=" |\n")
    print("|---" * (2 + len(KINDS)) + "|")
    shapes = sorted({p.place[:2] for p in points}, key=lambda s: (s[0] * s[1], s))
    for shape in shapes:
        here = [p for p in points if p.place[:2] == shape]
        cells = [[p.of_bce for p in here if p.kind == kind] for kind in KINDS]
        cells.append([p.of_snippet for p in here])
        spans = (in_words(min(values), max(values)) for values in cells)
        print(f"| {shape[0]} x {shape[1]:,}", *spans, sep=" | ", end=" |\n")


def print_report(points: list[Point], rest: dict[str, object], verdicts: list[Verdict]) -> None:
    """Tables of what was measured, and how it stands to the bars."""
    print(f"{'batch x labels':>16}{'positive':>9} {'kind':<6}{'us':>9}"
          f"{'/ bce':>7}{'/ circ.':>8}{'single / bce':>14}")  # fmt: skip
    for p in points:
        print(
            f"{p.samples:>7} x{p.labels:>7}{p.density:>9.3f} {p.kind:<6}{p.runs:>9.0f}"
            f"{p.of_bce:>7.2f}{p.of_snippet:>8.2f}{p.single / p.single_bce:>14.2f}"
        )
    for name, found in rest.items():
        print(f"\n{name}")
        for row in found.items() if isinstance(found, dict) else found:  # type: ignore[attr-defined]
            print("  ", row)
    missed = [verdict for verdict in verdicts if not verdict.is_met]
    jumps = sum(verdict.what.startswith("jump") for verdict in verdicts)
    print(f"\n{jumps_of_all(points)} of {jumps} jumps are beyond {JUMP:g} without regard to BCE's")
    print(f"bars: met {len(verdicts) - len(missed)} of {len(verdicts)}, missed:"
          + ("" if missed else " none"))  # fmt: skip
    for verdict in missed:
        print(f"  {verdict.measured:7.3f} <= {verdict.bar:<4} {verdict.what}")


if __name__ == "__main__":
    raise SystemExit(main())

"""What we write by hand where a library has it: is it worth it?

    python bench/by_hand.py solver --data mulan/bibtex
    python bench/by_hand.py solver --data goemotions --simplified --losses zlpr bce
    python bench/by_hand.py features --data goemotions --simplified
    python bench/by_hand.py features --data duee --analyzer char

`solver`: our L-BFGS with its preconditioner against `torch.optim.LBFGS` (strong Wolfe) and scipy's
L-BFGS-B, both as they come and in variables that are scaled by the same preconditioner, over the
same objective. Each goes on until it reaches the objective at which ours stops by its own rule, to
within `SLACK` of what there is to gain, and is sent on without its memory where it stops before;
one that gets no further counts as `PATIENCE` times ours, and a case in which ours gets no further
does not count. Time, evaluations, peak memory beyond the data and validation's average precision at
that point are shown. `cold` starts from nothing, `path` goes down the regularisations by warm
starts, each from its own solution before.

`features`: our TF-IDF against scikit-learn's `TfidfVectorizer` with the same settings, which gives
the same numbers, and `HashingVectorizer` with `TfidfTransformer`; time to fit and to transform,
peak memory beyond the texts, and what a linear model makes of them on validation.

Times are CPU seconds (set OMP_NUM_THREADS=1) and their ratios are within one run. A thing of ours
stays where the best library takes 1.3 times its time or more at equal quality.
"""

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import optimize
from torch import Tensor

from training import SIMPLIFIED
from zlpr.cli._console import print_table
from zlpr.data import Dataset, load, make_split
from zlpr.metrics import average_precision
from zlpr.models.features import FeatureConfig, TextFeatures
from zlpr.training import LinearConfig
from zlpr.training.lbfgs import minimise
from zlpr.training.linear_features import extract_features
from zlpr.training.regularisation import RATIO
from zlpr.training.solvers import WholeData

SLACK = 1e-3
# An arm that takes so many times as long as ours is stopped.
PATIENCE = 3.0
MOST_EVALUATIONS = 10_000
Function = Callable[[Tensor], tuple[float, Tensor]]


class ReachedError(Exception):
    """Thrown out of a library's loop, which has no other way to stop at a given objective."""


class Race:
    """An objective that notes its best point and stops whoever evaluates it once it is low enough.

    Args:
        function: parameters to value and gradient.
        target: the value that ends the race.
        most_seconds: that it may take; who needs more has lost.
    """

    def __init__(self, function: Function, target: float, most_seconds: float) -> None:
        self.function, self.target = function, target
        self.end = time.process_time() + most_seconds
        self.evaluations, self.value = 0, float("inf")
        self.parameters = torch.empty(0)  # where the value was lowest

    def __call__(self, parameters: Tensor) -> tuple[float, Tensor]:
        """Value and gradient, unless the race is over."""
        value, gradient = self.function(parameters)
        self.evaluations += 1
        if value < self.value:
            self.value = value
            self.parameters = self.parameters.resize_as_(parameters).copy_(parameters)
        if value <= self.target or time.process_time() > self.end:
            raise ReachedError
        return value, gradient


def run_ours(race: Race, start: Tensor, scale: Tensor | None, memory: int) -> None:
    """Until the race ends."""
    minimise(
        race,
        start,
        preconditioner=None if scale is None else scale.square(),
        first_step=1.0,
        tolerance=0.0,
        max_iterations=MOST_EVALUATIONS,
        memory=memory,
    )


def run_torch(race: Race, start: Tensor, scale: Tensor | None, memory: int) -> None:
    """torch.optim.LBFGS over `v` with parameters `scale * v`."""
    variables = start.clone() if scale is None else start / scale
    optimiser = torch.optim.LBFGS(
        [variables],
        max_iter=MOST_EVALUATIONS,
        max_eval=MOST_EVALUATIONS,
        history_size=memory,
        tolerance_grad=0.0,
        tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )

    def closure() -> float:
        value, gradient = race(variables if scale is None else variables * scale)
        variables.grad = gradient if scale is None else gradient.mul_(scale)
        return value

    optimiser.step(closure)


def run_scipy(race: Race, start: Tensor, scale: Tensor | None, memory: int) -> None:
    """L-BFGS-B of scipy over `v`, in double precision, which is its only one."""
    first = start if scale is None else start / scale

    def function(variables: np.ndarray) -> tuple[float, np.ndarray]:
        parameters = torch.from_numpy(variables.astype(np.float32)).reshape(start.shape)
        value, gradient = race(parameters if scale is None else parameters.mul_(scale))
        gradient = gradient if scale is None else gradient.mul_(scale)
        return value, gradient.reshape(-1).double().numpy()

    options = {"maxcor": memory, "ftol": 0.0, "gtol": 0.0, "maxfun": MOST_EVALUATIONS}
    optimize.minimize(
        function, first.reshape(-1).numpy(), jac=True, method="L-BFGS-B", options=options
    )


ARMS: dict[str, tuple[Callable[..., None], bool]] = {
    "ours": (run_ours, True),
    "ours, plain": (run_ours, False),
    "torch, scaled": (run_torch, True),
    "torch": (run_torch, False),
    "scipy, scaled": (run_scipy, True),
    "scipy": (run_scipy, False),
}


@dataclass(frozen=True)
class Arm:
    """What one way took to get to the same place."""

    loss: str
    name: str
    start: str
    seconds: float
    evaluations: int
    megabytes: float
    average_precision: float
    reached: bool

    @property
    def case(self) -> tuple[str, str]:
        """What the arms are compared on."""
        return self.loss, self.start


class PeakMemory:
    """The highest resident memory within a block, beyond what was resident before; Linux only."""

    def __enter__(self) -> "PeakMemory":
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        self._before = self._read("VmRSS")
        self.megabytes = 0.0
        return self

    def __exit__(self, *error: object) -> None:
        self.megabytes = (self._read("VmHWM") - self._before) / 1024

    @staticmethod
    def _read(name: str) -> int:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name))


def race_once(
    solver: WholeData,
    regularisation: float,
    start: Tensor,
    target: float,
    name: str,
    most_seconds: float,
) -> tuple[Race, float]:
    """One arm at one regularisation, to the target."""
    run, scaled = ARMS[name]
    race = Race(
        lambda parameters: solver.objective(parameters, regularisation), target, most_seconds
    )
    began = time.process_time()
    scale = solver.objective.preconditioner(regularisation).sqrt_() if scaled else None
    gained = True
    with contextlib.suppress(ReachedError):
        while gained:  # whoever stops before is sent on from where it was best
            before = race.value
            run(race, start, scale, solver.memory)
            start, gained = race.parameters.clone(), race.value < before
    return race, time.process_time() - began


def targets_of(solver: WholeData, path: list[float], *, cold: bool) -> list[float]:
    """The objective at which ours stops by its own rule, per regularisation, and a little slack."""
    found, start = [], solver.start()
    for regularisation in path:
        solution = solver.solve(start, regularisation)
        value = solution.loss * solver.objective.num_samples
        found.append(value + SLACK * (solver.objective.reference - value))
        start = solver.start() if cold else solution.parameters
    return found


def compare_solvers(
    data: dict[str, Any], losses: list[str], arms: list[str], repeat: int
) -> Iterator[Arm]:
    """Every arm on every loss, from nothing and along the path."""
    for loss in losses:
        solver = WholeData(data["features"], data["labels"], LinearConfig(loss=loss))
        balance = solver.balance()
        for kind, path in (
            ("cold", [balance / RATIO]),
            ("path", [balance, balance / RATIO, balance / 10, balance / 10 / RATIO]),
        ):
            targets = targets_of(solver, path, cold=kind == "cold")
            best: dict[str, Arm] = {}
            for _ in range(repeat):  # turn by turn, so that a disturbance hits all alike
                for name in arms:
                    limit = PATIENCE * best["ours"].seconds if "ours" in best else np.inf
                    arm = run_path(solver, path, targets, name, loss, kind, data, limit)
                    print(loss, kind, name, f"{arm.seconds:.2f} s", file=sys.stderr)
                    best[name] = min(best.get(name, arm), arm, key=lambda one: one.seconds)
            yield from best.values()


def run_path(
    solver: WholeData,
    path: list[float],
    targets: list[float],
    name: str,
    loss: str,
    kind: str,
    data: dict[str, Any],
    most_seconds: float,
) -> Arm:
    """One arm along the regularisations."""
    start, seconds, evaluations, reached = solver.start(), 0.0, 0, True
    with PeakMemory() as peak:
        for regularisation, target in zip(path, targets, strict=True):
            left = most_seconds - seconds
            race, took = race_once(solver, regularisation, start, target, name, left)
            seconds, evaluations = seconds + took, evaluations + race.evaluations
            start = race.parameters.clone()
            if race.value > target:
                reached = False
                break
    weight, bias = solver.model(start)
    scores = np.asarray(data["validation"] @ weight + bias, dtype=np.float32)
    quality = average_precision(data["truth"], scores)
    return Arm(loss, name, kind, seconds, evaluations, peak.megabytes, quality, reached)


def show_solvers(arms: list[Arm]) -> None:
    """Times as multiples of ours."""
    ours = {arm.case: arm.seconds for arm in arms if arm.name == "ours"}
    fair = {arm.case for arm in arms if arm.name == "ours" and arm.reached}

    def times(arm: Arm) -> float:
        ratio = arm.seconds / ours[arm.case]
        return ratio if arm.reached else max(ratio, PATIENCE)

    print_table(
        ["loss", "start", "arm", "seconds", "times ours", "evaluations", "MB", "validation AP"],
        [
            [
                arm.loss,
                arm.start,
                arm.name,
                f"{arm.seconds:.2f}",
                ("" if arm.reached else "over ") + f"{times(arm):.2f}",
                str(arm.evaluations),
                f"{arm.megabytes:.0f}",
                f"{arm.average_precision:.4f}",
            ]
            for arm in arms
        ],
    )
    for name in dict.fromkeys(arm.name for arm in arms if arm.name != "ours"):
        ratios = [times(arm) for arm in arms if arm.name == name and arm.case in fair]
        print(f"{name}: {float(np.exp(np.mean(np.log(ratios)))):.2f} times ours (geometric mean)")


@dataclass(frozen=True)
class Reader:
    """What one way to make features took."""

    name: str
    analyzer: str
    fit_seconds: float
    transform_seconds: float
    megabytes: float
    features: int
    average_precision: float


def readers(
    config: FeatureConfig, analyzer: str, num_texts: int, hashes: int
) -> dict[str, Callable[[], Any]]:
    """The ways to make features, by the same n-grams."""
    from sklearn.feature_extraction.text import (
        HashingVectorizer,
        TfidfTransformer,
        TfidfVectorizer,
    )
    from sklearn.pipeline import make_pipeline

    ngrams = config.word_ngrams if analyzer == "word" else config.char_ngrams
    smallest = 1 if num_texts < 5_000 else 2 if num_texts < 100_000 else 3
    same: dict[str, Any] = {"analyzer": analyzer, "ngram_range": ngrams, "dtype": np.float32}
    return {
        "ours": lambda: TextFeatures(config),
        "TfidfVectorizer": lambda: TfidfVectorizer(**same, min_df=smallest, sublinear_tf=True),
        "HashingVectorizer": lambda: make_pipeline(
            HashingVectorizer(**same, n_features=hashes, alternate_sign=False, norm=None),
            TfidfTransformer(sublinear_tf=True),
        ),
    }


def compare_features(
    data: dict[str, Dataset],
    analyzer: str,
    ngrams: tuple[int, int] | None,
    hashes: int,
    repeat: int,
) -> Iterator[Reader]:
    """Each way on the training texts, and then on validation's."""
    texts, new = data["train"].texts, data["validation"].texts
    if texts is None or new is None:
        raise SystemExit("these data have no texts")
    chosen = {} if ngrams is None else {f"{analyzer}_ngrams": ngrams}
    config = FeatureConfig(analyzer=analyzer, **chosen)  # type: ignore[arg-type]
    ways = readers(config, analyzer, len(texts), hashes)
    best: dict[str, Reader] = {}
    for _ in range(repeat):
        for name, make in ways.items():
            with PeakMemory() as peak:
                maker = make()
                first = time.process_time()
                train = maker.fit_transform(texts)
                second = time.process_time()
                validation = maker.transform(new)
                third = time.process_time()
            known = best.get(name)
            quality = known.average_precision if known else judge(data, train, validation)
            best[name] = Reader(
                name,
                analyzer,
                min(second - first, known.fit_seconds if known else np.inf),
                min(third - second, known.transform_seconds if known else np.inf),
                min(peak.megabytes, known.megabytes if known else np.inf),
                train.shape[1],
                quality,
            )
    yield from best.values()


def judge(data: dict[str, Dataset], train: Any, validation: Any) -> float:
    """Validation's average precision of one fit."""
    solver = WholeData(train, data["train"].labels, LinearConfig())
    weight, bias = solver.model(solver.solve(solver.start(), solver.balance() / 10).parameters)
    scores = np.asarray(validation @ weight + bias, dtype=np.float32)
    return float(average_precision(data["validation"].labels, scores))


def show_features(found: list[Reader]) -> None:
    """Times as multiples of ours."""
    ours = found[0]
    print_table(
        [
            "way",
            "analyzer",
            "fit, s",
            "times ours",
            "transform, s",
            "times ours",
            "MB",
            "columns",
            "validation AP",
        ],
        [
            [
                one.name,
                one.analyzer,
                f"{one.fit_seconds:.2f}",
                f"{one.fit_seconds / ours.fit_seconds:.2f}",
                f"{one.transform_seconds:.3f}",
                f"{one.transform_seconds / ours.transform_seconds:.2f}",
                f"{one.megabytes:.0f}",
                f"{one.features:,}",
                f"{one.average_precision:.4f}",
            ]
            for one in found
        ],
    )


def read(args: argparse.Namespace) -> dict[str, Dataset]:
    """The data's parts, its own or ours, and of the training part as many samples as asked for."""
    whole = load(args.data, **(SIMPLIFIED if args.simplified else {}))
    published = whole.split is not None and (whole.split == "validation").any()
    whole = whole if published else make_split(whole)
    parts = {part: whole.part(part) for part in ("train", "validation")}
    if args.samples and args.samples < len(parts["train"]):
        parts["train"] = parts["train"].select(range(args.samples))
    return parts


def main() -> int:
    """Run one comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["solver", "features"])
    parser.add_argument("--data", required=True)
    parser.add_argument("--simplified", action="store_true", help="GoEmotions' published split")
    parser.add_argument("--samples", type=int, help="of the training part; all if not given")
    parser.add_argument("--losses", nargs="+", default=["zlpr", "bce", "focal", "lsep"])
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--analyzer", choices=["word", "char"], default="word")
    parser.add_argument("--ngrams", type=int, nargs=2, help="shortest and longest")
    parser.add_argument("--hashes", type=int, default=2**20, help="columns of HashingVectorizer")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", help="write the figures here as well")
    args = parser.parse_args()
    parts = read(args)
    found: list[Any]
    if args.what == "features":
        ngrams = tuple(args.ngrams) if args.ngrams else None
        found = list(compare_features(parts, args.analyzer, ngrams, args.hashes, args.repeat))
        show_features(found)
    else:
        features = extract_features(parts["train"], parts["validation"])
        data = {
            "features": features.train,
            "labels": parts["train"].labels,
            "validation": features.validation,
            "truth": parts["validation"].labels,
        }
        found = list(compare_solvers(data, args.losses, args.arms, args.repeat))
        show_solvers(found)
    if args.json:
        Path(args.json).write_text(json.dumps([asdict(one) for one in found], indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())

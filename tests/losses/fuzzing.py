"""Random hard cases for every loss, and their comparison with `tests/wide_reference.py`.

A case is made from its number alone, so that any can be made again. `bench/fuzz_losses.py` runs
them by the hundred thousand, a test a few of them.
"""

import inspect
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests import wide_reference as wide
from zlpr import losses

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
BATCH = 64  # the largest number of rows of a case

# Parameters to choose from, besides the defaults.
PARAMETERS: dict[str, dict[str, list[Any]]] = {
    "zlpr": {"temperature": [0.25, 2.0]},  # by which a score is divided exactly
    "asymmetric_polynomial": {
        "gamma_positive": [1.0],
        "gamma_negative": [0.0, 1.0],
        "margin": [0.0, 0.2],
        "first": [0.0],
        "second": [0.0, 1.0],
    },
    "splc": {"tau": [0.3, 0.9], "margin": [0.0, 3.0], "gamma": [0.0, 1.0]},
    "cb_ntr": {
        "beta": [0.0, 0.999],
        "negative_scale": [0.5, 5.0],
        "prior_scale": [0.0, 1.0],
        "gamma": [0.0, 1.0],
    },
    "logit_adjusted": {"loss": ["focal", "hill"], "tau": [0.0, 0.5]},
    "focal": {"gamma": [0.0, 0.5, 1.0, 3.0]},
    "asymmetric": {
        "gamma_positive": [0.0, 2.0],
        "gamma_negative": [0.0, 1.0, 2.0],
        "margin": [0.0, 0.2],
    },
    "hill": {"weighting": [1.0, 2.0], "margin": [0.0, 3.0], "gamma": [0.0, 1.0]},
    "dice1": {"smoothing": [1e-3, 10.0]},
    "dice2": {"smoothing": [1e-3, 10.0]},
    "self_adjusting_dice": {"alpha": [0.0, 1.0], "smoothing": [1e-3, 10.0]},
    "class_balanced": {"beta": [0.0, 0.5], "gamma": [0.5, 2.0]},
    "distribution_balanced": {
        "alpha": [0.0],
        "beta": [0.0, -0.5],  # weights of a steeper one are no normal numbers
        "negative_scale": [0.5, 5.0],
        "prior_scale": [0.0, 1.0],
        "gamma": [0.0, 1.0],
    },
    "circle": {"gamma": [0.1, 64.0], "margin": [0.0, 0.5]},
    "bp_mll": {"log": [False]},
    "ranking": {"margin": [0.0, 0.3, -1.0]},
    "warp": {"margin": [0.0, 0.3], "rank_weight": ["harmonic", "log"]},
    "two_way": {"positive_temperature": [1.0], "negative_temperature": [0.5, 3.0]},
    "hbm": {"alpha": [0.0, 0.5], "margin": [0.0, 0.3]},
}
# Losses of which pairs and ranks are defined for targets of 0 and 1 only.
HARD_ONLY = {
    "ranking", "warp", "bp_mll", "lsep", "circle", "decoupled_softmax", "two_way", "hbm",
    "adaptive_threshold", "splc",
}  # fmt: skip
# Losses that are right to a rounding of what a cell counts for, be the right number smaller.
ROUNDED = {
    "focal", "asymmetric", "asymmetric_polynomial", "hill", "logit_adjusted", "dice1", "dice2",
    "self_adjusting_dice", "sigmoid_f1", "cross_entropy", "adaptive_threshold",
}  # fmt: skip
OVER_LABELS = {"dice2", "sigmoid_f1"}  # their values are the labels', not the samples'
LINEAR = {
    "zlpr (linear)": losses.linear_zlpr_loss,
    "bce (linear)": losses.linear_bce_loss,
    "lsep (linear)": losses.linear_lsep_loss,
}
FROM_INDICES = {"zlpr (indices)", *LINEAR}
WAYS = ("zlpr (formula)", "zlpr (indices)", *LINEAR, *losses.available())
COUNTS, SAMPLES = np.array([0, 40, 3, 25, 50, 12, 1, 30, 7, 49, 2, 20, 33, 5]), 50


@dataclass(frozen=True)
class Case:
    """One call of a loss.

    Attributes:
        way: The loss, for ZLPR also by which of its functions.
        scores: Shape (B, L).
        targets: Shape (B, L), bool, integer or floating-point.
        arguments: Mask, weights and reduction.
        parameters: The loss's own.
        upstream: The gradient that flows into the values.
    """

    way: str
    scores: Tensor
    targets: Tensor
    arguments: dict[str, Any]
    parameters: dict[str, Any]

    @property
    def name(self) -> str:
        """The loss's name in the registry."""
        return self.way.split()[0]


def make_case(seed: int, number: int, ways: tuple[str, ...] = WAYS) -> Case:
    """The case of a number."""
    random = np.random.default_rng([seed, number])
    way = ways[number % len(ways)]
    name = way.split()[0]
    rows, labels = int(random.integers(0, BATCH + 1)), int(random.choice([0, 1, 2, 3, 5, 8, 14]))
    rows = BATCH if random.random() < 0.9 else rows
    dtype = DTYPES[int(random.integers(len(DTYPES)))]
    scores = torch.from_numpy(_scores(random, rows, labels)).to(dtype)
    targets = _targets(random, rows, labels, name in HARD_ONLY)
    if way == "zlpr (formula)":  # which it takes where targets want a gradient
        targets = targets.to(torch.float64).requires_grad_()
    if way in LINEAR:  # by a matrix of ones and zeros, which leaves no score infinite
        scores = scores.nan_to_num()
    arguments = _arguments(random, rows, labels, name)
    if "label_mask" in arguments and random.random() < 0.3 and way not in LINEAR:
        scores = scores.masked_fill(~arguments["label_mask"], torch.nan)
    parameters = {
        parameter: random.choice(values).item()
        for parameter, values in PARAMETERS.get(name, {}).items()
        if random.random() < 0.4 and way not in LINEAR  # which have no temperature
    }
    if way in LINEAR:
        parameters["impl"] = str(random.choice(["dense", "recompute"]))
    return Case(way, scores, targets, arguments, parameters)


def _scores(random: np.random.Generator, rows: int, labels: int) -> np.ndarray[Any, Any]:
    """Scores of all sizes; some rows with infinities, ties, or a common offset."""
    scores = random.standard_normal((rows, labels))
    scores *= random.choice([0.0, 1e-6, 0.1, 1.0, 3.0, 15.0, 60.0, 300.0], size=(rows, 1))
    ties = random.random((rows, 1)) < 0.15
    scores = np.where(ties, np.round(scores), scores)
    scores += np.where(random.random((rows, 1)) < 0.1, random.choice([-1, 1]) * 1e3, 0.0)
    huge = random.choice([1e4, 6.5e4, 1e10, 1e19, 1e30, 3.38e38, 1e300, np.inf], scores.shape)
    huge *= random.choice([-1.0, 1.0], scores.shape)
    share = random.choice([0.0, 0.0, 0.1, 0.5], size=(rows, 1))
    return np.where(random.random(scores.shape) < share, huge, scores)


def _targets(random: np.random.Generator, rows: int, labels: int, hard: bool) -> Tensor:
    """Targets of all densities, empty and full rows among them; of any dtype, or soft."""
    density = random.choice([0.0, 0.1, 0.3, 0.7, 1.0], size=(rows, 1))
    truth = random.random((rows, labels)) < density
    kind = int(random.integers(5))
    if kind == 4 and not hard:
        values = np.where(random.random(truth.shape) < 0.5, truth, random.random(truth.shape))
        return torch.from_numpy(values.astype(np.float32))
    dtype = (torch.bool, torch.int64, torch.float32, torch.float64)[kind % 4]
    return torch.from_numpy(truth).to(dtype)


def _arguments(random: np.random.Generator, rows: int, labels: int, name: str) -> dict[str, Any]:
    """Mask and weights, each there or not; weights of 0 and huge ones among them."""
    per_label = name in OVER_LABELS
    takes = inspect.signature(losses.info(name).function).parameters
    arguments: dict[str, Any] = {}
    if random.random() < 0.3:
        shape = (labels,) if random.random() < 0.5 else (rows, labels)
        arguments["label_mask"] = torch.from_numpy(random.random(shape) < 0.7)
    for weight in ("label_weight", "pos_weight"):
        if weight not in takes or random.random() < 0.6:
            continue
        form = int(random.integers(3))
        if form == 0:
            arguments[weight] = float(
                random.choice([0.0, 0.3, 1.0, 7.0, 1e10, 1e15 if name == "zlpr" else 3e38])
            )
            continue
        shape = (labels,) if form == 1 or per_label else (rows, labels)
        values = np.exp(random.standard_normal(shape))
        values = np.where(random.random(shape) < 0.2, 0.0, values)
        if random.random() < 0.2:
            # ZLPR does not hold products of weights to a number, nor ratios beyond e^88.
            sizes = [1e-8, 1e8, 1e15] if name == "zlpr" else [1e-30, 1e-8, 1e8, 1e15, 3e38]
            huge = random.choice(sizes, shape)
            values = np.where(random.random(shape) < 0.3, huge, values)
        arguments[weight] = torch.from_numpy(values.astype(np.float32))
    if random.random() < 0.3:
        values = random.choice([0.0, 0.5, 1.0, 2.0, 1e6], rows)
        arguments["sample_weight"] = torch.from_numpy(values)
    return arguments


def compute(case: Case) -> tuple[Tensor, Tensor]:
    """The package's values and the gradient of their sum."""
    scores = case.scores.clone().requires_grad_()
    options: dict[str, Any] = {**case.arguments, **case.parameters, "reduction": "none"}
    if losses.info(case.name).needs_label_counts:
        labels = scores.shape[1]
        options |= {"label_counts": torch.from_numpy(COUNTS[:labels]), "num_samples": SAMPLES}
    if case.way in FROM_INDICES:
        indices = _indices(case.targets)
    if case.way == "zlpr (indices)":
        values = losses.sparse_zlpr_loss(scores, indices, **options)
    elif case.way in LINEAR:
        weight = torch.eye(scores.shape[1], dtype=scores.dtype)
        values = LINEAR[case.way](scores, weight, None, indices, **options)
    else:
        values = losses.info(case.name).function(scores, case.targets, **options)
    (gradient,) = torch.autograd.grad(values.sum(), scores, allow_unused=True)
    return values.detach(), torch.zeros_like(scores) if gradient is None else gradient


def _indices(targets: Tensor) -> Tensor:
    """The positive labels, padded with -1, in no order."""
    columns = torch.arange(targets.shape[1]).expand_as(targets)
    return torch.where(targets > 0.5, columns, -1).flip(-1)


def expect(case: Case) -> tuple[Any, Any, wide.Batch]:
    """The reference's values, the gradient of their sum, and the batch it computed with."""
    working = torch.float64 if case.scores.dtype is torch.float64 else torch.float32
    largest = torch.finfo(working).max
    limit = largest if case.name == "zlpr" else largest / 16
    most = largest if case.name == "zlpr" else largest * 2.0**-64

    def extended(values: Any) -> wide.Wide:
        tensor = torch.as_tensor(values, dtype=torch.float64)
        array = tensor.numpy().astype(np.longdouble)
        return np.broadcast_to(array, case.scores.shape).copy()

    targets = case.targets.detach()
    y = targets.to(working) if case.targets.is_floating_point() else case.targets
    if case.way in FROM_INDICES:
        y = case.targets > 0.5
    known = extended(case.arguments.get("label_mask", True))
    s = np.where(known > 0, extended(case.scores.double()), 0)
    w, u = (
        np.minimum(extended(_in(case.arguments.get(name, 1.0), working)), most)
        for name in ("label_weight", "pos_weight")
    )
    batch = wide.Batch(np.clip(s, -limit, limit), extended(y.double()), known, w, u, limit, most)
    options: dict[str, Any] = {key: of for key, of in case.parameters.items() if key != "impl"}
    if losses.info(case.name).needs_label_counts:
        counts = COUNTS[: s.shape[1]].astype(np.longdouble)
        options |= {"counts": counts, "num_samples": SAMPLES}
    weight = extended_samples(case)
    function = getattr(wide, case.name)
    if case.name in OVER_LABELS:
        values, slope = function(batch, weight, **options)
        return values, slope, batch
    if case.name == "two_way":
        return *_two_way(batch, weight, options), batch
    values, slope = function(batch, **options)
    if case.parameters.get("log") is False:  # its slopes are shares of the value, which is held
        slope *= np.minimum(1, largest / np.maximum(values * weight, 1))[:, None]
    # A value that overflows may be infinite or held to the largest number before it is weighted;
    # a slope is held.
    values = np.where((values > largest) & (weight > 0), np.inf, values * weight)
    return values, np.clip(slope, -largest, largest) * weight[:, None], batch


def _two_way(batch: wide.Batch, weight: wide.Wide, options: dict[str, Any]) -> wide.Result:
    """The weight is the samples', so that their terms and the labels' are computed one by one."""
    values, slope = wide.two_way(batch, **options)
    _, of_labels = wide.two_way(batch, of_samples=False, **options)
    rows = len(weight)
    of_samples = slope - of_labels
    values[:rows] *= weight
    return values, of_samples * weight[:, None] + of_labels


def extended_samples(case: Case) -> wide.Wide:
    """The sample weights, 1 where there are none."""
    weight = case.arguments.get("sample_weight")
    rows = case.scores.shape[0]
    return np.ones(rows, np.longdouble) if weight is None else weight.numpy().astype(np.longdouble)


def _in(weight: Any, dtype: torch.dtype) -> Any:
    """A weight as the loss has it, rounded to the dtype it computes in."""
    if isinstance(weight, Tensor):
        return weight.to(dtype)
    return min(weight, torch.finfo(dtype).max)


def complaints(case: Case) -> list[str]:
    """What is wrong with the package's values and gradient, nothing where all is right."""
    with np.errstate(all="ignore"):
        expected, slope, batch = expect(case)
        values, gradient = compute(case)
        found = []
        if values.shape != expected.shape:
            return [f"the values have the shape {tuple(values.shape)}, not {expected.shape}"]
        doubtful = _doubtful_rows(case, batch)
        floor = _floor(case, batch)
        across = floor.sum(axis=1) if case.name not in OVER_LABELS else 0.0
        if case.name == "two_way":
            across = 0.0
        found += _compare(
            "value", values, expected, _tolerance(case, values.dtype), across, doubtful
        )
        tolerance = _tolerance(case, gradient.dtype, batch)
        found += _compare("gradient", gradient, slope, tolerance, floor, doubtful)
    return found


def _tolerance(
    case: Case, dtype: torch.dtype, batch: wide.Batch | None = None
) -> tuple[Any, float]:
    """Relative to the number, and absolute: the smallest normal number times some terms.

    The exponents of the circle loss are squares of scores, of which a rounding of a large one moves
    the shares of the gradient.
    """
    working = torch.float64 if case.scores.dtype is torch.float64 else torch.float32
    relative = max(3000 * torch.finfo(working).eps, 2 * torch.finfo(dtype).eps)
    if case.name == "circle" and batch is not None and batch.s.shape[1] > 0:
        gamma = max(case.parameters.get("gamma", 1.0), 1e-300)
        square = np.where(batch.a + batch.b > 0, gamma * (np.abs(batch.s) + 2) ** 2, 0)
        extra = 8 * torch.finfo(working).eps * square.max(axis=1, keepdims=True)
        return relative + extra, 100 * torch.finfo(dtype).tiny
    return relative, 100 * torch.finfo(dtype).tiny


def _floor(case: Case, batch: wide.Batch) -> Any:
    """What a cell may be off by whatever its size: some roundings of what it counts for.

    Functions of the probability alone do not see the last digits of one near 1, and shares of a
    softmax that cancel leave a rounding, as do the two sides of a soft target.
    """
    info = torch.finfo(torch.float64 if case.scores.dtype is torch.float64 else torch.float32)
    eps = float(info.eps)
    if case.name == "splc":  # a missing label may count as a positive one
        batch = replace(batch, u=np.maximum(batch.u, 1), y=np.ones_like(batch.y))
    weight = (batch.a + batch.b) * extended_samples(case)[:, None]
    is_soft = (batch.y > 0) & (batch.y < 1)
    if case.name == "zlpr" and is_soft.any():
        return 30 * eps * extended_samples(case)[:, None] + 0 * weight
    if case.name == "bp_mll":  # a logarithm, which may be near 0 by chance
        return 30 * eps * extended_samples(case)[:, None] / max(weight.shape[1], 1) + 0 * weight
    if case.name == "decoupled_softmax":  # a share that is lost, of what all positives pull
        weight = weight.sum(axis=1, keepdims=True) + 0 * weight
    if case.name not in ROUNDED:
        return np.where(is_soft, 30 * eps, 100 * float(info.tiny)) * weight
    if case.name in ("cross_entropy", "adaptive_threshold"):
        weight = weight.sum(axis=1, keepdims=True) + 0 * weight
    steep = max(1.0, 1 / case.parameters.get("smoothing", 1.0)) ** 2
    return 30 * eps * steep * weight


def _doubtful_rows(case: Case, batch: wide.Batch) -> np.ndarray[Any, Any]:
    """Rows where a rounding decides: HBM's cells that are right by the margin, but for a digit."""
    rows = np.zeros(len(batch.s), bool)
    if case.name == "hbm":
        margin = case.parameters.get("margin", 0.01)
        for sign, c in ((-1, batch.a), (1, batch.b)):
            d = sign * batch.s + wide.bias_of_side(batch, c, case.parameters.get("alpha", 1.0))
            near = np.abs(wide.sigmoid(2 * d) / np.longdouble(max(margin, 1e-300)) - 1) < 1e-3
            rows |= (near & (c > 0)).any(axis=1)
    return rows


def _compare(
    what: str,
    actual: Tensor,
    expected: wide.Wide,
    tolerance: tuple[float, float],
    floor: Any,
    doubtful: np.ndarray[Any, Any],
) -> list[str]:
    """Complaints on each row that is off."""
    largest = torch.finfo(actual.dtype).max
    held = np.clip(expected, -largest, largest)  # an overflow may be infinite or the largest number
    got = np.clip(actual.double().numpy().astype(np.longdouble), -largest, largest)
    got = np.where((expected == np.inf) & (got > 1e-7 * largest), largest, got)
    off = ~(np.abs(got - held) <= tolerance[0] * np.abs(held) + tolerance[1] + floor)
    if doubtful.any() and off.shape[:1] == doubtful.shape:
        off[doubtful] = False
    return [
        f"{what}{place.tolist()} is {got[tuple(place)]:.9g}, not {held[tuple(place)]:.9g}"
        for place in np.argwhere(off)[:3]
    ]

r"""Which loss suits which metric, without training noise.

A population is a handful of inputs, each with its own joint distribution of labels. Every loss's
risk minimiser is found for it, decided at zero or at the best cut, and measured exactly (by summing
over all label sets) against the best that any predictor could reach on each of the six metrics.
The difference is the loss's regret: what is lost even with infinite data and a perfect model.

Three losses are left out. Asymmetric and HBM let no gradient through some of their weights, so that
training does not end where their value is lowest. BP-MLL in its log form has no minimum on many of
the joints; see `risk_minimiser`.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from zlpr.losses import registry
from zlpr.metrics import PAPER_METRICS, info
from zlpr.theory.hinge import rankings
from zlpr.theory.joint import check_joint, label_vectors, marginals, random_joint
from zlpr.theory.risk import (
    POPULATION,
    batch_loss,
    descend,
    expected_loss,
    is_sum_over_labels,
    one_label_joints,
    starting_points,
)

SET_METRICS = tuple(name for name in PAPER_METRICS if info(name).needs_decision)
RANKING_METRICS = tuple(name for name in PAPER_METRICS if not info(name).needs_decision)
LOSSES = (
    "zlpr", "bce", "focal", "dice1", "dice2", "sigmoid_f1",
    "ranking", "warp", "lsep", "two_way",
)  # fmt: skip
UNORDERED = frozenset({"sigmoid_f1"})
"""Losses that want each label fully on or off: at infinity scores have no order, no other cut."""

STARTS = 4
"""Descents per input and loss that is not convex: two from the marginals, two from common sets."""


@dataclass(frozen=True)
class Regret:
    """Regret of a loss on a metric over populations of one strength of dependence.

    Attributes:
        gaps: each population's distance to its best reachable value, in points (0 to 100).
        cut: where labels are decided: at zero, or at the cut that is best for the metric, one for
            all labels, for Macro-F1 one per label.
    """

    loss: str
    metric: str
    dependence: float
    gaps: tuple[float, ...]
    cut: Literal["zero", "fitted"] = "zero"

    @property
    def mean(self) -> float:
        """The mean over the populations; 0 is optimal."""
        return sum(self.gaps) / len(self.gaps)

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return _standard_error(self.gaps)


def not_worse(regret: Regret, others: Sequence[Regret]) -> bool:
    """Whether no other is better by more than two standard errors, population by population.

    Examples:
        >>> one, two = (Regret("a", "m", 0, (0.0, 1.0, 2.0)), Regret("b", "m", 0, (5.0, 6.0, 7.1)))
        >>> not_worse(one, [two]), not_worse(two, [one])
        (True, False)
    """
    for other in others:
        ahead = [mine - its for mine, its in zip(regret.gaps, other.gaps, strict=True)]
        if sum(ahead) / len(ahead) > 2 * _standard_error(ahead) + 1e-9:
            return False
    return True


def regrets(
    losses: Sequence[str] = LOSSES,
    *,
    dependences: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0),
    num_labels: int = 5,
    inputs: int = 8,
    populations: int = 60,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Regret]:
    """The regret of each loss on each metric that it can be judged on, at zero and at the best cut.

    Losses that only rank are judged on average precision and ranking loss, sigmoidF1 on all others.

    Args:
        losses: names of the registry.
        dependences: strengths of `random_joint`, from independent labels, 0, to strong ties, 1.
        num_labels: labels of a population, at most 6 (`rankings` tries them all).
        inputs: joints in a population.
        populations: populations for each strength, at least 2.
        seed: makes the joints.
        progress: called with 1 as each loss is done at each strength.
    """
    if populations < 2:
        raise ValueError(f"populations is {populations}; an error needs at least 2")
    found: list[Regret] = []
    for dependence in dependences:
        generator = torch.Generator().manual_seed(seed)
        groups = [
            [random_joint(num_labels, dependence, generator) for _ in range(inputs)]
            for _ in range(populations)
        ]
        best = [best_possible(joints) for joints in groups]
        for loss in losses:
            scores = scores_of(loss, groups)
            zero = [measure(rows, joints) for rows, joints in zip(scores, groups, strict=True)]
            found += [
                Regret(loss, metric, dependence, _gaps(metric, best, zero))
                for metric in judged_on(loss)
            ]
            if registry.info(loss).decides and loss not in UNORDERED:
                cut = [at_best_cut(*pair) for pair in zip(scores, groups, strict=True)]
                found += [
                    Regret(loss, metric, dependence, _gaps(metric, best, cut), cut="fitted")
                    for metric in SET_METRICS
                ]
            progress(1)
    return found


def judged_on(loss: str) -> tuple[str, ...]:
    """The metrics that a loss's minimiser determines."""
    if not registry.info(loss).decides:
        return RANKING_METRICS
    return SET_METRICS if loss in UNORDERED else PAPER_METRICS


def scores_of(loss: str, groups: Sequence[Sequence[Tensor]]) -> Tensor:
    """The scores that minimise a loss over each population, shape (populations, inputs, L)."""
    joints = [joint for group in groups for joint in group]
    shape = (len(groups), -1, joints[0].ndim)
    if registry.info(loss).over_batch:
        return _batch_scores(loss, groups)
    if loss in ("ranking", "warp"):
        return _ranked_scores(loss, joints).reshape(shape)
    if is_sum_over_labels(loss):
        joints = [one for joint in joints for one in one_label_joints(joint)]
    return _sample_scores(loss, joints).reshape(shape)


def _sample_scores(loss: str, joints: Sequence[Tensor]) -> Tensor:
    """Each joint's minimiser, all of them descending at once; shape (joints, L)."""
    convex = registry.info(loss).convex
    starts = [starting_points(joint, convex=convex)[:STARTS] for joint in joints]
    value = expected_loss(
        loss,
        *itertools.chain.from_iterable(
            [joint] * len(start) for joint, start in zip(joints, starts, strict=True)
        ),
    )
    ends = descend(value, torch.cat(starts))
    best = value(ends).reshape(len(joints), -1).argmin(1)
    return ends.reshape(len(joints), -1, ends.shape[-1])[torch.arange(len(joints)), best]


def _ranked_scores(loss: str, joints: Sequence[Tensor]) -> Tensor:
    """The best of all rankings of the labels for each joint; see `zlpr.theory.hinge`."""
    levels, targets = rankings(joints[0].ndim), label_vectors(joints[0].ndim)
    rows = levels.repeat_interleave(len(targets), 0)
    losses = registry.create(loss, reduction="none")(rows, targets.repeat(len(levels), 1))
    risks = losses.reshape(len(levels), -1) @ torch.stack([joint.flatten() for joint in joints]).T
    return levels[risks.argmin(0)]


def _batch_scores(loss: str, groups: Sequence[Sequence[Tensor]]) -> Tensor:
    """A loss over the batch ties a population's inputs together: minimise over all at once.

    The populations have nothing to do with each other; their losses are added for one solver.
    """
    inputs, labels = len(groups[0]), groups[0][0].ndim
    targets = label_vectors(labels)
    joint = torch.stack([torch.stack([one.flatten() for one in group]) for group in groups])
    counts = joint.flatten(1) * POPULATION / inputs
    chance = joint @ targets
    batch = batch_loss(loss, targets.repeat(inputs, 1))

    def population(scores: Tensor, counts: Tensor) -> Tensor:
        return batch(scores.repeat_interleave(len(targets), 0), counts)

    value = torch.func.vmap(population)
    starts = (
        [chance.logit()] if registry.info(loss).convex else [chance.logit(), chance.logit() + 1]
    )
    ends = []
    for start in starts:
        scores = start.clone().requires_grad_()
        solver = torch.optim.LBFGS(
            [scores], max_iter=300, line_search_fn="strong_wolfe", history_size=20,
            tolerance_grad=1e-8, tolerance_change=1e-12,
        )  # fmt: skip

        def closure(scores: Tensor = scores, solver: torch.optim.LBFGS = solver) -> Tensor:
            solver.zero_grad()
            total = value(scores, counts).sum()
            total.backward()  # type: ignore[no-untyped-call]
            return total

        solver.step(closure)  # type: ignore[no-untyped-call]
        ends.append(scores.detach())
    lowest = torch.stack([value(end, counts) for end in ends]).argmin(0)
    return torch.stack(ends)[lowest, torch.arange(len(groups))]


def measure(scores: Tensor, joints: Sequence[Tensor]) -> dict[str, float]:
    """The six metrics of scores (inputs, L) cut at zero, exactly, in the paper's conventions."""
    scores, joints = _of_population(scores, joints)
    decisions = (scores > 0).to(torch.float64)
    probabilities = torch.stack([joint.flatten() for joint in joints])
    chance = torch.stack([marginals(joint) for joint in joints])
    match = _example_values(decisions)
    order = _ranking_values(scores)
    per_input = {
        "subset_accuracy": match[0],
        "example_f1": match[1],
        "average_precision": order[0],
        "ranking_loss": order[1],
    }
    values = {
        name: float((value * probabilities).sum(-1).mean()) for name, value in per_input.items()
    }
    hits, predicted, true = (decisions * chance).sum(0), decisions.sum(0), chance.sum(0)
    values["micro_f1"] = float(_f1(hits.sum(), predicted.sum() + true.sum()))
    values["macro_f1"] = float(_f1(hits, predicted + true).mean())
    return values


def at_best_cut(scores: Tensor, joints: Sequence[Tensor]) -> dict[str, float]:
    """The metrics of label sets, each at the cut of scores (inputs, L) that is best for it.

    One cut for all labels; for Macro-F1, which is a mean over labels, one for each.
    """
    scores, joints = _of_population(scores, joints)
    probabilities = torch.stack([joint.flatten() for joint in joints])
    chance = torch.stack([marginals(joint) for joint in joints])
    cuts = torch.cat([scores.flatten(), torch.tensor([-torch.inf], dtype=scores.dtype)])
    decisions = (scores > cuts[:, None, None]).to(torch.float64)
    exact, f1 = (
        (table.reshape(len(cuts), *probabilities.shape) * probabilities).sum(-1).mean(-1)
        for table in _example_values(decisions.flatten(0, 1))
    )
    hits, predicted, true = (decisions * chance).sum(1), decisions.sum(1), chance.sum(0)
    micro = _f1(hits.sum(-1), predicted.sum(-1) + true.sum())
    macro = _f1(hits, predicted + true).amax(0).mean()
    values = (exact.max(), f1.max(), micro.max(), macro)
    return dict(zip(SET_METRICS, map(float, values), strict=True))


def best_possible(joints: Sequence[Tensor]) -> dict[str, float]:
    """The best reachable value of each metric, each by its own predictor."""
    joints = _population(joints)
    labels = joints[0].ndim
    sets = label_vectors(labels)
    probabilities = torch.stack([joint.flatten() for joint in joints])
    chance = torch.stack([marginals(joint) for joint in joints])
    exact, f1 = (table @ probabilities.T for table in _example_values(sets))
    size = sets.sum(1, keepdim=True)
    together = torch.einsum("nm,mi,mj->nij", probabilities, sets / size.clamp(min=1), sets)
    wrong = torch.einsum(
        "nm,mi,mj->nij", probabilities, sets / (size * (labels - size)).clamp(min=1), 1 - sets
    )
    return {
        "subset_accuracy": float(exact.amax(0).mean()),
        "example_f1": float(f1.amax(0).mean()),
        "micro_f1": _best_f1(chance.flatten()),
        "macro_f1": sum(_best_f1(column) for column in chance.T) / labels,
        "average_precision": float(_best_ranking(together, mean=True).mean()),
        "ranking_loss": -float(_best_ranking(-wrong, mean=False).mean()),
    }


def _population(joints: Sequence[Tensor]) -> list[Tensor]:
    """The joints in float64, or what is wrong with them."""
    checked = [check_joint(joint) for joint in joints]
    if not checked:
        raise ValueError("joints is empty; a population has at least one")
    if len({joint.ndim for joint in checked}) > 1:
        raise ValueError("joints: all must be of the same labels")
    return checked


def _of_population(scores: Tensor, joints: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Scores and joints in float64, or what is wrong with them."""
    checked = _population(joints)
    expected = (len(checked), checked[0].ndim)
    if scores.shape != expected:
        raise ValueError(f"scores have shape {tuple(scores.shape)}, expected {expected}")
    if scores.isnan().any():
        raise ValueError("scores have entries that are not numbers")
    return scores.detach().to(torch.float64), checked


def _best_ranking(cells: Tensor, *, mean: bool) -> Tensor:
    """The most that a ranking of the labels can add up to, ties allowed, for each of N tables.

    Ranked from the top, a label adds what lies between it and all that are as high or higher: the
    last group of a set of labels adds the same in whatever order the others are.

    Args:
        cells: what label i adds for a label j that is as high or higher, shape (N, L, L).
        mean: take a label's mean over those, not the sum.
    """
    sets = label_vectors(cells.shape[1])
    codes = torch.arange(len(sets))
    best = cells.new_zeros(len(sets), len(cells))
    for upper in range(1, len(sets)):
        inside = sets[upper]
        added = (cells @ inside) * inside
        if mean:
            added /= inside.sum()
        last = codes[1:][(codes[1:] & ~upper) == 0]
        best[upper] = (best[upper - last] + sets[last] @ added.T).amax(0)
    return best[-1]


def _gaps(
    metric: str, best: Sequence[dict[str, float]], reached: Sequence[dict[str, float]]
) -> tuple[float, ...]:
    """What is missing to the best in each population, in points."""
    points = 100 * info(metric).sign
    return tuple(
        points * (top[metric] - value[metric]) for top, value in zip(best, reached, strict=True)
    )


def _best_f1(probability: Tensor) -> float:
    """The best F1 of deterministic decisions: some number of the most probable cells, or none."""
    ranked = probability.sort(descending=True).values
    size = torch.arange(len(ranked) + 1)
    hits = torch.cat([torch.zeros_like(ranked[:1]), ranked.cumsum(0)])
    return float(_f1(hits, size + ranked.sum()).max())


def _f1(hits: Tensor, sizes: Tensor) -> Tensor:
    """`2 hits / sizes`, with sizes of prediction and truth together; 1 where both are empty."""
    empty = sizes == 0
    return torch.where(empty, 1.0, 2 * hits / torch.where(empty, 1.0, sizes))


def _example_values(decisions: Tensor) -> tuple[Tensor, Tensor]:
    """Exact match and F1 of each decision (D, L) against each label set: two (D, 2**L)."""
    labels = label_vectors(decisions.shape[1])
    sizes = decisions.sum(1, keepdim=True) + labels.sum(1)
    overlap = decisions @ labels.T
    return (2 * overlap == sizes).to(torch.float64), _f1(overlap, sizes)


def _ranking_values(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Average precision and ranking loss of scores (D, L) against each label set: two (D, 2**L)."""
    labels = label_vectors(scores.shape[1])
    positives = labels.sum(1)
    pairs = positives * (scores.shape[1] - positives)
    at_least = (scores[:, None, :] >= scores[:, :, None]).to(torch.float64)  # (D, i, j): s_j >= s_i
    above = torch.einsum("dij,mj->dmi", at_least, labels)
    precision = (labels * above / at_least.sum(-1)[:, None]).sum(-1) / positives.clamp(min=1)
    wrong = torch.einsum("mi,dij,mj->dm", labels, at_least, 1 - labels)
    return precision, wrong / pairs.clamp(min=1)


def _standard_error(values: Sequence[float]) -> float:
    return torch.tensor(values, dtype=torch.float64).std().item() / math.sqrt(len(values))

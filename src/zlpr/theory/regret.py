r"""Which loss suits which metric, without training noise.

A population is a handful of inputs, each with its own joint distribution of labels. Every loss's
risk minimiser is found for it, decided at zero, and measured exactly (by summing over all label
sets) against the best that any predictor could reach on each of the six metrics. The difference
is the loss's regret: what is lost even with infinite data and a perfect model.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from zlpr.losses import registry
from zlpr.theory.joint import label_vectors, marginals, random_joint
from zlpr.theory.risk import (
    POPULATION,
    descend,
    expected_loss,
    risk_minimiser,
    starting_points,
)

METRICS = (
    "subset_accuracy",
    "example_f1",
    "micro_f1",
    "macro_f1",
    "average_precision",
    "ranking_loss",
)
RANKING_METRICS = METRICS[4:]
LOSSES = (
    "zlpr", "bce", "focal", "dice1", "dice2", "sigmoid_f1", "asymmetric",
    "ranking", "warp", "bp_mll", "lsep",
)  # fmt: skip

STARTS = 4
"""Descents per input and loss that is not convex: two from the marginals, two from common sets."""


@dataclass(frozen=True)
class Regret:
    """Mean regret of a loss on a metric over populations of one strength of dependence.

    Attributes:
        mean: distance to the best reachable value, in points (0 to 100); 0 is optimal.
        error: standard error of the mean over the populations.
    """

    loss: str
    metric: str
    dependence: float
    mean: float
    error: float


def regrets(
    losses: Sequence[str] = LOSSES,
    *,
    dependences: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0),
    num_labels: int = 5,
    inputs: int = 8,
    populations: int = 4,
    seed: int = 0,
) -> list[Regret]:
    """The regret of each loss on each metric that it can be judged on.

    Losses that only rank are judged on average precision and ranking loss.

    Args:
        losses: names of the registry.
        dependences: strengths of `random_joint`, from independent labels, 0, to strong ties, 1.
        num_labels: labels of a population, at most 6 (all orders of the labels are tried).
        inputs: joints in a population.
        populations: populations for each strength.
        seed: makes the joints.
    """
    found: list[Regret] = []
    for dependence in dependences:
        generator = torch.Generator().manual_seed(seed)
        groups = [
            [random_joint(num_labels, dependence, generator) for _ in range(inputs)]
            for _ in range(populations)
        ]
        best = [best_possible(joints) for joints in groups]
        for loss in losses:
            reached = [measure(scores_of(loss, joints), joints) for joints in groups]
            for metric in METRICS if registry.info(loss).decides else RANKING_METRICS:
                sign = -1 if metric == "ranking_loss" else 1
                gaps = torch.tensor(
                    [sign * (b[metric] - r[metric]) for b, r in zip(best, reached, strict=True)]
                )
                error = gaps.std().item() / len(gaps) ** 0.5
                found.append(
                    Regret(loss, metric, dependence, 100 * gaps.mean().item(), 100 * error)
                )
    return found


def scores_of(loss: str, joints: Sequence[Tensor]) -> Tensor:
    """The scores that minimise a loss over a population, shape (inputs, L)."""
    entry = registry.info(loss)
    if entry.over_batch:
        return _batch_scores(loss, joints)
    if loss in ("ranking", "warp"):
        return torch.stack([risk_minimiser(loss, joint) for joint in joints])
    starts = [starting_points(joint, convex=entry.convex)[:STARTS] for joint in joints]
    value = expected_loss(
        loss,
        *itertools.chain.from_iterable(
            [joint] * len(start) for joint, start in zip(joints, starts, strict=True)
        ),
    )
    ends = descend(value, torch.cat(starts))
    best = value(ends).reshape(len(joints), -1).argmin(1)
    return ends.reshape(len(joints), -1, ends.shape[-1])[torch.arange(len(joints)), best]


def _batch_scores(loss: str, joints: Sequence[Tensor]) -> Tensor:
    """A loss over the batch ties the inputs together: minimise over all of them at once."""
    targets = label_vectors(joints[0].ndim)
    weights = torch.stack([joint.flatten() for joint in joints]) * POPULATION / len(joints)
    chance = torch.stack([marginals(joint) for joint in joints])
    module = registry.create(loss)
    ends: list[tuple[float, Tensor]] = []
    for start in (chance.logit(), chance.logit() + 1):
        scores = start.clone().requires_grad_()
        solver = torch.optim.LBFGS(
            [scores], max_iter=200, line_search_fn="strong_wolfe", tolerance_change=1e-12
        )

        def closure(scores: Tensor = scores, solver: torch.optim.LBFGS = solver) -> Tensor:
            solver.zero_grad()
            rows = scores[:, None].expand(-1, *targets.shape).reshape(-1, targets.shape[1])
            value: Tensor = module(
                rows, targets.repeat(len(joints), 1), sample_weight=weights.flatten()
            )
            value.backward()  # type: ignore[no-untyped-call]
            return value

        solver.step(closure)  # type: ignore[no-untyped-call]
        ends.append((closure().item(), scores.detach()))
    return min(ends, key=lambda end: end[0])[1]


def measure(scores: Tensor, joints: Sequence[Tensor]) -> dict[str, float]:
    """The six metrics of scores (inputs, L) cut at zero, exactly, in the paper's conventions."""
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
    values["micro_f1"] = float(2 * hits.sum() / (predicted.sum() + true.sum()))
    values["macro_f1"] = float((2 * hits / (predicted + true)).mean())
    return values


def best_possible(joints: Sequence[Tensor]) -> dict[str, float]:
    """The best reachable value of each metric, each by its own predictor."""
    labels = joints[0].ndim
    probabilities = torch.stack([joint.flatten() for joint in joints])
    chance = torch.stack([marginals(joint) for joint in joints])
    exact, f1 = (table @ probabilities.T for table in _example_values(label_vectors(labels)))
    orders = torch.tensor(list(itertools.permutations(range(labels))), dtype=torch.float64)
    precision, pairs = (table @ probabilities.T for table in _ranking_values(orders))
    return {
        "subset_accuracy": float(exact.amax(0).mean()),
        "example_f1": float(f1.amax(0).mean()),
        "micro_f1": _best_f1(chance.flatten()),
        "macro_f1": sum(_best_f1(column) for column in chance.T) / labels,
        "average_precision": float(precision.amax(0).mean()),
        "ranking_loss": float(pairs.amin(0).mean()),
    }


def _best_f1(probability: Tensor) -> float:
    """The best F1 of deterministic decisions: some number of the most probable cells."""
    ranked = probability.sort(descending=True).values
    size = torch.arange(1, len(ranked) + 1)
    return float((2 * ranked.cumsum(0) / (size + ranked.sum())).max())


def _example_values(decisions: Tensor) -> tuple[Tensor, Tensor]:
    """Exact match and F1 of each decision (D, L) against each label set: two (D, 2**L)."""
    labels = label_vectors(decisions.shape[1])
    sizes = decisions.sum(1, keepdim=True) + labels.sum(1)
    overlap = decisions @ labels.T
    f1 = torch.where(sizes == 0, 1.0, 2 * overlap / sizes.clamp(min=1))
    return (2 * overlap == sizes).to(torch.float64), f1


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

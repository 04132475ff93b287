r"""The scores that minimise a loss's expected value over an explicit joint distribution.

With infinitely many samples that share one input, training on a loss ends at these scores. They
tell what a loss is after: BCE's depend on the marginals alone, ZLPR's on the whole joint.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from zlpr.losses import registry
from zlpr.theory.hinge import hinge_minimiser
from zlpr.theory.joint import check_joint, label_vectors, marginals

Loss = str | Callable[[Tensor, Tensor], Tensor]
"""A name of the registry, or a function of scores (N, L) and targets (N, L) that gives (N,)."""

Value = Callable[[Tensor], Tensor]
"""Scores of shape (..., problems, L) to risks of shape (..., problems)."""

POPULATION = 1000
"""Samples that share the input: sets label counts, and the batch of losses taken over a batch."""

FAR = 40.0
"""No finite minimiser lies beyond it: e^-40 is below float64's resolution of one."""


def risk_minimiser(loss: Loss, joint: Tensor) -> Tensor:
    r"""The scores that minimise ``E_{y ~ joint} loss(s, y)``, to 1e-8.

    Where the minimum lies at infinity (sigmoidF1, say, wants every label fully on or off), the
    score is plus or minus infinity. Losses that only rank fix the scores up to a constant; theirs
    sum to zero. Ranking and WARP are piecewise linear and solved as linear programs, WARP by a
    search over the orders of the labels.

    Args:
        loss: a name of the registry, or a function of scores (N, L) and targets (N, L) giving one
            loss per row, shape (N,).
        joint: probabilities of all label sets, shape (2,) * L, L at most 12.

    Returns:
        Scores of shape (L,), float64.

    Example:
        >>> from zlpr.theory import independent, risk_minimiser
        >>> risk_minimiser("bce", independent([0.5, 0.2])).sigmoid()
        tensor([0.5000, 0.2000], dtype=torch.float64)
    """
    joint = check_joint(joint)
    if loss in ("ranking", "warp"):
        value = expected_loss(loss, joint)
        return centred(hinge_minimiser(joint, value, by_rank=loss == "warp"))
    convex = isinstance(loss, str) and registry.info(loss).convex
    starts = starting_points(joint, convex=convex)
    value = expected_loss(loss, joint)
    ends = descend(value, starts)
    scores = to_infinity(value, ends[value(ends).argmin()])
    return centred(scores) if isinstance(loss, str) and not registry.info(loss).decides else scores


def expected_loss(loss: Loss, *joints: Tensor) -> Value:
    """The risk as a function of scores (..., problems, L): of one joint, or of one per problem.

    A loss over the batch sees a population of 1,000 samples that all share the scores.
    """
    probabilities = torch.stack([joint.flatten() for joint in joints])
    targets = label_vectors(joints[0].ndim)
    if not isinstance(loss, str):
        return _per_sample(loss, targets, probabilities)
    entry = registry.info(loss)
    params: dict[str, Any] = {}
    if entry.needs_label_counts:
        mean = torch.stack([marginals(joint) for joint in joints]).mean(0)
        params = {"label_counts": mean * POPULATION, "num_samples": POPULATION}
    if entry.over_batch:
        return _over_population(registry.create(loss, **params), targets, probabilities)
    return _per_sample(registry.create(loss, reduction="none", **params), targets, probabilities)


def _per_sample(loss: Callable[[Tensor, Tensor], Tensor], targets: Tensor, probabilities: Tensor) -> Value:
    def value(scores: Tensor) -> Tensor:
        rows = scores[..., None, :].expand(*scores.shape[:-1], *targets.shape)
        losses = loss(rows.reshape(-1, rows.shape[-1]), targets.expand_as(rows).reshape(-1, rows.shape[-1]))
        if losses.shape != (rows[..., 0].numel(),):
            raise ValueError(
                f"the loss gave shape {tuple(losses.shape)} for {rows[..., 0].numel()} samples; "
                'it must give one value per sample, as with reduction="none"'
            )
        return (losses.reshape(rows.shape[:-1]) * probabilities).sum(-1)

    return value


def _over_population(module: Callable[..., Tensor], targets: Tensor, probabilities: Tensor) -> Value:
    def value(scores: Tensor) -> Tensor:
        weights = (probabilities * POPULATION).expand(scores.shape[-2], -1)
        problems = scores.reshape(-1, *scores.shape[-2:])
        risks = [
            module(row.expand_as(targets), targets, sample_weight=weight)
            for problem in problems
            for row, weight in zip(problem, weights, strict=True)
        ]
        return torch.stack(risks).reshape(scores.shape[:-1])

    return value


def starting_points(joint: Tensor, *, convex: bool) -> Tensor:
    """Where to descend from, shape (starts, L): once for a convex risk, from corners for others."""
    probable = marginals(joint).clamp(1e-6, 1 - 1e-6)
    if convex:
        return probable.logit()[None] / 2
    common = joint.flatten().topk(min(8, joint.numel())).indices
    rank = probable.argsort(descending=True).argsort()
    prefixes = (rank < torch.arange(joint.ndim + 1)[:, None]).to(probable.dtype)
    corners = 4 * torch.cat([label_vectors(joint.ndim)[common], prefixes]) - 2
    return torch.cat([torch.stack([probable.logit() / 2, probable.logit()]), corners])


def descend(value: Value, starts: Tensor) -> Tensor:
    """Damped Newton on all problems at once, shape (problems, L); it only ever goes down.

    The Hessian's eigenvalues are taken positive, a step is at most 4 long, and it is halved until
    the risk falls. Where it no longer can, the last full step is still taken if it is small: near
    the minimum the slope is known far better than the value.
    """
    gradient = _gradient(value, starts)
    scores, lowest = starts, value(starts)
    lengths = 0.5 ** torch.arange(20, dtype=starts.dtype)[:, None, None]
    for _ in range(100):
        step = _newton_step(gradient, scores)
        tries = (scores + lengths * step).clamp(-FAR, FAR)
        values = value(tries)
        lower = values < lowest
        falls = lower.any(0)
        first = lower.to(torch.int8).argmax(0)
        small = step.abs().amax(-1) < 1e-6
        chosen = torch.where((falls | small)[:, None], tries[first, torch.arange(len(scores))], scores)
        lowest = torch.where(falls, values[first, torch.arange(len(scores))], lowest)
        moved = (chosen - scores).abs().amax()
        scores = chosen
        if moved < 1e-10:
            break
    return scores


def _newton_step(gradient: Callable[[Tensor], Tensor], scores: Tensor) -> Tensor:
    curvature, axes = torch.linalg.eigh(_hessian(gradient, scores))
    size = curvature.abs()
    size = size.clamp(min=1e-300).maximum(1e-10 * size.amax(-1, keepdim=True))
    slope = gradient(scores)[..., None]
    step = -(axes @ ((axes.mT @ slope) / size[..., None]))[..., 0]
    return step * (4 / step.norm(dim=-1, keepdim=True).clamp(min=4))


def _gradient(value: Value, starts: Tensor) -> Callable[[Tensor], Tensor]:
    """Autograd where it tells the truth; differences where a loss detaches its weights.

    Some losses (asymmetric, circle, HBM) let no gradient through their weights: training follows
    another field than the slope of the value, and the value is what is minimised here.
    """

    def by_autograd(scores: Tensor) -> Tensor:
        scores = scores.detach().requires_grad_()
        return torch.autograd.grad(value(scores).sum(), scores)[0]

    def by_differences(scores: Tensor) -> Tensor:
        width = 1e-3
        shifts = width * torch.eye(scores.shape[-1], dtype=scores.dtype)
        shifts = shifts.reshape(len(shifts), *[1] * (scores.ndim - 1), len(shifts))
        with torch.no_grad():
            one = value(scores + shifts) - value(scores - shifts)
            two = value(scores + 2 * shifts) - value(scores - 2 * shifts)
        return ((8 * one - two) / (12 * width)).movedim(0, -1)

    point = starts + 0.1 * torch.sin(torch.arange(starts.shape[-1], dtype=starts.dtype))
    truthful = torch.allclose(by_autograd(point), by_differences(point), rtol=1e-6, atol=1e-8)
    return by_autograd if truthful else by_differences


def _hessian(gradient: Callable[[Tensor], Tensor], scores: Tensor) -> Tensor:
    """Central differences of the slope, shape (problems, L, L)."""
    width = 1e-4
    shifts = width * torch.eye(scores.shape[-1], dtype=scores.dtype)[:, None]
    columns = (gradient(scores + shifts) - gradient(scores - shifts)) / (2 * width)
    hessian = columns.movedim(0, -1)
    return (hessian + hessian.mT) / 2


def to_infinity(value: Value, scores: Tensor) -> Tensor:
    """Replace a far score by infinity where the risk is no higher there; shape (L,)."""
    result = scores.clone()
    for label in (scores.abs() > 12).nonzero().flatten().tolist():
        further = scores.clone()
        further[label] = scores[label].sign() * 1e4
        here, there = value(torch.stack([scores, further])).tolist()
        if there <= here + 1e-14 * abs(here):
            result[label] = scores[label].sign() * torch.inf
    return result


def centred(scores: Tensor) -> Tensor:
    """The scores that sum to zero among those that differ by a constant."""
    return scores - scores[scores.isfinite()].mean()

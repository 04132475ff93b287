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

Derivative = Callable[[Tensor], Tensor]

POPULATION = 1000
"""Samples that share the input: sets label counts, and the batch of losses taken over a batch."""

FAR = 40.0
"""No finite minimiser lies beyond it: e^-40 is below float64's resolution of one."""

CELLS = 2**22
"""Scores given to a loss at once: keeps the differences at 12 labels below a gigabyte."""


def risk_minimiser(loss: Loss, joint: Tensor) -> Tensor:
    r"""The scores that minimise ``E_{y ~ joint} loss(s, y)``.

    A loss that is smooth and convex determines its scores, and they are found to 1e-8. Of the
    others the lowest point found from several starts is given: its risk is the one to rely on, for
    the scores themselves may be one choice of many (a piecewise linear loss is flat along whole
    faces) and HBM's risk jumps wherever a label passes the margin.

    Where the minimum lies at infinity (sigmoidF1, say, wants every label fully on or off), the
    score is plus or minus infinity. Where a constant added to all scores changes nothing, as in
    most losses that only rank, the scores sum to zero. BP-MLL in its log form has no minimum where
    a label set is likelier than all those together that neither lie within it nor contain it: the
    risk falls without end as the labels of that set rise above the others. They get plus infinity,
    the others minus infinity.

    Ranking and WARP are piecewise linear. With up to 6 labels all their corners are tried; with
    more, the ranking loss is solved as a linear program and WARP by a search over orders of labels.

    Args:
        loss: a name of the registry, or a function of scores (N, L) and targets (N, L) giving one
            loss per row, shape (N,).
        joint: probabilities of all label sets, shape (2,) * L, L at most 12.

    Returns:
        Scores of shape (L,), float64.

    Examples:
        >>> from zlpr.theory import independent, risk_minimiser
        >>> risk_minimiser("bce", independent([0.5, 0.2])).sigmoid()
        tensor([0.5000, 0.2000], dtype=torch.float64)
    """
    joint = check_joint(joint)
    if isinstance(loss, str) and joint.ndim > 1 and is_sum_over_labels(loss):
        return torch.cat([risk_minimiser(loss, one) for one in one_label_joints(joint)])
    if loss in ("ranking", "warp"):
        value = expected_loss(loss, joint)
        return centred(hinge_minimiser(joint, value, by_rank=loss == "warp"))
    if loss == "bp_mll" and (rising := rising_set(joint)) is not None:
        return torch.where(rising > 0, torch.inf, -torch.inf).to(joint.dtype)
    convex = isinstance(loss, str) and registry.info(loss).convex
    starts = starting_points(joint, convex=convex)
    value = expected_loss(loss, joint)
    if joint.ndim > 6:  # a step costs 2**L: only the most promising are worth one
        starts = starts[value(starts).argsort()[:4]]
    ends = descend(value, starts)
    scores = ends[value(ends).argmin()]
    gradient, _ = _derivatives(value, scores[None])
    stuck = bool((gradient(scores[None]).abs() > 1e-9).any())  # at a kink or a jump
    if stuck and scores.abs().max() < FAR:
        scores = search(value, scores)
    finite = to_infinity(value, scores)
    return centred(finite) if ignores_shifts(value, scores[None]) else finite


def is_sum_over_labels(name: str) -> bool:
    """Whether a loss adds up what it gives each label alone, so that labels part company."""
    entry = registry.info(name)
    if entry.over_batch or entry.needs_label_counts:
        return False
    module = registry.create(name, reduction="none")
    scores = torch.tensor([[0.7, -0.4, 1.3]], dtype=torch.float64)
    targets = torch.tensor([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]], dtype=torch.float64)
    together = module(scores.expand_as(targets), targets)
    alone = [module(scores[:, [i]].expand(2, 1), targets[:, [i]]) for i in range(3)]
    return torch.allclose(together, torch.stack(alone).sum(0), rtol=0, atol=1e-12)


def one_label_joints(joint: Tensor) -> list[Tensor]:
    """Each label's own distribution, of shape (2,)."""
    return [torch.stack([1 - chance, chance]) for chance in marginals(joint)]


def rising_set(joint: Tensor) -> Tensor | None:
    r"""The label set along which BP-MLL's risk falls without end and fastest; None if none does.

    Far out along a direction ``d`` the risk grows by ``E[max_N d - min_P d]``, the expectation over
    label sets with a pair. For ``d`` one on a set ``U`` and zero elsewhere that is
    ``P(y neither within U nor around it) - P(y = U)``, and any other direction is a sum of such.

    Returns:
        The set as zeros and ones, shape (L,).
    """
    labels, probability = label_vectors(joint.ndim), joint.flatten()
    within = labels @ (1 - labels).T == 0
    growth = (~(within | within.T)).to(joint.dtype) @ probability - probability
    growth[[0, -1]] = torch.inf  # no label, or all of them: no pair
    return labels[growth.argmin()] if growth.min() < -1e-12 else None


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
        return _over_population(loss, targets, probabilities)
    return _per_sample(registry.create(loss, reduction="none", **params), targets, probabilities)


def batch_loss(name: str, targets: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """A batch's loss as a function of scores (N, L) and of how often each row occurs, (N,)."""

    def repeated(scores: Tensor, counts: Tensor) -> Tensor:
        return torch.as_tensor(module(scores, targets, sample_weight=counts))

    def two_way(scores: Tensor, counts: Tensor) -> Tensor:
        # A weighted sample weighs in its own term only; a repeated one stands in the labels' sums.
        samples = function(scores, targets, reduction="none")[: len(targets)]
        labels = function(
            scores, targets, label_weight=counts[:, None].expand_as(targets), reduction="none"
        )[len(targets) :]
        counts = counts * (targets.sum(-1) > 0)
        return (samples * counts).sum() / counts.sum() + labels.mean()

    function, module = registry.info(name).function, registry.create(name)
    return two_way if name == "two_way" else repeated


def _per_sample(
    loss: Callable[[Tensor, Tensor], Tensor], targets: Tensor, probabilities: Tensor
) -> Value:
    def value(scores: Tensor) -> Tensor:
        rows = scores[..., None, :].expand(*scores.shape[:-1], *targets.shape)
        losses = loss(
            rows.reshape(-1, rows.shape[-1]), targets.expand_as(rows).reshape(-1, rows.shape[-1])
        )
        if losses.shape != (rows[..., 0].numel(),):
            raise ValueError(
                f"the loss gave shape {tuple(losses.shape)} for {rows[..., 0].numel()} samples; "
                'it must give one value per sample, as with reduction="none"'
            )
        return (losses.reshape(rows.shape[:-1]) * probabilities).sum(-1)

    return lambda scores: _in_parts(value, scores)


def _over_population(name: str, targets: Tensor, probabilities: Tensor) -> Value:
    loss = batch_loss(name, targets)

    def one(scores: Tensor, counts: Tensor) -> Tensor:
        return loss(scores.expand_as(targets), counts)

    def value(scores: Tensor) -> Tensor:
        counts = (probabilities * POPULATION).expand(*scores.shape[:-1], -1)
        rows, counts = scores.reshape(-1, scores.shape[-1]), counts.reshape(-1, len(targets))
        return torch.func.vmap(one)(rows, counts).reshape(scores.shape[:-1])

    return lambda scores: _in_parts(value, scores)


def _in_parts(function: Callable[[Tensor], Tensor], scores: Tensor) -> Tensor:
    """Apply a function to scores (..., problems, L) with no more than `CELLS` in use at a time."""
    if scores.ndim == 2:
        return function(scores)
    flat = scores.reshape(-1, *scores.shape[-2:])
    labels = scores.shape[-1]
    size = max(1, CELLS // (scores.shape[-2] * 2**labels * labels))
    found = torch.cat([function(part) for part in torch.split(flat, size)])
    return found.reshape(*scores.shape[:-2], *found.shape[1:])


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

    The Hessian's eigenvalues are taken positive, a step is at most 4 long, and it is quartered
    until the risk falls. A step below 1e-6 is taken whole: so near the minimum the
    slope is known far better than the value.
    """
    gradient, hessian = _derivatives(value, starts)
    scores, lowest = starts, value(starts)
    shift = 1.0 if ignores_shifts(value, starts) else 0.0
    lengths = 0.25 ** torch.arange(8, dtype=starts.dtype)[:, None, None]
    every = torch.arange(len(scores))
    for _ in range(100):
        step = _newton_step(gradient, hessian, scores)
        step = step - shift * step.mean(-1, keepdim=True)  # a direction without slope is all noise
        tries = (scores + lengths * step).clamp(-FAR, FAR)
        values = value(tries)
        lower = values < lowest
        small = step.abs().amax(-1) < 1e-6
        first = torch.where(small, 0, lower.to(torch.int8).argmax(0))
        moves = lower.any(0) | small
        moved = torch.where(moves[:, None], tries[first, every], scores)
        lowest = torch.where(moves, values[first, every], lowest)
        change, scores = (moved - scores).abs().amax(), moved
        if change < 1e-11:
            break
    return scores


def search(value: Value, scores: Tensor) -> Tensor:
    """Go down without slopes, for risks with kinks and jumps; shape (L,).

    Searches freely at first. A risk with a spread of scores in it has its kink where scores are
    equal, which free steps never hit: scores closer than 0.01 are then moved as one.
    """
    free = _turning_search(value, scores, torch.eye(len(scores), dtype=scores.dtype))
    order = free.argsort()
    group = torch.empty_like(order)
    group[order] = (free[order].diff(prepend=free[order[:1]]) > 0.01).cumsum(0)
    if group.max() + 1 == len(scores):
        return free
    members = torch.nn.functional.one_hot(group).to(scores.dtype).T
    merged = (members @ free / members.sum(1))[group]
    tied = _turning_search(value, merged, members)
    return tied if value(tied[None])[0] <= value(free[None])[0] else free


def _turning_search(value: Value, scores: Tensor, directions: Tensor) -> Tensor:
    """Search along randomly turned axes of the space of some directions (D, L).

    Tries a step along both ends of each axis, lengthens it after a success and halves it after a
    failure, until it is below 1e-10.
    """
    generator = torch.Generator().manual_seed(0)
    size = len(directions)
    lowest, step = value(scores[None])[0], 1.0
    while step > 1e-10:
        turned = torch.randn(size, size, generator=generator, dtype=scores.dtype)
        axes = torch.linalg.qr(turned).Q @ directions
        with torch.no_grad():
            tries = (scores + step * torch.cat([axes, -axes])).clamp(-FAR, FAR)
            values = value(tries[:, None])[:, 0]
        if values.min() < lowest:
            scores, lowest, step = tries[values.argmin()], values.min(), min(1.0, 1.5 * step)
        else:
            step /= 2
    return scores


def _newton_step(gradient: Derivative, hessian: Derivative, scores: Tensor) -> Tensor:
    curvature, axes = torch.linalg.eigh(hessian(scores))
    size = curvature.abs()
    size = size.clamp(min=1e-14).maximum(1e-10 * size.amax(-1, keepdim=True))
    slope = gradient(scores)[..., None]
    step = -(axes @ ((axes.mT @ slope) / size[..., None]))[..., 0]
    step = 4 * step / step.norm(dim=-1, keepdim=True).clamp(min=4)
    return torch.as_tensor(step)


def _derivatives(value: Value, starts: Tensor) -> tuple[Derivative, Derivative]:
    """Slopes (problems, L) and curvatures (problems, L, L) of a risk.

    By autograd where it tells the truth, by differences where a loss detaches its weights: some
    losses (asymmetric, circle, HBM) let no gradient through them, so that training follows another
    field than the slope of the value, and the value is what is minimised here.
    """
    units = torch.eye(starts.shape[-1], dtype=starts.dtype)[:, None]

    def slope(scores: Tensor) -> Tensor:
        scores = scores.detach().requires_grad_()
        return torch.autograd.grad(value(scores).sum(), scores)[0]

    def exact_gradient(scores: Tensor) -> Tensor:
        return _in_parts(slope, scores)

    def gradient_differences(scores: Tensor) -> Tensor:
        up, down = (exact_gradient(scores + shift * units) for shift in (1e-4, -1e-4))
        columns: Tensor = (up - down) / 2e-4
        return (columns.movedim(0, -1) + columns.movedim(0, -2)) / 2

    @torch.no_grad()
    def value_differences(scores: Tensor) -> Tensor:
        one, two = (
            value(scores + shift * units) - value(scores - shift * units) for shift in (1e-3, 2e-3)
        )
        slopes: Tensor = (8 * one - two) / 12e-3
        return slopes.movedim(0, -1)

    @torch.no_grad()
    def second_differences(scores: Tensor) -> Tensor:
        width = 1e-3
        sums, gaps = units + units[:, None], units - units[:, None]
        same = value(scores + width * sums) + value(scores - width * sums)
        other = value(scores + width * gaps) + value(scores - width * gaps)
        curvatures: Tensor = (same - other) / (4 * width**2)
        return curvatures.movedim((0, 1), (-2, -1))

    probe = starts + 0.1 * torch.sin(torch.arange(starts.shape[-1], dtype=starts.dtype))
    if torch.allclose(exact_gradient(probe), value_differences(probe), rtol=1e-6, atol=1e-8):
        return exact_gradient, gradient_differences
    return value_differences, second_differences


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


def ignores_shifts(value: Value, scores: Tensor) -> bool:
    """Whether a constant added to all scores of a problem leaves its risk as it is."""
    return torch.allclose(value(scores), value(scores + 1), rtol=0, atol=1e-9)


def centred(scores: Tensor) -> Tensor:
    """The scores that sum to zero among those that differ by a constant."""
    return scores - scores.mean() if bool(scores.isfinite().all()) else scores

"""L-BFGS with a diagonal preconditioner, over one tensor of parameters."""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

Objective = Callable[[Tensor], tuple[float, Tensor]]

# Gains below this share of the value are rounding.
PRECISION = 1e-8
# Iterations over which gains are averaged.
PATIENCE = 3
# A line search gives up below this share of the quasi-Newton step.
SMALLEST_STEP = 1e-6


class Step(NamedTuple):
    """What a callback gets to see after each iteration."""

    iteration: int
    value: float
    decrease: float


@dataclass(frozen=True)
class Minimum:
    """Where the minimisation ended.

    Attributes:
        parameters: of the shape of the start.
        value: the objective there.
        iterations: quasi-Newton steps taken.
        evaluations: of the objective, line searches included.
        converged: whether the decrease fell below the tolerance before the iterations ran out.
    """

    parameters: Tensor
    value: float
    iterations: int
    evaluations: int
    converged: bool


class _Pair(NamedTuple):
    """A step, the change of the gradient along it, and the inverse of their product."""

    step: Tensor
    change: Tensor
    inverse: float


def minimise(
    objective: Objective,
    start: Tensor,
    *,
    preconditioner: Tensor | None = None,
    reference: float | None = None,
    tolerance: float = 1e-4,
    max_iterations: int = 100,
    memory: int = 10,
    callback: Callable[[Step], None] | None = None,
) -> Minimum:
    """Minimise a function that gives its value and gradient.

    The inverse Hessian starts from the preconditioner `D`, scaled to the latest curvature:
    `H0 = D s'y / (y' D y)`. Where features differ in frequency by orders of magnitude, the inverse
    of an estimate of the Hessian's diagonal takes a fraction of the iterations of `D = 1`.

    Args:
        objective: parameters to (value, gradient); the gradient is a tensor of its own.
        start: is left as it was.
        preconditioner: positive, broadcastable to `start`; None is 1 everywhere.
        reference: the value of a model that knows nothing; None is the value at the start.
        tolerance: stop once three iterations gain less than this share each, on average, of what
            was gained over the reference, whatever the objective's scale and offset. One may gain
            little for being the first after a warm start, without past steps to go by.
        max_iterations: at most so many steps.
        memory: how many past steps to keep; each takes twice the parameters' memory.
        callback: called after each iteration.

    Examples:
        >>> def bowl(x):
        ...     return float((x - 3).square().sum()), 2 * (x - 3)
        >>> minimise(bowl, torch.zeros(2)).parameters
        tensor([3., 3.])
    """
    parameters = start.clone()
    value, gradient = objective(parameters)
    reference = value if reference is None else reference
    pairs: deque[_Pair] = deque(maxlen=memory)
    before: deque[float] = deque(maxlen=PATIENCE)  # the values of the last iterations
    evaluations, converged = 1, False
    iteration = 0
    for iteration in range(1, max_iterations + 1):
        direction = _direction(gradient, pairs, preconditioner)
        slope = -dot(direction, gradient)
        if not slope < 0:
            converged = True
            break
        found = _search(objective, parameters, direction, value, slope)
        evaluations += found.evaluations
        if found.gradient is None:
            converged = not pairs  # no way down even along the gradient itself
            if converged:
                break
            pairs.clear()
            continue
        change = found.gradient - gradient
        curvature = dot(found.step, change)
        if curvature > 1e-10 * dot(change, change):
            pairs.append(_Pair(found.step, change, 1.0 / curvature))
        before.append(value)
        parameters, value, gradient = found.parameters, found.value, found.gradient
        if callback is not None:
            callback(Step(iteration, value, before[-1] - value))
        least = max(tolerance * (reference - value), PRECISION * abs(value))
        if len(before) == PATIENCE and before[0] - value <= PATIENCE * least:
            converged = True
            break
    return Minimum(parameters, value, iteration, evaluations, converged)


def dot(left: Tensor, right: Tensor) -> float:
    """The inner product of two tensors of the same shape."""
    return float(torch.dot(left.reshape(-1), right.reshape(-1)))


def _direction(gradient: Tensor, pairs: deque[_Pair], preconditioner: Tensor | None) -> Tensor:
    """The two-loop recursion: the inverse Hessian's estimate times the gradient."""
    direction = gradient.clone()
    shares = []
    for pair in reversed(pairs):
        share = pair.inverse * dot(pair.step, direction)
        direction.add_(pair.change, alpha=-share)
        shares.append(share)
    if preconditioner is not None:
        direction.mul_(preconditioner)
    if pairs:
        latest = pairs[-1]
        scaled = latest.change if preconditioner is None else latest.change * preconditioner
        direction.mul_(1.0 / (latest.inverse * dot(latest.change, scaled)))
    elif preconditioner is None:
        direction.mul_(1.0 / max(1.0, float(gradient.norm())))
    for pair, share in zip(pairs, reversed(shares), strict=True):
        direction.add_(pair.step, alpha=share - pair.inverse * dot(pair.change, direction))
    return direction


class _Found(NamedTuple):
    """The end of a line search; no gradient where it found no way down."""

    parameters: Tensor
    step: Tensor
    value: float
    gradient: Tensor | None
    evaluations: int


def _search(
    objective: Objective, parameters: Tensor, direction: Tensor, value: float, slope: float
) -> _Found:
    """Backtrack along a descent direction until the value falls enough (Armijo)."""
    length, evaluations = 1.0, 0
    while length > SMALLEST_STEP:
        step = direction * -length
        candidate = parameters + step
        new_value, gradient = objective(candidate)
        evaluations += 1
        if math.isfinite(new_value) and new_value <= value + 1e-4 * length * slope:
            return _Found(candidate, step, new_value, gradient, evaluations)
        length *= _shrink(value, slope * length, new_value)
    return _Found(parameters, direction, value, None, evaluations)


def _shrink(value: float, slope: float, new_value: float) -> float:
    """The minimum of the parabola through what was seen, kept within [0.1, 0.5]."""
    rise = new_value - value - slope
    if not math.isfinite(rise) or rise <= 0:
        return 0.1
    return min(0.5, max(0.1, -slope / (2.0 * rise)))

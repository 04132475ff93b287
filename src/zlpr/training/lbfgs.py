"""L-BFGS with a diagonal preconditioner, over one tensor of parameters.

`torch.optim.LBFGS` in variables scaled by the same preconditioner takes 1.54 times as long to the
same objective (geometric mean of 35 cases; 1.26 of the smooth losses', while on losses whose
gradient jumps it is mostly not there after three times as long); as it comes, over three times as
long on texts (`bench/by_hand.py solver`, figures in `docs/benchmarks.md`).
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

Function = Callable[[Tensor], tuple[float, Tensor]]
"""From parameters to a value and its gradient, a tensor of its own."""

Trial = Callable[[float], tuple[float, Callable[[Tensor], Tensor]]]
"""From a length to the value there, and to what gives the gradient once the step is taken.

That is called at most once, before any other line is asked for, with the parameters there.
"""

Along = Callable[[Tensor, Tensor], Trial]
"""From parameters and a direction to the function at `parameters - length * direction`."""

# Gains below this share of the value are rounding.
PRECISION = 1e-8
# Iterations over which gains are averaged.
PATIENCE = 3
# A line search gives up below this share of the quasi-Newton step.
SMALLEST_STEP = 1e-6
# A curvature below this, as at the end of an exact fit, is lost in single precision.
SMALLEST_BEND = 1e-30


class Step(NamedTuple):
    """What a callback gets to see after each iteration; the parameters are not to be changed."""

    value: float
    decrease: float
    parameters: Tensor


@dataclass(frozen=True)
class Minimum:
    """Where the minimisation ended.

    Attributes:
        parameters: of the shape of the start.
        value: the function there.
        iterations: quasi-Newton steps taken.
        evaluations: of the function, line searches included.
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
    function: Function,
    start: Tensor,
    *,
    preconditioner: Tensor | None = None,
    reference: float | None = None,
    floor: float | None = None,
    first_step: float | None = None,
    tolerance: float = 1e-4,
    max_iterations: int = 100,
    memory: int = 10,
    callback: Callable[[Step], None] | None = None,
    along: Along | None = None,
) -> Minimum:
    """Minimise a function that gives its value and gradient.

    The inverse Hessian starts from the preconditioner `D`, scaled to the latest curvature:
    `H0 = D s'y / (y' D y)`. Where features differ in frequency by orders of magnitude, the inverse
    of an estimate of the Hessian's diagonal takes a fraction of the iterations of `D = 1`.

    Args:
        function: its gradient may jump, as that of a hinge does: a step that goes down is a step.
        start: is left as it was.
        preconditioner: positive, broadcastable to `start`; None is 1 everywhere.
        reference: the value of a model that knows nothing; None is the value at the start.
        floor: what no value falls below, as 0 for most losses; None where that is not known.
        first_step: how far any parameter may go before there are past steps to judge a length by;
            None is as far as the preconditioner says.
        tolerance: stop once three iterations gain less than this share each, on average, of what
            was gained over the reference or, where that is less, of what is left above the floor,
            whatever the function's scale and offset. One may gain little for being the first
            after a warm start, without past steps to go by.
        max_iterations: at most so many steps.
        memory: how many past steps to keep; each takes twice the parameters' memory.
        callback: called after each iteration.
        along: the function along a line, where that has a quicker way than one evaluation after
            the other; None evaluates it.

    Examples:
        >>> def bowl(x):
        ...     return float((x - 3).square().sum()), 2 * (x - 3)
        >>> minimise(bowl, torch.zeros(2)).parameters
        tensor([3., 3.])
    """
    parameters = start.clone()
    along = along or _evaluated(function)
    value, gradient = function(parameters)
    reference = value if reference is None else reference
    pairs: deque[_Pair] = deque(maxlen=memory)
    values = [value]  # after each iteration
    evaluations, converged = 1, False
    for _ in range(max_iterations):
        direction = _direction(gradient, pairs, preconditioner)
        if not pairs and first_step is not None:
            direction.mul_(min(1.0, first_step / max(float(direction.abs().max()), 1e-30)))
        slope = -dot(direction, gradient)
        if not slope < 0:
            converged = True
            break
        found = _search(along(parameters, direction), parameters, direction, value, slope)
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
        parameters, value, gradient = found.parameters, found.value, found.gradient
        values.append(value)
        if callback is not None:
            callback(Step(value, values[-2] - value, parameters))
        if _has_settled(values, tolerance, reference, floor):
            converged = True
            break
    return Minimum(parameters, value, len(values) - 1, evaluations, converged)


def _has_settled(
    values: list[float], tolerance: float, reference: float, floor: float | None
) -> bool:
    """Whether the last iterations gained next to nothing."""
    if len(values) <= PATIENCE:
        return False
    value = values[-1]
    most = reference - value
    if floor is not None and value > floor:
        most = min(most, value - floor)
    least = max(tolerance * most, PRECISION * abs(value))
    return values[-1 - PATIENCE] - value <= PATIENCE * least


def last_tenth(values: Sequence[float], reference: float) -> float:
    """The share of all gain over a reference that fell to the last tenth of the steps.

    Args:
        values: before the first step and after each.
        reference: what the gain is counted from.

    Examples:
        >>> last_tenth([10.0, 2.0, 1.0, 0.0], 10.0)
        0.1
    """
    steps = len(values) - 1
    gain = reference - values[-1]
    if steps == 0 or gain <= 0:
        return 0.0
    return (values[steps - max(1, steps // 10)] - values[-1]) / gain


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
        bend = latest.inverse * dot(latest.change, scaled)
        if bend > SMALLEST_BEND:
            direction.mul_(1.0 / bend)
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


def _evaluated(function: Function) -> Along:
    """The function along lines, evaluated with its gradient wherever it is looked at."""

    def along(parameters: Tensor, direction: Tensor) -> Trial:
        def trial(length: float) -> tuple[float, Callable[[Tensor], Tensor]]:
            value, gradient = function(parameters + direction * -length)
            return value, lambda _: gradient

        return trial

    return along


def _search(
    trial: Trial, parameters: Tensor, direction: Tensor, value: float, slope: float
) -> _Found:
    """Backtrack along a descent direction until the value falls enough (Armijo)."""
    length, evaluations = 1.0, 0
    while length > SMALLEST_STEP:
        new_value, gradient_at = trial(length)
        evaluations += 1
        if math.isfinite(new_value) and new_value <= value + 1e-4 * length * slope:
            step = direction * -length
            there = parameters + step
            return _Found(there, step, new_value, gradient_at(there), evaluations)
        length *= _shrink(value, slope * length, new_value)
    return _Found(parameters, direction, value, None, evaluations)


def _shrink(value: float, slope: float, new_value: float) -> float:
    """The minimum of the parabola through what was seen, kept within [0.1, 0.5]."""
    rise = new_value - value - slope
    if not math.isfinite(rise) or rise <= 0:
        return 0.1
    return min(0.5, max(0.1, -slope / (2.0 * rise)))

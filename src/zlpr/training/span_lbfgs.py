"""L-BFGS for weights that are sums of the training features: one kernel product an iteration.

The penalty pulls `W` into the span of the samples, `W = X' A`, so that the coefficients `A` of the
cells (a sample and one of its candidates) say all. The gradient of `sum of losses + r/2 |W|^2` in
`W` is `X' (G + r A)` with `G` the losses' slopes in the scores, and the scores are `S = K A` with
the kernel `K = X X'` between the samples of one label. Every vector of L-BFGS is kept in both
forms, its coefficients and its scores, whose product is the inner product of the weights
themselves. So an iteration takes one product with `K`, and a line search none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float32]
Loss: TypeAlias = Callable[[Vector], tuple[float, Vector]]

MEMORY = 6
TOLERANCE, MAX_ITERATIONS = 1e-3, 100
# Iterations in a row that gain too little before a fit ends: one alone may be a short step of a
# search that soon finds a long one.
PATIENCE = 3
# Of a line search: how much of the promised descent is enough, and how fast a step shrinks; where
# no past step has told a length, it grows as long as it gains.
_ENOUGH, _SHRINK, _GROW, _MOST_TRIALS = 1e-4, 0.4, 2.5, 12
# How far any score goes in the first trial of the first step.
_FIRST_STEP = 2.0


@dataclass(frozen=True)
class InSpan:
    """Weights `X' A` by their coefficients and by the scores that they give.

    Attributes:
        coefficients: `A`, a number per cell.
        scores: `K A`, a number per cell.
    """

    coefficients: Vector
    scores: Vector

    def __add__(self, other: "InSpan") -> "InSpan":
        return InSpan(self.coefficients + other.coefficients, self.scores + other.scores)

    def add(self, other: "InSpan", factor: float) -> None:
        """Go so far along other weights, in place: without a vector that is made to be added."""
        for own, their in ((self.coefficients, other.coefficients), (self.scores, other.scores)):
            torch.from_numpy(own).add_(torch.from_numpy(their), alpha=float(np.float32(factor)))

    def times(self, factor: float) -> "InSpan":
        """The same weights, longer or shorter."""
        number = np.float32(factor)
        return InSpan(number * self.coefficients, number * self.scores)

    def dot(self, other: "InSpan") -> float:
        """The inner product of the two weights."""
        return float(self.coefficients @ other.scores)


@dataclass(frozen=True)
class SpanMinimum:
    """Where a fit ended: the weights, the objective and the iterations it took."""

    weights: InSpan
    value: float
    iterations: int


def minimise_in_span(
    loss: Loss,
    kernel: Callable[[Vector], Vector],
    start: InSpan,
    regularisation: float,
    *,
    tolerance: float = TOLERANCE,
    max_iterations: int = MAX_ITERATIONS,
    callback: Callable[[int, float], None] | None = None,
) -> SpanMinimum:
    """Minimise `loss(K A) + r/2 A' K A`, a convex function, from a start.

    Args:
        loss: the summed loss of scores, and its gradient.
        kernel: the product with `K`.
        start: is left as it was.
        regularisation: `r`.
        tolerance: stop once three iterations in a row gain less than this share of all gain so far.
        max_iterations: at most so many.
        callback: called with the iteration and the objective.

    Examples:
        >>> zero = InSpan(np.zeros(2, np.float32), np.zeros(2, np.float32))
        >>> target = np.array([2.0, 4.0], np.float32)
        >>> found = minimise_in_span(  # of (s - t)^2 / 2 + s^2 / 2: half-way to the target
        ...     lambda s: (float(((s - target) ** 2).sum() / 2), s - target),
        ...     lambda a: a, zero, regularisation=1.0,
        ... )
        >>> found.weights.scores.round(3).tolist()
        [1.0, 2.0]
    """
    weights, past, idle = start, list[tuple[InSpan, InSpan, float]](), 0
    value, slopes = loss(weights.scores)
    value = first_value = value + 0.5 * regularisation * weights.dot(weights)
    gradient, iteration = _gradient(weights, slopes, kernel, regularisation), 0
    for iteration in range(1, max_iterations + 1):
        direction = _direction(gradient, past)
        step = 1.0 if past else min(1.0, _FIRST_STEP / _largest(direction.scores))
        along = _Line(loss, weights, direction, value, gradient.dot(direction), regularisation)
        found = along.search(step) if past else along.search_from_afar(step)
        if found is None and past:
            past = []  # which led astray; the gradient itself goes down if anything does
            continue
        if found is None:
            break
        moved = direction.times(found.step)
        weights = weights + moved
        gain, value = value - found.value, found.value
        if callback is not None:
            callback(iteration, value)
        idle = idle + 1 if gain <= tolerance * (first_value - value) else 0
        if idle == PATIENCE:
            break
        before = gradient
        gradient = _gradient(weights, found.slopes, kernel, regularisation)
        change = before.times(-1.0)
        change.add(gradient, 1.0)
        curvature = moved.dot(change)
        if 0.0 < 1e-10 * change.dot(change) < curvature:  # a square of 0, or below, is a rounding
            past = [*past[1 - MEMORY :], (moved, change, curvature)]
    return SpanMinimum(weights, value, iteration)


def _gradient(
    weights: InSpan, slopes: Vector, kernel: Callable[[Vector], Vector], regularisation: float
) -> InSpan:
    gradient = weights.times(regularisation)
    gradient.add(InSpan(slopes, kernel(slopes)), 1.0)
    return gradient


def _direction(gradient: InSpan, past: list[tuple[InSpan, InSpan, float]]) -> InSpan:
    """Against the gradient, by the curvature of the past steps."""
    direction, shares = gradient.times(-1.0), []
    for moved, change, curvature in reversed(past):
        shares.append(moved.dot(direction) / curvature)
        direction.add(change, -shares[-1])
    if past:
        _, change, curvature = past[-1]
        direction = direction.times(curvature / change.dot(change))
    for (moved, change, curvature), share in zip(past, reversed(shares), strict=True):
        direction.add(moved, share - change.dot(direction) / curvature)
    return direction


@dataclass(frozen=True)
class _Trial:
    """A step along a line, the objective after it, and the slopes of the loss there."""

    step: float
    value: float
    slopes: Vector


class _Line:
    """The objective along a direction, for which scores need no kernel."""

    def __init__(
        self,
        loss: Loss,
        weights: InSpan,
        direction: InSpan,
        value: float,
        descent: float,
        regularisation: float,
    ) -> None:
        self.loss, self.weights, self.direction = loss, weights, direction
        self.value, self.descent, self.regularisation = value, descent, regularisation
        self.lengths = (weights.dot(weights), weights.dot(direction), direction.dot(direction))

    def at(self, step: float) -> _Trial:
        """What there is after a step."""
        here, along, square = self.lengths
        length = here + 2 * step * along + step * step * square
        scores = self.weights.scores + np.float32(step) * self.direction.scores
        value, slopes = self.loss(scores)
        return _Trial(step, value + 0.5 * self.regularisation * length, slopes)

    def search(self, step: float) -> _Trial | None:
        """A step that goes down; None where there is no such step."""
        for _ in range(_MOST_TRIALS):
            found = self.at(step)
            enough = self.value + _ENOUGH * step * self.descent
            if found.value <= enough and found.value < self.value:
                return found
            step *= _SHRINK
        return None

    def search_from_afar(self, step: float) -> _Trial | None:
        """The same where nothing tells the length: longer than the first trial while it gains."""
        found = self.search(step)
        if found is None or found.step < step:
            return found
        for _ in range(_MOST_TRIALS):
            longer = self.at(_GROW * found.step)
            if longer.value >= found.value:
                break
            found = longer
        return found


def _largest(values: Vector) -> float:
    return max(float(np.abs(values).max(initial=0.0)), 1e-12)

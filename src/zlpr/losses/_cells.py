"""What a loss over labels computes with: scores, targets, and what each cell counts for.

Two rules keep every loss free of NaN. A score beyond a sixteenth of the largest number, and an
infinite one, counts as that sixteenth (2e37 in float32): sums and multiples of scores then are
numbers, too, and the gradient is the limit's. A weight beyond 2^-64 of the largest number counts as
that (1.8e19 in float32): products of weights with terms and slopes then are numbers, too.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from zlpr.losses._arguments import (
    NO_WEIGHTING,
    Weight,
    Weighting,
    at_most,
    check_mask,
    check_scores,
    check_targets,
    check_weight,
    working_dtype,
)

_LARGEST_SCORE, _LARGEST_WEIGHT = 2.0**-4, 2.0**-64  # in units of the dtype's largest number


class Cells(NamedTuple):
    """Scores and targets of shape (..., L), with mask and weights.

    Attributes:
        scores: In the dtype to compute in and within its limits; 0 where masked, so that not even
            a NaN there reaches the gradient.
        targets: Boolean where all are 0 or 1, of the scores' dtype else.
        weighting: Mask and weights, within their limits.
    """

    scores: Tensor
    targets: Tensor
    weighting: Weighting = NO_WEIGHTING

    @property
    def mask(self) -> Tensor | None:
        """Shape (L,) or (..., L); None where every label is known."""
        return self.weighting.label_mask

    @property
    def positive(self) -> Tensor:
        """`mask * targets * label_weight * pos_weight`; boolean for hard ones without weights."""
        given = self.weighting
        weight = _product(given.label_weight, given.pos_weight, self.scores.dtype)
        return self._counted(self.targets, weight)

    @property
    def negative(self) -> Tensor:
        """`mask * (1 - targets) * label_weight`; boolean without weights and soft targets."""
        is_hard = self.targets.dtype is torch.bool
        others = ~self.targets if is_hard else 1 - self.targets
        return self._counted(others, self.weighting.label_weight)

    @property
    def is_positive(self) -> Tensor:
        """Which cells are positive and count, be the product of their weights too small to see."""
        given, chosen = self.weighting, self.targets != 0
        for part in (given.label_mask, given.label_weight, given.pos_weight):
            chosen = chosen if part is None else chosen & (part != 0)
        return chosen

    @property
    def weight(self) -> Tensor | None:
        """What each cell counts for where its target is 0 or 1; None where all count the same."""
        if self.weighting.label_weight is None and self.weighting.pos_weight is None:
            return self.mask
        return self.positive + self.negative

    @property
    def known(self) -> Tensor:
        """Which cells count, (..., L)."""
        mask = torch.ones_like(self.targets, dtype=torch.bool) if self.mask is None else self.mask
        return mask.expand_as(self.targets)

    def _counted(self, cells: Tensor, weight: Weight | None) -> Tensor:
        if weight is not None:
            cells = cells.to(self.scores.dtype) * weight
        if self.mask is None:
            return cells
        return cells & self.mask if cells.dtype is torch.bool else cells * self.mask


def prepare(
    scores: Tensor,
    targets: Tensor,
    label_mask: Tensor | None = None,
    label_weight: Weight | None = None,
    pos_weight: Weight | None = None,
    *,
    hard: bool = False,
) -> Cells:
    """Check the arguments common to all losses.

    Args:
        scores: Shape (..., L).
        targets: Shape (..., L).
        label_mask: Shape (L,) or (..., L), or None.
        label_weight: A number or of shape (), (L,) or (..., L), or None.
        pos_weight: As `label_weight`.
        hard: Refuse targets between 0 and 1.
    """
    check_scores(scores)
    truth = _as_boolean(scores, targets)
    if truth is None:
        check_targets(scores, targets, hard=hard)
        is_hard = hard or not targets.is_floating_point()
        truth = targets > 0.5 if is_hard else targets.to(working_dtype(scores))
    scores = scores.to(working_dtype(scores))
    if label_mask is not None:
        check_mask(scores, label_mask)  # before anything is chosen by it
        scores = torch.where(label_mask, scores, 0.0)
    # Each by itself: `Weighting.check` would hold a product that the limits keep a number.
    weight = limited_weight(check_weight("label_weight", label_weight, scores), scores.dtype)
    positive = limited_weight(check_weight("pos_weight", pos_weight, scores), scores.dtype)
    return Cells(within_limits(scores), truth, Weighting(label_mask, weight, positive))


def within_limits(values: Tensor) -> Tensor:
    """Values held to the limit of scores."""
    limit = largest_score(values.dtype)
    return held(values, -limit, limit)


def largest_score(dtype: torch.dtype) -> float:
    """What larger scores, and infinite ones, count as."""
    return _LARGEST_SCORE * torch.finfo(dtype).max


def held(values: Tensor, low: float, high: float) -> Tensor:
    """The values held to [low, high]; the gradient goes through as if they were not."""
    result: Tensor
    if torch.compiler.is_compiling():
        result = _Held.apply(values, low, high)  # type: ignore[no-untyped-call]
        return result
    if values.device.type == "cpu" and values.numel() > 0:
        smallest, largest = torch.aminmax(values.detach())
        try:
            if low <= smallest.item() and largest.item() <= high:
                return values
        except RuntimeError:  # inside vmap, or a fake tensor
            pass
    result = _HeldForward.apply(values, low, high)  # type: ignore[no-untyped-call]
    return result


class _Held(torch.autograd.Function):
    """`held` where something has to be."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor, low: float, high: float) -> Tensor:
        """The values, held."""
        return values.clamp(low, high)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float, float], output: Tensor) -> None:
        """Nothing is kept."""

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        """The identity's."""
        return upstream, None, None


class _HeldForward(_Held):
    """The same for forward mode as well, which the compiler does not take."""

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _low: None, _high: None) -> Tensor:
        """The identity's."""
        return tangent.view_as(tangent)


def with_finite_gradient(values: Tensor) -> Tensor:
    """The values; where their gradient overflows, the largest number goes on, which has shares."""
    function = _FiniteGradient if torch.compiler.is_compiling() else _FiniteGradientForward
    result: Tensor = function.apply(values)  # type: ignore[no-untyped-call]
    return result


class _FiniteGradient(torch.autograd.Function):
    """The identity, whose gradient is held to the dtype's numbers."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor) -> Tensor:
        """The values."""
        return values.view_as(values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        """Nothing is kept."""

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        """The identity's, held."""
        largest = torch.finfo(upstream.dtype).max
        return upstream.clamp(-largest, largest)


class _FiniteGradientForward(_FiniteGradient):
    """The same for forward mode as well, which the compiler does not take."""

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        """The identity's."""
        return tangent.view_as(tangent)


def _as_boolean(scores: Tensor, targets: Tensor) -> Tensor | None:
    """The targets as boolean where that is quickly seen to lose nothing, None else."""
    if not isinstance(targets, Tensor) or targets.shape != scores.shape:
        return None
    if targets.dtype is torch.bool:
        return targets
    if not targets.is_floating_point() or targets.requires_grad or torch.compiler.is_compiling():
        return None
    try:  # in as many passes as there are operations, of which soft targets take the first
        rounded = torch.gt(targets, 0.5, out=torch.empty_like(targets))
        return targets > 0.5 if torch.equal(rounded, targets) else None
    except RuntimeError:  # inside vmap, on the meta device, or a fake tensor
        return None


def limited_weight(weight: Weight | None, dtype: torch.dtype) -> Weight | None:
    """A weight, at most what larger ones count as."""
    return at_most(weight, largest_weight(dtype))


def largest_weight(dtype: torch.dtype) -> float:
    """What larger weights count as."""
    return _LARGEST_WEIGHT * torch.finfo(dtype).max


def _product(one: Weight | None, two: Weight | None, dtype: torch.dtype) -> Weight | None:
    if one is None or two is None:
        return two if one is None else one
    return limited_weight(one * two, dtype)

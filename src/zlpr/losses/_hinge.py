"""Hinge losses over pairs of a positive and a negative label, by sorting, not by the pairs."""

from collections.abc import Callable

import torch
from torch import Tensor

from zlpr.losses._cells import Cells

RankWeight = Callable[[Tensor], Tensor]
"""From ranks, 1 for the top, to what they weigh, of the same shape."""


def hinge_sum(cells: Cells, margin: float, factor: Tensor | None = None) -> Tensor:
    r"""`sum_i sum_j a_i b_j max(0, margin + s_j - s_i)` over the labels, exact.

    A pair is active where `s_j > s_i - margin`. Put both in order, the positive labels at
    `s_i - margin`: the value is the sum over the gaps of each gap times the positive weight below
    it times the negative weight above it. The slope in a positive label's score is `-a_i C_i`,
    `C_i` the weight of the negatives above it, and in a negative one's `b_j A_j` likewise. One sort
    and two cumulative sums give these, in O(L log L) time and O(L) memory a sample, and nothing
    is subtracted that could cancel.

    Args:
        cells: Scores, targets of 0 and 1, and weights; the gradient flows through the scores alone.
        margin: A finite number.
        factor: Shape (..., L), multiplies the weights of positive labels.

    Returns:
        Shape (...), 0 where a sample has no pair.
    """
    scores = cells.scores.double()
    if scores.shape[-1] == 0:
        return cells.scores.sum(dim=-1)
    a, b = cells.positive.detach().double(), cells.negative.detach().double()
    a = a if factor is None else a * factor
    # In units of the largest, so that their products are numbers.
    a, unit_of_a = _in_units_of_the_largest(a)
    b, unit_of_b = _in_units_of_the_largest(b)
    slopes, value = _slopes_and_value(scores.detach(), a, b, margin)
    unit = (unit_of_a * unit_of_b).clamp(max=torch.finfo(torch.float64).max)
    # A slope whose product with the unit is a number, be it rounded.
    steepest = (1 - 2.0**-50) * torch.finfo(cells.scores.dtype).max / unit
    slopes, unit = slopes.clamp(-steepest, steepest), unit.squeeze(-1)
    # Where the value is known, the scores are there for their gradient.
    linear = (slopes * (scores - scores.detach())).sum(dim=-1)
    return ((value + linear) * unit).to(cells.scores.dtype)


def rank_of_labels(scores: Tensor) -> Tensor:
    """Each label's rank among its sample's labels: 1 plus the number of labels above it."""
    ascending = scores.sort(dim=-1).values.contiguous()
    return 1 + scores.shape[-1] - torch.searchsorted(ascending, scores.contiguous(), right=True)


def weigh_ranks(ranks: Tensor, weight: str | RankWeight) -> Tensor:
    """What ranks weigh, float64, by the name of a function or by the function itself."""
    is_ours = not callable(weight)
    if not callable(weight):
        if weight not in RANK_WEIGHTS:
            names = ", ".join(map(repr, RANK_WEIGHTS))
            raise ValueError(f"rank_weight must be one of {names}, or a function, got {weight!r}")
        weight = RANK_WEIGHTS[weight]
    weights = weight(ranks.double())
    if not isinstance(weights, Tensor) or weights.shape != ranks.shape:
        raise ValueError(f"rank_weight must give one weight for each rank, {tuple(ranks.shape)}")
    if not is_ours and not bool(((weights >= 0) & (weights < torch.inf)).all()):
        raise ValueError("rank_weight must give weights that are finite and not negative")
    return weights.detach().double()


def _harmonic(ranks: Tensor) -> Tensor:
    """`1 + 1/2 + ... + 1/r`."""
    most = ranks.shape[-1]
    sums = torch.arange(1, most + 1, dtype=ranks.dtype, device=ranks.device).reciprocal().cumsum(0)
    return sums[ranks.long() - 1]


RANK_WEIGHTS: dict[str, RankWeight] = {
    "identity": lambda ranks: ranks,
    "harmonic": _harmonic,
    "log": torch.log1p,
}


def _in_units_of_the_largest(weights: Tensor) -> tuple[Tensor, Tensor]:
    """The weights divided by the largest of each sample, and that, shape (..., 1)."""
    largest = weights.amax(dim=-1, keepdim=True)
    return weights / torch.where(largest == 0, 1.0, largest), largest


def _slopes_and_value(s: Tensor, a: Tensor, b: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """The slopes in the scores, shape (..., L), and the value, shape (...)."""
    order = _order(s, a, margin)
    sorted_a, sorted_b = a.gather(-1, order), b.gather(-1, order)
    below = sorted_a.cumsum(dim=-1)
    above = sorted_b.flip(-1).cumsum(dim=-1).flip(-1)
    sorted_slopes = sorted_b * below - sorted_a * above
    slopes = torch.zeros_like(s).scatter(-1, order, sorted_slopes)
    # Seen from the label with the steepest slope, so that what all have in common costs no digits.
    centred = s - s.gather(-1, slopes.abs().argmax(dim=-1, keepdim=True))
    places = torch.where(a > 0, centred - margin, centred).gather(-1, order)
    gaps = places.diff(dim=-1).clamp(min=0)
    # The weights first: a gap of infinite scores times one of them alone may be no number.
    return slopes, (gaps * (below[..., :-1] * above[..., 1:])).sum(dim=-1)


def _order(s: Tensor, a: Tensor, margin: float) -> Tensor:
    """The labels in ascending order, a positive one before the negatives that it is active with."""
    # Just above `s - margin`, where the hinge is not yet active; at the score itself where a margin
    # is lost in a large one. Positive labels come first at a tie.
    infinity = s.new_tensor(torch.inf)
    lowered = s - margin
    if margin > 0:
        lowered = torch.minimum(lowered, torch.nextafter(s, -infinity))
    keys = torch.where(a > 0, torch.nextafter(lowered, infinity), s)
    positives_first = (a == 0).int().argsort(dim=-1, stable=True)
    ascending = keys.gather(-1, positives_first).argsort(dim=-1, stable=True)
    return positives_first.gather(-1, ascending)

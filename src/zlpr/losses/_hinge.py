"""Hinge losses over pairs of a positive and a negative label, by sorting, not by the pairs."""

import torch
from torch import Tensor

from zlpr.losses._cells import Cells


def hinge_sum(cells: Cells, margin: float, factor: Tensor | None = None) -> Tensor:
    r"""`sum_i sum_j a_i b_j max(0, margin + s_j - s_i)` over the labels, exact.

    A pair is active where `s_j > s_i - margin`. The sum over the active pairs is linear in the
    scores, `margin * sum_i a_i C_i + sum_l c_l s_l`, with `c_i = -a_i C_i` for a positive label,
    `C_i` the weight of its active negatives, and `c_j = b_j A_j` likewise for a negative one. One
    sort and two cumulative sums give these coefficients, in O(L log L) time and O(L) memory a
    sample.

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
    coefficients, active = _hinge_coefficients(scores.detach(), a, b, margin)
    # The coefficients add up to 0, so any centre may be taken off; the value then keeps its digits.
    # Labels without an active pair may be far away, and have no part in it.
    is_active = coefficients != 0
    number = is_active.sum(dim=-1, keepdim=True).clamp(min=1)
    centre = (torch.where(is_active, scores.detach(), 0.0) / number).sum(dim=-1, keepdim=True)
    terms = torch.where(is_active, coefficients * (scores - centre), 0.0)
    unit = (unit_of_a * unit_of_b).clamp(max=torch.finfo(torch.float64).max).squeeze(-1)
    return ((margin * active + terms.sum(dim=-1)) * unit).to(cells.scores.dtype)


def rank_of_labels(scores: Tensor) -> Tensor:
    """Each label's rank among its sample's labels: 1 plus the number of labels above it."""
    ascending = scores.sort(dim=-1).values.contiguous()
    return 1 + scores.shape[-1] - torch.searchsorted(ascending, scores.contiguous(), right=True)


def _in_units_of_the_largest(weights: Tensor) -> tuple[Tensor, Tensor]:
    """The weights divided by the largest of each sample, and that, shape (..., 1)."""
    largest = weights.amax(dim=-1, keepdim=True)
    return weights / torch.where(largest == 0, 1.0, largest), largest


def _hinge_coefficients(s: Tensor, a: Tensor, b: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """The coefficients `c`, shape (..., L), and `sum_i a_i C_i`, shape (...)."""
    # A pair is active where the positive label's key is not above the negative one's: just above
    # `s - margin`, where the hinge is not yet active; at the score itself where a margin is lost in
    # a large one. Positive labels come first at a tie.
    infinity = s.new_tensor(torch.inf)
    lowered = s - margin
    if margin > 0:
        lowered = torch.minimum(lowered, torch.nextafter(s, -infinity))
    keys = torch.where(a > 0, torch.nextafter(lowered, infinity), s)
    positives_first = (a == 0).int().argsort(dim=-1, stable=True)
    ascending = keys.gather(-1, positives_first).argsort(dim=-1, stable=True)
    order = positives_first.gather(-1, ascending)
    sorted_a, sorted_b = a.gather(-1, order), b.gather(-1, order)
    below = sorted_a.cumsum(dim=-1)
    above = sorted_b.flip(-1).cumsum(dim=-1).flip(-1)
    sorted_c = sorted_b * below - sorted_a * above
    active = (sorted_a * above).sum(dim=-1)
    return torch.zeros_like(s).scatter(-1, order, sorted_c), active

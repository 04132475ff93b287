"""Hinge losses over pairs of a positive and a negative label, by sorting, not by the pairs."""

import torch
from torch import Tensor


def hinge_sum(scores: Tensor, positive: Tensor, negative: Tensor, margin: float) -> Tensor:
    r"""`sum_i sum_j a_i b_j max(0, margin + s_j - s_i)` over the labels, exact.

    A pair is active where `s_j > s_i - margin`. The sum over the active pairs is linear in the
    scores, `margin * sum_i a_i C_i + sum_l c_l s_l`, with `c_i = -a_i C_i` for a positive label,
    `C_i` the weight of its active negatives, and `c_j = b_j A_j` likewise for a negative one. One
    sort and two cumulative sums give these coefficients, in O(L log L) time and O(L) memory a
    sample.

    Args:
        scores: Shape (..., L); the gradient flows through these alone.
        positive: `a`, shape (..., L), 0 for labels that are not positive.
        negative: `b`, shape (..., L), 0 for labels that are not negative; at most one of `a_l`
            and `b_l` differs from 0.
        margin: A finite number.

    Returns:
        Shape (...), 0 where a sample has no pair.
    """
    if scores.shape[-1] == 0:
        return scores.sum(dim=-1)
    # A negative label at -inf (a positive one at +inf) is right by any margin: it has no hinge.
    idle = torch.where(positive > 0, scores == torch.inf, scores == -torch.inf)
    idle = idle | ((positive == 0) & (negative == 0))
    values = torch.where(idle, 0.0, scores).double()
    a, b = torch.where(idle, 0.0, positive.double()), torch.where(idle, 0.0, negative.double())
    coefficients, active = _hinge_coefficients(values.detach(), a.detach(), b.detach(), margin)
    # The coefficients add up to 0, so any centre may be taken off; the value then keeps its digits.
    centre = values.detach().clamp(-1e300, 1e300).mean(dim=-1, keepdim=True)
    terms = torch.where(coefficients == 0, 0.0, coefficients * (values - centre))
    return (margin * active + terms.sum(dim=-1)).to(scores.dtype)


def rank_of_labels(scores: Tensor) -> Tensor:
    """Each label's rank among its sample's labels: 1 plus the number of labels above it."""
    ascending = scores.sort(dim=-1).values.contiguous()
    return 1 + scores.shape[-1] - torch.searchsorted(ascending, scores.contiguous(), right=True)


def _hinge_coefficients(s: Tensor, a: Tensor, b: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """The coefficients `c`, shape (..., L), and `sum_i a_i C_i`, shape (...)."""
    # A pair is active where the positive label's key comes before the negative one's; the step up
    # puts it behind at a tie, where the hinge is just not active.
    bound = torch.nextafter(s - margin, s.new_tensor(torch.inf))
    order = torch.where(a > 0, bound, s).argsort(dim=-1)
    sorted_a, sorted_b = a.gather(-1, order), b.gather(-1, order)
    below = sorted_a.cumsum(dim=-1)
    above = sorted_b.flip(-1).cumsum(dim=-1).flip(-1)
    sorted_c = sorted_b * below - sorted_a * above
    active = (sorted_a * above).sum(dim=-1)
    return torch.zeros_like(s).scatter(-1, order, sorted_c), active

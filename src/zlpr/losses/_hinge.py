"""Hinge losses over pairs of a positive and a negative label: by the pairs where they are few.

A sample with p positive labels has fewer than pL pairs. Sorting its L labels costs as much as some
pairs each, so that with a few positive labels a sample, as most data has, the pairs are quicker.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from zlpr.losses._cells import Cells

RankWeight = Callable[[Tensor], Tensor]
"""From ranks, 1 for the top, to what they weigh, of the same shape."""

FEW = 4.0
"""Positive labels a sample up to which pairs are gone through: no slower than sorting there, up to
eleven times as quick with many labels (`bench/hinges.py`), and in about as much memory."""


def hinge_sum(cells: Cells, margin: float, factor: Tensor | None = None) -> Tensor:
    r"""`sum_i sum_j a_i b_j max(0, margin + s_j - s_i)` over the labels, exact.

    A pair is active where `s_j > s_i - margin`. The slope in a positive label's score is `-a_i
    C_i`, `C_i` the weight of the negatives that it is active with, and in a negative one's `b_j
    A_j` likewise. In at most O(L log L) time and O(L) memory a sample, and nothing is subtracted
    that could cancel.

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
    if torch.is_grad_enabled() and (cells.positive.requires_grad or cells.negative.requires_grad):
        raise ValueError("label_weight and pos_weight get no gradient here; detach them")
    a, b = cells.positive.double(), cells.negative.double()
    a = a if factor is None else a * factor
    # In units of the largest, so that their products are numbers.
    a, unit_of_a = _in_units_of_the_largest(a)
    b, unit_of_b = _in_units_of_the_largest(b)
    find = _by_pairs if has_few(a, scores) else _by_sorting
    slopes, value = find(scores.detach(), a, b, margin)
    unit = (unit_of_a * unit_of_b).clamp(max=torch.finfo(torch.float64).max)
    # A slope whose product with the unit is a number, be it rounded.
    steepest = (1 - 2.0**-50) * torch.finfo(cells.scores.dtype).max / unit
    slopes, unit = slopes.clamp(-steepest, steepest), unit.squeeze(-1)
    # Where the value is known, the scores are there for their gradient.
    linear = (slopes * (scores - scores.detach())).sum(dim=-1)
    return ((value + linear) * unit).to(cells.scores.dtype)


def has_few(marked: Tensor, scores: Tensor) -> bool:
    """Whether few labels a sample are not 0; False where they or scores are not known at once."""
    if torch.compiler.is_compiling() or not marked.is_cpu or marked.numel() == 0:
        return False
    try:
        scores[(0,) * scores.dim()].item()  # which vmap may go through without what is marked
        return int(marked.count_nonzero()) * marked.shape[-1] <= FEW * marked.numel()
    except RuntimeError:  # inside vmap, or a fake tensor
        return False


def rank_of_labels(scores: Tensor, wanted: Tensor | None = None) -> Tensor:
    """The labels' ranks among those of their sample: 1 plus the number of labels above.

    Where only some are wanted, the rank of any other label may be given as 1.
    """
    if wanted is not None and has_few(wanted, scores):
        of_samples = scores.reshape(-1, scores.shape[-1])
        rows, labels = wanted.reshape(of_samples.shape).nonzero(as_tuple=True)
        above = of_samples[rows] > of_samples[rows, labels].unsqueeze(-1)
        ranks = torch.ones(of_samples.shape, dtype=torch.int64)
        ranks[rows, labels] += above.sum(dim=-1)
        return ranks.reshape(scores.shape)
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


def _by_pairs(s: Tensor, a: Tensor, b: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """The slopes in the scores, shape (..., L), and the value, shape (...), pair by pair."""
    shape, of_samples = s.shape, s.reshape(-1, s.shape[-1])
    a, b = a.reshape(of_samples.shape), b.reshape(of_samples.shape)
    rows, labels = a.nonzero(as_tuple=True)
    gaps = of_samples[rows].sub_(of_samples[rows, labels].unsqueeze(-1)).add_(margin)
    weights = b[rows].mul_(a[rows, labels].unsqueeze(-1)).mul_(gaps > 0)
    value = s.new_zeros(len(of_samples)).index_add_(0, rows, gaps.mul_(weights).sum(dim=-1))
    slopes = torch.zeros_like(of_samples).index_add_(0, rows, weights)
    slopes[rows, labels] -= weights.sum(dim=-1)
    return slopes.reshape(shape), value.reshape(shape[:-1])


def _by_sorting(s: Tensor, a: Tensor, b: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """The same, from the labels in order, the positive ones at `s_i - margin`.

    The value is the sum over the gaps of each gap times the positive weight below it times the
    negative weight above it: one sort and two cumulative sums.
    """
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

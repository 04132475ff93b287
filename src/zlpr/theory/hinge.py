r"""Minimisers of the expected hinge over pairs.

The ranking loss's risk is ``sum_ij P(y_i=1, y_j=0) max(0, 1 + s_j - s_i)``. WARP multiplies the
terms of label ``i`` by its rank, which is a constant as long as the order of the labels is fixed.
Either is then a linear program in differences of scores with whole numbers for limits, so that a
minimum lies at whole scores; and no gap between neighbours need exceed the margin of 1. That leaves
one candidate for each way to rank the labels with ties: 541 for 5 labels, 4,683 for 6.
"""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zlpr.theory.joint import label_vectors, marginals

FloatArray = NDArray[np.float64]

ENUMERATED = 6
"""Up to so many labels every ranking is tried, which is exact for WARP too."""


def hinge_minimiser(joint: Tensor, value: Callable[[Tensor], Tensor], *, by_rank: bool) -> Tensor:
    """Minimise the pairwise hinge's risk, with many labels as a program; `by_rank` is WARP."""
    if joint.ndim <= ENUMERATED:
        levels = rankings(joint.ndim)
        return levels[value(levels[:, None])[:, 0].argmin()]
    labels = label_vectors(joint.ndim)
    pairs = (labels.T @ (joint.flatten()[:, None] * (1 - labels))).numpy()
    if not by_rank:
        return torch.from_numpy(_solve(pairs, order=()))
    order = marginals(joint).argsort(descending=True).tolist()
    best = torch.from_numpy(_solve_in_order(pairs, order))
    lowest = value(best[None]).item()
    improved = True
    while improved:
        improved = False
        for place in range(len(order) - 1):
            other = [*order[:place], order[place + 1], order[place], *order[place + 2 :]]
            scores = torch.from_numpy(_solve_in_order(pairs, other))
            if (risk := value(scores[None]).item()) < lowest - 1e-12:
                best, lowest, order, improved = scores, risk, other, True
    return best


def rankings(num_labels: int) -> Tensor:
    """Every way to rank the labels, ties allowed, as whole scores from 0 up; shape (R, L).

    Examples:
        >>> rankings(2).tolist()
        [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    """
    levels = torch.cartesian_prod(*[torch.arange(num_labels)] * num_labels)
    levels = levels.reshape(-1, num_labels)
    used = torch.zeros(len(levels), num_labels, dtype=torch.bool).scatter_(1, levels, True)
    return levels[used.sum(1) == levels.amax(1) + 1].to(torch.float64)


def _solve_in_order(pairs: FloatArray, order: Sequence[int]) -> FloatArray:
    ranks = np.empty(len(order))
    ranks[list(order)] = np.arange(1, len(order) + 1)
    return _solve(pairs * ranks[:, None], order)


def _solve(costs: FloatArray, order: Sequence[int]) -> FloatArray:
    """Minimise ``sum_ij costs_ij max(0, 1 + s_j - s_i)``, with scores falling along `order`."""
    from scipy.optimize import linprog

    size = len(costs)
    better, worse = np.nonzero(~np.eye(size, dtype=bool))
    hinges = len(better)
    rows = np.zeros((hinges + max(0, len(order) - 1), size + hinges))
    limits = np.zeros(len(rows))
    hinge = np.arange(hinges)
    rows[hinge, worse], rows[hinge, better], rows[hinge, size + hinge] = 1, -1, -1
    limits[:hinges] = -1
    for row, (upper, lower) in enumerate(itertools.pairwise(order), start=hinges):
        rows[row, lower], rows[row, upper] = 1, -1
    objective = np.concatenate([np.zeros(size), costs[better, worse]])
    bounds = [(-2.0 * size, 2.0 * size)] * size + [(0.0, None)] * hinges
    solution = linprog(objective, A_ub=rows, b_ub=limits, bounds=bounds, method="highs")
    return np.array(solution.x)[:size]

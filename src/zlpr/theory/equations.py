r"""The paper's equations around ZLPR, as functions to try: maxima, pairs, expansion, gradient.

With `P` the positive and `N` the negative labels of a sample, `A = sum_N e^s`, `B = sum_P e^-s`:

- a log-sum-exp is a smooth maximum: cross entropy of `max(0, s_j - s_t)`, LSEP of
  `max(0, s_j - s_i)`, ZLPR of `max(0, s_j - s_i, s_j, -s_i)`;
- over pairs ZLPR is `log(1 + sum_N sum_P e^(s_j - s_i) + sum_N e^s_j + sum_P e^-s_i)`;
- BCE is the logarithm of two products; expanded, ZLPR's sums are their terms up to order one;
- the gradient is `-y e^-s / (1 + B) + (1 - y) e^s / (1 + A)`.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from zlpr.losses import cross_entropy_loss, lsep_loss, zlpr_loss

MOST_LABELS = 12
"""Labels whose expansion is listed: 2^L terms at most."""


@dataclass(frozen=True)
class Maximum:
    """A loss beside the maximum that it smooths.

    Attributes:
        loss: its name.
        maximum: of the differences that the loss sums over, and 0.
        by_scale: the loss of k times the scores, divided by k, for each k.
    """

    loss: str
    maximum: float
    by_scale: dict[float, float]


@dataclass(frozen=True)
class Term:
    """One term of an expanded product.

    Attributes:
        side: "positive" or "negative".
        labels: whose exponentials are multiplied; none for the 1.
        value: of the product.
        in_zlpr: whether ZLPR has the term: those of at most one label.
    """

    side: Literal["positive", "negative"]
    labels: tuple[int, ...]
    value: float
    in_zlpr: bool


def maxima(
    scores: Tensor, targets: Tensor, scales: tuple[float, ...] = (1.0, 3.0, 10.0, 100.0)
) -> list[Maximum]:
    """Cross entropy (of the first positive label), LSEP and ZLPR beside their maxima.

    Args:
        scores: shape (L,).
        targets: shape (L,), with a positive and a negative label.
        scales: k, above 0; the larger, the nearer are loss and maximum.

    Examples:
        >>> found = maxima(torch.tensor([1.0, -0.5, 0.3]), torch.tensor([1, 0, 0]), (1.0, 100.0))
        >>> [(entry.loss, round(entry.maximum, 2)) for entry in found]
        [('cross_entropy', 0.0), ('lsep', 0.0), ('zlpr', 0.3)]
        >>> round(found[-1].by_scale[100.0], 2)
        0.3
    """
    s, y = scores.double(), targets.bool()
    positive, negative = s[y], s[~y]
    first = torch.zeros_like(y)
    first[y.nonzero()[0]] = True
    others = s[~first] - s[first]
    pairs = (negative[None, :] - positive[:, None]).flatten()
    exponents = {
        "cross_entropy": others,
        "lsep": pairs,
        "zlpr": torch.cat([pairs, negative, -positive]),
    }
    functions = {"cross_entropy": cross_entropy_loss, "lsep": lsep_loss, "zlpr": zlpr_loss}
    return [
        Maximum(
            name,
            max(0.0, float(exponents[name].max())),
            {
                k: float(function(k * s, first if name == "cross_entropy" else y)) / k
                for k in scales
            },
        )
        for name, function in functions.items()
    ]


def zlpr_over_pairs(scores: Tensor, targets: Tensor, threshold: float = 0.0) -> Tensor:
    """ZLPR, or TLPR, as one logarithm over pairs of labels and of a label with the threshold.

    Equal to `zlpr_loss(scores, targets, threshold=threshold)`, by the terms that the paper starts
    from; for looking at, since it costs the square of the labels and overflows.

    Args:
        scores: shape (L,).
        targets: shape (L,).
        threshold: what positive scores are to exceed.

    Examples:
        >>> scores, targets = torch.tensor([2.0, -1.0, -3.0]), torch.tensor([1, 0, 0])
        >>> zlpr_over_pairs(scores, targets).item(), zlpr_loss(scores, targets).item()
        (0.475..., 0.475...)
    """
    s, y = scores.double(), targets.bool()
    positive, negative = s[y], s[~y]
    pairs = torch.exp(negative[None, :] - positive[:, None]).sum()
    above, below = torch.exp(threshold - positive).sum(), torch.exp(negative - threshold).sum()
    return torch.log1p(pairs + above + below)


def zlpr_gradient(scores: Tensor, targets: Tensor) -> Tensor:
    """The gradient of ZLPR in closed form, `-y e^-s / (1 + B) + (1 - y) e^s / (1 + A)`.

    The absolute values over the positive labels sum to `B / (1 + B)`, over the negative ones to
    `A / (1 + A)`: less than 1 each, however many labels there are.

    Args:
        scores: shape (..., L).
        targets: shape (..., L), 0 or 1, or between.

    Examples:
        >>> zlpr_gradient(torch.tensor([0.0, 0.0]), torch.tensor([1, 0])).tolist()
        [-0.5, 0.5]
    """
    s, y = scores.double(), targets.double()
    zero = torch.zeros_like(s[..., :1])
    up = torch.softmax(torch.cat([-s + y.log(), zero], dim=-1), dim=-1)[..., :-1]
    down = torch.softmax(torch.cat([s + (1 - y).log(), zero], dim=-1), dim=-1)[..., :-1]
    return down - up


def expansion(scores: Tensor, targets: Tensor) -> list[Term]:
    r"""BCE's two products term by term, `prod_P (1 + e^-s)` and `prod_N (1 + e^s)`.

    The logarithms of the sums of all terms add up to BCE, those of the terms with at most one
    label to ZLPR.

    Args:
        scores: shape (L,), at most `MOST_LABELS`.
        targets: shape (L,).

    Examples:
        >>> terms = expansion(torch.zeros(3), torch.tensor([1, 0, 0]))
        >>> [(term.side, term.labels) for term in terms if not term.in_zlpr]
        [('negative', (1, 2))]
    """
    if scores.dim() != 1 or not 0 < len(scores) <= MOST_LABELS:
        raise ValueError(f"expected scores of 1 to {MOST_LABELS} labels, got {tuple(scores.shape)}")
    y, values = targets.bool(), scores.double().tolist()
    terms = []
    sides: tuple[tuple[Literal["positive", "negative"], Tensor, int], ...] = (
        ("positive", y, -1),
        ("negative", ~y, 1),
    )
    for side, mask, sign in sides:
        labels = mask.nonzero().flatten().tolist()
        for order in range(len(labels) + 1):
            for chosen in itertools.combinations(labels, order):
                value = math.exp(sign * sum(values[label] for label in chosen))
                terms.append(Term(side, chosen, value, order <= 1))
    return terms

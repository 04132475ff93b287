r"""The link between ZLPR scores and probabilities, as the number of labels grows.

For one label ZLPR is BCE, whose minimiser has ``sigma(s) = p``. With soft targets, or very many
labels, the minimiser has ``sigma(2 s) = p``. In between the link slides from one to the other,
which is why probabilities shown to a user need a calibrator fitted on validation data.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class LinkPoint:
    """The minimiser for `labels` independent labels that each apply with `probability`.

    Attributes:
        score: the common score of the labels.
        slope: c with ``sigma(c * score) = probability``; 1 for BCE's link, 2 for the soft one.
    """

    labels: int
    probability: float
    score: float
    slope: float


def link(labels: int, probability: float) -> LinkPoint:
    r"""Minimise ``E_k[log(1 + k e^-s) + log(1 + (L-k) e^s)]``, ``k ~ Binomial(L, p)``, over ``s``.

    At a probability of one half the score is zero and any slope fits; the slope given is the one
    that those of nearby probabilities approach.

    Args:
        labels: how many there are, at least 1.
        probability: of each, above 0 and below 1: at the ends the score is infinite.

    Examples:
        >>> round(link(1, 0.2).slope, 6), round(link(100_000, 0.2).slope, 3)
        (1.0, 2.0)
    """
    if not (type(labels) is int and labels >= 1):
        raise ValueError(f"labels is {labels!r}, expected a whole number from 1 up")
    if not 0 < probability < 1:
        raise ValueError(f"probability is {probability!r}, expected one above 0 and below 1")
    score = _score(labels, probability)
    # Near one half both are rounding errors; the slope is even about it, so 1e-4 beside will do.
    beside = probability if abs(probability - 0.5) > 1e-4 else 0.5 + 1e-4
    logit = torch.tensor(beside, dtype=torch.float64).logit().item()
    return LinkPoint(labels, probability, score, logit / _score(labels, beside))


def _score(labels: int, probability: float) -> float:
    """The minimiser; exactly zero at one half, where the loss is even."""
    if probability == 0.5:
        return 0.0
    count, weight = _binomial(labels, probability)
    low, high = -800.0, 800.0  # beyond the logit of any number
    for _ in range(200):  # bisection on the slope of a convex function: exact to rounding
        middle = (low + high) / 2
        if _slope(middle, count, labels - count, weight) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _slope(score: float, positives: Tensor, negatives: Tensor, weight: Tensor) -> float:
    """Derivative of the expected loss: ``-sigma(log k - s) + sigma(log(L-k) + s)``, averaged."""
    pull = torch.sigmoid(negatives.log() + score) - torch.sigmoid(positives.log() - score)
    return float((weight * pull).sum())


def _binomial(trials: int, probability: float) -> tuple[Tensor, Tensor]:
    """The counts that matter and their weights; tails below 1e-20 are left out."""
    mean, spread = trials * probability, (trials * probability * (1 - probability)) ** 0.5
    first, last = max(0, int(mean - 12 * spread - 40)), min(trials, int(mean + 12 * spread + 40))
    count = torch.arange(first, last + 1, dtype=torch.float64)
    ways = -torch.lgamma(count + 1) - torch.lgamma(trials - count + 1)
    chance = torch.tensor(probability, dtype=torch.float64)
    return count, (ways + count * chance.log() + (trials - count) * (1 - chance).log()).softmax(0)

"""Every loss once more, as its formula reads: float64, one sample and label at a time, no tricks.

Tests compare the package with these, benchmarks time it against them. Values overflow here where
the formula's terms do; gradients come from automatic differentiation. Every function takes scores
and targets of shape (B, L) and gives one value per sample, but for the losses over the batch, which
give one value.
"""

import math

import torch
from torch import Tensor


def _sides(s: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The scores of one sample's positive and negative labels."""
    return s[y.bool()], s[~y.bool()]


def _per_sample(function):  # type: ignore[no-untyped-def]
    def loss(scores: Tensor, targets: Tensor, **options: object) -> Tensor:
        rows = zip(scores.double(), targets, strict=True)
        return torch.stack([function(s, y, **options) for s, y in rows])

    return loss


@_per_sample
def zlpr(s: Tensor, y: Tensor, threshold: float = 0.0, temperature: float = 1.0) -> Tensor:
    positive, negative = _sides((s - threshold) / temperature, y)
    return torch.log(1 + torch.exp(-positive).sum()) + torch.log(1 + torch.exp(negative).sum())


@_per_sample
def tlpr(s: Tensor, y: Tensor, threshold: float = 0.0) -> Tensor:
    positive, negative = _sides(s, y)
    return torch.log(math.exp(-threshold) + torch.exp(-positive).sum()) + torch.log(
        math.exp(threshold) + torch.exp(negative).sum()
    )


@_per_sample
def weighted_zlpr(s: Tensor, y: Tensor, w: Tensor, u: Tensor) -> Tensor:
    y = y.double()
    above = torch.log(1 + (w * u * y * torch.exp(-s)).sum())
    return above + torch.log(1 + (w * (1 - y) * torch.exp(s)).sum())


@_per_sample
def cross_entropy(s: Tensor, y: Tensor) -> Tensor:
    (i,) = y.nonzero().squeeze(1).tolist()
    others = [j for j in range(len(s)) if j != i]
    return torch.log(1 + torch.exp(s[others] - s[i]).sum())


@_per_sample
def decoupled_softmax(s: Tensor, y: Tensor) -> Tensor:
    positive, negative = _sides(s, y)
    share = torch.exp(positive) / (torch.exp(positive) + torch.exp(negative).sum())
    return -share.log().mean()


@_per_sample
def lsep(s: Tensor, y: Tensor) -> Tensor:
    return torch.log(1 + _pair_sum(s, y))


@_per_sample
def bp_mll(s: Tensor, y: Tensor) -> Tensor:
    return _pair_sum(s, y)


def _pair_sum(s: Tensor, y: Tensor) -> Tensor:
    positive, negative = _sides(s, y)
    return torch.exp(negative[None, :] - positive[:, None]).sum()


@_per_sample
def bce(s: Tensor, y: Tensor) -> Tensor:
    positive, negative = _sides(s, y)
    return torch.log(1 + torch.exp(-positive)).sum() + torch.log(1 + torch.exp(negative)).sum()


@_per_sample
def focal(s: Tensor, y: Tensor, gamma: float = 2.0) -> Tensor:
    p, q = (torch.sigmoid(side) for side in _sides(s, y))
    return -((1 - p) ** gamma * p.log()).sum() - (q**gamma * (1 - q).log()).sum()


@_per_sample
def dice1(s: Tensor, y: Tensor, g: float = 1.0) -> Tensor:
    p, q = (torch.sigmoid(side) for side in _sides(s, y))
    return (1 - (2 * p + g) / (p**2 + 1 + g)).sum() + (1 - g / (q**2 + g)).sum()


def dice2(scores: Tensor, targets: Tensor, g: float = 1.0) -> Tensor:
    p, y = torch.sigmoid(scores.double()), targets.double()
    total = torch.zeros((), dtype=torch.float64)
    for label in range(p.shape[1]):
        both = (p[:, label] * y[:, label]).sum()
        total = total + 1 - (2 * both + g) / ((p[:, label] ** 2).sum() + y[:, label].sum() + g)
    return total


@_per_sample
def ranking(s: Tensor, y: Tensor, margin: float = 1.0) -> Tensor:
    positive, negative = _sides(s, y)
    return torch.relu(margin + negative[None, :] - positive[:, None]).sum()


@_per_sample
def warp(s: Tensor, y: Tensor, margin: float = 1.0, rank_weight: str = "identity") -> Tensor:
    positive, negative = _sides(s, y)
    rank = 1 + (s[None, :] > positive[:, None]).sum(dim=1, keepdim=True)
    rank = rank.double().apply_(
        {
            "identity": lambda r: r,
            "harmonic": lambda r: sum(1 / k for k in range(1, int(r) + 1)),
            "log": lambda r: math.log(1 + r),
        }[rank_weight]
    )
    return (rank * torch.relu(margin + negative[None, :] - positive[:, None])).sum()


@_per_sample
def asymmetric(
    s: Tensor, y: Tensor, plus: float = 1.0, minus: float = 4.0, m: float = 0.05
) -> Tensor:
    p, q = (torch.sigmoid(side) for side in _sides(s, y))
    q = torch.relu(q - m)
    positive = ((1 - p).detach() ** plus * p.log()).sum()
    return -positive - (q.detach() ** minus * (1 - q).log()).sum()


def two_way(scores: Tensor, targets: Tensor, warm: float = 4.0, cool: float = 1.0) -> Tensor:
    def mean_of_rows(s: Tensor, y: Tensor) -> Tensor:
        terms = []
        for row, truth in zip(s, y, strict=True):
            positive, negative = _sides(row, truth)
            if len(positive) == 0:
                continue
            product = torch.exp(negative / cool).sum() ** cool
            product = product * torch.exp(-positive / warm).sum() ** warm
            terms.append(torch.log(1 + product))
        return torch.stack(terms).mean()

    s = scores.double()
    return mean_of_rows(s, targets) + mean_of_rows(s.T, targets.T)


@_per_sample
def hbm(s: Tensor, y: Tensor, t: float = 0.0, a: float = 1.0, m: float = 0.01) -> Tensor:
    positive, negative = _sides(s, y)
    total = torch.zeros((), dtype=torch.float64)
    for side, sign in ((positive, -1), (negative, 1)):
        if len(side) == 0:
            continue
        spread = side.detach().std(unbiased=False)
        margin = sign * (side - t) + a * spread
        kept = margin[torch.sigmoid(2 * margin) > m]
        total = total + torch.log(1 + torch.exp(kept).sum())
    return total


@_per_sample
def adaptive_threshold(s: Tensor, y: Tensor, t: float = 0.0) -> Tensor:
    positive, negative = _sides(s, y)
    above = torch.exp(positive) / (torch.exp(positive).sum() + math.exp(t))
    return -above.log().sum() - torch.log(math.exp(t) / (torch.exp(negative).sum() + math.exp(t)))


@_per_sample
def circle(s: Tensor, y: Tensor, gamma: float = 1.0, m: float = 0.25) -> Tensor:
    positive, negative = _sides(s, y)
    weight_negative = torch.relu(negative + m).detach()
    weight_positive = torch.relu(1 + m - positive).detach()
    product = torch.exp(gamma * weight_negative * (negative - m)).sum()
    product = product * torch.exp(-gamma * weight_positive * (positive - (1 - m))).sum()
    return torch.log(1 + product)


def distribution_balanced(
    scores: Tensor,
    targets: Tensor,
    counts: Tensor,
    samples: int,
    al: float = 0.1,
    be: float = 10.0,
    mu: float = 0.2,
    la: float = 2.0,
    ka: float = 0.05,
    g: float = 2.0,
) -> Tensor:
    values = []
    for s, truth in zip(scores.double(), targets, strict=True):
        y, n = truth.double(), counts.double()
        r = (1 / n) / (y / n).sum()
        w = al + torch.sigmoid(be * (r - mu))
        z = s - ka / la * torch.log(samples / n - 1)
        positive = (1 - torch.sigmoid(z)) ** g * torch.log(1 + torch.exp(-z))
        negative = torch.sigmoid(la * z) ** g * torch.log(1 + torch.exp(la * z)) / la
        values.append((w * (y * positive + (1 - y) * negative)).sum())
    return torch.stack(values)


def class_balanced(scores: Tensor, targets: Tensor, counts: Tensor, b: float = 0.9999) -> Tensor:
    weight = (1 - b) / (1 - b ** counts.double())
    s, y = scores.double(), targets.double()
    terms = y * torch.log(1 + torch.exp(-s)) + (1 - y) * torch.log(1 + torch.exp(s))
    return (weight * terms).sum(dim=1)


def cb_ntr(
    scores: Tensor,
    targets: Tensor,
    counts: Tensor,
    samples: int,
    b: float = 0.9,
    la: float = 2.0,
    ka: float = 0.05,
    g: float = 2.0,
) -> Tensor:
    n, s, y = counts.double(), scores.double(), targets.double()
    z = s - ka / la * torch.log(samples / n - 1)
    positive = (1 - torch.sigmoid(z)) ** g * torch.log(1 + torch.exp(-z))
    negative = torch.sigmoid(la * z) ** g * torch.log(1 + torch.exp(la * z)) / la
    return ((1 - b) / (1 - b**n) * (y * positive + (1 - y) * negative)).sum(dim=1)


def logit_adjusted(scores: Tensor, targets: Tensor, counts: Tensor, samples: int) -> Tensor:
    return bce(scores.double() + torch.log(counts.double() / samples), targets)


def sigmoid_f1(scores: Tensor, targets: Tensor) -> Tensor:
    p, y = torch.sigmoid(scores.double()), targets.double()
    tp, fp, fn = (p * y).sum(0), (p * (1 - y)).sum(0), ((1 - p) * y).sum(0)
    return (1 - 2 * tp / (2 * tp + fn + fp)).mean()


@_per_sample
def self_adjusting_dice(s: Tensor, y: Tensor, a: float = 0.6, g: float = 1.0) -> Tensor:
    p, y = torch.sigmoid(s), y.double()
    q = (1 - p) ** a * p
    return (1 - (2 * q * y + g) / (q + y + g)).sum()


@_per_sample
def hill(s: Tensor, y: Tensor, la: float = 1.5, m: float = 1.0, g: float = 2.0) -> Tensor:
    positive, negative = _sides(s, y)
    p, q = torch.sigmoid(positive - m), torch.sigmoid(negative)
    return -((1 - p) ** g * p.log()).sum() + ((la - q) * q**2).sum()


@_per_sample
def asymmetric_polynomial(
    s: Tensor, y: Tensor, minus: float = 4.0, m: float = 0.05, e1: float = 1.0, e2: float = -2.5
) -> Tensor:
    p, q = (torch.sigmoid(side) for side in _sides(s, y))
    q = torch.relu(q - m)
    positive = (p.log() + e1 * (1 - p) + e2 * 0.5 * (1 - p) ** 2).sum()
    return -positive - (q.detach() ** minus * (1 - q).log()).sum()


@_per_sample
def splc(s: Tensor, y: Tensor, tau: float = 0.6, m: float = 1.0, g: float = 2.0) -> Tensor:
    y = y.bool()
    z = torch.where(y, s - m, s)
    p = torch.sigmoid(z)
    target = (y | (p > tau)).double()  # a given label is one whatever its score
    focus = ((1 - p) * target + p * (1 - target)) ** g
    return -(focus * (target * p.log() + (1 - target) * (1 - p).log())).sum()


def divergence(s: Tensor, t: Tensor) -> Tensor:
    s, t = s.double(), t.double()
    p = torch.sigmoid(2 * s)
    # 1 - p is sigmoid(-2s); subtracted, it would have no digits left for confident labels.
    ratio = torch.sigmoid(-2 * s) / torch.sigmoid(-2 * t)
    return (2 * p * (s - t) + torch.log(ratio)).sum(dim=-1)


def symmetric_divergence(s: Tensor, t: Tensor) -> Tensor:
    s, t = s.double(), t.double()
    return (2 * (torch.sigmoid(2 * s) - torch.sigmoid(2 * t)) * (s - t)).sum(dim=-1)


def circulating_zlpr(scores: Tensor, targets: Tensor) -> Tensor:
    """The version in circulation: multi-hot targets, `1e12` masks, a concatenated zero."""
    signed = (1 - 2 * targets) * scores
    negative = signed - targets * 1e12
    positive = signed - (1 - targets) * 1e12
    zero = torch.zeros_like(scores[..., :1])
    negative = torch.cat([negative, zero], dim=-1)
    positive = torch.cat([positive, zero], dim=-1)
    return torch.logsumexp(negative, dim=-1) + torch.logsumexp(positive, dim=-1)


def circulating_sparse_zlpr(scores: Tensor, indices: Tensor) -> Tensor:
    """The sparse version in circulation, which subtracts the positive labels from the whole."""
    zero = torch.zeros_like(scores[..., :1])
    bounded = torch.cat([scores, zero], dim=-1)
    positive = torch.gather(bounded, -1, indices)
    above = torch.logsumexp(torch.cat([-positive, zero], dim=-1), dim=-1)
    whole = torch.logsumexp(bounded, dim=-1)
    rest = 1 - torch.exp(torch.logsumexp(positive, dim=-1) - whole)
    return above + whole + torch.log(rest.clamp(min=1e-7))

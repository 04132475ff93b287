"""Every loss and its gradient by hand in extended precision, at scores and weights of any size.

`tests/reference.py` has the formulas as they read, which overflow where their terms do. Here sums
of exponentials are shifted, and nothing is subtracted that nearly cancels, so that values and
gradients can be compared to the last digits of float64. A function takes a `Batch` and gives the
samples' values, shape (B,), and the gradient of their sum, shape (B, L).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Wide = NDArray[np.longdouble]
Result = tuple[Wide, Wide]


@dataclass(frozen=True)
class Batch:
    """What a loss is given, in extended precision, of shape (B, L) each.

    Attributes:
        s: Scores, held to the limits of the dtype that the loss computes in.
        y: Targets.
        known: 1 for each cell that is not masked.
        w: Label weights.
        u: Weights of positive labels.
        limit: What the scores are held to.
        largest_weight: What products of weights are held to.
    """

    s: Wide
    y: Wide
    known: Wide
    w: Wide
    u: Wide
    limit: float
    largest_weight: float

    @property
    def a(self) -> Wide:
        """What the cells count for as positive ones."""
        return self.known * self.y * np.minimum(self.w * self.u, self.largest_weight)

    @property
    def b(self) -> Wide:
        """What the cells count for as negative ones."""
        return self.known * (1 - self.y) * self.w


def sigmoid(x: Wide) -> Wide:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def softplus(x: Wide) -> Wide:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def logsumexp(v: Wide, c: Wide) -> Result:
    """`log sum c e^v`, shape (B,), and its gradient in v, shape (B, L)."""
    largest, rest, share = _logsumexp_parts(v, c)
    return largest + rest, share


def _logsumexp_parts(v: Wide, c: Wide) -> tuple[Wide, Wide, Wide]:
    """The value of the largest term, what has to be added to it, -inf without any, and shares."""
    if v.shape[1] == 0:
        return np.zeros(len(v), np.longdouble), np.full(len(v), -np.inf, np.longdouble), v
    logs = np.log(c)
    top = np.argmax(v + logs, axis=1)[:, None]
    largest = np.take_along_axis(v, top, 1)
    log = np.take_along_axis(logs, top, 1)
    terms = np.where(c > 0, np.exp((v - largest) + (logs - np.where(log == -np.inf, 0, log))), 0)
    total = terms.sum(axis=1, keepdims=True)
    rest = np.where(total > 0, log + np.log(total), -np.inf)
    return largest[:, 0], rest[:, 0], terms / np.where(total > 0, total, 1)


def logsumexp1(v: Wide, c: Wide, offset: Wide | float = 0.0) -> Result:
    """`log(1 + sum c e^(v + offset))` and its gradient in v."""
    value, share = logsumexp(v, c)
    return softplus(value + offset), share * sigmoid(value + offset)[:, None]


def zlpr(x: Batch, temperature: float = 1.0) -> Result:
    divided = np.clip(x.s / temperature, -x.limit, x.limit)
    s = np.where(np.abs(x.s) < x.limit, divided, x.s)  # an infinite score stays as it is
    above, up = logsumexp1(-s, x.a)
    below, down = logsumexp1(s, x.b)
    return above + below, (down - up) / temperature


def bce(x: Batch) -> Result:
    return focal(x, gamma=0.0)


def _focal(z: Wide, gamma: float, scale: float = 1.0) -> Result:
    """`sigma(cz)^gamma softplus(cz) / c` and its slope in z."""
    p, soft = sigmoid(scale * z), softplus(scale * z)
    focus = p**gamma if gamma else np.ones_like(p)
    # sigma(-z) vanishes before z overflows in the product
    pull = gamma * sigmoid(-scale * z) * np.minimum(soft, 12000)
    return focus * soft / scale, focus * (pull + p)


def _sum_of_cells(x: Batch, positive: Result, negative: Result) -> Result:
    values = (x.a * positive[0] + x.b * negative[0]).sum(axis=1)
    return values, x.a * positive[1] + x.b * negative[1]


def _minus_slope(result: Result) -> Result:
    return result[0], -result[1]


def focal(x: Batch, gamma: float = 2.0) -> Result:
    return _sum_of_cells(x, _minus_slope(_focal(-x.s, gamma)), _focal(x.s, gamma))


def asymmetric(
    x: Batch, gamma_positive: float = 1.0, gamma_negative: float = 4.0, margin: float = 0.05
) -> Result:
    q = sigmoid(-x.s)
    positive = q**gamma_positive * softplus(-x.s), -(q ** (1 + gamma_positive))
    if margin == 0.0:
        p = sigmoid(x.s)
        negative = p**gamma_negative * softplus(x.s), p ** (1 + gamma_negative)
    else:
        p = np.maximum(sigmoid(x.s) - np.longdouble(margin), 0)
        focus = p**gamma_negative
        slope = focus / (1 - p) * sigmoid(x.s) * sigmoid(-x.s) * (p > 0)
        negative = -focus * np.log1p(-p), slope
    return _sum_of_cells(x, positive, negative)


def asymmetric_polynomial(
    x: Batch,
    gamma_positive: float = 0.0,
    gamma_negative: float = 4.0,
    margin: float = 0.05,
    first: float = 1.0,
    second: float = -2.5,
) -> Result:
    plain = replace(x, y=np.zeros_like(x.y), known=x.known * (1 - x.y))
    below, down = asymmetric(plain, 0.0, gamma_negative, margin)
    p, q = sigmoid(x.s), sigmoid(-x.s)
    focus = q**gamma_positive
    term = softplus(-x.s) - q * (first + second / 2 * q)
    slope = focus * (p * q * (first + second * q) - q)
    above = (x.a * focus * term).sum(axis=1)
    return above + below, x.a * slope + down


def splc(x: Batch, tau: float = 0.6, margin: float = 1.0, gamma: float = 2.0) -> Result:
    shift = x.y * np.longdouble(margin)
    is_likely = x.s > np.log(np.longdouble(tau) / (1 - np.longdouble(tau)))
    corrected = replace(x, y=np.maximum(x.y, is_likely))
    return _sum_of_cells(corrected, _minus_slope(_focal(shift - x.s, gamma)), _focal(x.s, gamma))


def hill(x: Batch, weighting: float = 1.5, margin: float = 1.0, gamma: float = 2.0) -> Result:
    p, q = sigmoid(x.s), sigmoid(-x.s)
    negative = (weighting - p) * p**2, (2 * weighting - 3 * p) * p**2 * q
    return _sum_of_cells(x, _minus_slope(_focal(margin - x.s, gamma)), negative)


def dice1(x: Batch, smoothing: float = 1.0) -> Result:
    p, q = sigmoid(x.s), sigmoid(-x.s)
    below = p**2 + 1 + smoothing
    slope = -2 * p * q**2 * (below + p * q) / below**2
    whole = p**2 + smoothing
    return _sum_of_cells(
        x, (q**2 / below, slope), (p**2 / whole, 2 * p**2 * q * smoothing / whole**2)
    )


def self_adjusting_dice(x: Batch, alpha: float = 0.6, smoothing: float = 1.0) -> Result:
    p, q = sigmoid(x.s), sigmoid(-x.s)
    log_q = -softplus(x.s)
    adjusted = p * np.exp(alpha * log_q)
    rest = q - p * np.expm1(alpha * log_q)
    slope = adjusted * (q - alpha * p)
    positive = rest / (adjusted + 1 + smoothing)
    negative = adjusted / (adjusted + smoothing)
    return _sum_of_cells(
        x,
        (positive, -slope * (2 + smoothing) / (adjusted + 1 + smoothing) ** 2),
        (negative, slope * smoothing / (adjusted + smoothing) ** 2),
    )


def class_balanced(
    x: Batch, counts: Wide, num_samples: int, beta: float = 0.9999, gamma: float = 0.0
) -> Result:
    log = np.log(np.longdouble(beta)) if beta > 0 else -np.inf
    weight = (1 - np.longdouble(beta)) / -np.expm1(np.maximum(counts, 1) * log)
    return focal(Batch(x.s, x.y, x.known, x.w * weight, x.u, x.limit, x.largest_weight), gamma)


def distribution_balanced(
    x: Batch,
    counts: Wide,
    num_samples: int,
    alpha: float = 0.1,
    beta: float = 10.0,
    mu: float = 0.2,
    negative_scale: float = 2.0,
    prior_scale: float = 0.05,
    gamma: float = 2.0,
) -> Result:
    n = np.clip(counts, 1, num_samples - 1)
    ratio = 1 / n / (x.y * x.known / n).sum(axis=1, keepdims=True)
    balance = alpha + (sigmoid(beta * (ratio - mu)) if beta else np.full_like(x.s, 0.5))
    shift = np.longdouble(prior_scale) / negative_scale * np.log(num_samples / n - 1)
    positive = _minus_slope(_focal(shift - x.s, gamma))
    negative = _focal(x.s - shift, gamma, negative_scale)
    return _sum_of_cells(
        x,
        (balance * positive[0], balance * positive[1]),
        (balance * negative[0], balance * negative[1]),
    )


def cb_ntr(
    x: Batch,
    counts: Wide,
    num_samples: int,
    beta: float = 0.9,
    negative_scale: float = 2.0,
    prior_scale: float = 0.05,
    gamma: float = 2.0,
) -> Result:
    n = np.clip(counts, 1, num_samples - 1)
    log = np.log(np.longdouble(beta)) if beta > 0 else -np.inf
    balance = (1 - np.longdouble(beta)) / -np.expm1(n * log)
    shift = np.longdouble(prior_scale) / negative_scale * np.log(num_samples / n - 1)
    positive = _minus_slope(_focal(shift - x.s, gamma))
    negative = _focal(x.s - shift, gamma, negative_scale)
    return _sum_of_cells(
        x,
        (balance * positive[0], balance * positive[1]),
        (balance * negative[0], balance * negative[1]),
    )


def logit_adjusted(
    x: Batch, counts: Wide, num_samples: int, loss: str = "bce", tau: float = 1.0
) -> Result:
    prior = np.maximum(counts, 1) / np.longdouble(num_samples)
    moved = replace(x, s=np.clip(x.s + tau * np.log(prior), -x.limit, x.limit))
    result: Result = globals()[loss](moved)
    return result


def _pairs(x: Batch) -> tuple[Wide, Wide]:
    is_pair = ((x.a > 0).any(axis=1) & (x.b > 0).any(axis=1))[:, None]
    below, above = _logsumexp_parts(x.s, x.b), _logsumexp_parts(-x.s, x.a)
    # The difference of scores first: what they have in common would cost digits.
    log = (below[0] + above[0]) + (below[1] + above[1])
    return log, np.where(is_pair, below[2] - above[2], 0)


def lsep(x: Batch) -> Result:
    log, slope = _pairs(x)
    return softplus(log), sigmoid(log)[:, None] * slope


def bp_mll(x: Batch, log: bool = True) -> Result:
    logarithm, slope = _pairs(x)
    if log:
        return np.where(logarithm == -np.inf, 0, logarithm), slope
    values = np.minimum(np.exp(logarithm), 16 * x.limit)  # held to the dtype's largest number
    return values, values[:, None] * slope


def decoupled_softmax(x: Batch) -> Result:
    number = np.maximum((x.known * x.y).sum(axis=1, keepdims=True), 1)
    largest, rest, share = _logsumexp_parts(x.s, x.b)
    log = (largest[:, None] - x.s) + rest[:, None]
    c = x.a / number
    pull = c * sigmoid(log)
    return (c * softplus(log)).sum(axis=1), share * pull.sum(axis=1, keepdims=True) - pull


def circle(x: Batch, gamma: float = 1.0, margin: float = 0.25) -> Result:
    pull = [
        np.minimum(gamma * np.maximum(0, distance), x.limit)
        for distance in (x.s + margin, 1 + margin - x.s)
    ]
    negative = np.clip(pull[0] * (x.s - margin), -x.limit, x.limit)
    positive = np.clip(-pull[1] * (x.s - (1 - margin)), -x.limit, x.limit)
    below, down = logsumexp(negative, x.b)
    above, up = logsumexp(positive, x.a)
    log = below + above
    slope = down * pull[0] - up * pull[1]
    return softplus(log), sigmoid(log)[:, None] * slope


def ranking(x: Batch, margin: float = 1.0, rank: Wide | None = None) -> Result:
    a = x.a if rank is None else x.a * rank
    weight = a[:, :, None] * x.b[:, None, :]
    hinge = (x.s[:, None, :] - x.s[:, :, None]) + np.longdouble(margin)
    active = weight * (hinge > 0)
    values = (active * np.maximum(hinge, 0)).sum(axis=(1, 2))
    return values, active.sum(axis=1) - active.sum(axis=2)


def warp(x: Batch, margin: float = 1.0, rank_weight: str = "identity") -> Result:
    above = (x.s[:, None, :] > x.s[:, :, None]) & (x.known[:, None, :] > 0)
    rank = 1 + above.sum(axis=2)
    if rank_weight == "identity":
        return ranking(x, margin, rank)
    ranks = np.arange(1, x.s.shape[1] + 1, dtype=np.longdouble)
    weight = np.cumsum(1 / ranks) if rank_weight == "harmonic" else np.log(1 + ranks)
    return ranking(x, margin, weight[rank - 1])


def _shortfalls(v: Wide, counted: NDArray[np.bool_]) -> tuple[Wide, Wide, Wide]:
    """`log sum e^v - v` of each that counts, its share, and the sum of all other shares."""
    visible = np.where(counted, v, -np.inf)
    top = visible.argmax(axis=1)[:, None]
    largest = np.take_along_axis(v, top, 1)
    terms = np.where(counted, np.exp(visible - largest), 0)
    others = terms @ (1 - np.eye(v.shape[1], dtype=np.longdouble))
    rest = np.take_along_axis(others, top, 1)
    whole = np.maximum(terms.sum(axis=1, keepdims=True), np.finfo(np.longdouble).tiny)
    shortfall = np.where(counted, largest - v + np.log1p(rest), 0)
    return shortfall, terms / whole, others / whole


def _weighted_shortfalls(c: Wide, v: Wide, counted: NDArray[np.bool_]) -> Result:
    """`sum_i c_i (log sum e^v - v_i)` and its gradient in v."""
    shortfall, share, others = _shortfalls(v, counted)
    rest_of_c = c @ (1 - np.eye(v.shape[1], dtype=np.longdouble))
    return (c * shortfall).sum(axis=1), share * rest_of_c - c * others


def cross_entropy(x: Batch) -> Result:
    total = (x.known * x.y).sum(axis=1, keepdims=True)
    share = x.known * x.y * x.w / np.where(total > 0, total, 1)
    if x.s.shape[1] == 0:
        return share.sum(axis=1), share
    return _weighted_shortfalls(share, x.s, x.known > 0)


def adaptive_threshold(x: Batch) -> Result:
    zero = np.zeros((len(x.s), 1), np.longdouble)
    v, c = np.hstack([x.s, zero]), np.hstack([x.a, zero])
    counted = np.hstack([x.a > 0, zero == 0])
    above, up = _weighted_shortfalls(c, v, counted)
    below, down = logsumexp1(x.s, x.b)
    return above + below, up[:, :-1] + down


def hbm(x: Batch, alpha: float = 1.0, margin: float = 0.01) -> Result:
    values, slope = np.zeros(len(x.s), np.longdouble), np.zeros_like(x.s)
    for sign, c in ((-1, x.a), (1, x.b)):
        bias = bias_of_side(x, c, alpha)
        kept = sigmoid(2 * (sign * x.s + bias)) > np.longdouble(margin)
        value, share = logsumexp1(sign * x.s, c * kept, bias[:, 0])
        values, slope = values + value, slope + sign * share
    return values, slope


def bias_of_side(x: Batch, c: Wide, alpha: float) -> Wide:
    """HBM's bias, shape (B, 1)."""
    part = (c > 0) & (np.abs(x.s) < x.limit)
    number = np.maximum(part.sum(axis=1, keepdims=True), 1)
    inside = np.where(part, x.s, 0)
    mean = inside.sum(axis=1, keepdims=True) / number
    spread = np.sqrt((np.where(part, x.s - mean, 0) ** 2).sum(axis=1, keepdims=True) / number)
    return alpha * spread


def two_way(
    x: Batch,
    positive_temperature: float = 4.0,
    negative_temperature: float = 1.0,
    *,
    of_samples: bool = True,
) -> Result:
    """The samples' terms, unless they are not wanted, and then the labels', and the gradient."""
    values, slope = [], np.zeros_like(x.s)
    for turned in (False, True) if of_samples else (True,):
        s, a, b = (m.T if turned else m for m in (x.s, x.a, x.b))
        below, rest_below, down = _logsumexp_parts(s / negative_temperature, b)
        above, rest_above, up = _logsumexp_parts(-s / positive_temperature, a)
        log = negative_temperature * below + positive_temperature * above
        log += negative_temperature * rest_below + positive_temperature * rest_above
        is_pair = ((a > 0).any(axis=1) & (b > 0).any(axis=1))[:, None]
        part = sigmoid(log)[:, None] * np.where(is_pair, down - up, 0)
        values.append(softplus(np.where(is_pair[:, 0], log, -np.inf)))
        slope = slope + (part.T if turned else part)
    return np.concatenate(values), slope


def dice2(x: Batch, sample_weight: Wide, smoothing: float = 1.0) -> Result:
    """The labels' terms, shape (L,), and the gradient of their sum."""
    p, q, k = sigmoid(x.s), sigmoid(-x.s), x.known * sample_weight[:, None]
    gap = np.where(x.y == 1, q**2, np.where(x.y == 0, p**2, (p - x.y) ** 2 + x.y * (1 - x.y)))
    gaps, whole = (k * gap).sum(axis=0), (k * (p**2 + x.y)).sum(axis=0) + smoothing
    gap_slope = np.where(
        x.y == 1, -2 * q * q * p, np.where(x.y == 0, 2 * p * p * q, 2 * (p - x.y) * p * q)
    )
    weight = x.w[0] if len(x.w) else np.ones(x.s.shape[1])
    slope = k * (gap_slope / whole - gaps / whole * (2 * p * p * q) / whole)
    return weight * gaps / whole, weight * slope


def sigmoid_f1(x: Batch, sample_weight: Wide) -> Result:
    """The labels' terms, shape (L,), and the gradient of their sum."""
    p, q, k = sigmoid(x.s), sigmoid(-x.s), x.known * sample_weight[:, None]
    errors = (k * (x.y * q + (1 - x.y) * p)).sum(axis=0)
    total = (k * (p + x.y)).sum(axis=0)
    safe = np.where(total == 0, 1, total)
    terms = np.where(total == 0, 1, errors / safe) * (k.sum(axis=0) > 0)
    # ((1 - 2y) total - errors) / total^2, with errors = total - 2 tp
    both = (k * p * x.y).sum(axis=0)
    slope = k * p * q * (2 * both / safe - 2 * x.y) / safe
    weight = x.w[0] if len(x.w) else np.ones(x.s.shape[1])
    return weight * terms, weight * slope

"""The paper's losses for arrays of any framework that has numpy's functions.

Keras and JAX call these; the numbers are those of `zlpr.losses`, whose rules hold here as well: no
mask by a large constant, infinite scores count as a number, and a sample without a pair has the
loss 0. Each function gives one value per sample, but for `dice2`, which gives one per label.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Array = Any
# In units of the dtype's largest number, as in `zlpr.losses`.
LARGEST_SCORE, LARGEST_WEIGHT = 2.0**-4, 2.0**-64
FAR = 1000.0  # scores as wrong as that have a focus of 1
MOST_EXPONENT = 80.0
MOST_OF_NOTHING = 40.0
"""Slopes of an empty sum are held to e^40, which a gradient may multiply and stay a number."""


@dataclass(frozen=True)
class Framework:
    """What the formulas need of a framework beside numpy's functions.

    Attributes:
        numpy: a module with numpy's functions.
        cast: an array in another dtype, by its name.
        dtype_name: the name of an array's dtype.
        sigmoid: the logistic function.
        no_gradient: the array, through which no gradient flows.
        hold: an array held to [low, high], the gradient as if it were not.
        can_look_at: whether an array holds numbers now, not a tracer's marks.
    """

    numpy: Any
    cast: Callable[[Array, str], Array]
    dtype_name: Callable[[Array], str]
    sigmoid: Callable[[Array], Array]
    no_gradient: Callable[[Array], Array]
    hold: Callable[[Array, float, float], Array]
    can_look_at: Callable[[Array], bool]

    def softplus(self, values: Array) -> Array:
        """`log(1 + e^v)`."""
        return self.numpy.logaddexp(values, self.numpy.zeros_like(values))


class Cells(NamedTuple):
    """Scores and labels of shape (..., L), and what each cell counts for.

    Attributes:
        scores: in the dtype to compute in, held to a number, 0 where nothing is known.
        truth: the labels as numbers, 0 where nothing is known.
        known: which cells count, boolean.
        positive: `known * truth * label_weight * pos_weight`.
        negative: `known * (1 - truth) * label_weight`.
        wrong: which cells have a label that the loss does not take.
    """

    scores: Array
    truth: Array
    known: Array
    positive: Array
    negative: Array
    wrong: Array


class Weights(NamedTuple):
    """Which labels are known and how much each counts; None where all do, and all the same."""

    known: Array | None = None
    label_weight: Array | float | None = None
    pos_weight: Array | float | None = None


def prepare(
    of: Framework,
    scores: Array,
    labels: Array,
    weights: Weights,
    *,
    hard: bool = False,
    largest: float = LARGEST_SCORE,
    threshold: Array | float = 0.0,
) -> Cells:
    """Check the arguments that all losses share, and bring them into one form."""
    np_ = of.numpy
    dtype, shape = working_dtype(of, scores), tuple(scores.shape)
    if tuple(labels.shape) != shape:
        raise ValueError(f"labels must have the scores' shape {shape}, got {tuple(labels.shape)}")
    scores, truth = of.cast(scores, dtype), of.cast(labels, dtype)
    check_shape("threshold", threshold, (), shape[-1:], (*shape[:-1], 1), shape)
    known = _known(of, weights.known, truth)
    wrong = np_.logical_and(known, np_.logical_not(are_labels(np_, truth, hard)))
    check_labels(of, truth, wrong, hard)
    truth = np_.where(known, truth, np_.zeros_like(truth))
    scores = np_.where(known, scores, np_.zeros_like(scores)) - threshold
    limit = largest * float(np.finfo(dtype).max)
    weight = _weight(of, "label_weight", weights.label_weight, scores)
    both = _limited(of, weight * _weight(of, "pos_weight", weights.pos_weight, scores), dtype)
    counts = of.cast(known, dtype)
    return Cells(
        of.hold(scores, -limit, limit),
        truth,
        known,
        counts * truth * both,
        counts * (1 - truth) * weight,
        wrong,
    )


def working_dtype(of: Framework, scores: Array) -> str:
    """The dtype to compute in: float64 for scores in float64, float32 for all others."""
    name = of.dtype_name(scores)
    if "float" not in name:
        raise TypeError(f"scores must be floating-point numbers, got {name}; labels come second")
    return "float64" if name == "float64" else "float32"


def are_labels(np_: Any, truth: Array, hard: bool) -> Array:
    if hard:
        return np_.logical_or(truth == 0, truth == 1)
    return np_.logical_and(truth >= 0, truth <= 1)


def check_labels(of: Framework, truth: Array, wrong: Array, hard: bool) -> None:
    """An error where the labels can be looked at; elsewhere such a sample's loss is NaN."""
    if of.can_look_at(wrong) and bool(of.numpy.any(wrong)):
        found = float(np.asarray(truth)[np.asarray(wrong)][0])
        wanted = "be 0 or 1 in this loss" if hard else "lie in [0, 1]"
        raise ValueError(f"labels must {wanted}, got {found:g}; the scores come first")


def check_shape(name: str, values: Any, *shapes: tuple[int, ...]) -> None:
    """Refuse an array that would be spread over the scores in a way that nobody meant."""
    shape = tuple(getattr(values, "shape", ()))
    if shape not in shapes:
        allowed = " or ".join(map(str, dict.fromkeys(shapes)))
        raise ValueError(f"{name} must have the shape {allowed}, got {shape}")


def _known(of: Framework, known: Array | None, like: Array) -> Array:
    """Which cells count, of the shape of the labels."""
    everywhere = of.numpy.ones_like(like, dtype=bool)
    if known is None:
        return everywhere
    check_shape("where", known, tuple(like.shape[-1:]), tuple(like.shape))
    return of.numpy.logical_and(everywhere, of.cast(known, "bool"))


def _weight(of: Framework, name: str, weight: Array | float | None, scores: Array) -> Array:
    if weight is None:
        return 1.0
    dtype = of.dtype_name(scores)
    values = of.numpy.asarray(weight) if not hasattr(weight, "shape") else weight
    check_shape(name, values, (), tuple(scores.shape[-1:]), tuple(scores.shape))
    values = of.cast(values, dtype)
    check_weight(of, name, values)
    return _limited(of, values, dtype)


def check_weight(of: Framework, name: str, values: Array) -> None:
    """Refuse a weight that is no finite number of at least 0, where it can be looked at."""
    fits = of.numpy.logical_and(values >= 0, values < np.inf)
    if of.can_look_at(fits) and not bool(of.numpy.all(fits)):
        raise ValueError(f"{name} must be finite and not negative")


def _limited(of: Framework, weight: Array, dtype: str) -> Array:
    if isinstance(weight, float):
        return weight
    return of.numpy.minimum(weight, LARGEST_WEIGHT * float(np.finfo(dtype).max))


def _marked(of: Framework, values: Array, wrong: Array) -> Array:
    """The values, NaN for samples with labels that no loss takes."""
    return of.numpy.where(of.numpy.any(wrong, axis=-1), np.nan, values)


class _Terms(NamedTuple):
    """Terms `c_l e^v_l` as `e^(value + log) terms_l`, value and log of the largest, (..., 1).

    Where all c are 0, which `empty` says, of the largest of all values, for the slopes in c.
    """

    value: Array
    log: Array
    terms: Array
    empty: Array


def _shifted_terms(of: Framework, values: Array, coefficients: Array) -> _Terms:
    """Terms that can be added up, whatever their size.

    Differences of values and of logarithms are taken apart: added to a large value, a logarithm
    would be lost.
    """
    np_ = of.numpy
    is_out = coefficients == 0
    empty = np_.all(is_out, axis=-1, keepdims=True)
    safe = of.no_gradient(np_.where(is_out, np_.ones_like(coefficients), coefficients))
    logs, fixed = np_.log(safe), of.no_gradient(values)
    hidden = np_.logical_and(is_out, np_.logical_not(empty))
    visible = np_.where(hidden, -np.inf, fixed)
    behind = visible - np_.max(visible, axis=-1, keepdims=True) + logs
    top = np_.argmax(behind, axis=-1, keepdims=True)
    largest = np_.take_along_axis(fixed, top, axis=-1)
    log = np_.take_along_axis(logs, top, axis=-1)
    exponents = (values - largest) + (logs - log)
    terms = np_.exp(np_.minimum(exponents, MOST_EXPONENT)) * (coefficients / safe)
    return _Terms(largest, log, terms, empty)


def _log1_sum(of: Framework, values: Array, coefficients: Array) -> Array:
    """`log(1 + sum_l c_l e^v_l)` over the labels; 0 where all c are 0."""
    np_ = of.numpy
    value, log, terms, empty = _shifted_terms(of, values, coefficients)
    peak = np_.squeeze(value + log, axis=-1)
    # 1 + e^m S as e^m (1 + x) for m > 0, and as 1 + x else: x keeps every digit of a small sum.
    shift = np_.where(np_.squeeze(empty, axis=-1), 0.0, np_.maximum(peak, 0.0))
    total = np_.exp(np_.minimum(peak - shift, MOST_OF_NOTHING)) * np_.sum(terms, axis=-1)
    return shift + np_.log1p(total + np_.expm1(-shift))


def zlpr(
    of: Framework, scores: Array, labels: Array, weights: Weights, *, threshold: Any = 0.0
) -> Array:
    """`log(1 + sum_l a_l e^-s_l) + log(1 + sum_l b_l e^s_l)`."""
    cells = prepare(of, scores, labels, weights, largest=1.0, threshold=threshold)
    both = _log1_sum(of, -cells.scores, cells.positive)
    both = both + _log1_sum(of, cells.scores, cells.negative)
    most = float(np.finfo(of.dtype_name(both)).max)  # two of them are more
    return _marked(of, of.hold(both, 0.0, most), cells.wrong)


def bce(of: Framework, scores: Array, labels: Array, weights: Weights) -> Array:
    """`sum_l a_l log(1 + e^-s_l) + b_l log(1 + e^s_l)`."""
    cells = prepare(of, scores, labels, weights)
    return _sum_terms(of, cells, of.softplus(-cells.scores), of.softplus(cells.scores))


def focal(
    of: Framework, scores: Array, labels: Array, weights: Weights, *, gamma: float = 2.0
) -> Array:
    """`sum_l a_l (1 - p_l)^g log(1 + e^-s_l) + b_l p_l^g log(1 + e^s_l)`."""
    check_at_least("gamma", gamma, 0.0)
    cells = prepare(of, scores, labels, weights)

    def term(wrongness: Array) -> Array:
        near = of.numpy.minimum(wrongness, FAR)
        focus = (
            of.numpy.exp(-gamma * of.softplus(-near)) if gamma < 1 else of.sigmoid(near) ** gamma
        )
        return focus * of.softplus(near) + of.numpy.maximum(wrongness - FAR, 0.0)

    return _sum_terms(of, cells, term(-cells.scores), term(cells.scores))


def dice1(
    of: Framework, scores: Array, labels: Array, weights: Weights, *, smoothing: float = 1.0
) -> Array:
    """`sum_l a_l (1 - (2p + g)/(p^2 + 1 + g)) + b_l (1 - g/(p^2 + g))`."""
    check_above("smoothing", smoothing, 0.0)
    cells = prepare(of, scores, labels, weights)
    p, q = of.sigmoid(cells.scores), of.sigmoid(-cells.scores)
    return _sum_terms(of, cells, q**2 / (p**2 + 1 + smoothing), p**2 / (p**2 + smoothing))


def _sum_terms(of: Framework, cells: Cells, positive: Array, negative: Array) -> Array:
    terms = cells.positive * positive + cells.negative * negative
    return _marked(of, of.numpy.sum(terms, axis=-1), cells.wrong)


def dice2(
    of: Framework,
    scores: Array,
    labels: Array,
    weights: Weights,
    *,
    smoothing: float = 1.0,
    sample_weight: Array | None = None,
) -> Array:
    """`w_l (1 - (2 sum_k p y + g) / (sum_k p^2 + sum_k y + g))`, shape (L,), k over the batch."""
    check_above("smoothing", smoothing, 0.0)
    np_ = of.numpy
    cells = prepare(of, scores, labels, Weights(weights.known))
    p, truth = of.sigmoid(cells.scores), cells.truth
    counts = of.cast(cells.known, of.dtype_name(p))
    if sample_weight is not None:
        check_shape("sample_weight", sample_weight, tuple(p.shape[:-1]))
        check_weight(of, "sample_weight", sample_weight)
        counts = counts * np_.expand_dims(of.cast(sample_weight, of.dtype_name(p)), -1)
    # p^2 + y - 2py, which keeps its digits where the loss is small
    wrong = np_.where(truth == 1, of.sigmoid(-cells.scores), p)
    is_hard = np_.logical_or(truth == 0, truth == 1)
    gap = np_.where(is_hard, wrong**2, (p - truth) ** 2 + truth - truth**2)
    over_batch = tuple(range(len(p.shape) - 1))
    gaps = np_.sum(counts * gap, axis=over_batch)
    both = np_.sum(counts * p * truth, axis=over_batch)
    terms = gaps / (gaps + 2 * both + smoothing)
    # One weight per label: the terms are no longer of samples.
    weight = _weight(of, "label_weight", weights.label_weight, terms)
    return np_.where(np_.any(cells.wrong, axis=over_batch), np.nan, weight * terms)


def cross_entropy(of: Framework, scores: Array, labels: Array, weights: Weights) -> Array:
    """`sum_i w_i y_i / (sum_l y_l) log sum_j e^(s_j - s_i)`; 0 without a positive label."""
    np_ = of.numpy
    cells = prepare(of, scores, labels, weights)
    total = np_.sum(cells.truth, axis=-1, keepdims=True)
    share = cells.positive / np_.where(total == 0, 1.0, total)
    # The largest is left out of the sum, so that its 1 does not hide the others.
    visible = np_.where(cells.known, cells.scores, -np.inf)
    top = np_.argmax(of.no_gradient(visible), axis=-1, keepdims=True)
    columns = np_.arange(scores.shape[-1])
    is_top = columns == of.cast(top, of.dtype_name(columns))
    largest = np_.take_along_axis(cells.scores, top, axis=-1)
    others = np_.logical_and(cells.known, np_.logical_not(is_top))
    behind = np_.where(others, largest - cells.scores, 0.0)
    rest = np_.sum(np_.where(others, np_.exp(-behind), 0.0), axis=-1, keepdims=True)
    values = np_.sum(share * (behind + np_.log1p(rest)), axis=-1)
    return _marked(of, values, cells.wrong)


def lsep(of: Framework, scores: Array, labels: Array, weights: Weights) -> Array:
    """`log(1 + sum_P sum_N a_i b_j e^(s_j - s_i))`; 0 without a pair."""
    log_sum, has_pair, nothing, wrong = _log_pair_sum(of, scores, labels, weights)
    np_ = of.numpy
    values = np_.where(has_pair, of.softplus(log_sum), np_.log1p(nothing))
    return _marked(of, values, wrong)


def bp_mll(
    of: Framework, scores: Array, labels: Array, weights: Weights, *, log: bool = True
) -> Array:
    """`log sum_P sum_N a_i b_j e^(s_j - s_i)`, or without the logarithm; 0 without a pair."""
    log_sum, has_pair, nothing, wrong = _log_pair_sum(of, scores, labels, weights)
    if not log:
        dtype = np.finfo(of.dtype_name(log_sum))
        most = (1 - float(dtype.eps)) * float(np.log(float(dtype.max)))  # else rounded up
        product = of.numpy.exp(of.hold(log_sum, -np.inf, most))
        return _marked(of, of.numpy.where(has_pair, product, nothing), wrong)
    return _marked(of, of.numpy.where(has_pair, log_sum, 0.0), wrong)


def _log_pair_sum(
    of: Framework, scores: Array, labels: Array, weights: Weights
) -> tuple[Array, Array, Array, Array]:
    """The logarithm of the sum over pairs, 0 without a pair; where there is one; wrong labels.

    Before the last, where there is no pair, the sum itself, which is 0 and has slopes in weights.
    """
    np_ = of.numpy
    cells = prepare(of, scores, labels, weights, hard=True)
    down = _shifted_terms(of, cells.scores, cells.negative)
    up = _shifted_terms(of, -cells.scores, cells.positive)
    has_pair = np_.squeeze(np_.logical_not(np_.logical_or(down.empty, up.empty)), axis=-1)
    sums = [np_.sum(side.terms, axis=-1) for side in (down, up)]
    # A sum is at least 1, but for a rounding, where it is not empty.
    logs = sum(np_.log(np_.maximum(side, 0.5)) for side in sums)
    shift = np_.squeeze((down.value + up.value) + (down.log + up.log), axis=-1)
    product = np_.exp(np_.minimum(shift, MOST_OF_NOTHING)) * sums[0] * sums[1]
    nothing = np_.where(has_pair, 0.0, product)
    return np_.where(has_pair, shift + logs, 0.0), has_pair, nothing, cells.wrong


def ranking(
    of: Framework, scores: Array, labels: Array, weights: Weights, *, margin: float = 1.0
) -> Array:
    """`sum_P sum_N a_i b_j max(0, margin + s_j - s_i)`."""
    check_finite("margin", margin)
    cells = prepare(of, scores, labels, weights, hard=True)
    return _marked(of, _hinge_sum(of, cells, cells.positive, margin), cells.wrong)


def warp(
    of: Framework, scores: Array, labels: Array, weights: Weights, *, margin: float = 1.0
) -> Array:
    """`sum_P sum_N r_i a_i b_j max(0, margin + s_j - s_i)`, r the rank of a positive label."""
    check_finite("margin", margin)
    cells = prepare(of, scores, labels, weights, hard=True)
    visible = of.numpy.where(cells.known, of.no_gradient(cells.scores), -np.inf)
    ranks = of.cast(rank_of_labels(of, visible), of.dtype_name(cells.scores))
    return _marked(of, _hinge_sum(of, cells, cells.positive * ranks, margin), cells.wrong)


def rank_of_labels(of: Framework, scores: Array) -> Array:
    """1 plus the number of labels above, integer; equal scores share the better rank."""
    np_ = of.numpy
    order = np_.argsort(-scores, axis=-1)
    descending = np_.take_along_axis(scores, order, axis=-1)
    starts = ties(of, descending)[0]
    return 1 + np_.take_along_axis(starts, np_.argsort(order, axis=-1), axis=-1)


def ties(of: Framework, in_order: Array) -> tuple[Array, Array]:
    """The first and the last place of each value's tie, of values in order, (..., L)."""
    np_ = of.numpy
    length = in_order.shape[-1]
    is_new = np_.concatenate(
        [np_.ones_like(in_order[..., :1], dtype=bool), in_order[..., 1:] != in_order[..., :-1]],
        axis=-1,
    )
    places = np_.arange(length) + np_.zeros_like(is_new, dtype="int32")
    number = np_.cumsum(of.cast(is_new, "int32"), axis=-1) - 1
    starts = np_.sort(np_.where(is_new, places, length), axis=-1)  # of the ties, then L
    beyond = np_.concatenate([starts[..., 1:], np_.full_like(starts[..., :1], length)], axis=-1)
    first = np_.take_along_axis(starts, number, axis=-1)
    return first, np_.take_along_axis(beyond, number, axis=-1) - 1


def _hinge_sum(of: Framework, cells: Cells, positive: Array, margin: float) -> Array:
    """The sum over all pairs by one sort and two cumulative sums: O(L log L), without the pairs.

    With positive labels at `s_i - margin`, put in order, the value is the sum over the gaps of
    each gap times the positive weight below it times the negative weight above it; see
    `zlpr.losses._hinge`.
    """
    np_ = of.numpy
    fixed = of.no_gradient(cells.scores)
    a, unit_of_a = _in_units_of_the_largest(np_, of.no_gradient(positive))
    b, unit_of_b = _in_units_of_the_largest(np_, of.no_gradient(cells.negative))
    order = _order(of, fixed, a > 0, margin)
    sorted_a, sorted_b = (np_.take_along_axis(side, order, axis=-1) for side in (a, b))
    below = np_.cumsum(sorted_a, axis=-1)
    above = np_.flip(np_.cumsum(np_.flip(sorted_b, axis=-1), axis=-1), axis=-1)
    back = np_.argsort(order, axis=-1)
    slopes = np_.take_along_axis(sorted_b * below - sorted_a * above, back, axis=-1)
    # Seen from the label with the steepest slope, so that what all have in common costs no digits.
    steepest = np_.argmax(np_.abs(slopes), axis=-1, keepdims=True)
    centred = fixed - np_.take_along_axis(fixed, steepest, axis=-1)
    places = np_.where(a > 0, centred - margin, centred)
    places = np_.take_along_axis(places, order, axis=-1)
    gaps = np_.maximum(places[..., 1:] - places[..., :-1], 0.0)
    most = float(np.finfo(of.dtype_name(fixed)).max)
    unit = np_.minimum(unit_of_a * unit_of_b, most)
    # The weights first: a gap of infinite scores times one of them alone may be no number.
    weights = np_.minimum(below[..., :-1] * above[..., 1:] * unit, most)
    value = np_.sum(gaps * weights, axis=-1)
    limit = (1 - 2.0**-20) * most / np_.maximum(unit, 1.0)
    slopes = np_.maximum(np_.minimum(slopes, limit), -limit)
    # Where the value is known, the scores are there for their gradient.
    linear = np_.sum(slopes * (cells.scores - fixed), axis=-1)
    return value + linear * np_.squeeze(unit, axis=-1)


def _in_units_of_the_largest(np_: Any, weights: Array) -> tuple[Array, Array]:
    largest = np_.max(weights, axis=-1, keepdims=True)
    return weights / np_.where(largest == 0, 1.0, largest), largest


def _order(of: Framework, scores: Array, is_positive: Array, margin: float) -> Array:
    """The labels in ascending order, a positive one before the negatives that it is active with.

    At a tie a hinge is not active, so that negatives come first there; but for a positive label
    with a score so large that the margin is lost in it, which is active with its equals.
    """
    np_ = of.numpy
    lowered = scores - margin
    is_lost = np_.logical_and(lowered == scores, margin > 0)
    turn = np_.where(is_positive, np_.where(is_lost, 0, 2), 1)
    by_turn = np_.argsort(turn, axis=-1)
    keys = np_.take_along_axis(np_.where(is_positive, lowered, scores), by_turn, axis=-1)
    return np_.take_along_axis(by_turn, np_.argsort(keys, axis=-1), axis=-1)


def divergence(
    of: Framework,
    scores: Array,
    other: Array,
    weights: Weights,
    *,
    symmetric: bool = False,
) -> Array:
    """`sum_l 2 p (s - s') + log((1 - p)/(1 - p'))` with `p = sigma(2s)`, or its symmetric form."""
    np_ = of.numpy
    if tuple(scores.shape) != tuple(other.shape):
        raise ValueError(
            f"other must have the scores' shape {tuple(scores.shape)}, got {tuple(other.shape)}"
        )
    dtype = working_dtype(of, scores)
    known = _known(of, weights.known, scores)
    limit = LARGEST_SCORE * float(np.finfo(dtype).max)
    s, t = (
        of.hold(np_.where(known, of.cast(given, dtype), 0.0), -limit, limit)
        for given in (scores, other)
    )
    terms = (_both_ways if symmetric else _kullback_leibler)(of, s, t)
    weight = _weight(of, "label_weight", weights.label_weight, terms)
    return np_.sum(weight * terms, axis=-1)


def _probability(of: Framework, scores: Array) -> Array:
    """`sigma(2s)`, without a gradient where it is 0 or 1; see `zlpr.losses.divergence`."""
    p = of.sigmoid(2 * scores)
    return of.numpy.where(of.numpy.logical_or(p == 0, p == 1), of.no_gradient(p), p)


def _both_ways(of: Framework, s: Array, t: Array) -> Array:
    """From the side on which not both p are near 1, so that nothing cancels."""
    sign = of.numpy.where(s + t > 0, -1.0, 1.0)
    s, t = s * sign, t * sign
    return 2 * (_probability(of, s) - _probability(of, t)) * (s - t)


def _kullback_leibler(of: Framework, s: Array, t: Array) -> Array:
    """From the side on which p <= 1/2, so that nothing cancels; see `zlpr.losses.divergence`."""
    np_ = of.numpy
    sign = np_.where(s > 0, -1.0, 1.0)
    s, t = s * sign, t * sign
    p, step = _probability(of, s), 2 * (t - s)
    near = np_.abs(step) < 1
    small = np_.log1p(p * np_.expm1(np_.where(near, step, 0.0)))
    return np_.where(near, small, of.softplus(2 * t) - of.softplus(2 * s)) - p * step


def check_at_least(name: str, value: float, minimum: float) -> None:
    """Refuse a parameter that is too small."""
    if not value >= minimum:
        raise ValueError(f"{name} must be at least {minimum:g}, got {value}")


def check_finite(name: str, value: float) -> None:
    """Refuse a parameter that is no finite number."""
    if not -np.inf < value < np.inf:
        raise ValueError(f"{name} must be a finite number, got {value}")


def check_above(name: str, value: float, bound: float) -> None:
    """Refuse a parameter that is not above its bound."""
    if not value > bound:
        raise ValueError(f"{name} must be above {bound:g}, got {value}")

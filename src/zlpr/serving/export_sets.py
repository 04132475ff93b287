"""The posterior over label sets as part of an ONNX graph, equal to `zlpr.decoding`.

What stands there as bits of a number stands here as a row of 0 and 1 for each set: ONNX has no
shifts of signed numbers. A search among sorted keys becomes a dozen steps of halving.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from zlpr._errors import UserError
from zlpr.decoding import Calibrator
from zlpr.decoding._candidates import (
    ALL_SETS,
    FLIPPED,
    FLIPS,
    IN_PLAY,
    LONGEST,
    MOST_IN_PLAY,
    SEEN,
)
from zlpr.decoding._score_cells import ScoreCells
from zlpr.decoding._seen_sets import SeenSets
from zlpr.decoding.label_sets import BACKGROUND, SIZES_TRIED, TRIED
from zlpr.decoding.set_posterior import STEEPEST, SetPosterior
from zlpr.serving.export_graph import Value, concat, take, where

LogOdds = Callable[[Value, Calibrator], Value]


@dataclass(frozen=True)
class Candidates:
    """Candidate sets, as `zlpr.decoding._candidates` proposes them.

    Attributes:
        labels: in play, shape (batch, M).
        sets: 0.0 or 1.0, shape (batch, C, M).
        places: among the seen sets, their number for one that was never seen, (batch, C).
        counts: how often each was seen, (batch, C).
        attraction: of the labels in each, (batch, C).
        valid: False for repetitions, (batch, C).
    """

    labels: Value
    sets: Value
    places: Value
    counts: Value
    attraction: Value
    valid: Value


@dataclass(frozen=True)
class Posterior:
    """Chances of label sets: the attributes of `zlpr.decoding.set_posterior.Posterior`."""

    labels: Value
    sets: Value
    num_sets: int
    width: int
    chances: Value
    inside: Value
    outside: Value
    independent: Value

    def marginals(self) -> Value:
        """The chance of each label, (batch, L), float64."""
        found = (self.chances.expand_dims(1) @ self.sets).squeeze(1)
        mixed = self.inside * found + (1.0 - self.inside) * self.outside
        return ((1.0 - self.inside) * self.independent).put_along(self.labels, mixed)


def posterior_of(
    scores: Value, fitted: SetPosterior, made: dict[str, Posterior], log_odds: LogOdds
) -> Posterior:
    """The posterior in the graph, built once for what was fitted once."""
    if fitted.seen is None:
        raise UserError("label_sets has learned nothing yet, and cannot be exported")
    key = json.dumps(fitted.to_config())
    if key not in made:
        made[key] = _build(scores, fitted, fitted.seen, log_odds)
    return made[key]


def _build(scores: Value, fitted: SetPosterior, seen: SeenSets, log_odds: LogOdds) -> Posterior:
    odds = log_odds(scores, fitted.calibrator).cast(np.float64).clip(-30.0, 30.0)
    exact = scores.cast(np.float64)
    width = min(seen.num_labels, MOST_IN_PLAY, max(IN_PLAY, 2 * seen.largest))
    candidates, free = _propose(exact, odds, seen, width)
    terms = _terms(candidates, exact, odds, seen)
    weighted = terms[0] * fitted.weights[0]
    for term, weight in zip(terms[1:], fitted.weights[1:], strict=True):
        weighted = weighted + term * weight
    chances = where(candidates.valid, weighted, -np.inf).softmax(1)
    if fitted.cells is not None:
        chances = _blend(fitted.cells, odds, chances, candidates)
    held, each = _held_mass(candidates, odds, terms[0])
    chance = odds.apply("Sigmoid")
    taken = (each.expand_dims(1) @ candidates.sets).squeeze(1)
    outside = (chance.take_along(candidates.labels, 1) - taken) / (1.0 - held)
    slope, intercept = fitted.inside
    inside = ((held / (1.0 - held)).apply("Log") * slope + intercept).apply("Sigmoid")
    return Posterior(
        candidates.labels,
        candidates.sets,
        free + min(SEEN, len(seen.sets)),
        width,
        chances,
        inside,
        outside.clip(0.0, 1.0),
        chance,
    )


def _propose(scores: Value, odds: Value, seen: SeenSets, width: int) -> tuple[Candidates, int]:
    """Candidates, and how many of them are not taken from the seen sets."""
    graph = scores.graph
    likely, labels = odds.top(width)
    shown = scores.take_along(labels, 1)
    free, count = _free_sets(likely, shown, seen, width)
    best, fit, least = _best_seen(odds, seen)
    membership = graph.constant(seen.membership.numpy(), np.float64)
    known_count = min(SEEN, len(seen.sets))
    at = labels.expand_dims(1).broadcast([1, known_count, 1])
    known = take(membership, best).take_along(at, 2)
    keys = free @ take(graph.constant(seen.keys.numpy(), np.float64), labels).expand_dims(2)
    keys = keys.squeeze(2)
    place = _find(keys, seen)
    never = place.equals(len(seen.sets))
    ranked = where(never, place * 0, place)
    among = ~never & (fit.take_along(ranked, 1) >= least)
    sizes = take(graph.constant(seen.sizes.numpy(), np.float64), best)
    valid = concat([_is_new(keys, count) & ~among, known.sum(2).equals(sizes)], 1)
    places = concat([place, best], 1)
    attraction = concat(
        [
            _attraction(free, labels, seen, width),
            take(graph.constant(seen.set_attraction.numpy(), np.float64), best),
        ],
        1,
    )
    counts = take(graph.constant(seen.how_often_or_never.numpy(), np.float64), places)
    sets = concat([free, known], 1)
    return Candidates(labels, sets, places, counts, attraction, valid), count


def _free_sets(likely: Value, shown: Value, seen: SeenSets, width: int) -> tuple[Value, int]:
    """The most probable sets and the first labels by score and by chance, (batch, count, M)."""
    places = np.arange(width)
    flips = min(FLIPS, width)
    price, place = likely.apply("Abs").top(flips, largest=False)
    changes = (np.arange(1 << flips)[:, None] >> np.arange(flips)) & 1
    wanted = FLIPPED if flips > ALL_SETS else 1 << flips
    _, cheapest = (price @ changes.T.astype(np.float64)).top(wanted, largest=False)
    which = take(likely.graph.constant(changes, np.float64), cheapest)
    flipped = which @ place.expand_dims(2).equals(places).cast(np.float64)
    most = (likely > 0.0).cast(np.float64).expand_dims(1)
    found = [(most - flipped).apply("Abs")]
    sizes = min(seen.largest, width, LONGEST)
    if sizes:
        _, order = shown.top(sizes)
        found.append(order.expand_dims(2).equals(places).cast(np.float64).cumsum(1))
    firsts = (places < np.arange(sizes + 1)[:, None]).astype(np.float64)
    found.append(most * 0.0 + firsts)
    return concat(found, 1), wanted + sizes + sizes + 1


def _best_seen(odds: Value, seen: SeenSets) -> tuple[Value, Value, Value]:
    """The seen sets that fit best, the fit of all, and what the best reach at least."""
    fit = odds.cast(np.float32) @ seen.columns.numpy() + seen.how_often.log().float().numpy()
    count = min(SEEN, len(seen.sets))
    values, best = fit.top(count)
    return best, fit, values[count - 1 : count]


def _find(keys: Value, seen: SeenSets) -> Value:
    """Which seen sets have these keys, by halving; their number where none has."""
    graph = keys.graph
    known, order = (part.numpy() for part in seen.sorted_keys)
    steps = [1 << bit for bit in reversed(range(len(known).bit_length()))]
    padded = np.full(2 * steps[0] + 1, np.inf)
    padded[: len(known)] = known
    table = graph.constant(padded, np.float64)
    place = (keys * 0.0).cast(np.int64)
    for step in steps:
        further = place + step
        place = where(take(table, further) <= keys, further, place)
    numbers = np.full(len(padded), len(known))
    numbers[: len(known)] = order
    found = take(graph.constant(numbers, np.int64), place)
    none = found * 0 + len(known)
    return where(take(table, place).equals(keys), found, none)


def _is_new(keys: Value, count: int) -> Value:
    """Whether no set further left is the same."""
    same = keys.expand_dims(2).equals(keys.expand_dims(1))
    return ~(same & np.tri(count, k=-1, dtype=bool)).any(2)


def _attraction(sets: Value, labels: Value, seen: SeenSets, width: int) -> Value:
    """Of the labels in each set, summed over the pairs, per label but one."""
    if seen.attraction is None:
        return sets.sum(2) * 0.0
    rows = take(sets.graph.constant(seen.attraction.numpy(), np.float64), labels)
    pairs = rows.take_along(labels.expand_dims(1).broadcast([1, width, 1]), 2)
    total = ((sets @ pairs) * sets).sum(2) / 2.0
    return total / (sets.sum(2) - 1.0).at_least(1.0)


def _terms(candidates: Candidates, scores: Value, odds: Value, seen: SeenSets) -> list[Value]:
    """What the posterior weighs, in the order of its `TERMS`, each of shape (batch, C)."""
    graph, labels, sets = scores.graph, candidates.labels, candidates.sets
    limited = scores.clip(-STEEPEST, STEEPEST)
    up, down = limited.apply("Exp"), (-limited).apply("Exp")

    def within(values: Value) -> Value:
        return (sets @ values.expand_dims(2)).squeeze(2)

    size = sets.sum(2)
    rest = (up.sum(1, keep=True) - within(up.take_along(labels, 1))).at_least(0.0)
    prior = take(graph.constant(seen.label_log_odds.numpy(), np.float64), labels)
    chances = graph.constant(seen.size_log_chances.numpy(), np.float64)
    return [
        within(odds.take_along(labels, 1)),
        -(within(down.take_along(labels, 1)) + 1.0).apply("Log"),
        -(rest + 1.0).apply("Log"),
        size,
        take(chances, size.cast(np.int64)),
        (candidates.counts + 1.0).apply("Log"),
        (candidates.counts > 0.0).cast(np.float64),
        within(prior),
        candidates.attraction,
    ]


def _held_mass(candidates: Candidates, odds: Value, within: Value) -> tuple[Value, Value]:
    """What independent labels give to all candidates, (batch, 1), and to each, (batch, C)."""
    softplus = odds.at_least(0.0) + ((-odds.apply("Abs")).apply("Exp") + 1.0).apply("Log")
    each = (within - softplus.sum(1, keep=True)).apply("Exp")
    each = each * candidates.valid.cast(np.float64)
    return each.sum(1, keep=True).clip(1e-4, 1 - 1e-4), each


def _blend(cells: ScoreCells, odds: Value, chances: Value, candidates: Candidates) -> Value:
    """Chances drawn towards what was counted in each sample's cell."""
    graph, middles = odds.graph, cells.middles.numpy()
    nearness = odds @ (2.0 * middles.T) - (middles**2).sum(1)
    table = graph.constant(cells.table.numpy(), np.float64)
    own = take(table, nearness.argmax(1).squeeze(1))
    counts = own.take_along(candidates.places, 1) * candidates.valid.cast(np.float64)
    total = counts.sum(1, keep=True)
    return (chances * cells.strength + counts) / (total + cells.strength)


def best_set(made: Posterior, metric: str, empty: str) -> Value:
    """Which of the labels in play are chosen, 0.0 or 1.0, (batch, M)."""
    if metric == "subset_accuracy":
        return _pick(made.sets, made.chances.argmax(1), made.width)
    sets, chances = _with_background(made)
    by_size, values = _best_of_each_size(sets, chances, made.width, empty)
    if metric == "example_f1":
        return _pick(by_size, values.argmax(1), made.width)
    _, likely = made.chances.top(min(TRIED, made.num_sets))
    _, promising = values.top(min(SIZES_TRIED, made.width + 1))
    tried = concat(
        [
            _pick_several(by_size, promising, made.width),
            _pick_several(made.sets, likely, made.width),
        ],
        1,
    )
    expected = _expected_jaccard(tried, sets, chances, empty)
    return _pick(tried, expected.argmax(1), made.width)


def _pick(sets: Value, which: Value, width: int) -> Value:
    """One set of each sample, (batch, M)."""
    return _pick_several(sets, which, width).squeeze(1)


def _pick_several(sets: Value, which: Value, width: int) -> Value:
    """Some sets of each sample, (batch, some, M)."""
    return sets.take_along(which.expand_dims(2).broadcast([1, 1, width]), 1)


def _with_background(made: Posterior) -> tuple[Value, Value]:
    """The candidates, and sets of independent labels that share the chance of none of them."""
    even = (np.arange(BACKGROUND) + 0.5) / BACKGROUND
    spread = np.random.default_rng(0).permuted(np.tile(even, (made.width, 1)), axis=1).T
    drawn = (made.outside.expand_dims(1) > spread).cast(np.float64)
    rest = (1.0 - made.inside) / float(BACKGROUND)
    chances = [made.inside * made.chances, rest.broadcast([1, BACKGROUND])]
    return concat([made.sets, drawn], 1), concat(chances, 1)


def _best_of_each_size(sets: Value, chances: Value, width: int, empty: str) -> tuple[Value, Value]:
    """The set of each size with the highest expected F1, (batch, M + 1, M), and that F1.

    Sizes run to the number of labels in play: the best set may be larger than any that has a
    chance.
    """
    size = sets.sum(2)
    sizes = np.arange(1.0, width + 1)
    weighted = chances.expand_dims(2) * size.expand_dims(2).equals(sizes).cast(np.float64)
    joint = sets.transpose() @ weighted  # P(label, size), (batch, M, sizes)
    gains = joint @ (2.0 / (sizes[:, None] + sizes))  # of each label in a set of each size
    descending, order = gains.top(width)
    first = np.tri(width, dtype=np.float64).T  # rank before size, [rank, size]
    values = (descending * first).sum(1)
    chosen = (descending * 0.0).put_along(order, descending * 0.0 + first).transpose()
    none = (chances * size.equals(0.0).cast(np.float64)).sum(1, keep=True)
    nothing = chosen.sum(1, keep=True) * 0.0
    value_of_none = none if empty == "paper" else none * 0.0
    return concat([nothing, chosen], 1), concat([value_of_none, values], 1)


def _expected_jaccard(decisions: Value, sets: Value, chances: Value, empty: str) -> Value:
    """Expected Jaccard index of each decision, (batch, decisions)."""
    taken, sizes = decisions.sum(2), sets.sum(2)
    both = decisions @ sets.transpose()
    either = (taken.expand_dims(2) + sizes.expand_dims(1) - both).at_least(1.0)
    values = (both / either @ chances.expand_dims(2)).squeeze(2)
    if empty == "paper":
        none = (chances * sizes.equals(0.0).cast(np.float64)).sum(1, keep=True)
        values = values + taken.equals(0.0).cast(np.float64) * none
    return values

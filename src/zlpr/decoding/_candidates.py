r"""Label sets that may be a sample's own.

Three sources, which overlap: the most probable sets if labels were independent, found by flipping
the least certain labels of the most probable one; the first labels of the ranking, for every size
that was ever seen; and the sets seen in training that fit the scores best. All are sets of the
sample's most probable labels, the labels in play.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from zlpr.decoding._seen_sets import SeenSets

IN_PLAY = 16
"""Labels in play, where sets are not larger than half of it."""
MOST_IN_PLAY = 62
"""Bits of a set."""
FLIPS = 8
"""The sets of the first source differ in these many labels at most."""
FLIPPED, SEEN, LONGEST = 16, 24, 24
"""Sets of each source at most; the ranking gives two of each size up to the longest."""
ALL_SETS = 6
"""Up to so many labels, every set is a candidate."""


@dataclass(frozen=True)
class Candidates:
    """Candidate sets of some samples.

    Attributes:
        labels: the M labels in play, most probable first, shape (samples, M).
        sets: which of them are in each candidate, 0.0 or 1.0, shape (samples, C, M).
        keys: sums of the sets' keys, shape (samples, C).
        places: of the sets among the seen ones, -1 for one that was never seen, (samples, C).
        counts: how often each set was seen, shape (samples, C).
        attraction: of the labels in each set, shape (samples, C); see `SeenSets`.
        valid: False for repetitions and for what cannot be, shape (samples, C).
    """

    labels: Tensor
    sets: Tensor
    keys: Tensor
    places: Tensor
    counts: Tensor
    attraction: Tensor
    valid: Tensor

    def in_play(self, values: Tensor) -> Tensor:
        """Values of the labels in play, from those of all labels: (samples, L) or (L,)."""
        return values[self.labels] if values.ndim == 1 else values.gather(1, self.labels)


def propose(scores: Tensor, logits: Tensor, seen: SeenSets) -> Candidates:
    """Candidate sets of each sample.

    Args:
        scores: shape (samples, labels), -inf for impossible labels.
        logits: finite log odds of the same shape.
        seen: sets of the training part.
    """
    width = min(scores.shape[1], MOST_IN_PLAY, max(IN_PLAY, 2 * seen.largest))
    chances, labels = _first(logits, width)
    shown = scores.gather(1, labels)
    masks = torch.cat([_most_probable(chances), _prefixes(shown, min(seen.largest, width))], 1)
    best = _best_seen(logits, seen)
    free = ((masks[:, :, None] >> torch.arange(width)) & 1).double()
    known = seen.membership[best.indices[:, :, None], labels[:, None, :]].double()
    sets = torch.cat([free, known], 1)
    keys, sizes, impossible = _key_size_impossible(sets, labels, shown, seen)
    place = seen.find(keys[:, : masks.shape[1]].contiguous())
    whole = sizes[:, masks.shape[1] :] == seen.sizes[best.indices]
    valid = torch.cat([_is_new(masks) & ~best.among(place), whole], 1) & (impossible == 0)
    places = torch.cat([place, best.indices], 1)
    attraction = torch.cat([_attraction(free, labels, seen), seen.set_attraction[best.indices]], 1)
    counts = seen.how_often_or_never[places]
    return Candidates(labels, sets, keys, places, counts, attraction, valid)


def _first(values: Tensor, count: int, *, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The largest or smallest of each row and their places; of equal ones the first.

    `topk` takes any of equal ones, and labels that training never saw have equal scores.
    """
    # One more than wanted shows whether the last of them has an equal that is left out.
    top, places = values.topk(min(count + 1, values.shape[1]), dim=1, largest=largest)
    tied = (top[:, 1:] == top[:, :-1]).any(1)
    top, places = top[:, :count], places[:, :count]
    if tied.any():  # a stable sort of all rows would cost several times as much
        ordered = values[tied].argsort(dim=1, descending=largest, stable=True)
        places = places.index_put((tied,), ordered[:, :count])
        top = values.gather(1, places)
    return top, places


def _key_size_impossible(
    sets: Tensor, labels: Tensor, scores: Tensor, seen: SeenSets
) -> tuple[Tensor, ...]:
    """Of each set its key, its size, and how many of its labels are impossible: (samples, C)."""
    impossible = (scores == -torch.inf).double()
    columns = torch.stack([seen.keys[labels], torch.ones_like(scores), impossible], 2)
    return (sets @ columns).unbind(2)


def _most_probable(logits: Tensor) -> Tensor:
    """Bits of the most probable sets of independent labels, shape (samples, sets).

    Leaving the most probable set costs the sum of the flipped labels' absolute log odds.
    """
    flips = min(FLIPS, logits.shape[1])
    price, place = _first(logits.abs(), flips, largest=False)
    changes = torch.arange(1 << flips)
    costs = price @ ((changes >> torch.arange(flips)[:, None]) & 1).double()
    wanted = FLIPPED if flips > ALL_SETS else 1 << flips
    cheapest = _first(costs, wanted, largest=False)[1]
    flipped = ((cheapest[:, :, None] >> torch.arange(flips)) & 1) << place[:, None]
    best = ((logits > 0).long() << torch.arange(logits.shape[1])).sum(1, keepdim=True)
    return best ^ flipped.sum(2)


def _prefixes(scores: Tensor, largest: int) -> Tensor:
    """Bits of the first labels by score and by probability, from none to `largest`."""
    sizes = min(largest, LONGEST)
    order = _first(scores, sizes)[1] if sizes else scores[:, :0].long()
    by_score = (torch.ones_like(order) << order).cumsum(1)
    by_chance = ((1 << torch.arange(sizes + 1)) - 1).expand(len(scores), -1)
    return torch.cat([by_score, by_chance], 1)


@dataclass(frozen=True)
class _BestSeen:
    """The seen sets that fit each sample best.

    Attributes:
        fit: of every seen set, shape (samples, seen sets).
        indices: the best of them, shape (samples, SEEN).
        least: what they reach at least, shape (samples, 1).
    """

    fit: Tensor
    indices: Tensor
    least: Tensor

    def among(self, place: Tensor) -> Tensor:
        """Whether these sets (-1 for one that was never seen) are among the best."""
        return (place >= 0) & (self.fit.gather(1, place.clamp(min=0)) >= self.least)


def _best_seen(logits: Tensor, seen: SeenSets) -> _BestSeen:
    """Rank the seen sets by their log odds plus the logarithm of their count."""
    with torch.autocast("cpu", enabled=False):  # in bfloat16 others would be best
        fit = torch.addmm(seen.how_often.log().float(), logits.float(), seen.columns)
    values, indices = _first(fit, min(SEEN, fit.shape[1]))
    return _BestSeen(fit, indices, values[:, -1:])


def _attraction(sets: Tensor, labels: Tensor, seen: SeenSets) -> Tensor:
    """Sum of a set's attractions over the pairs, per label but one; shape (samples, C)."""
    if seen.attraction is None:
        return torch.zeros_like(sets[:, :, 0])
    pairs = seen.attraction[labels[:, :, None], labels[:, None, :]]
    total = ((sets @ pairs) * sets).sum(2) / 2
    return total / (sets.sum(2) - 1).clamp(min=1)


def _is_new(masks: Tensor) -> Tensor:
    """Whether a row does not hold the same bits further left."""
    ordered, order = masks.sort(dim=1, stable=True)
    new = torch.ones_like(masks, dtype=torch.bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    return torch.empty_like(new).scatter_(1, order, new)

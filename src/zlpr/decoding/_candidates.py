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
FLIPPED, SEEN, LONGEST = 32, 48, 24
"""Sets of each source at most; the ranking gives two of each size up to the longest."""


@dataclass(frozen=True)
class Candidates:
    """Candidate sets of some samples.

    Attributes:
        labels: the M labels in play, most probable first, shape (samples, M).
        sets: which of them are in each candidate, 0.0 or 1.0, shape (samples, C, M).
        keys: sums of the sets' keys, shape (samples, C).
        valid: False for repetitions and for what cannot be, shape (samples, C).
    """

    labels: Tensor
    sets: Tensor
    keys: Tensor
    valid: Tensor

    def in_play(self, values: Tensor) -> Tensor:
        """Values of the labels in play, from those of all labels: (samples, L) or (L,)."""
        return values[self.labels] if values.ndim == 1 else values.gather(1, self.labels)

    def sums(self, values: Tensor) -> Tensor:
        """Sum of each set's values: (samples, M) to (samples, C)."""
        return (self.sets @ values[:, :, None]).squeeze(2)


def propose(scores: Tensor, logits: Tensor, seen: SeenSets, largest: int) -> Candidates:
    """Candidate sets of each sample.

    Args:
        scores: shape (samples, labels), -inf for impossible labels.
        logits: finite log odds of the same shape.
        seen: sets of the training part.
        largest: the largest set to propose.
    """
    width = min(scores.shape[1], MOST_IN_PLAY, max(IN_PLAY, 2 * largest))
    chances, labels = logits.topk(width, dim=1)
    shown = scores.gather(1, labels)
    masks = torch.cat([_most_probable(chances), _prefixes(shown, min(largest, width))], 1)
    bits = torch.arange(width)
    sets = torch.cat(
        [(masks[:, :, None] >> bits) & 1, _best_seen(logits, labels, seen)], 1
    ).double()
    keys = (sets @ seen.keys[labels][:, :, None]).squeeze(2)
    impossible = (shown == -torch.inf).double()
    valid = (sets @ impossible[:, :, None]).squeeze(2) == 0
    return Candidates(labels, sets, keys, valid & ~_repeated(keys))


def _most_probable(logits: Tensor) -> Tensor:
    """Bits of the most probable sets of independent labels, shape (samples, FLIPPED).

    Leaving the most probable set costs the sum of the flipped labels' absolute log odds.
    """
    flips = min(FLIPS, logits.shape[1])
    price, place = logits.abs().topk(flips, dim=1, largest=False)
    costs = torch.zeros(len(logits), 1, dtype=logits.dtype)
    changes = torch.zeros(len(logits), 1, dtype=torch.int64)
    for flip in range(flips):
        bit = torch.ones_like(place[:, :1]) << place[:, flip, None]
        costs = torch.cat([costs, costs + price[:, flip, None]], 1)
        changes = torch.cat([changes, changes | bit], 1)
    cheapest = costs.topk(min(FLIPPED, 1 << flips), dim=1, largest=False).indices
    best = ((logits > 0).long() << torch.arange(logits.shape[1])).sum(1, keepdim=True)
    return best ^ changes.gather(1, cheapest)


def _prefixes(scores: Tensor, largest: int) -> Tensor:
    """Bits of the first labels by score and by probability, from none to `largest`."""
    sizes = min(largest, LONGEST)
    order = scores.topk(sizes, dim=1).indices if sizes else scores[:, :0].long()
    by_score = (torch.ones_like(order) << order).cumsum(1)
    by_chance = ((1 << torch.arange(sizes + 1)) - 1).expand(len(scores), -1)
    return torch.cat([by_score, by_chance], 1)


def _best_seen(logits: Tensor, labels: Tensor, seen: SeenSets) -> Tensor:
    """The seen sets that fit best, shape (samples, SEEN, M); the empty set where one does not.

    They are ranked by their log odds plus the logarithm of their count.
    """
    fit = torch.addmm(seen.how_often.log().float(), logits.float(), seen.columns)
    best = fit.topk(min(SEEN, fit.shape[1]), dim=1).indices
    sets = seen.membership[best[:, :, None], labels[:, None, :]].long()
    whole = sets.sum(2) == seen.sizes[best]
    return sets * whole[:, :, None]


def _repeated(keys: Tensor) -> Tensor:
    """Whether a row holds the same key further left."""
    ordered, order = keys.sort(dim=1, stable=True)
    again = torch.zeros_like(keys, dtype=torch.bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    return torch.zeros_like(again).scatter_(1, order, again)

"""The label sets of a training part: what they tell about sets, their sizes and their labels."""

import weakref
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zlpr._errors import UserError
from zlpr.decoding._rule import Config
from zlpr.metrics._inputs import SampleLabels

MOST_SETS = 4096
MOST_CELLS = 1 << 24
"""Sets times labels are held as a matrix; with many labels fewer sets are kept."""
MOST_TABULATED = 2048
"""Up to so many labels, all pairs stand in a table; beyond, pairs tell nothing."""


@dataclass(frozen=True)
class SeenSets:
    """The most frequent label sets, most frequent first, and how often each was seen.

    Frequencies of labels, pairs and sizes are those among the sets that are kept, so that this
    is all that is stored.

    Attributes:
        num_labels: L.
        sets: ascending labels of each set; the empty set may be among them.
        counts: how often each was seen.
    """

    num_labels: int
    sets: tuple[tuple[int, ...], ...]
    counts: tuple[int, ...]

    @classmethod
    def of(cls, labels: SampleLabels) -> "SeenSets":
        """Count the sets of a training part; the same object is counted once.

        Every fold of a cross-validation asks for the sets of the same training part.
        """
        global _latest
        if _latest is not None and _latest[0]() is labels:
            return _latest[1]
        seen = cls._count(labels)
        _latest = weakref.ref(labels), seen
        return seen

    @classmethod
    def _count(cls, labels: SampleLabels) -> "SeenSets":
        starts = np.append(0, np.cumsum(labels.counts))
        found: dict[bytes, int] = {}
        columns = np.ascontiguousarray(labels.columns, dtype=np.int64)
        for start, stop in pairwise(starts.tolist()):
            key = columns[start:stop].tobytes()
            found[key] = found.get(key, 0) + 1
        # Of sets seen equally often, the smaller is the safer guess; then label order.
        named = ((tuple(np.frombuffer(key, np.int64).tolist()), n) for key, n in found.items())
        ordered = sorted(named, key=lambda pair: (-pair[1], len(pair[0]), pair[0]))
        kept = ordered[: max(1, min(MOST_SETS, MOST_CELLS // labels.num_labels))]
        return cls(labels.num_labels, tuple(s for s, _ in kept), tuple(n for _, n in kept))

    def to_config(self) -> Config:
        """As plain JSON."""
        return {
            "num_labels": self.num_labels,
            "sets": [list(labels) for labels in self.sets],
            "counts": list(self.counts),
        }

    @classmethod
    def from_config(cls, config: Any) -> "SeenSets":
        """What `to_config` described; anything else is refused."""
        if not isinstance(config, dict) or config.keys() != {"num_labels", "sets", "counts"}:
            raise UserError("seen label sets need num_labels, sets and counts")
        num_labels, sets, counts = config["num_labels"], config["sets"], config["counts"]
        if not _is_count(num_labels):
            raise UserError(f"num_labels must be a whole number of at least 1, got {num_labels!r}")
        if not isinstance(sets, list) or not isinstance(counts, list) or len(sets) != len(counts):
            raise UserError("sets and counts of seen label sets must be lists of one length")
        if not 0 < len(sets) <= MOST_SETS:
            raise UserError(f"expected 1 to {MOST_SETS} seen label sets, got {len(sets)}")
        if not all(map(_is_count, counts)):
            raise UserError("counts of seen label sets must be whole numbers of at least 1")
        for labels in sets:
            _check_set(labels, num_labels)
        if len({tuple(labels) for labels in sets}) < len(sets):
            raise UserError("a seen label set stands in the list twice")
        return cls(num_labels, tuple(tuple(labels) for labels in sets), tuple(counts))

    @cached_property
    def membership(self) -> Tensor:
        """Which label is in which set, uint8 of shape (sets, labels)."""
        matrix = np.zeros((len(self.sets), self.num_labels), dtype=np.uint8)
        for row, labels in enumerate(self.sets):
            matrix[row, list(labels)] = 1
        return torch.from_numpy(matrix)

    @cached_property
    def columns(self) -> Tensor:
        """The same in float32, transposed for multiplication: (labels, sets)."""
        return self.membership.T.float().contiguous()

    @cached_property
    def sizes(self) -> Tensor:
        """Labels of each set, shape (sets,)."""
        return torch.tensor([len(labels) for labels in self.sets])

    @cached_property
    def how_often(self) -> Tensor:
        """Counts as float64, shape (sets,)."""
        return torch.tensor(self.counts, dtype=torch.float64)

    @property
    def total(self) -> int:
        """Samples whose sets are kept."""
        return sum(self.counts)

    @property
    def largest(self) -> int:
        """Labels of the largest set."""
        return max(map(len, self.sets))

    @cached_property
    def label_counts(self) -> Tensor:
        """Samples of each label, shape (labels,)."""
        return single_precision_product(self.how_often.float(), self.columns.T).double()

    @cached_property
    def size_log_chances(self) -> Tensor:
        """Smoothed log frequency of each size from 0 to L, shape (labels + 1,)."""
        counts = torch.zeros(self.num_labels + 1, dtype=torch.float64)
        counts.index_add_(0, self.sizes, self.how_often)
        return ((counts + 0.5) / (self.total + 1)).log()

    @cached_property
    def label_log_odds(self) -> Tensor:
        """Smoothed log odds of each label, shape (labels,)."""
        chance = (self.label_counts + 0.5) / (self.total + 1)
        return chance.logit()

    @cached_property
    def attraction(self) -> Tensor | None:
        """Smoothed log ratio of seen to expected pairs, float64 (L, L), 0 on the diagonal."""
        if self.num_labels > MOST_TABULATED:
            return None
        counted = self.columns * self.how_often.float()
        together = single_precision_product(counted, self.columns.T).double()
        chance = (self.label_counts + 0.5) / (self.total + 1)
        expected = chance[:, None] * chance * self.total
        return ((together + 1) / (expected + 1)).log().fill_diagonal_(0.0)

    @cached_property
    def set_attraction(self) -> Tensor:
        """Attraction of each set's pairs, summed, per label but one; shape (sets,)."""
        found = torch.zeros(len(self.sets), dtype=torch.float64)
        if self.attraction is not None:
            for row, labels in enumerate(self.sets):
                inside = torch.tensor(labels, dtype=torch.int64)
                pairs = self.attraction[inside[:, None], inside].sum() / 2
                found[row] = pairs / max(len(labels) - 1, 1)
        return found

    @cached_property
    def how_often_or_never(self) -> Tensor:
        """Counts with a 0 at the end, so that -1 names a set that was never seen."""
        return torch.cat([self.how_often, torch.zeros(1, dtype=torch.float64)])

    @cached_property
    def keys(self) -> Tensor:
        """A number per label whose sums tell sets apart, float64 of shape (labels,).

        Whole numbers below 2^46: the sum of 62 of them is exact, and two of the few thousand
        sets that are compared agree by chance about once in 10^7 tries of a million samples.
        """
        drawn = np.random.default_rng(20_240_229).integers(1, 1 << 46, size=self.num_labels)
        return torch.from_numpy(drawn.astype(np.float64))

    @cached_property
    def sorted_keys(self) -> tuple[Tensor, Tensor]:
        """Keys of the sets in ascending order, and which set each belongs to."""
        sums = [float(self.keys[list(labels)].sum()) for labels in self.sets]
        return torch.tensor(sums, dtype=torch.float64).sort()

    def find(self, keys: Tensor) -> Tensor:
        """Which of the sets have these sums of keys; -1 for those never seen."""
        known, order = self.sorted_keys
        place = torch.searchsorted(known, keys).clamp_(max=len(known) - 1)
        return torch.where(known[place] == keys, order[place], -1)


_latest: tuple["weakref.ref[SampleLabels]", SeenSets] | None = None
"""What was counted last."""


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 53


def _check_set(labels: Any, num_labels: int) -> None:
    """Refuse anything but ascending labels that exist."""
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise UserError(f"a seen label set must be a list of label indices, got {labels!r:.60}")
    if any(first >= second for first, second in pairwise([-1, *labels, num_labels])):
        raise UserError(
            f"a seen label set must ascend within 0 to {num_labels - 1}: {labels!r:.60}"
        )


def single_precision_product(one: Tensor, other: Tensor) -> Tensor:
    """Of matrices in float32, under automatic mixed precision too: decisions hang on the digits."""
    with torch.autocast("cpu", enabled=False):
        return one @ other

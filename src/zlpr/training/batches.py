"""Batches for fine-tuning: grouped by length, the same whatever the number of processes."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch.utils.data import Dataset, Sampler

from zlpr.models.tokens import Padding, TokenizedTexts

FILLER = "is_filler"
"""Input that marks rows which only even out the processes: no loss comes from them."""
GROUP = 50  # batches whose texts are sorted by length together, as transformers does


class Row(NamedTuple):
    """One text of many, for a collator that pads and looks up labels for a whole batch at once."""

    data: "LabelledTexts"
    position: int


@dataclass(frozen=True, eq=False)
class LabelledTexts(Dataset[Row]):
    """Tokenized texts and their labels.

    Attributes:
        texts: the tokens.
        labels: indicator of shape (texts, labels).
    """

    texts: TokenizedTexts
    labels: sparse.csr_array[Any]

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> Row:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return Row(self, index)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens per text, what batches are grouped by."""
        return self.texts.lengths

    def longest_first(self) -> "LabelledTexts":
        """The same texts sorted by length, so that batches in this order need little padding."""
        order = np.argsort(-self.lengths, kind="stable")
        return LabelledTexts(self.texts.select(order), self.labels[order])


@dataclass(frozen=True)
class PaddedBatches:
    """A collator: from rows to model inputs and dense targets.

    Attributes:
        padding: how the shorter texts are filled.
    """

    padding: Padding

    def __call__(self, rows: Sequence[Row]) -> dict[str, torch.Tensor]:
        """Model inputs as wide as the longest text, and `labels`, bool of shape (rows, labels)."""
        data, indices = rows[0].data, np.array([row.position for row in rows])
        targets = data.labels[indices].toarray().astype(bool)
        return {**self.padding.batch(data.texts, indices), "labels": torch.from_numpy(targets)}


class GlobalBatches(Sampler[list[int]]):
    """This process's share of every optimiser step's batch.

    An epoch is a permutation by seed and epoch alone, grouped by length and cut into batches that
    do not depend on how many processes and accumulation steps share them. A batch that does not
    divide evenly is filled up with repeated rows, given as `-1 - row` so that they can be left out
    of the loss: nothing is dropped and nothing counts twice.

    Args:
        num_samples: rows of the data.
        batch_size: rows of an optimiser step, over all processes and accumulation steps.
        accumulation_steps: forward passes per optimiser step.
        num_processes: how many processes share the batch.
        process_index: which of them this is.
        seed: of the permutation.
        lengths: per row, to group by; None does not group.
        shuffle: False keeps the data's order.

    Examples:
        >>> list(GlobalBatches(5, 4, shuffle=False))
        [[0, 1, 2, 3], [4]]
        >>> list(GlobalBatches(5, 4, num_processes=2, process_index=1, shuffle=False))
        [[2, 3], [-5]]
    """

    def __init__(
        self,
        num_samples: int,
        batch_size: int,
        *,
        accumulation_steps: int = 1,
        num_processes: int = 1,
        process_index: int = 0,
        seed: int = 0,
        lengths: Sequence[int] | NDArray[Any] | None = None,
        shuffle: bool = True,
    ) -> None:
        self.num_samples = num_samples
        self.batch_size = batch_size
        self.accumulation_steps = accumulation_steps
        self.num_processes = num_processes
        self.process_index = process_index
        self.seed = seed
        self.lengths = None if lengths is None else np.asarray(lengths)
        self.shuffle = shuffle
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch the next iteration is; resuming needs no earlier ones."""
        self.epoch = epoch

    def __len__(self) -> int:
        return math.ceil(self.num_samples / self.batch_size) * self.accumulation_steps

    def __iter__(self) -> Iterator[list[int]]:
        slots = self.num_processes * self.accumulation_steps
        for batch in self._batches():
            size = math.ceil(len(batch) / slots)
            filled = [
                *batch,
                *(-1 - batch[i % len(batch)] for i in range(size * slots - len(batch))),
            ]
            for step in range(self.accumulation_steps):
                first = (step * self.num_processes + self.process_index) * size
                yield filled[first : first + size]

    def _batches(self) -> list[list[int]]:
        """The epoch's whole batches, in order."""
        random = np.random.default_rng([self.seed, self.epoch])
        order = (
            random.permutation(self.num_samples) if self.shuffle else np.arange(self.num_samples)
        )
        if self.lengths is not None:
            order = self._grouped(order, self.lengths)
        starts = range(0, self.num_samples, self.batch_size)
        batches = [order[start : start + self.batch_size].tolist() for start in starts]
        if self.lengths is not None and self.shuffle:  # else a group's batches come longest first
            batches = [batches[i] for i in random.permutation(len(batches))]
        return batches

    def _grouped(self, order: NDArray[Any], lengths: NDArray[Any]) -> NDArray[Any]:
        """Sorted by length within stretches of `GROUP` batches, so that batches stay random."""
        stretch = self.batch_size * max(1, min(GROUP, self.num_samples // (4 * self.batch_size)))
        groups = [order[start : start + stretch] for start in range(0, len(order), stretch)]
        return np.concatenate([g[np.argsort(-lengths[g], kind="stable")] for g in groups])


class FilledRows(Dataset[Any]):
    """Any map-style dataset behind `GlobalBatches`: fetches a batch and says which rows fill up."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitems__(self, rows: Sequence[int]) -> tuple[list[Any], list[bool]]:
        return [self.dataset[row if row >= 0 else -1 - row] for row in rows], [r < 0 for r in rows]


@dataclass(frozen=True)
class FilledCollator:
    """A collator that hands on which rows fill up, where any do.

    Attributes:
        collate: from items to model inputs.
    """

    collate: Callable[[list[Any]], Mapping[str, Any]]

    def __call__(self, batch: tuple[list[Any], list[bool]]) -> dict[str, Any]:
        """Model inputs; `is_filler` among them if a row is one."""
        items, filler = batch
        inputs = dict(self.collate(items))
        return {**inputs, FILLER: torch.tensor(filler)} if any(filler) else inputs

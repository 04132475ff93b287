"""Label sets on their way into batches: for `datasets.Dataset.map` and for a plain `DataLoader`.

    dataset.map(EncodeLabels(names), batched=True)  # names of labels to 0 and 1 per label
    DataLoader(pairs, batch_size=32, collate_fn=collate_indices)  # ragged indices, padded with -1

Padded indices are what `zlpr.losses.sparse_zlpr_loss` and the losses of sharded heads take.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.data import default_collate

from zlpr._errors import UserError

__all__ = ["EncodeLabels", "collate_indices", "pad_indices"]


@dataclass(frozen=True)
class EncodeLabels:
    """Turns a column of label names into numbers, batch by batch; give it to `Dataset.map`.

    Args:
        label_names: all labels; a label's number is its place among them.
        column: the column with a list of names per sample, which the numbers replace.
        form: "multi_hot" for a list of 0.0 and 1.0 per label, as losses over all labels take it;
            "indices" for the numbers of the labels, which `collate_indices` pads.

    Raises:
        UserError: a name stands twice among the labels, or a sample has a label that is not there.

    Examples:
        >>> EncodeLabels(["red", "blue"])({"labels": [["blue"], []]})
        {'labels': [[0.0, 1.0], [0.0, 0.0]]}
        >>> EncodeLabels(["red", "blue"], form="indices")({"labels": [["blue"], []]})
        {'labels': [[1], []]}
    """

    label_names: Sequence[str]
    column: str = "labels"
    form: Literal["multi_hot", "indices"] = "multi_hot"
    _numbers: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.form not in ("multi_hot", "indices"):
            raise UserError(f"form {self.form!r}: expected multi_hot or indices")
        if isinstance(self.label_names, str):
            raise UserError(f"label_names {self.label_names!r}: expected a list of names")
        numbers = {name: number for number, name in enumerate(self.label_names)}
        if len(numbers) < len(self.label_names):
            twice = next(n for n in numbers if list(self.label_names).count(n) > 1)
            raise UserError(f"label_names holds {twice!r} twice")
        object.__setattr__(self, "_numbers", numbers)

    def __call__(self, batch: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        """The column of a batch, as `map(..., batched=True)` gives and takes it."""
        if self.column not in batch:
            raise UserError(f"there is no column {self.column!r}; there are: {', '.join(batch)}")
        rows = [self._indices(names) for names in batch[self.column]]
        if self.form == "indices":
            return {self.column: rows}
        return {self.column: [self._multi_hot(indices) for indices in rows]}

    def _indices(self, names: Sequence[str]) -> list[int]:
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise UserError(f"{self.column} holds {names!r}, expected a list of names per sample")
        if unknown := [name for name in names if name not in self._numbers]:
            raise UserError(f"{self.column} holds {unknown[0]!r}, which is not among label_names")
        return sorted({self._numbers[name] for name in names})

    def _multi_hot(self, indices: list[int]) -> list[float]:
        row = [0.0] * len(self.label_names)
        for index in indices:
            row[index] = 1.0
        return row


def pad_indices(rows: Sequence[Any]) -> Tensor:
    """Ragged lists of labels as one tensor, padded with -1.

    Args:
        rows: per sample its positive labels: a list, an array or a tensor of integers.

    Returns:
        Shape (samples, K) with K the longest row, at least 1; int64.

    Examples:
        >>> pad_indices([[3, 1], [], [2]])
        tensor([[ 3,  1],
                [-1, -1],
                [ 2, -1]])
    """
    tensors = [_as_tensor(number, row) for number, row in enumerate(rows)]
    for number, row in enumerate(tensors):
        if row.dim() != 1:
            raise UserError(
                f"labels of sample {number} have the shape {tuple(row.shape)}, not (K,)"
            )
        if row.numel() and (row.is_floating_point() or row.dtype is torch.bool or row.min() < 0):
            raise UserError(
                f"labels of sample {number} are not whole numbers from 0 up: {rows[number]}"
            )
    width = max((len(row) for row in tensors), default=0)
    padded = torch.full((len(tensors), max(width, 1)), -1, dtype=torch.int64)
    for number, row in enumerate(tensors):
        padded[number, : len(row)] = row
    return padded


def _as_tensor(number: int, row: Any) -> Tensor:
    try:
        return torch.as_tensor(row)
    except (ValueError, TypeError, RuntimeError):
        raise UserError(f"labels of sample {number} are no list of numbers: {row!r}") from None


def collate_indices(samples: Sequence[Any], *, key: str = "labels") -> Any:
    """A `collate_fn` for samples whose labels are ragged lists of indices.

    Args:
        samples: pairs (inputs, indices), or mappings with the indices under `key`.
        key: where a mapping has its indices; another one by `functools.partial`.

    Returns:
        (inputs, padded indices), or a mapping; all but the indices by torch's `default_collate`.

    Examples:
        >>> inputs, indices = collate_indices([(1.0, [0, 2]), (2.0, [])])
        >>> inputs, indices
        (tensor([1., 2.], dtype=torch.float64), tensor([[ 0,  2],
                [-1, -1]]))
    """
    if not samples:
        raise UserError("there is no sample to make a batch of")
    if isinstance(samples[0], Mapping):
        for number, sample in enumerate(samples):
            if key not in sample:
                raise UserError(f"sample {number} has no {key!r}; it has: {', '.join(sample)}")
        rest = [{k: v for k, v in sample.items() if k != key} for sample in samples]
        return {**default_collate(rest), key: pad_indices([sample[key] for sample in samples])}
    inputs, indices = zip(*samples, strict=True)
    return default_collate(list(inputs)), pad_indices(indices)

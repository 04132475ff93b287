"""Slices of the labels, held by the processes of a group, and what they tell each other."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard

from zlpr._counted import counted
from zlpr.losses._label_sweep import LogSumTally, Positives, Tally, distinct

Group = dist.ProcessGroup | DeviceMesh


class ProcessLostError(RuntimeError):
    """Another process of the group died, or stayed away for longer than the group waits."""


@dataclass(frozen=True)
class Slice:
    """This process's part of a tensor that is cut along its labels.

    Attributes:
        local: The part; gradients flow back through it.
        first_label: Index of its first label among all.
        group: The processes that hold the other parts.
    """

    local: Tensor
    first_label: int
    group: dist.ProcessGroup

    @classmethod
    def of(cls, tensor: Tensor, dim: int, first_label: int | None, group: Group | None) -> "Slice":
        """Read the slice off a `DTensor`, or take a plain tensor's from the arguments.

        Args:
            tensor: A `DTensor` sharded over labels, or this process's part.
            dim: The dimension of the labels.
            first_label: Index of the part's first label; a `DTensor` knows it.
            group: A process group, a mesh of one dimension, or None for all processes.
        """
        if isinstance(tensor, DTensor):
            if first_label is not None or group is not None:
                raise ValueError("first_label and group are those of the DTensor; leave them out")
            return cls._of_dtensor(tensor, dim % tensor.dim())
        if first_label is None:
            raise ValueError("first_label is needed: the index of this process's first label")
        if first_label < 0:
            raise ValueError(f"first_label must not be negative, got {first_label}")
        return cls(tensor, first_label, process_group(group))

    @classmethod
    def _of_dtensor(cls, tensor: DTensor, dim: int) -> "Slice":
        mesh = tensor.device_mesh
        over = [at for at, how in enumerate(tensor.placements) if how == Shard(dim)]
        if len(over) != 1:
            raise ValueError(
                f"the DTensor must be Shard({dim}), its labels, over one dimension of the mesh, "
                f"got {tensor.placements}"
            )
        size, rank = mesh.size(over[0]), mesh.get_local_rank(over[0])
        return cls(
            tensor.to_local(),
            slice_of(tensor.shape[dim], size, rank).start,
            mesh.get_group(over[0]),
        )


def slice_of(num_labels: int, size: int, rank: int) -> slice:
    """The labels of one process, cut as `torch.chunk` and `DTensor` cut."""
    width = -(-num_labels // size)
    return slice(min(rank * width, num_labels), min((rank + 1) * width, num_labels))


def process_group(group: Group | None) -> dist.ProcessGroup:
    """The process group that is meant."""
    if isinstance(group, DeviceMesh):
        if group.ndim != 1:
            raise ValueError(
                f"group must be a mesh of one dimension, got {group.ndim}; "
                "take the dimension of the labels by its name, mesh['labels']"
            )
        return group.get_group()
    chosen = dist.group.WORLD if group is None else group
    if chosen is None:
        raise RuntimeError(
            "there is no process group: start with torchrun and call "
            "torch.distributed.init_process_group first"
        )
    return chosen


@contextmanager
def exchange(group: dist.ProcessGroup) -> Iterator[None]:
    """Say in plain words when the processes of a group cannot reach each other."""
    try:
        yield
    except RuntimeError as error:
        raise ProcessLostError(
            f"process {group.rank()} of {group.size()} could not exchange data with the others: "
            "another process died or did not answer within the group's time-out. Stop all "
            f"processes and resume from the last checkpoint. ({str(error).splitlines()[0]})"
        ) from error


@dataclass(frozen=True)
class SharedTally:
    """Joins the tallies of all slices: two numbers per sample and side cross the processes.

    Attributes:
        indices: Positive labels over all slices, padded with -1, shape (..., K).
        positives: Those of this process's slice.
        group: The processes.
    """

    indices: Tensor
    positives: Positives
    group: dist.ProcessGroup

    def combine(self, tally: Tally, positive_scores: Tensor) -> Tensor:
        """The losses over all slices, the same on every process.

        First the maxima of both sides, then their sums relative to those. The bound is in no
        slice's sum; it is added once, at the end. A third sum, of positives found, tells
        whether every index was in exactly one slice.
        """
        assert isinstance(tally, LogSumTally)  # noqa: S101 - the losses here are such
        tally.add_positives(positive_scores)
        sides = (tally.negative, tally.positive)
        maxima = self._reduce(torch.stack([side.maximum for side in sides]), dist.ReduceOp.MAX)
        for side, maximum in zip(sides, maxima, strict=True):
            side.rescale_(maximum)
        found = self.positives.counts().to(maxima.dtype)
        totals = torch.stack([*(side.total for side in sides), found])
        tally.negative.total, tally.positive.total, found = self.sum(totals)
        self._check(found)
        return tally.finish()

    def sum(self, gradient: Tensor) -> Tensor:
        """Add up over the processes."""
        return self._reduce(gradient, dist.ReduceOp.SUM)

    def _reduce(self, values: Tensor, operation: dist.ReduceOp.RedOpType) -> Tensor:
        with exchange(self.group):
            dist.all_reduce(values, operation, group=self.group)
        return values

    def _check(self, found: Tensor) -> None:
        """Every index is in one slice, and the indices are the same everywhere."""
        ordered = self.indices.reshape(self.positives.shape).long().sort(dim=1).values
        expected = distinct(ordered).sum(dim=1)
        wrong = (found != expected).nonzero().flatten()
        if wrong.numel() > 0:
            sample = int(wrong[0])
            raise ValueError(
                f"sample {sample} names {counted(int(expected[sample]), 'label')}, of which the "
                f"slices hold {int(found[sample])}: slices must cover all labels once, and "
                "indices be global and the same on every process"
            )

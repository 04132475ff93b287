"""Who computes the blocks into which the training of very many labels divides.

A label's kernel and weights depend on its own cells alone, a sample's candidates on its features
alone. Every number is summed in the same order however the work is divided, so that the bits are
the same too. The loss joins the labels of a sample, and does not divide in this way.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Block = tuple[Any, ...]
Held = Callable[[str, Sequence[Block]], list[Any]]
"""Calls a method of each held object, by name, with the arguments that are its own."""


class BlockWorkers(Protocol):
    """Some workers, each of whom takes one block at a time."""

    @property
    def count(self) -> int:
        """How many there are, and so blocks at most."""

    @property
    def elsewhere(self) -> bool:
        """Whether what they hold takes no memory of this machine."""

    def share(self, value: Any) -> Any:
        """What stands for a value that several blocks read, as one of their arguments."""

    def run(self, function: Callable[..., Any], blocks: Sequence[Block]) -> list[Any]:
        """The function's results, in the order of the blocks, which are its arguments."""

    def hold(self, make: Callable[..., Any], blocks: Sequence[Block]) -> Held:
        """Make an object of each block that stays with its worker, until others are made."""


class InProcess:
    """This process alone, one block after another.

    Args:
        count: blocks to divide into; the results are the same for any.
    """

    elsewhere = False

    def __init__(self, count: int = 1) -> None:
        self.count = count

    def share(self, value: Any) -> Any:
        """The value itself."""
        return value

    def run(self, function: Callable[..., Any], blocks: Sequence[Block]) -> list[Any]:
        """Call the function."""
        return [function(*block) for block in blocks]

    def hold(self, make: Callable[..., Any], blocks: Sequence[Block]) -> Held:
        """Make the objects."""
        held = [make(*block) for block in blocks]
        return lambda method, arguments: [
            getattr(one, method)(*own) for one, own in zip(held, arguments, strict=True)
        ]


HERE = InProcess()
"""Who computes where nobody else is told to."""


def cut(before: NDArray[np.integer[Any]], count: int) -> list[tuple[int, int]]:
    """Ranges of rows, so many at most, with nearly the same number of entries each.

    Args:
        before: entries before each row, and all of them at the end, shape (rows + 1,).
        count: how many ranges.

    Examples:
        >>> cut(np.array([0, 5, 6, 7, 8, 12]), 3)
        [(0, 1), (1, 4), (4, 5)]
        >>> cut(np.array([0, 90, 91]), 5)  # a row stays whole
        [(0, 1), (1, 2)]
        >>> cut(np.array([0]), 2)
        [(0, 0)]
    """
    rows = len(before) - 1
    inner = np.searchsorted(before, int(before[-1]) * np.arange(1, count) / count)
    ends = sorted({0, rows, *inner.tolist()}) if rows else [0, 0]
    return list(itertools.pairwise(ends))

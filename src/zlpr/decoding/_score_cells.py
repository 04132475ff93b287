r"""What the log-linear posterior cannot say: frequencies of sets in cells of the space of scores.

A handful of weights fits every part of the data equally. Where there is validation data enough,
samples with similar scores are counted together, and the chances of their sets are drawn towards
what was seen there:

$$P(Y \mid s) = \frac{a\, P_{\mathrm{linear}}(Y \mid s) + n_{\mathrm{cell}(s)}(Y)}
{a + \sum_Z n_{\mathrm{cell}(s)}(Z)}.$$

The strength a is chosen by leaving each sample out of its own count; where no strength helps beyond
its standard error there are no cells.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.decoding._rule import Config, check_number, check_numbers

MOST_CELLS = 64
MOST_NUMBERS = 1 << 16
SAMPLES_PER_CELL = 40
STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)


@dataclass(frozen=True)
class ScoreCells:
    """Cells around centres, and how often each seen set was a sample's own there.

    Attributes:
        centres: log odds at the middle of each cell, one list of L numbers each.
        counts: cell, index of the seen set, and how often.
        strength: a, how many samples the log-linear posterior counts for.
        num_sets: how many seen sets there are.
    """

    centres: list[list[float]]
    counts: list[list[int]]
    strength: float
    num_sets: int

    def blend(self, logits: Tensor, chances: Tensor, places: Tensor, valid: Tensor) -> Tensor:
        """Chances drawn towards what was counted in each sample's cell.

        Args:
            logits: log odds, shape (samples, L).
            chances: of candidate sets, shape (samples, C).
            places: of the candidates among the seen sets, -1 for others, shape (samples, C).
            valid: False for what is no candidate, shape (samples, C).
        """
        counts = self.table[_nearest(logits, self.middles)].gather(
            1, torch.where(places < 0, self.num_sets, places)
        )
        counts = counts.masked_fill(~valid, 0.0)
        total = counts.sum(1, keepdim=True)
        return (self.strength * chances + counts) / (self.strength + total)

    @cached_property
    def middles(self) -> Tensor:
        return torch.tensor(self.centres, dtype=torch.float64)

    @cached_property
    def table(self) -> Tensor:
        """Counts of shape (cells, sets + 1); the last column is 0, for sets never seen."""
        table = torch.zeros(len(self.centres), self.num_sets + 1, dtype=torch.float64)
        cell, which, times = torch.tensor(self.counts, dtype=torch.int64).reshape(-1, 3).T
        return table.index_put_((cell, which), times.double())

    def to_config(self) -> Config:
        """As plain JSON."""
        return {"centres": self.centres, "counts": self.counts, "strength": self.strength}

    @classmethod
    def from_config(cls, config: Any, num_labels: int, num_sets: int) -> "ScoreCells":
        """What `to_config` described; anything else is refused."""
        if not isinstance(config, dict) or config.keys() != {"centres", "counts", "strength"}:
            raise UserError("cells of scores need centres, counts and strength")
        centres, counts, strength = config["centres"], config["counts"], config["strength"]
        check_number("strength of cells", strength)
        if not 0 < strength <= 1e9:
            raise UserError(f"strength of cells must lie within 1e9 above 0, got {strength:g}")
        if not isinstance(centres, list) or not 0 < len(centres) <= MOST_CELLS:
            raise UserError(f"expected 1 to {MOST_CELLS} cells of scores")
        for centre in centres:
            check_numbers("centre of a cell", centre)
            if len(centre) != num_labels:
                held = counted(len(centre), "label")
                raise UserError(f"a cell's centre has {held}, expected {num_labels}")
        _check_counts(counts, len(centres), num_sets)
        return cls(centres, counts, float(strength), num_sets)


def learn_cells(logits: Tensor, own: Tensor, chance: Tensor, num_sets: int) -> ScoreCells | None:
    """Cells that make left-out samples' sets more likely, or None where none do.

    Args:
        logits: log odds, shape (samples, L).
        own: index of each sample's set among the seen ones, shape (samples,).
        chance: of that set by the log-linear posterior, shape (samples,).
        num_sets: how many seen sets there are.
    """
    number = min(MOST_CELLS, len(logits) // SAMPLES_PER_CELL, MOST_NUMBERS // logits.shape[1])
    if number < 2:
        return None
    centres = _centres(logits, number)
    cell = _nearest(logits, centres)
    code, which, times = np.unique(
        (cell * num_sets + own).numpy(), return_inverse=True, return_counts=True
    )
    here = torch.from_numpy(times[which]).double()
    all_here = cell.bincount(minlength=number)[cell].double()
    gains = [
        ((a * chance + here - 1) / (a + all_here - 1) / chance.clamp(min=1e-12)).log()
        for a in STRENGTHS
    ]
    best = max(range(len(STRENGTHS)), key=lambda place: float(gains[place].mean()))
    error = float(gains[best].std()) / len(logits) ** 0.5
    if not float(gains[best].mean()) > error:
        return None
    counts = np.stack([code // num_sets, code % num_sets, times], axis=1)
    return ScoreCells(centres.tolist(), counts.tolist(), STRENGTHS[best], num_sets)


def _nearest(logits: Tensor, centres: Tensor) -> Tensor:
    """The nearest centre by Euclidean distance, the first among equals."""
    distance = (centres**2).sum(1) - 2 * logits @ centres.T
    return distance.argmin(1)


def _centres(logits: Tensor, number: int) -> Tensor:
    """Centres by k-means: each start is drawn far from those before it, always the same."""
    distinct = torch.from_numpy(np.unique(logits.numpy(), axis=0))
    if len(distinct) <= number:
        return distinct
    generator = np.random.default_rng(0)
    centres = logits[:1]
    for _ in range(number - 1):
        gap = torch.cdist(logits, centres).amin(1).square()
        drawn = generator.choice(len(logits), p=(gap / gap.sum()).numpy())
        centres = torch.cat([centres, logits[drawn, None]])
    for _ in range(10):
        cell = _nearest(logits, centres)
        sums = torch.zeros_like(centres).index_add_(0, cell, logits)
        sizes = cell.bincount(minlength=number)[:, None]
        centres = torch.where(sizes > 0, sums / sizes.clamp(min=1), centres)
    return centres


def _check_counts(counts: Any, cells: int, sets: int) -> None:
    """Refuse anything but triples of a cell, a set and how often."""
    if not isinstance(counts, list) or len(counts) > cells * sets:
        raise UserError("counts of cells must be a list, of one entry for a cell and set")
    for entry in counts:
        whole = isinstance(entry, list) and [type(value) for value in entry] == [int] * 3
        if not whole or not (
            0 <= entry[0] < cells and 0 <= entry[1] < sets and 0 < entry[2] < 1 << 53
        ):
            raise UserError(f"a count of cells must be [cell, set, times], got {entry!r:.60}")

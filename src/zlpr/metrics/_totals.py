"""Sums over samples from which the metrics are made: what is added up, merged and reduced."""

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np


@dataclass(frozen=True)
class Totals:
    """Numbers and arrays that add up over samples; subclasses name them.

    Counts are int64 and sums float64, so that neither batch order nor batch size matters beyond
    the last bits.
    """

    def __add__(self, other: Self) -> Self:
        return replace(
            self,
            **{
                field.name: getattr(self, field.name) + getattr(other, field.name)
                for field in fields(self)
            },
        )

    def arrays(self) -> dict[str, Any]:
        """Every total as an int64 or float64 array."""
        return {field.name: np.asarray(getattr(self, field.name)) for field in fields(self)}


def ratio(numerator: Any, denominator: Any, empty: float) -> Any:
    """`numerator / denominator`, and `empty` where the denominator is zero.

    Examples:
        >>> ratio(np.array([1.0, 0.0]), np.array([2.0, 0.0]), empty=1.0)
        array([0.5, 1. ])
    """
    numerator, denominator = np.asarray(numerator, float), np.asarray(denominator, float)
    out = np.full(np.broadcast_shapes(numerator.shape, denominator.shape), empty)
    np.divide(numerator, denominator, out=out, where=denominator != 0)
    return out if out.ndim else float(out)

"""Cross-validation on validation data: what is chosen there is judged on samples it did not see."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from zlpr._counted import counted
from zlpr.decoding._rule import Validation

FOLDS = 5
FEW_SAMPLES = 50
"""Below, a choice among many would be one among accidents: only what is simplest is weighed."""
MOST_SAMPLES = 5000
"""Nothing is weighed on more; a larger validation part is thinned evenly."""
TOLERANCE = 1.0
"""Standard errors by which what is preferred may be behind the best."""


def thinned(data: Validation) -> Validation:
    """All of the samples, or `MOST_SAMPLES` of them at most, evenly."""
    return data.select(np.arange(0, len(data.true), -(-len(data.true) // MOST_SAMPLES)))


def groups_among(data: Validation) -> int | None:
    """How many groups the samples are of; None where each is its own."""
    return data.num_groups if data.num_groups < len(data.true) else None


def too_few(samples: int, groups: int | None) -> str:
    """That nothing is compared on so few, of groups where there are some, for people.

    Examples:
        >>> too_few(8, None), too_few(300, 8)
        ('8 samples are too few', '300 samples of 8 groups are too few')
    """
    if groups is None:
        return f"{counted(samples, 'sample is', 'samples are')} too few"
    return f"{counted(samples, 'sample')} of {counted(groups, 'group')} are too few"


def folds_of(data: Validation) -> Iterator[tuple[NDArray[np.int64], Validation, Validation]]:
    """Places of a fold's samples, the data without them, and the fold; the same in every call.

    Samples of one group are in one fold.
    """
    order = np.random.default_rng(0).permutation(data.num_groups)
    for fold in np.array_split(order, FOLDS):
        inside = np.isin(data.group_of, fold)
        held, rest = np.flatnonzero(inside), np.flatnonzero(~inside)
        yield held, data.select(rest), data.select(held)


def error_of_mean(values: NDArray[np.float64], data: Validation) -> float:
    """Standard error of the mean of a value per sample, to which a group adds as one."""
    sums = np.bincount(data.group_of, values - values.mean())
    spread = float(sums @ sums) * len(sums) / (len(sums) - 1)
    return float(np.sqrt(spread)) / len(values)

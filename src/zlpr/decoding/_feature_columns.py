"""A model's features as few columns, so that what is learned from them stays small.

Texts have a hundred thousand columns, most of them empty. Columns are added into a fixed number of
buckets, each with a sign, by a hash of their number (the hashing trick: inner products are kept on
average). Few columns are left as they are.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.decoding._rule import Features, Validation

Values = NDArray[np.float64]
MOST_COLUMNS = 128
ROUNDING = 1e-5
"""An average that varies by less than this share of what it is made from tells nothing: where all
should cancel, single precision leaves a hundredth of that."""


def condense(features: Features, columns: int | None = None) -> Values:
    """At most `MOST_COLUMNS` columns, float64 of shape (samples, width).

    Args:
        features: dense or CSR, shape (samples, columns).
        columns: how many columns there were when the rule was fitted; None for any number.
    """
    if columns is not None and features.shape[1] != columns:
        raise UserError(
            f"features has {counted(features.shape[1], 'column')}, the rule was fitted on {columns}"
        )
    bucket, sign = buckets(features.shape[1])
    width = int(min(features.shape[1], MOST_COLUMNS))
    if not hasattr(features, "indptr"):
        dense = np.asarray(features, dtype=np.float64)
        if width == features.shape[1]:
            return dense
        return _added((dense * sign).T, bucket, width).T
    rows = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))
    cells = rows * width + bucket[features.indices]
    values = np.asarray(features.data, dtype=np.float64) * sign[features.indices]
    added = np.bincount(cells, values, minlength=features.shape[0] * width)
    return added.astype(np.float64).reshape(features.shape[0], width)


def columns_of(data: Validation, rule: str) -> int:
    """How many columns the samples' features have; a line that asks for them where there are none.

    Args:
        data: what a rule is to be fitted on.
        rule: its name.
    """
    if data.features is None:
        raise UserError(f"{rule} needs the features of the samples: fit(..., features=)")
    return int(data.features.shape[1])


def check_columns(columns: Any) -> None:
    """Refuse anything but a number of columns."""
    if type(columns) is not int or columns < 0:
        raise UserError(f"columns must be a whole number of at least 0, got {columns!r}")


def buckets(columns: int) -> tuple[NDArray[np.int64], Values]:
    """Bucket and sign of each column, the same whenever there are as many columns."""
    if columns <= MOST_COLUMNS:
        return np.arange(columns), np.ones(columns)
    mixed = np.arange(columns, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    bucket = (mixed % np.uint64(MOST_COLUMNS)).astype(np.int64)
    return bucket, np.where(mixed >> np.uint64(63), 1.0, -1.0)


def _added(rows: Values, bucket: NDArray[np.int64], width: int) -> Values:
    """Rows summed by bucket."""
    added = np.zeros((width, rows.shape[1]))
    np.add.at(added, bucket, rows)
    return added


def moments(rows: Values, alone: int, apart: Values | float = 0.0) -> tuple[Values, Values]:
    """Mean of each column and what to divide it by, so that a ridge penalty treats them fairly.

    The first columns are brought to a standard deviation of 1 each, the rest to 1 together: a
    hundred columns of features then have no more room to fit chance than one of the others. A
    column that does not vary keeps its scale, and one that varies by rounding alone, as sums of
    scores do that add up to 0, is measured by what it was made from.

    Args:
        rows: shape (rows, columns).
        alone: how many columns count by themselves.
        apart: for each column how far apart the numbers lie that it is an average of; 0 for what
            is none.
    """
    if len(rows) == 0:
        return np.zeros(rows.shape[1]), np.ones(rows.shape[1])
    scale = rows.std(axis=0)
    scale = np.where(scale > 1e-12 * np.abs(rows).max(axis=0), scale, 1.0)
    scale = np.where(scale > ROUNDING * apart, scale, apart)
    scale[alone:] *= np.sqrt(rows.shape[1] - alone)
    return rows.mean(axis=0), scale

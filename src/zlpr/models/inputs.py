"""What users hand to a fitted model, checked: texts as a list, features as numbers."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from zlpr._counted import counted
from zlpr._errors import UserError

LARGEST_FEATURE = 1e30
"""Beyond it, a score may be more than single precision holds, and no number at all."""

_ASK_FOR_TEXTS = "this model reads texts: give a list of strings"


def list_texts(inputs: Any) -> list[str]:
    """The texts of a list, a column of a table (pandas' Series), an array or an iterator.

    Raises:
        UserError: one text alone; a table or a dictionary, of which only the names of the columns
            would be read; a set, which has no order; or an entry that is no text.

    Examples:
        >>> list_texts(text for text in ("good value", "bad smell"))
        ['good value', 'bad smell']
    """
    dimensions = getattr(inputs, "ndim", 1)
    if dimensions > 1:
        if getattr(getattr(inputs, "dtype", None), "kind", "O") in "biuf":
            raise UserError(
                "this model reads texts, not features: give a list of strings, or a file with a "
                "column of texts (text=…)"
            )
        raise UserError(f"{_ASK_FOR_TEXTS}, or one column of the table, not all of it")
    unfit = isinstance(inputs, str | bytes | Mapping | set | frozenset)
    if unfit or dimensions == 0 or not isinstance(inputs, Iterable):
        raise UserError(f"{_ASK_FOR_TEXTS}, not a {type(inputs).__name__}")
    texts = list(inputs)
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise UserError(f"{_ASK_FOR_TEXTS}; entry {place} is a {type(text).__name__}")
    return texts


def feature_matrix(inputs: Any, num_features: int, means: NDArray[np.float32] | None = None) -> Any:
    """Numbers of shape (samples, features), dense or sparse.

    Args:
        inputs: what the user gave.
        num_features: columns that there must be.
        means: what stands for a missing number (NaN), per feature; None takes none for missing.

    Raises:
        UserError: it holds something else than finite numbers, or is of another shape.
    """
    features: Any = inputs.tocsr() if hasattr(inputs, "tocsr") else np.asarray(inputs)
    if features.dtype.kind == "O":
        features = _as_numbers(features)
    if features.dtype.kind not in "biuf":
        raise UserError("this model reads features, not texts: give a matrix or a file of them")
    if features.ndim != 2 or features.shape[1] != num_features:
        raise UserError(
            f"this model takes {counted(num_features, 'feature')} a sample, got a matrix of shape "
            f"{features.shape}"
        )
    if means is not None:
        features = fill_missing(features, means)
    values: Any = features.data if hasattr(features, "tocsr") else features
    if not np.isfinite(values).all():
        raise UserError("the features hold NaN or infinite values; this model takes numbers")
    if not (np.abs(values) <= LARGEST_FEATURE).all():
        largest = values.flat[np.abs(values).argmax()]
        raise UserError(
            f"the features hold {largest:g}, too large to score in single precision (at most "
            f"{LARGEST_FEATURE:g}); scale them, or leave out what stands for a missing number"
        )
    return features


def fill_missing(features: Any, means: NDArray[np.float32]) -> Any:
    """Dense features with the mean of its column for every NaN; others as they are.

    Examples:
        >>> fill_missing(np.array([[1.0, np.nan]]), np.array([5.0, 7.0]))
        array([[1., 7.]])
    """
    if sparse.issparse(features) or not np.isnan(features).any():
        return features
    return np.where(np.isnan(features), means, features)


def _as_numbers(features: Any) -> Any:
    """An array of objects as numbers where they are; left as it is otherwise."""
    try:
        return features.astype(np.float64)
    except (TypeError, ValueError):
        return features

"""One digest of data, by which a run, a model or a record knows its data again."""

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse

from zlpr.data.dataset import Dataset
from zlpr.data.splits import content_keys


def data_digest(data: Dataset) -> str:
    """The SHA-256 of the samples, in their order, and of their labels; ids do not matter.

    It does not depend on how a matrix is held: the width of its integers, the order of a row's
    entries and zeros that are stored change nothing.

    Examples:
        >>> one = Dataset.from_label_sets([{"a"}, set()], texts=["x", "y"])
        >>> data_digest(one) == data_digest(one.select([0, 1]))
        True
        >>> data_digest(one) == data_digest(one.select([1, 0]))
        False
    """
    digest = hashlib.sha256(repr(data.label_names).encode())
    if data.texts is not None:
        for text in data.texts:
            digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    elif sparse.issparse(data.features):
        features = _canonical(data.features)
        digest.update(features.indptr.astype(np.int64).tobytes())
        digest.update(features.indices.astype(np.int64).tobytes())
        digest.update(features.data.astype(np.float64).tobytes())
    else:
        digest.update(np.ascontiguousarray(data.features, dtype=np.float64).tobytes())
    labels = _canonical(data.labels)
    for part in (labels.indptr, labels.indices):
        digest.update(part.astype(np.int64).tobytes())
    return digest.hexdigest()


_MODULUS = 2**128


def content_digest(data: Dataset) -> str:
    """A digest of the samples' texts or features, in any order and whatever their labels.

    It is the sum of the samples' own digests, so that those of parts add up to that of the whole.

    Examples:
        >>> data = Dataset.from_label_sets([{"a"}, set(), {"b"}], texts=["x", "y", "z"])
        >>> parts = [content_digest(data.select(rows)) for rows in ([2, 0], [1])]
        >>> joint_digest(parts) == content_digest(data)
        True
    """
    return _spelled(sum(int.from_bytes(key, "big") for key in content_keys(data)))


def joint_digest(digests: Iterable[str]) -> str:
    """The `content_digest` of data that was digested in parts."""
    return _spelled(sum(int(digest, 16) for digest in digests))


def _spelled(total: int) -> str:
    return f"{total % _MODULUS:032x}"


def _canonical(matrix: Any) -> Any:
    copy = sparse.csr_array(matrix, copy=True)
    copy.eliminate_zeros()
    copy.sort_indices()
    return copy

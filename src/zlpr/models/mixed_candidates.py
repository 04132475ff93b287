"""The functions of `candidates` for samples that may have an embedding beside their n-grams.

Features, centroids and weights are sparse matrices, which `candidates` itself takes, or mixed ones.
A product is then the sum of two: of the sparse columns, as before, and of the dense ones.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from zlpr.models import candidates
from zlpr.models.candidates import BLOCK_PRODUCTS
from zlpr.models.mixed_matrix import MixedMatrix

# Products of dense rows that are made at a time.
BLOCK_CELLS = 2**14


def as_rows(matrix: Any) -> Any:
    """A matrix of either kind in single precision, its sparse columns as CSR."""
    if isinstance(matrix, MixedMatrix):
        return MixedMatrix(as_rows(matrix.left), np.asarray(matrix.right, dtype=np.float32))
    return sparse.csr_array(matrix, dtype=np.float32)


def label_sums(features: Any, labels: Any, largest: int) -> Any:
    """The sum of the features of each label's samples, of whose sparse columns the largest stay.

    Args:
        features: shape (samples, features).
        labels: shape (samples, labels), CSR.
        largest: sparse entries to keep of each label.
    """
    if not isinstance(features, MixedMatrix):
        return candidates.label_sums(features, labels, largest)
    dense = sparse.csr_array(labels.T.astype(np.float32)) @ features.right
    return MixedMatrix(candidates.label_sums(features.left, labels, largest), dense)


def keep_largest(matrix: Any, largest: int) -> Any:
    """The largest sparse entries of each row, and all dense ones."""
    if not isinstance(matrix, MixedMatrix):
        return candidates.keep_largest(matrix, largest)
    return MixedMatrix(candidates.keep_largest(matrix.left, largest), matrix.right)


def squared_lengths(matrix: Any) -> NDArray[np.float64]:
    """Of each row."""
    if not isinstance(matrix, MixedMatrix):
        return np.asarray(matrix.multiply(matrix).sum(axis=1), dtype=np.float64)
    dense = np.einsum("ij,ij->i", matrix.right, matrix.right, dtype=np.float64)
    return np.asarray(squared_lengths(matrix.left) + dense, dtype=np.float64)


def rows_times(matrix: Any, factors: NDArray[np.float32]) -> Any:
    """Each row times a number of its own."""
    if isinstance(matrix, MixedMatrix):
        return MixedMatrix(rows_times(matrix.left, factors), matrix.right * factors[:, None])
    data = matrix.data * np.repeat(factors, np.diff(matrix.indptr))
    return sparse.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def unit_rows(matrix: Any) -> Any:
    """The rows scaled to length one; a row of zeros stays one."""
    if not isinstance(matrix, MixedMatrix):
        return candidates.unit_rows(matrix)
    lengths = np.sqrt(squared_lengths(matrix))
    lengths[lengths == 0] = 1.0
    return rows_times(matrix, (1.0 / lengths).astype(np.float32))


def nearest(features: Any, centroids: Any, count: int) -> NDArray[np.int64]:
    """The labels whose centroids have the largest product with each sample, the best first.

    Only products that are above 0 count. Embeddings have one with every label, so that this takes
    samples x labels products, of which no more than a block is held at a time.

    Args:
        features: shape (samples, features).
        centroids: shape (labels, features).
        count: labels to name for each sample.

    Returns:
        Label indices of shape (samples, count), -1 where there are fewer.
    """
    if not isinstance(features, MixedMatrix):
        return candidates.nearest(features, centroids, count)
    ngrams, columns = candidates.naming_factors(features.left, centroids.left)
    samples, num_labels = features.shape[0], centroids.shape[0]
    found = np.full((samples, count), -1, dtype=np.int64)
    most = min(count, num_labels)
    rows = max(1, BLOCK_PRODUCTS // max(num_labels, 1))
    for first in range(0, samples if most else 0, rows):
        block = slice(first, first + rows)
        products = features.right[block] @ centroids.right.T
        products += sparse.csr_array(ngrams[block] @ columns).toarray()
        labels = np.argpartition(-products, most - 1, axis=1)[:, :most]
        values = np.take_along_axis(products, labels, axis=1)
        order = np.lexsort((labels, -values), axis=1)
        labels, values = (np.take_along_axis(one, order, axis=1) for one in (labels, values))
        found[block, :most] = np.where(values > 0, labels, -1)
    return found


def score_cells(
    features: Any, weight: Any, rows: NDArray[np.integer[Any]], labels: NDArray[np.integer[Any]]
) -> NDArray[np.float32]:
    """The products of some samples with the weights of some labels.

    Args:
        features: shape (samples, features).
        weight: shape (labels, features).
        rows: a sample for each product.
        labels: a label for each product.
    """
    if not isinstance(features, MixedMatrix):
        return candidates.score_cells(features, weight, rows, labels)
    scores = candidates.score_cells(features.left, weight.left, rows, labels)
    for first in range(0, len(rows), BLOCK_CELLS):
        own = slice(first, first + BLOCK_CELLS)
        pair = features.right[rows[own]], weight.right[labels[own]]
        scores[own] += np.einsum("ij,ij->i", *pair)
    return scores

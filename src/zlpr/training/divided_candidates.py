"""The first stage of many labels, divided by samples or by single products."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from zlpr.models import mixed_candidates
from zlpr.models.mixed_matrix import MixedMatrix, sparse_part
from zlpr.training.block_workers import BlockWorkers, cut


def rows_between(matrix: Any, first: int, last: int) -> Any:
    """A range of rows; one of all rows shares the matrix's memory."""
    if isinstance(matrix, MixedMatrix):
        return MixedMatrix(rows_between(matrix.left, first, last), matrix.right[first:last])
    start, end = matrix.indptr[first], matrix.indptr[last]
    entries = (matrix.data[start:end], matrix.indices[start:end])
    pointer = matrix.indptr[first : last + 1] - start
    return sparse.csr_array((*entries, pointer), shape=(last - first, matrix.shape[1]))


def joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Arrays one after another; one alone is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def nearest(features: Any, centroids: Any, count: int, workers: BlockWorkers) -> NDArray[np.int64]:
    """As `zlpr.models.mixed_candidates.nearest`, each worker for some of the samples."""
    shared = workers.share(centroids)
    ranges = cut(sparse_part(features).indptr, workers.count)
    blocks = [(rows_between(features, *rows), shared, count) for rows in ranges]
    return joined(workers.run(mixed_candidates.nearest, blocks))


def score_cells(
    features: Any,
    weight: Any,
    rows: NDArray[np.integer[Any]],
    labels: NDArray[np.integer[Any]],
    workers: BlockWorkers,
) -> NDArray[np.float32]:
    """As `zlpr.models.mixed_candidates.score_cells`, each worker some of the products."""
    shared = (workers.share(features), workers.share(weight))
    ranges = cut(np.arange(len(rows) + 1), workers.count)
    blocks = [(*shared, rows[first:last], labels[first:last]) for first, last in ranges]
    return joined(workers.run(mixed_candidates.score_cells, blocks))

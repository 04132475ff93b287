"""The first stage of many labels, divided by samples or by single products."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from zlpr.models import candidates
from zlpr.training.block_workers import BlockWorkers, cut


def rows_between(matrix: Any, first: int, last: int) -> "sparse.csr_array[Any]":
    """A range of rows; one of all rows shares the matrix's memory."""
    start, end = matrix.indptr[first], matrix.indptr[last]
    entries = (matrix.data[start:end], matrix.indices[start:end])
    pointer = matrix.indptr[first : last + 1] - start
    return sparse.csr_array((*entries, pointer), shape=(last - first, matrix.shape[1]))


def joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Arrays one after another; one alone is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def nearest(features: Any, centroids: Any, count: int, workers: BlockWorkers) -> NDArray[np.int64]:
    """As `zlpr.models.candidates.nearest`, each worker for some of the samples."""
    shared = workers.share(centroids)
    parts = [rows_between(features, *rows) for rows in cut(features.indptr, workers.count)]
    return joined(workers.run(candidates.nearest, [(part, shared, count) for part in parts]))


def score_cells(
    features: Any,
    weight: Any,
    rows: NDArray[np.int64],
    labels: NDArray[np.int64],
    workers: BlockWorkers,
) -> NDArray[np.float32]:
    """As `zlpr.models.candidates.score_cells`, each worker some of the products."""
    shared = (workers.share(features), workers.share(weight))
    ranges = cut(np.arange(len(rows) + 1), workers.count)
    blocks = [(*shared, rows[first:last], labels[first:last]) for first, last in ranges]
    return joined(workers.run(candidates.score_cells, blocks))

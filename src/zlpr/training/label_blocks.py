"""Kernel and weights of very many labels, divided by labels."""

from typing import Any

import numpy as np
from scipy import sparse

from zlpr.models.candidates import blocks_of
from zlpr.models.mixed_matrix import MixedMatrix, sparse_part, stack
from zlpr.training.block_workers import BlockWorkers, cut
from zlpr.training.candidate_cells import CandidateKernel, Cells, MixedKernel, Vector
from zlpr.training.divided_candidates import joined, rows_between

# A weight below this share of its label's largest is left out: of 2,271 a label 290 to 560 stay
# (German records), with scores that rank as well or better.
PRUNED_BELOW = 0.05


class LabelBlocks:
    """The kernel and the weights of all labels, each worker those of a range.

    Args:
        features: of the samples, CSR, or n-grams beside embeddings.
        cells: which the coefficients are of.
        centroids: of the same kind and shape (labels, features), which the weights start from.
        slope: by which they are multiplied.
        workers: compute.
    """

    def __init__(
        self, features: Any, cells: Cells, centroids: Any, slope: float, workers: BlockWorkers
    ) -> None:
        entries = np.cumsum(np.diff(sparse_part(features).indptr)[cells.rows], dtype=np.int64)
        ranges = cut(np.concatenate([[0], entries])[cells.starts], workers.count)
        shared = workers.share(features)
        self._cells = [(cells.starts[first], cells.starts[last]) for first, last in ranges]
        self._held = workers.hold(
            LabelBlock,
            [
                (shared, cells.of_labels(*labels), rows_between(centroids, *labels), slope)
                for labels in ranges
            ],
        )

    def product(self, vector: Vector) -> Vector:
        """Of the kernel with a number per cell."""
        return joined(self._call("product", vector))

    def weights(self, coefficients: Vector) -> Any:
        """`slope * centroid + sum of coefficient * sample` of each label, pruned."""
        return stack(self._call("weights", coefficients))

    def _call(self, method: str, vector: Vector) -> list[Any]:
        return self._held(method, [(vector[first:last],) for first, last in self._cells])


class LabelBlock:
    """The kernel and the weights of some labels; the arguments are those of `LabelBlocks`."""

    def __init__(self, features: Any, cells: Cells, centroids: Any, slope: float) -> None:
        self.cells, self.slope = cells, np.float32(slope)
        self.summed = stack([features, centroids])
        mixed = isinstance(features, MixedMatrix)
        self.product = (MixedKernel if mixed else CandidateKernel)(features, cells)

    def weights(self, coefficients: Vector) -> Any:
        """Of these labels, the sparse ones pruned."""
        num_labels, ends = self.cells.num_labels, self.cells.starts[1:]
        samples = self.summed.shape[0] - num_labels
        rows = np.insert(self.cells.rows, ends, samples + np.arange(num_labels))
        factors = np.insert(coefficients, ends, self.slope)
        starts = self.cells.starts + np.arange(num_labels + 1)
        by_label = sparse.csr_array(
            (factors, rows, starts), shape=(num_labels, self.summed.shape[0])
        )
        ngrams = _weights(by_label, sparse_part(self.summed))
        if isinstance(self.summed, MixedMatrix):
            return MixedMatrix(ngrams, by_label @ self.summed.right)
        return ngrams


def _weights(by_label: Any, summed: Any) -> Any:
    """Sums of rows, pruned, CSR."""
    blocks = [
        _pruned(sparse.csr_array(by_label[first:last] @ summed))
        for first, last in blocks_of(by_label, np.diff(summed.indptr))
    ]
    return sparse.csr_array(sparse.vstack(blocks, format="csr"), dtype=np.float32)


def _pruned(weight: Any) -> Any:
    """Weights without those that are small beside their label's largest."""
    sizes, pointer = np.abs(weight.data), weight.indptr
    held = np.flatnonzero(np.diff(pointer))
    largest = np.zeros(weight.shape[0], dtype=np.float32)
    if len(held):
        largest[held] = np.maximum.reduceat(sizes, pointer[held])
    kept = sizes >= np.repeat(np.float32(PRUNED_BELOW) * largest, np.diff(pointer))
    before = np.concatenate([[0], np.cumsum(kept)])
    entries = (weight.data[kept], weight.indices[kept], before[pointer])
    pruned = sparse.csr_array(entries, shape=weight.shape)
    pruned.sort_indices()
    return pruned

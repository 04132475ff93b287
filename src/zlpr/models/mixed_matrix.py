"""A matrix whose first columns are sparse and whose last are dense: n-grams beside embeddings.

As one sparse matrix it would cost three to four times as much to multiply by its dense columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


@dataclass(frozen=True)
class MixedMatrix:
    """Sparse columns, then dense ones, for the same rows.

    Attributes:
        left: of shape (rows, sparse columns), CSR.
        right: of shape (rows, dense columns).

    Examples:
        >>> left = sparse.csr_array(np.array([[0.0, 2.0]]))
        >>> matrix = MixedMatrix(left, np.array([[3.0]]))
        >>> matrix.shape, (matrix @ np.ones((3, 1))).tolist()
        ((1, 3), [[5.0]])
    """

    left: Any
    right: NDArray[Any]

    # numpy would else take the matrix for a number and multiply by its entries one by one.
    __array_ufunc__ = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.left.shape[0], self.left.shape[1] + self.right.shape[1]

    @property
    def dtype(self) -> Any:
        """Of the numbers."""
        return np.result_type(self.left.dtype, self.right.dtype)

    @property
    def parts(self) -> tuple[tuple[slice, Any], ...]:
        """The columns of either kind: where they stand, and they themselves."""
        cut = self.left.shape[1]
        return (slice(0, cut), self.left), (slice(cut, self.shape[1]), self.right)

    def __getitem__(self, rows: Any) -> "MixedMatrix":
        """Some rows: a slice, or a list of numbers."""
        return MixedMatrix(self.left[rows], self.right[rows])

    def __matmul__(self, weight: NDArray[Any]) -> NDArray[Any]:
        """The product with weights of shape (columns, labels)."""
        cut = self.left.shape[1]
        product: NDArray[Any] = self.left @ weight[:cut]
        product += self.right @ weight[cut:]
        return product

    def __rmul__(self, factor: Any) -> "MixedMatrix":
        """All entries times a number."""
        return MixedMatrix(factor * self.left, factor * self.right)

    def __imul__(self, factor: Any) -> "MixedMatrix":
        """All entries times a number, in place."""
        self.left.data *= factor
        np.multiply(self.right, factor, out=self.right)
        return self

    def __add__(self, other: "MixedMatrix") -> "MixedMatrix":
        """The sum of two of one shape."""
        return MixedMatrix(sparse.csr_array(self.left + other.left), self.right + other.right)

    @property
    def T(self) -> "_Transposed":  # noqa: N802
        """The transpose, to be multiplied."""
        return _Transposed(self)

    def tocsr(self) -> Any:
        """All columns in one sparse matrix."""
        return sparse.csr_array(sparse.hstack([self.left, sparse.csr_array(self.right)]))

    def stretched(self, factor: float) -> "MixedMatrix":
        """The same with dense columns that are so many times as large."""
        return MixedMatrix(self.left, np.float32(factor) * self.right)

    def below(self, other: "MixedMatrix") -> "MixedMatrix":
        """These rows, and those of another matrix below them."""
        below: MixedMatrix = stack([self, other])
        return below


@dataclass(frozen=True)
class _Transposed:
    """The transpose of a mixed matrix."""

    matrix: MixedMatrix

    def __matmul__(self, slopes: NDArray[Any]) -> NDArray[Any]:
        """The product with slopes of shape (rows, labels)."""
        return np.concatenate([self.matrix.left.T @ slopes, self.matrix.right.T @ slopes])


def sparse_part(matrix: Any) -> Any:
    """The sparse columns of a matrix; one that is sparse is all of them."""
    return matrix.left if isinstance(matrix, MixedMatrix) else matrix


def stack(matrices: Sequence[Any]) -> Any:
    """The rows of matrices below each other, all of them mixed or all of them sparse."""
    if isinstance(matrices[0], MixedMatrix):
        left = stack([matrix.left for matrix in matrices])
        return MixedMatrix(left, np.concatenate([matrix.right for matrix in matrices]))
    return sparse.csr_array(sparse.vstack(matrices, format="csr"))

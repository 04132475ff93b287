"""A basis of the training samples, in which a fit has as many weights as there are samples.

Weights that are best for `sum of losses + r/2 |W|^2` are sums of samples, so where samples are
fewer than features nothing is lost by looking for them among such sums only. In an orthonormal
basis of the samples the penalty stays what it was, samples are rows of a triangular matrix, and a
fit has samples x labels parameters instead of features x labels. With 2,400 texts of 151,000
n-grams and 65 labels it takes an eighth of the time (`bench/sample_basis.py`).
"""

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import lapack, solve_triangular

# What of a sample is not in the span of others: below this share of the shortest one's squared
# length it is rounding, and the sample is taken for a sum of others.
SMALLEST_SHARE = 1e-8
# Of the longest sample to the shortest: the rounding of the one would soon be all of the other.
MOST_LENGTHS = 100.0
# With fewer weights a fit takes no time to speak of in either form.
FEWEST_WEIGHTS = 200_000
# An evaluation is about as dear in either form where squared samples are 500 times the features.
MOST_SQUARED_SAMPLES_PER_FEATURE = 150
# Cubed samples are what making the basis takes, features times labels what one fit saves.
MOST_CUBED_SAMPLES_PER_WEIGHT = 8_000
# Of samples: their products, the factor twice, and the coordinates.
BYTES_A_PAIR = 28
_ROWS = 256  # of products that are computed at a time


@dataclass(frozen=True)
class SampleBasis:
    """An orthonormal basis `Q` of the rows of a sparse matrix: `chosen rows = factor @ Q`.

    Attributes:
        order: in which the rows' coordinates stand: those that span all others first.
        coordinates: of all rows in that order, (rows, rank), zero above the diagonal.
        chosen: rows that span all others, CSR, (rank, features).
        factor: their coordinates, lower triangular, (rank, rank), in double precision.

    Examples:
        >>> rows = sparse.csr_array(np.array([[3.0, 0.0, 4.0], [0.0, 2.0, 0.0], [3.0, 2.0, 4.0]]))
        >>> basis = SampleBasis.of(rows)
        >>> basis.coordinates.shape  # a row is the sum of the others
        (3, 2)
        >>> weights = np.array([[1.0], [5.0], [0.0]])
        >>> inside = basis.enter(weights)
        >>> np.allclose(basis.coordinates @ inside, rows[basis.order] @ weights)
        True
        >>> np.allclose(rows @ basis.leave(inside), rows @ weights)
        True
    """

    order: NDArray[np.int64]
    coordinates: NDArray[np.float32]
    chosen: Any
    factor: NDArray[np.float64]

    @classmethod
    def of(cls, rows: Any) -> "SampleBasis":
        """By a Cholesky factor of the rows' products, each next row the one furthest from the span.

        That order finds the rank where texts are repeated, which leaves the plain factor undefined.
        """
        products = _products(rows)
        squares = products.diagonal()
        least = SMALLEST_SHARE * float(squares[squares > 0].min(initial=np.inf))
        whole, order, rank, _ = lapack.dpstrf(products, tol=least, lower=1, overwrite_a=1)
        order = order.astype(np.int64) - 1  # counted from 1 there
        lower = np.tril(whole[:, :rank])
        coordinates = np.ascontiguousarray(lower, dtype=np.float32)
        return cls(order, coordinates, rows[order[:rank]], np.asfortranarray(lower[:rank]))

    def enter(self, weight: NDArray[Any]) -> NDArray[np.float32]:
        """Coordinates of weights, (features, labels) -> (rank, labels), less what no row sees."""
        seen = self.chosen @ weight
        return np.asarray(solve_triangular(self.factor, seen, lower=True), dtype=np.float32)

    def leave(self, inside: NDArray[Any]) -> NDArray[np.float32]:
        """The weights that have these coordinates, (rank, labels) -> (features, labels)."""
        shares = solve_triangular(self.factor, inside, lower=True, trans="T")
        return np.asarray(self.chosen.T @ shares.astype(np.float32), dtype=np.float32)


class SampleBases:
    """Bases by the matrix they are of, so that fits to one matrix share one."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, SampleBasis]] = {}

    def of(self, rows: Any) -> SampleBasis:
        """The basis of this very matrix, made when it is first asked for."""
        known = self._known.get(id(rows))
        if known is None or known[0]() is not rows:
            self._forget()
            known = self._known[id(rows)] = weakref.ref(rows), SampleBasis.of(rows)
        return known[1]

    def _forget(self) -> None:
        """Matrices that are no more."""
        self._known = {key: known for key, known in self._known.items() if known[0]() is not None}


def pays(num_samples: int, num_features: int, num_labels: int) -> bool:
    """Whether a fit in the basis of the samples, making it included, is the quicker one.

    Examples:
        >>> pays(2_400, 150_000, 65), pays(2_400, 150_000, 1), pays(20_000, 150_000, 65)
        (True, False, False)
    """
    dear = num_samples**2 > MOST_SQUARED_SAMPLES_PER_FEATURE * num_features
    weights = num_features * num_labels
    worth_it = weights >= FEWEST_WEIGHTS and not dear
    return worth_it and num_samples**3 <= MOST_CUBED_SAMPLES_PER_WEIGHT * weights


def are_alike_in_length(rows: Any) -> bool:
    """Whether no row is so much longer than another that a basis would lose the shorter one.

    Rows of zeros, which any basis has, do not count.

    Examples:
        >>> are_alike_in_length(sparse.csr_array(np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 0.1]])))
        True
        >>> are_alike_in_length(sparse.csr_array(np.array([[1e5, 0.0], [0.0, 1.0]])))
        False
    """
    matrix = sparse.csr_array(rows, dtype=np.float64)
    squares = matrix.multiply(matrix).sum(axis=1)
    held = squares[squares > 0]
    return bool(held.max(initial=0.0) <= MOST_LENGTHS**2 * held.min(initial=np.inf))


def _products(rows: Any) -> NDArray[np.float64]:
    """Of every two rows, in the order of columns that LAPACK works in."""
    rows = sparse.csr_array(rows, dtype=np.float64)
    products = np.empty((rows.shape[0],) * 2, order="F")
    for first in range(0, rows.shape[0], _ROWS):
        here = slice(first, first + _ROWS)
        products[:, here] = (rows @ rows[here].T).toarray()
    return products

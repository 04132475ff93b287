"""Sparse columns beside dense ones behave as the one matrix that they stand for."""

import numpy as np
import pytest
from scipy import sparse

from zlpr.models.mixed_matrix import MixedMatrix, sparse_part, stack

RNG = np.random.default_rng(0)
SPARSE = sparse.csr_array(RNG.integers(0, 3, (7, 5)) * RNG.random((7, 5)))
DENSE = RNG.standard_normal((7, 3))
MIXED, WHOLE = MixedMatrix(SPARSE, DENSE), np.hstack([SPARSE.toarray(), DENSE])


def test_products_are_those_of_the_whole() -> None:
    weight, slopes = RNG.standard_normal((8, 2)), RNG.standard_normal((7, 2))
    np.testing.assert_allclose(MIXED @ weight, WHOLE @ weight)
    np.testing.assert_allclose(MIXED.T @ slopes, WHOLE.T @ slopes)
    assert MIXED.shape == WHOLE.shape
    assert MIXED.dtype == WHOLE.dtype


@pytest.mark.parametrize("rows", [slice(2, 5), np.array([6, 0, 0]), slice(0, 0)])
def test_rows_are_those_of_the_whole(rows: slice) -> None:
    np.testing.assert_array_equal(MIXED[rows].tocsr().toarray(), WHOLE[rows])


def test_one_below_the_other() -> None:
    both = MIXED.below(MIXED[:2])
    np.testing.assert_array_equal(both.tocsr().toarray(), np.vstack([WHOLE, WHOLE[:2]]))


def test_sums_and_multiples_are_those_of_the_whole() -> None:
    twice = np.float64(2.0) * MIXED + MIXED
    np.testing.assert_allclose(twice.tocsr().toarray(), 3.0 * WHOLE)
    twice *= 2.0
    np.testing.assert_allclose(twice.tocsr().toarray(), 6.0 * WHOLE)
    longer = MIXED.stretched(4.0).tocsr().toarray()
    np.testing.assert_allclose(longer, WHOLE * np.repeat([1.0, 4.0], [5, 3]))


def test_rows_of_either_kind_are_stacked() -> None:
    mixed, plain = stack([MIXED, MIXED[:1], MIXED[:0]]), stack([SPARSE, SPARSE[:1]])
    np.testing.assert_array_equal(mixed.tocsr().toarray(), np.vstack([WHOLE, WHOLE[:1]]))
    np.testing.assert_array_equal(sparse_part(mixed).toarray(), plain.toarray())
    assert sparse_part(plain) is plain


def test_numpy_does_not_multiply_it_by_entries() -> None:
    with pytest.raises(TypeError):
        DENSE.T @ MIXED

"""With embeddings beside n-grams every function gives what it gives for both as one matrix."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from zlpr.models import candidates, mixed_candidates
from zlpr.models.mixed_matrix import MixedMatrix


def random_matrix(rows: int, seed: int) -> MixedMatrix:
    rng = np.random.default_rng(seed)
    left = sparse.random_array((rows, 20), density=0.3, rng=rng, dtype=np.float32).tocsr()
    return MixedMatrix(left, rng.normal(size=(rows, 3)).astype(np.float32))


FEATURES, CENTROIDS = random_matrix(13, 0), random_matrix(9, 1)
LABELS = sparse.csr_array(np.random.default_rng(2).random((13, 9)) < 0.3)


def whole(matrix: Any) -> Any:
    return matrix.tocsr().toarray()


@pytest.mark.parametrize("products", [1, 20, 2**22])
@pytest.mark.parametrize("count", [1, 4, 9, 12])
def test_the_nearest_labels_are_those_with_the_largest_products(
    products: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mixed_candidates, "BLOCK_PRODUCTS", products)
    expected = whole(FEATURES) @ whole(CENTROIDS).T
    found = mixed_candidates.nearest(FEATURES, CENTROIDS, count)
    assert found.shape == (13, count)
    for row, labels in zip(expected, found, strict=True):
        best = [label for label in np.argsort(-row, kind="stable")[:count] if row[label] > 0]
        assert labels.tolist() == best + [-1] * (count - len(best))


def test_a_label_without_samples_is_nobodys_candidate() -> None:
    none = MixedMatrix(sparse.csr_array((2, 20), dtype=np.float32), np.zeros((2, 3), np.float32))
    assert (mixed_candidates.nearest(FEATURES, none, 2) == -1).all()
    assert mixed_candidates.nearest(FEATURES[:0], CENTROIDS, 2).shape == (0, 2)


def test_the_scores_of_cells_are_products_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed_candidates, "BLOCK_CELLS", 7)
    rng = np.random.default_rng(3)
    rows, labels = rng.integers(0, 13, 50), rng.integers(0, 9, 50)
    expected = (whole(FEATURES) @ whole(CENTROIDS).T)[rows, labels]
    found = mixed_candidates.score_cells(FEATURES, CENTROIDS, rows, labels)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_sums_lengths_and_multiples_are_those_of_both_kinds_of_columns() -> None:
    sums = mixed_candidates.label_sums(FEATURES, LABELS, 20)
    np.testing.assert_allclose(whole(sums), LABELS.toarray().T @ whole(FEATURES), atol=1e-5)
    few = mixed_candidates.label_sums(FEATURES, LABELS, 2)
    assert np.diff(few.left.indptr).max() == 2
    np.testing.assert_array_equal(few.right, sums.right)
    units = mixed_candidates.unit_rows(sums)
    np.testing.assert_allclose(mixed_candidates.squared_lengths(units), 1.0, rtol=1e-5)
    factors = np.arange(9, dtype=np.float32)
    times = mixed_candidates.rows_times(sums, factors)
    np.testing.assert_allclose(whole(times), factors[:, None] * whole(sums), atol=1e-5)


def test_sparse_matrices_are_left_to_the_functions_for_these() -> None:
    features, centroids = FEATURES.left, CENTROIDS.left
    np.testing.assert_array_equal(
        mixed_candidates.nearest(features, centroids, 4),
        candidates.nearest(features, centroids, 4),
    )
    units = mixed_candidates.unit_rows(centroids)
    np.testing.assert_array_equal(units.toarray(), candidates.unit_rows(centroids).toarray())

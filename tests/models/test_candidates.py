import itertools

import numpy as np
import pytest
from scipy import sparse

from zlpr.models import candidates


def random_matrix(rows, columns, density=0.2, seed=0):
    return sparse.random_array(
        (rows, columns), density=density, rng=np.random.default_rng(seed), dtype=np.float32
    ).tocsr()


@pytest.mark.parametrize(("products", "piece"), [(7, 2**17), (2**22, 2**17), (30, 4), (30, 9)])
def test_the_nearest_labels_are_those_with_the_largest_products(products, piece, monkeypatch):
    monkeypatch.setattr(candidates, "BLOCK_PRODUCTS", products)
    monkeypatch.setattr(candidates, "PIECE_LABELS", piece)
    monkeypatch.setattr(candidates, "BLOCK_PRODUCTS_OF_A_LABEL", 0)
    features, centroids = random_matrix(13, 40), random_matrix(9, 40, seed=1)
    dense = (features @ centroids.T).toarray()
    found = candidates.nearest(features, centroids, 4)
    for row, labels in zip(dense, found, strict=True):
        best = [label for label in np.argsort(-row, kind="stable")[:4] if row[label] > 0]
        assert labels[labels >= 0].tolist() == best
        assert (labels[len(best) :] == -1).all()


@pytest.mark.parametrize("piece", [2, 3, 2**17])
def test_of_labels_that_are_equally_near_the_first_are_named(piece, monkeypatch):
    monkeypatch.setattr(candidates, "PIECE_LABELS", piece)
    centroids = sparse.csr_array(np.array([[0.5]] * 3 + [[0.9]] + [[0.5]] * 4, dtype=np.float32))
    features = sparse.csr_array(np.array([[1.0], [0.0], [2.0]], dtype=np.float32))
    found = candidates.nearest(features, centroids, 4)
    assert found.tolist() == [[3, 0, 1, 2], [-1] * 4, [3, 0, 1, 2]]


def test_pieces_are_all_labels_in_their_order(monkeypatch):
    monkeypatch.setattr(candidates, "PIECE_LABELS", 4)
    columns = random_matrix(40, 9)
    pieces = candidates.pieces_of(columns)
    assert [piece.shape[1] for piece in pieces] == [4, 4, 1]
    np.testing.assert_array_equal(sparse.hstack(pieces).toarray(), columns.toarray())
    assert candidates.pieces_of(columns[:, :4])[0].shape == (40, 4)
    assert candidates.pieces_of(columns[:, :0])[0].shape == (40, 0)


def test_a_sample_that_has_nothing_in_common_with_any_label_has_no_candidates():
    features = sparse.csr_array(np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]], dtype=np.float32))
    centroids = sparse.csr_array(np.array([[1.0, 1.0, 0.0]], dtype=np.float32))
    assert candidates.nearest(features, centroids, 2).tolist() == [[-1, -1], [-1, -1]]


@pytest.mark.parametrize("table", [1, 100, 2**22])
def test_the_scores_of_cells_are_products_of_rows(table, monkeypatch):
    monkeypatch.setattr(candidates, "TABLE", table)
    monkeypatch.setattr(candidates, "LARGEST_TABLE", table)
    monkeypatch.setattr(candidates, "GROUP_ENTRIES", 20)
    features, weight = random_matrix(11, 30), random_matrix(7, 30, seed=1)
    rng = np.random.default_rng(2)
    rows, labels = rng.integers(0, 11, 50), rng.integers(0, 7, 50)
    expected = (features @ weight.T).toarray()[rows, labels]
    np.testing.assert_allclose(
        candidates.score_cells(features, weight, rows, labels), expected, rtol=1e-5, atol=1e-6
    )
    none = np.empty(0, dtype=np.int64)
    assert candidates.score_cells(features, weight, none, none).shape == (0,)


def test_groups_do_not_shrink_as_features_grow():
    """What a group takes for itself would else make their time labels times features."""
    labels = np.repeat(np.arange(500), 2)
    rows = np.zeros(1000, dtype=np.int64)
    groups = []
    for width in (50_000, 400_000):
        features = sparse.csr_array((np.ones(3), ([0, 0, 0], [1, 5, 9])), shape=(1, width))
        groups.append(sum(1 for _ in candidates.label_groups(labels, rows, features)))
    assert groups == [8, 8]


def test_sums_of_labels_keep_their_largest_entries():
    features, labels = random_matrix(20, 15), random_matrix(20, 6, seed=1) > 0
    whole = (labels.T.astype(np.float32) @ features).toarray()
    np.testing.assert_allclose(candidates.label_sums(features, labels, 15).toarray(), whole)
    few = candidates.label_sums(features, labels, 3).toarray()
    for kept, row in zip(few, whole, strict=True):
        assert np.count_nonzero(kept) == min(3, np.count_nonzero(row))
        assert kept.sum() == pytest.approx(np.sort(row)[::-1][:3].sum(), rel=1e-5)
    lengths = np.linalg.norm(candidates.unit_rows(sparse.csr_array(few)).toarray(), axis=1)
    np.testing.assert_allclose(lengths[lengths > 0], 1.0, rtol=1e-6)


def test_a_feature_names_the_labels_that_have_most_of_it(monkeypatch):
    monkeypatch.setattr(candidates, "FEATURE_LABELS", 2)
    monkeypatch.setattr(candidates, "SAMPLE_FEATURES", 1)
    centroids = sparse.csr_array(np.array([[0.5, 0.9], [0.7, 0.0], [0.6, 0.8]], dtype=np.float32))
    features = sparse.csr_array(np.array([[2.0, 1.0], [0.1, 3.0]], dtype=np.float32))
    # The first sample is looked up by its first feature, of which labels 1 and 2 have most.
    assert candidates.nearest(features, centroids, 3).tolist() == [[1, 2, -1], [0, 2, -1]]
    # In other units it is the same: what counts is what a feature could add.
    units = np.array([1e-3, 50.0], dtype=np.float32)
    other = candidates.nearest(features * units, centroids / units, 3)
    assert other.tolist() == [[1, 2, -1], [0, 2, -1]]


def test_a_sample_is_looked_up_for_a_bounded_number_of_products(monkeypatch):
    monkeypatch.setattr(candidates, "SAMPLE_PRODUCTS", 3)
    centroids = sparse.csr_array(
        np.array([[0.9, 0.1, 0.0], [0.0, 0.1, 0.3], [0.0, 0.2, 0.1]], dtype=np.float32)
    )
    features = sparse.csr_array(
        np.array([[1.0, 1.0, 1.0], [0.0, 9.0, 1.0], [0.0, 0.0, 0.0]], dtype=np.float32)
    )
    kept, _ = candidates.naming_factors(features, centroids)
    # The word of one label and that of two; the word of all adds least for what it takes. Where it
    # adds most, it is looked up alone, and a sample always by something.
    assert kept.toarray().tolist() == [[1.0, 0.0, 1.0], [0.0, 9.0, 0.0], [0.0, 0.0, 0.0]]
    monkeypatch.setattr(candidates, "SAMPLE_PRODUCTS", 2)
    kept, _ = candidates.naming_factors(features, centroids)
    assert kept.toarray().tolist() == [[1.0, 0.0, 0.0], [0.0, 9.0, 0.0], [0.0, 0.0, 0.0]]


@pytest.mark.parametrize("products", [1, 7, 2**20])
def test_bounds_of_naming_do_not_depend_on_blocks(monkeypatch, products):
    features, centroids = random_matrix(30, 40), random_matrix(9, 40, seed=1)
    monkeypatch.setattr(candidates, "SAMPLE_PRODUCTS", 12)
    whole, _ = candidates.naming_factors(features, centroids)
    monkeypatch.setattr(candidates, "BLOCK_PRODUCTS", products)
    cut, columns = candidates.naming_factors(features, centroids)
    np.testing.assert_array_equal(cut.toarray(), whole.toarray())
    spent = np.diff(columns.indptr)[cut.indices]
    assert all(sum(spent[a:b]) <= 12 or b - a == 1 for a, b in itertools.pairwise(cut.indptr))
    assert cut.nnz < features.nnz

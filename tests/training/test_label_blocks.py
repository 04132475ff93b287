import numpy as np
import pytest
from scipy import sparse

from zlpr.models.mixed_matrix import MixedMatrix
from zlpr.training.block_workers import InProcess
from zlpr.training.candidate_cells import CandidateKernel, Cells
from zlpr.training.label_blocks import PRUNED_BELOW, LabelBlocks

SLOPE = 0.5


@pytest.fixture
def problem():
    """Thirty labels, of which the last five have no cells."""
    rng = np.random.default_rng(0)
    features = sparse.random_array((60, 40), density=0.2, rng=rng, dtype=np.float32).tocsr()
    labels = sparse.csr_array((rng.random((60, 30)) < 0.05) & (np.arange(30) < 25))
    nearest = np.stack([rng.permutation(25)[:6] for _ in range(60)])
    centroids = sparse.random_array((30, 40), density=0.1, rng=rng, dtype=np.float32).tocsr()
    cells = Cells.of(nearest, labels)
    return features, cells, centroids, rng.normal(size=len(cells.rows)).astype(np.float32)


@pytest.mark.parametrize("count", [1, 2, 5, 40])
def test_products_and_weights_have_the_same_bits_in_any_number_of_blocks(problem, count):
    features, cells, centroids, vector = problem
    blocks = LabelBlocks(features, cells, centroids, SLOPE, InProcess(count))
    whole = LabelBlocks(features, cells, centroids, SLOPE, InProcess())
    assert blocks.product(vector).tobytes() == CandidateKernel(features, cells)(vector).tobytes()
    divided, alone = blocks.weights(vector), whole.weights(vector)
    for name in ("data", "indices", "indptr"):
        assert getattr(divided, name).tobytes() == getattr(alone, name).tobytes()


def test_weights_are_the_centroid_and_the_samples_without_what_is_small(problem):
    features, cells, centroids, vector = problem
    expected = SLOPE * centroids.toarray()
    np.add.at(expected, cells.labels, vector[:, None] * features.toarray()[cells.rows])
    expected[np.abs(expected) < PRUNED_BELOW * np.abs(expected).max(1, keepdims=True)] = 0.0
    found = LabelBlocks(features, cells, centroids, SLOPE, InProcess(3)).weights(vector)
    np.testing.assert_allclose(found.toarray(), expected, atol=1e-5)


@pytest.mark.parametrize("count", [1, 3])
def test_embeddings_have_weights_beside_those_of_n_grams_of_which_none_is_pruned(problem, count):
    features, cells, centroids, vector = problem
    rng = np.random.default_rng(1)
    embeddings, means = (rng.normal(size=(n, 4)).astype(np.float32) for n in (60, 30))
    expected = SLOPE * means
    np.add.at(expected, cells.labels, vector[:, None] * embeddings[cells.rows])
    workers = InProcess(count)
    both = MixedMatrix(features, embeddings), cells, MixedMatrix(centroids, means), SLOPE
    found = LabelBlocks(*both, workers).weights(vector)
    plain = LabelBlocks(features, cells, centroids, SLOPE, workers).weights(vector)
    np.testing.assert_array_equal(found.left.toarray(), plain.toarray())
    np.testing.assert_allclose(found.right, expected, atol=1e-5)

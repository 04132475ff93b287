import numpy as np
import pytest
from scipy import sparse

from zlpr.models import candidates
from zlpr.training.block_workers import InProcess
from zlpr.training.divided_candidates import nearest, rows_between, score_cells

RNG = np.random.default_rng(0)
WEIGHT = sparse.random_array((20, 600), density=0.3, rng=RNG, dtype=np.float32).tocsr()


def of_features_in_no_order():
    """Samples of a few features, but the first of more than are looked at, in no order."""
    lengths = [400, *RNG.integers(0, 30, 29)]
    indices = np.concatenate([RNG.permutation(600)[:length] for length in lengths])
    data = RNG.random(len(indices)).astype(np.float32)
    pointer = np.concatenate([[0], np.cumsum(lengths)])
    return sparse.csr_array((data, indices, pointer), shape=(30, 600))


def test_a_range_of_all_rows_takes_no_memory():
    np.testing.assert_array_equal(rows_between(WEIGHT, 3, 9).toarray(), WEIGHT.toarray()[3:9])
    whole = rows_between(WEIGHT, 0, 20)
    assert np.shares_memory(whole.data, WEIGHT.data)
    assert np.shares_memory(whole.indices, WEIGHT.indices)
    assert rows_between(WEIGHT, 5, 5).shape == (0, 600)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_candidates_and_their_scores_are_the_same_however_they_are_divided(count):
    features = of_features_in_no_order()
    found = nearest(features, WEIGHT, 4, InProcess(count))
    np.testing.assert_array_equal(found, candidates.nearest(features, WEIGHT, 4))
    rows, places = np.nonzero(found >= 0)
    cells = rows, found[rows, places]
    divided = score_cells(features, WEIGHT, *cells, InProcess(count))
    assert divided.tobytes() == candidates.score_cells(features, WEIGHT, *cells).tobytes()


def test_no_samples_have_no_candidates():
    none = rows_between(WEIGHT, 0, 0)
    assert nearest(none, WEIGHT, 4, InProcess(2)).shape == (0, 4)
    nothing = np.empty(0, dtype=np.int64)
    assert len(score_cells(none, WEIGHT, nothing, nothing, InProcess(2))) == 0

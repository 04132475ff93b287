import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from zlpr.metrics import TopScores, top_scores

LABELS = np.array([[3, 0], [1, -1], [-1, -1]])
SCORES = np.array([[0.5, -2.0], [1.5, -np.inf], [-np.inf, -np.inf]])
FEW = TopScores(LABELS, SCORES, num_labels=4)


def test_it_stands_for_a_matrix_with_minus_infinity_elsewhere():
    low = -np.inf
    expected = [[-2.0, low, low, 0.5], [low, 1.5, low, low], [low] * 4]
    np.testing.assert_array_equal(FEW.to_dense(), expected)
    assert (FEW.shape, len(FEW)) == ((3, 4), 3)


@pytest.mark.parametrize("rows", [slice(1, 3), [2, 0], np.array([True, False, True]), slice(0)])
def test_rows_are_those_of_the_matrix(rows):
    np.testing.assert_array_equal(FEW[rows].to_dense(), FEW.to_dense()[rows])


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_all_labels_as_candidates_are_the_matrix(data):
    shape = data.draw(hnp.array_shapes(min_dims=2, max_dims=2, max_side=6))
    values = st.sampled_from([-np.inf, -1.0, 0.0, 0.5, np.inf])
    dense = data.draw(hnp.arrays(np.float32, shape, elements=values))
    kept = TopScores.of(dense, shape[1])
    assert kept.scores.dtype == np.float32
    np.testing.assert_array_equal(kept.to_dense(), dense)


def test_the_highest_are_kept_and_of_ties_the_first():
    kept = TopScores.of([[1, 3, 2, 3, 2]], k=3)
    assert (kept.labels.tolist(), kept.scores.tolist()) == ([[1, 3, 2]], [[3.0, 3.0, 2.0]])


@pytest.mark.parametrize("cells", [1, 4, 1 << 20])
@pytest.mark.parametrize(
    ("labels", "scores", "num_labels", "fault"),
    [
        (LABELS.astype(float), SCORES, 4, "labels must be an array of whole numbers, got float64"),
        (LABELS.tolist(), SCORES, 4, "labels must be an array of whole numbers, got list"),
        (LABELS, SCORES.astype(np.float16), 4, "scores must be an array of float32 or float64"),
        (LABELS, SCORES[:2], 4, r"shape \(samples, k\), got \(3, 2\) and \(2, 2\)"),
        (LABELS[0], SCORES[0], 4, r"shape \(samples, k\), got \(2,\) and \(2,\)"),
        (LABELS, SCORES, 0, "num_labels must be a whole number of at least 1, got 0"),
        (LABELS, SCORES, 3, "sample 0 has label 3, but labels run from 0 to 2, with -1 for none"),
        (2 * LABELS, SCORES, 8, "sample 1 has label -2, but labels run from 0 to 7"),
        (LABELS, np.zeros((3, 2)), 4, "sample 1 has a score without a label; it must be -inf"),
        (np.abs(LABELS), SCORES, 4, "sample 1 has label 1 twice"),
        (LABELS, np.where(LABELS == 1, np.nan, SCORES), 4, "NaN for sample 1, label 1"),
    ],
)
def test_what_is_no_set_of_scores_is_refused(labels, scores, num_labels, fault, cells, monkeypatch):
    monkeypatch.setattr(top_scores, "CHECKED_CELLS", cells)
    with pytest.raises((ValueError, TypeError), match=fault):
        TopScores(labels, scores, num_labels)


def test_scores_that_are_no_matrix_are_refused():
    with pytest.raises(ValueError, match=r"scores must have shape \(samples, labels\), got \(2,\)"):
        TopScores.of([0.5, 1.0], k=1)


def test_no_candidates_at_all():
    none = TopScores(np.empty((2, 0), dtype=int), np.empty((2, 0)), 3)
    assert (none.to_dense() == -np.inf).all()

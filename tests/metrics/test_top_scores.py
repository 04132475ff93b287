import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_array

from tests.metrics.cases import CASES
from zlpr.metrics import (
    LabelLists,
    TopScores,
    _inputs,
    average_precision,
    coverage_error,
    evaluate,
    precision_at_k,
    top_scores,
)

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


@pytest.mark.parametrize("k", [0, -1, 1.5, True])
def test_what_is_kept_is_at_least_one_label(k):
    with pytest.raises(ValueError, match=f"k must be a whole number of at least 1, got {k}"):
        TopScores.of([[1.0, 2.0, 3.0]], k)


def test_a_score_that_is_none_is_refused_even_where_it_would_not_be_kept():
    with pytest.raises(ValueError, match="NaN for sample 0, label 1"):
        TopScores.of([[1.0, np.nan, 3.0]], 1)


def test_samples_without_any_candidate_are_judged_as_a_matrix_without_scores():
    none = TopScores(np.zeros((2, 0), dtype=int), np.zeros((2, 0)), 3)
    truth = [[1, 0, 1], [0, 0, 0]]
    assert evaluate(truth, none) == evaluate(truth, none.to_dense())


def test_small_integers_hold_labels_of_many():
    few = TopScores(np.array([[2, -1, 0]], dtype=np.int8), np.array([[1.0, -np.inf, 2.0]]), 1000)
    assert few.by_label().labels.tolist() == [[0, 2, -1]]
    truth = csr_array(([True], ([0], [2])), shape=(1, 1000))
    assert evaluate(truth, few) == evaluate(truth, few.to_dense())


def test_numpy_makes_no_matrix_and_no_loop_of_it_by_accident():
    with pytest.raises(TypeError, match="to_dense"):
        np.asarray(FEW)
    with pytest.raises(TypeError):
        list(FEW)
    with pytest.raises(TypeError, match=r"scores\[i : i \+ 1\]"):
        FEW[1]


@pytest.mark.parametrize("indptr", [[], [0, 5], [1, 1]])
def test_label_lists_end_where_their_labels_do(indptr):
    with pytest.raises(ValueError, match="from 0 to the 1 labels"):
        LabelLists(np.array(indptr, dtype=np.int64), np.array([1]), 3)


@pytest.mark.parametrize("label", [-1, 3])
def test_label_lists_hold_labels_that_there_are(label):
    with pytest.raises(ValueError, match="indices must lie from 0 to 2"):
        LabelLists(np.array([0, 2]), np.array([1, label]), 3)


def test_label_lists_do_not_fall():
    with pytest.raises(ValueError, match="must not fall"):
        LabelLists(np.array([0, 2, 1, 2]), np.array([0, 1]), 3)


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
    with pytest.raises(TypeError, match="masked array"):
        TopScores.of(np.ma.masked_array([[0.5, 1.0]], mask=[[False, True]]), k=1)
    with pytest.raises(TypeError, match="real numbers"):
        TopScores.of(np.array([[0.5, 1j]]), k=1)


def test_no_candidates_at_all():
    none = TopScores(np.empty((2, 0), dtype=int), np.empty((2, 0)), 3)
    assert (none.to_dense() == -np.inf).all()


@pytest.mark.parametrize("empty", ["paper", "sklearn"])
@pytest.mark.parametrize("kept", [1.0, 0.3])
@pytest.mark.parametrize("name", CASES)
def test_every_metric_is_that_of_the_matrix(name, kept, empty, monkeypatch):
    case = CASES[name]
    few = TopScores.of(case.scores, max(1, int(kept * case.scores.shape[1])))
    expected = evaluate(case.true, few.to_dense(), case.predicted, empty=empty)
    order = np.random.default_rng(0).permutation(few.labels.shape[1])
    shuffled = TopScores(few.labels[:, order], few.scores[:, order], few.num_labels)
    for block in (1, 64, 1 << 20):
        monkeypatch.setattr(_inputs, "BLOCK_CELLS", block)
        sparse = evaluate(csr_array(case.true), shuffled, csr_array(case.predicted), empty=empty)
        assert sparse == pytest.approx(expected, abs=1e-12)


def test_a_true_label_that_is_no_candidate_stands_at_the_worst_rank():
    few = TopScores(np.array([[1, 2]]), np.array([[0.5, 0.2]]), num_labels=1000)
    truth = LabelLists(np.array([0, 2]), np.array([1, 700]), 1000)
    assert average_precision(truth, few) == pytest.approx((1 + 2 / 1000) / 2)
    assert coverage_error(truth, few) == 1000


def test_what_needs_all_labels_at_once_is_never_made():
    labels = np.arange(300)[:, None] * 3_000_000 + np.arange(4)
    few = TopScores(labels, np.ones(labels.shape, np.float32), 1_000_000_000_000)
    truth = LabelLists(np.arange(0, 301), labels[:, 0], few.num_labels)
    assert precision_at_k(truth, few, k=1) == pytest.approx(0.25)  # four are tied


def test_lists_of_labels_are_a_matrix_and_its_rows():
    sets = FEW.by_label().chosen(np.ones((3, 2), bool))  # what is no candidate is never chosen
    expected = FEW.to_dense() > -np.inf
    np.testing.assert_array_equal(sets.to_dense(), expected)
    matrix = csr_array((sets.data, sets.indices, sets.indptr), shape=sets.shape)
    np.testing.assert_array_equal(matrix.toarray(), expected)
    assert [sets[i].tolist() for i in range(len(sets))] == [[0, 3], [1], []]
    assert sets[-1].tolist() == []
    with pytest.raises(IndexError):
        sets[3]

import numpy as np
import pytest
import torch
from scipy import sparse

from zlpr.metrics import MetricSet, evaluate, ndcg_at_k, precision_at_k

TRUE = np.array([[1, 0, 1], [0, 0, 0]])
SCORES = np.array([[0.5, 0.2, -1.0], [0.1, 0.2, 0.3]])
PREDICTED = np.array([[1, 1, 0], [0, 0, 0]])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("true", "scores", "predicted", "fault"),
    [
        (np.ma.masked_array(TRUE, mask=TRUE == 1), SCORES, PREDICTED, "y_true is a masked array"),
        (TRUE, SCORES.astype(complex), PREDICTED, "y_score must be real numbers, got complex128"),
        (TRUE.astype(object), SCORES, PREDICTED, "y_true must be real numbers, got object"),
        (torch.tensor(TRUE).to_sparse(), SCORES, PREDICTED, "y_true is a sparse tensor"),
        (TRUE, sparse.csr_array(SCORES), PREDICTED, "y_score must be dense"),
        (TRUE, np.full((2, 3), np.nan), PREDICTED, "y_score is NaN for sample 0, label 0"),
        (TRUE, SCORES, SCORES, "y_pred must hold only 0 and 1"),
        (2 * TRUE, SCORES, PREDICTED, "y_true must hold only 0 and 1 .*found 2"),
        ([[1, 0], [1]], SCORES, PREDICTED, "y_true has rows of different lengths"),
        ([1, 0, 1], SCORES, PREDICTED, r"y_true must have shape \(samples, labels\)"),
        (TRUE[:0], SCORES[:0], PREDICTED[:0], r"nothing to measure.*\(0, 3\)"),
        (TRUE[:, :0], SCORES[:, :0], PREDICTED[:, :0], r"nothing to measure.*\(2, 0\)"),
        (TRUE, SCORES[:, :2], PREDICTED, r"y_score has shape \(2, 2\), y_true has \(2, 3\)"),
    ],
)
def test_what_cannot_be_measured_is_refused_by_name(true, scores, predicted, fault):
    with pytest.raises((ValueError, TypeError), match=fault):
        evaluate(true, scores, predicted)


@pytest.mark.parametrize(
    "convert",
    [torch.tensor, sparse.csr_array, sparse.coo_array, np.asfortranarray, np.ndarray.tolist],
)
def test_every_form_of_labels_gives_the_same(convert):
    assert evaluate(convert(TRUE), SCORES, convert(PREDICTED)) == evaluate(TRUE, SCORES, PREDICTED)


@pytest.mark.parametrize("empty", ["paper", "sklearn"])
@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1)])
def test_the_smallest_data_has_every_figure(shape, value, empty):
    labels = np.full(shape, value)
    figures = evaluate(labels, np.zeros(shape), labels, empty=empty)
    assert all(np.isfinite(figure) for figure in figures.values())
    assert figures["subset_accuracy"] == 1.0


def test_no_k_is_asked_for():
    figures = evaluate(TRUE, SCORES, PREDICTED, ks=())
    assert "average_precision" in figures
    assert not any("_at_" in name for name in figures)


def test_a_k_far_beyond_the_labels_takes_no_memory():
    assert ndcg_at_k(TRUE, SCORES, k=10**12) == ndcg_at_k(TRUE, SCORES, k=3)
    assert precision_at_k(TRUE, SCORES, k=10**12) == pytest.approx(1e-12)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "1"])
def test_a_k_is_a_positive_whole_number(k):
    with pytest.raises(ValueError, match="k must be a whole number"):
        ndcg_at_k(TRUE, SCORES, k=k)


@pytest.mark.parametrize("labels", [0, -1, 2.0, "a", None])
def test_a_set_of_metrics_needs_a_number_of_labels(labels):
    with pytest.raises(ValueError, match="num_labels must be a whole number"):
        MetricSet(labels)

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
from scipy import sparse

from tests.metrics import reference
from tests.metrics.cases import CASES, random_case
from zlpr import metrics

SKLEARN = {
    "subset_accuracy": sk.accuracy_score,
    "hamming_loss": sk.hamming_loss,
    "example_f1": lambda t, p: sk.f1_score(t, p, average="samples", zero_division=0),
    "micro_f1": lambda t, p: sk.f1_score(t, p, average="micro", zero_division=0),
    "macro_f1": lambda t, p: sk.f1_score(t, p, average="macro", zero_division=0),
    "weighted_f1": lambda t, p: sk.f1_score(t, p, average="weighted", zero_division=0),
    "jaccard": lambda t, p: sk.jaccard_score(t, p, average="samples", zero_division=0),
}
FORMS = {
    "bool": lambda m: m,
    "int64": lambda m: m.astype(np.int64),
    "float32": lambda m: m.astype(np.float32),
    "fortran": np.asfortranarray,
    "list": lambda m: m.astype(int).tolist(),
    "tensor": torch.from_numpy,
    "bfloat16": lambda m: torch.from_numpy(m).to(torch.bfloat16),
    "csr_array": sparse.csr_array,
    "csr_matrix": lambda m: sparse.csr_matrix(m.astype(float)),
    "csc_array": lambda m: sparse.csc_array(m.astype(np.int8)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("name", SKLEARN)
def test_sklearn_convention_is_sklearns_answer(name, case):
    ours = getattr(metrics, name)(case.true, case.predicted, empty="sklearn")
    assert ours == pytest.approx(SKLEARN[name](case.true, case.predicted), abs=1e-12)


@pytest.mark.parametrize("empty", ["paper", "sklearn"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("name", ["example_f1", "jaccard", "micro_f1", "macro_f1"])
def test_definition_written_out(name, case, empty):
    expected = getattr(reference, name)(case.true.tolist(), case.predicted.tolist(), empty)
    ours = getattr(metrics, name)(case.true, case.predicted, empty=empty)
    assert ours == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SKLEARN)
def test_every_form_of_input_gives_the_same(name, form):
    case, metric = random_case(seed=8), getattr(metrics, name)
    expected = metric(case.true, case.predicted)
    assert metric(FORMS[form](case.true), FORMS[form](case.predicted)) == expected
    assert metric(FORMS[form](case.true), case.predicted) == expected


def test_paper_counts_nothing_for_nothing_as_right():
    truth = [[0, 0], [1, 0]]
    assert metrics.example_f1(truth, truth) == 1.0
    assert metrics.macro_f1(truth, truth) == 1.0
    assert metrics.example_f1(truth, truth, empty="sklearn") == 0.5
    assert metrics.macro_f1(truth, truth, empty="sklearn") == 0.5


def test_macro_f1_of_absent_labels_reaches_their_share():
    """A model that predicts nothing scores the share of labels absent from the test part."""
    true = np.zeros((10, 372), bool)
    true[:, 88:] = True
    assert metrics.macro_f1(true, np.zeros_like(true)) == pytest.approx(88 / 372)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_label_report_is_sklearns(case):
    report = metrics.label_report(case.true, case.predicted, empty="sklearn")
    expected = sk.precision_recall_fscore_support(case.true, case.predicted, zero_division=0)
    for ours, theirs in zip(
        (report.precision, report.recall, report.f1, report.support), expected, strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    np.testing.assert_array_equal(report.predicted, case.predicted.sum(axis=0))


def test_label_report_of_the_paper_differs_only_for_absent_labels():
    case = CASES["edges"]
    paper, sklearn = (
        metrics.label_report(case.true, case.predicted, empty=e) for e in ("paper", "sklearn")
    )
    absent = ~(case.true | case.predicted).any(axis=0)
    assert absent.any()
    for name in ("precision", "recall", "f1"):
        np.testing.assert_array_equal(getattr(paper, name)[absent], 1.0)
        np.testing.assert_array_equal(
            getattr(paper, name)[~absent], getattr(sklearn, name)[~absent]
        )


def test_cardinality_and_share_of_empty_sets():
    sets = sparse.csr_array(np.array([[1, 1, 0], [0, 0, 0], [1, 0, 0], [0, 0, 0]]))
    assert metrics.cardinality(sets) == 0.75
    assert metrics.empty_share(sets) == 0.5


def test_stored_zeros_repeats_and_any_order_of_indices_in_csr():
    class Rows:
        """CSR by its attributes alone."""

        shape = (2, 4)
        indptr = np.array([0, 3, 5])
        indices = np.array([3, 0, 3, 2, 1])
        data = np.array([1, 1, 1, 1, 0])

    assert metrics.subset_accuracy(Rows(), [[1, 0, 0, 1], [0, 0, 1, 0]]) == 1.0
    assert metrics.cardinality(Rows()) == 1.5


@pytest.mark.parametrize(
    ("true", "predicted", "error", "words"),
    [
        ([[1, 0]], [[1, 0], [0, 1]], ValueError, r"y_pred has shape \(2, 2\), y_true has \(1, 2\)"),
        ([[1, 0]], [[1, 0, 0]], ValueError, r"y_pred has shape \(1, 3\)"),
        ([[1, 2]], [[1, 0]], ValueError, "y_true must hold only 0 and 1.*found 2"),
        ([[1, 0]], [[0.7, 0.2]], ValueError, "y_pred must hold only 0 and 1.*found 0.7"),
        ([1, 0], [1, 0], ValueError, r"y_true must have shape \(samples, labels\), got \(2,\)"),
        ([[1], [1, 0]], [[1], [1]], ValueError, "rows of different lengths"),
        ([["a"]], [["b"]], TypeError, "y_true must be real numbers"),
        (np.zeros((0, 3)), np.zeros((0, 3)), ValueError, "no samples"),
        (np.zeros((3, 0)), np.zeros((3, 0)), ValueError, "no labels"),
    ],
)
def test_bad_input_is_named(true, predicted, error, words):
    with pytest.raises(error, match=words):
        metrics.micro_f1(true, predicted)


def test_label_beyond_the_last_is_named():
    class Rows:
        shape, indptr, indices, data = (1, 3), np.array([0, 1]), np.array([3]), np.array([1])

    with pytest.raises(ValueError, match="label index 3, but labels run from 0 to 2"):
        metrics.micro_f1(Rows(), [[1, 0, 0]])


def test_unknown_convention_is_refused():
    with pytest.raises(ValueError, match='empty must be "paper" or "sklearn", got \'none\''):
        metrics.micro_f1([[1]], [[1]], empty="none")

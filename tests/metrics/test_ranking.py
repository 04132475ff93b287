import numpy as np
import pytest
import sklearn.metrics as sk
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from tests.metrics import reference
from tests.metrics.cases import CASES, random_case
from zlpr import metrics
from zlpr.metrics import _inputs, _ranks

SKLEARN = {
    "average_precision": sk.label_ranking_average_precision_score,
    "ranking_loss": sk.label_ranking_loss,
    "coverage_error": sk.coverage_error,
}
NAMES = ("average_precision", "ranking_loss", "coverage_error", "one_error")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("name", SKLEARN)
def test_sklearn_convention_is_sklearns_answer(name, case):
    ours = getattr(metrics, name)(case.true, case.scores, empty="sklearn")
    assert ours == pytest.approx(SKLEARN[name](case.true, case.scores), abs=1e-12)


@pytest.mark.parametrize("empty", ["paper", "sklearn"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("name", NAMES)
def test_definition_written_out(name, case, empty):
    expected = getattr(reference, name)(case.true.tolist(), case.scores.tolist(), empty)
    assert getattr(metrics, name)(case.true, case.scores, empty=empty) == pytest.approx(
        expected, abs=1e-12
    )


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_scores_with_ties_and_infinities(data):
    shape = data.draw(hnp.array_shapes(min_dims=2, max_dims=2, max_side=7))
    values = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 0.5, 1e30, np.inf])
    scores = data.draw(hnp.arrays(np.float32, shape, elements=values))
    true = data.draw(hnp.arrays(np.bool_, shape))
    for name in NAMES:
        expected = getattr(reference, name)(true.tolist(), scores.tolist(), "paper")
        assert getattr(metrics, name)(true, scores) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_counting_and_sorting_find_the_same_ranks(case, monkeypatch):
    true = _inputs.as_labels("y_true", case.true).block(0, len(case.true))
    monkeypatch.setattr(_ranks, "log2", lambda labels: 0)
    by_sorting = _ranks.positive_ranks(case.scores, true, above=True)
    monkeypatch.setattr(_ranks, "log2", lambda labels: labels)
    by_counting = _ranks.positive_ranks(case.scores, true, above=True)
    for name in ("at_or_above", "above", "true_at_or_above"):
        np.testing.assert_array_equal(getattr(by_sorting, name), getattr(by_counting, name))


@pytest.mark.parametrize("cells", [1, 50, 1 << 20])
def test_blocks_of_any_size_give_the_same(cells, monkeypatch):
    case = random_case(samples=37, labels=11, density=0.3, seed=9)
    expected = [getattr(metrics, name)(case.true, case.scores) for name in NAMES]
    monkeypatch.setattr(_inputs, "BLOCK_CELLS", cells)
    ours = [getattr(metrics, name)(case.true, case.scores) for name in NAMES]
    assert ours == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_only_the_order_of_scores_matters(name):
    case, metric = random_case(seed=10), getattr(metrics, name)
    probabilities = 1 / (1 + np.exp(-2 * case.scores))
    assert metric(case.true, probabilities) == metric(case.true, case.scores)


@pytest.mark.parametrize("name", NAMES)
def test_every_form_of_input_gives_the_same(name):
    case, metric = random_case(seed=11, dtype=np.float16), getattr(metrics, name)
    expected = metric(case.true, case.scores)
    scores = torch.from_numpy(case.scores).requires_grad_()
    assert metric(torch.from_numpy(case.true), scores) == expected
    assert metric(sparse.csr_array(case.true), case.scores.tolist()) == expected
    assert metric(case.true[::-1], case.scores[::-1]) == pytest.approx(expected, abs=1e-12)
    whole = torch.randint(-5, 6, case.scores.shape)
    assert metric(case.true, whole) == metric(case.true, whole.to(torch.bfloat16))


def test_sample_without_labels_counts_as_the_convention_says():
    truth, scores = [[0, 0, 0]], [[1.0, 2.0, 3.0]]
    assert metrics.average_precision(truth, scores) == 0.0
    assert metrics.average_precision(truth, scores, empty="sklearn") == 1.0
    assert metrics.ranking_loss(truth, scores) == 0.0
    assert metrics.ranking_loss([[1, 1, 1]], scores) == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_nan_and_shapes_are_named(name):
    metric, scores = getattr(metrics, name), np.zeros((3, 4))
    scores[2, 1] = np.nan
    with pytest.raises(ValueError, match="y_score is NaN for sample 2, label 1"):
        metric(np.eye(3, 4), scores)
    with pytest.raises(ValueError, match=r"y_score has shape \(3, 4\), y_true has \(3, 3\)"):
        metric(np.eye(3), scores)
    with pytest.raises(TypeError, match="y_score must be dense"):
        metric(np.eye(3, 4), sparse.csr_array(np.eye(3, 4)))

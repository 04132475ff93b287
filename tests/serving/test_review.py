import copy
import dataclasses

import numpy as np
import pytest
from scipy import sparse

from tests import many_labels
from tests.models import fitted
from zlpr import decoding, metrics
from zlpr.data import Dataset
from zlpr.metrics import TopScores
from zlpr.models import TrainingRecord
from zlpr.serving.review import confused, figures, review, thresholds_of
from zlpr.training import TrainingConfig, fit


@pytest.fixture(scope="module")
def model():
    return fitted.result(decode="threshold").model


@pytest.fixture(scope="module")
def part():
    return fitted.parts()[2]


@pytest.fixture(scope="module")
def made(model, part):
    return review(model, part, fitted.parts()[1])


def dense(matrix):
    return matrix.toarray().astype(bool)


def test_figures_are_those_of_the_metrics(model, part, made):
    predicted = model.decoder(model.predict_scores(part.texts))
    true = dense(part.labels)
    assert np.array_equal(dense(made.decided), predicted)
    assert made.own["precision"] == pytest.approx((predicted & true).sum() / predicted.sum())
    assert made.own["recall"] == pytest.approx((predicted & true).sum() / true.sum())
    for name in ("micro_f1", "macro_f1", "subset_accuracy"):
        assert made.own[name] == getattr(metrics, name)(true, predicted, empty=made.empty)
    test = fitted.parts()[1]
    decided = sparse.csr_array(model.decoder(model.predict_scores(test.texts)))
    expected = figures(test.labels, decided, made.empty)
    assert made.test == pytest.approx(expected)
    assert made.test_samples == len(test)


def predicted_by(cells, thresholds, shape):
    """What thresholds decide on the cells, as the page does."""
    decided = np.zeros(shape, dtype=bool)
    for label, cut in enumerate(thresholds):
        own = slice(cells.starts[label], cells.starts[label + 1])
        above = cells.samples[own][cells.scores[own] > np.float32(cut)]
        decided[above, label] = True
    return decided


@pytest.mark.parametrize("most_cells", [10**9, 900])
def test_cells_decide_as_the_scores_do_down_to_the_floor(model, part, most_cells):
    made = review(model, part, most_cells=most_cells)
    scores, shape = model.predict_scores(part.texts), part.labels.shape
    for cut in (made.floors, made.floors.clip(min=0.3), np.full(shape[1], made.floors.max())):
        low = np.where(np.isinf(cut), -100.0, cut)
        expected = scores > low.astype(np.float32)
        assert np.array_equal(predicted_by(made.cells, low, shape), expected)
    kept = len(made.cells.scores)
    # The cells above the model's own threshold are kept whatever they are.
    own = int((scores > model.decoder.threshold).sum())
    assert kept == scores.size if most_cells > scores.size else kept <= max(most_cells, own)
    for label in range(shape[1]):
        own = made.cells.scores[made.cells.starts[label] : made.cells.starts[label + 1]]
        assert (np.diff(own) <= 0).all()


def test_few_cells_still_hold_the_models_own_decision(part):
    rule = decoding.PerLabelThreshold(thresholds=[-5.0, *[1.0] * 11])
    model = fitted.result(decode="threshold").model
    own = model.decoder
    try:
        model.decoder = rule
        made = review(model, part, most_cells=100)
    finally:
        model.decoder = own
    shape = part.labels.shape
    assert np.array_equal(
        predicted_by(made.cells, rule.thresholds, shape), rule(model.predict_scores(part.texts))
    )


def test_errors_are_the_wrong_cells_the_surest_first(model, part, made):
    true, predicted = dense(part.labels), dense(made.decided)
    errors = made.errors
    cells = set(zip(errors.samples.tolist(), errors.labels.tolist(), strict=True))
    assert cells == set(map(tuple, np.argwhere(true != predicted).tolist()))
    assert np.array_equal(errors.spurious, predicted[errors.samples, errors.labels])
    shares = model.predict_proba(part.texts)[errors.samples, errors.labels]
    np.testing.assert_allclose(errors.probabilities, shares, rtol=1e-5)
    assert (np.diff(np.where(errors.spurious, shares, 1 - shares)) <= 1e-6).all()


def test_surprise_is_the_log_likelihood_of_the_given_labels(model, part, made):
    shares = model.predict_proba(part.texts).astype(np.float64)
    given = np.where(dense(part.labels), shares, 1 - shares).clip(1e-6)
    np.testing.assert_allclose(made.surprise, -np.log(given).sum(axis=1), rtol=1e-4, atol=1e-5)


def test_arrays_go_to_the_page_byte_by_byte(made):
    body = made.cells.to_bytes()
    labels, cells = len(made.floors), len(made.cells.scores)
    assert len(body) == 4 * (labels + 1) + 9 * cells
    scores = np.frombuffer(body, "<f4", cells, 4 * (labels + 1) + 4 * cells)
    assert np.array_equal(scores, made.cells.scores)
    assert len(made.errors.to_bytes()) == 17 * len(made.errors.samples)


def test_confusion_names_what_is_predicted_where_a_label_is_missed():
    true = sparse.csr_array(np.array([[1, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1]], dtype=bool))
    decided = sparse.csr_array(np.array([[0, 1, 0], [0, 1, 1], [0, 1, 0], [0, 0, 1]], dtype=bool))
    assert confused(true, decided) == [[(1, 2), (2, 1)], [], []]


def test_only_rules_of_thresholds_have_thresholds():
    assert thresholds_of(decoding.ZeroBound(), 2) == [0.0, 0.0]
    assert thresholds_of(decoding.PerLabelThreshold(thresholds=[1.0, 2.0]), 2) == [1.0, 2.0]
    assert thresholds_of(decoding.ExpectedF1(), 2) is None


def test_candidates_are_reviewed_without_a_matrix_of_all_labels():
    data = many_labels.make(200)
    half = np.arange(200) % 2 == 0
    config = TrainingConfig(model="shortlist")
    model = fit(data.select(half), data.select(~half), config).model
    part = data.select(~half)
    scores = model.predict_scores(part.texts)
    assert isinstance(scores, TopScores)
    made = review(model, part)
    predicted = model.decoder(scores).to_dense()
    assert np.array_equal(dense(made.decided), predicted)
    wrong = np.argwhere(dense(part.labels) != predicted)
    assert len(made.errors.samples) == len(wrong)  # those missed as no candidates among them
    assert len(made.cells.scores) == (scores.labels >= 0).sum()


def test_a_given_label_that_was_no_candidate_surprises_most():
    data = many_labels.make(200)
    half = np.arange(200) % 2 == 0
    config = TrainingConfig(model="shortlist", candidates=3)
    part = data.select(~half)
    model = fit(data.select(half), part, config).model
    part = dataclasses.replace(part, labels=part.labels[::-1])  # each has another's labels
    found = model.predict_proba(part.texts)
    shares = np.zeros(part.labels.shape)
    rows, places = np.nonzero(found.labels >= 0)
    shares[rows, found.labels[rows, places]] = found.scores[rows, places]
    assert (shares[dense(part.labels)] == 0).any()
    given = np.where(dense(part.labels), shares, 1 - shares).clip(1e-6)
    made = review(model, part)
    np.testing.assert_allclose(made.surprise, -np.log(given).sum(axis=1), rtol=1e-4, atol=1e-5)


def in_a_hierarchy(model, rule):
    """A model that decides by a rule and adds ancestors: each third label below the one before."""
    parents = [[i - 1] if i % 3 else [] for i in range(len(model.label_names))]
    above = copy.copy(model)
    above.decoder = decoding.WithAncestors(rule, parents)
    return above


def test_where_labels_have_ancestors_cells_and_links_decide_as_the_rule_does(model, part):
    cuts = [2.0, 0.5, 0.0, -1.0] * 3
    above = in_a_hierarchy(model, decoding.PerLabelThreshold(thresholds=cuts))
    data = part.with_ancestors(above.hierarchy)
    made = review(above, data)
    told = made.to_json()
    assert (told["thresholds"], told["ancestors"][:4]) == (cuts, [[], [0], [1, 0], []])
    decided = predicted_by(made.cells, cuts, data.labels.shape)
    for label, ancestors in enumerate(told["ancestors"]):  # as the page does
        for one in ancestors:
            decided[:, one] |= decided[:, label]
    assert np.array_equal(decided, above.decoder(above.predict_scores(data.texts)))
    sizes = np.diff(data.labels.indptr)
    body = made.cells_to_bytes()[len(made.cells.to_bytes()) :]
    assert np.array_equal(np.frombuffer(body, "<u2", len(data)), sizes)
    true = np.frombuffer(body, "<u4", offset=2 * len(data))
    assert np.array_equal(true, data.labels.sorted_indices().indices)


class Few:
    """Two candidates of a sample at most, of which the first is above 0; no text has none."""

    label_names, record = ("top", "left", "right"), TrainingRecord("zlpr")
    num_scored = 2
    decoder = decoding.WithAncestors(decoding.ZeroBound(), [[], [0], [0]])
    calibrator = decoding.Calibrator()

    def read(self, inputs):
        return np.array([bool(text) for text in inputs])[:, None]

    def score(self, read):
        scores = np.where(read, np.array([[3.0, -1.0]]), -np.inf)
        return TopScores(np.where(read, np.array([[1, 2]]), -1), scores, 3)

    def features(self, read):
        return None


def test_ancestors_that_were_no_candidates_are_judged_as_they_are_decided():
    data = Dataset.from_label_sets(
        [["top", "left"], ["top", "right"], []], label_names=Few.label_names, texts=["a", "b", "c"]
    )
    made = review(Few(), data)
    errors = zip(*(part.tolist() for part in vars(made.errors).values()), strict=True)
    sure, unsure = decoding.Calibrator()(np.array([[3.0, -1.0]]))[0].tolist()
    found = {(sample, label): (spurious, share) for sample, label, _, share, spurious in errors}
    assert found == {
        (1, 1): (True, pytest.approx(sure)),
        (1, 2): (False, pytest.approx(unsure)),
        (2, 1): (True, pytest.approx(sure)),
        (2, 0): (True, pytest.approx(sure)),  # for "left" below it
    }


def test_ancestors_that_were_no_candidates_surprise_as_the_likeliest_label_below():
    sets = [["top", "left"], ["top", "right"], ["right"], ["top"], []]
    data = Dataset.from_label_sets(
        sets, label_names=Few.label_names, texts=["a", "b", "c", "", "d"]
    )
    made = review(Few(), data)
    left, right = decoding.Calibrator()(np.array([[3.0, -1.0]]))[0].tolist()
    chances = [
        left * (1 - right) * left,
        (1 - left) * right * left,
        (1 - left) * right * (1 - left),  # "top" came for "left" below it
        1e-6,
        (1 - left) * (1 - right) * (1 - left),
    ]
    np.testing.assert_allclose(made.surprise, -np.log(chances), rtol=1e-5)


def test_an_ancestor_that_was_missed_is_as_likely_as_a_label_below_it():
    model = Few()
    model.decoder = decoding.WithAncestors(decoding.Threshold(4.0), [[], [0], [0]])
    data = Dataset.from_label_sets([["top", "left"]], label_names=Few.label_names, texts=["a"])
    made = review(model, data)
    left, right = decoding.Calibrator()(np.array([[3.0, -1.0]]))[0].tolist()
    np.testing.assert_allclose(made.surprise, -np.log([left * (1 - right) * left]), rtol=1e-5)
    np.testing.assert_allclose(made.errors.probabilities, [left, left], rtol=1e-5)


def test_all_cells_of_few_candidates_are_kept_however_many_labels_there_are():
    data = many_labels.make(200, labels=80)
    half = np.arange(200) % 2 == 0
    part = data.select(~half)
    model = fit(data.select(half), part, TrainingConfig(model="shortlist", candidates=3)).model
    made = review(model, part, most_cells=3 * len(part))
    assert len(made.cells.scores) == (model.predict_scores(part.texts).labels >= 0).sum()
    assert (made.floors == -np.inf).all()


def test_samples_without_candidates_leave_the_floor_alone(monkeypatch):
    monkeypatch.setattr("zlpr.serving.review.BLOCK_SAMPLES", 2)
    sets, texts = [["left"], [], ["left"]], ["a", "b", ""]
    data = Dataset.from_label_sets(sets, label_names=Few.label_names, texts=texts)
    made = review(Few(), data, most_cells=1)
    assert made.cells.scores.tolist() == [3.0, 3.0]

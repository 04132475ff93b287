"""Rules on the scores of candidates: what they would do on the matrix with -inf elsewhere."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from tests.metrics.cases import random_case
from zlpr import decoding
from zlpr._errors import UserError
from zlpr.decoding._rule import Validation
from zlpr.decoding.choice import per_sample
from zlpr.metrics import LabelLists, TopScores, evaluate

CASE = random_case(samples=150, labels=12, density=0.2, seed=60, ties=False)
SCORES = (CASE.scores + 1.5 * CASE.true).astype(np.float64)
FEATURES = np.random.default_rng(61).normal(size=(150, 3))
RULES = [name for name in decoding.available() if name != "label_sets"]
PER_LABEL = {"per_label_threshold": {"min_positives": 3}}


def shuffled(scores, k, seed=0):
    """The k best of each sample, in any order, two samples with fewer."""
    few = TopScores.of(scores, k)
    order = np.random.default_rng(seed).permuted(np.tile(np.arange(k), (len(few), 1)), axis=1)
    labels = np.take_along_axis(few.labels, order, axis=1)
    values = np.take_along_axis(few.scores, order, axis=1)
    if k < scores.shape[1]:
        labels[:2, 0], values[:2, 0] = -1, -np.inf
    return TopScores(labels, values, few.num_labels)


def fitted(name, scores, metric):
    rule = decoding.create(name, **PER_LABEL.get(name, {}))
    features = FEATURES if rule.needs_features else None
    rule.fit(CASE.true, scores, metric, features=features)
    return rule, features


@pytest.mark.parametrize("k", [12, 8])
@pytest.mark.parametrize("metric", decoding.DECISION_METRICS)
@pytest.mark.parametrize("name", RULES)
def test_a_rule_fits_and_decides_as_on_the_matrix(name, metric, k):
    few = shuffled(SCORES, k)
    rule, features = fitted(name, few, metric)
    dense, _ = fitted(name, few.to_dense(), metric)
    ours, theirs = rule.to_config(), dense.to_config()
    if not (name == "top_k" and k < 12):  # of a matrix it may also take what is impossible
        assert _numbers(ours) == pytest.approx(_numbers(theirs), rel=1e-6, abs=1e-9)
    again = decoding.from_config(json.loads(json.dumps(ours)))
    decided = again(few, features=features)
    assert isinstance(decided, LabelLists)
    possible = few.to_dense() > -np.inf
    expected = rule(few.to_dense(), features=features) & possible
    np.testing.assert_array_equal(decided.to_dense(), expected)


@pytest.mark.parametrize("metric", decoding.DECISION_METRICS)
@pytest.mark.parametrize("name", RULES)
def test_samples_with_hardly_any_candidates_are_fitted_on_and_get_no_others(name, metric):
    few = TopScores.of(SCORES, 8)
    labels, scores = few.labels.copy(), few.scores.copy()
    labels[:40, 1:], scores[:40, 1:] = -1, -np.inf
    labels[:20], scores[:20] = -1, -np.inf
    few = TopScores(labels, scores, few.num_labels)
    rule, features = fitted(name, few, metric)
    decided = rule(few, features=features)
    assert not decided.to_dense()[:20].any()
    assert not (decided.to_dense() & (few.to_dense() == -np.inf)).any()
    if name in ("label_count", "feature_count"):  # the cut is the best of all for what is decided
        sign = -1 if metric == "hamming_loss" else 1

        def reached(cut):
            sets = replace(rule, cut=cut)(few, features=features)
            return sign * evaluate(CASE.true, y_pred=sets, empty="paper")[metric]

        best = max(reached(float(cut)) for cut in np.linspace(0.0, 1.0, 101))
        assert reached(rule.cut) >= best - 1e-9


def _numbers(config):
    """All numbers of a configuration, in order."""
    if isinstance(config, dict):
        return [number for value in config.values() for number in _numbers(value)]
    if isinstance(config, list):
        return [number for value in config for number in _numbers(value)]
    return [config] if isinstance(config, int | float) else []


@pytest.mark.parametrize("metric", decoding.DECISION_METRICS)
@pytest.mark.parametrize("empty", ["paper", "sklearn"])
def test_shares_of_samples_add_up_to_the_metric(metric, empty):
    few = shuffled(SCORES, 6)
    data = Validation.check(CASE.true, few, metric, empty)
    assert data.missed is not None
    assert len(data.missed.columns) > 0
    chosen = data.scores > 0
    shares = per_sample(data, chosen)
    sets = few.by_label().chosen(chosen)
    sign = -1 if metric == "hamming_loss" else 1
    figures = evaluate(CASE.true, y_pred=sets, empty=empty)
    assert sign * shares.mean() == pytest.approx(figures[metric], abs=1e-12)


def test_selected_samples_keep_their_candidates_and_what_was_missed():
    few, rows = shuffled(SCORES, 5), np.array([7, 3, 90])
    chosen = Validation.check(CASE.true, few, "macro_f1", "paper").select(rows)
    alone = Validation.check(CASE.true[rows], few[rows], "macro_f1", "paper")
    np.testing.assert_array_equal(chosen.true, alone.true)
    np.testing.assert_array_equal(chosen.label_sizes(), CASE.true[rows].sum(axis=0))
    np.testing.assert_array_equal(chosen.sample_sizes(), CASE.true[rows].sum(axis=1))
    np.testing.assert_array_equal(chosen.missed.rows, alone.missed.rows)
    np.testing.assert_array_equal(chosen.missed.columns, alone.missed.columns)


@pytest.mark.parametrize("k", [12, 7])
def test_probabilities_are_those_of_the_matrix_and_0_elsewhere(k):
    few = shuffled(SCORES, k)
    calibrator = decoding.Calibrator(min_positives=5).fit(CASE.true, few)
    dense = decoding.Calibrator(min_positives=5).fit(CASE.true, few.to_dense())
    assert calibrator.temperature == pytest.approx(dense.temperature, rel=1e-6)
    chances, expected = calibrator(few), dense(few.to_dense())
    np.testing.assert_allclose(np.maximum(chances.to_dense(), 0), expected, rtol=1e-6)
    ours = decoding.reliability_curve(CASE.true, chances)
    theirs = decoding.reliability_curve(CASE.true, expected)
    np.testing.assert_array_equal(ours.count, theirs.count)
    np.testing.assert_allclose(ours.observed, theirs.observed)
    np.testing.assert_allclose(ours.predicted, theirs.predicted)


def test_a_floor_stands_under_candidates_too():
    few = shuffled(SCORES, 7)
    floor = decoding.ProbabilityFloor(decoding.ZeroBound(), decoding.Calibrator(1.0), 0.7)
    expected = floor(few.to_dense())
    np.testing.assert_array_equal(floor(few).to_dense(), expected)


def test_label_sets_are_refused_by_name_and_left_out_of_the_choice():
    few = shuffled(SCORES, 7)
    with pytest.raises(UserError, match="label_sets reads the scores of all labels"):
        decoding.LabelSets().fit(CASE.true, few)
    with pytest.raises(UserError, match="label_sets reads the scores of all labels"):
        decoding.LabelSets().fit(CASE.true, SCORES)(few)
    with pytest.raises(UserError, match="label_sets reads the scores of all labels"):
        decoding.weigh(CASE.true, few, rules=["zero", "label_sets"])
    choice = decoding.weigh(csr_array(CASE.true), few)
    assert {judged.name for judged in choice.judged} == set(decoding.rules_of_scores()) - {
        "label_sets"
    }
    assert decoding.rules_of_scores(of_candidates=True) == tuple(
        name for name in decoding.rules_of_scores() if name != "label_sets"
    )


def test_the_calibrator_makes_the_probabilities_of_candidates():
    chosen = decoding.choose_probabilities(CASE.true, shuffled(SCORES, 7))
    assert chosen.name == "calibrator"
    assert chosen.describe() == "the calibrator, fitted on 150 samples"


@pytest.mark.parametrize("name", ["per_label_threshold", "expected_f1"])
def test_candidates_of_other_labels_are_refused(name):
    few = shuffled(SCORES, 7)
    rule, _ = fitted(name, few, "micro_f1")
    with pytest.raises(UserError, match="13 labels, the rule was fitted on 12"):
        rule(TopScores(few.labels, few.scores, 13))

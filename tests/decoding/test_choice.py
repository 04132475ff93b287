import json
import re

import numpy as np
import pytest

from tests.decoding.test_label_sets import tied_data
from tests.metrics.cases import random_case
from zlpr import decoding, metrics
from zlpr._ancestors import Ancestors
from zlpr._errors import UserError
from zlpr.decoding import DECISION_METRICS, LabelSets, Threshold, TopK, ZeroBound, choose, weigh
from zlpr.decoding._rule import Validation
from zlpr.decoding.choice import per_sample
from zlpr.decoding.with_ancestors import close

CASE = random_case(samples=90, labels=6, density=0.3, seed=70)


@pytest.mark.parametrize("empty", ["paper", "sklearn"])
@pytest.mark.parametrize("metric", DECISION_METRICS)
def test_samples_shares_average_to_the_metric(metric, empty):
    true = CASE.true.copy()
    true[:, 0], true[:5] = False, False
    predicted = CASE.scores > 0.5
    predicted[:, 0] = False
    data = Validation.check(true, CASE.scores, metric, empty)
    options = {} if metric in ("subset_accuracy", "hamming_loss") else {"empty": empty}
    value = getattr(metrics, metric)(true, predicted, **options)
    sign = 1 if metrics.info(metric).larger_is_better else -1
    assert per_sample(data, predicted).mean() == pytest.approx(sign * value)


@pytest.mark.parametrize("metric", ["micro_f1", "macro_f1", "weighted_f1"])
def test_their_spread_is_the_metrics_over_resampled_data(metric):
    case = random_case(samples=800, labels=4, density=0.4, seed=71)
    predicted = case.scores > np.quantile(case.scores, 0.5)
    data = Validation.check(case.true, case.scores, metric, "paper")
    error = per_sample(data, predicted).std() / np.sqrt(800)
    generator = np.random.default_rng(0)
    drawn = [generator.integers(800, size=800) for _ in range(400)]
    values = [getattr(metrics, metric)(case.true[rows], predicted[rows]) for rows in drawn]
    assert error == pytest.approx(np.std(values), rel=0.15)


def test_the_joint_rule_is_chosen_where_labels_are_tied():
    true, scores = tied_data(0)
    choice = weigh(true, scores, "subset_accuracy")
    assert choice.rule.name == "label_sets"
    assert choice.samples == 600
    behind = {judged.name: judged.behind / judged.error for judged in choice.judged if judged.error}
    assert min(behind.values()) > 1
    assert choice.rule == LabelSets().fit(true, scores, "subset_accuracy")


def test_the_joint_rule_is_preferred_and_then_the_simpler():
    names = decoding.by_preference(decoding.available())
    assert names[:3] == ("label_sets", "zero", "threshold")
    assert sorted(names) == sorted(decoding.available())
    judged = weigh(CASE.true, CASE.scores).judged
    assert [rule.name for rule in judged] == list(
        decoding.by_preference(decoding.rules_of_scores())
    )


def test_the_first_rule_within_the_tolerance_is_chosen():
    generator = np.random.default_rng(1)
    true = generator.random((400, 5)) < 0.5  # independent labels, best cut above zero
    scores = 3.0 * true - 1.0 + generator.normal(size=true.shape)
    rules = decoding.rules_of_scores()  # the simpler before the less simple
    for tolerance in (0.0, 0.5, 1.0, 100.0):
        choice = weigh(true, scores, "hamming_loss", rules=rules, tolerance=tolerance)
        near = [rule.name for rule in choice.judged if rule.behind <= tolerance * rule.error]
        assert choice.rule.name == near[0]
    assert choice.rule.name == "zero"
    assert weigh(true, scores, "hamming_loss", rules=rules, tolerance=0.0).rule.name != "zero"
    assert weigh(true, scores, "hamming_loss", tolerance=100.0).rule.name == "label_sets"


@pytest.mark.parametrize("metric", ["micro_f1", "hamming_loss"])
def test_values_are_those_of_rules_fitted_without_the_sample(metric):
    choice = weigh(CASE.true, CASE.scores, metric, rules=["threshold", "top_k"])
    order = np.random.default_rng(0).permutation(90)
    for kind, judged in zip((Threshold, TopK), choice.judged, strict=True):
        decided = np.zeros_like(CASE.true)
        for fold in np.array_split(order, 5):
            rest = np.delete(np.arange(90), fold)
            rule = kind().fit(CASE.true[rest], CASE.scores[rest], metric)
            decided[fold] = rule(CASE.scores[fold])
        assert judged.value == pytest.approx(getattr(metrics, metric)(CASE.true, decided))


@pytest.mark.parametrize("metric", DECISION_METRICS)
@pytest.mark.parametrize("width", [None, 3])
def test_values_are_of_sets_with_ancestors_where_labels_have_some(metric, width):
    above = Ancestors.of([[], [0], [1], [], [3], [3, 0]])
    generator = np.random.default_rng(5)
    true = close(generator.random((80, 6)) < 0.2, above)
    scores = true + generator.normal(size=true.shape)
    given = scores if width is None else metrics.TopScores.of(scores, width)
    options = {"rules": ["zero", "threshold"], "empty": "sklearn", "ancestors": above}
    nothing_fitted, _ = weigh(true, given, metric, **options).judged
    decided = close(ZeroBound()(given), above)
    expected = metrics.evaluate(true, y_pred=decided, empty="sklearn")[metric]
    assert nothing_fitted.value == pytest.approx(expected)


def test_rules_may_be_given_and_stay_untouched():
    given = TopK(k=5)
    rule = choose(CASE.true, CASE.scores, rules=[given])
    assert isinstance(rule, TopK)
    assert rule is not given
    assert given.k == 5
    with pytest.raises(UserError, match="no rule to choose from"):
        choose(CASE.true, CASE.scores, rules=[])
    with pytest.raises(UserError, match="does not depend on the decoding rule"):
        choose(CASE.true, CASE.scores, "ranking_loss")


@pytest.mark.parametrize(
    ("samples", "weighed"), [(49, ["zero", "threshold", "top_k", "label_count"]), (9, []), (1, [])]
)
def test_small_validation_parts_fall_back_to_simple_rules(samples, weighed):
    choice = weigh(CASE.true[:samples], CASE.scores[:samples], "subset_accuracy")
    assert [judged.name for judged in choice.judged] == weighed
    assert choice.rule.name in (weighed or ["zero"])
    assert ("too few to choose on" in choice.describe()) == (not weighed)


def test_a_rule_that_needs_features_is_weighed_only_with_them():
    features = np.random.default_rng(2).normal(size=(90, 2))
    names = [judged.name for judged in weigh(CASE.true, CASE.scores).judged]
    assert "feature_count" not in names
    choice = weigh(CASE.true, CASE.scores, features=features)
    names = [judged.name for judged in choice.judged]
    assert names == list(decoding.by_preference(decoding.available()))


def test_large_parts_are_thinned_for_the_comparison_alone(monkeypatch):
    monkeypatch.setattr(decoding._folds, "MOST_SAMPLES", 40)
    choice = weigh(CASE.true, CASE.scores, rules=[ZeroBound(), Threshold()])
    assert choice.samples == 30
    fitted = Threshold().fit(CASE.true, CASE.scores)
    assert choice.rule in (ZeroBound(), fitted)


def test_copies_are_judged_together():
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(100, 10))
    true = generator.random(scores.shape) < 1 / (1 + np.exp(1.5 - scores))
    copies = np.repeat(np.arange(100), 4)
    rules = ["threshold", "per_label_threshold"]
    one = weigh(true, scores, rules=rules)
    four = weigh(true[copies], scores[copies], rules=rules, groups=copies)
    fooled = weigh(true[copies], scores[copies], rules=rules)
    assert [judged.value for judged in fooled.judged] > [judged.value for judged in four.judged]
    assert four.rule.name == one.rule.name == "threshold"
    assert fooled.rule.name == "per_label_threshold"
    with pytest.raises(UserError, match=r"groups has shape \(100,\), expected \(400,\)"):
        weigh(true[copies], scores[copies], groups=np.arange(100))


def test_the_choice_is_the_same_every_time_and_plain_json():
    true, scores = tied_data(2, samples=150)
    one, two = (weigh(true, scores, "example_f1", train_labels=true) for _ in range(2))
    assert one == two
    record = json.loads(json.dumps(one.to_dict(), allow_nan=False))
    assert record["rule"] == one.rule.name
    assert record["judged"][0].keys() == {"name", "value", "behind", "error"}
    described = rf"{one.rule.name}, chosen for example F1 on 150 samples: \d\d\.\d %; others: "
    assert re.match(described, one.describe())


def test_nine_samples_of_a_loss_that_only_ranks_get_a_learned_number():
    rule = choose(CASE.true[:9], CASE.scores[:9], rules=["threshold", "top_k", "label_count"])
    assert rule.name == "label_count"

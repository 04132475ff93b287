import json

import numpy as np
import pytest

from tests.decoding.test_label_sets import tied_data
from zlpr.decoding import (
    Calibrator,
    ProbabilityFloor,
    SetPosterior,
    TopK,
    choose_probabilities,
    from_config,
    probabilities_from_config,
)


def independent_data(seed, samples=400):
    generator = np.random.default_rng(seed)
    true = generator.random((samples, 5)) < 0.3
    return true, 2.0 * true - 1.5 + generator.normal(size=true.shape)


def log_loss(true, chances):
    return -np.log(np.where(true, chances, 1 - chances)).mean()


def test_marginals_are_taken_where_labels_are_tied():
    (true, scores), (fresh, fresh_scores) = tied_data(0), tied_data(1)
    chosen = choose_probabilities(true, scores, train_labels=true)
    assert chosen.name == "label_sets"
    assert isinstance(chosen.probabilities, SetPosterior)
    assert chosen.log_loss["label_sets"] < chosen.log_loss["calibrator"]
    plain = Calibrator().fit(true, scores)
    assert log_loss(fresh, chosen.probabilities(fresh_scores)) < log_loss(
        fresh, plain(fresh_scores)
    )


def test_the_calibrator_is_kept_where_labels_are_independent():
    true, scores = independent_data(2)
    chosen = choose_probabilities(true, scores, link_scale=1.0)
    assert chosen.probabilities == Calibrator(link_scale=1.0).fit(true, scores)
    assert chosen.to_dict()["by"] == "calibrator"
    # However small its gain, with enough tolerance below zero the other is taken.
    assert choose_probabilities(true, scores, tolerance=-100.0).name == "label_sets"


def test_losses_are_those_of_what_was_fitted_without_the_sample():
    true, scores = independent_data(3, samples=80)
    losses = np.empty(80)
    for fold in np.array_split(np.random.default_rng(0).permutation(80), 5):
        rest = np.delete(np.arange(80), fold)
        chances = Calibrator().fit(true[rest], scores[rest])(scores[fold])
        losses[fold] = -np.log(np.where(true[fold], chances, 1 - chances)).mean(axis=1)
    assert choose_probabilities(true, scores).log_loss["calibrator"] == pytest.approx(losses.mean())


def test_few_samples_get_the_calibrator():
    true, scores = tied_data(4)
    chosen = choose_probabilities(true[:49], scores[:49])
    assert chosen.name == "calibrator"
    assert chosen.to_dict() == {"by": "calibrator", "log_loss": {}, "samples": 49}
    assert "49 samples are too few" in chosen.describe()


def test_a_lower_loss_that_may_be_chance_is_said_to_be():
    true, scores = tied_data(4, samples=60)
    chosen = choose_probabilities(true, scores, tolerance=100.0)
    assert chosen.name == "calibrator"
    assert chosen.log_loss["label_sets"] < chosen.log_loss["calibrator"]
    assert chosen.describe().endswith(", which may be chance")
    assert "chance" not in choose_probabilities(true, scores, tolerance=0.0).describe()


def test_the_choice_is_the_same_every_time_and_plain_json():
    true, scores = tied_data(5, samples=200)
    one, two = (choose_probabilities(true, scores, train_labels=true) for _ in range(2))
    assert one == two
    kept = json.loads(json.dumps(one.probabilities.to_config(), allow_nan=False))
    again = probabilities_from_config(kept)
    assert again == one.probabilities
    np.testing.assert_array_equal(again(scores), one.probabilities(scores))
    assert json.loads(json.dumps(one.to_dict(), allow_nan=False)) == one.to_dict()


def test_a_floor_may_stand_on_the_marginals():
    true, scores = tied_data(6, samples=200)
    rule = ProbabilityFloor(TopK(), SetPosterior(), 0.4).fit(true, scores, train_labels=true)
    chances = choose_probabilities(true, scores, train_labels=true, tolerance=-100).probabilities(
        scores
    )
    np.testing.assert_array_equal(rule(scores), rule.rule(scores) & (chances >= 0.4))
    assert from_config(json.loads(json.dumps(rule.to_config()))) == rule

import json

import numpy as np
import pytest
import torch
from scipy import optimize
from sklearn.calibration import _sigmoid_calibration

from zlpr._errors import UserError
from zlpr.decoding import Calibrator, expected_calibration_error
from zlpr.metrics import TopScores


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


def data(seed=0, samples=4000, slopes=(1.0, 3.0, 0.5), biases=(0.0, -1.0, 0.7)):
    generator = np.random.default_rng(seed)
    scores = generator.normal(size=(samples, len(slopes)))
    true = generator.random(scores.shape) < sigmoid(scores * slopes + np.array(biases))
    return true, scores


def test_unfitted_is_the_bare_link():
    scores = np.array([[-800.0, -1.0, 0.0, 2.0, 800.0]])
    np.testing.assert_allclose(Calibrator()(scores)[0, 1:4], sigmoid(2 * scores[0, 1:4]))
    np.testing.assert_allclose(Calibrator(1.0)(scores)[0, 1:4], sigmoid(scores[0, 1:4]))
    assert Calibrator()(scores)[0, [0, 4]].tolist() == [0.0, 1.0]
    assert Calibrator()(np.array([[-np.inf, np.inf]])).tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize("link_scale", [1.0, 2.0])
def test_each_label_gets_the_link_that_made_it(link_scale):
    true, scores = data(samples=40000)
    fitted = Calibrator(link_scale).fit(true, scores)
    slopes = link_scale / np.array(fitted.temperature)
    np.testing.assert_allclose(slopes, [1.0, 3.0, 0.5], rtol=0.1)
    np.testing.assert_allclose(fitted.bias, [0.0, -1.0, 0.7], atol=0.1)


def test_each_label_is_plattes_scaling_as_in_sklearn():
    true, scores = data(samples=300)
    fitted = Calibrator().fit(true, scores)
    for label in range(3):
        slope, bias = _sigmoid_calibration(scores[:, label], true[:, label].astype(float))
        theirs = sigmoid(-(slope * scores[:, label] + bias))
        np.testing.assert_allclose(fitted(scores)[:, label], theirs, atol=1e-4)


def test_shared_fit_is_the_maximum_of_the_likelihood():
    true, scores = data(samples=200)
    fitted = Calibrator(min_positives=10**6).fit(true, scores)
    n_pos, n_neg = true.sum(), (~true).sum()
    targets = np.where(true, (n_pos + 1) / (n_pos + 2), 1 / (n_neg + 2))

    def loss(parameters):
        logits = parameters[0] * scores + parameters[1]
        return (np.logaddexp(0, logits) - targets * logits).sum()

    best = optimize.minimize(loss, [1.0, 0.0], tol=1e-12).x
    assert len(set(fitted.temperature)) == len(set(fitted.bias)) == 1
    assert 2 / fitted.temperature[0] == pytest.approx(best[0], rel=1e-4)
    assert fitted.bias[0] == pytest.approx(best[1], abs=1e-4)


def test_labels_without_enough_data_share():
    true, scores = data(samples=500)
    true[:, 1] = False
    true[:, 2] = True
    true[:19, 2] = False
    fitted = Calibrator(min_positives=20).fit(true, scores)
    alone = Calibrator(min_positives=10**6).fit(true, scores)
    assert fitted.temperature[1:] == alone.temperature[1:]
    assert fitted.bias[1:] == alone.bias[1:]
    assert fitted.temperature[0] != alone.temperature[0]


def test_fitting_improves_the_calibration_of_fresh_data():
    (true, scores), (fresh_true, fresh_scores) = data(1), data(2)
    before = expected_calibration_error(fresh_true, Calibrator()(fresh_scores))
    after = expected_calibration_error(fresh_true, Calibrator().fit(true, scores)(fresh_scores))
    assert after < before / 5


@pytest.mark.parametrize("kind", ["separable", "reversed", "constant", "huge", "infinite", "empty"])
def test_degenerate_data_gives_finite_rising_probabilities(kind):
    true, scores = data(samples=200)
    if kind == "separable":
        true = scores > 0.1
    elif kind == "reversed":
        true = scores < 0.1
    elif kind == "constant":
        scores = np.ones_like(scores)
    elif kind == "huge":
        scores = scores * 1e4
    elif kind == "infinite":
        scores[::3, 0] = -np.inf
        scores[:, 1] = -np.inf
    else:
        true = np.zeros_like(true)
    fitted = Calibrator().fit(true, scores)
    json.dumps(fitted.to_config(), allow_nan=False)
    ladder = np.linspace(-5, 5, 11)[:, None].repeat(3, axis=1)
    probabilities = fitted(ladder)
    assert np.isfinite(probabilities).all()
    assert (np.diff(probabilities, axis=0) >= 0).all()
    if kind == "reversed":  # as good as it gets without falling: the base rate
        np.testing.assert_allclose(fitted(scores).mean(axis=0), true.mean(axis=0), atol=0.02)


@pytest.mark.parametrize("labels", [1, 5])
def test_scores_that_are_all_far_from_zero_are_fitted_as_near_ones(labels):
    generator = np.random.default_rng(0)
    true = generator.random((60, labels)) < 0.3
    scores = (2 * true - 1) * generator.uniform(30, 70, size=true.shape)
    true[:2] = ~true[:2]  # what is sure of itself is wrong at times
    far, near = Calibrator().fit(true, scores), Calibrator().fit(true, scores / 70)
    assert far(scores).max() < 0.999
    np.testing.assert_allclose(far(scores), near(scores / 70), atol=1e-5)


def test_a_label_far_from_zero_takes_nothing_from_the_others():
    generator = np.random.default_rng(0)
    true = generator.random((200, 60)) < 0.4
    near = (2 * true - 1 + generator.normal(size=true.shape)) * np.linspace(0.2, 3, 60)
    near[:, 0] = (2 * true[:, 0] - 1) * generator.uniform(1, 1.5, 200)
    scores = near * np.where(np.arange(60) == 0, 60, 1)
    far, expected = Calibrator().fit(true, scores), Calibrator().fit(true, near)
    np.testing.assert_allclose(far.temperature[1:], expected.temperature[1:], rtol=1e-4)
    np.testing.assert_allclose(far(scores), expected(near), atol=1e-5)


@pytest.mark.parametrize(
    ("scale", "offset"),
    [(1, 1000), (1, -1e6), (2000, 0), (4000, 0), (1e-6, 0), (1e-20, 0), (1e30, -1e33)],
)
@pytest.mark.parametrize("min_positives", [20, 10**6])
def test_probabilities_do_not_depend_on_scale_and_zero_of_the_scores(scale, offset, min_positives):
    true, scores = data(samples=2000, slopes=(2.0, 0.02, -1.0), biases=(-0.5, -1.0, 0.5))
    expected = Calibrator(min_positives=min_positives).fit(true, scores)(scores)
    scores = scores * scale + offset
    fitted = Calibrator(min_positives=min_positives).fit(true, scores)
    np.testing.assert_allclose(fitted(scores), expected, atol=1e-8)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_one_label_on_another_scale_is_fitted_like_the_others(scale):
    true, scores = data(samples=500)
    expected = Calibrator().fit(true, scores)(scores)
    scores[:, 0] = scores[:, 0] * scale
    np.testing.assert_allclose(Calibrator().fit(true, scores)(scores), expected, atol=1e-6)
    scores = scores.astype(np.float32)
    np.testing.assert_allclose(Calibrator().fit(true, scores)(scores), expected, atol=1e-5)


def test_candidates_on_another_scale_get_the_same_probabilities():
    true, scores = data(samples=500)
    labels = np.argsort(-scores, axis=1)[:, :2]
    values = np.take_along_axis(scores, labels, axis=1)
    near, far = TopScores(labels, values, 3), TopScores(labels, 4000 * values - 9000, 3)
    expected, found = Calibrator().fit(true, near)(near), Calibrator().fit(true, far)(far)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-8)


def test_scores_that_hardly_rise_keep_the_slope_that_is_likeliest():
    """With three scores, each the label of a given number of samples, the odds are known."""
    scores = np.repeat([-1.0, 0.0, 1.0], 40_000)[:, None]
    positives = np.repeat([19_990, 20_000, 20_010], 40_000)[:, None]
    true = np.arange(len(scores))[:, None] % 40_000 < positives
    fitted = Calibrator().fit(true, scores)
    slope = np.log(20_010 / 19_990)
    assert 2 / fitted.temperature[0] == pytest.approx(slope, rel=1e-3)


@pytest.mark.parametrize("value", [0.0, 7.0, -1e5, 1e30])
def test_equal_scores_get_the_share_of_the_label(value):
    true, scores = data(samples=500)
    scores[:, 0] = value
    fitted = Calibrator().fit(true, scores)
    np.testing.assert_allclose(fitted(scores).mean(axis=0), true.mean(axis=0), atol=1e-3)
    scores[:] = value
    fitted = Calibrator().fit(true, scores)
    np.testing.assert_allclose(fitted(scores).mean(axis=0), true.mean(axis=0), atol=1e-3)


def test_arrays_and_tensors_in_kind():
    true, scores = data(samples=100)
    fitted = Calibrator().fit(torch.from_numpy(true), torch.from_numpy(scores))
    single = fitted(torch.from_numpy(scores).float())
    assert isinstance(single, torch.Tensor)
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single.numpy(), fitted(scores), atol=1e-6)
    with pytest.raises(UserError, match="y_score has 2 labels, the rule was fitted on 3"):
        fitted(scores[:, :2])


def test_round_trip_through_json():
    true, scores = data(samples=100)
    fitted = Calibrator(link_scale=1.0).fit(true, scores)
    again = Calibrator.from_config(json.loads(json.dumps(fitted.to_config(), allow_nan=False)))
    assert again == fitted
    np.testing.assert_array_equal(again(scores), fitted(scores))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "lacks temperature or bias"),
        ({"temperature": 0.0, "bias": 0.0}, "must be positive"),
        ({"temperature": [1.0, float("inf")], "bias": [0.0, 0.0]}, "finite number"),
        ({"temperature": [1.0], "bias": 0.0}, "both be numbers, or lists of one length"),
        ({"temperature": 1.0, "bias": 0.0, "slope": 1.0}, "not a calibrator's configuration"),
    ],
)
def test_broken_configurations_are_refused(config, words):
    with pytest.raises(UserError, match=words):
        Calibrator.from_config(config)

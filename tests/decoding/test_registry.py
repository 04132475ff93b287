import json

import numpy as np
import pytest
import torch

from tests.metrics.cases import random_case
from zlpr import decoding
from zlpr._errors import UserError

CASE = random_case(samples=80, labels=6, density=0.3, seed=50, dtype=np.float32)
FEATURES = np.random.default_rng(51).normal(size=(80, 3))


def fitted(name, true=CASE.true, metric="micro_f1"):
    """A rule by name, with features where it cannot do without."""
    rule = decoding.create(name)
    features = FEATURES if rule.needs_features else None
    return rule.fit(true, CASE.scores, metric, features=features)


def decoded(rule, rows=slice(None)):
    """What it makes of the scores of some samples."""
    features = FEATURES[rows] if rule.reads_features else None
    return rule(CASE.scores[rows], features=features)


@pytest.mark.parametrize("metric", decoding.DECISION_METRICS)
@pytest.mark.parametrize("name", decoding.available())
def test_round_trip_through_json(name, metric):
    rule = fitted(name, metric=metric)
    config = json.loads(json.dumps(rule.to_config(), allow_nan=False))
    again = decoding.from_config(config)
    assert config["rule"] == name
    assert again == rule
    np.testing.assert_array_equal(decoded(again), decoded(rule))


@pytest.mark.parametrize("name", decoding.available())
def test_arrays_and_tensors_decode_alike_and_in_kind(name):
    rule, features = fitted(name), FEATURES if decoding.create(name).needs_features else None
    array = decoded(rule)
    tensor = rule(torch.from_numpy(CASE.scores).requires_grad_(), features=features)
    assert array.dtype == bool
    assert tensor.dtype == torch.bool
    np.testing.assert_array_equal(array, tensor.numpy())
    assert decoded(rule, slice(0)).shape == (0, 6)
    half = rule(torch.from_numpy(CASE.scores).to(torch.bfloat16), features=features)
    assert (half.numpy() == array).mean() > 0.95


@pytest.mark.parametrize("name", decoding.available())
def test_a_sample_is_decoded_without_regard_to_the_others(name):
    rule = fitted(name)
    together = decoded(rule)
    alone = np.concatenate([decoded(rule, slice(i, i + 1)) for i in range(len(CASE.scores))])
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("name", decoding.available())
def test_nan_and_vectors_are_refused(name):
    rule = fitted(name)
    scores = CASE.scores.copy()
    scores[3, 2] = np.nan
    with pytest.raises(ValueError, match="y_score is NaN for sample 3, label 2"):
        rule(scores)
    with pytest.raises(ValueError, match=r"y_score must have shape \(samples, labels\)"):
        rule(CASE.scores[0])


@pytest.mark.parametrize("name", [name for name in decoding.available() if name != "zero"])
@pytest.mark.parametrize("share", [0.0, 1.0])
def test_validation_data_without_or_with_all_labels_is_no_fault(name, share):
    true = np.full(CASE.true.shape, bool(share))
    rule = fitted(name, true, "example_f1")
    json.dumps(rule.to_config(), allow_nan=False)
    assert (decoded(rule) == true).mean() > 0.99


def test_unknown_names_and_parameters_are_refused():
    with pytest.raises(UserError, match="no decoding rule 'best'; there are: zero, thr"):
        decoding.create("best")
    with pytest.raises(UserError, match="the decoding rule top_k has no parameter 'size'; there"):
        decoding.create("top_k", size=3)
    with pytest.raises(UserError, match="no decoding rule ''; there are"):
        decoding.from_config({})
    with pytest.raises(UserError, match="rule 'threshold' has no parameter cut"):
        decoding.from_config({"rule": "threshold", "cut": 1.0})
    with pytest.raises(UserError, match="threshold must be a finite number, got 'high'"):
        decoding.from_config({"rule": "threshold", "threshold": "high"})
    with pytest.raises(UserError, match="expected a rule 'zero', got 'top_k'"):
        decoding.ZeroBound.from_config({"rule": "top_k"})

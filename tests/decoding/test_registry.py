import json

import numpy as np
import pytest
import torch

from tests.metrics.cases import random_case
from zlpr import decoding
from zlpr._errors import UserError

CASE = random_case(samples=80, labels=6, density=0.3, seed=50, dtype=np.float32)


@pytest.mark.parametrize("metric", decoding.DECISION_METRICS)
@pytest.mark.parametrize("name", decoding.available())
def test_round_trip_through_json(name, metric):
    rule = decoding.create(name).fit(CASE.true, CASE.scores, metric)
    config = json.loads(json.dumps(rule.to_config(), allow_nan=False))
    again = decoding.from_config(config)
    assert config["rule"] == name
    assert again == rule
    np.testing.assert_array_equal(again(CASE.scores), rule(CASE.scores))


@pytest.mark.parametrize("name", decoding.available())
def test_arrays_and_tensors_decode_alike_and_in_kind(name):
    rule = decoding.create(name).fit(CASE.true, CASE.scores)
    array, tensor = rule(CASE.scores), rule(torch.from_numpy(CASE.scores).requires_grad_())
    assert array.dtype == bool
    assert tensor.dtype == torch.bool
    np.testing.assert_array_equal(array, tensor.numpy())
    assert rule(CASE.scores[:0]).shape == (0, 6)
    half = rule(torch.from_numpy(CASE.scores).to(torch.bfloat16))
    assert (half.numpy() == array).mean() > 0.95


@pytest.mark.parametrize("name", decoding.available())
def test_a_sample_is_decoded_without_regard_to_the_others(name):
    rule = decoding.create(name).fit(CASE.true, CASE.scores)
    together = rule(CASE.scores)
    alone = np.concatenate([rule(CASE.scores[i : i + 1]) for i in range(len(CASE.scores))])
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("name", decoding.available())
def test_nan_and_vectors_are_refused(name):
    rule = decoding.create(name).fit(CASE.true, CASE.scores)
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
    rule = decoding.create(name).fit(true, CASE.scores, "example_f1")
    json.dumps(rule.to_config(), allow_nan=False)
    assert (rule(CASE.scores) == true).mean() > 0.99


def test_unknown_names_and_parameters_are_refused():
    with pytest.raises(UserError, match="no decoding rule is called 'best'; there are: zero, thr"):
        decoding.create("best")
    with pytest.raises(UserError, match=r"rule 'top_k': .*unexpected keyword argument 'size'"):
        decoding.create("top_k", size=3)
    with pytest.raises(UserError, match="no decoding rule is called None"):
        decoding.from_config({})
    with pytest.raises(UserError, match="rule 'threshold' has no parameter cut"):
        decoding.from_config({"rule": "threshold", "cut": 1.0})
    with pytest.raises(UserError, match="threshold must be a finite number, got 'high'"):
        decoding.from_config({"rule": "threshold", "threshold": "high"})
    with pytest.raises(UserError, match="expected a rule 'zero', got 'top_k'"):
        decoding.ZeroBound.from_config({"rule": "top_k"})

"""A model folder in transformers' own pipeline, which cuts a sigmoid at 0.5."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, pipeline

import zlpr
from tests import tiny
from zlpr import UserError
from zlpr.decoding import PerLabelThreshold, Threshold, TopK, ZeroBound
from zlpr.models import TrainingRecord
from zlpr.models.transformer import (
    TransformerModel,
    last_layer,
    load_network,
    load_tokenizer,
)

TEXTS = list(tiny.texts(20, seed=2).texts)
BOUNDS = [0.3, -0.2, 0.1, 0.0, -0.4]


def untrained(folder: Path, make=tiny.roberta) -> TransformerModel:
    """An encoder with random weights, whose scores lie on both sides of the bounds."""
    folder.mkdir()
    make(folder)
    network = load_network(str(folder), num_labels=5, ignore_mismatched_sizes=True)
    model = TransformerModel(
        tiny.LABELS,
        network,
        load_tokenizer(str(folder)),
        max_length=64,
        record=TrainingRecord(loss="zlpr"),
    )
    head = last_layer(network)
    with torch.no_grad():
        head.weight *= 20
        head.bias -= torch.from_numpy(np.median(model.predict_scores(TEXTS), axis=0))
    return model


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


def piped(folder: Path) -> np.ndarray:
    """The pipeline's scores of the texts, a column per label."""
    classify = pipeline("text-classification", str(folder), device="cpu")
    rows = classify(TEXTS, top_k=None)
    return np.array(
        [[{p["label"]: p["score"] for p in row}[n] for n in tiny.LABELS] for row in rows]
    )


@pytest.mark.parametrize("make", [tiny.bert, tiny.roberta])
@pytest.mark.parametrize(
    "rule", [ZeroBound(), Threshold(0.15), PerLabelThreshold(BOUNDS)], ids=lambda rule: rule.name
)
def test_where_the_rule_is_a_bound_the_pipeline_decides_as_the_package(make, rule, tmp_path):
    model = untrained(tmp_path / "encoder", make)
    model.decoder = rule
    model.save(tmp_path / "model")
    found = piped(tmp_path / "model")
    chosen = [tuple(np.array(tiny.LABELS)[row > 0.5].tolist()) for row in found]
    assert chosen == model.predict(TEXTS)
    assert len({len(labels) for labels in chosen}) > 1  # some and others, or nothing is tested
    bounds = getattr(rule, "thresholds", getattr(rule, "threshold", 0.0))
    scores = model.predict_scores(TEXTS)
    np.testing.assert_allclose(found, sigmoid(scores - np.array(bounds)), atol=1e-6)
    loaded = zlpr.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_scores(TEXTS), scores)
    assert loaded.predict(TEXTS) == model.predict(TEXTS)


def test_with_another_rule_the_pipeline_gives_the_sigmoid_of_the_scores(tmp_path):
    model = untrained(tmp_path / "encoder")
    model.decoder = Threshold(0.15)
    model.save(tmp_path / "bounded")
    again = zlpr.load(tmp_path / "bounded")
    again.decoder = TopK(2)
    again.save(tmp_path / "model")
    assert "zlpr_bias" not in json.loads((tmp_path / "model" / "config.json").read_text())
    scores = model.predict_scores(TEXTS)
    np.testing.assert_allclose(piped(tmp_path / "model"), sigmoid(scores), atol=1e-6)
    np.testing.assert_array_equal(zlpr.load(tmp_path / "model").predict_scores(TEXTS), scores)


def test_a_head_without_a_bias_keeps_its_scores(tmp_path):
    model = untrained(tmp_path / "encoder", tiny.bert)
    model.network.classifier.bias = None
    model.decoder = Threshold(0.15)
    assert model._bias_to_fold() is None
    model.save(tmp_path / "model")
    assert "zlpr_bias" not in json.loads((tmp_path / "model" / "config.json").read_text())


def test_a_bias_that_does_not_fit_is_refused(tmp_path):
    model = untrained(tmp_path / "encoder", tiny.bert)
    model.decoder = Threshold(0.15)
    model.save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    whole = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model").classifier.bias
    np.testing.assert_allclose(
        whole.detach().numpy(), np.array(config["zlpr_bias"]["values"]) - 0.15, atol=1e-6
    )
    for wrong in (
        {"name": "classifier.bias", "values": [0.0]},
        {"name": "bert.pooler.dense.bias", "values": [0.0] * 16},
        {"name": "nothing", "values": [0.0] * 5},
        [],
    ):
        path.write_text(json.dumps({**config, "zlpr_bias": wrong}))
        with pytest.raises(UserError):
            zlpr.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"num_hidden_layers": 0}, "config.json and the weights differ"),
        ({"num_hidden_layers": 9}, "config.json and the weights differ"),
        ({"num_hidden_layers": 10**9}, "config.json and the weights differ, as in 'num_hidden_l"),
        ({"num_labels": 10**9}, "config.json and the weights differ, as in 'num_labels'"),
        ({"zlpr_max_length": 0}, "max_length 0: expected at least 1"),
        ({"zlpr_max_length": 7.5}, "zlpr_max_length is 7.5, expected a whole number"),
        ({"zlpr_max_length": 10**9}, "this model reads at most 64 tokens"),
    ],
)
def test_a_configuration_that_is_not_of_the_weights_is_refused(tmp_path, changed, words):
    """Weights that are not in the file would be drawn at random at each load."""
    untrained(tmp_path / "encoder", tiny.bert).save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    with pytest.raises(UserError, match=words):
        zlpr.load(tmp_path / "model")

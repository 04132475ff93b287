"""An exported model scores, weighs and decides as the model itself, whatever its kind."""

import copy
import dataclasses
import re

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("onnxruntime", reason="exported files run in onnxruntime")

from tests.models import modes
from tests.serving import models
from zlpr import UserError
from zlpr.serving.export import export
from zlpr.serving.onnx import OnnxModel


def assert_equal(model, inputs, path, **options):
    """Scores, probabilities and label names of the file are those of the model."""
    export(model, path, **options)
    exported = OnnxModel(path, threads=1)
    assert exported.label_names == model.label_names
    near = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(
        exported.predict_scores(inputs), model.predict_scores(inputs), **near
    )
    np.testing.assert_allclose(exported.predict_proba(inputs), model.predict_proba(inputs), **near)
    assert exported.predict(inputs) == model.predict(inputs)
    return exported


@pytest.mark.parametrize("samples", [0, 1, 7, 60])
@pytest.mark.parametrize("decode", ["auto", "threshold", "feature_count"])
def test_texts_through_a_linear_model(decode, samples, tmp_path):
    model = models.of_texts(decode=decode, regularisation=0.3)
    exported = assert_equal(model, list(models.texts()[2].texts[:samples]), tmp_path / "m.onnx")
    assert exported.about["kind"] == "linear"
    assert exported.about["rule"] == model.decoder.name


def test_texts_as_dense_features(tmp_path):
    model = models.of_texts(decode="feature_count", regularisation=0.3)
    assert_equal(model, list(models.texts()[2].texts[:7]), tmp_path / "m.onnx", sparse=False)


@pytest.mark.parametrize("kind", ["powerset", "mmp"])
def test_texts_through_other_kinds(kind, tmp_path):
    model = models.of_texts(kind, decode="auto" if kind == "powerset" else "label_count")
    assert_equal(model, list(models.texts()[2].texts[:7]), tmp_path / "m.onnx")


@pytest.mark.parametrize("set_scores", ["mode", "marginal"])
@pytest.mark.parametrize("subset_size", [None, 2])
def test_powersets_score_labels_from_sets(set_scores, subset_size, tmp_path):
    model = models.of_features("powerset", set_scores=set_scores, subset_size=subset_size)
    features = modes.parts()[2].features
    assert_equal(model, features, tmp_path / "m.onnx")
    assert_equal(model, features, tmp_path / "sparse.onnx", sparse=True)


@pytest.mark.parametrize("set_scores", ["mode", "marginal"])
@pytest.mark.parametrize("always", [False, True])
def test_a_label_of_no_set_or_of_all_does_not_spoil_a_powerset(set_scores, always, tmp_path):
    model = copy.copy(models.of_features("powerset", set_scores=set_scores))
    (softmax,) = model.softmaxes
    sets = softmax.sets.copy()
    sets[:, 1] = always
    model.softmaxes = (dataclasses.replace(softmax, sets=sets),)
    exported = assert_equal(model, modes.parts()[2].features, tmp_path / "m.onnx")
    assert np.isfinite(exported.predict_scores(modes.parts()[2].features)).all()


def test_sparse_and_dense_features_give_the_same(tmp_path):
    model = models.of_features("mmp")
    features = modes.parts()[2].features[:9]
    exported = assert_equal(model, features, tmp_path / "m.onnx", sparse=True)
    np.testing.assert_array_equal(
        exported.predict_scores(sparse.csr_array(features)), exported.predict_scores(features)
    )
    dense = assert_equal(model, features, tmp_path / "dense.onnx")
    np.testing.assert_array_equal(
        dense.predict_scores(sparse.csr_array(features)), dense.predict_scores(features)
    )


def test_missing_numbers_are_what_they_are_in_the_model(tmp_path):
    model = copy.copy(models.of_features("mmp"))
    model.means = np.linspace(-1, 1, 5, dtype=np.float32)
    features = modes.parts()[2].features[:9].copy()
    features[::2, 1] = features[3] = np.nan
    assert_equal(model, features, tmp_path / "m.onnx")
    assert_equal(model, features, tmp_path / "sparse.onnx", sparse=True)


@pytest.mark.parametrize("by_entry", [False, True])
def test_what_the_model_refuses_its_file_refuses_too(by_entry, tmp_path):
    model = copy.copy(models.of_features("mmp"))
    features = modes.parts()[2].features[:9].astype(np.float64)
    for means in (None, np.zeros(5, dtype=np.float32)):
        model.means = means
        export(model, tmp_path / "m.onnx", sparse=by_entry, overwrite=True)
        exported = OnnxModel(tmp_path / "m.onnx", threads=1)
        for unfit in (np.inf, -np.inf, 1e39, *([np.nan] if means is None else [])):
            spoiled = features.copy()
            spoiled[4, 2] = unfit
            for given in (spoiled, sparse.csr_array(spoiled)):
                with pytest.raises(UserError, match="the features hold"):
                    model.predict(given)
                with pytest.raises(ValueError, match=re.escape(f"the features hold {unfit}")):
                    exported.predict(given)

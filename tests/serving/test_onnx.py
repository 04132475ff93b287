"""The runtime reads texts as the package does, without torch, and says what is wrong."""

import functools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("onnxruntime", reason="exported files run in onnxruntime")

from tests.serving import models
from zlpr.models import FeatureConfig, TextFeatures
from zlpr.serving.export import export
from zlpr.serving.onnx import OnnxModel, View, main, text_features

TEXTS = [
    "My İstanbul order, my ORDER!",
    "a  b\tc\n d",
    "ΟΔΟΣ ςσ ὈΔΥΣΣΕΎΣ.",
    "标签 和 文本，标签",
    "e\u0301te\u0301 👩‍👩‍👧 👍🏽 naïve",
    "one\x1etwo \u2028three\u00a0four",
    "",
]
ANALYZERS = ["word", "subword", "char", "word+subword+char"]
ALPHABET = "aAbB İΣςß标签👍\u0301\t\n.\x1e\u00a0_1"


def dense(inputs, width):
    full = np.zeros((len(inputs["indices"]), width))
    for row, columns, values in zip(full, inputs["indices"], inputs["values"], strict=True):
        np.add.at(row, columns, values)
    return full


@functools.cache
def vocabulary(analyzer):
    """Features that know most n-grams of the alphabet, and the same for the runtime."""
    learned = TextFeatures(FeatureConfig(analyzer=analyzer, subword_ngrams=(1, 3), min_count=1))
    learned.fit_transform([*TEXTS, "abab ab a标b"])
    views, first = [], 0
    for view in learned.to_json()["views"]:
        views.append(View(view, first))
        first += len(view["terms"])
    return learned, views


@pytest.mark.parametrize("analyzer", ANALYZERS)
@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text(alphabet=ALPHABET, max_size=25), max_size=4))
def test_texts_become_the_features_of_the_package(analyzer, texts):
    learned, views = vocabulary(analyzer)
    first = learned.num_features
    found = dense(text_features(views, [*texts, *TEXTS]), first)
    expected = learned.transform([*texts, *TEXTS]).toarray()
    np.testing.assert_array_equal(found != 0, expected != 0)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.fixture
def exported(tmp_path) -> Path:
    path = tmp_path / "model.onnx"
    export(models.of_texts(decode="auto", regularisation=0.3), path)
    return path


def test_predicting_loads_neither_torch_nor_the_rest_of_the_package(exported):
    text = models.texts()[2].texts[0]
    script = (
        "import sys; from zlpr.serving.onnx import main; main(sys.argv[1:]);"
        "print(*sorted(name.partition('.')[0] for name in sys.modules))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", script, exported, text], capture_output=True, text=True, check=True
    )
    line, modules = finished.stdout.splitlines()
    assert set(modules.split()).isdisjoint(
        ["torch", "scipy", "transformers", "sklearn", "onnx", "tokenizers"]
    )
    model = models.of_texts(decode="auto", regularisation=0.3)
    assert json.loads(line)["labels"] == list(model.predict([text])[0])


def test_the_file_of_the_runtime_runs_by_itself(exported, tmp_path):
    import zlpr.serving.onnx as runtime

    alone = tmp_path / "predict.py"
    alone.write_text(Path(runtime.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    finished = subprocess.run(
        [sys.executable, "-I", alone, exported],
        input="a refund\n标签\n",
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    assert [json.loads(line)["text"] for line in finished.stdout.splitlines()] == [
        "a refund",
        "标签",
    ]


def test_long_texts_and_many_of_them_are_cut_into_batches(exported, monkeypatch):
    import zlpr.serving.onnx as runtime

    texts = list(models.texts()[2].texts)
    model = OnnxModel(exported, threads=1)
    whole = model.predict_scores(texts)
    monkeypatch.setattr(runtime, "CELLS_AT_ONCE", 5000)
    monkeypatch.setattr(runtime, "ROWS_AT_ONCE", 7)
    np.testing.assert_allclose(model.predict_scores(texts), whole, atol=1e-6)


def test_wrong_inputs_are_one_line(exported, tmp_path, capsys):
    model = OnnxModel(exported, threads=1)
    for wrong in ("a text", [1], np.zeros((1, 2))):
        with pytest.raises(ValueError, match="give a list of strings"):
            model.predict(wrong)
    features = OnnxModel(write(models.of_features("mmp"), tmp_path / "f.onnx"), threads=1)
    for wrong in (["a text"], np.zeros((1, 4)), np.zeros(5)):
        with pytest.raises(ValueError, match="give a matrix of 5 columns"):
            features.predict(wrong)
    (tmp_path / "none.onnx").write_bytes(b"nothing")
    assert main([str(tmp_path / "none.onnx"), "a"]) == 2
    assert "not a model that onnxruntime can run" in capsys.readouterr().err
    assert main([]) == 2
    assert main(["--help"]) == 0


def write(model, path):
    export(model, path)
    return path

"""The file that `export` writes: whole or not at all, with all that another program needs."""

import json

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.serving import models
from zlpr import UserError
from zlpr.models.registry import available, info
from zlpr.serving.export import describe, export, exportable_kinds, to_onnx
from zlpr.serving.onnx import OnnxModel


def test_the_file_says_what_it_holds(tmp_path):
    model = models.of_texts(decode="auto", regularisation=0.3)
    export(model, tmp_path / "m.onnx")
    proto = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(proto, full_check=True)
    assert [(entry.domain, entry.version) for entry in proto.opset_import] == [("", 18)]
    metadata = {entry.key: entry.value for entry in proto.metadata_props}
    assert metadata.keys() == {"zlpr", "labels", "reading", "vocabulary"}
    assert json.loads(metadata["labels"]) == list(model.label_names)
    assert json.loads(metadata["zlpr"])["loss"] == "zlpr"
    assert [given.name for given in proto.graph.input] == ["indices", "values"]
    assert [made.name for made in proto.graph.output] == ["scores", "probabilities", "decision"]
    assert describe(model).endswith(f"of {len(model.label_names)} labels, ONNX opset 18")


def test_a_program_without_the_package_can_feed_it_features(tmp_path):
    model = models.of_features("mmp")
    export(model, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    features = np.ones((3, 5), dtype=np.float32)
    scores, decision = session.run(["scores", "decision"], {"features": features})
    np.testing.assert_allclose(scores, model.predict_scores(features), atol=1e-5)
    assert decision.shape == (3, 4)


def test_a_file_is_not_replaced_in_silence_and_never_half_written(tmp_path, monkeypatch):
    model, path = models.of_features("mmp"), tmp_path / "m.onnx"
    path.write_text("mine")
    with pytest.raises(UserError, match="is there already"):
        export(model, path)
    monkeypatch.setattr("zlpr.serving.export.add_decision", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export(model, path, overwrite=True)
    assert path.read_text() == "mine"
    monkeypatch.undo()
    export(model, path, overwrite=True)
    assert OnnxModel(path).about["kind"] == "mmp"
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize("kind", ["knn", "chain"])
def test_other_kinds_are_refused_with_those_that_can(kind):
    with pytest.raises(UserError, match=f"kind '{kind}' cannot be exported, only linear, mmp"):
        to_onnx(models.of_features(kind))


def test_what_can_be_exported_are_kinds():
    assert set(exportable_kinds()) < set(available())
    assert all(info(kind).name == kind for kind in exportable_kinds())


def test_a_model_beyond_the_size_of_a_file_is_refused(monkeypatch):
    monkeypatch.setattr("zlpr.serving.export.LARGEST", (1 << 20) + 10)
    with pytest.raises(UserError, match="an ONNX file holds 2"):
        to_onnx(models.of_features("mmp"))


def test_names_of_features_go_with_the_file(tmp_path):
    from zlpr.data import read
    from zlpr.training import TrainingConfig, fit

    rows = [f"{i % 5},{(i * 7) % 11},{'red' if i % 3 else 'blue'},{'ab'[i % 2]}" for i in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["size,weight,colour,labels", *rows]))
    data = read(tmp_path / "t.csv", features=["size", "weight", "colour"], labels="labels")
    model = fit(data, data, TrainingConfig(regularisation=1.0, decode="threshold")).model
    export(model, tmp_path / "m.onnx")
    names = OnnxModel(tmp_path / "m.onnx").reading["feature_names"]
    assert len(names) == data.features.shape[1]
    assert names[:2] == ["size", "weight"]

import json

import pytest

pytest.importorskip("onnxruntime", reason="exported files run in onnxruntime")

from tests.serving import models
from zlpr.cli.main import main
from zlpr.serving import onnx


@pytest.fixture
def folder(tmp_path):
    models.of_texts(decode="auto", regularisation=0.3).save(tmp_path / "model")
    return tmp_path / "model"


def test_a_folder_becomes_a_file_that_predicts(folder, tmp_path, capsys):
    target = str(tmp_path / "m.onnx")
    assert main(["export", str(folder), "--out", target]) == 0
    said = capsys.readouterr().out
    assert "opset 18" in said
    assert f"python -m zlpr.serving.onnx {target}" in said
    assert onnx.main([target, "I want a refund"]) == 0
    line = json.loads(capsys.readouterr().out)
    model = models.of_texts(decode="auto", regularisation=0.3)
    assert tuple(line["labels"]) == model.predict(["I want a refund"])[0]


def test_a_decision_by_hand_goes_into_the_file(folder, tmp_path):
    target = str(tmp_path / "m.onnx")
    assert main(["export", str(folder), "--out", target, "--top", "2", "--no-sparse"]) == 0
    model = onnx.OnnxModel(target)
    assert model.about["rule"] == "top_k"
    assert model.reading["sparse"] is False
    assert {len(labels) for labels in model.predict(["a", "b refund"])} == {2}


def test_mistakes_are_one_line(folder, tmp_path, capsys):
    target = tmp_path / "m.onnx"
    target.write_text("mine")
    assert main(["export", str(folder), "--out", str(target)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert main(["export", str(folder), "--out", str(tmp_path)]) == 2
    assert main(["export", str(tmp_path / "none"), "--out", str(target)]) == 2
    assert capsys.readouterr().err.count("\n") == 2
    assert target.read_text() == "mine"


def test_no_file_of_the_model_is_written_over(folder, capsys):
    weights = folder / "model.safetensors"
    before = weights.read_bytes()
    assert main(["export", str(folder), "--out", str(weights), "--overwrite"]) == 2
    assert "is read from" in capsys.readouterr().err
    assert weights.read_bytes() == before


def test_texts_are_not_asked_for_where_features_are_read(tmp_path, capsys):
    rows = [f"{i % 7},{i % 3},{'odd' if i % 2 else 'even'}" for i in range(60)]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,labels", *rows]) + "\n")
    folder, target = str(tmp_path / "model"), str(tmp_path / "m.onnx")
    table = [str(tmp_path / "table.csv"), "--features-columns", "a", "b", "--decode", "zero"]
    assert main(["train", *table, "--out", folder]) == 0
    assert main(["export", folder, "--out", target]) == 0
    assert "try it" not in capsys.readouterr().out

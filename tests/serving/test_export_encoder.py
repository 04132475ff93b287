"""A fine-tuned encoder's file scores texts as the encoder does, with its tokenizer inside."""

import numpy as np
import onnx
import pytest

from tests import tiny
from tests.serving.test_export_kinds import assert_equal
from zlpr import UserError, decoding
from zlpr.models import TrainingRecord
from zlpr.models.transformer import TransformerModel, load_network, load_tokenizer
from zlpr.serving.export import to_onnx


def encoder(folder, make, **tokens) -> TransformerModel:
    make(folder)
    network = load_network(str(folder), num_labels=5, ignore_mismatched_sizes=True)
    tokenizer = load_tokenizer(str(folder), **tokens)
    return TransformerModel(
        tiny.LABELS, network, tokenizer, max_length=20, record=TrainingRecord(loss="zlpr")
    )


def test_an_encoder_scores_as_in_the_package(tmp_path):
    model = encoder(tmp_path, tiny.roberta, padding_side="left")
    data = tiny.texts(80)
    scores = model.predict_scores(data.texts)
    model.decoder = decoding.create("label_sets").fit(data.labels, scores, "example_f1")
    model.calibrator = decoding.Calibrator().fit(data.labels, scores)
    texts = [*data.texts, "", "the horse " * 40, "标签 👍", "\ud83d plum", "x" * 5000]
    exported = assert_equal(model, texts, tmp_path / "m.onnx")
    assert exported.predict([]) == []
    for text in texts[-4:]:  # alone, without anything to be filled up to
        np.testing.assert_allclose(
            exported.predict_scores([text]), model.predict_scores([text]), atol=1e-5
        )
    proto = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(proto, full_check=True)
    assert [(entry.domain, entry.version) for entry in proto.opset_import] == [("", 18)]
    sizes = proto.graph.input[0].type.tensor_type.shape.dim
    assert [size.dim_param for size in sizes] == ["batch", "tokens"]


def test_a_tokenizer_in_python_is_refused(tmp_path):
    model = encoder(tmp_path, tiny.bert)
    model.tokenizer = object()
    with pytest.raises(UserError, match="written in Python and cannot be exported"):
        to_onnx(model)

import json

import numpy as np
import pytest

from tests.models import fitted
from tests.serving.asking import ask, post
from zlpr.data import Dataset
from zlpr.serving import Limits, create_app
from zlpr.serving.protocol import LOWEST
from zlpr.training import TrainingConfig, fit

TEXTS = ["I want my money back", "the parcel was late"]
TEXT = {"name": "text", "shape": [2], "datatype": "BYTES", "data": TEXTS}
LENGTH = "Inference-Header-Content-Length"


@pytest.fixture(scope="module")
def model():
    return fitted.result().model


@pytest.fixture(scope="module")
def app(model):
    return create_app({"demo": model}, limits=Limits(texts=5))


@pytest.fixture(scope="module")
def tabular():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(120, 3)).astype(np.float32)
    sets = [tuple(np.array(["a", "b"])[row > 0]) for row in features[:, :2]]
    data = Dataset.from_label_sets(sets, features=features)
    half = np.arange(120) % 2 == 0
    config = TrainingConfig(loss="zlpr", regularisation=0.3)
    return fit(data.select(half), data.select(~half), config).model


def infer(app, body, **options):
    return post(app, "/v2/models/demo/infer", body, **options)


def by_name(answer):
    return {output["name"]: output for output in answer.json()["outputs"]}


def test_the_server_and_its_models_say_what_they_are(app, model):
    assert ask(app, "GET", "/v2").json()["extensions"] == ["binary_tensor_data"]
    said = ask(app, "GET", "/v2/models/demo").json()
    assert said == ask(app, "GET", "/v2/models/demo/versions/1").json()
    assert said["inputs"] == [{"name": "text", "datatype": "BYTES", "shape": [-1]}]
    assert said["parameters"]["label_names"] == list(model.label_names)
    assert {output["name"] for output in said["outputs"]} == {
        "labels",
        "scores",
        "probabilities",
        "decisions",
    }
    assert ask(app, "GET", "/v2/models/other").status_code == 404


@pytest.mark.parametrize("shape", [[2], [2, 1]])
def test_tensors_say_what_the_model_says(app, model, shape):
    answer = infer(app, {"id": "seven", "inputs": [{**TEXT, "shape": shape}]})
    assert answer.json()["id"] == "seven"
    outputs = by_name(answer)
    assert [tuple(json.loads(text)) for text in outputs["labels"]["data"]] == model.predict(TEXTS)
    size = [2, len(model.label_names)]
    assert [outputs[name]["shape"] for name in ("scores", "probabilities", "decisions")] == [
        size
    ] * 3
    scores = np.reshape(outputs["scores"]["data"], size)
    np.testing.assert_allclose(scores, model.predict_scores(TEXTS), atol=1e-5)
    shares = np.reshape(outputs["probabilities"]["data"], size)
    np.testing.assert_allclose(shares, model.predict_proba(TEXTS), atol=1e-5)
    decided = np.reshape(outputs["decisions"]["data"], size)
    names = np.array(model.label_names)
    assert [tuple(names[row]) for row in decided.astype(bool)] == model.predict(TEXTS)


def test_only_the_outputs_that_are_asked_for_are_sent(app):
    answer = infer(app, {"inputs": [TEXT], "outputs": [{"name": "labels"}]})
    assert by_name(answer).keys() == {"labels"}
    alone = infer(app, {"inputs": [TEXT], "outputs": [{"name": "scores"}]})
    assert by_name(alone)["scores"] == by_name(infer(app, {"inputs": [TEXT]}))["scores"]
    assert (
        infer(app, {"inputs": [TEXT], "outputs": []}).json()
        == infer(app, {"inputs": [TEXT]}).json()
    )
    answer = infer(app, {"inputs": [TEXT], "outputs": [{"name": "label"}]})
    assert "did you mean 'labels'" in answer.json()["error"]


def as_bytes(texts):
    encoded = [text.encode() for text in texts]
    return b"".join(len(text).to_bytes(4, "little") + text for text in encoded)


def binary(app, tail, *, parameters=None, **tensor):
    sent = {k: v for k, v in TEXT.items() if k != "data"}
    sent = {**sent, "parameters": {"binary_data_size": len(tail)}, **tensor}
    head = json.dumps({"inputs": [sent], "parameters": parameters or {}}).encode()
    path, headers = "/v2/models/demo/infer", {LENGTH: str(len(head))}
    return ask(app, "POST", path, content=head + tail, headers=headers)


def test_bytes_behind_the_json_are_read_and_written_as_tritons_clients_do(app):
    plain = infer(app, {"inputs": [TEXT]})
    assert binary(app, as_bytes(TEXTS)).json() == plain.json()
    answer = binary(app, as_bytes(TEXTS), parameters={"binary_data_output": True})
    length = int(answer.headers[LENGTH])
    head, tail = json.loads(answer.content[:length]), answer.content[length:]
    place = 0
    for sent, expected in zip(head["outputs"], plain.json()["outputs"], strict=True):
        size = sent["parameters"]["binary_data_size"]
        data, place = tail[place : place + size], place + size
        if sent["datatype"] == "BYTES":
            assert data == as_bytes(expected["data"])
        else:
            kind = {"FP32": "<f4", "BOOL": "?"}[sent["datatype"]]
            np.testing.assert_allclose(np.frombuffer(data, kind), expected["data"], rtol=1e-6)
    assert place == len(tail)


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"\x05\x00\x00\x00ab", "end within"),
        (b"\x05\x00", "end within"),
        (b"\xff\xff\xff\xffab", "end within"),
        (b"\x02\x00\x00\x00\xff\xfe" + b"\0\0\0\0", "not UTF-8"),
        (b"\0\0\0\0", "1 values for the shape"),
    ],
)
def test_broken_bytes_are_refused(app, tail, reason):
    answer = binary(app, tail)
    assert answer.status_code == 400
    assert reason in answer.json()["error"]


def test_bytes_that_no_tensor_has_are_refused(app):
    head = json.dumps({"inputs": [TEXT]}).encode()
    path, headers = "/v2/models/demo/infer", {LENGTH: str(len(head))}
    answer = ask(app, "POST", path, content=head + as_bytes(["more"]), headers=headers)
    assert answer.status_code == 400
    assert "binary_data_size: not given, and 8 bytes follow" in answer.json()["error"]


@pytest.mark.parametrize("length", ["x", "-1", "9999999", "1" * 30, "٣"])
def test_a_length_that_lies_is_refused(app, length):
    headers = {LENGTH.encode(): length.encode()}
    answer = infer(app, {"inputs": [TEXT]}, headers=headers)
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ([], "not a JSON object"),
        ({}, "one tensor, 'text'"),
        ({"inputs": [TEXT, TEXT]}, "one tensor"),
        ({"inputs": ["text"]}, "one tensor"),
        ({"inputs": [{**TEXT, "name": "x"}]}, "expected 'text', got 'x'"),
        ({"inputs": [{**TEXT, "datatype": "FP32"}]}, "BYTES"),
        ({"inputs": [{**TEXT, "shape": [3]}]}, "2 values for the shape [3]"),
        ({"inputs": [{**TEXT, "shape": [1, 2]}]}, "2 values for the shape [1, 2]"),
        ({"inputs": [{**TEXT, "shape": "all"}]}, "shape all"),
        ({"inputs": [{**TEXT, "shape": [True]}]}, "shape"),
        ({"inputs": [{**TEXT, "shape": [10**30]}]}, "shape"),
        ({"inputs": [{**TEXT, "data": "ab"}]}, "data: expected a list"),
        ({"inputs": [{**TEXT, "data": ["a", 1]}]}, "value 1 is no string"),
        ({"inputs": [{**TEXT, "data": ["a", "\ud800"]}]}, "surrogate"),
        ({"inputs": [{**TEXT, "shape": [6], "data": ["a"] * 6}]}, "at most 5"),
        ({"inputs": [{**TEXT, "shape": [0], "data": []}]}, "at least one"),
        ({"inputs": [TEXT], "outputs": "labels"}, "outputs"),
    ],
)
def test_what_is_no_request_of_the_protocol_is_refused_in_one_line(app, body, reason):
    content, headers = json.dumps(body).encode(), {"content-type": "application/json"}
    answer = ask(app, "POST", "/v2/models/demo/infer", content=content, headers=headers)
    assert answer.status_code == 400
    assert reason in answer.json()["error"]


def test_features_are_read_by_a_model_of_features(tabular):
    app = create_app({"demo": tabular})
    rows = np.array([[2.0, -2.0, 0.5], [-1.0, 1.0, 0.0]], dtype=np.float32)
    tensor = {"name": "features", "shape": [2, 3], "datatype": "FP32"}
    said = ask(app, "GET", "/v2/models/demo").json()["inputs"]
    assert said == [{"name": "features", "datatype": "FP32", "shape": [-1, 3]}]
    for data in (rows.ravel().tolist(), rows.tolist()):
        answer = infer(app, {"inputs": [{**tensor, "data": data}]})
        labels = by_name(answer)["labels"]["data"]
        assert [tuple(json.loads(text)) for text in labels] == tabular.predict(rows)
    sent = binary(app, rows.tobytes(), name="features", shape=[2, 3], datatype="FP32")
    assert by_name(sent)["labels"]["data"] == labels
    for bad, reason in [
        ([1, 2], "shape"),
        ([1, 2, 3, 4, 5, "x"], "numbers"),
        ([1, 2, 3, 4, 5, None], "finite"),
        ([1, 2, 3, 4, 5, 1e999], "finite"),
        ([1, 2, 3, 4, 5, "6"], "numbers"),
        ([1, 2, 3, 4, 5, True], "numbers"),
        ([1, 2, 3, 4, 5, 1e39], "hold 1e+39, too large"),
        ([[1, 2], [3, 4], [5, 6]], "nested otherwise than the shape [2, 3]"),
        ([[[1, 2, 3]], [[4, 5, 6]]], "nested otherwise than the shape [2, 3]"),
    ]:
        body = json.dumps({"inputs": [{**tensor, "data": bad}]}).encode()
        path, headers = "/v2/models/demo/infer", {"content-type": "application/json"}
        answer = ask(app, "POST", path, content=body, headers=headers)
        assert answer.status_code == 400
        assert reason in answer.json()["error"]
    assert "reads features" in post(app, "/predict", {"texts": ["a"]}).json()["error"]


def test_labels_that_were_not_scored_have_the_lowest_number_there_is(app, model, monkeypatch):
    from zlpr.metrics import TopScores

    few = TopScores(np.array([[2], [0]]), np.array([[1.5], [-0.5]]), len(model.label_names))
    monkeypatch.setattr(type(model), "score", lambda self, read: few)
    outputs = by_name(infer(app, {"inputs": [TEXT]}))
    scores = np.reshape(outputs["scores"]["data"], (2, -1))
    assert scores[0, 2] == 1.5
    assert (np.delete(scores[0], 2) == np.float32(LOWEST)).all()
    assert np.isfinite(scores).all()


def test_a_score_beyond_all_numbers_is_the_largest_there_is(app, model, monkeypatch):
    scores = np.full((2, len(model.label_names)), np.inf, dtype=np.float32)
    monkeypatch.setattr(type(model), "score", lambda self, read: scores)
    answer = infer(app, {"inputs": [TEXT], "outputs": [{"name": "scores"}]})
    assert set(by_name(answer)["scores"]["data"]) == {-LOWEST}

import asyncio
import json
import threading

import httpx
import numpy as np
import pytest

from tests.models import fitted
from tests.serving.asking import ask, post
from zlpr.serving import Limits, create_app
from zlpr.serving.app import PAGE_FILES
from zlpr.serving.json_response import JsonResponse
from zlpr.serving.service import Service

TEXTS = ["I want my money back", "the parcel came late and the box was broken", ""]
LIMITS = Limits(texts=5, text_characters=1_000, body_bytes=100_000, seconds=5)


@pytest.fixture(scope="module")
def model():
    return fitted.result().model


@pytest.fixture(scope="module")
def app(model):
    return create_app({"first": model, "second": model}, limits=LIMITS)


def test_predict_says_what_the_model_says(app, model):
    answer = post(app, "/predict", {"texts": TEXTS, "all_labels": True})
    assert answer.status_code == 200
    assert answer.json()["model"] == "first"
    said = answer.json()["answers"]
    assert [tuple(one["labels"]) for one in said] == model.predict(TEXTS)
    for name, figures in (("scores", model.predict_scores), ("probabilities", model.predict_proba)):
        shown = np.array([[one[name][label] for label in model.label_names] for one in said])
        np.testing.assert_allclose(shown, figures(TEXTS), atol=1e-4)


def test_more_figures_than_an_answer_holds_are_refused(app, monkeypatch):
    monkeypatch.setattr("zlpr.serving.app.MOST_FIGURES", 24)
    assert post(app, "/predict", {"texts": TEXTS[:2], "all_labels": True}).status_code == 200
    assert post(app, "/predict", {"texts": TEXTS}).status_code == 200
    answer = post(app, "/predict", {"texts": TEXTS, "all_labels": True})
    assert answer.status_code == 400
    assert "36 scores are too many to tell by name" in answer.json()["error"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/predict", {"texts": TEXTS, "all_labels": True}),
        (
            "/v2/models/first/infer",
            {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [3], "data": TEXTS}]},
        ),
    ],
)
def test_an_answer_of_many_figures_is_written_out_beside_the_others(app, monkeypatch, path, body):
    made, render = [], JsonResponse.render
    monkeypatch.setattr(
        JsonResponse,
        "render",
        lambda self, content: (made.append(threading.get_ident()), render(self, content))[1],
    )
    few = post(app, path, body)
    monkeypatch.setattr("zlpr.serving.app.FEW_FIGURES", 35)
    many = post(app, path, body)
    assert few.json() == many.json()
    here = threading.get_ident()
    assert (made[0] == here, made[1] == here) == (True, False)


def test_a_model_is_asked_by_its_name(app):
    assert post(app, "/predict?model=second", {"texts": ["a"]}).json()["model"] == "second"
    answer = post(app, "/predict?model=secnd", {"texts": ["a"]})
    assert answer.status_code == 404
    assert "did you mean 'second'" in answer.json()["error"]


def test_explanations_add_up_to_the_score(app):
    asked = {"text": TEXTS[0], "label": "refund", "top": 3}
    (said,) = post(app, "/explain", asked).json()["explanations"]
    parts = [part["value"] for part in said["contributions"]]
    assert len(parts) == 3
    assert sum(parts) + said["bias"] + said["rest"] == pytest.approx(said["score"])
    assert "no label 'x'" in post(app, "/explain", {**asked, "label": "x"}).json()["error"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe\x00", "parsing the body"),
        (b"[" * 90_000, "error"),
        (b"{}", "texts: Field required"),
        (b"[]", "expected a JSON object"),
        (b'{"texts": "one"}', "texts: Input should be a valid list"),
        (b'{"texts": [1]}', "texts.0: Input should be a valid string"),
        (b'{"texts": ["a"], "model": "first"}', "model: Extra inputs"),
        (b'{"texts": []}', "at least one"),
        (b'{"texts": ["\\ud800"]}', "surrogate"),
        (json.dumps({"texts": ["a"] * 6}).encode(), "at most 5"),
        (json.dumps({"texts": ["a" * 1_001]}).encode(), "at most 1,000"),
        (b'{"texts": ["a"], "all_labels": "yes"}', "all_labels"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(app, body, reason):
    headers = {"content-type": "application/json"}
    answer = ask(app, "POST", "/predict", content=body, headers=headers)
    assert answer.status_code == 400
    assert reason in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


def test_a_body_that_does_not_say_it_is_json_is_refused(app):
    answer = ask(app, "POST", "/predict", content=b'{"texts": ["a"]}')
    assert answer.status_code == 400
    assert "Content-Type: application/json" in answer.json()["error"]


@pytest.mark.parametrize(
    "path", ["/../app.py", "/static/../app.py", "/%2e%2e/%2e%2e/etc/passwd", "/app.js/..", "/."]
)
def test_no_path_leads_out_of_the_page(app, path):
    answer = ask(app, "GET", path)
    assert answer.status_code in (200, 404)
    assert "root:" not in answer.text
    assert "FastAPI" not in answer.text


@pytest.mark.parametrize("path", [*PAGE_FILES, "/docs", "/openapi.json"])
def test_the_page_is_there_and_names_no_other_server(app, path):
    answer = ask(app, "GET", path)
    assert answer.status_code == 200
    assert "http://" not in answer.text.replace("http://127.0.0.1:8000", "").replace(
        "http://www.w3.org", ""
    )
    assert "https://" not in answer.text


def test_health_is_true(model):
    service = Service({"only": model}, LIMITS)
    app = create_app(service)
    assert ask(app, "GET", "/v2/health/ready").json() == {"ready": True}
    service.models["only"].batcher.stop()  # as where the worker died
    assert ask(app, "GET", "/v2/health/live").json() == {"live": True}
    for path in ("/v2/health/ready", "/v2/models/only/ready"):
        answer = ask(app, "GET", path)
        assert (answer.status_code, answer.json()["ready"]) == (503, False)
    assert post(app, "/predict", {"texts": ["a"]}).status_code == 503


class Held:
    """A model that answers when it is told to."""

    def __init__(self, model, monkeypatch, **limits):
        self.free, self.began = threading.Event(), threading.Event()
        self.service = Service({"only": model}, Limits(**limits))
        self.app = create_app(self.service, limits=self.service.limits)
        served = self.service.models["only"]
        self.scored = []
        own = served._answer

        def slowly(samples):
            self.began.set()
            assert self.free.wait(10)
            self.scored.append(list(samples))
            return own(samples)

        monkeypatch.setattr(served, "_answer", slowly)

    def gather(self, *texts, before=None):
        async def all_at_once():
            transport = httpx.ASGITransport(app=self.app)
            options = {"transport": transport, "base_url": "http://localhost"}
            async with httpx.AsyncClient(**options) as client:
                asked = []
                for text in texts:  # the first keeps the worker busy; the others wait for it
                    asking = client.post("/predict", json={"texts": [text]})
                    asked.append(asyncio.create_task(asking))
                    while not self.began.is_set():
                        await asyncio.sleep(0.01)
                if before is not None:
                    await before(asked)
                self.free.set()
                return await asyncio.gather(*asked, return_exceptions=True)

        return asyncio.run(all_at_once())


def test_what_is_asked_at_the_same_time_is_scored_together(model, monkeypatch):
    held = Held(model, monkeypatch)

    async def all_wait(asked):
        while held.service.models["only"].batcher.waiting < 3:
            await asyncio.sleep(0.01)

    answers = held.gather("one", "two", "three", "four", before=all_wait)
    assert [answer.status_code for answer in answers] == [200] * 4
    assert [len(batch) for batch in held.scored] == [1, 3]


def test_an_answer_that_takes_too_long_is_a_timeout(model, monkeypatch):
    held = Held(model, monkeypatch, seconds=0.05)

    async def wait(asked):
        await asyncio.wait(asked)

    (answer,) = held.gather("one", before=wait)
    assert answer.status_code == 504
    assert "0.05 seconds" in answer.json()["error"]


def test_too_many_at_a_time_are_told_to_come_back(model, monkeypatch):
    held = Held(model, monkeypatch, waiting=2)

    async def one_is_refused(asked):
        await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)

    answers = held.gather("one", "two", "three", "four", before=one_is_refused)
    refused = [answer for answer in answers if answer.status_code == 503]
    assert len(refused) == 1
    assert refused[0].headers["retry-after"] == "1"


@pytest.mark.parametrize(
    ("path", "body"), [("/predict", {"texts": TEXTS}), ("/explain", {"text": TEXTS[0]})]
)
def test_a_parameter_that_an_address_does_not_take_is_refused(app, path, body):
    assert post(app, f"{path}?model=second", body).json()["model"] == "second"
    answer = post(app, f"{path}?modle=second", body)
    assert answer.status_code == 400
    assert "modle: no such parameter" in answer.json()["error"]
    answer = post(app, f"{path}?model=first&model=second", body)
    assert answer.status_code == 400
    assert "model: given more than once" in answer.json()["error"]

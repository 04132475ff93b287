import copy
import csv
import io
import json
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.models import fitted
from tests.serving.asking import ask, post
from zlpr import UserError, load
from zlpr.data import Dataset
from zlpr.decoding import WithAncestors
from zlpr.serving import Limits, create_app
from zlpr.serving.review import review
from zlpr.serving.service import Service
from zlpr.training import TrainingConfig, fit

PAGE = {"X-Zlpr-Page": "1"}


@pytest.fixture(scope="module")
def models():
    return {"first": fitted.result(decode="threshold").model, "second": fitted.result("bce").model}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, models):
    target = tmp_path_factory.mktemp("models") / "first"
    models["first"].save(target)
    return target


@pytest.fixture(scope="module")
def reviews(models):
    part, test = fitted.parts()[2], fitted.parts()[1]
    return {name: review(model, part, test) for name, model in models.items()}


@pytest.fixture(scope="module")
def app(models, reviews, folder):
    service = Service(models, Limits(), {"first": folder, "second": folder})
    return create_app(service, reviews=reviews, may_save=True)


def test_models_say_what_the_page_needs(app, models):
    first, second = ask(app, "GET", "/models").json()["models"]
    assert first["labels"] == list(models["first"].label_names)
    assert first["cuts"] == [models["first"].decoder.threshold] * 12
    assert first["reviewed"]
    assert first["may_save"]
    assert second["name"] == "second"


def test_without_data_there_is_nothing_to_review(models):
    app = create_app(models)
    assert not ask(app, "GET", "/models").json()["models"][0]["reviewed"]
    answer = ask(app, "GET", "/review")
    assert answer.status_code == 400
    assert "DATA" in answer.json()["error"]


def test_the_review_is_json_and_its_arrays_have_the_lengths_it_says(app):
    about = ask(app, "GET", "/review").json()
    labels, samples = len(about["support"]), about["samples"]
    cells = ask(app, "GET", "/review/cells").content
    assert len(cells) == 4 * (labels + 1) + 9 * about["cells"] + 2 * samples
    errors = ask(app, "GET", "/review/errors").content
    assert len(errors) == 17 * about["errors"] + 4 * samples


def test_samples_come_with_text_truth_and_predictions(app, models):
    part = fitted.parts()[2]
    said = post(app, "/review/samples?model=first&other=second", {"samples": [3, 0]}).json()
    for sample, number in zip(said["samples"], (3, 0), strict=True):
        assert sample["text"] == part.texts[number]
        assert tuple(sample["true"]) == part.label_sets()[number]
        expected = [list(model.predict([part.texts[number]])[0]) for model in models.values()]
        assert sample["predicted"] == expected
    for bad in ([-1], [10**9], ["a"], list(range(201))):
        assert post(app, "/review/samples", {"samples": bad}).status_code == 400


def rows(answer):
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_errors_download_as_they_are_filtered(app, reviews):
    errors = reviews["first"].errors
    whole = rows(ask(app, "GET", "/review/errors.csv"))
    assert len(whole) == len(errors.samples)
    label = whole[0]["label"]
    query = f"/review/errors.csv?label={label}&kind={whole[0]['kind']}&least=0.5"
    for row in rows(ask(app, "GET", query)):
        assert row["label"] == label
        share = float(row["probability"])
        assert (share if row["kind"] == "spurious" else 1 - share) >= 0.499
    assert ask(app, "GET", "/review/errors.csv?label=no").status_code == 400
    assert ask(app, "GET", "/review/errors.csv?kind=no").status_code == 400


def test_a_cell_of_the_download_is_no_formula(models):
    names = models["first"].label_names
    data = Dataset.from_label_sets([{names[0]}], label_names=names, texts=["=HYPERLINK(1)"])
    app = create_app(models, reviews={"first": review(models["first"], data)})
    assert {row["text"] for row in rows(ask(app, "GET", "/review/errors.csv"))} == {
        "'=HYPERLINK(1)"
    }


def test_compare_finds_where_two_models_differ(app, models):
    part = fitted.parts()[2]
    first, second = (model.predict(part.texts) for model in models.values())
    said = ask(app, "GET", "/review/compare?model=first&other=second").json()
    assert said["differ"] == [i for i in range(len(part)) if set(first[i]) != set(second[i])]
    true = [set(labels) for labels in part.label_sets()]
    assert said["right"] == [
        sum(set(own[i]) == true[i] for i in said["differ"]) for own in (first, second)
    ]
    alone = ask(app, "GET", "/review/compare?model=first&other=first").json()
    assert alone["differ"] == []


def test_a_model_is_right_about_labels_that_the_other_lacks(models):
    part = fitted.parts()[2]
    narrow = fit(
        fitted.parts()[0].with_label_names(part.label_names[:8], unknown="drop"),
        fitted.parts()[1].with_label_names(part.label_names[:8], unknown="drop"),
        TrainingConfig(regularisation=0.3),
    ).model
    pair = {"narrow": narrow, "whole": models["first"]}
    reviews = {
        name: review(model, part.with_label_names(model.label_names, unknown="drop"))
        for name, model in pair.items()
    }
    app = create_app(Service(pair, Limits()), reviews=reviews)
    sets = [[set(labels) for labels in model.predict(part.texts)] for model in pair.values()]
    true = [set(labels) for labels in part.label_sets()]
    said = ask(app, "GET", "/review/compare?model=narrow&other=whole").json()
    right = [sum(own[i] == true[i] for i in said["differ"]) for own in sets]
    assert said["right"] == right
    assert right[0] < right[1]
    number = next(i for i in said["differ"] if sets[1][i] == true[i])
    asked = {"samples": [number]}
    shown = post(app, "/review/samples?model=narrow&other=whole", asked).json()["samples"][0]
    assert set(shown["true"]) == true[number]


def test_a_rule_is_saved_in_a_copy_with_its_own_figures(app, folder, reviews):
    before = (folder / "config.json").read_bytes()
    body = {"thresholds": 1.25, "name": "stricter"}
    answer = post(app, "/rule?model=first", body, headers=PAGE)
    assert answer.status_code == 200
    saved = load(answer.json()["saved"])
    part = fitted.parts()[2]
    scores = load(folder).predict_scores(part.texts)
    assert saved.decoder.threshold == 1.25
    np.testing.assert_array_equal(saved.decoder(scores), scores > 1.25)
    expected = reviews["first"].figures_with(saved, saved.decoder)
    assert saved.record.metrics.keys() == {"validation", "test"}
    assert saved.record.metrics["test"]["micro_f1"] == pytest.approx(expected["test"]["micro_f1"])
    assert saved.record.decision["by"] == "hand"
    card = (Path(answer.json()["saved"]) / "README.md").read_text()
    assert f"The figures are of the model as it is, on: {saved.record.decision['on']}." in card
    assert all(f"{note[1:]}." in card for note in reviews["first"].notes)
    assert "from before the last fit" not in card
    assert (folder / "config.json").read_bytes() == before
    again = post(app, "/rule?model=first", body, headers=PAGE)
    assert again.status_code == 400
    assert "is there already" in again.json()["error"]


def test_a_cut_per_label_is_saved_too(app):
    cuts = [0.1 * number for number in range(12)]
    body = {"thresholds": cuts, "name": "each"}
    saved = load(post(app, "/rule?model=first", body, headers=PAGE).json()["saved"])
    assert saved.decoder.thresholds == cuts


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../out", "a/b", "a\\b", ".hidden", "a\x00b", "x" * 101, "con.", " a"]
)
def test_no_name_leads_out_of_the_folder(app, folder, name):
    before = sorted(path.name for path in folder.parent.iterdir())
    content = json.dumps({"thresholds": 0.5, "name": name}).encode()
    headers = {**PAGE, "content-type": "application/json"}
    answer = ask(app, "POST", "/rule?model=first", content=content, headers=headers)
    assert answer.status_code == 400
    assert sorted(path.name for path in folder.parent.iterdir()) == before


@pytest.mark.parametrize(
    "thresholds",
    ["[0.5]", "NaN", "1e999", '"x"', "null", "true", '"0.5"', "[" + 11 * "0," + "true]"]
    + ["[" + 11 * "0," + cut + "]" for cut in ("NaN", "1e999", '"1"')],
)
def test_cuts_that_are_none_are_refused(app, folder, thresholds):
    content = f'{{"thresholds": {thresholds}, "name": "bad"}}'.encode()
    headers = {**PAGE, "content-type": "application/json"}
    answer = ask(app, "POST", "/rule?model=first", content=content, headers=headers)
    assert answer.status_code == 400
    assert not (folder.parent / "bad").exists()


def test_a_rule_is_measured_and_saved_beside_the_event_loop(app, monkeypatch):
    threads = []

    def notice(*_):
        threads.append(threading.current_thread())
        raise UserError("noticed")

    monkeypatch.setattr("zlpr.serving.review_routes.copy_with_rule", notice)
    body = {"thresholds": 0.5, "name": "aside"}
    assert post(app, "/rule?model=first", body, headers=PAGE).json()["error"] == "noticed"
    assert threads != [threading.main_thread()]


def test_only_the_page_may_save_and_only_where_allowed(app, models, reviews):
    body = {"thresholds": 0.5, "name": "stolen"}
    assert post(app, "/rule", body).status_code == 403
    foreign = {**PAGE, "origin": "http://evil.example"}
    assert post(app, "/rule", body, headers=foreign).status_code == 403
    locked = create_app(models, reviews=reviews)
    assert post(locked, "/rule", body, headers=PAGE).status_code == 403


def test_beside_a_model_with_a_hierarchy_all_label_sets_have_their_ancestors(models):
    flat, parents = models["first"], [[], [0], *[[]] * 10]
    above = copy.copy(flat)
    above.decoder = WithAncestors(flat.decoder, parents)
    part = fitted.parts()[2]
    data = {"flat": part, "above": part.with_ancestors(above.hierarchy)}
    both = {"flat": flat, "above": above}
    reviews = {name: review(model, data[name]) for name, model in both.items()}
    assert reviews["flat"].decided.nnz < reviews["above"].decided.nnz
    for one, other in (("flat", "above"), ("above", "flat")):
        app = create_app(both, reviews=reviews)
        said = ask(app, "GET", f"/review/compare?model={one}&other={other}").json()
        assert said["differ"] == []
    described = ask(app, "GET", "/models").json()["models"]
    assert [model["rule"] for model in described] == ["threshold", "threshold"]
    assert [model["adds_ancestors"] for model in described] == [False, True]

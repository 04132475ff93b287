import copy
import functools
import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from scipy import sparse

import zlpr
from tests import many_labels
from zlpr._digest import file_digest
from zlpr._errors import UserError
from zlpr.data import Dataset
from zlpr.decoding import TopK, WithAncestors
from zlpr.metrics import TopScores
from zlpr.training import TrainingConfig, fit


@functools.cache
def fitted():
    data = many_labels.make()
    train, validation = data.select(np.arange(200)), data.select(np.arange(200, 240))
    return fit(train, validation, TrainingConfig(model="shortlist", regularisation=0.1)).model


def test_the_candidates_scores_are_exact_and_the_others_none():
    model = fitted()
    texts = many_labels.make(20, seed=1).texts
    scores = model.predict_scores(texts)
    assert isinstance(scores, TopScores)
    features = model.read(texts)
    counts = np.diff(features.indptr)[:, None]
    dense = (features @ model.weight.T).toarray() + model.bias
    dense += model.length_weight * np.log(1 + counts)
    rows, places = np.nonzero(scores.labels >= 0)
    named = scores.labels[rows, places]
    np.testing.assert_allclose(scores.scores[rows, places], dense[rows, named], atol=1e-4)


def test_what_explains_a_score_adds_up_to_it():
    model = fitted()
    for explained in model.explain(many_labels.make(1, seed=1).texts[0]):
        parts = [part.value for part in explained.contributions]
        assert not explained.approximates
        assert explained.rest + explained.bias + sum(parts) == pytest.approx(explained.score)
        words = sum(word.value for word in explained.words)
        assert explained.bias + words == pytest.approx(explained.score, abs=1e-4)


@pytest.mark.parametrize("text", ["", "qqqq"])
def test_a_text_without_candidates_is_not_explained(text):
    with pytest.raises(UserError, match="no label is a candidate of this sample"):
        fitted().explain(text)


def test_an_ancestor_that_was_no_candidate_is_not_explained_by_a_score_that_it_lacks():
    model = copy.copy(fitted())
    model.candidates = 1
    text = many_labels.make(1, seed=1).texts[0]
    best = int(model.predict_scores([text]).labels[0, 0])
    other = (best + 1) % len(model.label_names)
    parents = [[other] if label == best else [] for label in range(len(model.label_names))]
    model.decoder = WithAncestors(TopK(1), parents)
    names = {model.label_names[best], model.label_names[other]}
    assert set(model.predict([text])[0]) == names
    (explained,) = model.explain(text)
    assert explained.label == model.label_names[best]
    with pytest.raises(UserError, match="predicted because a label below it is"):
        model.explain(text, model.label_names[other])


def test_what_n_grams_add_adds_up_to_the_scores_of_candidates():
    model = fitted()
    text = many_labels.make(20, seed=1).texts[3]
    scores = model.predict_scores([text])
    candidates = scores.labels[0][scores.labels[0] >= 0][:5].tolist()
    for number in candidates:
        (found,) = model.explain(text, model.label_names[number], top=3)
        assert found.approximates == ""
        score = float(scores.scores[0][scores.labels[0] == number][0])
        assert found.score == pytest.approx(score)
        words = sum(place.value for place in found.words)
        assert found.bias + words == pytest.approx(score, abs=1e-4)
        row, terms = model.read([text]).toarray()[0], model.text_features.terms
        own = row * model.weight[[number]].toarray()[0]
        largest = sorted(own.tolist(), key=abs, reverse=True)[:3]
        assert [part.value for part in found.contributions] == pytest.approx(largest)
        assert all(part.part in terms for part in found.contributions)


def test_a_shortlist_of_features_is_explained_by_them():
    data = many_labels.make()
    features = fitted().read(data.texts)
    of_features = Dataset(labels=data.labels, label_names=data.label_names, features=features)
    config = TrainingConfig(model="shortlist", regularisation=0.1)
    rows = np.arange(200), np.arange(200, 240)
    model = fit(*(of_features.select(part) for part in rows), config).model
    (found, *_) = model.explain(features[:1].toarray())
    total = found.bias + sum(part.value for part in found.contributions) + found.rest
    assert total == pytest.approx(found.score)
    assert all(part.part.startswith("feature ") for part in found.contributions)


def test_a_saved_model_predicts_the_same(tmp_path):
    texts = many_labels.make(20, seed=1).texts
    fitted().save(tmp_path / "model")
    loaded = zlpr.load(tmp_path / "model")
    assert loaded.predict(texts) == fitted().predict(texts)
    np.testing.assert_array_equal(
        loaded.predict_scores(texts).scores, fitted().predict_scores(texts).scores
    )
    assert loaded.predict([""]) == [()]
    assert loaded.predict([]) == []


@pytest.mark.parametrize(
    ("name", "damage", "fault"),
    [
        ("weight.indices", lambda a: a + 10**6, "weight is no sparse matrix"),
        ("weight.indptr", lambda a: a[::-1].copy(), "weight is no sparse matrix"),
        ("centroids.indices", lambda a: a - 10**6, "centroids is no sparse matrix"),
        ("centroids.data", lambda a: a * np.float32("nan"), "not a finite number"),
        ("bias", lambda a: a[1:], "the bias is not 40 finite numbers"),
    ],
)
def test_a_strangers_file_cannot_point_outside_its_arrays(tmp_path, name, damage, fault):
    folder = tmp_path / "model"
    fitted().save(folder)
    tensors = load_file(folder / "model.safetensors")
    tensors[name] = damage(tensors[name])
    save_file(tensors, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    config["files"]["model.safetensors"] = file_digest(folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=fault):
        zlpr.load(folder)


def test_a_model_from_before_lengths_counted_scores_as_it_did(tmp_path):
    model = copy.copy(fitted())
    model.length_weight = 0.0
    model.save(tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    settings = json.loads(config.read_text())
    del settings["length_weight"]
    config.write_text(json.dumps(settings))
    texts = many_labels.make(20, seed=1).texts
    found = zlpr.load(tmp_path / "model").predict_scores(texts).scores
    np.testing.assert_array_equal(found, model.predict_scores(texts).scores)
    config.write_text(json.dumps({**settings, "length_weight": "much"}))
    with pytest.raises(UserError, match="length_weight must be a finite number, got 'much'"):
        zlpr.load(tmp_path / "model")
    config.write_text(json.dumps({**settings, "length_weight": 0}))  # as other writers have 0.0
    found = zlpr.load(tmp_path / "model").predict_scores(texts).scores
    np.testing.assert_array_equal(found, model.predict_scores(texts).scores)


def test_features_that_a_matrix_names_twice_or_holds_as_zeros_count_as_they_are():
    model = copy.copy(fitted())
    features = model.read(many_labels.make(20, seed=1).texts)
    model.text_features = None
    halves = (np.repeat(features.data / 2, 2), np.repeat(features.indices, 2), 2 * features.indptr)
    twice = sparse.csr_array(halves, shape=features.shape)
    with_zeros = (features.tocoo() + 0 * features[::-1].tocoo()).tocsr()
    for same in (twice, with_zeros, features.toarray()):
        found, scores = model.predict_scores(same), model.predict_scores(features)
        np.testing.assert_array_equal(found.labels, scores.labels)
        np.testing.assert_allclose(found.scores, scores.scores, rtol=1e-5)
    assert twice.nnz == 2 * features.nnz  # and is left as it was


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"candidates": 10**30}, "candidates 1000"),
        ({"candidates": 0}, "candidates 0: expected"),
        ({"length_weight": 1e308}, r"length_weight 1e\+308: leaves single precision"),
    ],
)
def test_numbers_that_no_model_has_are_refused(tmp_path, changed, words):
    fitted().save(tmp_path / "m")
    path = tmp_path / "m" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    with pytest.raises(UserError, match=words):
        zlpr.load(tmp_path / "m")

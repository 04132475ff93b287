"""A shortlist over embeddings comes back from its folder with its own encoder, or not at all."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import zlpr
from tests import many_labels, tiny
from zlpr._digest import file_digest
from zlpr._errors import UserError
from zlpr.metrics import TopScores
from zlpr.models.embed_shortlist import EmbedShortlistModel, Projection
from zlpr.training import TrainingConfig, fit

pytestmark = pytest.mark.usefixtures("own_cache")

TEXTS = many_labels.make(20, seed=1).texts


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    (tmp_path / "encoder").mkdir()
    return tiny.bert(tmp_path / "encoder")


def trained(encoder: Path, **settings: Any) -> EmbedShortlistModel:
    settings = {"regularisation": 0.1, "embedding_scale": 0.7, "refit": False, **settings}
    data = many_labels.make()
    config = TrainingConfig(model=f"embed-shortlist:{encoder}", **settings)
    model = fit(data.select(np.arange(200)), data.select(np.arange(200, 240)), config).model
    assert isinstance(model, EmbedShortlistModel)
    return model


def scores_of(model: Any) -> TopScores:
    scores = model.predict_scores(TEXTS)
    assert isinstance(scores, TopScores)
    return scores


def test_scores_add_up_from_ngrams_and_embeddings(encoder: Path) -> None:
    model = trained(encoder)
    assert model.text_features is not None
    ngrams, vectors = model.text_features.transform(TEXTS), model.encoder.embed(TEXTS)
    seen = (vectors - model.projection.mean) @ model.projection.directions
    products = [
        (ngrams @ stage.left.T).toarray() + seen @ stage.right.T
        for stage in (model.centroids, model.weight)
    ]
    scores = scores_of(model)
    rows, places = np.nonzero(scores.labels >= 0)
    named = scores.labels[rows, places]
    lengths = model.length_weight * np.log1p(np.diff(ngrams.indptr))
    expected = (products[1] + model.bias)[rows, named] + lengths[rows]
    np.testing.assert_allclose(scores.scores[rows, places], expected, atol=1e-3)
    np.testing.assert_array_equal(scores.labels[:, 0], products[0].argmax(axis=1))


def test_words_and_the_embedding_add_up_to_the_score(encoder: Path) -> None:
    (explained, *_) = trained(encoder).explain(TEXTS[0])
    (beside,) = explained.elsewhere
    assert beside.part.startswith("the embedding by ")
    assert beside.value != 0
    words = sum(place.value for place in explained.words)
    assert explained.bias + words + beside.value == pytest.approx(explained.score, abs=1e-3)


@pytest.mark.parametrize("copy_encoder", [False, True])
def test_a_saved_model_scores_alike(encoder: Path, tmp_path: Path, copy_encoder: bool) -> None:
    model = trained(encoder, copy_encoder=copy_encoder)
    before = scores_of(model)
    model.save(tmp_path / "model")
    if copy_encoder:  # it needs neither the encoder nor its own first place
        shutil.rmtree(encoder)
        (tmp_path / "model").rename(tmp_path / "moved")
    loaded = zlpr.load(tmp_path / ("moved" if copy_encoder else "model"))
    after = scores_of(loaded)
    np.testing.assert_array_equal(before.labels, after.labels)
    np.testing.assert_allclose(before.scores, after.scores, atol=1e-5)
    assert loaded.predict(TEXTS) == model.predict(TEXTS)
    assert loaded.predict([]) == []


def test_another_encoder_in_its_place_is_refused(encoder: Path, tmp_path: Path) -> None:
    trained(encoder).save(tmp_path / "model")
    shutil.rmtree(encoder)
    encoder.mkdir()
    tiny.bert(encoder, seed=1)
    with pytest.raises(UserError, match="is not the encoder that this model was trained with"):
        zlpr.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("weight.embedded", lambda a: a[:, 1:].copy()),
        ("centroids.embedded", lambda a: a * np.float32("nan")),
        ("embedding.directions", lambda a: a[1:].copy()),
        ("embedding.mean", lambda a: a.astype(np.float64)),
    ],
)
def test_numbers_that_do_not_fit_each_other_are_refused(
    encoder: Path, tmp_path: Path, name: str, damage: Callable[[Any], Any]
) -> None:
    folder = tmp_path / "model"
    trained(encoder).save(folder)
    tensors = load_file(folder / "model.safetensors")
    tensors[name] = damage(tensors[name])
    save_file(tensors, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    config["files"]["model.safetensors"] = file_digest(folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=rf"{name} is not \(.*\) finite numbers"):
        zlpr.load(folder)


def test_a_projection_keeps_what_differs_most_at_a_length_of_one() -> None:
    rng = np.random.default_rng(0)
    spread = np.array([5.0, 0.01, 3.0, 0.02])
    embeddings = (rng.normal(size=(500, 4)) * spread + 7.0).astype(np.float32)
    seen = Projection.of(embeddings, most=2)(embeddings)
    assert seen.shape == (500, 2)
    np.testing.assert_allclose(seen.mean(axis=0), 0.0, atol=1e-4)
    assert np.square(seen).sum(axis=1).mean() == pytest.approx(1.0, rel=1e-4)
    distances = np.linalg.norm(seen[:-1] - seen[1:], axis=1)
    before = np.linalg.norm(embeddings[:-1] - embeddings[1:], axis=1)
    np.testing.assert_allclose(distances / before, (distances / before).mean(), rtol=0.01)


def test_embeddings_that_are_all_the_same_say_nothing() -> None:
    projection = Projection.of(np.ones((5, 3), dtype=np.float32))
    assert not projection(np.ones((2, 3), dtype=np.float32)).any()

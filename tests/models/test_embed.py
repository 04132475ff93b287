"""A model over embeddings comes back from its folder with its own encoder, or not at all."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import zlpr
from tests import tiny
from zlpr._errors import UserError
from zlpr.models.embed import EmbedModel
from zlpr.training import TrainingConfig, fit

pytestmark = pytest.mark.usefixtures("own_cache")

TEXTS = ["a horse by the harbour", "", "violet soup \ud83d", "nothing that was seen"]


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    (tmp_path / "encoder").mkdir()
    return tiny.bert(tmp_path / "encoder")


def trained(encoder: Path, **settings: object) -> EmbedModel:
    config = TrainingConfig(model=f"embed:{encoder}", regularisation=0.5, **settings)
    model = fit(tiny.texts(60, 0), tiny.texts(30, 1), config).model
    assert isinstance(model, EmbedModel)
    return model


def test_scores_add_up_from_ngrams_and_embeddings(encoder: Path) -> None:
    model = trained(encoder)
    assert model.text_features is not None
    ngrams, embeddings = model.text_features.transform(TEXTS), model.encoder.embed(TEXTS)
    cut = ngrams.shape[1]
    expected = ngrams @ model.weight[:cut] + embeddings @ model.weight[cut:] + model.bias
    np.testing.assert_allclose(model.predict_scores(TEXTS), expected, atol=1e-5)


def test_words_and_the_embedding_add_up_to_the_score(encoder: Path) -> None:
    model = trained(encoder)
    text, label = "the horse near bread", "animal"
    (explained,) = model.explain(text, label)
    column = model.label_names.index(label)
    cut = model.text_features.num_features
    (beside,) = explained.elsewhere
    expected = (model.encoder.embed([text]) @ model.weight[cut:, [column]]).item()
    assert beside.value == pytest.approx(expected, abs=1e-5)
    words = sum(place.value for place in explained.words)
    score = model.predict_scores([text])[0, column]
    assert explained.bias + words + beside.value == pytest.approx(score, abs=1e-4)
    assert not explained.approximates


@pytest.mark.parametrize("copy_encoder", [False, True])
def test_a_saved_model_scores_alike(encoder: Path, tmp_path: Path, copy_encoder: bool) -> None:
    model = trained(encoder, copy_encoder=copy_encoder)
    model.save(tmp_path / "model")
    if copy_encoder:  # it needs neither the encoder nor its own first place
        shutil.rmtree(encoder)
        (tmp_path / "model").rename(tmp_path / "moved")
    loaded = zlpr.load(tmp_path / ("moved" if copy_encoder else "model"))
    np.testing.assert_allclose(loaded.predict_scores(TEXTS), model.predict_scores(TEXTS), atol=1e-5)
    assert loaded.predict(TEXTS) == model.predict(TEXTS)


def test_another_encoder_in_its_place_is_refused(encoder: Path, tmp_path: Path) -> None:
    trained(encoder).save(tmp_path / "model")
    shutil.rmtree(encoder)
    encoder.mkdir()
    tiny.bert(encoder, seed=1)
    with pytest.raises(UserError, match="is not the encoder that this model was trained with"):
        zlpr.load(tmp_path / "model")


def other_weights(encoder: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = encoder / "model.safetensors"
    weights = {name: 1.5 * weight for name, weight in load_file(path).items()}
    save_file(weights, path, metadata={"format": "pt"})


def test_an_encoder_that_changes_before_its_first_text_is_refused(
    encoder: Path, tmp_path: Path
) -> None:
    trained(encoder).save(tmp_path / "model")
    early, late = zlpr.load(tmp_path / "model"), zlpr.load(tmp_path / "model")
    early.prepare()
    expected = early.predict_scores(TEXTS)
    other_weights(encoder)
    with pytest.raises(UserError, match="files have changed while it was in use"):
        late.predict_scores(["a text that no cache holds"])
    np.testing.assert_array_equal(early.predict_scores(TEXTS), expected)


def test_an_encoder_that_changes_before_it_is_copied_is_refused(
    encoder: Path, tmp_path: Path
) -> None:
    model = trained(encoder, copy_encoder=True)
    other_weights(encoder)
    with pytest.raises(UserError, match="files have changed while it was in use"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_files_that_are_written_to_with_the_same_content_are_no_others(
    encoder: Path, tmp_path: Path
) -> None:
    model = trained(encoder, copy_encoder=True)
    for path in encoder.iterdir():
        path.write_bytes(path.read_bytes())
    model.save(tmp_path / "model")


def test_a_moved_encoder_is_found_where_the_config_says(encoder: Path, tmp_path: Path) -> None:
    model = trained(encoder)
    model.save(tmp_path / "model")
    encoder.rename(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=r"write where it is now under 'encoder', 'path'"):
        zlpr.load(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    config["encoder"]["path"] = str(tmp_path / "elsewhere")
    path.write_text(json.dumps(config))
    assert zlpr.load(tmp_path / "model").predict(TEXTS) == model.predict(TEXTS)


def test_an_altered_copy_is_refused(encoder: Path, tmp_path: Path) -> None:
    trained(encoder, copy_encoder=True).save(tmp_path / "model")
    tokens = tmp_path / "model" / "encoder" / "tokenizer.json"
    tokens.write_text(tokens.read_text() + " ")
    with pytest.raises(UserError, match="altered since the model was saved"):
        zlpr.load(tmp_path / "model")


def test_a_file_beside_a_copy_cannot_slip_in(encoder: Path, tmp_path: Path) -> None:
    trained(encoder, copy_encoder=True).save(tmp_path / "model")
    (tmp_path / "model" / "encoder" / "modules.json").write_text(
        '[{"type": "models.Transformer", "path": ""}]'
    )
    with pytest.raises(UserError, match="is not the encoder that this model was trained with"):
        zlpr.load(tmp_path / "model")


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "encoder/../../x", "encoder//x"])
def test_a_listed_file_outside_the_folder_is_refused(
    encoder: Path, tmp_path: Path, name: str
) -> None:
    trained(encoder).save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    config["files"][name] = "0" * 64
    path.write_text(json.dumps(config))
    with pytest.raises(UserError, match="leaves the folder"):
        zlpr.load(tmp_path / "model")


def test_replacing_a_model_leaves_no_old_copy(encoder: Path, tmp_path: Path) -> None:
    trained(encoder, copy_encoder=True).save(tmp_path / "model")
    (tmp_path / "model" / "notes.txt").write_text("mine")
    trained(encoder).save(tmp_path / "model", overwrite=True)
    assert not (tmp_path / "model" / "encoder").exists()
    assert (tmp_path / "model" / "notes.txt").read_text() == "mine"

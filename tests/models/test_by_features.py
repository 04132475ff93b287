"""Every mode is saved, read back, and refused where its folder does not fit together."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import zlpr
from tests.models import fitted, modes
from zlpr._digest import file_digest
from zlpr._errors import UserError
from zlpr.training import TrainingConfig, fit


@pytest.mark.parametrize("mode", modes.MODES)
def test_a_model_of_features_scores_the_same_once_it_is_read_back(
    mode: str, tmp_path: Path
) -> None:
    result = modes.result(mode)
    features = modes.parts()[2].features
    result.model.save(tmp_path / "model")
    loaded = zlpr.load(tmp_path / "model")
    assert type(loaded) is type(result.model)
    expected = result.model.predict_scores(features)
    assert np.array_equal(loaded.predict_scores(features), expected)
    assert result.test is not None
    np.testing.assert_allclose(result.test.scores, expected, rtol=1e-5, atol=1e-5)
    assert f"`{result.model.kind}`" in (tmp_path / "model" / "README.md").read_text()
    with pytest.raises(UserError, match="5 features"):
        loaded.predict_scores(np.zeros((1, 4), dtype=np.float32))


@pytest.mark.parametrize("mode", modes.MODES)
def test_a_model_of_texts_learns_and_is_read_back(mode: str, tmp_path: Path) -> None:
    train, validation, test = fitted.parts(120)
    settings = {**modes.MODES[mode], "features": {"analyzer": "word", "max_features": 200}}
    settings |= {"subset_size": 3} if mode == "powerset" else {}
    config = TrainingConfig.of({"model": mode, "decode": "threshold", **settings})
    result = fit(train, validation, config, test=test)
    assert result.figures["test"]["ranking_loss"] < 0.35  # 0.5 by chance
    result.model.save(tmp_path / "model")
    loaded = zlpr.load(tmp_path / "model")
    assert loaded.predict(test.texts) == result.model.predict(test.texts)
    (explained, *_) = loaded.explain(test.texts[0], label=train.label_names[0])
    assert explained.label == train.label_names[0]


@pytest.mark.parametrize(
    ("mode", "tensor", "change", "fault"),
    [
        ("powerset", "0.weight", lambda x: x[:-1], "0.weight of shape"),
        ("powerset", "0.labels", lambda x: x + 9, "expected labels of 0 to 3, each once"),
        ("powerset", "0.labels", lambda x: x * 0, "expected labels of 0 to 3, each once"),
        ("powerset", "0.labels", lambda x: x + 0.5, "0.labels of float64, expected whole numbers"),
        ("powerset", "0.labels", lambda x: x[None], "0.labels of shape"),
        ("powerset", "0.bias", lambda x: x[None], "0.bias of shape"),
        ("powerset", "0.bias", lambda x: x.astype(int), "expected floating-point numbers"),
        ("powerset", "0.sets", lambda x: x * 2, "0.sets: expected 1 for each label that a set"),
        ("powerset", "0.sets", lambda x: x * 0, "0.sets: expected each label set once"),
        ("chain", "0.order", lambda x: x * 0, "not an order of the labels"),
        ("chain", "0.order", lambda x: x * 1.0, "0.order of float64, expected whole numbers"),
        ("chain", "0.bias", lambda x: x * np.nan, "0.bias holds a number that is not finite"),
        ("knn", "log_odds", lambda x: x[:, :-1], "log_odds of shape"),
        ("knn", "log_odds", lambda x: x[:1], "a table for 0 neighbours"),
        ("knn", "log_odds", lambda x: x[None], "log_odds of shape"),
        ("knn", "log_odds", lambda x: x[0, 0], "log_odds of shape"),
        ("knn", "log_odds", lambda x: x > 0, "log_odds of bool, expected floating-point numbers"),
        ("knn", "labels.indptr", lambda x: x * 1.0, "expected whole numbers"),
        ("knn", "labels.indptr", lambda x: x[None], "not of one dimension"),
        ("knn", "labels.data", lambda x: x * 100, "labels: expected 1 for each label of a sample"),
        ("knn", "labels.data", lambda x: -x, "labels: expected 1 for each label of a sample"),
        ("knn", "labels.data", lambda x: x / 2, "labels: expected 1 for each label of a sample"),
        ("knn", "labels.indices", lambda x: x * 0, "labels: expected 1 for .* each once"),
        ("knn", "scale", lambda x: x * 0, "scale: expected numbers above 0"),
    ],
)
def test_a_folder_that_does_not_fit_together_is_refused(
    mode: str, tensor: str, change, fault: str, tmp_path: Path
) -> None:
    folder = damaged(mode, {tensor: change}, tmp_path / "model")
    with pytest.raises(UserError, match=fault):
        zlpr.load(folder)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            {"0.sets": lambda x: x[:0], "0.weight": lambda x: x[:, :0], "0.bias": lambda x: x[:0]},
            "0.sets: expected at least one label set",
        ),
        (
            {
                "0.labels": lambda x: x[:3],
                "0.sets": lambda x: x[:1, :3],
                "0.weight": lambda x: x[:, :1],
                "0.bias": lambda x: x[:1],
            },
            "softmaxes: they know 3 of 4 labels",
        ),
    ],
)
def test_label_sets_that_say_nothing_of_a_label_are_refused(changes, fault, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=fault):
        zlpr.load(damaged("powerset", changes, tmp_path / "model"))


def damaged(mode: str, changes, folder: Path) -> Path:
    """A model's folder with other tensors, whose checksums are right."""
    modes.result(mode).model.save(folder)
    tensors = load_file(folder / "model.safetensors")
    tensors |= {name: np.ascontiguousarray(make(tensors[name])) for name, make in changes.items()}
    save_file(tensors, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    config["files"]["model.safetensors"] = file_digest(folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return folder

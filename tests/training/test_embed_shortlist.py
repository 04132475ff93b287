"""Many labels with an encoder: settings, encoders and data, resumed and refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from tests import many_labels
from zlpr._errors import UserError
from zlpr.cli.main import main
from zlpr.data import Dataset
from zlpr.training import Parts, TrainingConfig, fit, fitting
from zlpr.training.block_workers import InProcess
from zlpr.training.projected_features import SCALES
from zlpr.training.registry import trainer_of

pytestmark = pytest.mark.usefixtures("own_cache")

DATA, TEST = many_labels.make(named=True), many_labels.make(40, seed=1, named=True)
TRAIN, VALIDATION = DATA.select(np.arange(200)), DATA.select(np.arange(200, 240))


def settings(bert: Path, **more: Any) -> TrainingConfig:
    return TrainingConfig(model=f"embed-shortlist:{bert}", **more)


def test_it_learns_many_labels_and_their_names(bert: Path) -> None:
    result = fit(TRAIN, VALIDATION, settings(bert), test=TEST)
    assert result.figures["test"]["micro_f1"] > 0.9
    assert result.figures["test"]["precision_at_1"] > 0.95
    assert result.chosen["embedding_scale"] in SCALES
    without = fit(TRAIN, VALIDATION, settings(bert, label_texts="no"), test=TEST)
    assert not np.array_equal(result.test.scores.scores, without.test.scores.scores)  # type: ignore[union-attr]


def test_the_scores_that_validation_saw_are_the_models_own(bert: Path) -> None:
    result = fit(TRAIN, VALIDATION, settings(bert, refit=False, embedding_scale=0.4))
    assert result.chosen["embedding_scale"] == 0.4
    seen: Any = result.validation.scores
    again: Any = result.model.predict_scores(VALIDATION.texts)
    np.testing.assert_array_equal(seen.labels, again.labels)
    np.testing.assert_allclose(seen.scores, again.scores, rtol=1e-4, atol=1e-4)


def test_a_killed_run_goes_on_to_the_same_bits(bert: Path, tmp_path: Path) -> None:
    config = settings(bert)
    whole = fit(TRAIN, VALIDATION, config)

    def die(line: Any) -> None:
        if line.metric is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(TRAIN, VALIDATION, config, checkpoint=tmp_path / "run", progress=die)
    resumed = fit(TRAIN, VALIDATION, config, checkpoint=tmp_path / "run")
    assert [line.loss for line in resumed.history] == [line.loss for line in whole.history]
    scores: list[Any] = [one.model.predict_scores(TEST.texts) for one in (resumed, whole)]
    np.testing.assert_array_equal(scores[0].scores, scores[1].scores)


def test_features_and_bad_settings_are_refused(bert: Path, tmp_path: Path) -> None:
    features = sparse.csr_array(np.eye(240, dtype=np.float32))
    given = Dataset(labels=DATA.labels, label_names=DATA.label_names, features=features)
    with pytest.raises(UserError, match="reads texts, and this data holds features"):
        fit(given, given, settings(bert))
    with pytest.raises(UserError, match=r"embedding_scale -1: expected a number above 0"):
        settings(bert, embedding_scale=-1)
    with pytest.raises(UserError, match="expected embed-shortlist:NAME_OR_PATH"):
        TrainingConfig(model="embed-shortlist")
    with pytest.raises(UserError, match=r"shortlist has no setting 'copy_encoder' \(embed, embed-"):
        TrainingConfig(model="shortlist", copy_encoder=True)
    with pytest.raises(UserError, match="smooth and convex, which focal is not"):
        settings(bert, loss="focal")
    (fault,) = trainer_of("embed-shortlist:x").faults(f"embed-shortlist:{tmp_path}")
    assert f"no weights in {tmp_path}" in fault


def test_several_machines_are_refused(bert: Path) -> None:
    with pytest.raises(UserError, match=r"is trained by one process; .* model shortlist$"):
        fit(TRAIN, VALIDATION, settings(bert), workers=InProcess(2))


def test_a_dense_layer_that_does_not_fit_names_this_in_its_place(
    bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = []
    monkeypatch.setattr(fitting, "require_memory", lambda what, needed, way: ways.append(way))
    parts = Parts(TRAIN, VALIDATION, None, {"train": TRAIN}, "published", 0)
    for model in (f"embed:{bert}", f"embed-shortlist:{bert}"):
        config = TrainingConfig(model=model)
        inputs = trainer_of(model).read(TRAIN, VALIDATION, config)
        fitting.check_memory(parts, config, inputs)
    assert ways[0].endswith(f"or the model embed-shortlist:{bert}, which scores candidates")
    assert "candidates" not in ways[1]


def test_every_command_takes_its_model(
    bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, model = str(tmp_path / "rows.jsonl"), str(tmp_path / "model")
    rows = zip(TRAIN.texts or [], TRAIN.label_sets(), strict=True)
    lines = [json.dumps({"text": text, "labels": labels}) for text, labels in rows]
    Path(data).write_text("\n".join(lines))
    flags = ["--embedding-scale", "0.5", "--regularisation", "0.1", "--copy-encoder"]
    train = ["train", data, "--model", f"embed-shortlist:{bert}", *flags, "--out", model]
    assert main(train) == 0
    said = capsys.readouterr().out
    assert "embedding_scale 0.5" in said
    text = (TRAIN.texts or [""])[0]
    for command in (["predict", model, text], ["evaluate", model, data], ["explain", model, text]):
        assert main(command) == 0
    said = capsys.readouterr().out
    assert "the embedding by" in said
    assert main(["models"]) == 0
    assert "embed-shortlist:NAME_OR_PATH" in capsys.readouterr().out
    assert main(["export", model, "--out", str(tmp_path / "model.onnx")]) != 0
    assert "'embed-shortlist' cannot be exported" in capsys.readouterr().err
    assert main([*train, "--overwrite", "--ray", "local"]) != 0
    assert "is trained by one process" in capsys.readouterr().err

"""Embeddings beside n-grams: chosen on validation, trained by any loss, resumed, compared."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import tiny
from zlpr import decoding
from zlpr._errors import UserError
from zlpr.data.splits import units_of
from zlpr.losses import registry
from zlpr.models.card import refit_note
from zlpr.training import TrainingConfig, cross_fitting, fit
from zlpr.training.cross_fitting import fit_layer_in_folds
from zlpr.training.embedded_features import embed_parts
from zlpr.training.registry import trainer_of
from zlpr.training.regularisation import TO_ITS_END
from zlpr.training.solvers import choose_solver

pytestmark = pytest.mark.usefixtures("own_cache")

TRAIN, VALIDATION, TEST = tiny.texts(120, 0), tiny.texts(60, 1), tiny.texts(60, 2)


def test_embeddings_are_as_long_as_the_scale_says_and_centred(bert: Path) -> None:
    config = TrainingConfig(model=f"embed:{bert}", embedding_scale=2.0)
    features = embed_parts(TRAIN, VALIDATION, config)
    embeddings = features.train.right
    np.testing.assert_allclose(embeddings.mean(0), 0.0, atol=1e-5)
    assert np.square(embeddings).sum(1).mean() == pytest.approx(4.0, rel=1e-4)
    half = features.at(1.0)
    np.testing.assert_allclose(half.train.right, embeddings / 2.0, atol=1e-6)
    assert half.train.left is features.train.left


def test_weights_found_at_a_scale_score_texts_as_they_are(bert: Path) -> None:
    config = TrainingConfig(model=f"embed:{bert}", regularisation=0.5, refit=False)
    result = fit(TRAIN, VALIDATION, config, test=TEST)
    np.testing.assert_allclose(
        result.model.predict_scores(VALIDATION.texts), result.validation.scores, atol=1e-4
    )


def test_the_scale_that_validation_chose_is_at_least_as_good_as_the_usual_one(bert: Path) -> None:
    result = fit(TRAIN, VALIDATION, TrainingConfig(model=f"embed:{bert}", loss="bce", folds=0))
    lines = [line for line in result.history if not line.stage.endswith(TO_ITS_END)]
    tried = {line.stage: line.metric for line in lines if line.metric is not None}
    scales = {stage.partition("embeddings at ")[2] for stage in tried}
    assert {"0.7", "1.4", "0.35"} <= scales or len(scales) >= 3
    chosen = result.chosen
    stage = f"regularisation {chosen['regularisation']:.3g}, embeddings at "
    best = tried[stage + f"{chosen['embedding_scale']:.3g}"]
    assert best == max(value for value in tried.values() if value is not None)


def test_a_given_scale_and_regularisation_are_one_fit(bert: Path) -> None:
    config = TrainingConfig(model=f"embed:{bert}", regularisation=1.0, embedding_scale=0.5, folds=0)
    result = fit(TRAIN, VALIDATION, config)
    assert result.chosen == {"regularisation": 1.0, "embedding_scale": 0.5}
    assert len([line for line in result.history if line.metric is not None]) == 1


@pytest.mark.parametrize("loss", ["warp", "dice1"])
def test_losses_in_batches_and_not_convex_train_too(bert: Path, loss: str) -> None:
    config = TrainingConfig(
        model=f"embed:{bert}", loss=loss, regularisation=0.1, embedding_scale=1.0
    )
    assert fit(TRAIN, VALIDATION, config, test=TEST).figures["test"]["micro_f1"] > 0.5


def test_a_rule_that_reads_features_reads_both_kinds(bert: Path, tmp_path: Path) -> None:
    import zlpr

    config = TrainingConfig(model=f"embed:{bert}", decode="feature_count", regularisation=0.5)
    model = fit(TRAIN, VALIDATION, config).model
    model.save(tmp_path / "model")
    assert zlpr.load(tmp_path / "model").predict(TEST.texts) == model.predict(TEST.texts)


def test_a_killed_run_ends_as_an_unbroken_one(bert: Path, tmp_path: Path) -> None:
    config = TrainingConfig(model=f"embed:{bert}", folds=0)
    whole = fit(TRAIN, VALIDATION, config)

    def killed(line: object) -> None:
        if getattr(line, "metric", None) is not None:
            seen.append(line)
        if len(seen) == 4:
            raise KeyboardInterrupt

    seen: list[object] = []
    with pytest.raises(KeyboardInterrupt):
        fit(TRAIN, VALIDATION, config, checkpoint=tmp_path / "state", progress=killed)
    resumed = fit(TRAIN, VALIDATION, config, checkpoint=tmp_path / "state")
    assert resumed.chosen == whole.chosen
    np.testing.assert_array_equal(
        resumed.model.predict_scores(TEST.texts), whole.model.predict_scores(TEST.texts)
    )


def test_few_samples_are_each_scored_by_a_fit_that_had_not_seen_them(bert: Path) -> None:
    config = TrainingConfig(model=f"embed:{bert}", regularisation=0.5, embedding_scale=1.0)
    few = TRAIN.select(range(30))
    result = fit(few, VALIDATION.select(range(10)), config, test=TEST)
    assert result.chosen["folds"] == 5
    assert result.validation.scores.shape == (40, len(tiny.LABELS))
    assert result.validation.features is not None
    assert result.validation.features.shape[0] == 40
    seen = result.model.predict_scores(few.texts)
    assert np.abs(seen - result.validation.scores[:30]).max() > 0.01
    (note,) = refit_note(result.model.record)
    assert "in 5 folds, each scored by a fit that had not seen it" in note


def test_no_sample_of_folds_has_been_seen_with_its_own_set(bert: Path) -> None:
    """As training labels the sets of the samples in the folds would all be known, each its own."""
    settings: Any = {"regularisation": 0.5, "embedding_scale": 1.0, "decode": "label_sets"}
    config = TrainingConfig(model=f"embed:{bert}", **settings)
    train = TRAIN.select(range(90))
    result = fit(train, VALIDATION, config)
    truth, scores = result.validation.truth, result.validation.scores
    alone = decoding.create("label_sets").fit(truth, scores, empty="sklearn")
    assert result.choice.rule.to_config() == alone.to_config()
    link = registry.info("zlpr").link_scale or 1.0
    units = units_of(train, VALIDATION)
    held = decoding.choose_probabilities(truth, scores, link_scale=link, groups=units)
    assert result.probabilities.log_loss == held.log_loss


@pytest.mark.parametrize("size", [1, 3])
def test_folds_of_one_sample_or_group_leave_each_out_in_turn(bert: Path, size: int) -> None:
    settings = {"regularisation": 0.5, "embedding_scale": 1.0, "loss": "bce"}
    groups = [f"case {row // size}" for row in range(12)]
    both = replace(TRAIN.select(range(12)), groups=groups)
    train, validation = both.select(range(9)), both.select(range(9, 12))
    config = TrainingConfig(model=f"embed:{bert}", folds=99, **settings)
    features = embed_parts(train, validation, config)
    layer = fit_layer_in_folds(train, validation, config, features, 99)
    kept = [row for row in range(12) if groups[row] != groups[4]]
    matrix = features.at(1.0).both
    solver = choose_solver(matrix[kept], both.labels[kept], config)
    weight, bias = solver.model(solver.solve(solver.start(), 0.5).parameters)
    np.testing.assert_allclose(
        layer.validation_scores[4], (matrix[[4]] @ weight + bias)[0], atol=1e-4
    )


def test_features_are_refused_and_so_are_bad_settings(bert: Path) -> None:
    with pytest.raises(UserError, match="embedding_scale 0"):
        TrainingConfig(model=f"embed:{bert}", embedding_scale=0.0)
    with pytest.raises(UserError, match="folds 1: expected 0, or at least 2"):
        TrainingConfig(model=f"embed:{bert}", folds=1)
    with pytest.raises(UserError, match="leave refit on"):
        TrainingConfig(model=f"embed:{bert}", folds=5, refit=False)
    with pytest.raises(UserError, match="expected embed:NAME_OR_PATH"):
        TrainingConfig(model="embed")
    with pytest.raises(UserError, match="max_length 4096: this model reads at most 64"):
        fit(TRAIN, VALIDATION, TrainingConfig(model=f"embed:{bert}", max_length=4096))


def test_what_is_wrong_with_an_encoder_is_known_before_any_data(bert: Path, tmp_path: Path) -> None:
    trainer = trainer_of("embed:x")
    assert trainer.faults(f"embed:{bert}") == []
    (fault,) = trainer.faults(f"embed:{tmp_path}")
    assert "no weights in" in fault
    assert trainer.fingerprint(f"embed:{bert}")


def test_samples_of_a_unit_are_left_out_together() -> None:
    units = np.array([0, 1, 2, 0, 3, 2, 4] * 3)
    fold = cross_fitting.assign_folds(units, 3, 0)
    assert all(len(set(fold[units == unit])) == 1 for unit in range(5))
    assert set(fold) == {0, 1, 2}
    with pytest.raises(UserError, match="all samples are of one group or copies of one sample"):
        cross_fitting.assign_folds(np.array([0, 0]), 2, 0)


def test_copies_are_scored_by_a_fit_that_had_seen_none_of_them(bert: Path) -> None:
    """The score of a copy is that of the other where the same fit lacked both."""
    train = TRAIN.select(range(24))
    validation = train.select(range(23, -1, -1))
    config = TrainingConfig(model=f"embed:{bert}", regularisation=0.1, embedding_scale=0.5)
    features = embed_parts(train, validation, config)
    scores = fit_layer_in_folds(train, validation, config, features, 5).validation_scores
    np.testing.assert_array_equal(scores[:24], scores[:23:-1])

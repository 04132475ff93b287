"""From data and settings to a fitted model: train, fit decoding and calibration, judge, record."""

import dataclasses
import logging
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zlpr import decoding
from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr._memory import require_memory
from zlpr.data import Dataset
from zlpr.data.alike import with_same_inputs
from zlpr.metrics import LabelFrequencies, TopScores, label_report
from zlpr.models.base import FittedModel, TrainingRecord
from zlpr.models.feature_config import VIEWS
from zlpr.models.registry import kind_of
from zlpr.training.base import (
    ModelTrainer,
    ProgressCallback,
    ReadInputs,
    Trained,
    TrainingProgress,
    TriedCallback,
)
from zlpr.training.checkpoints import candidate as candidate_folder
from zlpr.training.checkpoints import describe_run
from zlpr.training.config import AUTO, TrainingConfig
from zlpr.training.judging import (
    ScoredPart,
    ancestors_of,
    hierarchy_of,
    judge,
    scored_validation,
)
from zlpr.training.loss import NotFiniteError, create_loss
from zlpr.training.naming import count_of
from zlpr.training.parts import Parts
from zlpr.training.registry import trainer_of
from zlpr.training.selection import (
    choose_probabilities,
    choose_rule,
    is_better,
    validation_metric,
)

if TYPE_CHECKING:
    from zlpr.training.block_workers import BlockWorkers

_log = logging.getLogger("zlpr.training")


@dataclass(frozen=True)
class FitResult:
    """A fitted model and how it came to be.

    Attributes:
        model: ready to predict, with its `decoder`, its `calibrator` and the record of its figures.
        history: what happened, in order.
        chosen: what validation chose, such as {"regularisation": 0.3} or {"epoch": 4}.
        choice: the decoding rule before any floor, and what it was chosen from.
        probabilities: what makes probabilities of scores, and what it was chosen from.
        figures: by part, as decoded; the last part's at the loss's own bound too.
        validation: the validation part as the model scored it.
        test: the test part; None without one.
        num_features: columns of what the model makes of a sample, or its width.
        trainings: how many trainings the choice took, the last one on both parts among them.
        seconds: of the whole fit, features, decoding and calibration included, judging not.
    """

    model: FittedModel
    history: tuple[TrainingProgress, ...]
    chosen: Mapping[str, float]
    choice: decoding.Choice
    probabilities: decoding.ProbabilityChoice
    figures: dict[str, dict[str, float]]
    validation: ScoredPart
    test: ScoredPart | None
    num_features: int
    trainings: int
    seconds: float


def fit(
    train: Dataset,
    validation: Dataset,
    config: TrainingConfig,
    *,
    test: Dataset | None = None,
    checkpoint: Path | None = None,
    progress: ProgressCallback | None = None,
    workers: "BlockWorkers | None" = None,
) -> FitResult:
    """Train a model, fit its decoding rule and its calibrator on validation, and judge it.

    Args:
        train: what the weights are fitted to.
        validation: what regularisation, checkpoint, decoding and calibration are chosen on; the
            same labels in the same order as `train`.
        config: everything that decides what is computed.
        test: what the model is judged on at the end, and nothing is chosen on.
        checkpoint: folder where a killed run leaves its state and a new one resumes from;
            None keeps no state.
        progress: called with each step as it happens.
        workers: among whom the training is divided, for the same result, such as
            `zlpr.integrations.ray.RayBlockWorkers`; for the model shortlist.

    Returns:
        The model, ready to predict and to save with its figures, and how it came to be.

    Raises:
        UserError: the parts have other labels, or inputs of another kind or width; or the settings
            do not go with the data.
    """
    given = {"train": train, "validation": validation, "test": test}
    sources = {name: part for name, part in given.items() if part is not None}
    for name, part in sources.items():
        check_same_labels(train, part, name)
    check_settings(train, config)
    held = dict(zip(sources, with_same_inputs([*sources.values()], [*sources]), strict=True))
    parts = Parts(
        held["train"], held["validation"], held.get("test"), sources, "published", config.seed
    )
    return fit_parts(parts, config, checkpoint=checkpoint, progress=progress, workers=workers)


def fit_parts(
    parts: Parts,
    config: TrainingConfig,
    *,
    inputs: ReadInputs | None = None,
    test_inputs: object = None,
    checkpoint: Path | None = None,
    progress: ProgressCallback | None = None,
    tried: TriedCallback | None = None,
    workers: "BlockWorkers | None" = None,
) -> FitResult:
    """As `fit`, on divided data.

    Args:
        parts: from `divide` or `combine`.
        config: everything that decides what is computed.
        inputs: what the kind's trainer reads of training and validation part, to share it between
            runs; None reads it here.
        test_inputs: what `inputs.read` gave for the test part, to share it as well.
        checkpoint: as in `fit`.
        progress: as in `fit`.
        tried: called with each fit from which validation picks, before any is made once more on
            both parts; where nothing is to be picked, with the one.
        workers: as in `fit`.
    """
    started = time.perf_counter()
    check_data(parts, config)
    trainer = trainer_of(config.model, workers)
    inputs = inputs or trainer.read(parts.train, parts.validation, config)
    check_memory(parts, config, inputs, workers)
    try:
        if config.choose and not trainer.chooses:
            trained = _train_all(trainer, parts, config, inputs, checkpoint, progress, tried)
        else:
            trained = _train(trainer, parts, config, inputs, checkpoint, progress, tried)
            if tried is not None and not trainer.chooses:
                tried(trained)
    except NotFiniteError:
        if checkpoint is not None:  # there is nothing to go on from, for this run or another
            shutil.rmtree(checkpoint, ignore_errors=True)
        raise
    model = trained.model
    parents, ancestors = hierarchy_of(parts.train)
    validation = scored_validation(parts, trained)
    _doubt_threshold(config, validation)
    choice = choose_rule(config, parts.train.labels, validation)
    probabilities = choose_probabilities(config.scored_as, parts.train.labels, validation)
    model.calibrator = probabilities.probabilities
    model.decoder = decoding.by_hand(
        choice.rule, model.calibrator, min_probability=config.min_probability
    )
    if parents is not None:
        model.decoder = decoding.WithAncestors(model.decoder, parents)
    seconds = time.perf_counter() - started
    judged = {"validation": validation}
    if parts.test is not None:
        read = inputs.read(parts.test.inputs) if test_inputs is None else test_inputs
        scores, features = model.score(read), model.features(read)
        judged["test"] = ScoredPart(parts.test.labels, scores, features, ancestors)
    return _recorded(parts, config, trained, choice, probabilities, judged, seconds)


def _doubt_threshold(config: TrainingConfig, validation: ScoredPart) -> None:
    """Say of a given threshold that it parts no scores, so that nothing could be chosen by it."""
    if config.threshold is None:
        return
    held = validation.scores
    scores = held.scores if isinstance(held, TopScores) else held
    scores = scores[scores > -np.inf]  # of candidates, where a sample has fewer
    above = scores > config.threshold
    if above.any() and not above.all():
        return
    which = "all scores are above it" if above.any() else "no score is above it"
    _log.warning(
        "threshold %g: on the validation part %s, from %.3g to %.3g; every sample gets the same "
        "labels, and validation had nothing to choose by",
        config.threshold,
        which,
        scores.min(initial=np.inf),
        scores.max(initial=-np.inf),
    )


def _train(
    trainer: ModelTrainer,
    parts: Parts,
    config: TrainingConfig,
    inputs: ReadInputs,
    checkpoint: Path | None,
    progress: ProgressCallback | None,
    tried: TriedCallback | None = None,
) -> Trained:
    return trainer.train(
        parts.train,
        parts.validation,
        config,
        inputs,
        run={} if checkpoint is None else describe_run(parts, config),
        checkpoint=checkpoint,
        progress=progress,
        tried=tried,
    )


def _train_all(
    trainer: ModelTrainer,
    parts: Parts,
    config: TrainingConfig,
    inputs: ReadInputs,
    checkpoint: Path | None,
    progress: ProgressCallback | None,
    tried: TriedCallback | None,
) -> Trained:
    """Train with each of the loss's parameters, and keep the best on validation."""
    best: Trained | None = None
    best_value = 0.0
    history: list[TrainingProgress] = []
    trainings = 0
    ancestors = ancestors_of(parts.train)
    for number, candidate in enumerate(config.alternatives()):
        own = None if checkpoint is None else candidate_folder(checkpoint, number)
        trained = _train(trainer, parts, candidate, inputs, own, progress)
        history += trained.history
        trainings += trained.trainings
        labels = trained.validation_labels
        labels = parts.validation.labels if labels is None else labels
        value = validation_metric(config, labels, trained.validation_scores, ancestors)
        picked = {name: candidate.loss_params[name] for name in config.choose}
        trained = dataclasses.replace(trained, chosen={**trained.chosen, **picked})
        if tried is not None:
            tried(trained)
        if best is None or is_better(config.choice_metric, value, best_value):
            best, best_value = trained, value
    if best is None:
        raise AssertionError("there is at least one candidate")
    return dataclasses.replace(best, history=tuple(history), trainings=trainings)


def _recorded(
    parts: Parts,
    config: TrainingConfig,
    trained: Trained,
    choice: decoding.Choice,
    probabilities: decoding.ProbabilityChoice,
    judged: Mapping[str, ScoredPart],
    seconds: float,
) -> FitResult:
    """The figures, written into the model's record."""
    model = trained.model
    frequencies = LabelFrequencies.of(parts.train.labels)
    figures = judge(config.scored_as, model.decoder, judged, config.convention, frequencies)
    name, last = list(judged.items())[-1]
    report = label_report(last.truth, last.decided(model.decoder), empty=config.convention)
    model.record = TrainingRecord(
        loss=config.loss,
        loss_params={
            **config.loss_params,
            **{name: trained.chosen[name] for name in config.choose},
        },
        settings=config.to_dict(),
        chosen=trained.chosen,
        data=parts.describe(),
        metrics=figures,
        seconds=seconds,
        decision={**choice.to_dict(), "probabilities": probabilities.to_dict()},
        frequencies=frequencies,
        by_label=(name, report),
    )
    return FitResult(
        model=model,
        history=trained.history,
        chosen=trained.chosen,
        choice=choice,
        probabilities=probabilities,
        figures=figures,
        validation=judged["validation"],
        test=judged.get("test"),
        num_features=trained.num_features,
        trainings=trained.trainings,
        seconds=seconds,
    )


def check_data(parts: Parts, config: TrainingConfig) -> None:
    """Refuse data that no model can be fitted to, or chosen on, with a line that says why."""
    if len(parts.train) == 0:
        raise UserError(f"{parts.train.name or 'the data'}: the training part has no samples")
    if parts.train.texts is None and "features" not in kind_of(config.model).reads:
        raise UserError(f"model {config.model!r} reads texts, and this data holds features")
    parts.check()


BYTES_A_SCORE = 32
"""Of memory for each score of a part, with probabilities, ranks and what rules are fitted by."""


def check_memory(
    parts: Parts, config: TrainingConfig, inputs: Any, workers: "BlockWorkers | None" = None
) -> None:
    """Refuse a training that would not fit into memory, with numbers and a way out."""
    trainer, labels = trainer_of(config.model, workers), parts.train.num_labels
    needed = trainer.memory(parts.train, config, inputs)
    if trainer.scores_all_labels:
        judged = [len(part) for part in (parts.validation, parts.test) if part is not None]
        needed += BYTES_A_SCORE * labels * max(judged)
    others = list(trainer.takes_less) if parts.train.texts is not None else []
    if trainer.scores_all_labels:
        others.append(f"the model {trainer.for_many(config.model)}, which scores candidates")
    require_memory(
        f"training {config.model} on {counted(len(parts.train), 'sample')} with "
        f"{counted(labels, 'label')}",
        needed,
        f"take {' or '.join(others)}" if others else "take fewer samples or labels",
    )


def settings_for_texts(config: TrainingConfig) -> list[str]:
    """The settings for texts that were given: they do nothing where the data holds features."""
    features = getattr(config, "features", None)
    if features is None:
        return []
    ngrams = [
        entry.name
        for entry in dataclasses.fields(features)
        if getattr(features, entry.name) != entry.default
    ]
    return [*ngrams, *(["label_texts"] if getattr(config, "label_texts", "") == "yes" else [])]


def idle_runs(config: TrainingConfig, texts: Sequence[str]) -> tuple[list[str], str]:
    """Lengths of runs that were given of what these texts are not read by, and what they are."""
    from zlpr.models.features import guess_analyzer

    features = getattr(config, "features", None)
    if features is None:
        return [], ""
    read = guess_analyzer(texts) if features.analyzer == AUTO else features.analyzer
    others = [f"{view}_ngrams" for view in VIEWS if view not in read.split("+")]
    return [name for name in others if name in settings_for_texts(config)], read


def check_decision(train: Dataset, config: TrainingConfig) -> None:
    """Refuse a decision that needs the scores of more labels than there are."""
    if config.decode != AUTO and not trainer_of(config.model).scores_all_labels:
        possible = decoding.rules_of_scores(of_candidates=True)
        if decoding.create(config.decode).reads_all_labels:
            raise UserError(
                f"decode {config.decode!r} reads the scores of all labels, and model "
                f"{config.model} scores candidates; its rules are: {', '.join((AUTO, *possible))}"
            )
    num_scored = train.num_labels
    if not trainer_of(config.model).scores_all_labels:
        num_scored = count_of(getattr(config, "candidates", None), train.labels)
    if config.top is not None and config.top > num_scored:
        labels = counted(num_scored, "label")
        raise UserError(f"top {config.top}: there are scores of no more than {labels}")


def check_settings(train: Dataset, config: TrainingConfig) -> None:
    """Refuse settings that this data, or the loss, has no use for."""
    for candidate in config.alternatives() if config.choose else ():
        create_loss(candidate, train.labels)
    check_decision(train, config)
    given = settings_for_texts(config)
    if train.texts is None and given:
        raise UserError(f"{', '.join(given)}: for texts, and this data holds features")
    if train.texts is not None:
        idle, read = idle_runs(config, train.texts)
        if idle:
            raise UserError(
                f"{', '.join(idle)}: does nothing where texts are read by the analyzer {read}; "
                "leave it out, or name another analyzer"
            )


def check_same_labels(train: Dataset, part: Dataset, name: str = "validation") -> None:
    """Refuse parts whose columns mean different labels."""
    if train.label_names != part.label_names:
        unseen = sorted(set(part.label_names) - set(train.label_names))
        raise UserError(
            f"training has {counted(train.num_labels, 'label')}, {name} {part.num_labels}"
            + (f"; not in training: {', '.join(unseen[:5])}" if unseen else " in another order")
        )

"""From data and settings to a fitted model: train, then fit decoding and calibration."""

import importlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zlpr._errors import UserError
from zlpr.data import Columns, Dataset
from zlpr.models.base import TrainingRecord
from zlpr.training.config import FitResult, ProgressCallback, Trained, TrainingConfig
from zlpr.training.linear import ExtractedFeatures
from zlpr.training.selection import fit_calibrator, fit_decoder


def fit(
    train: Dataset,
    validation: Dataset,
    config: TrainingConfig,
    *,
    features: ExtractedFeatures | None = None,
    checkpoint: Path | None = None,
    progress: ProgressCallback | None = None,
) -> FitResult:
    """Train a model, then fit its decoding rule and its calibrator on validation.

    Args:
        train: what the weights are fitted to.
        validation: what regularisation, checkpoint, decoding and calibration are chosen on; the
            same labels in the same order as `train`.
        config: everything that decides what is computed.
        features: of the linear model, from `extract_features` on the same data, to share them
            between runs; None extracts them here.
        checkpoint: folder where a killed run leaves its state and a new one resumes from;
            None keeps no state.
        progress: called with each step as it happens.

    Returns:
        The model, ready to predict and to save, and how it came to be.
    """
    started = time.perf_counter()
    check_data(train, validation)
    trained = _train(train, validation, config, features, checkpoint, progress)
    model = trained.model
    model.decoder = fit_decoder(config, validation.labels, trained.validation_scores)
    model.calibrator = fit_calibrator(config.loss, validation.labels, trained.validation_scores)
    seconds = time.perf_counter() - started
    model.record = TrainingRecord(
        loss=config.loss,
        loss_params=dict(config.loss_params),
        settings=config.to_dict(),
        chosen=trained.chosen,
        data=describe(train, validation),
        seconds=seconds,
    )
    return FitResult(
        model=model,
        history=trained.history,
        chosen=trained.chosen,
        validation_scores=trained.validation_scores,
        num_features=trained.num_features,
        seconds=seconds,
    )


def _train(
    train: Dataset,
    validation: Dataset,
    config: TrainingConfig,
    features: ExtractedFeatures | None,
    checkpoint: Path | None,
    progress: ProgressCallback | None,
) -> Trained:
    """Call the trainer of the model's kind."""
    if config.model == "linear":
        from zlpr.training.linear import train_linear

        return train_linear(
            train, validation, config, features=features, checkpoint=checkpoint, progress=progress
        )
    transformer = importlib.import_module("zlpr.training.transformer")
    trained: Trained = transformer.train_transformer(
        train, validation, config, checkpoint=checkpoint, progress=progress
    )
    return trained


def check_data(train: Dataset, validation: Dataset) -> None:
    """Refuse data that no model can be fitted to, with a line that says why."""
    for part, data in (("training", train), ("validation", validation)):
        if len(data) == 0:
            raise UserError(f"{data.name or 'the data'}: the {part} part has no samples")
    if train.label_names != validation.label_names:
        unseen = sorted(set(validation.label_names) - set(train.label_names))
        raise UserError(
            f"training has {train.num_labels} labels, validation {validation.num_labels}"
            + (f"; not in training: {', '.join(unseen[:5])}" if unseen else " in another order")
        )


def describe(train: Dataset, validation: Dataset) -> Mapping[str, Any]:
    """What the model card says of the data."""
    width = None if train.features is None else int(train.features.shape[1])
    columns = train.columns or Columns(num_features=width)
    return {
        "name": train.name,
        "train_samples": len(train),
        "validation_samples": len(validation),
        "labels": train.num_labels,
        "labels_per_sample": float(train.labels.nnz / max(len(train), 1)),
        "columns": columns.to_json(),
    }

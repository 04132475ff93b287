"""How validation judges a model during training, the same for every kind of model."""

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlpr.training.config import TrainingConfig


def fit_decoder(config: TrainingConfig, y_true: Any, y_score: NDArray[np.float32]) -> Any:
    """The rule that `config.decode` names, fitted on validation for `config.decode_metric`."""
    decoding = importlib.import_module("zlpr.decoding")
    rule = decoding.create(decode_name(config))
    return rule.fit(y_true, y_score, metric=config.decode_metric)


def fit_calibrator(loss: str, y_true: Any, y_score: NDArray[np.float32]) -> Any:
    """Probabilities that start from the loss's own link, fitted on validation."""
    registry = importlib.import_module("zlpr.losses.registry")
    decoding = importlib.import_module("zlpr.decoding")
    scale = registry.info(loss).link_scale
    return decoding.Calibrator(link_scale=scale or 1.0).fit(y_true, y_score)


def decode_name(config: TrainingConfig) -> str:
    """The rule behind "auto": one threshold, or the number of labels for what only ranks."""
    registry = importlib.import_module("zlpr.losses.registry")
    if config.decode != "auto":
        return config.decode
    return "threshold" if registry.info(config.loss).decides else "label_count"


def validation_metric(config: TrainingConfig, y_true: Any, y_score: NDArray[np.float32]) -> float:
    """`config.metric` on validation; predictions are made by the rule that would be fitted now."""
    metrics = importlib.import_module("zlpr.metrics")
    predicted = fit_decoder(config, y_true, y_score)(y_score)
    figures = metrics.MetricSet(y_score.shape[1])
    figures.update(y_true, y_score, predicted)
    return float(figures.compute()[config.metric])


def is_better(metric: str, value: float, than: float) -> bool:
    """Whether a value of the metric beats another."""
    smaller = metric in {"ranking_loss", "hamming_loss", "one_error", "coverage_error"}
    return value < than if smaller else value > than

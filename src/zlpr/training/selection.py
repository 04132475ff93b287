"""How validation judges a model during training, the same for every kind of model."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlpr import decoding
from zlpr.losses import registry
from zlpr.metrics import MetricSet, info
from zlpr.training.config import TrainingConfig


def fit_decoder(config: TrainingConfig, y_true: Any, y_score: NDArray[np.float32]) -> decoding.Rule:
    """The rule that `config.decode` names, fitted on validation for `config.decode_metric`."""
    rule = decoding.create(decode_name(config))
    return rule.fit(y_true, y_score, metric=config.decode_metric, empty=config.convention)


def decode_name(config: TrainingConfig) -> str:
    """The rule behind "auto": one threshold, or the number of labels for what only ranks."""
    if config.decode != "auto":
        return config.decode
    return "threshold" if registry.info(config.loss).decides else "label_count"


def fit_calibrator(loss: str, y_true: Any, y_score: NDArray[np.float32]) -> decoding.Calibrator:
    """Probabilities that start from the loss's own link, fitted on validation."""
    scale = registry.info(loss).link_scale
    return decoding.Calibrator(link_scale=scale or 1.0).fit(y_true, y_score)


def validation_metric(config: TrainingConfig, y_true: Any, y_score: NDArray[np.float32]) -> float:
    """`config.metric` on validation; predictions are made by the rule that would be fitted now."""
    figures = MetricSet(y_score.shape[1], empty=config.convention)
    by_scores = info(config.metric).needs == "scores"
    predicted = None if by_scores else fit_decoder(config, y_true, y_score)(y_score)
    figures.update(y_true, y_score if by_scores else None, predicted)
    return float(figures.compute()[config.metric])


def is_better(metric: str, value: float, than: float) -> bool:
    """Whether a value of the metric beats another."""
    return info(metric).sign * value > info(metric).sign * than

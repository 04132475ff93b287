"""Training of the linear model: L-BFGS on the whole data, Adam in batches where that cannot be."""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import optimize

from zlpr.data import Dataset
from zlpr.models.base import TrainingRecord
from zlpr.models.features import FeatureConfig, Matrix, TextFeatures
from zlpr.models.linear import LinearModel
from zlpr.training.config import Progress, ProgressCallback, Trained, TrainingConfig
from zlpr.training.selection import is_better, validation_metric

DEFAULT_PATH = (3.0, 1.0, 0.3, 0.1)


@dataclass(frozen=True)
class ExtractedFeatures:
    """Features of one training and one validation part, to be shared between runs.

    Attributes:
        train: of shape (training samples, features).
        validation: of shape (validation samples, features).
        text_features: what made them from texts; None where the data came with features.
    """

    train: Matrix
    validation: Matrix
    text_features: TextFeatures | None


def extract_features(
    train: Dataset, validation: Dataset, config: FeatureConfig | None = None
) -> ExtractedFeatures:
    """Learn the features on the training texts alone and apply them to both parts."""
    if train.features is not None and validation.features is not None:
        return ExtractedFeatures(train.features, validation.features, None)
    text_features = TextFeatures(config)
    matrix = text_features.fit_transform(train.inputs)
    return ExtractedFeatures(matrix, text_features.transform(validation.inputs), text_features)


def train_linear(
    train: Dataset,
    validation: Dataset,
    config: TrainingConfig,
    *,
    features: ExtractedFeatures | None = None,
    checkpoint: Path | None = None,
    progress: ProgressCallback | None = None,
) -> Trained:
    """Fit the weights at one regularisation, or at the best of the default path."""
    features = features or extract_features(train, validation, config.features)
    path = DEFAULT_PATH if config.regularisation is None else (config.regularisation,)
    problem = _Problem(features.train, train.labels, config)
    history: list[Progress] = []
    best: tuple[float, float, NDArray[np.float64], NDArray[np.float32]] | None = None
    parameters = problem.start()
    for index, regularisation in enumerate(path):
        parameters, loss = problem.solve(parameters, regularisation)
        weight, bias = problem.unpack(parameters)
        scores = np.asarray(features.validation @ weight + bias, dtype=np.float32)
        value = validation_metric(config, validation.labels, scores)
        stage = f"regularisation {regularisation:g}"
        history.append(Progress(stage, index + 1, len(path), loss, value))
        if progress is not None:
            progress(history[-1])
        if best is None or is_better(config.metric, value, best[0]):
            best = (value, regularisation, parameters.copy(), scores)
    if best is None:  # the path is never empty
        raise AssertionError
    weight, bias = problem.unpack(best[2])
    record = TrainingRecord(loss=config.loss)
    model = LinearModel(train.label_names, weight, bias, features.text_features, record=record)
    return Trained(model, tuple(history), {"regularisation": best[1]}, best[3], weight.shape[0])


class _Problem:
    """The regularised training objective as a function of one flat vector."""

    def __init__(self, matrix: Matrix, labels: Any, config: TrainingConfig) -> None:
        registry = importlib.import_module("zlpr.losses.registry")
        self.matrix = matrix
        self.targets = torch.from_numpy(labels.toarray())
        self.shape = (matrix.shape[1], labels.shape[1])
        self.loss = registry.create(config.loss, **config.loss_params)

    def start(self) -> NDArray[np.float64]:
        """All weights zero."""
        return np.zeros((self.shape[0] + 1) * self.shape[1])

    def unpack(self, parameters: NDArray[np.float64]) -> tuple[Any, Any]:
        """Weight (features, labels) and bias (labels,)."""
        full = parameters.reshape(self.shape[0] + 1, self.shape[1]).astype(np.float32)
        return full[:-1], full[-1]

    def solve(
        self, parameters: NDArray[np.float64], regularisation: float
    ) -> tuple[NDArray[np.float64], float]:
        """Minimise `sum of losses + r/2 |W|^2` from a starting point."""
        samples = self.matrix.shape[0]

        def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
            weight, bias = self.unpack(flat)
            scores = torch.from_numpy(np.asarray(self.matrix @ weight + bias))
            scores.requires_grad_()
            value = self.loss(scores, self.targets)
            (gradient,) = torch.autograd.grad(value, scores)
            slopes = gradient.numpy()
            decay = regularisation / samples
            full = np.concatenate([self.matrix.T @ slopes + decay * weight, slopes.sum(0)[None]])
            penalty = 0.5 * decay * float((weight**2).sum())
            return float(value.detach()) + penalty, full.astype(np.float64).ravel()

        found = optimize.minimize(
            objective, parameters, jac=True, method="L-BFGS-B", options={"maxiter": 60}
        )
        return found.x, float(found.fun)

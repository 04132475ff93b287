"""Training of the linear model: features, solver, and a regularisation picked by validation."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from zlpr._errors import UserError
from zlpr.data import Dataset
from zlpr.models.base import TrainingRecord
from zlpr.models.features import FeatureConfig, Matrix, TextFeatures
from zlpr.models.linear import LinearModel
from zlpr.training.checkpoints import claim, describe_run
from zlpr.training.config import Progress, ProgressCallback, Trained, TrainingConfig
from zlpr.training.saved_path import Attempt, SavedPath
from zlpr.training.selection import is_better, validation_metric
from zlpr.training.solvers import Solver, choose_solver

# Values of the regularisation: the scale of loss and features first, so that a loss and twice that
# loss get the same model, then by this ratio in the direction in which validation improves.
RATIO = 10**0.5
MOST_VALUES = 6


@dataclass(frozen=True)
class ExtractedFeatures:
    """Features of one training and one validation part, to be shared between runs.

    Attributes:
        train: of shape (training samples, features).
        validation: of shape (validation samples, features).
        text_features: what made them from texts; None where the data came with features.
        scaling: what the data's own features were scaled by; None for texts.
    """

    train: Matrix
    validation: Matrix
    text_features: TextFeatures | None
    scaling: "Scaling | None" = None


@dataclass(frozen=True)
class Scaling:
    """Shift and scale per feature, by which regularisation treats given features alike.

    Dense features are brought to mean 0 and deviation 1; sparse ones, which stay sparse, to a
    largest absolute value of 1. A constant feature keeps its scale.
    """

    shift: NDArray[np.float32]
    scale: NDArray[np.float32]

    @classmethod
    def of(cls, features: Any) -> "Scaling":
        """What the training samples call for."""
        if _is_sparse(features):
            scale = np.asarray(abs(features).max(axis=0).toarray(), dtype=np.float64).ravel()
            shift = np.zeros_like(scale)
        else:
            scale = features.std(axis=0, dtype=np.float64)
            shift = features.mean(axis=0, dtype=np.float64)
        scale = np.where(scale > 0, scale, 1.0)
        return cls(shift.astype(np.float32), scale.astype(np.float32))

    def apply(self, features: Any) -> Any:
        """The features, shifted and scaled, of the same kind."""
        if _is_sparse(features):
            scaled: Any = sparse.csr_array(features, copy=True)
            scaled.data /= self.scale[scaled.indices]
            return scaled
        return np.asarray((features - self.shift) / self.scale, dtype=np.float32)

    def undo(
        self, weight: NDArray[np.float32], bias: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Weights that give the same scores on the features as they were."""
        plain = weight / self.scale[:, None]
        return plain, np.asarray(bias - self.shift @ plain, dtype=np.float32)


def extract_features(
    train: Dataset, validation: Dataset, config: FeatureConfig | None = None
) -> ExtractedFeatures:
    """Learn the features on the training part alone and apply them to both.

    Texts become TF-IDF n-grams. The data's own features are scaled, so that the regularisation
    treats them alike; a fitted model takes them as they were.
    """
    if train.texts is not None and validation.texts is not None:
        text_features = TextFeatures(config)
        matrix = text_features.fit_transform(train.texts)
        return ExtractedFeatures(matrix, text_features.transform(validation.texts), text_features)
    first, second = check_features(train.features), check_features(validation.features)
    if first.shape[1] != second.shape[1]:
        raise UserError(f"training has {first.shape[1]} features, validation {second.shape[1]}")
    scaling = Scaling.of(first)
    return ExtractedFeatures(scaling.apply(first), scaling.apply(second), None, scaling)


def check_features(features: Matrix | None) -> Any:
    """Finite float32 features, or a line that says what is wrong with them."""
    if features is None:
        raise UserError("one part of the data has texts, another features; give both the same")
    matrix: Any = features
    matrix = matrix.astype(np.float32) if matrix.dtype != np.float32 else matrix
    values = np.asarray(matrix.data if sparse.issparse(features) else matrix)
    if not np.isfinite(values).all():
        raise UserError("the features hold NaN or infinite values; the linear model takes numbers")
    return matrix


def train_linear(
    train: Dataset,
    validation: Dataset,
    config: TrainingConfig,
    *,
    features: ExtractedFeatures | None = None,
    checkpoint: Path | None = None,
    progress: ProgressCallback | None = None,
) -> Trained:
    """Fit the weights at one regularisation, or at the best that validation finds."""
    features = features or extract_features(train, validation, config.features)
    if checkpoint is not None:
        claim(checkpoint, describe_run(train, validation, config))
    solver = choose_solver(features.train, train.labels, config)
    search = _Search(solver, features.validation, validation.labels, config, progress, checkpoint)
    best = search.run()
    weight, bias = solver.model(search.saved.parameters)
    scores = np.asarray(features.validation @ weight + bias, dtype=np.float32)
    if features.scaling is not None:
        weight, bias = features.scaling.undo(weight, bias)
    record = TrainingRecord(loss=config.loss)
    return Trained(
        model=LinearModel(train.label_names, weight, bias, features.text_features, record=record),
        history=tuple(search.history),
        chosen={"regularisation": best.regularisation},
        validation_scores=scores,
        num_features=weight.shape[0],
    )


class _Search:
    """Fits along the regularisations, each starting from the best one before."""

    def __init__(
        self,
        solver: Solver,
        features: Matrix,
        labels: Any,
        config: TrainingConfig,
        progress: ProgressCallback | None,
        checkpoint: Path | None,
    ) -> None:
        self.solver, self.features, self.labels, self.config = solver, features, labels, config
        self.progress, self.checkpoint = progress, checkpoint
        self.saved = SavedPath(checkpoint)
        self.recalled = list(self.saved.attempts)
        self.history: list[Progress] = []
        self.started = time.perf_counter()

    def run(self) -> Attempt:
        """The best attempt: at the given regularisation, or up the hill of the metric."""
        if self.config.regularisation is not None:
            return self._try(self.config.regularisation, None)
        first = self._try(self.solver.balance(), None)
        best = self._climb(first, 1.0 / RATIO, MOST_VALUES - 1)
        if best is first:
            best = self._climb(first, RATIO, MOST_VALUES - 2)
        return best

    def _climb(self, best: Attempt, ratio: float, attempts: int) -> Attempt:
        """Multiply the regularisation by the ratio for as long as validation improves."""
        for _ in range(attempts):
            attempt = self._try(best.regularisation * ratio, best)
            if not is_better(self.config.metric, attempt.metric, best.metric):
                break
            best = attempt
        return best

    def _try(self, regularisation: float, best: Attempt | None) -> Attempt:
        """Fit at one regularisation, or recall that a killed run already has."""
        attempt = self.recalled.pop(0) if self.recalled else self._fit(regularisation, best)
        line = Progress(
            _stage(regularisation),
            attempt.steps,
            attempt.steps,
            attempt.loss,
            attempt.metric,
            attempt.seconds,
        )
        self.history.append(line)
        if self.progress is not None:
            self.progress(line)
        return attempt

    def _fit(self, regularisation: float, best: Attempt | None) -> Attempt:
        def report(step: int, total: int, loss: float) -> None:
            if self.progress is not None:
                seconds = time.perf_counter() - self.started
                stage = _stage(regularisation)
                self.progress(Progress(stage, step, total, loss, seconds=seconds))

        start = self.solver.start() if best is None else self.saved.parameters
        solution = self.solver.solve(start, regularisation, report, self.checkpoint)
        weight, bias = self.solver.model(solution.parameters)
        scores = np.asarray(self.features @ weight + bias, dtype=np.float32)
        metric = validation_metric(self.config, self.labels, scores)
        seconds = time.perf_counter() - self.started
        attempt = Attempt(regularisation, solution.loss, solution.steps, metric, seconds)
        improved = best is None or is_better(self.config.metric, metric, best.metric)
        self.saved.add(attempt, solution.parameters, is_best=improved)
        return attempt


def _stage(regularisation: float) -> str:
    return f"regularisation {regularisation:.3g}"


def _is_sparse(matrix: Any) -> bool:
    return bool(sparse.issparse(matrix))

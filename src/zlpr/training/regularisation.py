"""The path of regularisations: fits of the linear model, one of which validation picks."""

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from zlpr._errors import UserError
from zlpr.data import Dataset
from zlpr.models.base import TrainingRecord
from zlpr.models.features import Matrix
from zlpr.models.linear import LinearModel
from zlpr.training.base import ProgressCallback, Trained, TrainingProgress
from zlpr.training.checkpoints import claim
from zlpr.training.linear import LinearConfig
from zlpr.training.linear_checkpoint import Attempt, SavedAttempts
from zlpr.training.linear_features import ExtractedFeatures
from zlpr.training.loss import check_finite
from zlpr.training.selection import is_better, validation_metric
from zlpr.training.solvers import Solver, WholeData, choose_solver

if TYPE_CHECKING:
    from numpy.typing import NDArray

_log = logging.getLogger("zlpr.training")

# Values of the regularisation: the scale of loss and features first, so that a loss and twice that
# loss get the same model, then by this ratio in the direction in which validation improves.
RATIO = 10**0.5
MOST_VALUES = 10


def train_linear(
    train: Dataset,
    validation: Dataset,
    config: LinearConfig,
    features: ExtractedFeatures,
    *,
    run: Mapping[str, Any],
    checkpoint: Path | None = None,
    progress: ProgressCallback | None = None,
) -> Trained:
    """Fit the weights at one regularisation, or at the best that validation finds.

    With `config.refit` the model that is given has been trained once more, on both parts, at what
    was chosen; the scores of the validation part are those of the model that had not seen it.
    """
    solver = choose_solver(features.train, train.labels, config)
    if isinstance(solver, WholeData):
        _refuse_batches(config)
    if checkpoint is not None:  # once nothing is left to refuse
        claim(checkpoint, run)
    search = _Search(solver, features.validation, validation.labels, config, progress, checkpoint)
    best = search.run()
    if best.steps == 0:  # from a start without weights, for a fit that starts warm gains something
        _log.warning(
            "%s: no step from a model without weights lowered the loss, so that it has none and "
            "scores every sample alike",
            config.loss,
        )
    weight, bias = solver.model(search.saved.parameters)
    scores = search.best_scores
    if scores is None:  # the best fit is a killed run's
        scores = np.asarray(features.validation @ weight + bias, dtype=np.float32)
    if config.refit:
        labels = sparse.vstack([train.labels, validation.labels], format="csr")
        weight, bias = search.refit(choose_solver(features.both, labels, config), best)
    as_given = features.validation
    if features.scaling is not None:
        weight, bias = features.scaling.undo(weight, bias)
        as_given = features.read(validation.inputs)
    record = TrainingRecord(loss=config.loss)
    return Trained(
        model=LinearModel(
            train.label_names,
            weight,
            bias,
            features.text_features,
            record=record,
            means=features.means,
        ),
        history=tuple(search.history),
        chosen={"regularisation": best.regularisation},
        validation_scores=scores,
        num_features=weight.shape[0],
        validation_features=as_given,
    )


def _refuse_batches(config: LinearConfig) -> None:
    """A setting that a fit on the whole data would not look at is a misunderstanding."""
    for name in ("epochs", "batch_size", "learning_rate"):
        if getattr(config, name) is not None:
            raise UserError(
                f"{name}: {config.loss} is trained on the whole data at once, without batches; "
                "leave it out"
            )


class _Search:
    """Fits along the regularisations, of a convex loss each starting from the best one before."""

    def __init__(
        self,
        solver: Solver,
        features: Matrix,
        labels: Any,
        config: LinearConfig,
        progress: ProgressCallback | None,
        checkpoint: Path | None,
    ) -> None:
        self.solver, self.features, self.labels, self.config = solver, features, labels, config
        self.progress, self.checkpoint = progress, checkpoint
        self.saved = SavedAttempts(checkpoint)
        self.recalled = list(self.saved.attempts)
        self.history: list[TrainingProgress] = []
        self.best_scores: NDArray[np.float32] | None = None
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
            if not is_better(self.config.choice_metric, attempt.metric, best.metric):
                break
            best = attempt
        return best

    def refit(
        self, solver: Solver, best: Attempt
    ) -> "tuple[NDArray[np.float32], NDArray[np.float32]]":
        """Weights and biases on all that there is, from the best attempt's."""
        solution = solver.solve(self.saved.parameters, best.regularisation)
        check_finite(solution.loss, self.config)
        if solution.steps == 0:
            _log.warning(
                "%s: no step lowered the loss on training and validation part together; the "
                "weights are those of the training part alone",
                self.config.loss,
            )
        line = TrainingProgress(
            "training and validation part",
            solution.steps,
            solution.steps,
            solution.loss,
            seconds=time.perf_counter() - self.started,
            last_tenth=solution.last_tenth,
        )
        self.history.append(line)
        if self.progress is not None:
            self.progress(line)
        return solver.model(solution.parameters)

    def _try(self, regularisation: float, best: Attempt | None) -> Attempt:
        """Fit at one regularisation, or recall that a killed run already has."""
        attempt = self.recalled.pop(0) if self.recalled else self._fit(regularisation, best)
        line = TrainingProgress(
            _stage(regularisation),
            attempt.steps,
            attempt.steps,
            attempt.loss,
            attempt.metric,
            attempt.seconds,
            attempt.last_tenth,
        )
        self.history.append(line)
        if self.progress is not None:
            self.progress(line)
        return attempt

    def _fit(self, regularisation: float, best: Attempt | None) -> Attempt:
        def report(step: int, total: int, loss: float) -> None:
            check_finite(loss, self.config)
            if self.progress is not None:
                seconds = time.perf_counter() - self.started
                stage = _stage(regularisation)
                self.progress(TrainingProgress(stage, step, total, loss, seconds=seconds))

        # From an earlier fit a loss that is not convex may be caught in a poor minimum.
        warm = best is not None and self.solver.convex
        start = self.saved.parameters if warm else self.solver.start()
        solution = self.solver.solve(start, regularisation, report, self.checkpoint)
        check_finite(solution.loss, self.config)
        weight, bias = self.solver.model(solution.parameters)
        scores = np.asarray(self.features @ weight + bias, dtype=np.float32)
        metric = validation_metric(self.config, self.labels, scores)
        seconds = time.perf_counter() - self.started
        attempt = Attempt(
            regularisation, solution.loss, solution.steps, metric, seconds, solution.last_tenth
        )
        improved = best is None or is_better(self.config.choice_metric, metric, best.metric)
        if improved:
            self.best_scores = scores
        self.saved.add(attempt, solution.parameters, is_best=improved)
        return attempt


def _stage(regularisation: float) -> str:
    return f"regularisation {regularisation:.3g}"

"""The path of regularisations: fits of the linear model, one of which validation picks."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from zlpr._ancestors import Ancestors
from zlpr._errors import UserError
from zlpr.data import Dataset
from zlpr.models.base import FittedModel, TrainingRecord
from zlpr.models.features import Matrix
from zlpr.models.linear import LinearModel
from zlpr.training.base import ProgressCallback, Trained, TrainingProgress, TriedCallback
from zlpr.training.checkpoints import claim
from zlpr.training.judging import ancestors_of
from zlpr.training.linear import LinearConfig
from zlpr.training.linear_checkpoint import Attempt, SavedAttempts, SavedEpoch
from zlpr.training.linear_features import ExtractedFeatures
from zlpr.training.loss import check_finite
from zlpr.training.selection import is_better, validation_metric
from zlpr.training.solvers import Earlier, Solver, WholeData, choose_solver

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

_log = logging.getLogger("zlpr.training")

# Values of the regularisation: the scale of loss and features first, so that a loss and twice that
# loss get the same model, then by this ratio in the direction in which validation improves.
RATIO = 10**0.5
MOST_VALUES = 10
# Lengths of embeddings beside n-grams: from the usual one by this ratio, within these bounds.
RATIO_OF_SCALES = 2.0
LEAST_SCALE, MOST_SCALE = 0.1, 33.0
TO_ITS_END = ", to its end"


def train_linear(
    train: Dataset,
    validation: Dataset,
    config: LinearConfig,
    features: ExtractedFeatures,
    *,
    run: Mapping[str, Any],
    checkpoint: Path | None = None,
    progress: ProgressCallback | None = None,
    tried: TriedCallback | None = None,
) -> Trained:
    """Fit the weights at one regularisation, or at the best that validation finds.

    With `config.refit` the model that is given has been trained once more, on both parts, at what
    was chosen; the scores of the validation part are those of the model that had not seen it.
    """
    given = features.validation_as_given(validation.inputs)

    def build(layer: FittedLayer) -> LinearModel:
        return LinearModel(
            train.label_names,
            layer.weight,
            layer.bias,
            features.text_features,
            record=TrainingRecord(loss=config.loss),
            means=features.means,
        )

    layer = fit_layer(
        train,
        validation,
        config,
        features,
        run=run,
        checkpoint=checkpoint,
        progress=progress,
        tried=tried and (lambda layer: tried(layer.trained(build(layer), given))),
    )
    return layer.trained(build(layer), given)


@dataclass(frozen=True)
class FittedLayer:
    """Weights for the features as a model reads them, and how they were found.

    Attributes:
        weight: of shape (features, labels).
        bias: of shape (labels,).
        history: what happened, in order.
        chosen: what validation chose.
        validation_scores: of the model that had not seen the validation part.
        validation_labels: of the scored samples; None where they are the validation part.
    """

    weight: "NDArray[np.float32]"
    bias: "NDArray[np.float32]"
    history: tuple[TrainingProgress, ...]
    chosen: Mapping[str, float]
    validation_scores: "NDArray[np.float32]"
    validation_labels: Any = None

    def trained(self, model: FittedModel, validation_features: Matrix) -> Trained:
        """What `fit` goes on with."""
        return Trained(
            model=model,
            history=self.history,
            chosen=self.chosen,
            validation_scores=self.validation_scores,
            num_features=self.weight.shape[0],
            validation_features=validation_features,
            validation_labels=self.validation_labels,
            trainings=sum(not line.stage.endswith(TO_ITS_END) for line in self.history),
        )


def fit_layer(
    train: Dataset,
    validation: Dataset,
    config: LinearConfig,
    features: ExtractedFeatures,
    *,
    run: Mapping[str, Any],
    checkpoint: Path | None = None,
    progress: ProgressCallback | None = None,
    tried: "Callable[[FittedLayer], None] | None" = None,
) -> FittedLayer:
    """The weights of `train_linear`, whatever kind of model they are for."""
    search = Search(
        train.labels,
        validation.labels,
        config,
        features,
        progress,
        checkpoint,
        tried,
        ancestors_of(train),
    )
    if isinstance(search.solver, WholeData):
        _refuse_batches(config)
    if checkpoint is not None:  # once nothing is left to refuse
        claim(checkpoint, run)
    search.recall()
    best = search.run()
    features = features.at(best.scale)
    weight, bias = search.solver.model(search.saved.parameters)
    scores = search.best_scores
    if scores is None:  # the best fit is a killed run's
        scores = np.asarray(features.validation @ weight + bias, dtype=np.float32)
    if config.refit:
        labels = sparse.vstack([train.labels, validation.labels], format="csr")
        solver = choose_solver(features.both, labels, search.config)
        weight, bias = search.refit(solver, best, search.saved.parameters)
    return search.layer(best, weight, bias, scores)


def _refuse_batches(config: LinearConfig) -> None:
    """A setting that a fit on the whole data would not look at is a misunderstanding."""
    for name in ("epochs", "batch_size", "learning_rate"):
        if getattr(config, name) is not None:
            raise UserError(
                f"{name}: {config.loss} is trained on the whole data at once, without batches; "
                "leave it out"
            )


class Search:
    """Fits along the regularisations, of a convex loss each starting from the best one before.

    Where parameters of the loss are to be chosen, the first of them takes the whole path; the
    others are tried at the regularisation that it ends at, and the best goes on from there.

    On the way fits are rough where the solver has such and nobody asked for each of them, which
    tells them apart as well; the best is then fitted to its end.
    """

    fits_roughly = True

    def __init__(
        self,
        train_labels: Any,
        labels: Any,
        config: LinearConfig,
        features: ExtractedFeatures,
        progress: ProgressCallback | None,
        checkpoint: Path | None,
        tried: Callable[[FittedLayer], None] | None = None,
        ancestors: Ancestors | None = None,
    ) -> None:
        self.train_labels, self.labels, self.ancestors = train_labels, labels, ancestors
        self.candidates, self.open = config.alternatives(), tuple(config.choose)
        self.candidate, self.config = 0, self.candidates[0]
        self.progress, self.checkpoint, self.tried = progress, checkpoint, tried
        self.scale = features.usual_scale
        self.features = features.at(self.scale)
        self.solver = self._solver()
        self.history: list[TrainingProgress] = []
        self.best_scores: NDArray[np.float32] | None = None
        self.started = time.perf_counter()

    def _solver(self) -> Solver:
        features = self.features
        return choose_solver(features.train, self.train_labels, self.config, bases=features.bases)

    def recall(self) -> None:
        """Take up what a killed run has left."""
        self.saved = SavedAttempts(self.checkpoint)
        self.recalled = list(self.saved.attempts)

    def run(self) -> Attempt:
        """The best attempt: up the hill of the metric, in all that is not given."""
        given = self.config.regularisation
        one_fit = given is not None and len(self.candidates) == 1
        self.roughly = self.fits_roughly and self.solver.has_rough_fits and self.tried is None
        self.roughly &= not one_fit or self.features.is_scale_open
        best = self._try(self.solver.balance() if given is None else given, None)
        if given is None:
            best = self._climb_regularisation(best)
        if self.features.is_scale_open:
            usual = best
            best = self._climb_scale(best)
            if best is not usual and given is None:
                best = self._climb_regularisation(best)
        if len(self.candidates) > 1:
            first = best
            best = self._try_candidates(best)
            if best is not first and given is None:
                best = self._climb_regularisation(best)
        if best.steps == 0:  # without weights, for a fit that starts warm gains something
            _log.warning(
                "%s: no step from a model without weights lowered the loss, so that it has none "
                "and scores every sample alike",
                self.config.loss,
            )
        self._use(best.scale, best.candidate)
        return self._to_its_end(best) if self.roughly else best

    def _to_its_end(self, best: Attempt) -> Attempt:
        self.roughly = False
        return self._try(best.regularisation, best, settles=True)

    def _try_candidates(self, first: Attempt) -> Attempt:
        """The best of all parameters of the loss, each at as strong a regularisation as the first.

        A loss that counts positives twice is larger, and takes more of it for the same strength.
        """
        self._use(first.scale, first.candidate)
        best, strength = first, self.solver.balance()
        for candidate in range(1, len(self.candidates)):
            self._use(first.scale, candidate)
            given = self.config.regularisation
            as_strong = first.regularisation * self.solver.balance() / strength
            attempt = self._try(given or as_strong, best, candidate=candidate)
            if is_better(self.config.choice_metric, attempt.metric, best.metric):
                best = attempt
        return best

    def _climb_regularisation(self, first: Attempt) -> Attempt:
        best = self._climb(first, 1.0 / RATIO, MOST_VALUES - 1)
        if best is first:
            best = self._climb(first, RATIO, MOST_VALUES - 2)
        return best

    def _climb_scale(self, first: Attempt) -> Attempt:
        """Embeddings of twice or half the length, for as long as validation improves."""
        best = first
        for ratio in (RATIO_OF_SCALES, 1.0 / RATIO_OF_SCALES):
            while LEAST_SCALE < best.scale * ratio < MOST_SCALE:
                attempt = self._try(best.regularisation, best, best.scale * ratio)
                if not is_better(self.config.choice_metric, attempt.metric, best.metric):
                    break
                best = attempt
            if best is not first:
                break
        return best

    def _use(self, scale: float, candidate: int) -> None:
        if (scale, candidate) != (self.scale, self.candidate):
            self.scale, self.features = scale, self.features.at(scale)
            self.candidate, self.config = candidate, self.candidates[candidate]
            self.solver = self._solver()

    def _climb(self, best: Attempt, ratio: float, attempts: int) -> Attempt:
        """Multiply the regularisation by the ratio for as long as validation improves."""
        for _ in range(attempts):
            attempt = self._try(best.regularisation * ratio, best)
            if not is_better(self.config.choice_metric, attempt.metric, best.metric):
                break
            best = attempt
        return best

    def layer(
        self,
        best: Attempt,
        weight: "NDArray[np.float32]",
        bias: "NDArray[np.float32]",
        scores: "NDArray[np.float32]",
        labels: Any = None,
    ) -> FittedLayer:
        """What was found, with weights for features as a model reads them."""
        chosen = {"regularisation": best.regularisation}
        chosen |= {name: self.candidates[best.candidate].loss_params[name] for name in self.open}
        if self.features.embedded is not None:
            chosen["embedding_scale"] = best.scale
        if self.features.scaling is not None:
            weight, bias = self.features.scaling.undo(weight, bias)
        return FittedLayer(weight, bias, tuple(self.history), chosen, scores, labels)

    def refit(
        self, solver: Solver, best: Attempt, start: "Tensor"
    ) -> "tuple[NDArray[np.float32], NDArray[np.float32]]":
        """Weights and biases on all that there is, from a start."""
        solution = solver.solve(start, best.regularisation)
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

    def _try(
        self,
        regularisation: float,
        best: Attempt | None,
        scale: float | None = None,
        candidate: int | None = None,
        *,
        settles: bool = False,
    ) -> Attempt:
        """Fit at one regularisation and scale, or recall that a killed run already has.

        With `settles` the fit goes on with the best one, and takes its place.
        """
        scale = scale or (self.scale if best is None else best.scale)
        if candidate is None:
            candidate = 0 if best is None else best.candidate
        if self.recalled:
            attempt = self.recalled.pop(0)
        else:
            self._use(scale, candidate)
            attempt = self._fit(regularisation, best, scale, settles=settles)
        line = self._line(attempt, settles)
        self.history.append(line)
        if self.progress is not None:
            self.progress(line)
        return attempt

    def _fit(
        self,
        regularisation: float,
        best: Attempt | None,
        scale: float,
        *,
        settles: bool = False,
    ) -> Attempt:
        def report(step: int, total: int, loss: float) -> None:
            check_finite(loss, self.config)
            if self.progress is not None:
                seconds = time.perf_counter() - self.started
                stage = self._stage(regularisation, scale, self.candidate, settles)
                self.progress(TrainingProgress(stage, step, total, loss, seconds=seconds))

        # From an earlier fit a loss that is not convex may be caught in a poor minimum.
        warm = best is not None and self.solver.convex
        start = self.solver.start()
        if warm and best is not None:
            start = self.features.rescaled(self.saved.parameters, best.scale)
        earlier = None if self.tried is None else Earlier()
        # By its place in the search: another scale or candidate may have the same regularisation.
        saved = SavedEpoch(self.checkpoint, f"{len(self.saved.attempts)} {regularisation!r}")
        solution = self.solver.solve(
            start, regularisation, report, saved, earlier, roughly=self.roughly
        )
        check_finite(solution.loss, self.config)
        weight, bias, scores, metric = self._judged(solution.parameters)
        moved = None
        if earlier is not None and earlier.parameters is not None:
            moved = abs(metric - self._judged(earlier.parameters)[-1])
        seconds = time.perf_counter() - self.started
        attempt = Attempt(
            regularisation,
            solution.loss,
            solution.steps,
            metric,
            seconds,
            solution.last_tenth,
            scale,
            self.candidate,
            moved,
        )
        if self.tried is not None:
            layer = self.layer(attempt, weight, bias, scores)
            self.tried(replace(layer, history=(self._line(attempt, settles),)))
        improved = best is None or is_better(self.config.choice_metric, metric, best.metric)
        if improved or settles:
            self.best_scores = scores
        self.saved.add(attempt, solution.parameters, is_best=improved or settles)
        return attempt

    def _judged(
        self, parameters: "Tensor"
    ) -> "tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], float]":
        """Weights, biases, and what they make of the validation part: scores and metric."""
        weight, bias = self.solver.model(parameters)
        scores = np.asarray(self.features.validation @ weight + bias, dtype=np.float32)
        metric = validation_metric(self.config, self.labels, scores, self.ancestors)
        return weight, bias, scores, metric

    def _line(self, attempt: Attempt, settles: bool) -> TrainingProgress:
        return TrainingProgress(
            self._stage(attempt.regularisation, attempt.scale, attempt.candidate, settles),
            attempt.steps,
            attempt.steps,
            attempt.loss,
            attempt.metric,
            attempt.seconds,
            attempt.last_tenth,
            attempt.metric_moved,
        )

    def _stage(self, regularisation: float, scale: float, candidate: int, settles: bool) -> str:
        beside = f", embeddings at {scale:.3g}" if self.features.embedded is not None else ""
        params = self.candidates[candidate].loss_params
        beside += "".join(f", {name} {params[name]:.3g}" for name in self.open)
        return f"regularisation {regularisation:.3g}{beside}{TO_ITS_END if settles else ''}"

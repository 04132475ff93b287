"""Choosing with few samples: each is scored by a fit that had not seen it.

A tenth of a hundred samples is too little to choose anything on. Training and validation part are
divided into folds together, copies of a sample and samples of a group into the same one; at each
regularisation and scale as many models are fitted, each without one fold, and their scores of the
folds they had not seen make up one matrix. On it the metric is measured, and on the best one the
decoding rule and the probabilities are fitted. The model that is given has been fitted to all
samples.
"""

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy import sparse

from zlpr._errors import UserError
from zlpr.data import Dataset
from zlpr.data.splits import units_of
from zlpr.training.base import ProgressCallback
from zlpr.training.judging import ancestors_of
from zlpr.training.linear import LinearConfig
from zlpr.training.linear_checkpoint import Attempt
from zlpr.training.linear_features import ExtractedFeatures
from zlpr.training.loss import check_finite
from zlpr.training.regularisation import FittedLayer, Search
from zlpr.training.selection import is_better, validation_metric
from zlpr.training.solvers import choose_solver

if TYPE_CHECKING:
    from numpy.typing import NDArray


def fit_layer_in_folds(
    train: Dataset,
    validation: Dataset,
    config: LinearConfig,
    features: ExtractedFeatures,
    folds: int,
    progress: ProgressCallback | None = None,
) -> FittedLayer:
    """Weights fitted to both parts, at what cross-validation over both finds best.

    Returns:
        The layer; its validation scores are of all samples, the training part's first, each by a
        fit that had not seen it.
    """
    labels = sparse.csr_array(sparse.vstack([train.labels, validation.labels], format="csr"))
    search = _FoldSearch(
        labels, labels, config, features, progress, None, ancestors=ancestors_of(train)
    )
    search.fold_of = assign_folds(units_of(train, validation), folds, config.seed)
    search.folds = int(search.fold_of.max()) + 1
    search.recall()
    best = search.run()
    if search.best_scores is None:
        raise AssertionError("nothing is recalled without a checkpoint")
    final = choose_solver(search.features.both, labels, search.config)
    weight, bias = search.refit(final, best, final.start())
    layer = search.layer(best, weight, bias, search.best_scores, labels)
    return replace(layer, chosen={**layer.chosen, "folds": search.folds})


def assign_folds(units: "NDArray[np.int64]", folds: int, seed: int) -> "NDArray[np.int64]":
    """A fold for each sample, at random; samples of a unit share theirs.

    Args:
        units: of the samples, from `units_of`.
        folds: how many; no more than there are units.
        seed: of the draw.

    Raises:
        UserError: there is one unit alone.

    Examples:
        >>> sorted(assign_folds(np.arange(4), 2, seed=0).tolist())
        [0, 0, 1, 1]
    """
    if units.max() == 0:
        raise UserError(
            "folds: all samples are of one group or copies of one sample, of which none can be "
            "left out"
        )
    order = np.random.default_rng(seed).permutation(int(units.max()) + 1)
    return np.asarray((order % min(folds, len(order)))[units], dtype=np.int64)


class _FoldSearch(Search):
    """The search for regularisation and scale, by fits that each lack a fold."""

    fits_roughly = False
    folds: int
    fold_of: "NDArray[np.int64]"

    def _fit(
        self,
        regularisation: float,
        best: Attempt | None,
        scale: float,
        *,
        settles: bool = False,
    ) -> Attempt:
        matrix: Any = self.features.both
        scores = np.empty(self.labels.shape, dtype=np.float32)
        losses, steps = [], 0
        for fold in range(self.folds):
            held, kept = (np.flatnonzero((self.fold_of == fold) == is_held) for is_held in (1, 0))
            solver = choose_solver(matrix[kept], self.labels[kept], self.config)
            solution = solver.solve(solver.start(), regularisation)
            check_finite(solution.loss, self.config)
            weight, bias = solver.model(solution.parameters)
            scores[held] = matrix[held] @ weight + bias
            losses.append(solution.loss)
            steps += solution.steps
        metric = validation_metric(self.config, self.labels, scores, self.ancestors)
        seconds = time.perf_counter() - self.started
        loss = float(np.mean(losses))
        attempt = Attempt(regularisation, loss, steps, metric, seconds, 0.0, scale, self.candidate)
        improved = best is None or is_better(self.config.choice_metric, metric, best.metric)
        if improved:
            self.best_scores = scores
        self.saved.add(attempt, torch.empty(0), is_best=improved)
        return attempt

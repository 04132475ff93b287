"""Fits of the model for many labels: candidates, a prior from centroids, and joint weights."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from zlpr._ancestors import Ancestors
from zlpr._errors import UserError
from zlpr.data import Dataset
from zlpr.metrics import TopScores
from zlpr.models.base import TrainingRecord
from zlpr.models.candidates import SAMPLE_FEATURES, log_lengths
from zlpr.models.mixed_candidates import keep_largest
from zlpr.models.mixed_matrix import sparse_part
from zlpr.models.shortlist import ShortlistModel
from zlpr.training.base import ProgressCallback, Trained, TrainingProgress
from zlpr.training.block_workers import HERE, BlockWorkers
from zlpr.training.candidate_cells import (
    CONSTANT,
    CandidateLoss,
    Cells,
    Vector,
    fit_mix,
    prior_products,
)
from zlpr.training.checkpoints import claim
from zlpr.training.divided_candidates import nearest, score_cells
from zlpr.training.judging import ancestors_of
from zlpr.training.label_blocks import LabelBlocks
from zlpr.training.linear_features import ExtractedFeatures, extract_features
from zlpr.training.loss import bound_of, check_finite, create_loss
from zlpr.training.naming import (
    Samples,
    choose_lift,
    count_of,
    name_features,
    recall_of,
    with_names,
)
from zlpr.training.selection import is_better, validation_metric
from zlpr.training.shortlist import ShortlistConfig
from zlpr.training.shortlist_checkpoint import SavedSolutions
from zlpr.training.span_lbfgs import InSpan, minimise_in_span

_log = logging.getLogger("zlpr.training")

# Entries of the kernel's features, eight bytes each, that samples share, and what each has at least
# where there are very many. Negatives gain more than features do, so these give way first.
MOST_ENTRIES, FEWEST_ENTRIES = 32 * 2**20, 400
FEWEST_FEATURES, FEWEST_NEGATIVES = 30, 10
# The regularisation that is tried first, and those that follow as long as validation improves: the
# weaker ones, and where these do not help, the stronger.
REGULARISATION, WEAKER, STRONGER = 0.1, (0.03, 0.01), (0.3, 1.0, 3.0, 10.0)
# How firmly weights and centroids keep to their own sum where validation has few samples.
BLEND_PENALTY = 1.0
# What share of the metric a blend may lose to the weights alone before it counts as led astray.
CLEAR_LOSS = 0.1
# How firmly a sample's length counts nothing where lengths differ too little to tell.
LENGTH_PENALTY = 1.0


def read_sparse(train: Dataset, validation: Dataset, config: ShortlistConfig) -> ExtractedFeatures:
    """Features of both parts, sparse ones only."""
    extracted = extract_features(train, validation, config.features)
    if not sparse.issparse(extracted.train):
        raise UserError(
            "model shortlist reads texts or sparse features, and these are dense; "
            "take the model linear"
        )
    return extracted


def train_shortlist(
    train: Dataset,
    validation: Dataset,
    config: ShortlistConfig,
    inputs: ExtractedFeatures,
    *,
    run: Mapping[str, Any],
    checkpoint: Path | None = None,
    progress: ProgressCallback | None = None,
    workers: BlockWorkers = HERE,
    build: Callable[..., ShortlistModel] = ShortlistModel,
) -> Trained:
    """Fit the weights at one regularisation, or at the best that validation finds.

    With `config.refit` the model that is given has been trained once more, on both parts, at what
    was chosen; the scores of the validation part are those of the model that had not seen it.
    `workers` name candidates, and hold the kernel and make the weights of a range of labels each;
    `build` takes what `ShortlistModel` does.
    """
    if checkpoint is not None:
        claim(checkpoint, run)
    tell = _Teller(config, progress)
    samples = Samples.of(inputs.train, train.labels)
    names = name_features(samples, train, inputs, config)
    samples = with_names(samples, names)
    unseen = Samples.of(inputs.validation, validation.labels)
    count = count_of(config.candidates, train.labels)
    lift = choose_lift(samples, unseen.features, unseen.labels, count)
    fit = _Fit(samples, config, lift, SavedSolutions(checkpoint, "path"), workers)
    best = _best(fit, _Unseen(unseen, fit, count, ancestors_of(train)), tell)
    recall = recall_of(best.scores.labels, validation.labels)
    weight, bias, scaling = best.weight, best.bias, inputs.scaling
    if config.refit:
        labels = sparse.vstack([train.labels, validation.labels], format="csr")
        del fit, samples, weight, bias  # which would take their memory twice
        best = replace(best, weight=None)
        joined = inputs.both
        if scaling is not None:  # by the training part alone one sample may outweigh all others
            scaling, joined = scaling.widened(joined)
        both = with_names(Samples.of(joined, labels), names)
        fit = _Fit(both, config, lift, SavedSolutions(checkpoint, "both"), workers)
        weight, bias = fit.layer(fit.solve(best.regularisation, tell))
        tell.line("training and validation part", fit.value, fit.iterations, None)
        del both, joined
    fit.forget_kernel()
    model = build(
        train.label_names,
        fit.named_by,
        best.blend.weight_of(fit, weight),
        best.blend.bias_of(bias),
        count,
        inputs.text_features,
        record=TrainingRecord(loss=config.loss),
        length_weight=best.blend.length_weight_of(fit),
    )
    if scaling is not None:
        model = _unscaled(model, scaling.scale)
    return Trained(
        model=model,
        history=tuple(tell.history),
        chosen={
            "regularisation": best.regularisation,
            "share_of_centroids": best.blend.centroid,
            "candidates": count,
            "lift_of_frequent_labels": lift,
            "recall_of_candidates": recall,
        },
        validation_scores=best.scores,
        num_features=int(inputs.train.shape[1]),
        validation_features=inputs.validation_as_given(validation.inputs),
        trainings=len(tell.history),
    )


class _Unseen:
    """The validation part's candidates, which a fit at any regularisation is judged on."""

    def __init__(
        self, samples: Samples, fit: "_Fit", count: int, ancestors: Ancestors | None
    ) -> None:
        self.ancestors = ancestors
        self.truth, self.features, self.workers = samples.labels, samples.features, fit.workers
        self.named = nearest(self.features, fit.named_by, count, self.workers)
        self.rows, self.places = np.nonzero(self.named >= 0)
        self.labels = self.named[self.rows, self.places]
        self.cells = Cells.of_candidates(self.named, self.truth)
        self.order = np.lexsort((self.rows, self.labels))
        self.prior = np.float32(fit.slope) * self.products(fit.centroids)
        self.lengths = log_lengths(sparse_part(self.features))[self.rows]

    def products(self, weight: Any) -> Vector:
        """Of each candidate's sample and the label's weights."""
        return score_cells(self.features, weight, self.rows, self.labels, self.workers)

    def blend(self, loss: Any, learned: Vector) -> "tuple[Blend, TopScores]":
        """How much the centroids count beside the weights, and the scores of both together."""
        parts = (learned, self.prior, self.lengths)
        blend = Blend.of(loss, self.cells, *(part[self.order] for part in parts))
        return blend, self.scores(blend(*parts))

    def scores(self, of_candidates: Vector) -> TopScores:
        """The scores of candidates by their samples."""
        scores = np.full(self.named.shape, -np.inf, dtype=np.float32)
        scores[self.rows, self.places] = of_candidates
        return TopScores(self.named, scores, self.truth.shape[1])

    def judged(self, config: ShortlistConfig, scores: TopScores) -> float:
        """The metric that regularisation and blend are chosen by."""
        return validation_metric(config, self.truth, scores, self.ancestors)


@dataclass(frozen=True, eq=False)
class _Attempt:
    """A fit at one regularisation, and what validation says of it."""

    regularisation: float
    metric: float
    weight: Any
    bias: Vector
    blend: "Blend"
    scores: TopScores


def _best(fit: "_Fit", unseen: _Unseen, tell: "_Teller") -> _Attempt:
    """The regularisation that is asked for, or the best of a path that goes on until it turns."""
    if fit.config.regularisation is not None:
        return _attempt(fit, unseen, fit.config.regularisation, tell)
    best = _attempt(fit, unseen, REGULARISATION, tell)
    for path in (WEAKER, STRONGER):
        for value in path:
            attempt = _attempt(fit, unseen, value, tell)
            if not is_better(fit.config.choice_metric, attempt.metric, best.metric):
                break
            best = attempt
        if best.regularisation != REGULARISATION:
            break
    return best


def _attempt(fit: "_Fit", unseen: _Unseen, regularisation: float, tell: "_Teller") -> _Attempt:
    """Fit at a regularisation, and judge it."""
    weight, bias = fit.layer(fit.solve(regularisation, tell))
    learned = unseen.products(weight) + bias[unseen.labels] + fit.of_length * unseen.lengths
    blend, scores, metric = _judged_blend(fit, unseen, learned)
    tell.line(f"regularisation {regularisation:g}", fit.value, fit.iterations, metric)
    return _Attempt(regularisation, metric, weight, bias, blend, scores)


def _judged_blend(
    fit: "_Fit", unseen: _Unseen, learned: Vector
) -> "tuple[Blend, TopScores, float]":
    """The blend, its scores and their metric; the weights alone where these are clearly better.

    The loss has no bound, so that one sample far from all others may decide on the blend.
    """
    name = fit.config.choice_metric
    blend, scores = unseen.blend(fit.loss, learned)
    metric = unseen.judged(fit.config, scores)
    plain = unseen.scores(learned)
    alone = unseen.judged(fit.config, plain)
    is_clear = abs(alone - metric) > CLEAR_LOSS * max(abs(alone), abs(metric))
    if is_clear and is_better(name, alone, metric):
        return Blend(1.0, 0.0, 0.0, 0.0), plain, alone
    return blend, scores, metric


@dataclass(frozen=True)
class Blend:
    """What the weights of a label, its centroid and a sample's length count in its scores.

    A weight is learned on samples that it has seen, so that it promises more on these than it keeps
    on others; the centroid, from which a sample is left out while it is learned, does not. How much
    each is worth on samples that neither has seen, validation says: four numbers for all labels.
    """

    weight: float
    centroid: float
    length: float
    bias: float

    @classmethod
    def of(
        cls, loss: Any, cells: Cells, learned: Vector, prior: Vector, lengths: Vector
    ) -> "Blend":
        """The blend that the loss finds best.

        Args:
            loss: with `reduction="none"`.
            cells: the candidates of samples that were not trained on.
            learned: their scores by the weights.
            prior: by the centroids, at the slope that the weights started from.
            lengths: the logarithm of the sample's number of features.
        """
        middle = lengths.mean() if len(lengths) else np.float32(0.0)
        weight, centroid, length, bias = fit_mix(
            loss,
            cells,
            (learned, prior, lengths - middle),
            (1.0, 0.0, 0.0, 0.0),
            offset=float(bound_of(loss)),
            penalty=BLEND_PENALTY,
        )
        return cls(max(weight, 0.0), centroid, length, bias - length * float(middle))

    def __call__(self, learned: Vector, prior: Vector, lengths: Vector) -> Vector:
        """The scores; the arguments are those of `of`."""
        parts = self.weight * learned + self.centroid * prior + self.length * lengths
        scores: Vector = (parts + self.bias).astype(np.float32)
        return scores

    def weight_of(self, fit: "_Fit", weight: Any) -> Any:
        """The weights of the model that scores so; those that are given are changed in place."""
        weight *= np.float32(self.weight)
        return weight + np.float32(self.centroid * fit.slope) * fit.centroids

    def bias_of(self, bias: Vector) -> Vector:
        """Its biases."""
        return np.float32(self.weight) * bias + np.float32(self.bias)

    def length_weight_of(self, fit: "_Fit") -> float:
        """What it adds for the logarithm of a sample's number of features."""
        return self.weight * fit.of_length + self.length


def _room(lengths: Any, negatives: int) -> tuple[int, int]:
    """Features of a sample that its cells keep, and its negatives, within the kernel's entries.

    Args:
        lengths: how many features each sample has.
        negatives: how many it is to have.

    Examples:
        >>> [_room(np.full(n, 100), 50) for n in (5_000, 20_000, 1_000_000)]
        [(134, 50), (33, 50), (30, 13)]
        >>> _room(np.full(20_000, 5), 200)  # short ones have room for more
        (30, 200)
    """
    entries = max(MOST_ENTRIES // max(len(lengths), 1), FEWEST_ENTRIES)
    features = min(max(entries // negatives, FEWEST_FEATURES), SAMPLE_FEATURES)
    held = max(float(np.minimum(lengths, features).mean()) if len(lengths) else 0.0, 1.0)
    return features, min(max(int(entries / held), FEWEST_NEGATIVES), negatives)


# Bytes that a fit takes for each entry of the kernel, each cell, and each feature of a sample, and
# for what it works on at a time.
_BYTES_OF_ENTRY, _BYTES_OF_CELL, _BYTES_OF_FEATURE, _BYTES_AT_A_TIME = 11, 340, 24, 2**26


def memory_of_fit(
    labels: Any, features: Any, config: ShortlistConfig, *, kernel: bool = True
) -> int:
    """Bytes that a fit takes beside its inputs, by an estimate.

    Args:
        labels: of the training samples, CSR.
        features: of the same, CSR, or n-grams beside embeddings.
        config: says how many negatives a sample may have.
        kernel: whether it is held here, and not by the machines of a cluster.
    """
    samples, num_labels = labels.shape
    ngrams = sparse_part(features)
    lengths = np.diff(ngrams.indptr)
    kept, negatives = _room(lengths, count_of(config.negatives, labels))
    cells = samples * min(negatives + labels.nnz / max(samples, 1), num_labels)
    entries = cells * float(np.minimum(lengths, kept).mean()) if samples else 0.0
    held = _BYTES_OF_ENTRY * entries if kernel else 0.0
    taken = held + _BYTES_OF_CELL * cells + _BYTES_OF_FEATURE * ngrams.nnz
    return int(taken) + _BYTES_AT_A_TIME


class _Fit:
    """One training set: its candidates, prior and kernel, which all regularisations share."""

    def __init__(
        self,
        samples: Samples,
        config: ShortlistConfig,
        lift: float,
        saved: SavedSolutions,
        workers: BlockWorkers,
    ) -> None:
        self.config, self.centroids = config, samples.centroids
        self.saved, self.workers = saved, workers
        self.named_by = samples.lifted(lift)
        wanted = count_of(config.negatives, samples.labels)
        kept, negatives = _room(np.diff(sparse_part(samples.looked_at).indptr), wanted)
        features = keep_largest(samples.looked_at, kept)
        near = nearest(samples.looked_at, self.named_by, negatives, workers)
        self.cells = Cells.of(near, samples.labels)
        self.loss = create_loss(config, samples.labels, reduction="none")
        products = prior_products(
            samples.looked_at, samples.sums, self.cells, samples.labels, workers
        )
        lengths = log_lengths(sparse_part(samples.features))[self.cells.rows]
        middle = lengths.mean() if len(lengths) else np.float32(0.0)
        slope, self.of_length, bias = fit_mix(
            self.loss,
            self.cells,
            (products, lengths - middle),
            (0.0, 0.0, 0.0),
            penalty=(0.0, LENGTH_PENALTY, 0.0),
        )
        self.slope, self.bias = max(slope, 0.0), bias - self.of_length * float(middle)
        offset = (self.slope * products + self.of_length * lengths + self.bias).astype(np.float32)
        self.problem = CandidateLoss(self.loss, self.cells, offset)
        self.blocks = LabelBlocks(features, self.cells, self.centroids, self.slope, workers)
        self.weights = InSpan(np.zeros_like(offset), np.zeros_like(offset))
        self.value, self.iterations = 0.0, 0

    def solve(self, regularisation: float, tell: "_Teller") -> Vector:
        """The coefficients at a regularisation, starting from the last ones."""
        samples = self.cells.shape[0]
        found = self.saved.load(regularisation)
        if found is None:
            found = minimise_in_span(
                self.problem,
                self.blocks.product,
                self.weights,
                regularisation,
                callback=lambda step, value: tell.step(regularisation, step, value / samples),
            )
            self.saved.save(regularisation, found)
        self.weights = found.weights
        self.value, self.iterations = found.value / samples, found.iterations
        return found.weights.coefficients

    def forget_kernel(self) -> None:
        """Give back most of the memory, once nothing more is to be solved."""
        del self.blocks, self.problem, self.weights

    def layer(self, coefficients: Vector) -> tuple[Any, Vector]:
        """Weights and biases of all labels, for scores that are cut at 0."""
        check_finite(self.value, self.config)
        return self.blocks.weights(coefficients), self._biases(coefficients)

    def _biases(self, coefficients: Vector) -> Vector:
        sums = np.bincount(self.cells.labels, coefficients, self.cells.num_labels)
        found: Vector = (self.bias + CONSTANT**2 * sums - float(bound_of(self.loss))).astype(
            np.float32
        )
        return found


def _unscaled(model: ShortlistModel, scale: Any) -> ShortlistModel:
    """The same candidates and scores of features as they were before they were scaled."""
    for matrix in (model.centroids, model.weight):
        matrix.data /= scale[matrix.indices]
    return model


class _Teller:
    """Progress, as it happens and as history."""

    def __init__(self, config: ShortlistConfig, progress: ProgressCallback | None) -> None:
        self.config, self.progress = config, progress
        self.history: list[TrainingProgress] = []
        self.started = time.perf_counter()

    def step(self, regularisation: float, step: int, loss: float) -> None:
        """One iteration."""
        check_finite(loss, self.config)
        if self.progress is not None:
            seconds = time.perf_counter() - self.started
            stage = f"regularisation {regularisation:g}"
            self.progress(TrainingProgress(stage, step, 0, loss, seconds=seconds))

    def line(self, stage: str, loss: float, steps: int, metric: float | None) -> None:
        """One fit."""
        seconds = time.perf_counter() - self.started
        line = TrainingProgress(stage, steps, steps, loss, metric, seconds)
        self.history.append(line)
        if self.progress is not None:
            self.progress(line)

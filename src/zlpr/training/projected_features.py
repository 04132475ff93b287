"""N-grams beside the main directions of embeddings, and the model for many labels over both.

Embeddings in these directions have a mean squared length of 1 in training, as n-grams have it, and
are then multiplied by a scale. The fitted model takes them at a scale of 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlpr._errors import UserError
from zlpr.data import Dataset
from zlpr.metrics import TopScores
from zlpr.models.embed_shortlist import EmbedShortlistModel, Projection
from zlpr.models.embedding_cache import embed
from zlpr.models.encoder import Encoder
from zlpr.models.features import Matrix
from zlpr.models.mixed_candidates import nearest, score_cells, unit_rows
from zlpr.models.mixed_matrix import MixedMatrix
from zlpr.models.registry import argument_of
from zlpr.training.base import ProgressCallback, Trained
from zlpr.training.embed_shortlist import EmbedShortlistConfig
from zlpr.training.judging import ancestors_of
from zlpr.training.linear_features import ExtractedFeatures, extract_features
from zlpr.training.naming import JUDGED_SAMPLES, Samples, count_of
from zlpr.training.selection import is_better, validation_metric
from zlpr.training.shortlist_fit import train_shortlist

SCALES = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4)
"""Of embeddings, of which one is chosen: weights are learned at that one alone."""
# Dense rows that a fit holds at once for each label (of sums, centroids, those that name, weights
# and their blend, and what is made on the way) and each sample (as read, at the scale, and of both
# parts joined); measured by `bench/memory.py`.
_OF_LABEL, _OF_SAMPLE = 10, 8


@dataclass(frozen=True, kw_only=True)
class ProjectedFeatures(ExtractedFeatures):
    """Features of one training and one validation part, at one scale of the embeddings.

    Attributes:
        encoder: makes the embeddings.
        projection: what of these is read.
        scale: of the embeddings in `train` and `validation`.
    """

    encoder: Encoder
    projection: Projection
    scale: float = 1.0

    def at(self, scale: float) -> "ProjectedFeatures":
        """The same, with embeddings of another length."""
        factor = scale / self.scale
        parts: list[Any] = [self.train, self.validation]
        train, validation = (part.stretched(factor) for part in parts)
        return replace(self, train=train, validation=validation, scale=scale)

    def beside(self, ngrams: Matrix, texts: list[str]) -> Matrix:
        """The n-grams of texts with their embeddings."""
        vectors = self.projection(embed(self.encoder, texts))
        return MixedMatrix(ngrams, np.float32(self.scale) * vectors)

    def validation_as_given(self, inputs: Any) -> Matrix:
        """The validation features as the fitted model reads them."""
        return self.at(1.0).validation

    def read(self, inputs: Any) -> Matrix:
        """Features of other texts, as the fitted model's `score` takes them."""
        return replace(self, scale=1.0).beside(super().read(inputs), inputs)


def embed_and_project(
    train: Dataset, validation: Dataset, config: EmbedShortlistConfig
) -> ProjectedFeatures:
    """Learn n-grams and directions on the training part, and read both.

    Raises:
        UserError: one of the parts holds features and no texts.
    """
    if train.texts is None or validation.texts is None:
        raise UserError(f"model {config.model!r} reads texts, and this data holds features")
    encoder = Encoder(argument_of(config.model), max_length=config.max_length)
    plain = extract_features(train, validation, config.features)
    return project(plain, encoder, embed(encoder, [*train.texts, *validation.texts]))


def project(
    plain: ExtractedFeatures, encoder: Encoder, embeddings: NDArray[np.float32]
) -> ProjectedFeatures:
    """Put embeddings beside the n-grams of both parts.

    Args:
        plain: the n-grams.
        encoder: made the embeddings, and makes those of other texts.
        embeddings: of both parts, training first.
    """
    trained = plain.train.shape[0]
    projection = Projection.of(embeddings[:trained])
    vectors = projection(embeddings)
    return ProjectedFeatures(
        train=MixedMatrix(plain.train, vectors[:trained]),
        validation=MixedMatrix(plain.validation, vectors[trained:]),
        text_features=plain.text_features,
        encoder=encoder,
        projection=projection,
    )


def memory_of_embeddings(shape: tuple[int, int], features: Any) -> int:
    """Bytes that embeddings add to a fit, by an estimate.

    Args:
        shape: how many training samples and labels there are.
        features: of the samples, n-grams beside embeddings.
    """
    samples, labels = shape
    rows = _OF_SAMPLE * samples + _OF_LABEL * labels
    return int(4 * rows * features.right.shape[1])


def train_projected(
    train: Dataset,
    validation: Dataset,
    config: EmbedShortlistConfig,
    inputs: ProjectedFeatures,
    *,
    run: Mapping[str, Any],
    checkpoint: Path | None = None,
    progress: ProgressCallback | None = None,
) -> Trained:
    """Fit the weights at the scale that centroids find best, and at the best regularisation."""
    scale = config.embedding_scale or choose_scale(train, validation, config, inputs)

    def build(
        names: tuple[str, ...],
        centroids: MixedMatrix,
        weight: MixedMatrix,
        *more: Any,
        **shared: Any,
    ) -> EmbedShortlistModel:
        return EmbedShortlistModel(
            names,
            centroids.stretched(scale),
            weight.stretched(scale),
            *more,
            encoder=inputs.encoder,
            projection=inputs.projection,
            copies_encoder=config.copy_encoder,
            **shared,
        )

    trained = train_shortlist(
        train,
        validation,
        config,
        inputs.at(scale),
        run={**run, "encoder": inputs.encoder.fingerprint},
        checkpoint=checkpoint,
        progress=progress,
        build=build,
    )
    return replace(trained, chosen={**trained.chosen, "embedding_scale": scale})


def choose_scale(
    train: Dataset, validation: Dataset, config: EmbedShortlistConfig, inputs: ProjectedFeatures
) -> float:
    """The scale at which the nearest centroids alone have the best metric on validation."""
    samples = Samples.of(inputs.train, train.labels)
    unseen = Samples.of(inputs.validation, validation.labels)
    features, truth = unseen.features[:JUDGED_SAMPLES], unseen.labels[:JUDGED_SAMPLES]
    count = count_of(config.candidates, train.labels)
    ancestors = ancestors_of(train)

    def metric_at(scale: float) -> float:
        scores = _by_centroids(samples, features, truth, count, scale)
        return validation_metric(config, truth, scores, ancestors)

    best = SCALES[0], metric_at(SCALES[0])
    for scale in SCALES[1:]:
        metric = metric_at(scale)
        if is_better(config.choice_metric, metric, best[1]):
            best = scale, metric
    return best[0]


def _by_centroids(
    samples: Samples,
    features: MixedMatrix,
    truth: Any,
    count: int,
    scale: float,
) -> TopScores:
    """Scores that are products with the labels' centroids."""
    centroids, stretched = unit_rows(samples.sums.stretched(scale)), features.stretched(scale)
    named = nearest(stretched, centroids, count)
    rows, places = np.nonzero(named >= 0)
    scores = np.full(named.shape, -np.inf, dtype=np.float32)
    scores[rows, places] = score_cells(stretched, centroids, rows, named[rows, places])
    return TopScores(named, scores, truth.shape[1])

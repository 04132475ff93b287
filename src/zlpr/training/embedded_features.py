"""N-grams beside a frozen encoder's embeddings, and the linear layer over both.

Embeddings are shifted to a mean of 0 and divided by one number, by which their mean squared length
is 1, as that of n-grams is, and then multiplied by a scale: by it the weights' penalty weighs one
kind of features against the other. The fitted model takes embeddings as the encoder gives them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from zlpr._errors import UserError
from zlpr.data import Dataset
from zlpr.models.base import TrainingRecord
from zlpr.models.embed import EmbedModel
from zlpr.models.embedding_cache import embed
from zlpr.models.encoder import Encoder
from zlpr.models.features import Matrix
from zlpr.models.mixed_matrix import MixedMatrix
from zlpr.models.registry import argument_of
from zlpr.training.base import ProgressCallback, Trained, TriedCallback
from zlpr.training.cross_fitting import fit_layer_in_folds
from zlpr.training.embed import EmbedConfig
from zlpr.training.linear_features import ExtractedFeatures, Scaling, extract_features
from zlpr.training.regularisation import FittedLayer, fit_layer

USUAL_SCALE = 0.7


@dataclass(frozen=True, kw_only=True)
class EmbeddedFeatures(ExtractedFeatures):
    """Features of one training and one validation part, at one scale of the embeddings.

    Attributes:
        encoder: makes the embeddings.
        given: both parts as a fitted model reads them, training first.
        scale: of the embeddings in `train` and `validation`.
    """

    encoder: Encoder
    given: tuple[MixedMatrix, MixedMatrix]
    scale: float

    def at(self, scale: float) -> "EmbeddedFeatures":
        """The same, with embeddings of another length."""
        if scale == self.scale:
            return self
        train, validation = self.given
        scaling = _scaling(train, scale)
        scaled = [MixedMatrix(part.left, _apply(scaling, part)) for part in (train, validation)]
        return replace(self, train=scaled[0], validation=scaled[1], scaling=scaling, scale=scale)

    def rescaled(self, parameters: Tensor, before: float) -> Tensor:
        """Weights that score these features as `parameters` did those of another scale."""
        if before == self.scale:
            return parameters
        moved = parameters.clone()
        moved[self.embedded] *= before / self.scale
        return moved

    def validation_as_given(self, inputs: Any) -> Matrix:
        """The validation features as the fitted model reads them."""
        return self.given[1]

    def read(self, inputs: Any) -> Matrix:
        """Features of other texts, as the fitted model's `score` takes them."""
        return MixedMatrix(super().read(inputs), embed(self.encoder, inputs))


def embed_parts(train: Dataset, validation: Dataset, config: EmbedConfig) -> EmbeddedFeatures:
    """Learn n-grams on the training part, and embed both.

    Raises:
        UserError: one of the parts holds features and no texts.
    """
    if train.texts is None or validation.texts is None:
        raise UserError(f"model {config.model!r} reads texts, and this data holds features")
    encoder = Encoder(argument_of(config.model), max_length=config.max_length)
    plain = extract_features(train, validation, config.features)
    both = embed(encoder, [*train.texts, *validation.texts])
    parts: list[tuple[Any, NDArray[np.float32]]] = [
        (plain.train, both[: len(train)]),
        (plain.validation, both[len(train) :]),
    ]
    given = MixedMatrix(*parts[0]), MixedMatrix(*parts[1])
    usual = config.embedding_scale or USUAL_SCALE
    unscaled = EmbeddedFeatures(
        train=given[0],
        validation=given[1],
        text_features=plain.text_features,
        embedded=given[0].parts[1][0],
        usual_scale=usual,
        is_scale_open=config.embedding_scale is None,
        encoder=encoder,
        given=given,
        scale=0.0,
    )
    return unscaled.at(usual)


def train_embedded(
    train: Dataset,
    validation: Dataset,
    config: EmbedConfig,
    features: EmbeddedFeatures,
    *,
    run: Mapping[str, Any],
    checkpoint: Path | None = None,
    progress: ProgressCallback | None = None,
    tried: TriedCallback | None = None,
) -> Trained:
    """Fit the weights at the regularisation and the scale that validation finds best."""
    given = features.given[1]

    def build(layer: FittedLayer) -> EmbedModel:
        return EmbedModel(
            train.label_names,
            layer.weight,
            layer.bias,
            features.text_features,
            encoder=features.encoder,
            copies_encoder=config.copy_encoder,
            record=TrainingRecord(loss=config.loss),
        )

    folds = config.folds_for(len(validation))
    if folds:
        layer = fit_layer_in_folds(train, validation, config, features, folds, progress)
    else:
        layer = fit_layer(
            train,
            validation,
            config,
            features,
            run={**run, "encoder": features.encoder.fingerprint},
            checkpoint=checkpoint,
            progress=progress,
            tried=tried and (lambda layer: tried(layer.trained(build(layer), given))),
        )
    return layer.trained(build(layer), features.given[0].below(given) if folds else given)


def _scaling(train: MixedMatrix, scale: float) -> Scaling:
    """What brings the training embeddings to a mean of 0 and to this mean length; n-grams stay."""
    embeddings = train.right
    mean = embeddings.mean(axis=0, dtype=np.float64)
    spread = float(np.sqrt(embeddings.var(axis=0, dtype=np.float64).sum())) or 1.0
    columns = train.left.shape[1]
    shift = np.concatenate([np.zeros(columns), mean])
    divisor = np.concatenate([np.ones(columns), np.full(len(mean), spread / scale)])
    return Scaling(shift.astype(np.float32), divisor.astype(np.float32))


def _apply(scaling: Scaling, part: MixedMatrix) -> NDArray[np.float32]:
    """A part's embeddings, shifted and scaled."""
    columns = part.left.shape[1]
    shift, divisor = scaling.shift[columns:], scaling.scale[columns:]
    return np.asarray((part.right - shift) / divisor, dtype=np.float32)

"""Settings of the model for many labels over a frozen encoder's embeddings, and its trainer."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zlpr.training.base import ProgressCallback, Trained, TriedCallback
from zlpr.training.config import check_above_zero
from zlpr.training.embed import (
    EncoderTrainer,
    copy_encoder_setting,
    embedding_scale_setting,
    max_length_setting,
)
from zlpr.training.shortlist import ShortlistConfig

if TYPE_CHECKING:
    from zlpr.data import Dataset
    from zlpr.training.projected_features import ProjectedFeatures


@dataclass(frozen=True, kw_only=True)
class EmbedShortlistConfig(ShortlistConfig):
    """Settings of the model for many labels over embeddings; those of `shortlist` and three more.

    Attributes:
        embedding_scale: the length of an embedding beside n-grams, of which words and parts of
            words each have the length 1; None takes that at which centroids alone decide best on
            validation.
        max_length: tokens read of a text; None reads what the encoder's folder says.
        copy_encoder: whether the model folder holds the encoder itself, or names it.
    """

    embedding_scale: float | None = embedding_scale_setting()
    max_length: int | None = max_length_setting()
    copy_encoder: bool = copy_encoder_setting()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_above_zero(self, ("embedding_scale", "max_length"))


class EmbedShortlistTrainer(EncoderTrainer):
    """The shortlist's centroids and weights, over n-grams and embeddings."""

    scores_all_labels = False
    # Not divided: products of dense matrices differ in their last bits by the size of blocks.

    def reading(self, config: EmbedShortlistConfig) -> str:
        """Texts become n-grams by these settings, and vectors of this encoder."""
        return repr((config.features, config.model, config.max_length))

    def read(
        self, train: "Dataset", validation: "Dataset", config: EmbedShortlistConfig
    ) -> "ProjectedFeatures":
        """N-grams and embeddings of both parts."""
        from zlpr.training.projected_features import embed_and_project

        return embed_and_project(train, validation, config)

    def memory(
        self, train: "Dataset", config: EmbedShortlistConfig, inputs: "ProjectedFeatures"
    ) -> int:
        """As without embeddings, and dense columns of samples, sums, centroids and weights."""
        from zlpr.training.projected_features import memory_of_embeddings
        from zlpr.training.shortlist_fit import memory_of_fit

        plain = memory_of_fit(train.labels, inputs.train, config)
        return plain + memory_of_embeddings(train.labels.shape, inputs.train)

    def train(
        self,
        train: "Dataset",
        validation: "Dataset",
        config: EmbedShortlistConfig,
        inputs: "ProjectedFeatures",
        *,
        run: Mapping[str, Any],
        checkpoint: Path | None = None,
        progress: ProgressCallback | None = None,
        tried: TriedCallback | None = None,
    ) -> Trained:
        """Fit at the scale that centroids find best, and at the best regularisation."""
        from zlpr.training.projected_features import train_projected

        return train_projected(
            train, validation, config, inputs, run=run, checkpoint=checkpoint, progress=progress
        )

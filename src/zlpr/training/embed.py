"""Settings of the linear model over a frozen encoder's embeddings, and its trainer."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zlpr._errors import UserError
from zlpr.models.registry import argument_of
from zlpr.training.base import ModelTrainer, ProgressCallback, Trained
from zlpr.training.config import check_above_zero, setting
from zlpr.training.linear import LinearConfig

if TYPE_CHECKING:
    from zlpr.data import Dataset
    from zlpr.training.embedded_features import EmbeddedFeatures


@dataclass(frozen=True, kw_only=True)
class EmbedConfig(LinearConfig):
    """Settings of the linear model over embeddings; those of the linear model and three more.

    Attributes:
        embedding_scale: the length of an embedding beside n-grams, of which words and parts of
            words each have the length 1; None chooses it on validation.
        max_length: tokens read of a text; None reads what the encoder's folder says.
        copy_encoder: whether the model folder holds the encoder itself, or names it.
    """

    embedding_scale: float | None = setting(
        None,
        "length of embeddings beside n-grams; chosen on validation data where not given",
        metavar="S",
    )
    max_length: int | None = setting(
        None, "read of a text; up to 512, or what the encoder says", metavar="TOKENS"
    )
    copy_encoder: bool = setting(
        False, "write the encoder into the model folder, which then needs no other"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_above_zero(self, ("embedding_scale", "max_length"))


class EmbedTrainer(ModelTrainer):
    """Fits one linear layer over n-grams and embeddings, at a scale that validation chooses."""

    packages = ("transformers",)

    def faults(self, model: str) -> list[str]:
        """Whether the encoder's files are there; the hub is asked if need be."""
        from zlpr.models.encoder import EncoderFolder, find_encoder
        from zlpr.models.transformer import encoder_faults

        try:
            files = EncoderFolder.read(find_encoder(argument_of(model)))
            faults = encoder_faults(str(files.transformer))
        except UserError as fault:
            faults = [str(fault)]
        return [f"model {model!r}: {fault}" for fault in faults]

    def fingerprint(self, model: str) -> str:
        """Hash of the encoder's files, wherever they are."""
        from zlpr.models.encoder import EncoderFolder, find_encoder

        try:
            return EncoderFolder.read(find_encoder(argument_of(model))).fingerprint()[:16]
        except UserError:  # which `faults` explains
            return ""

    def reading(self, config: EmbedConfig) -> str:
        """Texts become n-grams by these settings, and vectors of this encoder."""
        return repr((config.features, config.model, config.max_length, config.embedding_scale))

    def read(
        self, train: "Dataset", validation: "Dataset", config: EmbedConfig
    ) -> "EmbeddedFeatures":
        """N-grams and embeddings of both parts."""
        from zlpr.training.embedded_features import embed_parts

        return embed_parts(train, validation, config)

    def train(
        self,
        train: "Dataset",
        validation: "Dataset",
        config: EmbedConfig,
        inputs: "EmbeddedFeatures",
        *,
        run: Mapping[str, Any],
        checkpoint: Path | None = None,
        progress: ProgressCallback | None = None,
    ) -> Trained:
        """Fit the weights at the regularisation and the scale that validation finds best."""
        from zlpr.training.embedded_features import train_embedded

        return train_embedded(
            train, validation, config, inputs, run=run, checkpoint=checkpoint, progress=progress
        )

"""Settings of the linear model over a frozen encoder's embeddings, and its trainer."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zlpr._errors import UserError
from zlpr.models.registry import argument_of
from zlpr.training.base import ModelTrainer, ProgressCallback, Trained, TriedCallback
from zlpr.training.config import check_above_zero, setting
from zlpr.training.linear import LinearConfig

if TYPE_CHECKING:
    from zlpr.data import Dataset
    from zlpr.training.embedded_features import EmbeddedFeatures

FEW, FEW_FOLDS = 100, 5
"""Validation samples below which everything is chosen by cross-validation, and its folds."""


def embedding_scale_setting() -> Any:
    """The length of embeddings beside n-grams, the same words for every kind that reads both."""
    words = "scale of the embeddings relative to the n-grams (default: chosen on validation data)"
    return setting(None, words, metavar="S")


def max_length_setting() -> Any:
    """How much of a text is embedded."""
    words = "tokens to read of each text (default: what the encoder says, at most 512)"
    return setting(None, words, metavar="TOKENS")


def copy_encoder_setting() -> Any:
    """Whether a model's folder holds its encoder."""
    return setting(False, "copy the encoder into the model folder, which then works by itself")


@dataclass(frozen=True, kw_only=True)
class EmbedConfig(LinearConfig):
    """Settings of the linear model over embeddings; those of the linear model and four more.

    Attributes:
        embedding_scale: the length of an embedding beside n-grams, of which words and parts of
            words each have the length 1; None chooses it on validation.
        max_length: tokens read of a text; None reads what the encoder's folder says.
        folds: choose by cross-validation over training and validation part together, in so many
            folds, instead of on the validation part; None takes `FEW_FOLDS` where that has fewer
            than `FEW` samples, and 0 never does.
        copy_encoder: whether the model folder holds the encoder itself, or names it.
    """

    embedding_scale: float | None = embedding_scale_setting()
    max_length: int | None = max_length_setting()
    folds: int | None = setting(
        None,
        "cross-validate in N folds of training and validation data (default: "
        f"{FEW_FOLDS} with fewer than {FEW} validation samples, none with more)",
        metavar="N",
    )
    copy_encoder: bool = copy_encoder_setting()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_above_zero(self, ("embedding_scale", "max_length"))
        if self.folds is not None and (self.folds < 0 or self.folds == 1):
            raise UserError(f"folds {self.folds}: expected 0, or at least 2")
        if self.folds and not self.refit:
            raise UserError("folds: the model is fitted to both parts then; leave refit on")

    def folds_for(self, validation_samples: int) -> int:
        """Folds to choose by; 0 where the validation part is enough to choose on."""
        if self.folds is not None:
            return self.folds
        return FEW_FOLDS if validation_samples < FEW and self.refit else 0


class EncoderTrainer(ModelTrainer):
    """Trains a kind of model over a frozen encoder's embeddings."""

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


class EmbedTrainer(EncoderTrainer):
    """Fits one linear layer over n-grams and embeddings, at a scale that validation chooses."""

    chooses = True

    def reading(self, config: EmbedConfig) -> str:
        """Texts become n-grams by these settings, and vectors of this encoder."""
        return repr((config.features, config.model, config.max_length, config.embedding_scale))

    def for_many(self, model: str) -> str:
        """The same encoder beside candidates."""
        return f"embed-shortlist:{argument_of(model)}"

    def read(
        self, train: "Dataset", validation: "Dataset", config: EmbedConfig
    ) -> "EmbeddedFeatures":
        """N-grams and embeddings of both parts."""
        from zlpr.training.embedded_features import embed_parts

        return embed_parts(train, validation, config)

    def memory(self, train: "Dataset", config: EmbedConfig, inputs: "EmbeddedFeatures") -> int:
        """As for the linear model, with the embeddings' columns."""
        from zlpr.training.solvers import memory_of_fit

        return memory_of_fit(inputs.train, train.num_labels)

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
        tried: TriedCallback | None = None,
    ) -> Trained:
        """Fit the weights at the regularisation and the scale that validation finds best."""
        from zlpr.training.embedded_features import train_embedded

        return train_embedded(
            train,
            validation,
            config,
            inputs,
            run=run,
            checkpoint=checkpoint,
            progress=progress,
            tried=tried,
        )

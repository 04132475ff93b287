"""The linear model over n-grams and the embeddings of a frozen encoder, side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zlpr._errors import UserError
from zlpr.models.embedding_cache import embed
from zlpr.models.encoder import Encoder, copy_encoder, find_encoder
from zlpr.models.explanation import Parts
from zlpr.models.inputs import list_texts
from zlpr.models.linear import LinearModel, load_layer
from zlpr.models.mixed_matrix import MixedMatrix

COPY = "encoder"
"""The folder of an encoder that was copied into the model's."""


class EmbedModel(LinearModel):
    """Scores `X W + b` over the TF-IDF features of texts and, after them, their embeddings.

    Attributes:
        encoder: makes the embeddings.
        copies_encoder: whether a saved folder holds the encoder, or names it.
    """

    kind = "zlpr_embed"

    def __init__(self, *layer: Any, encoder: Encoder, copies_encoder: bool, **shared: Any) -> None:
        super().__init__(*layer, **shared)
        self.encoder = encoder
        self.copies_encoder = copies_encoder

    def prepare(self) -> None:
        """Read the encoder, as the first text would."""
        self.encoder.prepare()

    def read(self, inputs: Any) -> MixedMatrix:
        """TF-IDF beside embeddings; of texts that were embedded before, these are in the cache."""
        texts = list_texts(inputs)
        if self.text_features is None:
            raise AssertionError("this kind reads texts")
        return MixedMatrix(self.text_features.transform(texts), embed(self.encoder, texts))

    def parts(self, sample: Any, read: MixedMatrix, labels: Sequence[int]) -> Parts:
        """The n-grams as in the linear model, and the embedding as one part of its own."""
        ngrams = super().parts(sample, read.left, labels)
        weights = self.weight[read.left.shape[1] :][:, labels]
        return with_embedding(ngrams, read, weights, self.encoder)

    def save_parts(self, folder: Path) -> dict[str, Any]:
        """Write the weights, the vocabulary and, where asked to, the encoder."""
        return {
            **super().save_parts(folder),
            "num_embedded": self.encoder.width,
            "encoder": save_encoder(self.encoder, folder, copied=self.copies_encoder),
        }

    @classmethod
    def load_parts(
        cls, folder: Path, config: Mapping[str, Any], shared: Mapping[str, Any]
    ) -> "EmbedModel":
        """Read what `save_parts` wrote, and find the very encoder that it was trained with."""
        return cls(
            **load_layer(folder, config, shared, int(config["num_embedded"])),
            encoder=find_again(folder, config["encoder"]),
            copies_encoder=bool(config["encoder"].get("copied")),
        )


def with_embedding(ngrams: Parts, read: MixedMatrix, weights: Any, encoder: Encoder) -> Parts:
    """What n-grams add to the scores of some labels, and the embedding as one part of its own.

    Args:
        ngrams: their parts.
        read: the sample, n-grams beside its embedding.
        weights: of the embedding, shape (columns, labels).
        encoder: made it.
    """
    whole = read.right[:1].astype(np.float64) @ weights.astype(np.float64)
    return Parts(
        [*ngrams.names, f"the embedding by {encoder.name}"],
        np.concatenate([ngrams.values, whole]),
        ngrams.bias,
        [*(ngrams.places or ()), []],
    )


def save_encoder(encoder: Encoder, folder: Path, *, copied: bool) -> dict[str, Any]:
    """What a model's config.json says of its encoder, which is copied into its folder or named."""
    said: dict[str, Any] = {"path": encoder.source, "fingerprint": encoder.fingerprint}
    if copied:
        copy = copy_encoder(encoder, folder / COPY)
        said = {"path": COPY, "fingerprint": copy.fingerprint(), "copied": True}
    return {"name": encoder.name, "max_length": encoder.max_length, **said}


def find_again(folder: Path, said: Mapping[str, Any]) -> Encoder:
    """The encoder that a model was trained with: its copy, or where it was found then."""
    copied = bool(said.get("copied"))
    try:
        encoder = Encoder(
            str(said["name"]),
            folder=folder / COPY if copied else find_encoder(str(said["path"])),
            max_length=int(said["max_length"]),
            source=str(said["path"]),
        )
        found = encoder.fingerprint
    except (UserError, OSError) as fault:
        raise UserError(
            f"{folder}: the encoder {said['name']!r} that this model was trained with is not to be "
            f"had ({fault}); put it there, or write where it is now under 'encoder', 'path' in "
            "config.json"
        ) from fault
    if found != said["fingerprint"]:
        raise UserError(
            f"{folder}: {said['path']!r} is not the encoder that this model was trained with, its "
            "files are others; its scores would mean nothing"
        )
    return encoder

"""The model for many labels over n-grams and a frozen encoder's embeddings, side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlpr._errors import UserError
from zlpr.models.embed import find_again, save_encoder, with_embedding
from zlpr.models.embedding_cache import embed
from zlpr.models.encoder import Encoder
from zlpr.models.explanation import Parts
from zlpr.models.inputs import list_texts
from zlpr.models.linear import WEIGHTS
from zlpr.models.mixed_matrix import MixedMatrix
from zlpr.models.shortlist import ShortlistModel, load_stages

DIRECTIONS = 128
"""In which embeddings differ most, and of which each label has a weight: 384 of them rank no
better, and take three times the memory."""


@dataclass(frozen=True)
class Projection:
    """What embeddings are seen by: how they differ from their mean, in the directions of most.

    Attributes:
        mean: of the training samples' embeddings, shape (width,).
        directions: shape (width, directions); the training samples come to a mean squared length
            of 1 in them, as n-grams have it.
    """

    mean: NDArray[np.float32]
    directions: NDArray[np.float32]

    @classmethod
    def of(cls, embeddings: NDArray[np.float32], most: int = DIRECTIONS) -> "Projection":
        """The principal directions of some embeddings, so many at most.

        Examples:
            >>> projection = Projection.of(np.array([[1, 3], [1, -3]], dtype=np.float32), most=1)
            >>> np.abs(projection(np.array([[9, 3], [9, 0]], dtype=np.float32))).tolist()
            [[1.0], [0.0]]
        """
        mean = embeddings.mean(axis=0, dtype=np.float64)
        centred = embeddings - mean
        variances, directions = np.linalg.eigh(centred.T @ centred / len(embeddings))
        kept = directions[:, ::-1][:, :most]
        length = float(np.sqrt(max(variances[::-1][:most].sum(), 0.0))) or 1.0
        return cls(mean.astype(np.float32), (kept / length).astype(np.float32))

    def __call__(self, embeddings: NDArray[np.float32]) -> NDArray[np.float32]:
        """Embeddings in these directions, shape (samples, directions)."""
        return np.asarray((embeddings - self.mean) @ self.directions, dtype=np.float32)


class EmbedShortlistModel(ShortlistModel):
    """A shortlist whose centroids and weights are for n-grams and, after them, embeddings.

    Attributes:
        encoder: makes the embeddings.
        projection: what of these the weights are for.
        copies_encoder: whether a saved folder holds the encoder, or names it.
    """

    kind = "zlpr_embed_shortlist"

    def __init__(
        self,
        *stages: Any,
        encoder: Encoder,
        projection: Projection,
        copies_encoder: bool,
        **shared: Any,
    ) -> None:
        super().__init__(*stages, **shared)
        self.encoder = encoder
        self.projection = projection
        self.copies_encoder = copies_encoder

    def prepare(self) -> None:
        """Read the encoder, as the first text would."""
        self.encoder.prepare()

    def read(self, inputs: Any) -> MixedMatrix:
        """TF-IDF beside embeddings; of texts that were embedded before, these are in the cache."""
        texts = list_texts(inputs)
        return MixedMatrix(super().read(texts), self.projection(embed(self.encoder, texts)))

    def parts(self, sample: Any, read: MixedMatrix, labels: Sequence[int]) -> Parts:
        """The n-grams as without an encoder, and the embedding as one part of its own."""
        weights = self.weight.right[list(labels)].T
        return with_embedding(super().parts(sample, read, labels), read, weights, self.encoder)

    def save_parts(self, folder: Path) -> dict[str, Any]:
        """Write the two stages, the vocabulary and, where asked to, the encoder."""
        return {
            **super().save_parts(folder),
            "num_embedded": self.projection.directions.shape[1],
            "encoder": save_encoder(self.encoder, folder, copied=self.copies_encoder),
        }

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All numbers of the model, by name."""
        return {
            **super().tensors(),
            "centroids.embedded": np.ascontiguousarray(self.centroids.right, dtype=np.float32),
            "weight.embedded": np.ascontiguousarray(self.weight.right, dtype=np.float32),
            "embedding.mean": self.projection.mean,
            "embedding.directions": np.ascontiguousarray(self.projection.directions),
        }

    @classmethod
    def load_parts(
        cls, folder: Path, config: Mapping[str, Any], shared: Mapping[str, Any]
    ) -> "EmbedShortlistModel":
        """Read what `save_parts` wrote, and find the very encoder that it was trained with."""
        from safetensors.numpy import load_file

        tensors, embedded = load_file(folder / WEIGHTS), int(config["num_embedded"])
        stages = load_stages(folder, config, shared, tensors, embedded)
        encoder = find_again(folder, config["encoder"])
        shapes = {
            "centroids.embedded": (len(shared["label_names"]), embedded),
            "weight.embedded": (len(shared["label_names"]), embedded),
            "embedding.mean": (encoder.width,),
            "embedding.directions": (encoder.width, embedded),
        }
        for name, shape in shapes.items():
            found = tensors[name]
            if found.shape != shape or found.dtype != np.float32 or not np.isfinite(found).all():
                raise UserError(f"{folder / WEIGHTS}: {name} is not {shape} finite numbers")
        for name in ("centroids", "weight"):
            stages[name] = MixedMatrix(stages[name], tensors[f"{name}.embedded"])
        return cls(
            **stages,
            encoder=encoder,
            projection=Projection(tensors["embedding.mean"], tensors["embedding.directions"]),
            copies_encoder=bool(config["encoder"].get("copied")),
        )

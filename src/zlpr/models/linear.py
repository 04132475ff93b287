"""The linear model: TF-IDF of texts, or the user's own features, and one linear layer."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlpr.models.base import Decoder, FittedModel, ProbabilityMap, TrainingRecord
from zlpr.models.features import Matrix, TextFeatures


class LinearModel(FittedModel):
    """Scores `X W + b` over the TF-IDF features of texts or over given features.

    Attributes:
        weight: of shape (features, labels), float32.
        bias: of shape (labels,), float32.
        text_features: makes the features of texts; None where the user gives features.
    """

    kind = "zlpr_linear"

    def __init__(
        self,
        label_names: Sequence[str],
        weight: NDArray[np.float32],
        bias: NDArray[np.float32],
        text_features: TextFeatures | None,
        *,
        record: TrainingRecord,
        decoder: Decoder | None = None,
        calibrator: ProbabilityMap | None = None,
    ) -> None:
        super().__init__(label_names, record=record, decoder=decoder, calibrator=calibrator)
        self.weight = weight
        self.bias = bias
        self.text_features = text_features

    def predict_scores(self, inputs: Any) -> NDArray[np.float32]:
        """Scores of shape (samples, labels) for texts, or for a feature matrix."""
        features = inputs if self.text_features is None else self.text_features.transform(inputs)
        return self.scores_of_features(features)

    def scores_of_features(self, features: Matrix) -> NDArray[np.float32]:
        """Scores of shape (samples, labels) for features that are already extracted."""
        return np.asarray(features @ self.weight + self.bias, dtype=np.float32)

    def save_parts(self, folder: Path) -> dict[str, Any]:
        """Write the weights and the vocabulary."""
        from safetensors.numpy import save_file

        save_file({"weight": self.weight, "bias": self.bias}, folder / "model.safetensors")
        return {"num_features": self.weight.shape[0]}

    @classmethod
    def load_parts(
        cls, folder: Path, config: Mapping[str, Any], shared: Mapping[str, Any]
    ) -> "LinearModel":
        """Read what `save_parts` wrote; `shared` holds what every kind of model has."""
        from safetensors.numpy import load_file

        tensors = load_file(os.fspath(folder / "model.safetensors"))
        return cls(weight=tensors["weight"], bias=tensors["bias"], text_features=None, **shared)

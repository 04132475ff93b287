"""What models over features share: how they read texts or tables, and keep that in their folder."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlpr._errors import UserError
from zlpr.decoding import Features, Probabilities, Rule
from zlpr.models.base import FittedModel, TrainingRecord
from zlpr.models.features import TextFeatures
from zlpr.models.inputs import feature_matrix, list_texts
from zlpr.models.linear import VOCABULARY, WEIGHTS

Tensors = dict[str, NDArray[Any]]
_WHOLE = ("labels", "sets", "order", "indices", "indptr")
"""Last parts of the names of tensors that hold numbers of things, and not figures."""


class FeatureModel(FittedModel):
    """A model of the TF-IDF features of texts, or of given features.

    Attributes:
        num_features: columns of the features.
        text_features: makes the features of texts; None where the user gives features.
        means: of the features in training, which stand for missing numbers of a table; None where
            a missing number is an error.
    """

    def __init__(
        self,
        label_names: Sequence[str],
        num_features: int,
        text_features: TextFeatures | None,
        *,
        record: TrainingRecord,
        means: NDArray[np.float32] | None = None,
        decoder: Rule | None = None,
        calibrator: Probabilities | None = None,
    ) -> None:
        super().__init__(label_names, record=record, decoder=decoder, calibrator=calibrator)
        self.num_features = num_features
        self.text_features = text_features
        self.means = means

    def read(self, inputs: Any) -> Any:
        """Features of texts, or the given ones, checked."""
        if self.text_features is not None:
            return self.text_features.transform(list_texts(inputs))
        return feature_matrix(inputs, self.num_features, self.means)

    def features(self, read: Any) -> Features:
        """The features themselves."""
        return read

    def save_tensors(self, folder: Path, tensors: Tensors) -> dict[str, Any]:
        """Write tensors and vocabulary; give what `config.json` needs to load them."""
        from safetensors.numpy import save

        if self.means is not None:
            tensors = {**tensors, "means": self.means}
        contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
        (folder / WEIGHTS).write_bytes(save(contiguous))  # a full disk is an OSError this way
        if self.text_features is not None:
            text = json.dumps(self.text_features.to_json(), ensure_ascii=False)
            (folder / VOCABULARY).write_text(text, encoding="utf-8")
        inputs = "features" if self.text_features is None else "texts"
        return {"num_features": self.num_features, "inputs": inputs}

    @staticmethod
    def load_tensors(folder: Path, config: Mapping[str, Any]) -> tuple[Tensors, dict[str, Any]]:
        """The tensors, each of finite numbers, and the constructor's arguments for reading."""
        from safetensors.numpy import load_file

        tensors: Tensors = load_file(folder / WEIGHTS)
        for name, tensor in tensors.items():
            _check_type(folder, name, tensor)
        text_features = None
        if config["inputs"] == "texts":
            text = (folder / VOCABULARY).read_text(encoding="utf-8")
            text_features = TextFeatures.from_json(json.loads(text))
            if text_features.num_features != config["num_features"]:
                raise UserError(
                    f"{folder / VOCABULARY}: {text_features.num_features} terms, but the weights "
                    f"are for {config['num_features']}"
                )
        means = tensors.pop("means", None)
        if means is not None and means.shape != (config["num_features"],):
            raise UserError(f"{folder / WEIGHTS}: the features' means are not one for each")
        reading = {
            "num_features": config["num_features"],
            "text_features": text_features,
            "means": means,
        }
        return tensors, reading


def _check_type(folder: Path, name: str, tensor: NDArray[Any]) -> None:
    """Refuse a tensor of another type than was saved under its name, and figures that are none."""
    whole = name.rpartition(".")[2] in _WHOLE
    if tensor.dtype.kind not in ("iu" if whole else "f"):
        expected = "whole numbers" if whole else "floating-point numbers"
        raise UserError(f"{folder / WEIGHTS}: {name} of {tensor.dtype}, expected {expected}")
    if not whole and not np.isfinite(tensor).all():
        raise UserError(f"{folder / WEIGHTS}: {name} holds a number that is not finite")


def check_shape(folder: Path, name: str, tensor: NDArray[Any], shape: tuple[int, ...]) -> None:
    """Refuse a tensor of another shape than the rest of the folder speaks of."""
    if tensor.shape != shape:
        raise UserError(f"{folder / WEIGHTS}: {name} of shape {tensor.shape}, expected {shape}")

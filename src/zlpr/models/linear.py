"""The linear model: TF-IDF of texts, or the user's own features, and one linear layer."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.data import Columns
from zlpr.decoding import Features, Probabilities, Rule
from zlpr.models.base import FittedModel, TrainingRecord
from zlpr.models.explanation import Parts
from zlpr.models.features import TextFeatures
from zlpr.models.inputs import feature_matrix, list_texts

WEIGHTS, VOCABULARY = "model.safetensors", "vocabulary.json"


class LinearModel(FittedModel):
    """Scores `X W + b` over the TF-IDF features of texts or over given features.

    Attributes:
        weight: of shape (features, labels), float32.
        bias: of shape (labels,), float32.
        text_features: makes the features of texts; None where the user gives features.
        means: of the features in training, which stand for missing numbers of a table; None where
            a missing number is an error.
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
        means: NDArray[np.float32] | None = None,
        decoder: Rule | None = None,
        calibrator: Probabilities | None = None,
    ) -> None:
        super().__init__(label_names, record=record, decoder=decoder, calibrator=calibrator)
        self.weight = weight
        self.bias = bias
        self.text_features = text_features
        self.means = means

    def score(self, read: Any) -> NDArray[np.float32]:
        """Scores of shape (samples, labels) for features that are already extracted."""
        return np.asarray(read @ self.weight + self.bias, dtype=np.float32)

    def features(self, read: Any) -> Features:
        """The features themselves."""
        return read

    def read(self, inputs: Any) -> Any:
        """The features that the weights are for, or a line that says what was expected."""
        if self.text_features is not None:
            return self.text_features.transform(list_texts(inputs))
        return feature_matrix(inputs, len(self.weight), self.means)

    def parts(self, sample: Any, read: Any, labels: Sequence[int]) -> Parts:
        """Each feature times its weights, which together with the biases are the scores."""
        return linear_parts(self, sample, read, lambda held: self.weight[held][:, labels], labels)

    def save_parts(self, folder: Path) -> dict[str, Any]:
        """Write the weights and the vocabulary."""
        from safetensors.numpy import save

        weights = {"weight": np.ascontiguousarray(self.weight), "bias": self.bias}
        if self.means is not None:
            weights["means"] = self.means
        (folder / WEIGHTS).write_bytes(save(weights))  # a full disk is an OSError this way
        if self.text_features is not None:
            text = json.dumps(self.text_features.to_json(), ensure_ascii=False)
            (folder / VOCABULARY).write_text(text, encoding="utf-8")
        return {
            "num_features": self.weight.shape[0],
            "inputs": "features" if self.text_features is None else "texts",
        }

    @classmethod
    def load_parts(
        cls, folder: Path, config: Mapping[str, Any], shared: Mapping[str, Any]
    ) -> "LinearModel":
        """Read what `save_parts` wrote; `shared` holds what every kind of model has."""
        return cls(**load_layer(folder, config, shared))


class LinearScores(Protocol):
    """A model whose scores are `x W + b`, whatever form its weights have."""

    bias: NDArray[np.float32]
    text_features: TextFeatures | None
    record: TrainingRecord


def linear_parts(
    model: LinearScores,
    sample: Any,
    read: Any,
    weights_of: Callable[[NDArray[np.int64]], Any],
    labels: Sequence[int],
) -> Parts:
    """What the features of one sample add to the scores of some labels, each times its weights.

    Args:
        model: knows the names of the features, and the biases.
        sample: as the user gave it.
        read: its features, shape (1, features), dense or sparse.
        weights_of: gives the weights of some features, shape (features, labels).
        labels: their numbers.
    """
    row = np.asarray(read.toarray() if hasattr(read, "toarray") else read)[0]
    columns = np.flatnonzero(row)
    values = row[columns, None].astype(np.float64) * np.asarray(weights_of(columns), np.float64)
    bias = model.bias[labels].astype(np.float64)
    if model.text_features is None:
        held = Columns.from_json(model.record.data.get("columns", {})).features
        names = [f"feature {c}" if held is None else held.names[c] for c in columns.tolist()]
        return Parts(names, values, bias)
    ngrams = model.text_features.places(sample)
    found = [ngrams[column] for column in columns.tolist()]
    return Parts([one.term for one in found], values, bias, [one.places for one in found])


def load_layer(
    folder: Path, config: Mapping[str, Any], shared: Mapping[str, Any], beside: int = 0
) -> dict[str, Any]:
    """The arguments of a `LinearModel` from its folder, checked against each other.

    Args:
        folder: the model's.
        config: its config.json.
        shared: what every kind of model has.
        beside: weights that are for other features than the vocabulary's, after those.
    """
    from safetensors.numpy import load_file

    tensors = load_file(folder / WEIGHTS)
    weight, bias, means = tensors["weight"], tensors["bias"], tensors.get("means")
    expected = (config["num_features"], len(shared["label_names"]))
    for name, tensor, shape in (("weights", weight, expected), ("biases", bias, expected[1:])):
        if tensor.shape != shape:
            raise UserError(f"{folder / WEIGHTS}: {name} of shape {tensor.shape}, expected {shape}")
    if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
        raise UserError(f"{folder / WEIGHTS}: a weight is not a finite number")
    if means is not None and (means.shape != expected[:1] or not np.isfinite(means).all()):
        raise UserError(f"{folder / WEIGHTS}: the features' means are not {expected[0]} numbers")
    text_features = None
    if config["inputs"] == "texts":
        text = (folder / VOCABULARY).read_text(encoding="utf-8")
        text_features = TextFeatures.from_json(json.loads(text))
        if text_features.num_features != len(weight) - beside:
            raise UserError(
                f"{folder / VOCABULARY}: {counted(text_features.num_features, 'term')}, but "
                f"the weights are for {len(weight) - beside:,}"
            )
    return {
        "weight": weight,
        "bias": bias,
        "text_features": text_features,
        "means": means,
        **shared,
    }

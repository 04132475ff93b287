"""The model for many labels: centroids name candidates, sparse weights score these exactly."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.decoding import Features, Probabilities, Rule
from zlpr.decoding._rule import check_number
from zlpr.metrics import TopScores
from zlpr.models.base import FittedModel, TrainingRecord
from zlpr.models.candidates import log_lengths
from zlpr.models.explanation import Parts
from zlpr.models.features import TextFeatures
from zlpr.models.inputs import LARGEST_FEATURE, feature_matrix, list_texts
from zlpr.models.linear import VOCABULARY, WEIGHTS, linear_parts
from zlpr.models.mixed_candidates import as_rows, nearest, score_cells
from zlpr.models.mixed_matrix import sparse_part


class ShortlistModel(FittedModel):
    """Scores of the candidates that centroids name; other labels count as -inf.

    A candidate's is `x w_l + b_l + c log(1 + n)`, with n the number of features that x has: the
    last is the same for all labels of a sample, and moves what is predicted, not how it is ranked.

    Attributes:
        centroids: the first stage, CSR of shape (labels, features), float32.
        weight: the second, of the same shape and kind.
        bias: of shape (labels,), float32.
        candidates: labels of a sample that are scored.
        text_features: makes the features of texts; None where the user gives features.
        length_weight: c.
    """

    kind = "zlpr_shortlist"

    def __init__(
        self,
        label_names: Sequence[str],
        centroids: Any,
        weight: Any,
        bias: NDArray[np.float32],
        candidates: int,
        text_features: TextFeatures | None,
        *,
        record: TrainingRecord,
        decoder: Rule | None = None,
        calibrator: Probabilities | None = None,
        length_weight: float = 0.0,
    ) -> None:
        super().__init__(label_names, record=record, decoder=decoder, calibrator=calibrator)
        self.centroids = centroids
        self.weight = weight
        self.bias = bias
        self.candidates = candidates
        self.text_features = text_features
        self.length_weight = length_weight

    @property
    def num_scored(self) -> int:
        """As many as there are candidates."""
        return min(self.candidates, len(self.label_names))

    def score(self, read: Any) -> TopScores:
        """The scores of each sample's candidates."""
        features = as_rows(read)
        labels = nearest(features, self.centroids, self.candidates)
        scores = np.full(labels.shape, -np.inf, dtype=np.float32)
        rows, places = np.nonzero(labels >= 0)
        named = labels[rows, places]
        scores[rows, places] = score_cells(features, self.weight, rows, named) + self.bias[named]
        scores += self._of_length(features)[:, None]
        return TopScores(labels, scores, len(self.label_names))

    def _of_length(self, features: Any) -> NDArray[np.float32]:
        """What the length of each sample adds to the scores of all its labels."""
        return np.float32(self.length_weight) * log_lengths(sparse_part(features))

    def features(self, read: Any) -> Features:
        """The features themselves."""
        return read

    def read(self, inputs: Any) -> Any:
        """The features that the weights are for, or a line that says what was expected."""
        if self.text_features is not None:
            return self.text_features.transform(list_texts(inputs))
        return feature_matrix(inputs, self.weight.shape[1])

    def parts(self, sample: Any, read: Any, labels: Sequence[int]) -> Parts:
        """Each feature times its weights, as in the linear model: candidates' scores are exact."""

        def weights_of(held: NDArray[np.int64]) -> Any:
            return sparse_part(self.weight)[list(labels)].toarray().T[held]

        parts = linear_parts(self, sample, sparse_part(read), weights_of, labels)
        return replace(parts, bias=parts.bias + float(self._of_length(read)[0]))

    def save_parts(self, folder: Path) -> dict[str, Any]:
        """Write the two sparse matrices and the vocabulary."""
        from safetensors.numpy import save

        (folder / WEIGHTS).write_bytes(save(self.tensors()))  # a full disk is an OSError this way
        if self.text_features is not None:
            text = json.dumps(self.text_features.to_json(), ensure_ascii=False)
            (folder / VOCABULARY).write_text(text, encoding="utf-8")
        return {
            "num_features": int(self.weight.shape[1]),
            "inputs": "features" if self.text_features is None else "texts",
            "candidates": self.candidates,
            "length_weight": self.length_weight,
        }

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All numbers of the model, by name."""
        tensors: dict[str, NDArray[Any]] = {"bias": self.bias}
        for name, stage in (("centroids", self.centroids), ("weight", self.weight)):
            matrix = sparse_part(stage)
            tensors[f"{name}.data"] = matrix.data.astype(np.float32)
            tensors[f"{name}.indices"] = matrix.indices.astype(np.int32)
            tensors[f"{name}.indptr"] = matrix.indptr.astype(np.int64)
        return tensors

    @classmethod
    def load_parts(
        cls, folder: Path, config: Mapping[str, Any], shared: Mapping[str, Any]
    ) -> "ShortlistModel":
        """Read what `save_parts` wrote; `shared` holds what every kind of model has."""
        from safetensors.numpy import load_file

        return cls(**load_stages(folder, config, shared, load_file(folder / WEIGHTS)))


def load_stages(
    folder: Path,
    config: Mapping[str, Any],
    shared: Mapping[str, Any],
    tensors: Mapping[str, Any],
    beside: int = 0,
) -> dict[str, Any]:
    """The arguments of a `ShortlistModel` from its folder, checked against each other.

    Args:
        folder: the model's.
        config: its config.json.
        shared: what every kind of model has.
        tensors: its numbers.
        beside: features that are no columns of the sparse matrices, but come after them.
    """
    place = folder / WEIGHTS
    shape = (len(shared["label_names"]), int(config["num_features"]) - beside)
    bias, candidates = tensors["bias"], config["candidates"]
    if bias.shape != shape[:1] or not np.isfinite(bias).all():
        raise UserError(f"{place}: the bias is not {shape[0]:,} finite numbers")
    if type(candidates) is not int or not 1 <= candidates < 2**31:
        raise UserError(f"candidates {candidates!r}: expected a whole number of at least 1")
    length_weight = config.get("length_weight", 0.0)  # models of before have none
    check_number("length_weight", length_weight)
    if abs(length_weight) > LARGEST_FEATURE:
        raise UserError(f"length_weight {length_weight:g}: leaves single precision")
    text_features = None
    if config["inputs"] == "texts":
        text = (folder / VOCABULARY).read_text(encoding="utf-8")
        text_features = TextFeatures.from_json(json.loads(text))
        if text_features.num_features != shape[1]:
            raise UserError(
                f"{folder / VOCABULARY}: {counted(text_features.num_features, 'term')}, but "
                f"the weights are for {shape[1]:,}"
            )
    return {
        "centroids": _matrix(place, tensors, "centroids", shape),
        "weight": _matrix(place, tensors, "weight", shape),
        "bias": bias,
        "candidates": candidates,
        "text_features": text_features,
        "length_weight": float(length_weight),
        **shared,
    }


def _matrix(
    place: Path, tensors: Mapping[str, Any], name: str, shape: tuple[int, int]
) -> "sparse.csr_array[Any]":
    """One sparse matrix of a file, whose parts must fit each other: compiled code trusts them."""
    data, indices, pointer = (tensors[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    fits = (
        pointer.shape == (shape[0] + 1,)
        and data.ndim == 1
        and data.shape == indices.shape
        and data.dtype == np.float32
        and indices.dtype == np.int32
        and pointer.dtype == np.int64
        and pointer[0] == 0
        and pointer[-1] == len(data)
        and bool((np.diff(pointer) >= 0).all())
        and bool(((indices >= 0) & (indices < shape[1])).all())
    )
    if not fits:
        raise UserError(f"{place}: {name} is no sparse matrix of shape {shape}")
    if not np.isfinite(data).all():
        raise UserError(f"{place}: a weight is not a finite number")
    return sparse.csr_array((data, indices, pointer), shape=shape)

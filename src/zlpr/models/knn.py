"""ML-kNN: how many of a sample's neighbours have a label, and what that has meant in training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from zlpr._errors import UserError
from zlpr.models.base import TrainingRecord
from zlpr.models.by_features import FeatureModel, Tensors, check_shape

_BLOCK = 1 << 24  # distances that are held together


class NeighboursModel(FeatureModel):
    """Log-odds of labels by the number of neighbours that have them (Zhang and Zhou, 2007).

    The folder holds the features and labels of all training samples.

    Attributes:
        samples: features of the training samples, scaled; dense or CSR.
        labels: of the same samples, CSR of 0 and 1.
        log_odds: of a label, given that c of its neighbours have it, (neighbours + 1, labels).
        shift: what is taken off given features before they are compared; None for texts.
        scale: what they are divided by then.
    """

    kind = "zlpr_knn"

    def __init__(
        self,
        label_names: Sequence[str],
        samples: Any,
        labels: Any,
        log_odds: NDArray[np.float32],
        *,
        record: TrainingRecord,
        shift: NDArray[np.float32] | None = None,
        scale: NDArray[np.float32] | None = None,
        **reading: Any,
    ) -> None:
        super().__init__(label_names, record=record, **reading)
        self.samples, self.labels, self.log_odds = samples, labels, log_odds
        self.shift, self.scale = shift, scale

    @property
    def neighbours(self) -> int:
        """How many are looked at."""
        return len(self.log_odds) - 1

    def score(self, read: Any) -> NDArray[np.float32]:
        """Scores of shape (samples, labels)."""
        nearest = nearest_samples(self._scaled(read), self.samples, self.neighbours)
        counts = counts_of_neighbours(nearest, self.labels)
        return np.take_along_axis(self.log_odds, counts, axis=0)

    def _scaled(self, read: Any) -> Any:
        if self.shift is None or self.scale is None:
            return read
        if sparse.issparse(read) and self.shift.any():
            read = cast("Any", read).toarray()
        if sparse.issparse(read):
            scaled: Any = sparse.csr_array(cast("Any", read), copy=True)
            scaled.data /= self.scale[scaled.indices]
            return scaled
        return np.asarray((read - self.shift) / self.scale, dtype=np.float32)

    def save_parts(self, folder: Path) -> dict[str, Any]:
        """Write the training samples, the table and the vocabulary."""
        tensors: Tensors = {"log_odds": self.log_odds}
        for name, matrix in (("samples", self.samples), ("labels", self.labels)):
            if sparse.issparse(matrix):
                rows: Any = sparse.csr_array(cast("Any", matrix))
                tensors[f"{name}.data"] = rows.data.astype(np.float32)
                tensors[f"{name}.indices"] = rows.indices.astype(np.int64)
                tensors[f"{name}.indptr"] = rows.indptr.astype(np.int64)
            else:
                tensors[name] = matrix
        if self.shift is not None and self.scale is not None:
            tensors |= {"shift": self.shift, "scale": self.scale}
        saved = self.save_tensors(folder, tensors)
        return {**saved, "training_samples": int(self.samples.shape[0])}

    @classmethod
    def load_parts(
        cls, folder: Path, config: Mapping[str, Any], shared: Mapping[str, Any]
    ) -> "NeighboursModel":
        """Read what `save_parts` wrote."""
        tensors, reading = cls.load_tensors(folder, config)
        rows, columns = config["training_samples"], config["num_features"]
        num_labels = len(shared["label_names"])
        labels = _csr(tensors, "labels", (rows, num_labels))
        labels.sum_duplicates()
        if (labels.data != 1).any():
            raise UserError("labels: expected 1 for each label of a sample, each once")
        samples = tensors.get("samples")
        if samples is None:
            samples = _csr(tensors, "samples", (rows, columns))
        check_shape(folder, "samples", samples, (rows, columns))
        log_odds = tensors["log_odds"]
        check_shape(folder, "log_odds", log_odds, (log_odds.size // num_labels, num_labels))
        shift, scale = tensors.get("shift"), tensors.get("scale")
        for name, tensor in (("shift", shift), ("scale", scale)):
            if tensor is not None:
                check_shape(folder, name, tensor, (columns,))
        if scale is not None and (scale <= 0).any():
            raise UserError("scale: expected numbers above 0")
        if not 1 < len(log_odds) <= rows + 1:
            raise UserError(f"a table for {len(log_odds) - 1} neighbours of {rows} samples")
        return cls(
            samples=samples,
            labels=labels,
            log_odds=log_odds,
            shift=shift,
            scale=scale,
            **reading,
            **shared,
        )


def _csr(tensors: Tensors, name: str, shape: tuple[int, int]) -> Any:
    parts = tuple(tensors[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    if any(part.ndim != 1 for part in parts):
        raise UserError(f"{name}: the parts of a sparse matrix are not of one dimension")
    matrix: Any = sparse.csr_array(parts, shape=shape)
    matrix.check_format()
    return matrix


def nearest_samples(
    read: Any, samples: Any, number: int, *, themselves: bool = False
) -> NDArray[np.int64]:
    """The nearest samples of each row by Euclidean distance, (rows, number); ties by place.

    Args:
        read: features of shape (rows, features).
        samples: features to choose from.
        number: of neighbours.
        themselves: whether row i is sample i, and is not its own neighbour.
    """
    squares = _squares(samples)
    rows = max(1, _BLOCK // max(samples.shape[0], 1))
    found = np.empty((read.shape[0], number), dtype=np.int64)
    for first in range(0, read.shape[0], rows):
        block = read[first : first + rows]
        product: Any = block @ samples.T
        product = cast("Any", product).toarray() if sparse.issparse(product) else product
        # Without the row's own square, which is the same for all samples.
        distance = squares - 2 * np.asarray(product, dtype=np.float64)
        if themselves:
            own = np.arange(len(distance))
            distance[own, first + own] = np.inf
        found[first : first + rows] = np.argsort(distance, axis=1, kind="stable")[:, :number]
    return found


def _squares(samples: Any) -> NDArray[np.float64]:
    if sparse.issparse(samples):
        squares = cast("Any", samples).multiply(samples)
        return np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.square(samples, dtype=np.float64).sum(axis=1))


def counts_of_neighbours(nearest: NDArray[np.int64], labels: Any) -> NDArray[np.int64]:
    """How many of each row's neighbours have each label, (rows, labels)."""
    rows, number = nearest.shape
    places = np.arange(0, rows * number + 1, number)
    chosen = sparse.csr_array(
        (np.ones(rows * number), nearest.ravel(), places), shape=(rows, labels.shape[0])
    )
    return np.asarray((chosen @ labels).toarray(), dtype=np.int64)


def log_odds_by_count(
    counts: NDArray[np.int64], labels: Any, number: int, smoothing: float
) -> NDArray[np.float32]:
    r"""What a count of neighbours with a label says of it, (number + 1, labels).

    $$\log\frac{P(l)\,P(c \mid l)}{P(\bar l)\,P(c \mid \bar l)}, \quad
      P(l) = \frac{s + n_l}{2s + n}, \quad P(c \mid l) = \frac{s + n_{l,c}}{s (k + 1) + n_l}$$

    with $n_{l,c}$ the training samples with label l of which c neighbours have it.

    Args:
        counts: of each training sample's neighbours, (samples, labels).
        labels: of the training samples, CSR.
        number: k.
        smoothing: s, above 0.
    """
    truth = np.asarray(labels.toarray(), dtype=bool)
    having, samples = truth.sum(axis=0), len(truth)
    table = np.empty((number + 1, truth.shape[1]))
    prior = np.log(smoothing + having) - np.log(smoothing + samples - having)
    for count in range(number + 1):
        is_count = counts == count
        with_label = smoothing + (is_count & truth).sum(axis=0)
        without = smoothing + (is_count & ~truth).sum(axis=0)
        table[count] = np.log(with_label) - np.log(without)
    below = np.log(smoothing * (number + 1) + having)
    above = np.log(smoothing * (number + 1) + samples - having)
    return np.asarray(table + prior - below + above, dtype=np.float32)

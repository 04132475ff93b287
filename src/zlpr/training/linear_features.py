"""Features of the linear model's parts: learned on the training part, scaled, shared by runs."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.data import Dataset
from zlpr.models.feature_config import FeatureConfig
from zlpr.models.features import Matrix, TextFeatures
from zlpr.models.inputs import LARGEST_FEATURE, fill_missing
from zlpr.models.mixed_matrix import MixedMatrix
from zlpr.training.sample_basis import SampleBases

if TYPE_CHECKING:
    from torch import Tensor

    from zlpr.models.chain import Chain
    from zlpr.models.powerset import SetSoftmax

SMALLEST_FEATURE = 1e-30
"""A feature that is nowhere larger would take weights beyond single precision."""

LARGEST_OFFSET = 1e5
"""Deviations that the mean of a dense feature may be away from 0: its values are rounded to a
hundredth of a deviation there, and so is what its mean adds to scores."""

ALL_ROUNDING = 1e12
"""From so many on, the deviation is that of rounding a constant."""

Layer = TypeVar("Layer", "Chain", "SetSoftmax")


@dataclass(frozen=True)
class ExtractedFeatures:
    """Features of one training and one validation part, to be shared between runs.

    Attributes:
        train: of shape (training samples, features).
        validation: of shape (validation samples, features).
        text_features: what made them from texts; None where the data came with features.
        scaling: what the data's own features were scaled by; None for texts.
        means: what stands for a missing number of a table; None where that is an error.
        embedded: the columns that are embeddings; None where none are.
        usual_scale: the length of embeddings that a search begins with, or is told to keep.
        is_scale_open: whether other lengths may be tried.
        bases: of the training samples, which fits share.
    """

    train: Matrix
    validation: Matrix
    text_features: TextFeatures | None
    scaling: "Scaling | None" = None
    means: NDArray[np.float32] | None = None
    embedded: slice | None = None
    usual_scale: float = 1.0
    is_scale_open: bool = False
    bases: SampleBases = field(default_factory=SampleBases, compare=False, repr=False)

    @property
    def both(self) -> Matrix:
        """Of both parts, the training samples first."""
        parts: list[Any] = [self.train, self.validation]
        if isinstance(self.train, MixedMatrix):
            return self.train.below(parts[1])
        if _is_sparse(self.train):
            return sparse.csr_array(sparse.vstack(parts))
        return np.concatenate(parts)

    def at(self, scale: float) -> "ExtractedFeatures":
        """The same with embeddings of another length; themselves where there are none."""
        return self

    def rescaled(self, parameters: "Tensor", before: float) -> "Tensor":
        """Weights that score these features as `parameters` did those of another scale."""
        return parameters

    def for_given(self, part: "Layer") -> "Layer":
        """The same layer for the features as they were before they were scaled."""
        if self.scaling is None:
            return part
        weight, bias = self.scaling.undo(part.weight, part.bias)
        return replace(part, weight=weight, bias=bias)

    def validation_as_given(self, inputs: Any) -> Matrix:
        """The validation features as the fitted model reads them."""
        return self.validation if self.scaling is None else self.read(inputs)

    def beside(self, ngrams: Matrix, texts: list[str]) -> Matrix:
        """The n-grams of texts with what else is read of these."""
        return ngrams

    def read(self, inputs: Any) -> Matrix:
        """Features of other samples, as the fitted model's `score` takes them."""
        if self.text_features is not None:
            return self.text_features.transform(inputs)
        filled = inputs if self.means is None else fill_missing(inputs, self.means)
        features: Matrix = check_features(filled)
        return features


@dataclass(frozen=True)
class Scaling:
    """Shift and scale per feature, by which regularisation treats given features alike.

    Dense features are brought to mean 0 and deviation 1; sparse ones, which stay sparse, to a
    largest absolute value of 1. A feature that is constant in training has no weight there, so that
    its scale is of no account until a model is fitted to both parts: it is that of the other part.
    What is constant in both keeps its scale.
    """

    shift: NDArray[np.float32]
    scale: NDArray[np.float32]

    @classmethod
    def of(cls, features: Any, others: Any = None) -> "Scaling":
        """What the training samples call for.

        Args:
            features: of the training samples.
            others: of samples that a model is fitted to later, beside these.
        """
        shift = np.zeros(features.shape[1])
        if not _is_sparse(features):
            shift = features.mean(axis=0, dtype=np.float64)
        scale = _spread(features, shift)
        _check_not_tiny(features, scale)
        if others is not None:
            later = _spread(others, shift)
            scale = np.where((scale > 0) | (later < SMALLEST_FEATURE), scale, later)
        scale = np.where(scale > 0, scale, 1.0)
        return cls(shift.astype(np.float32), scale.astype(np.float32))

    def apply(self, features: Any) -> Any:
        """The features, shifted and scaled; sparse ones stay so where nothing is shifted."""
        if _is_sparse(features) and self.shift.any():
            features = features.toarray()
        if _is_sparse(features):
            scaled: Any = sparse.csr_array(features, copy=True)
            scaled.data /= self.scale[scaled.indices]
            return scaled
        return np.asarray((features - self.shift) / self.scale, dtype=np.float32)

    def widened(self, scaled: Any) -> "tuple[Scaling, Any]":
        """The scaling of sparse features with other samples among them, and those as it has them.

        Args:
            scaled: what `apply` gave of all samples.
        """
        factor = np.maximum(_spread(scaled, self.shift), 1.0).astype(np.float32)
        further = Scaling(self.shift, factor)
        return Scaling(self.shift, self.scale * factor), further.apply(scaled)

    def undo(
        self, weight: NDArray[np.float32], bias: NDArray[np.float32]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Weights that give the same scores on the features as they were."""
        plain = weight / self.scale[:, None]
        return plain, np.asarray(bias - self.shift @ plain, dtype=np.float32)


def _spread(features: Any, shift: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """The largest absolute value of sparse features, the deviation of dense ones from a point."""
    if _is_sparse(features):
        largest: NDArray[np.float64] = abs(features).max(axis=0).toarray().astype(np.float64)
        return largest.ravel()
    deviation: NDArray[np.float64] = np.sqrt(np.square(features - shift).mean(axis=0))
    return deviation


def extract_features(
    train: Dataset, validation: Dataset, config: FeatureConfig | None = None
) -> ExtractedFeatures:
    """Learn the features on the training part alone and apply them to both.

    Texts become TF-IDF n-grams. The data's own features are scaled, so that the regularisation
    treats them alike; a fitted model takes them as they were. What validation is scored by depends
    on the training part alone: a feature that is constant there is scaled as in the other part.
    """
    if train.texts is not None and validation.texts is not None:
        text_features = TextFeatures(config)
        matrix = text_features.fit_transform(train.texts)
        return ExtractedFeatures(matrix, text_features.transform(validation.texts), text_features)
    means = _means(train)
    first, second = (
        part if means is None or part is None else fill_missing(part, means)
        for part in (train.features, validation.features)
    )
    _check_offsets(first)
    first, second = check_features(first), check_features(second)
    if first.shape[1] != second.shape[1]:
        features = counted(first.shape[1], "feature")
        raise UserError(f"training has {features}, validation {second.shape[1]:,}")
    if _is_sparse(first) != _is_sparse(second):  # what is scaled alike is of one kind
        second = sparse.csr_array(second) if _is_sparse(first) else second.toarray()
    scaling = Scaling.of(first, second)
    with np.errstate(over="ignore"):
        scaled = scaling.apply(second)
    _check_near(second, scaled)
    return ExtractedFeatures(scaling.apply(first), scaled, None, scaling, means)


def _check_offsets(features: Any) -> None:
    """Refuse features so far from 0 that single precision cannot tell their values apart."""
    if features is None or _is_sparse(features):
        return
    for first in range(0, features.shape[1], 256):  # a few columns at a time in double precision
        block = np.asarray(features[:, first : first + 256], dtype=np.float64)
        with np.errstate(all="ignore"):  # of constants, and of infinite ones, refused later
            steps = block - block[:1]  # whose mean is not rounded, of constants least of all
            mean, deviation = block[0] + steps.mean(axis=0), steps.std(axis=0)
            offset = np.abs(mean) / deviation
        far = np.flatnonzero((offset > LARGEST_OFFSET) & (offset < ALL_ROUNDING))
        if len(far):
            raise UserError(
                f"feature {first + far[0]} (the first is 0) is about {mean[far[0]]:.6g}, give or "
                f"take {deviation[far[0]]:.3g}: single precision, in which features are scored, "
                "hardly tells its values apart; take its mean off, or leave it out"
            )


def _check_not_tiny(features: Any, scale: NDArray[np.float64]) -> None:
    """Refuse features so small that the weights of such would leave single precision."""
    for number in np.flatnonzero((scale > 0) & (scale < SMALLEST_FEATURE)).tolist():
        largest = float(abs(features[:, [number]]).max())
        if largest < SMALLEST_FEATURE:
            raise UserError(
                f"feature {number} (the first is 0) is nowhere above {largest:.3g}, too small to "
                f"score in single precision (at least {SMALLEST_FEATURE:g}); scale it, or leave it "
                "out"
            )


def _check_near(validation: Any, scaled: Any) -> None:
    """Refuse validation features that are out of all proportion to the training part's."""
    largest = abs(scaled).max(axis=0)
    largest = largest.toarray().ravel() if _is_sparse(scaled) else largest
    far = np.flatnonzero(~(largest <= LARGEST_FEATURE))
    if len(far):
        number = int(far[0])
        raise UserError(
            f"feature {number} (the first is 0) is up to {abs(validation[:, [number]]).max():.3g} "
            "in the validation part, out of all proportion to the training part: the ratio leaves "
            "single precision; scale it, or leave out what stands for a missing number"
        )


def _means(train: Dataset) -> NDArray[np.float32] | None:
    """The mean of what is there, per feature of a table; 0 for a column of nothing.

    A table says which of its numbers are missing. Elsewhere NaN is as likely a mistake.
    """
    if train.columns is None or train.columns.features is None or train.features is None:
        return None
    features = np.asarray(train.features, dtype=np.float64)
    there = ~np.isnan(features)
    sums = np.where(there, features, 0.0).sum(axis=0)
    return np.asarray(sums / np.maximum(there.sum(axis=0), 1), dtype=np.float32)


def check_features(features: Matrix | None) -> Any:
    """Finite float32 features, or a line that says what is wrong with them."""
    if features is None:
        raise UserError("one part of the data has texts, another features; give both the same")
    matrix: Any = features
    matrix = matrix.astype(np.float32) if matrix.dtype != np.float32 else matrix
    values = np.asarray(matrix.data if sparse.issparse(features) else matrix)
    if not np.isfinite(values).all():
        raise UserError(
            "the features hold NaN or infinite values, or some beyond 3.4e38; the linear model "
            "takes numbers of 32 bits"
        )
    return matrix


def _is_sparse(matrix: Any) -> bool:
    return bool(sparse.issparse(matrix))

"""What every decoding rule is: fitted on validation scores, called on scores, kept as JSON."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.metrics import DECISION_METRICS, Empty, Labels, Scores, available
from zlpr.metrics._inputs import SampleLabels, as_labels, as_scores, check_empty, score_block

BoolArray: TypeAlias = NDArray[np.bool_]
FloatArray: TypeAlias = NDArray[np.floating[Any]]
Config: TypeAlias = dict[str, Any]
Features: TypeAlias = Any
"""A matrix of shape (samples, columns): numpy array, tensor or scipy CSR."""
Array = TypeVar("Array", NDArray[Any], torch.Tensor)


@dataclass(frozen=True)
class Validation:
    """Checked validation data and what to fit for.

    Attributes:
        true: true labels, shape (samples, labels).
        scores: scores of the same shape, float32 or float64, without NaN.
        metric: one of `DECISION_METRICS`.
        empty: what empty cases count.
        train_labels: the label sets of the training part, where they are known.
        features: what the model read of each sample, (samples, columns), where it is known.
    """

    true: BoolArray
    scores: FloatArray
    metric: str
    empty: Empty
    train_labels: SampleLabels | None = None
    features: Features | None = None

    @classmethod
    def check(
        cls,
        y_true: Labels,
        y_score: Scores,
        metric: str,
        empty: Empty,
        train_labels: Labels | None = None,
        features: Features | None = None,
    ) -> "Validation":
        """Check what a user gave to `fit`."""
        check_metric(metric)
        check_empty(empty)
        scores = check_scores(y_score)
        labels = as_labels("y_true", y_true)
        if labels.shape != scores.shape:
            raise UserError(f"y_score has shape {scores.shape}, y_true has {labels.shape}")
        if scores.size == 0:
            raise UserError(f"there is nothing to fit on: y_score has shape {scores.shape}")
        true = np.zeros(scores.size, dtype=bool)
        true[labels.block(0, len(scores)).cells] = True
        return cls(
            true.reshape(scores.shape),
            scores,
            metric,
            empty,
            _check_train_labels(train_labels, scores.shape[1]),
            check_features(features, len(scores)),
        )

    def select(self, rows: NDArray[np.int64]) -> "Validation":
        """Some of the samples."""
        features = None if self.features is None else self.features[rows]
        return replace(self, true=self.true[rows], scores=self.scores[rows], features=features)


def check_metric(metric: str) -> None:
    """Refuse a metric that no decoding rule can change."""
    if metric in DECISION_METRICS:
        return
    reason = "does not depend on the decoding rule" if metric in available() else "does not exist"
    raise UserError(f"metric {metric!r} {reason}; fit for one of: {', '.join(DECISION_METRICS)}")


def check_scores(y_score: Any) -> FloatArray:
    """Scores as a float32 or float64 matrix without NaN."""
    scores = as_scores("y_score", y_score)
    return score_block("y_score", scores, 0, len(scores))


def _check_train_labels(train_labels: Labels | None, num_labels: int) -> SampleLabels | None:
    """The label sets of the training part, or None if there is none."""
    if train_labels is None:
        return None
    labels = as_labels("train_labels", train_labels)
    if labels.shape[1] != num_labels:
        raise UserError(
            f"train_labels has {counted(labels.shape[1], 'label')}, y_score has {num_labels}"
        )
    return labels.block(0, labels.shape[0]) if labels.shape[0] else None


def check_features(features: Features | None, samples: int) -> Features | None:
    """Features with one row per sample; CSR stays CSR."""
    if features is None:
        return None
    if isinstance(features, torch.Tensor):
        features = features.detach().cpu().numpy()
    if hasattr(features, "tocsr"):
        features = features.tocsr()
    elif not hasattr(features, "indptr"):
        features = np.asarray(features)
    if len(features.shape) != 2 or features.shape[0] != samples:
        raise UserError(f"features has shape {features.shape}, expected ({samples}, columns)")
    return features


def check_width(scores: FloatArray, num_labels: int) -> None:
    """Refuse scores of other labels than those a rule was fitted on."""
    if scores.shape[1] != num_labels:
        raise UserError(
            f"y_score has {counted(scores.shape[1], 'label')}, the rule was fitted on {num_labels}"
        )


def as_given(like: Any, values: NDArray[Any]) -> Any:
    """An array of the kind of `like`: a tensor on its device, or a numpy array."""
    if isinstance(like, torch.Tensor):
        return torch.from_numpy(values).to(like.device)
    return values


class Rule(ABC):
    """Turns scores into label sets.

    A rule is a dataclass whose fields are its whole state; `fit` sets them, `to_config` gives
    them as plain JSON.
    """

    name: ClassVar[str]
    needs_features: ClassVar[bool] = False
    """Whether the rule reads the samples' features beside their scores."""

    def fit(
        self,
        y_true: Labels,
        y_score: Scores,
        metric: str = "micro_f1",
        *,
        empty: Empty = "paper",
        train_labels: Labels | None = None,
        features: Features | None = None,
    ) -> Self:
        """Choose the rule's parameters on validation data.

        Every rule takes all of these, so that any can stand where another stood; each uses what
        it can.

        Args:
            y_true: true labels, shape (samples, labels), dense or CSR.
            y_score: scores of the same shape, dense.
            metric: the metric to be best at, one of `DECISION_METRICS`.
            empty: what empty cases count in it, see `zlpr.metrics`.
            train_labels: labels of the training part, shape (any, labels), dense or CSR.
            features: of the validation samples, shape (samples, columns), dense or CSR.

        Returns:
            The rule itself.
        """
        self.learn(Validation.check(y_true, y_score, metric, empty, train_labels, features))
        return self

    @abstractmethod
    def learn(self, data: Validation) -> None:
        """Choose the parameters on checked data."""

    @abstractmethod
    def decide(self, scores: FloatArray, features: Features | None = None) -> BoolArray:
        """The label sets of checked scores."""

    @property
    def reads_features(self) -> bool:
        """Whether the rule reads features, to be fitted as to decide."""
        return self.needs_features

    def __call__(self, y_score: Array, *, features: Features | None = None) -> Array:
        """Decode scores.

        Args:
            y_score: scores of shape (samples, labels), numpy array or tensor.
            features: of the same samples, for a rule that reads them.

        Returns:
            Booleans of the same shape and kind, on the same device.
        """
        scores = check_scores(y_score)
        if self.reads_features and features is None:
            raise UserError(f"{self.name} reads features: give it those of the samples")
        chosen = self.decide(scores, check_features(features, len(scores)))
        decided: Array = as_given(y_score, chosen)
        return decided

    def to_config(self) -> Config:
        """The rule as plain JSON, with its name under "rule"."""
        return {"rule": self.name} | {
            field.name: getattr(self, field.name)
            for field in fields(self)  # type: ignore[arg-type]  # every rule is a dataclass
        }

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """The rule that `to_config` described."""
        if config.get("rule") != cls.name:
            raise UserError(f"expected a rule {cls.name!r}, got {config.get('rule')!r}")
        known = {field.name for field in fields(cls)}  # type: ignore[arg-type]
        given = {name: value for name, value in config.items() if name != "rule"}
        if unknown := sorted(given.keys() - known):
            raise UserError(f"rule {cls.name!r} has no parameter {', '.join(unknown)}")
        return cls(**given)


def check_number(name: str, value: Any) -> None:
    """Refuse anything but a finite number: NaN and infinities are not JSON."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise UserError(f"{name} must be a finite number, got {value!r}")


def check_numbers(name: str, values: Any) -> None:
    """Refuse anything but a list of finite numbers."""
    if not isinstance(values, list):
        raise UserError(f"{name} must be a list of numbers, got {type(values).__name__}")
    for value in values:
        check_number(name, value)

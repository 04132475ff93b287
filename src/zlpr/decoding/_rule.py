"""What every decoding rule is: fitted on validation scores, called on scores, kept as JSON."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from zlpr._errors import UserError
from zlpr.metrics import DECISION_METRICS, METRICS, Empty, Labels, Scores
from zlpr.metrics._inputs import as_labels, as_scores, check_empty, score_block

BoolArray: TypeAlias = NDArray[np.bool_]
FloatArray: TypeAlias = NDArray[np.floating[Any]]
Config: TypeAlias = dict[str, Any]
Array = TypeVar("Array", NDArray[Any], torch.Tensor)


@dataclass(frozen=True)
class Validation:
    """Checked validation data and what to fit for.

    Attributes:
        true: true labels, shape (samples, labels).
        scores: scores of the same shape, float32 or float64, without NaN.
        metric: one of `DECISION_METRICS`.
        empty: what empty cases count.
    """

    true: BoolArray
    scores: FloatArray
    metric: str
    empty: Empty

    @classmethod
    def check(cls, y_true: Labels, y_score: Scores, metric: str, empty: Empty) -> "Validation":
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
        return cls(true.reshape(scores.shape), scores, metric, empty)


def check_metric(metric: str) -> None:
    """Refuse a metric that no decoding rule can change."""
    if metric in DECISION_METRICS:
        return
    reason = "does not depend on the decoding rule" if metric in METRICS else "does not exist"
    raise UserError(f"metric {metric!r} {reason}; fit for one of: {', '.join(DECISION_METRICS)}")


def check_scores(y_score: Any) -> FloatArray:
    """Scores as a float32 or float64 matrix without NaN."""
    scores = as_scores("y_score", y_score)
    return score_block("y_score", scores, 0, len(scores))


def check_width(scores: FloatArray, num_labels: int) -> None:
    """Refuse scores of other labels than those a rule was fitted on."""
    if scores.shape[1] != num_labels:
        raise UserError(
            f"y_score has {scores.shape[1]} labels, the rule was fitted on {num_labels}"
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

    @abstractmethod
    def fit(
        self, y_true: Labels, y_score: Scores, metric: str = "micro_f1", *, empty: Empty = "paper"
    ) -> Self:
        """Choose the rule's parameters on validation data.

        Args:
            y_true: true labels, shape (samples, labels), dense or CSR.
            y_score: scores of the same shape, dense.
            metric: the metric to be best at, one of `DECISION_METRICS`.
            empty: what empty cases count in it, see `zlpr.metrics`.

        Returns:
            The rule itself.
        """

    @abstractmethod
    def decide(self, scores: FloatArray) -> BoolArray:
        """The label sets of checked scores."""

    def __call__(self, y_score: Array) -> Array:
        """Decode scores.

        Args:
            y_score: scores of shape (samples, labels), numpy array or tensor.

        Returns:
            Booleans of the same shape and kind, on the same device.
        """
        decided: Array = as_given(y_score, self.decide(check_scores(y_score)))
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

"""What every decoding rule is: fitted on validation scores, called on scores, kept as JSON."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self, TypeAlias, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.decoding._shortlist import Shortlist, place_truth
from zlpr.metrics import DECISION_METRICS, Empty, LabelLists, Labels, Scores, TopScores, available
from zlpr.metrics._inputs import SampleLabels, as_labels, as_scores, check_empty, dense_block

BoolArray: TypeAlias = NDArray[np.bool_]
FloatArray: TypeAlias = NDArray[np.floating[Any]]
Config: TypeAlias = dict[str, Any]
Features: TypeAlias = Any
"""A matrix of shape (samples, columns): numpy array, tensor or scipy CSR."""
Array = TypeVar("Array", NDArray[Any], torch.Tensor)


@dataclass(frozen=True)
class CheckedScores:
    """Scores as rules see them.

    Attributes:
        values: shape (samples, width), float32 or float64, without NaN.
        shortlist: which label each is of; None where column l is label l.
        top: what they were made of, in the same order; None where they were dense.
    """

    values: FloatArray
    shortlist: Shortlist | None = None
    top: TopScores | None = None

    @property
    def num_labels(self) -> int:
        """L."""
        return self.values.shape[1] if self.shortlist is None else self.shortlist.num_labels

    def like(self, given: Any, values: NDArray[Any]) -> Any:
        """Values of the cells in the form of what was given to a rule or a calibrator.

        Args:
            given: array, tensor or `TopScores`.
            values: booleans, which become label sets, or numbers; shape (samples, width).
        """
        if self.top is not None:
            if values.dtype == bool:
                return self.top.chosen(values)
            return self.top.with_scores(np.where(self.top.labels < 0, -np.inf, values))
        if isinstance(given, torch.Tensor):
            return torch.from_numpy(values).to(given.device)
        return values


@dataclass(frozen=True)
class Validation:
    """Checked validation data and what to fit for.

    Attributes:
        true: which cells are true, shape (samples, width).
        scores: of the same shape, float32 or float64, without NaN.
        metric: one of `DECISION_METRICS`.
        empty: what empty cases count.
        train_labels: the label sets of the training part, where they are known.
        features: what the model read of each sample, (samples, columns), where it is known.
        shortlist: which label each cell is of; None where column l is label l.
        missed: true labels that are no candidates, where there is a shortlist.
        groups: a number per sample, the same for copies of one; None where there are none.
    """

    true: BoolArray
    scores: FloatArray
    metric: str
    empty: Empty
    train_labels: SampleLabels | None = None
    features: Features | None = None
    shortlist: Shortlist | None = None
    missed: SampleLabels | None = None
    groups: NDArray[np.int64] | None = None

    @classmethod
    def check(
        cls,
        y_true: Labels,
        y_score: Scores,
        metric: str,
        empty: Empty,
        train_labels: Labels | None = None,
        features: Features | None = None,
        groups: Any = None,
    ) -> "Validation":
        """Check what a user gave to `fit`."""
        check_metric(metric)
        check_empty(empty)
        scores = check_scores(y_score)
        shape = (len(scores.values), scores.num_labels)
        labels = as_labels("y_true", y_true)
        if labels.shape != shape:
            raise UserError(f"y_score has shape {shape}, y_true has {labels.shape}")
        if scores.values.size == 0:
            raise UserError(f"there is nothing to fit on: y_score has shape {shape}")
        truth, missed = labels.block(0, shape[0]), None
        if scores.top is not None:
            true, missed = place_truth(truth, scores.top)
        else:
            true = np.zeros(shape, dtype=bool)
            true[truth.rows, truth.columns] = True
        return cls(
            true,
            scores.values,
            metric,
            empty,
            _check_train_labels(train_labels, shape[1]),
            check_features(features, shape[0]),
            scores.shortlist,
            missed,
            _check_groups(groups, shape[0]),
        )

    def select(self, rows: NDArray[np.int64]) -> "Validation":
        """Some of the samples."""
        return replace(
            self,
            true=self.true[rows],
            scores=self.scores[rows],
            features=None if self.features is None else self.features[rows],
            shortlist=None if self.shortlist is None else self.shortlist.select(rows),
            missed=None if self.missed is None else self.missed.select(rows),
            groups=None if self.groups is None else self.groups[rows],
        )

    @cached_property
    def group_of(self) -> NDArray[np.int64]:
        """Which group each sample is of, in numbers from 0 up; without groups its own."""
        if self.groups is None:
            return np.arange(len(self.true))
        numbers: NDArray[np.int64] = np.unique(self.groups, return_inverse=True)[1]
        return numbers

    @property
    def num_groups(self) -> int:
        """How many samples there are that tell something new."""
        return int(self.group_of.max(initial=-1)) + 1

    @property
    def num_labels(self) -> int:
        """L."""
        return self.true.shape[1] if self.shortlist is None else self.shortlist.num_labels

    @property
    def num_cells(self) -> int:
        """Samples times labels, candidates or not."""
        return len(self.true) * self.num_labels

    def count_by_label(self, cells: BoolArray) -> NDArray[np.int64]:
        """How many of the cells that are set belong to each label, shape (labels,)."""
        if self.shortlist is not None:
            return self.shortlist.count(cells)
        counts: NDArray[np.int64] = np.add.reduce(cells, axis=0, dtype=np.int64)
        return counts

    def label_sizes(self) -> NDArray[np.int64]:
        """How many samples have each label, shape (labels,)."""
        sizes = self.count_by_label(self.true)
        if self.missed is None:
            return sizes
        return sizes + np.bincount(self.missed.columns, minlength=self.num_labels)

    def sample_sizes(self) -> NDArray[np.int64]:
        """How many labels each sample has, shape (samples,)."""
        sizes: NDArray[np.int64] = np.add.reduce(self.true, axis=1, dtype=np.int64)
        return sizes if self.missed is None else sizes + self.missed.counts

    def per_cell(self, values: NDArray[Any]) -> NDArray[Any]:
        """A value per label, shape (labels,), in a shape that goes with the cells'."""
        return values if self.shortlist is None else self.shortlist.take(values)

    def cells_of(self, label: int) -> tuple[Any, Any]:
        """Where the cells of a label are, as indices into `scores` and `true`."""
        return (slice(None), label) if self.shortlist is None else self.shortlist.cells_of(label)

    def label_lengths(self) -> NDArray[np.int64]:
        """How many cells each label has, shape (labels,)."""
        if self.shortlist is not None:
            return self.shortlist.lengths
        return np.full(self.num_labels, len(self.true))

    def columns(self, labels: NDArray[np.int64]) -> tuple[FloatArray, BoolArray]:
        """Scores and truth of some labels, a column each; -inf where one has fewer cells."""
        if self.shortlist is None:
            return self.scores[:, labels], self.true[:, labels]
        cells = [self.cells_of(int(label)) for label in labels]
        longest = max((len(rows) for rows, _ in cells), default=0)
        scores = np.full((longest, len(labels)), -np.inf, dtype=self.scores.dtype)
        true = np.zeros(scores.shape, dtype=bool)
        for column, (rows, places) in enumerate(cells):
            scores[: len(rows), column] = self.scores[rows, places]
            true[: len(rows), column] = self.true[rows, places]
        return scores, true


def check_metric(metric: str) -> None:
    """Refuse a metric that no decoding rule can change."""
    if metric in DECISION_METRICS:
        return
    reason = "does not depend on the decoding rule" if metric in available() else "does not exist"
    raise UserError(f"metric {metric!r} {reason}; fit for one of: {', '.join(DECISION_METRICS)}")


def check_scores(y_score: Any) -> CheckedScores:
    """Scores in float32 or float64 without NaN; candidates in ascending order of their labels."""
    scores = as_scores("y_score", y_score)
    if isinstance(scores, TopScores):
        top = scores.by_label()
        return CheckedScores(top.scores, Shortlist.of(top), top)
    return CheckedScores(dense_block("y_score", scores, 0, len(scores)))


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


def _check_groups(groups: Any, samples: int) -> NDArray[np.int64] | None:
    """A number per sample, equal where what was given is; None without any."""
    if groups is None:
        return None
    numbers = np.unique(np.asarray(groups), return_inverse=True)[1]
    if numbers.shape != (samples,):
        raise UserError(f"groups has shape {np.shape(groups)}, expected ({samples},)")
    return numbers


def descending_order(values: FloatArray) -> NDArray[np.int64]:
    """The columns of each row from its highest value down; of equal values the first one first."""
    order = np.argsort(-values, axis=1)
    descending = np.take_along_axis(values, order, axis=1)
    tied = (descending[:, 1:] == descending[:, :-1]).any(axis=1)
    # The stable sort is several times slower, and differs only where there are ties.
    order[tied] = np.argsort(-values[tied], axis=1, kind="stable")
    return order


def check_features(features: Features | None, samples: int) -> Features | None:
    """Features with one row per sample; CSR stays CSR."""
    if features is None:
        return None
    if isinstance(features, np.ma.MaskedArray):
        raise UserError("features is a masked array, whose mask would be lost; fill it first")
    if isinstance(features, torch.Tensor):
        features = features.detach().cpu()
        features = features.float() if features.dtype == torch.bfloat16 else features
        features = features.numpy()
    if hasattr(features, "tocsr"):
        features = features.tocsr()
    elif not hasattr(features, "indptr"):
        features = np.asarray(features)
    if len(features.shape) != 2 or features.shape[0] != samples:
        raise UserError(f"features has shape {features.shape}, expected ({samples}, columns)")
    numbers = np.asarray(features.data if hasattr(features, "indptr") else features)
    if numbers.dtype.kind not in "biuf" or not np.isfinite(numbers).all():
        raise UserError("features has entries that are infinite or not numbers")
    return features


def check_width(scores: FloatArray, num_labels: int, shortlist: Shortlist | None = None) -> None:
    """Refuse scores of other labels than those a rule was fitted on."""
    given = scores.shape[1] if shortlist is None else shortlist.num_labels
    if given != num_labels:
        raise UserError(
            f"y_score has {counted(given, 'label')}, the rule was fitted on {num_labels}"
        )


def check_all_labels(name: str, shortlist: Shortlist | None) -> None:
    """Refuse scores of candidates for what reads the scores of all labels."""
    if shortlist is not None:
        raise UserError(
            f"{name} reads the scores of all labels, and here are those of candidates alone; "
            "choose another rule"
        )


class Rule(ABC):
    """Turns scores into label sets.

    A rule is a dataclass whose fields are its whole state; `fit` sets them, `to_config` gives
    them as plain JSON.
    """

    name: ClassVar[str]
    needs_features: ClassVar[bool] = False
    """Whether the rule reads the samples' features beside their scores."""
    needs_all_labels: ClassVar[bool] = False
    """Whether the rule needs the scores of all labels, so that it cannot decide on `TopScores`."""

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
            y_score: scores of the same shape, dense or `TopScores`.
            metric: the metric to be best at, one of `DECISION_METRICS`.
            empty: what empty cases count in it, see `zlpr.metrics`.
            train_labels: labels of the training part, shape (any, labels), dense or CSR;
                of other samples than these, each of which would have seen its own set there.
            features: of the validation samples, shape (samples, columns), dense or CSR.

        Returns:
            The rule itself.
        """
        data = Validation.check(y_true, y_score, metric, empty, train_labels, features)
        if self.reads_all_labels:
            check_all_labels(self.name, data.shortlist)
        self.learn(data)
        return self

    @abstractmethod
    def learn(self, data: Validation) -> None:
        """Choose the parameters on checked data."""

    @abstractmethod
    def decide(
        self,
        scores: FloatArray,
        features: Features | None = None,
        shortlist: Shortlist | None = None,
    ) -> BoolArray:
        """Which cells of checked scores are predicted.

        Args:
            scores: shape (samples, width).
            features: of the samples, for a rule that reads them.
            shortlist: which label each cell is of; None where column l is label l.
        """

    @property
    def reads_features(self) -> bool:
        """Whether the rule reads features, to be fitted as to decide."""
        return self.needs_features

    @property
    def reads_all_labels(self) -> bool:
        """Whether the rule reads the scores of all labels, to be fitted as to decide."""
        return self.needs_all_labels

    @overload
    def __call__(self, y_score: TopScores, *, features: Features | None = None) -> LabelLists: ...
    @overload
    def __call__(self, y_score: Array, *, features: Features | None = None) -> Array: ...
    def __call__(self, y_score: Any, *, features: Features | None = None) -> Any:
        """Decode scores.

        Args:
            y_score: scores of shape (samples, labels), numpy array or tensor, or `TopScores`.
            features: of the same samples, for a rule that reads them.

        Returns:
            Booleans of the same shape and kind, on the same device; `LabelLists` of `TopScores`,
            in which no label is predicted that was no candidate.
        """
        scores = check_scores(y_score)
        if self.reads_features and features is None:
            raise UserError(f"{self.name} reads features: give it those of the samples")
        if self.reads_all_labels:
            check_all_labels(self.name, scores.shortlist)
        read = check_features(features, len(scores.values))
        return scores.like(y_score, self.decide(scores.values, read, scores.shortlist))

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

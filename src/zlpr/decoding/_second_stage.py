"""What second stages share: a linear model of standardised inputs, of features too if wanted."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from zlpr._errors import UserError
from zlpr.decoding._feature_columns import MOST_COLUMNS, check_columns, columns_of
from zlpr.decoding._rule import FloatArray, Rule, Validation, check_numbers

Values = NDArray[np.float64]


@dataclass
class SecondStage(Rule):
    """A rule that decides by `w . (x - mean) / scale + b` for some inputs x.

    Args:
        weights: w, then b.
        mean: of the inputs.
        scale: of the inputs.
    """

    num_inputs: ClassVar[int]
    """How many inputs are made of the scores."""
    weights: list[float] = field(default_factory=list)
    mean: list[float] = field(default_factory=list)
    scale: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        lists = {name: getattr(self, name) for name in ("weights", "mean", "scale")}
        for name, values in lists.items():
            check_numbers(name, values)
        if any(number <= 0 for number in self.scale):
            raise UserError(f"{self.name}: scale must hold numbers above 0, got {min(self.scale)}")
        lengths = {**lists, "weights": self.weights[1:]}
        wrong = {name: len(values) for name, values in lengths.items()}
        if any(lists.values()) and set(wrong.values()) != {self._width()}:
            raise UserError(
                f"{self.name} expects {self._width()} numbers in each list, got {wrong}"
            )

    def _width(self) -> int:
        """How many inputs there are."""
        return self.num_inputs

    def _linear(self, inputs: Values) -> Values:
        """The model's values, one for each row of inputs."""
        if not self.weights:
            raise UserError(f"{self.name} has learned nothing yet: call fit first")
        standardised = np.ascontiguousarray((inputs - self.mean) / self.scale)
        # Row by row: a product of matrices rounds otherwise for one row than for many, and a cut
        # may lie where that decides.
        weighted = standardised * np.array(self.weights[:-1])
        values: Values = weighted.sum(axis=-1) + self.weights[-1]
        return values


@dataclass
class ReadsFeatures(SecondStage):
    """Beside a second stage: the samples' features are inputs as well.

    Args:
        columns: of the features it was fitted with.
    """

    needs_features: ClassVar[bool] = True
    columns: int = 0

    def __post_init__(self) -> None:
        check_columns(self.columns)
        super().__post_init__()

    def learn(self, data: Validation) -> None:
        """Learn what the second stage learns, from features too."""
        self.columns = columns_of(data, self.name)
        super().learn(data)  # type: ignore[safe-super]  # the second stage beside this one

    def _width(self) -> int:
        return super()._width() + min(self.columns, MOST_COLUMNS)


def bounded(scores: FloatArray) -> FloatArray:
    """Scores with the sample's nearest finite one for each that is infinite; 0 where none is."""
    finite = np.isfinite(scores)
    low = np.min(scores, axis=1, where=finite, initial=np.inf, keepdims=True)
    high = np.max(scores, axis=1, where=finite, initial=-np.inf, keepdims=True)
    none = ~finite.any(axis=1, keepdims=True)
    return np.clip(scores, np.where(none, 0, low), np.where(none, 0, high))

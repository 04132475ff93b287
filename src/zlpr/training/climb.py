"""The regularisation that validation finds best, for models that are fitted anew at each value."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from zlpr.training.base import ProgressCallback, TrainingProgress
from zlpr.training.regularisation import MOST_VALUES, RATIO
from zlpr.training.selection import is_better, validation_metric

if TYPE_CHECKING:
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    from zlpr._ancestors import Ancestors
    from zlpr.training.config import TrainingConfig

Model = TypeVar("Model")


class Fit(NamedTuple, Generic[Model]):
    """A model at one regularisation.

    Attributes:
        regularisation: `r`.
        model: whatever was fitted.
        scores: of the validation samples, (samples, labels).
        metric: the chosen metric on them.
    """

    regularisation: float
    model: Model
    scores: "NDArray[np.float32]"
    metric: float


class Climb(Generic[Model]):
    """Fits at a first regularisation and on in the direction in which validation improves.

    Args:
        config: names the metric, and the regularisation where that is given.
        labels: of the validation samples, CSR.
        fit: a model and its validation scores, at a regularisation.
        progress: called with each fit as it is done.
        what: what is fitted, for the lines of progress.
        ancestors: of the labels, which come with them in every label set.
    """

    def __init__(
        self,
        config: "TrainingConfig",
        labels: "Any",
        fit: "Callable[[float], tuple[Model, NDArray[np.float32]]]",
        progress: ProgressCallback | None,
        what: str = "",
        ancestors: "Ancestors | None" = None,
    ) -> None:
        self.config, self.labels, self.fit = config, labels, fit
        self.ancestors = ancestors
        self.progress, self.what = progress, what
        self.history: list[TrainingProgress] = []
        self.started = time.perf_counter()

    def best(self, start: Callable[[], float], given: float | None) -> Fit[Model]:
        """The best fit: at the given regularisation, or from `start()` up the hill."""
        first = self._try(start() if given is None else given)
        if given is not None:
            return first
        best = self._follow(first, 1.0 / RATIO, MOST_VALUES - 1)
        return self._follow(first, RATIO, MOST_VALUES - 2) if best is first else best

    def _follow(self, best: Fit[Model], ratio: float, attempts: int) -> Fit[Model]:
        for _ in range(attempts):
            found = self._try(best.regularisation * ratio)
            if not is_better(self.config.choice_metric, found.metric, best.metric):
                break
            best = found
        return best

    def _try(self, regularisation: float) -> Fit[Model]:
        model, scores = self.fit(regularisation)
        metric = validation_metric(self.config, self.labels, scores, self.ancestors)
        stage = f"{self.what}regularisation {regularisation:.3g}"
        seconds = time.perf_counter() - self.started
        line = TrainingProgress(stage, 1, 1, float("nan"), metric, seconds)
        self.history.append(line)
        if self.progress is not None:
            self.progress(line)
        return Fit(regularisation, model, scores, metric)

"""A saved model over a Ray Data set: batch prediction on as many machines as there are.

    dataset.map_batches(Predictor, fn_constructor_args=["model"], compute=ActorPoolStrategy(size=4))

Each worker loads the model folder once; the folder must be where every worker can read it.
"""

import os
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from zlpr._errors import UserError
from zlpr.models import load
from zlpr.models.base import numbers_of

__all__ = ["Predictor"]


class Predictor:
    """Adds predictions to batches; the class that `ray.data.Dataset.map_batches` takes.

    Args:
        folder: a model folder, as `zlpr train` writes it.
        column: the column with the texts, or with a row of features per sample.
        output: what is added: "labels", a list of names per sample under `labels`; "scores" or
            "probabilities", a row of numbers per sample under that name, in the labels' order.
            A column that is called so already is refused: it may hold the truth.

    Examples:
        >>> dataset.map_batches(Predictor, fn_constructor_args=["model"])  # doctest: +SKIP
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        column: str = "text",
        output: Literal["labels", "scores", "probabilities"] = "labels",
    ) -> None:
        if output not in ("labels", "scores", "probabilities"):
            raise UserError(f"output {output!r}: expected labels, scores or probabilities")
        self.model = load(folder)
        self.column, self.output = column, output

    def __call__(self, batch: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """The batch with one column more."""
        if self.column not in batch:
            raise UserError(f"there is no column {self.column!r}; there are: {', '.join(batch)}")
        if self.output in batch:
            raise UserError(
                f"there is a column {self.output!r} already, which would be lost; rename it before "
                "with Dataset.rename_columns"
            )
        values = np.asarray(batch[self.column])
        inputs = list(values) if values.dtype.kind in "OUST" else values
        return {**batch, self.output: self._predictions(inputs)}

    def _predictions(self, inputs: Any) -> Any:
        if self.output != "labels":
            return numbers_of(self.model, inputs, self.output)
        column = np.empty(len(inputs), dtype=object)
        column[:] = [list(names) for names in self.model.predict(inputs)] or []
        return column

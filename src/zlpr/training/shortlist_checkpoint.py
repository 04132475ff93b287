"""What a killed run of the model for many labels leaves behind."""

from pathlib import Path

import torch

from zlpr.training.linear_checkpoint import read_tensors, write_tensors
from zlpr.training.span_lbfgs import InSpan, SpanMinimum


class SavedSolutions:
    """The solutions that a run has found, so that a new one goes on from there.

    All else is quick and comes out the same, so that a resumed run ends with the same bits.

    Args:
        folder: of the run's checkpoints; None keeps nothing.
        name: of the samples that are fitted.
    """

    def __init__(self, folder: Path | None, name: str) -> None:
        self._folder, self._name = folder, name

    def load(self, regularisation: float) -> SpanMinimum | None:
        """The solution at a regularisation; None where there is none yet."""
        file = self._file(regularisation)
        if file is None or not file.exists():
            return None
        tensors, text = read_tensors(file)
        weights = InSpan(tensors["coefficients"].numpy(), tensors["scores"].numpy())
        return SpanMinimum(weights, float(text["value"]), int(text["iterations"]))

    def save(self, regularisation: float, found: SpanMinimum) -> None:
        """Keep a solution, whole or not at all."""
        file = self._file(regularisation)
        if file is not None:
            tensors = {
                "coefficients": torch.from_numpy(found.weights.coefficients),
                "scores": torch.from_numpy(found.weights.scores),
            }
            text = {"value": repr(found.value), "iterations": str(found.iterations)}
            write_tensors(file, tensors, text)

    def _file(self, regularisation: float) -> Path | None:
        if self._folder is None:
            return None
        return self._folder / f"{self._name}-{regularisation:g}.safetensors"

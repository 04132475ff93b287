"""What a killed run of the linear model leaves behind, so that a new one goes on from there.

A run tries a few regularisations, each from the weights of the best one before. After each, its
figures and the best weights so far are written to one file, whole or not at all; a solver that
goes through the data in epochs adds a file of its own. All of it is deterministic, so that a
resumed run ends with the same bits as an unbroken one.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zlpr._atomic import replacing
from zlpr._errors import UserError

# Epochs that end sooner after the last saved one are not worth a write.
SECONDS_BETWEEN_SAVES = 10.0


@dataclass(frozen=True)
class Attempt:
    """The figures of one regularisation, in the words of `Solution` and of the history.

    Attributes:
        scale: the length of embeddings beside n-grams, where there are any.
        candidate: the place of the loss's parameters among those to choose from.
        metric_moved: by how much the last tenth of the steps moved the metric, where asked for.
    """

    regularisation: float
    loss: float
    steps: int
    metric: float
    seconds: float
    last_tenth: float
    scale: float = 1.0
    candidate: int = 0
    metric_moved: float | None = None


class SavedAttempts:
    """The regularisations that a run has tried, and the best weights among them."""

    def __init__(self, folder: Path | None) -> None:
        self._file = None if folder is None else folder / "path.safetensors"
        self.attempts: list[Attempt] = []
        self.best = -1
        self.parameters = torch.empty(0)
        if self._file is not None and self._file.exists():
            tensors, text = read_tensors(self._file)
            self.parameters = tensors["parameters"]
            self.best = int(text["best"])
            self.attempts = [Attempt(**attempt) for attempt in json.loads(text["attempts"])]

    def add(self, attempt: Attempt, parameters: Tensor, *, is_best: bool) -> None:
        """Note an attempt; its weights are kept if it is the best so far."""
        self.attempts.append(attempt)
        if is_best:
            self.best, self.parameters = len(self.attempts) - 1, parameters
        if self._file is not None:
            attempts = json.dumps([asdict(attempt) for attempt in self.attempts])
            text = {"best": str(self.best), "attempts": attempts}
            write_tensors(self._file, {"parameters": self.parameters}, text)


class SavedEpoch:
    """The state of an optimiser after the last whole epoch.

    Args:
        folder: of the run's checkpoints; None keeps nothing.
        key: which of the run's fits it is; no other has the same.
    """

    def __init__(self, folder: Path | None, key: str) -> None:
        self._file = None if folder is None else folder / "epoch.safetensors"
        self._key = key
        self._saved = time.monotonic()

    def load(self) -> dict[str, Tensor] | None:
        """The tensors after the last saved epoch; None without a state of this very fit."""
        if self._file is None or not self._file.exists():
            return None
        tensors, text = read_tensors(self._file)
        return tensors if text["key"] == self._key else None

    def save(self, tensors: Mapping[str, Tensor]) -> None:
        """Write the state, unless one was written a moment ago."""
        if self._file is None or time.monotonic() - self._saved < SECONDS_BETWEEN_SAVES:
            return
        write_tensors(self._file, tensors, {"key": self._key})
        self._saved = time.monotonic()


def write_tensors(path: Path, tensors: Mapping[str, Tensor], text: Mapping[str, str]) -> None:
    """A safetensors file with text beside the tensors, whole or not at all."""
    from safetensors.torch import save

    with replacing(path) as beside:
        beside.write_bytes(save(dict(tensors), metadata=dict(text)))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_tensors` wrote, or a line that says what to do about a file it did not."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as stream:
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
            return tensors, dict(stream.metadata() or {})
    except (OSError, SafetensorError) as fault:
        raise UserError(
            f"{path}: unreadable checkpoint ({fault}); remove {path.parent} to start anew"
        ) from fault

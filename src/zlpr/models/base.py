"""What every fitted model can do, whatever stands behind its scores."""

import abc
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlpr import decoding
from zlpr.data.hierarchy import Hierarchy
from zlpr.metrics import LabelFrequencies, LabelLists, LabelReport, TopScores
from zlpr.models.explanation import Explanation, Parts, explain, parts_by_occlusion


@dataclass
class TrainingRecord:
    """Where a model comes from: what its folder's config, figures and card are written from.

    Attributes:
        loss: name of the loss.
        loss_params: its parameters.
        settings: the whole training configuration, as plain JSON.
        chosen: what validation chose.
        data: name, samples per part, labels, mean labels per sample, how it was divided.
        metrics: figures by part, such as {"validation": {...}, "test": {...}}.
        seconds: training time.
        decision: which decoding rule was chosen, for what, and what the others reached; what
            makes the probabilities, under "probabilities".
        frequencies: of the labels in training; None in a folder of before they were kept.
        by_label: of the part that the model was judged on last, its name and each label's F1 and
            true samples; for the card alone, and None in a model that was loaded.
    """

    loss: str
    loss_params: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    chosen: Mapping[str, float] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    seconds: float = 0.0
    decision: Mapping[str, Any] = field(default_factory=dict)
    frequencies: LabelFrequencies | None = None
    by_label: tuple[str, LabelReport] | None = None


class FittedModel(abc.ABC):
    """A model that has been trained: scores, probabilities and label names for inputs.

    Attributes:
        label_names: a name per score.
        decoder: turns scores into label sets.
        calibrator: turns scores into probabilities, one by one or by label sets.
        record: where the model comes from.
    """

    kind: str  # what config.json calls this sort of model

    def __init__(
        self,
        label_names: Sequence[str],
        *,
        record: TrainingRecord,
        decoder: decoding.Rule | None = None,
        calibrator: decoding.Probabilities | None = None,
    ) -> None:
        self.label_names = tuple(label_names)
        self.record = record
        self.decoder = decoder or decoding.create("zero")
        self.calibrator = calibrator or decoding.Calibrator()

    @property
    def hierarchy(self) -> Hierarchy | None:
        """The parents of its labels, which it predicts with all their ancestors; None without."""
        if not isinstance(self.decoder, decoding.WithAncestors):
            return None
        return Hierarchy.of_numbers(self.label_names, self.decoder.parents)

    @property
    def num_scored(self) -> int:
        """How many labels of a sample get a score, and so can be predicted."""
        return len(self.label_names)

    @abc.abstractmethod
    def read(self, inputs: Any) -> Any:
        """Inputs as the model reads them: features, or tokens."""

    @abc.abstractmethod
    def score(self, read: Any) -> NDArray[np.float32] | TopScores:
        """Scores of shape (samples, labels) of what `read` gave, or those of candidates alone."""

    def prepare(self) -> None:  # noqa: B027 - most have all that they need once they are loaded
        """Read now what the first sample would have read from the disk."""

    def features(self, read: Any) -> decoding.Features | None:
        """What a decoding rule may read of the samples beside their scores, (samples, columns).

        None where the kind has nothing to offer (`ModelKind.has_features`).
        """
        return None

    @abc.abstractmethod
    def save_parts(self, folder: Path) -> dict[str, Any]:
        """Write weights and vocabulary or tokenizer; give what config.json needs to load them."""

    @classmethod
    @abc.abstractmethod
    def load_parts(
        cls, folder: Path, config: Mapping[str, Any], shared: Mapping[str, Any]
    ) -> "FittedModel":
        """Read what `save_parts` wrote; `shared` holds this class's own constructor arguments."""

    def predict_scores(self, inputs: Any) -> NDArray[np.float32] | TopScores:
        """Scores of shape (samples, labels); `TopScores` from a kind that scores candidates."""
        return self.score(self.read(inputs))

    def predict_proba(self, inputs: Any) -> NDArray[np.float32] | TopScores:
        """Probabilities of shape (samples, labels), fitted on validation data.

        Of a kind that scores candidates, `TopScores` that hold their probabilities; any other
        label has the probability 0.
        """
        scores = self.predict_scores(inputs)
        if isinstance(scores, TopScores):
            return self.calibrator(scores)
        return np.asarray(self.calibrator(scores), dtype=np.float32)

    def predict(self, inputs: Any) -> list[tuple[str, ...]]:
        """The label names of each sample."""
        read = self.read(inputs)
        chosen = self.decoder(self.score(read), features=self.features(read))
        return [tuple(self.label_names[i] for i in row) for row in lists_of(chosen)]

    def explain(
        self, sample: Any, label: str | None = None, top: int = 10
    ) -> tuple[Explanation, ...]:
        """What each part of a sample adds to the scores of one label or of the predicted ones.

        Args:
            sample: one text, or one row of features.
            label: its name; None explains what is predicted, or the highest score where nothing is.
            top: contributions to list of each.
        """
        return explain(self, sample, label, top)

    def parts(self, sample: Any, read: Any, labels: Sequence[int]) -> Parts:
        """What the parts of one sample add to the scores of some labels, for `explain`.

        Where a kind cannot take its scores apart, words are left out of the text one by one.

        Args:
            sample: as the user gave it.
            read: what `read` made of it.
            labels: their numbers.
        """
        return parts_by_occlusion(self, sample, labels)

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the model folder, whole or not at all; a model there is replaced only if told."""
        from zlpr.models.folder import save

        save(self, folder, overwrite=overwrite)


def numbers_of(model: FittedModel, inputs: Any, which: str) -> NDArray[np.floating[Any]]:
    """Scores or probabilities as a matrix of all labels, for what takes nothing else.

    Args:
        model: any fitted model; of labels that it does not score, scores are -inf and
            probabilities 0.
        inputs: what the model reads.
        which: "scores" or "probabilities".
    """
    of_scores = which == "scores"
    values = model.predict_scores(inputs) if of_scores else model.predict_proba(inputs)
    if isinstance(values, TopScores):
        return values.to_dense(-np.inf if of_scores else 0.0)
    return values


def lists_of(chosen: NDArray[np.bool_] | LabelLists) -> list[list[int]]:
    """The labels of each sample, from what a rule decided."""
    if isinstance(chosen, LabelLists):
        ends = zip(chosen.indptr[:-1], chosen.indptr[1:], strict=True)
        return [chosen.indices[first:last].tolist() for first, last in ends]
    return [np.flatnonzero(row).tolist() for row in chosen]

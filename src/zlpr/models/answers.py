"""What a model answers about samples: their labels, and figures by label, as people get them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from zlpr._ancestors import Ancestors
from zlpr.decoding import WithAncestors
from zlpr.metrics import TopScores

if TYPE_CHECKING:
    from zlpr.models.base import FittedModel

DECIMALS = 4
"""Of scores and probabilities that are handed to people."""


class Figures(Mapping[int, float]):
    """A sample's figures of all labels, by label: a view of an array, as there may be many.

    Args:
        array: a number per label.

    Examples:
        >>> import numpy as np
        >>> Figures(np.array([0.5, 2.0])) == {0: 0.5, 1: 2.0}
        True
    """

    __slots__ = ("array",)

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array

    def __getitem__(self, label: int) -> float:
        if not 0 <= label < len(self.array):
            raise KeyError(label)
        return float(self.array[label])

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.array)))

    def __len__(self) -> int:
        return len(self.array)


@dataclass(frozen=True)
class Answer:
    """What a model says of one sample.

    Attributes:
        chosen: numbers of the labels that are predicted, ascending.
        scores: by label, of all labels, or of the candidates where the model scores these alone.
        probabilities: of the same labels; empty where only the scores were asked for.
    """

    chosen: list[int]
    scores: Mapping[int, float]
    probabilities: Mapping[int, float]

    def to_json(self, names: Sequence[str], *, all_labels: bool = False) -> dict[str, Any]:
        """As plain JSON, by the labels' names.

        Args:
            names: of the model's labels.
            all_labels: figures of every label that was scored, not only of the predicted ones.

        Examples:
            >>> Answer([1], {0: -1.0, 1: 0.5}, {0: 0.1, 1: 0.7}).to_json(["red", "blue"])
            {'labels': ['blue'], 'scores': {'blue': 0.5}, 'probabilities': {'blue': 0.7}}
        """
        shown = self.scores if all_labels else self.chosen
        return {
            "labels": [names[i] for i in self.chosen],
            "scores": {names[i]: round(self.scores[i], DECIMALS) for i in shown},
            "probabilities": {names[i]: round(self.probabilities[i], DECIMALS) for i in shown},
        }


def answer(model: "FittedModel", inputs: Any) -> list[Answer]:
    """What a model says of samples, read and scored once.

    Args:
        model: any fitted model.
        inputs: what it reads: texts, or a matrix of features.
    """
    read = model.read(inputs)
    scores = model.score(read)
    return _answer(model, read, scores) if len(scores) else []


def _answer(model: "FittedModel", read: Any, scores: Any) -> list[Answer]:
    from zlpr.models.base import lists_of

    chosen = lists_of(model.decoder(scores, features=model.features(read)))
    figures = zip(by_label(scores), by_label(model.calibrator(scores)), strict=True)
    said = [Answer(own, *pair) for own, pair in zip(chosen, figures, strict=True)]
    if not isinstance(model.decoder, WithAncestors):
        return said
    return [_completed(one, model.decoder.ancestors) for one in said]


def _completed(said: Answer, ancestors: Ancestors) -> Answer:
    """With the figures of the likeliest label below it for an ancestor that was no candidate.

    A label is at most as likely as what stands above it.
    """
    scored = [label for label in said.chosen if label in said.scores]
    if len(scored) == len(said.chosen):
        return said
    scores, probabilities = dict(said.scores), dict(said.probabilities)
    for label in set(said.chosen).difference(scored):
        below = [other for other in scored if label in ancestors[other]]
        scores[label] = max(scores[other] for other in below)
        probabilities[label] = max(probabilities[other] for other in below)
    return Answer(said.chosen, scores, probabilities)


def answer_scores(model: "FittedModel", inputs: Any) -> list[Answer]:
    """The scores of samples alone: nothing is decided, and there are no probabilities.

    But for candidates with labels above them, whose scores depend on what is decided.
    """
    read = model.read(inputs)
    scores = model.score(read)
    if isinstance(scores, TopScores) and isinstance(model.decoder, WithAncestors) and len(scores):
        return _answer(model, read, scores)
    return [Answer([], row, {}) for row in by_label(scores)]


def by_label(figures: Any) -> Iterator[Mapping[int, float]]:
    """Each sample's figures by label: of all, or of its candidates.

    Args:
        figures: scores or probabilities of shape (samples, labels), or `TopScores`.
    """
    if not isinstance(figures, TopScores):
        yield from map(Figures, figures)
        return
    ordered = figures.by_label()
    for labels, row in zip(ordered.labels.tolist(), ordered.scores.tolist(), strict=True):
        yield {label: value for label, value in zip(labels, row, strict=True) if label >= 0}

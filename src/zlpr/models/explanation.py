"""Why a label came out: what each part of a sample adds to the label's score."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zlpr._errors import UserError
from zlpr._names import unknown
from zlpr.metrics import LabelLists, TopScores

if TYPE_CHECKING:
    from zlpr.models.base import FittedModel

_WORD = re.compile(r"\S+")
LETTERS_PER_WORD = 20
"""A text with longer runs between its spaces is one without words, and each letter counts."""
MOST_OCCLUSIONS = 100
"""Texts that are scored to explain one."""


@dataclass(frozen=True)
class Contribution:
    """What one part of a sample adds to a score.

    Attributes:
        part: an n-gram, a feature, or a word.
        value: what the score would lack without it.
    """

    part: str
    value: float


@dataclass(frozen=True)
class Place:
    """What one stretch of a text adds to a score, `text[start:end]`."""

    start: int
    end: int
    value: float


@dataclass(frozen=True)
class Parts:
    """What a model knows about where the scores of one sample come from.

    Attributes:
        names: of the parts.
        values: what each adds to each label's score, (parts, labels).
        bias: what a sample without any part scores, (labels,).
        places: stretches of the text, as (start, end), that each part stands at; empty where a part
            is no stretch, and None where the sample is no text.
        approximates: how the values were found where they need not add up; empty where they do.
    """

    names: Sequence[str]
    values: NDArray[np.float64]
    bias: NDArray[np.float64]
    places: Sequence[Sequence[tuple[int, int]]] | None = None
    approximates: str = ""


@dataclass(frozen=True)
class Explanation:
    """Where one label's score comes from.

    Attributes:
        label: its name.
        score: of the sample; `bias`, the contributions and `rest` add up to it.
        probability: that the sample has it.
        predicted: whether the model's rule gives the sample the label.
        bias: what a sample without any part scores.
        contributions: of the parts with the largest, the largest first, whatever their signs.
        rest: what all other parts add.
        words: of a text, what each word adds with the n-grams it is part of, in the order of the
            text; a letter in place of a word where the text has no spaces.
        elsewhere: of a text, the parts that stand at no word, such as an embedding.
        approximates: how this was found where it is no exact account; empty where it is.
    """

    label: str
    score: float
    probability: float
    predicted: bool
    bias: float
    contributions: tuple[Contribution, ...]
    rest: float
    words: tuple[Place, ...] = field(default=(), repr=False)
    elsewhere: tuple[Contribution, ...] = ()
    approximates: str = ""


def explain(
    model: "FittedModel", sample: Any, label: str | None = None, top: int = 10
) -> tuple[Explanation, ...]:
    """Explanations of one label, or of every label that is predicted, the highest score first.

    Args:
        model: any fitted model.
        sample: one text, or one row of features, dense or sparse.
        label: its name; None explains what is predicted, or the highest score where nothing is.
            What is predicted for a label below it alone, without a score of its own, is left out.
        top: contributions to list of each.

    Raises:
        UserError: there is no such label, it has no score, or the model cannot read the sample.
    """
    if top < 0:
        raise UserError(f"top {top}: expected a number of at least 0")
    if label is not None and label not in model.label_names:
        raise unknown("label", label, model.label_names)
    read = model.read([sample] if isinstance(sample, str) else _rows(sample))
    given = model.score(read)
    if len(given) != 1:
        raise UserError(f"explain takes one sample, got {len(given)}")
    # Of one sample, the scores of all labels are few numbers even where these are many.
    scores = _of_all_labels(given)
    predicted = _of_all_labels(model.decoder(given, features=model.features(read)))[0]
    probabilities = np.maximum(_of_all_labels(model.calibrator(given))[0], 0)
    if label is not None:
        shown = [model.label_names.index(label)]
    else:
        # An ancestor that was no candidate comes with a label below it, and has no score.
        scored = np.flatnonzero(predicted & (scores[0] > -np.inf))
        shown = sorted(scored.tolist(), key=lambda i: -scores[0, i]) or [int(scores[0].argmax())]
    if scores[0, shown[0]] == -np.inf:
        raise UserError(_unscored(label, bool(predicted[shown[0]])))
    parts = model.parts(sample, read, shown)
    return tuple(
        _explanation(
            model.label_names[number],
            float(scores[0, number]),
            float(probabilities[number]),
            bool(predicted[number]),
            parts,
            column,
            sample if isinstance(sample, str) else "",
            top,
        )
        for column, number in enumerate(shown)
    )


def _rows(sample: Any) -> Any:
    """One row of features as a matrix, dense or sparse."""
    if not hasattr(sample, "tocsr"):
        return np.atleast_2d(sample)
    return sample if sample.ndim > 1 else sample.reshape(1, -1)


def _unscored(label: str | None, predicted: bool) -> str:
    """Why there is nothing to explain: only candidates have scores."""
    if label is None:
        return "no label is a candidate of this sample: it holds nothing that the model knows"
    if predicted:
        return (
            f"{label!r} is predicted because a label below it is, and the model did not score it; "
            "explain that one"
        )
    return f"{label!r} is no candidate of this sample: the model did not score it"


def _of_all_labels(values: Any) -> NDArray[Any]:
    """Scores, probabilities or label sets as a matrix."""
    sparse = isinstance(values, TopScores | LabelLists)
    return values.to_dense() if sparse else np.asarray(values)


def _explanation(
    label: str,
    score: float,
    probability: float,
    predicted: bool,
    parts: Parts,
    column: int,
    text: str,
    top: int,
) -> Explanation:
    values, bias = parts.values[:, column], float(parts.bias[column])
    order = np.argsort(-np.abs(values), kind="stable")[:top]
    listed = tuple(Contribution(parts.names[i], float(values[i])) for i in order.tolist())
    return Explanation(
        label,
        score,
        probability,
        predicted,
        bias,
        listed,
        score - bias - sum(part.value for part in listed),
        () if parts.places is None else spread(text, parts.places, values),
        tuple(
            Contribution(name, value)
            for name, places, value in zip(parts.names, parts.places or (), values, strict=False)
            if not places
        ),
        parts.approximates,
    )


def parts_by_occlusion(model: "FittedModel", text: Any, labels: Sequence[int]) -> Parts:
    """What scores lose without each word of a text, for models that do not add up their parts.

    Of a text of more than `MOST_OCCLUSIONS` words, neighbouring ones are left out together.
    """
    if not isinstance(text, str):
        raise UserError(f"a model of kind {model.kind} explains texts, not features")
    words = _words(text)
    size = -(-len(words) // MOST_OCCLUSIONS) or 1
    stretches = [(group[0][0], group[-1][1]) for group in _groups(words, size)]
    without = [text[:start] + text[end:] for start, end in stretches]
    given = model.predict_scores([text, "", *without])
    if isinstance(given, TopScores):  # what is no candidate is below all that are
        lowest = np.min(given.scores, axis=1, where=given.labels >= 0, initial=np.inf)
        scores = np.stack([_of_all_labels(given[i : i + 1])[0, labels] for i in range(len(given))])
        scores = np.where(scores == -np.inf, lowest[:, None], scores).astype(np.float64)
    else:
        scores = given[:, labels].astype(np.float64)
    return Parts(
        [text[start:end] for start, end in stretches],
        scores[0] - scores[2:],
        scores[1],
        [[stretch] for stretch in stretches],
        approximates="what the score loses when a word is left out; that need not add up",
    )


def _groups(items: list[tuple[int, int]], size: int) -> list[list[tuple[int, int]]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def spread(
    text: str, places: Sequence[Sequence[tuple[int, int]]], values: NDArray[np.float64]
) -> tuple[Place, ...]:
    """What each word of a text adds: a part's value, shared evenly by the letters it stands at.

    Args:
        text: what the places are in.
        places: stretches of the text that each part stands at.
        values: of the parts.

    Examples:
        >>> spread("no way", [[(0, 6)], [(0, 2)]], np.array([5.0, 1.0]))
        (Place(start=0, end=2, value=3.0), Place(start=3, end=6, value=3.0))
    """
    weights = np.zeros(len(text))
    for stretches, value in zip(places, values.tolist(), strict=True):
        letters = [
            i for start, end in stretches for i in range(start, end) if not text[i].isspace()
        ]
        np.add.at(weights, letters, value / max(1, len(letters)))
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    return tuple(Place(a, b, float(sums[b] - sums[a])) for a, b in _words(text))


def _words(text: str) -> list[tuple[int, int]]:
    """Stretches between spaces, or single letters where these are too long to be words."""
    stretches = [match.span() for match in _WORD.finditer(text)]
    if sum(end - start for start, end in stretches) > LETTERS_PER_WORD * len(stretches):
        return [(i, i + 1) for start, end in stretches for i in range(start, end)]
    return stretches

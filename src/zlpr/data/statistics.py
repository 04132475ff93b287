"""The paper's table of statistics, for any data: how many, how long, how many labels."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from zlpr.data.dataset import SPLIT_NAMES, Dataset

Part = Literal["all", "train", "validation", "test"]
Unit = Literal["words", "characters"]

_CHINESE = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")
_LETTER = re.compile(r"[^\W\d_]")
_TEXTS_TO_LOOK_AT = 1000


@dataclass(frozen=True)
class Statistics:
    """One row of the table.

    Attributes:
        instances: how many samples.
        mean_words: words (or characters) per text on average; None for feature vectors.
        unit: what `mean_words` counts: "characters" for Chinese, else "words".
        categories: how many labels occur at least once in these samples.
        cardinality: labels per sample on average.
        density: cardinality / categories.
    """

    instances: int
    mean_words: float | None
    unit: Unit
    categories: int
    cardinality: float
    density: float


def describe(dataset: Dataset, *, unit: Unit | None = None) -> dict[Part, Statistics]:
    """The statistics of the whole data and of each of its splits.

    Args:
        dataset: texts or features with their label sets.
        unit: what to count in a text; None counts characters where most letters are Chinese.

    Returns:
        "all", then each split that has samples, in the order train, validation, test.

    Examples:
        >>> data = Dataset.from_label_sets([{"a"}, {"a", "b"}], texts=["one two", "three"])
        >>> describe(data)["all"]  # doctest: +NORMALIZE_WHITESPACE
        Statistics(instances=2, mean_words=1.5, unit='words', categories=2, cardinality=1.5,
                   density=0.75)
    """
    chosen = unit or unit_of(dataset.texts or ())
    lengths = None if dataset.texts is None else text_lengths(dataset.texts, chosen)
    rows: dict[Part, Statistics] = {
        "all": _statistics(dataset, np.ones(len(dataset), dtype=bool), lengths, chosen)
    }
    for name in SPLIT_NAMES if dataset.split is not None else ():
        inside = np.asarray(dataset.split) == name
        if inside.any():
            rows[name] = _statistics(dataset, inside, lengths, chosen)
    return rows


def unit_of(texts: Sequence[str]) -> Unit:
    """Characters where most letters are Chinese, else words; looks at up to 1000 texts."""
    step = max(1, len(texts) // _TEXTS_TO_LOOK_AT)
    seen = [texts[index] for index in range(0, len(texts), step)]
    chinese = sum(len(_CHINESE.findall(text)) for text in seen)
    letters = sum(len(_LETTER.findall(text)) for text in seen)
    return "characters" if 2 * chinese > letters else "words"


def text_lengths(texts: Sequence[str], unit: Unit) -> NDArray[np.int64]:
    """The words of each text, as white space divides them, or its characters without that space."""
    if unit == "words":
        counts = (len(text.split()) for text in texts)
    else:
        counts = (sum(map(len, text.split())) for text in texts)
    return np.fromiter(counts, dtype=np.int64, count=len(texts))


def _statistics(
    dataset: Dataset,
    inside: NDArray[np.bool_],
    lengths: NDArray[np.int64] | None,
    unit: Unit,
) -> Statistics:
    instances = int(inside.sum())
    label_counts = np.asarray(dataset.labels[np.flatnonzero(inside)].sum(axis=0)).ravel()
    categories = int((label_counts > 0).sum())
    cardinality = float(label_counts.sum()) / max(instances, 1)
    return Statistics(
        instances=instances,
        mean_words=None if lengths is None else float(lengths[inside].sum()) / max(instances, 1),
        unit=unit,
        categories=categories,
        cardinality=cardinality,
        density=cardinality / max(categories, 1),
    )

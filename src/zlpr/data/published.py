"""What the paper printed: the statistics of its eleven data sets, its results and its summary.

The figures are kept as printed: results are percentages, means of words are rounded to whole
words. Losses and metrics carry this package's names.

    >>> from zlpr.data import published
    >>> published.statistics("Toxic", "test").instances
    16011
    >>> published.result("Toxic", "bert", "zlpr", "subset_accuracy")
    91.51
    >>> published.wins("ranking_loss")["zlpr"]
    18
"""

import functools
import json
from importlib import resources
from typing import Any, Literal, get_args

from zlpr._names import unknown
from zlpr.data.statistics import Part, Statistics

SetName = Literal[
    "CNIPA-Title",
    "CNIPA-Abstract",
    "Toutiao",
    "USPTO-Title",
    "USPTO-Abstract",
    "Archive-Title",
    "Archive-Abstract",
    "Movie-Name",
    "Movie-Summary",
    "GoEmotions",
    "Toxic",
]
Encoder = Literal["bert", "roberta"]

SETS: tuple[SetName, ...] = get_args(SetName)
ENCODERS: tuple[Encoder, ...] = get_args(Encoder)
PARTS: tuple[Part, ...] = get_args(Part)
DECIDING_LOSSES = ("bce", "focal", "dice1", "dice2", "zlpr")
RANKING_LOSSES = ("ranking", "warp", "bp_mll", "lsep")


def set_name(name: str) -> SetName | None:
    """The paper's spelling of a set's name, whatever the case, or None if it has no such set.

    Examples:
        >>> set_name("goemotions"), set_name("reuters")
        ('GoEmotions', None)
    """
    return {known.casefold(): known for known in SETS}.get(name.casefold())


def statistics(name: str, part: Part = "all") -> Statistics:
    """A row of the paper's table of data sets, for the whole set or one of its splits."""
    return Statistics(**_table("statistics")[_known(name)][part])


def losses(name: str, encoder: Encoder) -> tuple[str, ...]:
    """The losses that the paper tried on a set: five, and on the Chinese sets four more."""
    return tuple(_table("results")[_known(name)][encoder])


def result(name: str, encoder: Encoder, loss: str, metric: str) -> float | None:
    """One cell of the paper's results, in per cent; None where the paper has no figure.

    The losses that only rank were tried on the Chinese sets alone and have only
    `average_precision` and `ranking_loss`.
    """
    value: float | None = _table("results")[_known(name)][encoder].get(loss, {}).get(metric)
    return value


def wins(metric: str) -> dict[str, int]:
    """The paper's summary: on how many of the 22 set-encoder pairs each loss was best.

    As printed. Counting in the printed results gives the same but for `macro_f1`, where focal and
    dice2 come to 8 and 4, not 6 and 6.
    """
    return dict(_table("wins")[metric])


@functools.cache
def _table(name: str) -> dict[str, Any]:
    text = resources.files("zlpr.data").joinpath("paper", f"{name}.json").read_text("utf-8")
    table: dict[str, Any] = json.loads(text)
    return table


def _known(name: str) -> SetName:
    known = set_name(name)
    if known is None:
        raise unknown("data set", name, SETS)
    return known

"""Files whose labels are numbers that count those of a model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zlpr._escape import for_terminal
from zlpr.cli._console import say

if TYPE_CHECKING:
    from zlpr.data import Columns, Dataset
    from zlpr.models import FittedModel


def with_model_names(data: "Dataset", model: "FittedModel", like: "Columns | None") -> "Dataset":
    """Data with a model's names for labels that only count them; others as they are.

    Args:
        data: as it was read.
        model: whose labels it may count.
        like: how the model's training data was read.
    """
    from zlpr.data.label_names import counts_labels

    if not counts_labels(data, model.label_names, like):
        return data
    say("note: the labels are numbers, read as positions among the model's", error=True)
    _doubt_numbers(data, model.label_names)
    return data.with_numbers_named(model.label_names)


def _doubt_numbers(data: "Dataset", names: Sequence[str]) -> None:
    """Say so where no sample has the label 0: a file may count its labels from 1."""
    import numpy as np

    from zlpr.data.label_names import counted_from_1, numbers

    position = dict(zip(numbers(len(names)), names, strict=True))
    used = [data.label_names[i] for i in np.flatnonzero(data.labels.sum(axis=0)).tolist()]
    met = [number for number in used if number in position]
    if met and "0" not in met:
        doubt = counted_from_1(met[0], position[met[0]], "the model's labels")
        say(f"note: {for_terminal(data.name) or 'the data'}: {doubt}", error=True)

"""What parts of data share once they stand together: one kind and width of inputs, label names."""

import itertools
import logging
from collections.abc import Sequence
from dataclasses import replace

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.data.columns import Columns
from zlpr.data.dataset import Dataset
from zlpr.data.label_names import counts_labels, doubts
from zlpr.data.problems import name_all
from zlpr.data.reading import widened

_log = logging.getLogger("zlpr.data")


def with_same_inputs(parts: Sequence[Dataset], roles: Sequence[str] = ()) -> list[Dataset]:
    """The parts, of which sparse ones without a header become as wide as the widest.

    Args:
        parts: of one data set.
        roles: what each is, for messages about those without a name.

    Raises:
        UserError: some hold texts and others features, or features of another width.

    Examples:
        >>> texts = Dataset.from_label_sets([{"a"}], texts=["x"])
        >>> with_same_inputs([texts, texts]) == [texts, texts]
        True
    """
    called = zip(parts, roles or itertools.repeat("the data"), strict=False)
    names = [part.name or role for part, role in called]
    held = ["features" if part.texts is None else "texts" for part in parts]
    other = next((place for place, what in enumerate(held) if what != held[0]), None)
    if other is not None:
        raise UserError(
            f"{names[0]}: some parts hold texts and others features: {held[0]} here, "
            f"{held[other]} in {names[other]}; give all of them the same"
        )
    if held[0] == "texts":
        return list(parts)
    widths = [_width(part) for part in parts]
    widest = max(widths)
    for part, name, width in zip(parts, names, widths, strict=True):
        if width < widest and not _columns(part).seen_width:
            raise UserError(
                f"{name}: {counted(width, 'feature')}, and {names[widths.index(widest)]} has "
                f"{widest:,}; all parts need the same"
            )
    return [_as_wide(part, widest) for part in parts]


def _width(part: Dataset) -> int:
    return 0 if part.features is None else int(part.features.shape[1])


def _columns(part: Dataset) -> Columns:
    return part.columns or Columns()


def _called(part: Dataset) -> str:
    return part.name or "the data"


def _as_wide(part: Dataset, width: int) -> Dataset:
    if _width(part) == width:
        return part
    columns = replace(_columns(part), num_features=width)
    return replace(part, features=widened(part.features, width), columns=columns)


def with_same_names(parts: Sequence[Dataset]) -> list[Dataset]:
    """The parts, of which labels that only count those of another part get the names of these."""
    names = _naming(parts)
    return [part if part is names else _named_by(part, names) for part in parts]


def _naming(parts: Sequence[Dataset]) -> Dataset:
    """The part whose labels others may count: the first, or that whose names the first counts."""
    first = parts[0]
    return next((part for part in parts if counts_labels(first, part.label_names, None)), first)


def _named_by(part: Dataset, names: Dataset) -> Dataset:
    if not counts_labels(part, names.label_names, names.columns):
        return part
    note = f"{_called(part)}: its labels are numbers, read as positions among the others'"
    _log.warning(note)
    return replace(part.with_numbers_named(names.label_names), notes=(*part.notes, note))


def doubts_together(parts: Sequence[Dataset]) -> tuple[str, ...]:
    """What looks wrong about label names of several parts that was not said of one of them.

    Examples:
        >>> one, other = (
        ...     Dataset.from_label_sets([{label}], texts=["x"], name=name)
        ...     for name, label in (("train", "food"), ("test", "Food"))
        ... )
        >>> print(*doubts_together([one, other]))
        train, test: the labels 'food' and 'Food' differ in case or spaces alone; they count as two
    """
    names = tuple(dict.fromkeys(name for part in parts for name in part.label_names))
    if any(part.num_labels == len(names) for part in parts):
        return ()
    said = "\n".join(itertools.chain.from_iterable(part.notes for part in parts))
    place = name_all(list(dict.fromkeys(map(_called, parts))), 3)
    found = doubts(names, _columns(parts[0]).label_delimiter)
    notes = tuple(f"{place}: {doubt}" for doubt in found if doubt not in said)
    for note in notes:
        _log.warning(note)
    return notes

"""Lists of label names, one per line: where they stand and what they may hold."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zlpr._errors import UserError
from zlpr.data.columns import Columns
from zlpr.data.files import read_lines
from zlpr.data.problems import quote

if TYPE_CHECKING:
    from zlpr.data.dataset import Dataset

LABELS_FILE = "labels.txt"
"""What a folder of data calls the list of its labels, one per line, in order."""

_EMPTY_WORDS = frozenset(["nan", "none", "null", "n/a", "na", "<na>"])
"""What other programs write for an empty cell."""

LabelNames = Sequence[str] | str | Path
"""Label names in order, or the file that lists them, one per line."""


def list_label_names(names: LabelNames) -> list[str]:
    """Label names as a list, read from a file where a path is given; no name may repeat."""
    if isinstance(names, str | Path):
        path = Path(names)
        lines = [line for block in read_lines(path) for line in block.texts]
        names = [line.strip() for line in lines if line.strip()]
        place = f"{path}: "
    else:
        place = "label_names: "
    if len(set(names)) != len(names):
        seen: set[str] = set()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise UserError(f"{place}the label {quote(twice)} is listed twice")
    return list(names)


def listing(names: Iterable[str], file: str) -> str:
    """The text of a file that `list_label_names` reads back."""
    held = list(names)
    unlistable = [name for name in held if name != " ".join(name.split()) or not name]
    if unlistable:
        raise UserError(f"the label {unlistable[0]!r} cannot stand on a line of {file}")
    return "".join(f"{name}\n" for name in held)


def numbers(count: int) -> tuple[str, ...]:
    """The names of labels that only have numbers, from "0" on."""
    return tuple(map(str, range(count)))


def is_number(name: str) -> bool:
    """Whether a label's name is a whole number, so that it could be taken for a position."""
    return name.isascii() and name.isdigit()


def counted_from_1(number: str, name: str, names: str) -> str:
    """What to say where no label is numbered 0, as in a file that counts its labels from 1."""
    return (
        f"no label is numbered 0, and numbers count {names} from 0: {quote(number)} was read as "
        f"{quote(name)}"
    )


def label_order(names: Iterable[str]) -> Callable[[str], tuple[int, str]] | None:
    """The key to sort label names by: as numbers where all are, as text otherwise."""
    if not all(map(is_number, names)):
        return None

    def by_size(name: str) -> tuple[int, str]:  # int() refuses thousands of digits
        digits = name.lstrip("0")
        return len(digits), digits

    return by_size


def doubts(names: Sequence[str], delimiter: str | None = None) -> Iterator[str]:
    """What looks wrong about the names of labels that a file does not list, at most once each kind.

    Args:
        names: of all labels, none of them twice.
        delimiter: what separated them in a cell, if anything did.

    Examples:
        >>> list(doubts(["a", "b", "a;c"], "|"))
        ["the label 'a;c' holds ';', where labels are separated by '|': is it several?"]
    """
    empty = next((name for name in names if name.lower() in _EMPTY_WORDS), None)
    if empty is not None:
        yield f"a label is called {quote(empty)}; was its cell empty?"
    broken = next((name for name in names if "\n" in name or "\r" in name), None)
    if broken is not None:
        yield f"the label {quote(broken)} holds a line break; was a cell cut in the wrong place?"
    quoted = next((name for name in names if _holds_quotes_of_a_cell(name)), None)
    if quoted is not None:
        yield f"the label {quote(quoted)} holds a quote of a cell; does a blank stand before it?"
    if len(names) > 2 and re.fullmatch("[01]{3,}", names[0]) and _are_alike(names):
        yield f"all labels are as {quote(names[0])}: is that 0 or 1 for every label?"
    first: dict[str, str] = {}
    for name in names:
        other = first.setdefault(_as_seen(name), name)
        if other is not name:
            by = "case or spaces" if other.isascii() and name.isascii() else "what is hardly seen"
            yield (
                f"the labels {quote(other)} and {quote(name)} differ in {by} alone; they count as "
                "two"
            )
            break
    joined = _joined_label(names, delimiter) if delimiter else None
    if joined is not None:
        yield (
            f"the label {quote(joined[0])} holds {joined[1]!r}, where labels are separated by "
            f"{delimiter!r}: is it several?"
        )
    several = None if delimiter else next(_labels_in_a_row(names), None)
    if several is not None:
        what = "words" if several[1] == " " else "parts"
        yield (
            f"the {what} of the label {quote(several[0])} are labels of their own: is it several, "
            f"separated by {several[1]!r}?"
        )


def _holds_quotes_of_a_cell(name: str) -> bool:
    """Whether a name is in double quotes, or begins or ends with one that has no other half."""
    begins, ends = name.startswith('"'), name.endswith('"')
    return (begins and ends) or ((begins or ends) and name.count('"') % 2 == 1)


def _are_alike(names: Sequence[str]) -> bool:
    """Whether all names are 0 and 1 in as many places."""
    return all(set(name) <= {"0", "1"} and len(name) == len(names[0]) for name in names)


_UNSEEN = re.compile("[\u00ad\u200b\u200e\u200f\u2060\ufeff]")
"""Hyphens and spaces without width, and marks of direction."""


def _as_seen(name: str) -> str:
    """A name without what readers overlook: case, spaces, how accents and widths are encoded."""
    plain = unicodedata.normalize("NFKC", _UNSEEN.sub("", name))
    return " ".join(plain.casefold().split())


_SIGNS_OF_SEVERAL = (" ", "；", "，", "、", "/")
"""What may stand between labels, though it is no delimiter that is looked for."""


def _labels_in_a_row(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Labels all parts of which are labels themselves, with what separates these."""
    known = set(names)
    for sign in _SIGNS_OF_SEVERAL:
        for name in names:
            parts = name.split() if sign == " " else [part.strip() for part in name.split(sign)]
            if len(parts) > 1 and known.issuperset(parts):
                yield name, sign


def _joined_label(names: Sequence[str], delimiter: str) -> tuple[str, str] | None:
    """A label that may be several, and what would separate them.

    A comma belongs to many a name: it counts where a side of it is a label of its own.
    """
    known = set(names)
    for sign in "|;；,，、":
        for name in names if sign != delimiter else ():
            pieces = name.split(sign)
            sure = sign in "|;；"
            if len(pieces) > 1 and (sure or any(piece.strip() in known for piece in pieces)):
                return name, sign
    return None


def counts_labels(data: "Dataset", names: Sequence[str], like: Columns | None) -> bool:
    """Whether the labels of data are numbers that count a model's labels, and not names.

    They are where the file itself counts as many labels and names none of them (an svm file with a
    header), or where the model's training data was read so and no name is a number.

    Args:
        data: in its own labels.
        names: the model's labels.
        like: how the model's training data was read.
    """
    if data.columns is not None and data.columns.numbered:
        return data.label_names == numbers(len(names)) != tuple(names)
    if like is None or not like.numbered or any(map(is_number, names)):
        return False
    return all(map(is_number, data.label_names))

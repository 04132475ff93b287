"""Columns of numbers and of categories as features of a matrix, the same for every file.

A column of numbers is one feature, with a second one that says "missing" where a cell was blank in
the data that was read first. A column of categories has a feature for each of its values there, and
a value that was not there has none of them. What was found is kept with the model (`Columns`), so
that other files give the same features.
"""

import fnmatch
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.data.problems import quote, quote_all

BLANKS = frozenset(["", "na", "n/a", "nan", "null", "none", "?"])
"""Cells that say "missing", in lower case and without the blanks around them."""

MOST_CATEGORIES = 1_000
"""Values of a column; with more it is hardly one of categories, and would fill memory."""

Numbers = NDArray[np.float64]

_LARGEST = float(np.finfo(np.float32).max)
_SMALLEST_SPREAD = 2.0**-14
"""Of a column's numbers, as a share of their size: 32 bits tell below it few of them apart."""

_WRITTEN_OUT = re.compile(r"[+-]?\d+(?:[ .,'\u00a0\u202f]\d+)+")
"""A number as people write it: with a decimal comma, or with signs between thousands."""

_WITH_COMMA = re.compile(
    r"[+-]?(?:\d+|\d{1,3}(?:[ .'\u00a0\u202f]\d{3})+),\d+|[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?"
)
"""One that is surely an amount: with other signs alone it may be a date, a version, a telephone."""


@dataclass(frozen=True)
class FeatureColumns:
    """Which columns of a table are features, and of what kind.

    Attributes:
        numbers: columns of numbers.
        indicated: those of them that have a feature which says that the number is missing.
        categories: columns of categories, each with the values that have a feature, in order.

    Examples:
        >>> columns = FeatureColumns(("age",), ("age",), {"sex": ("f", "m")})
        >>> columns.names
        ('age', 'age is missing', 'sex=f', 'sex=m')
        >>> FeatureEncoder(columns).encode({"age": np.array([3.0, np.nan]), "sex": ["m", "x"]})
        array([[ 3.,  0.,  0.,  1.],
               [nan,  1.,  0.,  0.]], dtype=float32)
    """

    numbers: tuple[str, ...] = ()
    indicated: tuple[str, ...] = ()
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read."""
        return (*self.numbers, *self.categories)

    @property
    def names(self) -> tuple[str, ...]:
        """A name for each feature."""
        missing = (f"{name} is missing" for name in self.indicated)
        chosen = (f"{name}={value}" for name, held in self.categories.items() for value in held)
        return (*self.numbers, *missing, *chosen)

    def describe(self, shown: int) -> str:
        """The columns, for people, at most so many of each kind by name."""
        kinds = {"numbers": self.numbers, "categories": tuple(self.categories)}
        return " and ".join(
            f"{kind} from {quote_all(names, shown)}" for kind, names in kinds.items() if names
        )

    def learn(self, file: str, cells: Mapping[str, Sequence[Any] | Numbers]) -> "FeatureColumns":
        """The same columns with what these cells call for: missing numbers, values of categories.

        Raises:
            UserError: a column has so many values that it is not one of categories.
        """
        values = {name: tuple(sorted(set(cells[name]))) for name in self.categories}
        for name, found in values.items():
            if len(found) > MOST_CATEGORIES:
                raise UserError(
                    f"{file}: the column {quote(name)} has {len(found):,} different values, too "
                    f"many for categories (at most {MOST_CATEGORIES:,}); leave it out of the "
                    "features, or read it as text"
                )
        blank = tuple(name for name in self.numbers if np.isnan(cells[name]).any())
        return FeatureColumns(self.numbers, blank, values)

    def joined(self, other: "FeatureColumns") -> "FeatureColumns":
        """The same columns with what other data calls for too.

        Examples:
            >>> here, there = FeatureColumns(categories={"sex": ("f",)}), {"sex": ("m",)}
            >>> here.joined(FeatureColumns(categories=there)).names
            ('sex=f', 'sex=m')
        """
        blank = {*self.indicated, *other.indicated}
        return FeatureColumns(
            self.numbers,
            tuple(name for name in self.numbers if name in blank),
            {
                name: tuple(sorted({*values, *other.categories.get(name, ())}))
                for name, values in self.categories.items()
            },
        )

    def doubts(self, file: str, cells: Mapping[str, Sequence[Any] | Numbers]) -> list[str]:
        """What looks wrong about the columns, given the cells that they were learned from."""
        return [
            *(
                f"{file}: the numbers of {quote(name)} differ too little for their size to be told "
                "apart in 32 bits; subtract what they have in common"
                for name in self.numbers
                if _is_crowded(np.asarray(cells[name], dtype=np.float64))
            ),
            *(
                f"{file}: {len(values):,} different categories of {quote(name)} in "
                f"{counted(len(cells[name]), 'row')}: most are met once and teach nothing"
                for name, values in self.categories.items()
                if 2 * len(values) > len(cells[name]) > _FEW_ROWS
            ),
        ]


_FEW_ROWS = 20
"""Of which most categories may well be met once."""


def _is_crowded(numbers: Numbers) -> bool:
    """Whether numbers lie so close together, far from 0, that 32 bits hardly tell them apart."""
    said = numbers[~np.isnan(numbers)]
    if not len(said):
        return False
    lowest, highest = float(said.min()), float(said.max())
    size = max(abs(lowest), abs(highest))
    return 0 < highest - lowest < _SMALLEST_SPREAD * size


class FeatureEncoder:
    """Makes features of cells, and remembers what training had not seen."""

    def __init__(self, columns: FeatureColumns) -> None:
        self.columns = columns
        self.unknown: dict[str, Counter[str]] = {name: Counter() for name in columns.categories}
        self.newly_missing: Counter[str] = Counter()

    def encode(self, cells: Mapping[str, Sequence[Any] | Numbers]) -> NDArray[np.float32]:
        """Features of shape (rows, features); a missing number stays NaN."""
        held = self.columns
        numbers = [np.asarray(cells[name], dtype=np.float64) for name in held.numbers]
        for name, column in zip(held.numbers, numbers, strict=True):
            if name not in held.indicated:
                self.newly_missing[name] += int(np.isnan(column).sum())
        missing = [np.isnan(np.asarray(cells[name], dtype=np.float64)) for name in held.indicated]
        blocks = [np.asarray(column, dtype=np.float32)[:, None] for column in (*numbers, *missing)]
        blocks += [self._one_hot(name, cells[name]) for name in held.categories]
        return np.concatenate(blocks, axis=1)

    def _one_hot(self, name: str, values: Sequence[str] | Numbers) -> NDArray[np.float32]:
        known = {value: place for place, value in enumerate(self.columns.categories[name])}
        places = np.array([known.get(str(value), -1) for value in values], dtype=np.int64)
        self.unknown[name].update(str(values[row]) for row in np.flatnonzero(places < 0).tolist())
        return np.asarray(places[:, None] == np.arange(len(known)), dtype=np.float32)

    def notes(self, file: str) -> list[str]:
        """A sentence for each column with something that training had not seen."""
        notes = unknown_notes(file, self.unknown)
        for name, count in self.newly_missing.items():
            if count:
                notes.append(
                    f"{file}: {counted(count, 'number')} of {quote(name)} {_is(count)} missing, "
                    "and none was in training; the mean there is taken instead"
                )
        return notes


def unknown_notes(file: str, unknown: Mapping[str, Counter[str]]) -> list[str]:
    """A sentence for each column with categories that training had not seen."""
    notes = []
    for name, values in unknown.items():
        if values:
            cells = counted(values.total(), "cell")
            seen = quote_all([value for value, _ in values.most_common(5)], 3)
            notes.append(
                f"{file}: {cells} of {quote(name)} {_hold(values.total())} a category that "
                f"training did not have ({seen}), which counts as none"
            )
    return notes


def decode(columns: FeatureColumns, features: NDArray[Any]) -> dict[str, list[Any]]:
    """The cells that features were made of; None where a number is missing.

    A category that training did not have left no trace, and is one that is missing.

    Examples:
        >>> columns = FeatureColumns(("age",), ("age",), {"sex": ("f", "m")})
        >>> decode(columns, np.array([[3.0, 0, 0, 1], [np.nan, 1, 1, 0]], dtype=np.float32))
        {'age': [3.0, None], 'sex': ['m', 'f']}
    """
    cells: dict[str, list[Any]] = {}
    for place, name in enumerate(columns.numbers):
        # Through the shortest text: 0.1 in 32 bits is 0.10000000149 in 64.
        written = (float(str(value)) for value in features[:, place].astype(np.float32))
        cells[name] = [None if math.isnan(value) else value for value in written]
    start = len(columns.numbers) + len(columns.indicated)
    for name, values in columns.categories.items():
        cells[name] = [""] * len(features)
        for row, place in zip(*np.nonzero(features[:, start : start + len(values)]), strict=True):
            cells[name][row] = values[place]
        start += len(values)
    return cells


def _hold(count: int) -> str:
    return "holds" if count == 1 else "hold"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def find_columns(names: Sequence[str], asked: str) -> list[str]:
    """The columns that a name, a pattern (`sensor_*`) or a range (`first:last`, `3:7`) means.

    Ranges go over the columns in the file's order and include both ends, each a name or a position
    from 0. Nothing is found where there is no such column.

    Examples:
        >>> find_columns(["id", "x1", "x2", "y"], "x*"), find_columns(["a", "b", "c"], "1:c")
        (['x1', 'x2'], ['b', 'c'])
    """
    if asked in names:
        return [asked]
    if asked.isascii() and asked.isdigit():
        return list(names[int(asked) : int(asked) + 1])
    first, colon, last = asked.partition(":")
    if colon:
        ends = [find_columns(names, end) if end else [] for end in (first, last)]
        if all(len(end) == 1 for end in ends):
            start, stop = (names.index(end[0]) for end in ends)
            return list(names[start : stop + 1])
    return fnmatch.filter(names, asked)


def is_blank(cell: Any, missing: Any = None) -> bool:
    """Whether a cell says that nothing is known; `missing` stands where a JSON row lacks a key."""
    if isinstance(cell, str):
        return cell.strip().lower() in BLANKS
    return cell is None or cell is missing or (isinstance(cell, float) and math.isnan(cell))


def number_of(cell: Any) -> float | None:
    """A number of 32 bits as it is or as a text; None for anything else.

    Python would read 2020_01 as a number, which is a name elsewhere.
    """
    if not isinstance(cell, str | int | float) or (isinstance(cell, str) and "_" in cell):
        return None
    try:
        value = float(cell)
    except (ValueError, OverflowError):
        return None
    return value if abs(value) <= _LARGEST else None


def written_out(cells: Iterable[Any], *, surely: bool = False) -> str | None:
    """A number that only people can read, of cells that are mostly numbers for people.

    Args:
        cells: of a column.
        surely: take none for such a number that may be a date, a version or a telephone number.

    Examples:
        >>> written_out(["1,5", "2", ""]), written_out(["1.5", "2"]), written_out(["1,5", "a", "b"])
        ('1,5', None, None)
        >>> written_out(["1.2.2024"]), written_out(["1.2.2024"], surely=True)
        ('1.2.2024', None)
    """
    form = _WITH_COMMA if surely else _WRITTEN_OUT
    said = [cell.strip() if isinstance(cell, str) else cell for cell in cells if not is_blank(cell)]
    others = [cell for cell in said if number_of(cell) is None]
    written = [cell for cell in others if isinstance(cell, str) and form.fullmatch(cell)]
    return written[0] if written and 2 * (len(others) - len(written)) < len(said) else None


def are_numbers(cells: Iterable[Any], missing: Any = None) -> bool:
    """Whether most of the cells that say anything are numbers."""
    said = [cell for cell in cells if not is_blank(cell, missing)]
    fitting = sum(number_of(cell) is not None for cell in said)
    return fitting > 0 and 2 * fitting > len(said)

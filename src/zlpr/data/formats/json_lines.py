"""JSON Lines: one object per line, such as ``{"text": "…", "labels": ["a", "b"]}``."""

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from zlpr.data.dataset import Dataset
from zlpr.data.files import Lines, read_lines
from zlpr.data.formats.lines import hint
from zlpr.data.problems import Problems, quote, quote_all
from zlpr.data.roles import MISSING, Roles, find_roles
from zlpr.data.rows import Block, ReadOptions, sample_columns

# json.loads without its checks of the argument's type and of the white space around it, which
# take as long as the parsing of a short line: (text, start) -> (value, end).
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]

# Few rows at a time: thousands of live dictionaries would keep the garbage collector busy, which
# makes the whole twice as slow. The first rows are looked at together, to see what they hold.
_BLOCK_ROWS = 128

_MOST_CELLS = 2_000_000  # that are looked at to see what columns mean
_MOST_KEYS = 20  # of labels, that are looked for twice in an object


def read_blocks(path: Path, options: ReadOptions, problems: Problems) -> Iterator[Block]:
    """The rows of a file, some hundred at a time."""
    roles: Roles | None = None
    keys = Keys()
    otherwise = hint(path, options)
    for block in read_lines(path, options.encoding):
        size = len(block.texts) if roles is None else _BLOCK_ROWS
        for start in range(0, len(block.texts), size):
            lines = Lines(block.first + start, block.texts[start : start + size])
            rows, numbers = _parse(lines, problems, otherwise)
            if rows:
                roles = roles or find_roles(str(path), keys.of_first(rows), options)
                keys.look(rows, numbers)
                span = range(lines.first, lines.first + len(lines.texts))
                note_repeated_keys(lines.texts, span, roles, problems)
                yield roles.block(Rows(rows), numbers, problems)
    keys.note(problems)


class Keys:
    """The keys of a file's objects: what those of the first rows lack is found too late."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._late: dict[str, int] = {}

    def of_first(self, rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
        """The columns of the first rows, by which it is decided what columns mean."""
        columns = columns_of(rows)
        self._known = set(columns)
        return columns

    def look(self, rows: Sequence[dict[str, Any]], lines: Sequence[int]) -> None:
        """Remember where keys occur that the first rows lack."""
        if self._known.issuperset(itertools.chain.from_iterable(rows)):
            return
        for row, line in zip(rows, lines, strict=True):
            for key in row:
                if key not in self._known:
                    self._known.add(key)
                    self._late[key] = line

    def note(self, problems: Problems) -> None:
        """Say which they are: nothing was read from them."""
        if self._late:
            first = next(iter(self._late.values()))
            problems.notes.append(
                f"{problems.name}: not read: {quote_all(list(self._late), 5)}, which the first "
                f"rows lack (from {problems.unit} {first} on)"
            )


class Rows(dict[str, list[Any]]):
    """The columns of some JSON objects, made when asked for."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self._rows = rows

    def __missing__(self, name: str) -> list[Any]:
        try:
            column = [row[name] for row in self._rows]
        except KeyError:
            column = [row.get(name, MISSING) for row in self._rows]
        self[name] = column
        return column


def columns_of(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """All columns that some JSON objects have between them, in order of appearance.

    Where objects have many different keys, fewer of them are looked at.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    while len(rows) > 1 and len(rows) * len(names) > _MOST_CELLS:
        rows = rows[: len(rows) // 2]
        names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name, MISSING) for row in rows] for name in names}


def note_repeated_keys(
    texts: Sequence[str], lines: Sequence[int], roles: Roles, problems: Problems
) -> None:
    """Say where an object has one of the keys that are read more than once: the last one counts.

    Only texts in which the key's name stands twice are looked at closely.
    """
    read = (*roles.columns.text, *roles.columns.labels[:_MOST_KEYS], roles.columns.id)
    whole = "\n".join(texts)  # counted in one go, which is much faster than by line
    for key in (name for name in read if name is not None):
        word = json.dumps(key, ensure_ascii=False)
        if whole.count(word) <= len(texts):
            continue
        for number, text in zip(lines, texts, strict=True):
            if text.count(word) > 1 and _repeats(text, key):
                if not any("more than once" in note for note in problems.notes):
                    problems.notes.append(
                        f"{problems.name}, {problems.unit} {number}: the key {quote(key)} appears "
                        "more than once in an object; the last one counts"
                    )
                return


def _repeats(text: str, key: str) -> bool:
    """Whether the outermost object of a JSON text has a key more than once."""
    last: list[tuple[str, Any]] = []

    def keep(pairs: list[tuple[str, Any]]) -> None:
        last[:] = pairs  # the outermost object is finished last

    try:
        json.loads(text, object_pairs_hook=keep)
    except (ValueError, RecursionError):  # reported elsewhere
        return False
    return sum(name == key for name, _ in last) > 1


def _parse(
    block: Lines, problems: Problems, otherwise: str
) -> tuple[list[dict[str, Any]], Sequence[int]]:
    """The objects of some lines and the numbers of their lines; in one go where all lines are."""
    try:
        # A line without a value raises StopIteration and ends the map early: see the lengths.
        rows, ends = zip(*map(_scan, block.texts, itertools.repeat(0)), strict=True)
    except (ValueError, RecursionError):
        return _parse_one_by_one(block, problems, otherwise)
    if ends != tuple(map(len, block.texts)) or set(map(type, rows)) != {dict}:
        return _parse_one_by_one(block, problems, otherwise)
    return list(rows), range(block.first, block.first + len(rows))


def _parse_one_by_one(
    block: Lines, problems: Problems, otherwise: str
) -> tuple[list[dict[str, Any]], Sequence[int]]:
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    for number, line in enumerate(block.texts, block.first):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as wrong:
            problems.add(number, f"not JSON: {wrong.msg}{otherwise}", column=wrong.colno)
        except RecursionError:
            problems.add(number, "not read: nested too deeply")
        except ValueError:
            problems.add(number, "not read: a number of thousands of digits")
        else:
            if isinstance(row, dict):
                rows.append(row)
                lines.append(number)
            else:
                problems.add(number, f"expected a JSON object, got {quote(row)}", column=1)
    return rows, lines


def write(dataset: Dataset, stream: TextIO) -> None:
    """Write a row per sample; a file that is read back gives the same data."""
    for row in json_rows(dataset):
        stream.write(json.dumps(row, ensure_ascii=False) + "\n")


def json_rows(dataset: Dataset) -> Iterator[dict[str, Any]]:
    """The samples as JSON objects."""
    columns = sample_columns(dataset)
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))

"""Tables of any kind (CSV, JSON, Parquet): which column means what, and its cells checked."""

import ast
import contextlib
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from zlpr._errors import UserError
from zlpr._names import nearest
from zlpr.data.columns import Columns
from zlpr.data.dataset import split_name
from zlpr.data.feature_columns import (
    FeatureColumns,
    Numbers,
    are_numbers,
    find_columns,
    is_blank,
    number_of,
    written_out,
)
from zlpr.data.problems import Problems, quote, quote_all
from zlpr.data.rows import Block, Column, ReadOptions, is_position, listed

TEXT_NAMES = (
    *("text", "texts", "sentence", "content", "comment_text", "comment", "body", "message"),
    *("document", "review", "tweet", "query", "question"),
)
SHORT_TEXT_NAMES = ("abstract", "summary", "overview", "description", "title")
"""Names of texts that often stand beside a longer one, which is then the likelier."""
LABEL_NAMES = (
    *("labels", "label", "label_names", "categories", "category", "tags", "tag", "topics", "topic"),
    *("genres", "genre", "classes", "class", "codes", "targets", "target"),
)
ID_NAMES = ("id", "ids", "_id", "uid", "guid", "sample_id", "doc_id")
SPLIT_COLUMNS = ("split",)
DELIMITERS = ("|", ";", ",")
"""What may separate the labels of a cell, the surest sign first."""

_CALLS = ("frozenset(", "set(", "list(", "tuple(", "dict_keys(", "dict_values(", "array(")
LIST_STARTS = ("[", "{", "(", *_CALLS)
"""How a cell may begin that holds a whole collection of labels; `holds_list` tells whether."""

_KNOWN_NAMES = frozenset([*TEXT_NAMES, *SHORT_TEXT_NAMES, *LABEL_NAMES, *ID_NAMES, *SPLIT_COLUMNS])

MISSING: Any = object()
"""Stands where a JSON row lacks a key."""

INDICATORS: dict[Any, bool] = {
    "0": False,
    "1": True,
    "0.0": False,
    "1.0": True,
    "false": False,
    "true": True,
    "False": False,
    "True": True,
    "FALSE": False,
    "TRUE": True,
    0: False,
    1: True,
}
_ZERO_ONE = frozenset(["0", "1", "0.0", "1.0", 0, 1])
_CELL_TYPES = (str, int, float)

_LOOKED_AT = 200  # rows, to see which columns are texts
_LONGEST_LOOK = 2000  # characters of each

Table = Mapping[str, Sequence[Any]]
"""Some rows of a table as columns by name, all of one length."""


class LabelParser(Protocol):
    """Turns the label columns of some rows into label sets."""

    def __call__(self, columns: Table, bad: "BadCells") -> list[Sequence[str]]:
        """The label set of each row; rows that have none to be read are reported as bad."""
        ...


class BadCells(dict[int, tuple[str, str]]):
    """The rows of a block that cannot be used: position -> (column, message), the first kept."""

    def report(self, row: int, column: str, message: str) -> None:
        """Mark a row as bad."""
        self.setdefault(row, (column, message))


@dataclass(frozen=True)
class Roles:
    """What the columns of a table hold, and how the cells of labels are read."""

    columns: Columns
    parse_labels: LabelParser | None  # None where labels are not wanted
    label_names: tuple[str, ...] | None

    def block(self, table: Table, lines: Sequence[int], problems: Problems) -> Block:
        """Check the cells of some rows; bad rows are reported and left out."""
        bad = BadCells()
        held = self.columns
        texts = _joined([_strings(table[name], name, bad) for name in held.text])
        labels: list[Sequence[str]] = [()] * len(lines)
        if self.parse_labels is not None:
            labels = self.parse_labels(table, bad)
        cells = None if held.features is None else _cells(table, held.features, bad)
        ids = None if held.id is None else _keys(table[held.id], held.id, bad)
        groups = None if held.group is None else _groups(table[held.group], held.group, bad)
        split = None if held.split is None else _parts(table[held.split], held.split, bad)
        for row, (column, message) in sorted(bad.items()):
            problems.add(lines[row], message, column=column)

        def kept(values: Any) -> Any:
            if values is None or not bad:
                return values
            return [value for row, value in enumerate(values) if row not in bad]

        if cells is not None and bad:
            good = np.array([row not in bad for row in range(len(lines))])
            cells = {
                name: values[good] if isinstance(values, np.ndarray) else kept(values)
                for name, values in cells.items()
            }
        return Block(
            labels=kept(labels),
            lines=kept(lines),
            texts=kept(texts) if held.text else None,
            cells=cells,
            ids=kept(ids),
            groups=kept(groups),
            split=kept(split),
            label_names=self.label_names,
            columns=held,
        )


def find_roles(
    file: str,
    table: Table,
    options: ReadOptions,
    class_names: Mapping[str, tuple[str, ...]] | None = None,
    *,
    header: bool = True,
) -> Roles:
    """Decide what each column means from the user's words, the names, and the first rows.

    Args:
        file: for messages.
        table: the first rows.
        options: what the user said.
        class_names: the labels that a column declares, in order, where the format knows them.
        header: whether the columns have names of their own.
    """
    names = list(table)
    if not names:
        raise UserError(f"{file}: the first rows have no columns")
    guessed = options.labels is None
    options = _as_before(file, options, names)
    label_columns = _label_columns(file, table, options) if options.labelled else ()
    taken = set(label_columns)
    identifier = _optional(file, table, options.id, ID_NAMES, "id", taken, _is_key)
    group = None if options.group is None else _named(file, names, options.group, "group")
    split = _optional(file, table, options.split, SPLIT_COLUMNS, "split", taken, _is_part, 0.5)
    taken |= {name for name in (identifier, group, split) if name is not None}
    if not options.labelled:
        taken |= {name for name in names if name.lower() in LABEL_NAMES}
    text: tuple[str, ...] = ()
    also_text: tuple[str, ...] = ()
    features = _feature_columns(file, table, options, taken)
    if features is None:
        text, also_text = _text_columns(file, table, options.text, taken)
    held = () if features is None else features.columns
    roles = {
        "text": text,
        "features": held,
        "id": (identifier,),
        "group": (group,),
        "split": (split,),
    }
    for role, columns in roles.items():
        _refuse_answers(file, label_columns, columns, role)
    indicators = options.labelled and _are_indicators(table, label_columns, options)
    parser: LabelParser | None
    delimiter = None
    declared: tuple[str, ...] | None = None
    if not options.labelled:
        parser = None
    elif indicators:
        only = len(label_columns) == 1 and not _listed(options.labels)
        parser = Indicators(label_columns, _NO_LABEL if guessed else _ARE_NAMES if only else "")
        declared = label_columns
    else:
        parser = LabelCells(label_columns[0], *_cell_style(table[label_columns[0]], options))
        delimiter = parser.delimiter or options.label_delimiter  # "" where the user said so
        declared = (class_names or {}).get(label_columns[0])
    read = {*taken, *text, *also_text, *held}
    found = Columns(
        text=text,
        features=features,
        labels=label_columns,
        indicators=indicators,
        label_delimiter=delimiter,
        id=identifier,
        group=group,
        split=split,
        header=header,
        also_text=also_text,
        unread=tuple(name for name in names if name not in read),
    )
    return Roles(found, parser, declared)


def _as_before(file: str, options: ReadOptions, names: Sequence[str]) -> ReadOptions:
    """The options, with what they leave open as in the file that this one is to be read like.

    Texts and labels must stand in columns of the same names; ids and groups may be absent.
    """
    like = options.like
    if like is None:
        return options
    labels: Any = like.labels if like.indicators else next(iter(like.labels), None)
    same_labels = options.labels is None and options.labelled
    named = None if options.labels is None or _listed(options.labels) else options.labels
    if options.text is None:
        _refuse_missing(file, names, like.text, "text")
    delimiter = options.label_delimiter
    if same_labels:
        _refuse_missing(file, names, like.labels, "labels")
    if delimiter is None and (same_labels or [named] == [*like.labels]):
        delimiter = like.label_delimiter
    return replace(
        options,
        text=options.text if options.text is not None else like.text or None,
        labels=(labels or None) if same_labels else options.labels,
        label_delimiter=delimiter,
        id=like.id if options.id is None and like.id in names else options.id,
        group=like.group if options.group is None and like.group in names else options.group,
    )


def is_known_name(name: str) -> bool:
    """Whether a column of this name is one that is looked for."""
    return name.strip().lower() in _KNOWN_NAMES


def likely_roles(table: Table) -> tuple[str, str]:
    """The columns that seem to hold texts and labels, for a message that asks to name them.

    Texts are the longest cells. Of the others, labels repeat the most: identifiers do not.

    Examples:
        >>> likely_roles({"nr": ["1", "2"], "was": ["rot", "rot"], "wie": ["ein Haus", "Baum"]})
        ('wie', 'was')
    """
    cells = {name: [str(cell) for cell in column[:_LOOKED_AT]] for name, column in table.items()}
    text = max(cells, key=lambda name: sum(map(len, cells[name])))
    others = [name for name in cells if name != text] or [text]
    return text, min(others, key=lambda name: len(set(cells[name])))


def _listed(column: Any) -> bool:
    return column is not None and not isinstance(column, str | int)


def _refuse_answers(
    file: str, labels: Sequence[str], columns: Sequence[str | None], role: str
) -> None:
    """Refuse a column that is the labels and something else too."""
    both = next((column for column in columns if column in labels), None)
    if both is not None:
        why = "a model would read the answer" if role == "text" else f"name another with {role}=…"
        raise UserError(f"{file}: the column {quote(both)} is read as labels and as {role}; {why}")


def _named(file: str, names: Sequence[str], column: Column, role: str) -> str:
    """The column of this name, or else at this position."""
    if column in names:
        return str(column)
    if is_position(column):
        if not 0 <= int(column) < len(names):
            raise UserError(
                f"{file}: {role}={column} is not a column; there are {len(names)}, counted from 0"
            )
        return names[int(column)]
    raise _no_column(file, column, role, names, advice=f"; name another with {role}=…")


def _refuse_missing(file: str, names: Sequence[str], columns: Iterable[str], role: str) -> None:
    """Refuse a table without the columns of another one; digits are no positions among these."""
    for column in columns:
        if column not in names:
            advice = f"; call it as in the data before, or name another with {role}=…"
            raise _no_column(file, column, role, names, advice=advice)


def _no_column(
    file: str, column: Column, role: str, names: Sequence[str], *, advice: str = ""
) -> UserError:
    """The error for a column that a table has not, with the one that was probably meant."""
    near = nearest(str(column), names)
    guess = (
        "; the columns are" if near is None else f"; did you mean {quote(near)}? The columns are"
    )
    return UserError(
        f"{file}: no column {quote(column)} for {role}{guess} {quote_all(names)}{advice}"
    )


def _first(names: Iterable[str], known: Sequence[str]) -> str | None:
    found = {name.strip().lower(): name for name in reversed(list(names))}
    return next((found[name] for name in known if name in found), None)


def _optional(
    file: str,
    table: Table,
    asked: Column | bool | None,
    known: Sequence[str],
    role: str,
    taken: set[str],
    fits: Callable[[Any], bool],
    share: float = 1.0,
) -> str | None:
    """The column that the user named, or one with a usual name of whose cells a share fits."""
    if asked is False:
        return None
    if asked is not None:
        return _named(file, list(table), asked, role)
    found = _first((name for name in table if name not in taken), known)
    if found is None or sum(map(fits, table[found])) < share * len(table[found]):
        return None
    return found


def _is_key(value: Any) -> bool:
    return isinstance(value, str | int)


def _is_part(value: Any) -> bool:
    return isinstance(value, str) and split_name(value) is not None


def _text_columns(
    file: str, table: Table, asked: Column | Sequence[Column] | None, taken: set[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of the texts, and those that look like texts too."""
    names = list(table)
    left = [name for name in names if name not in taken]
    if asked is not None:
        return tuple(_named(file, names, column, "text") for column in listed(asked)), ()
    usual, textual = _likely_text(table, left)
    if usual is None:
        raise UserError(
            f"{file}: which column holds the text? The columns are {quote_all(names)}; "
            f"name it, as text={quote(likely_roles({n: table[n] for n in left or names})[0])}, "
            "or the columns of numbers and categories to learn from with features=…"
        )
    return (usual,), tuple(name for name in textual if name != usual)


def _likely_text(table: Table, left: Sequence[str]) -> tuple[str | None, list[str]]:
    """The column that texts are in, None where none is likely, and all that look like texts.

    A column with a usual name is taken; where there is none, or only names of texts that often
    stand beside a longer one, the column with the longest texts.
    """
    textual = {name: length for name in left if (length := _text_length(table[name]))}
    usual = _first(left, TEXT_NAMES)
    if usual is None and textual:
        usual = max(textual, key=textual.__getitem__)
    usual = usual or _first(left, SHORT_TEXT_NAMES) or (left[0] if len(left) == 1 else None)
    return usual, list(textual)


def _feature_columns(
    file: str, table: Table, options: ReadOptions, taken: set[str]
) -> FeatureColumns | None:
    """The columns to learn from instead of a text: those named, or all of numbers without one."""
    like = options.like
    named = _columns_meant(file, table, options.features, "features")
    categories = _columns_meant(file, table, options.categories, "categories")
    if like is not None and like.features is not None:
        known = like.features.columns
        if options.text is not None:
            raise UserError(
                f"{file}: no text is read, but features as before, from {quote_all(known)}; leave "
                "text=… out"
            )
        strange = [name for name in (*named, *categories) if name not in known]
        if strange:
            raise UserError(
                f"{file}: the column {quote(strange[0])} is none of the features before, which are "
                f"from {quote_all(known)}"
            )
        _refuse_missing(file, list(table), known, "features")
        return like.features
    if options.text is not None or (like is not None and like.text and not options.names_features):
        if options.names_features:
            raise UserError(f"{file}: text and features: a model reads the one or the other")
        return None
    if not named:
        left = [name for name in table if name not in taken and not _INDEX.fullmatch(name)]
        named = [name for name in left if are_numbers(table[name], MISSING)]
        text = _likely_text(table, left)[0]
        if text is None or categories:
            _refuse_commas(file, table, left, {*named, *categories})
        stands_for_text = text is not None and (text not in named or _first([text], TEXT_NAMES))
        if not categories and (not named or stands_for_text):
            return None
    others = [name for name in named if not are_numbers(table[name], MISSING)]
    if like is not None:  # of parts that are mixed, the first one showed what a blank column holds
        others = [name for name in others if name in categories or not _all_blank(table[name])]
    for name in others:
        number = None if name in categories else written_out(table[name])
        if number is not None:
            raise _written_out(file, name, number)
    values: dict[str, tuple[str, ...]] = dict.fromkeys((*others, *categories), ())
    return FeatureColumns(tuple(name for name in named if name not in values), (), values)


def _refuse_commas(file: str, table: Table, left: Sequence[str], features: set[str]) -> None:
    """Refuse columns of numbers that only people can read where all numbers are to be features.

    They would not be read, though they are numbers like the others. Where there are no others, and
    a column that is none of numbers, that one may be the text.
    """
    others = [name for name in left if name not in features]
    found = {name: written_out(table[name], surely=True) for name in others}
    for name, number in found.items():
        if number is not None and (features or all(found.values())):
            raise _written_out(
                file, name, number, ", or name the columns to learn from with features=…"
            )


def _written_out(file: str, name: str, number: str, also: str = "") -> UserError:
    return UserError(
        f"{file}: the column {quote(name)} holds numbers as {quote(number)}; write them with a "
        "decimal point and without signs between thousands, or say that they are categories with "
        f"categories={quote(name)}{also}"
    )


def _all_blank(cells: Sequence[Any]) -> bool:
    return all(is_blank(cell, MISSING) for cell in cells)


def _columns_meant(
    file: str, table: Table, asked: Column | Sequence[Column] | None, role: str
) -> list[str]:
    """The columns that names, positions, patterns and ranges mean, each once."""
    found: dict[str, None] = {}
    for column in listed(asked):
        columns = find_columns(list(table), str(column))
        if not columns:
            raise _no_column(file, column, role, list(table))
        found.update(dict.fromkeys(columns))
    return list(found)


def _cells(table: Table, features: FeatureColumns, bad: BadCells) -> dict[str, Numbers | list[str]]:
    """The cells of numbers, NaN where missing, and those of categories as texts."""
    cells: dict[str, Numbers | list[str]] = {}
    for name in features.numbers:
        cells[name] = _numbers(table[name], name, bad)
    for name in features.categories:
        cells[name] = _categories(table[name], name, bad)
    return cells


def _numbers(values: Sequence[Any], name: str, bad: BadCells) -> Numbers:
    found = np.full(len(values), np.nan)
    for row, value in enumerate(values):
        number = number_of(value)
        if number is not None:
            found[row] = number
        elif not is_blank(value, MISSING):
            bad.report(
                row,
                name,
                f"expected a number, got {quote(value)}; where it is a category, say so with "
                "categories=…",
            )
    return found


def _categories(values: Sequence[Any], name: str, bad: BadCells) -> list[str]:
    """Names without the blanks around them; a missing cell is a category of its own, ""."""
    found = []
    for row, value in enumerate(values):
        blank = is_blank(value, MISSING)
        if not blank and not isinstance(value, str | int | float):
            bad.report(row, name, f"expected a category, got {quote(value)}")
        found.append("" if blank else str(value).strip())
    return found


_WORDS = re.compile(r"[^\W\d_]\S*\s+\S*[^\W\d_]|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{4}")


def _text_length(values: Sequence[Any]) -> float:
    """The mean length of cells most of which are texts of several words, or else 0."""
    cells = [value for value in values[:_LOOKED_AT] if value is not MISSING and value]
    texts = [
        cell[:_LONGEST_LOOK]
        for cell in cells
        if isinstance(cell, str)
        and not cell.startswith(("[", "{", "http:", "https:"))
        and _WORDS.search(cell[:_LONGEST_LOOK])
    ]
    return sum(map(len, texts)) / len(cells) if 2 * len(texts) > len(cells) else 0.0


_SUGGESTED = 4
"""Columns that a message names, as they would be given."""

_INDEX = re.compile(r"\s*|Unnamed: \d+(?:\.\d+)*|__index_level_\d+__|level_\d+")
"""What pandas calls an index that it writes as a column; of two rows it looks like a label."""


def _label_columns(file: str, table: Table, options: ReadOptions) -> tuple[str, ...]:
    names = list(table)
    if options.labels is not None:
        wanted = options.labels
        listed = [wanted] if isinstance(wanted, str | int) else list(wanted)
        return tuple(_named(file, names, column, "labels") for column in listed)
    asked = {_named(file, names, column, role) for role, column in options.columns()}
    asked.update(_columns_meant(file, table, options.features, "features"))
    asked.update(_columns_meant(file, table, options.categories, "categories"))
    left = [name for name in names if name not in asked]
    known = _first(left, LABEL_NAMES)
    if known is not None:
        return (known,)
    others = {*TEXT_NAMES, *SHORT_TEXT_NAMES, *ID_NAMES, *SPLIT_COLUMNS}
    found = tuple(
        name
        for name in left
        if name.lower() not in others and not _INDEX.fullmatch(name) and _is_indicator(table, name)
    )
    if found:
        return found
    flags = [name for name in left if _is_indicator(table, name, named=True)]
    likely = flags or [likely_roles(table)[1]]
    raise UserError(
        f"{file}: which column holds the labels? The columns are {quote_all(names)}; name it, as "
        f"{', '.join(f'labels={quote(name)}' for name in likely[:_SUGGESTED])} (one column of "
        "label sets, or several of 0 and 1 or of true and false)"
    )


def _are_indicators(table: Table, columns: tuple[str, ...], options: ReadOptions) -> bool:
    """Whether the columns of labels are of 0 and 1; of data read before, as they were there."""
    if len(columns) > 1 or _listed(options.labels):
        return True
    if options.label_delimiter is not None:
        return False
    like = options.like
    if like is not None and like.labels == columns:
        return like.indicators
    return _is_indicator(table, columns[0], named=options.labels is not None)


def _is_indicator(table: Table, name: str, *, named: bool = False) -> bool:
    """Whether a column is one of 0 and 1, though not all of its first cells may be.

    The others are then errors: to ask for all of them would let one bad cell delete a label. Half
    of the cells is enough, unless the user named this one column: then it may hold label ids too,
    and of 50 cells only one may be another, but any number of them blank. Columns of true and false
    are often no labels, and count where they are named.
    """
    if name.lower() in LABEL_NAMES:
        return False
    values = table[name]
    if named:
        fitting = sum(isinstance(value, _CELL_TYPES) and value in INDICATORS for value in values)
        others = len(values) - fitting
        few = (len(values) + 40) // 50
        return fitting > 0 and (
            others <= few or others == sum(is_blank(value, MISSING) for value in values)
        )
    if bool in set(map(type, values)):
        return False
    fitting = sum(isinstance(value, _CELL_TYPES) and value in _ZERO_ONE for value in values)
    others = len(values) - fitting
    if fitting and fitting >= others:
        return True
    return len(values) == 1 and (values[0] is None or str(values[0]).strip().isdecimal())


def _strings(values: Sequence[Any], column: str, bad: BadCells) -> list[str]:
    if set(map(type, values)) == {str}:
        try:
            "".join(values).encode()
        except UnicodeEncodeError:
            pass
        else:
            return values if isinstance(values, list) else list(values)
    texts = []
    for row, value in enumerate(values):
        problem = _text_problem(value)
        if problem:
            bad.report(row, column, problem)
        texts.append("" if problem else value)
    return texts


def _text_problem(value: Any) -> str | None:
    if value is MISSING:
        return "missing, expected a text"
    if not isinstance(value, str):
        return f"expected a text, got {quote(value)}"
    try:
        value.encode()
    except UnicodeEncodeError as wrong:
        code = ord(value[wrong.start])
        return f"half of a surrogate pair (\\u{code:04x}) at character {wrong.start + 1}"
    return None


def _joined(texts: Sequence[list[str]]) -> list[str]:
    if len(texts) == 1:
        return texts[0]
    return [" ".join(part for part in parts if part) for parts in zip(*texts, strict=True)]


def _keys(values: Sequence[Any], column: str, bad: BadCells) -> list[str]:
    for row, value in enumerate(values):
        if value is MISSING or value is None or not isinstance(value, str | int | float):
            got = "missing" if value is MISSING else f"got {quote(value)}"
            bad.report(row, column, f"expected a name or a number, {got}")
    return list(map(str, values))


def _groups(values: Sequence[Any], column: str, bad: BadCells) -> list[str]:
    """Names without the blanks around them; "" for a blank cell, which is nan among numbers."""
    return [key.strip() for key in _keys([_or_blank(value) for value in values], column, bad)]


def _or_blank(value: Any) -> Any:
    """A cell, or "" where it is null, not there, or no number among numbers."""
    nothing = value is None or value is MISSING or (isinstance(value, float) and math.isnan(value))
    return "" if nothing else value


def _parts(values: Sequence[Any], column: str, bad: BadCells) -> list[str]:
    parts: list[str] = []
    for row, value in enumerate(values):
        part = split_name(value) if isinstance(value, str) else None
        if part is None:
            bad.report(row, column, f"expected train, validation or test, got {quote(value)}")
        parts.append(part or "train")
    return parts


_NO_LABEL = "; where it is no label, list those that are with labels=…"
_ARE_NAMES = "; where 0 and 1 are names of labels, say so with label_delimiter=''"


@dataclass(frozen=True)
class Indicators:
    """One column of 0 and 1 per label, with what to add to an error in one of their cells."""

    names: tuple[str, ...]
    hint: str = ""

    def __call__(self, columns: Table, bad: BadCells) -> list[Sequence[str]]:
        """Gather the names of the columns that hold 1."""
        length = len(columns[self.names[0]])
        sets: list[list[str]] = [[] for _ in range(length)]
        for name in self.names:
            present = _indicators(columns[name], name, bad, self.hint)
            for row in itertools.compress(range(length), present):
                sets[row].append(name)
        return list(sets)


def _indicators(values: Sequence[Any], name: str, bad: BadCells, hint: str) -> list[bool]:
    try:
        return [INDICATORS[value] for value in values]
    except (KeyError, TypeError):  # TypeError: a cell that holds a list
        pass
    present = []
    for row, value in enumerate(values):
        known = INDICATORS.get(value) if isinstance(value, str | int | float) else None
        if known is None:
            got = "nothing" if value is MISSING else quote(value)
            bad.report(row, name, f"expected 0 or 1, got {got}{hint}")
            hint = ""  # once is enough
        present.append(bool(known))
    return present


@dataclass
class LabelCells:
    """One column that holds the whole label set of a row.

    A cell is a list of names or integer ids, one integer id, or a text that is split at the
    delimiter; a text in brackets is read as a list. Distinct texts are parsed once.
    """

    column: str
    delimiter: str
    sampled: bool
    reads_lists: bool = True
    _known: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __call__(self, columns: Table, bad: BadCells) -> list[Sequence[str]]:
        """Parse the cells of some rows."""
        values = columns[self.column]
        kinds = set(map(type, values))
        if kinds == {list} and _all_names(values):
            return self._checked_sets(list(values), bad)
        if kinds == {list} and set(map(type, itertools.chain.from_iterable(values))) == {int}:
            return self._checked_sets([list(map(str, cell)) for cell in values], bad)
        if kinds == {str}:
            try:
                return list(map(self._known.__getitem__, values))
            except KeyError:
                pass
        return [self._parse(value, row, bad) for row, value in enumerate(values)]

    def _checked_sets(self, sets: list[Sequence[str]], bad: BadCells) -> list[Sequence[str]]:
        """The label sets, of which those that are 0 or 1 for every label are reported."""
        for row, names in enumerate(sets):
            if is_vector(names):
                bad.report(row, self.column, _vector_problem(names))
        return sets

    def _parse(self, value: Any, row: int, bad: BadCells) -> Sequence[str]:
        try:
            if isinstance(value, str):
                if value not in self._known:
                    self._known[value] = tuple(self._split(value))
                return self._known[value]
            return _label_list(value)
        except ValueError as wrong:
            bad.report(row, self.column, str(wrong))
            return ()

    def _split(self, text: str) -> Sequence[str]:
        if self.reads_lists and holds_list(text):
            return _bracketed(text.strip())
        if self.sampled:
            self._check_delimiter(text)
        pieces = text.split(self.delimiter) if self.delimiter else [text]
        names = [piece.strip() for piece in pieces if piece.strip()]
        # Without a delimiter they may stand in a row: 0 0 1 0.
        if is_vector(names if self.delimiter else text.split()):
            raise ValueError(_vector_problem(text))
        return names

    def _check_delimiter(self, text: str) -> None:
        """Refuse a cell that shows that the delimiter found in the first rows was wrong."""
        rank = DELIMITERS.index(self.delimiter) if self.delimiter else len(DELIMITERS)
        for better in DELIMITERS[:rank]:
            if better in text:
                seen = (
                    f"labels separated by {self.delimiter!r}"
                    if self.delimiter
                    else "one label each"
                )
                raise ValueError(
                    f"{quote(text)} has a {better!r}, but the first rows hold {seen}; "
                    f"say which it is with label_delimiter={better!r} or {self.delimiter!r}"
                )


def _cell_style(values: Sequence[Any], options: ReadOptions) -> tuple[str, bool, bool]:
    """The delimiter of label cells, whether it was only guessed from these rows, and of lists.

    A list in brackets is one, unless the user says what separates labels: a delimiter that was
    found in other data leaves lists what they are.
    """
    given, like = options.label_delimiter, options.like
    if given is not None:
        found_before = given != "" and like is not None and given == like.label_delimiter
        return given, False, found_before
    texts = [value for value in values if isinstance(value, str) and not holds_list(value)]
    for delimiter in DELIMITERS:
        if any(delimiter in text for text in texts):
            return delimiter, True, True
    return "", True, True


def _label_list(value: Any) -> list[str]:
    if isinstance(value, int) and not isinstance(value, bool):
        return [str(value)]
    if not isinstance(value, list | tuple):
        got = "nothing" if value is MISSING else quote(value)
        raise ValueError(f"expected a list of labels, got {got}")
    names = []
    for label in value:
        if isinstance(label, bool) or not isinstance(label, str | int):
            raise ValueError(f"expected label names or integer ids, got {quote(label)}")
        if not label and label != 0:
            raise ValueError("expected label names, got an empty one")
        problem = _text_problem(str(label))
        if problem:
            raise ValueError(problem)
        names.append(str(label))
    if is_vector(names):
        raise ValueError(_vector_problem(value))
    return names


def is_vector(names: Sequence[str]) -> bool:
    """Whether the labels of a cell are 0 or 1 for every label there is, as networks take them.

    A set of labels named 0 and 1 has neither twice.

    Examples:
        >>> is_vector(["0", "1", "0"]), is_vector(["0", "1"]), is_vector(["2", "2"])
        (True, False, False)
    """
    distinct = set(names)
    return len(distinct) < len(names) and distinct <= {"0", "1"}


def _vector_problem(cell: object) -> str:
    return (
        f"{quote(cell)} is 0 or 1 for every label, where the names or numbers of those that hold "
        "were expected; write these, or a column of 0 and 1 for each label"
    )


def _all_names(cells: Sequence[list[Any]]) -> bool:
    """Whether lists hold nothing but good label names, looking at each distinct one once."""
    try:
        distinct = set(itertools.chain.from_iterable(cells))
        "".join(distinct).encode()
    except (TypeError, UnicodeEncodeError):  # not text, not even hashable, or half a pair
        return False
    return "" not in distinct


_LITERAL = r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|-?\d{1,18}"""
_PYTHON_LIST = re.compile(
    rf"[\[({{]\s*(?:(?:{_LITERAL})\s*(?:,\s*|(?=[\])}}])))*+[\])}}]", re.DOTALL
)


# How Python prints an empty set, and collections that have no brackets of their own.
_CALL = re.compile(rf"(?:{'|'.join(map(re.escape, _CALLS))})(.*)\)", re.DOTALL)

# An item of PostgreSQL's {a,"b c"}; with ": " it would be a mapping.
_ITEM = r"""\s*+(?:"((?:[^"\\]|\\.)*+)"|((?:[^\s{}",:\\]|:(?!\s)|\s++(?![,}]))++))\s*+"""
_ARRAY = re.compile(rf"\{{{_ITEM}(?:,{_ITEM})*+\}}", re.DOTALL)


def holds_list(text: str) -> bool:
    """Whether a cell holds a whole collection of labels, as JSON, Python or PostgreSQL writes it.

    Round brackets may also belong to a name: they are a collection where they hold literals, with a
    comma or in quotes, or nothing.

    Examples:
        >>> [text for text in ("['a']", "{a,b}", "set()", "(1, 2)", "(a)", "{a}|{b}")
        ...     if holds_list(text)]
        ["['a']", '{a,b}', 'set()', '(1, 2)']
    """
    text = text.strip()
    if text[-1:] not in ("]", ")", "}"):
        return False
    if text.startswith(("[", "{'", '{"', "('", '("')) or text == "()":
        return True
    if text[0] == "{":
        return not any(sign in text[1:-1] for sign in "{}")
    if text[0] == "(":
        return "," in text and _PYTHON_LIST.fullmatch(text) is not None
    return _CALL.fullmatch(text) is not None


def _bracketed(text: str) -> list[str]:
    """A list in JSON, as Python prints lists, tuples and sets, or as PostgreSQL prints arrays.

    Of Python's syntax only flat ones of texts and integers are taken, and each of them is read by
    itself: what a stranger's cell nests could otherwise exhaust the interpreter's stack.
    """
    called = _CALL.fullmatch(text)
    inner = called[1].strip() if called else text
    if inner in ("", "{}"):
        return []
    value: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(inner)
    if value is None and _PYTHON_LIST.fullmatch(inner):
        with contextlib.suppress(SyntaxError, ValueError):
            value = [ast.literal_eval(literal) for literal in re.findall(_LITERAL, inner[1:-1])]
    if value is None and _ARRAY.fullmatch(inner):
        value = [
            re.sub(r"\\(.)", r"\1", quoted) if quoted else plain.strip()
            for quoted, plain in re.findall(_ITEM, inner[1:-1])
        ]
    if value is None:
        raise ValueError(f"expected a list of labels in brackets, got {quote(text)}")
    return _label_list(value)

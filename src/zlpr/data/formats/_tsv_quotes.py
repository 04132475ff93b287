"""Whether double quotes in a tab-separated file enclose fields, as spreadsheets do, or are text.

Cells in quotes may hold tabs and line breaks, so that lines with equally many tabs can still be
parts of rows; and texts may begin and end in quotes that belong to nothing.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass

from zlpr.data.files import allow_long_fields
from zlpr.data.problems import Problems

_FEW_LINES = 10
"""Of a cell in quotes, each of which happens to have as many tabs as a row."""


def looks_quoted(lines: Sequence[str], problems: Problems) -> bool | None:
    """Whether quotes enclose fields or are text, by the first lines; None where that is open.

    Where lines with equally many tabs are rows of one width in both ways, they are taken as rows if
    what stands within the quotes stands in the same column elsewhere, as labels do, and as parts of
    cells, with a note, if nothing of it does.
    """
    sample = [line.removesuffix("\r") for line in lines]
    fields = [field for line in sample for field in line.split("\t") if field[:1] == '"']
    if not fields:
        return None
    is_even = len({line.count("\t") for line in sample if line}) == 1
    if is_even and all(map(_is_quoted, fields)):
        return True
    rows = _rows_in_quotes(sample)
    fits = len({len(row.fields) for row in rows}) == 1
    first = next(line for line in sample if line)
    if fits and all(map(_is_quoted, first.split("\t"))):
        return True
    if not is_even:
        return _fits_in_quotes(sample)
    cells = [row for row in rows if len(row.lines) > 1]
    return _are_cells(sample, cells, problems) if fits and cells else False


@dataclass(frozen=True)
class _Row:
    """A row as quotes make it: the places of its lines, and its fields."""

    lines: range
    fields: list[str]


def _rows_in_quotes(lines: Sequence[str]) -> list[_Row]:
    """The rows that quotes make of lines, without one that the lines end within.

    There are none where a quote stands neither at an end of a field nor doubled.
    """
    allow_long_fields()
    reader = csv.reader((line + "\n" for line in lines), delimiter="\t", strict=True)
    rows: list[_Row] = []
    start = 0
    try:
        for fields in reader:
            if fields:
                rows.append(_Row(range(start, reader.line_num), fields))
            start = reader.line_num
    except csv.Error as wrong:
        return rows if "unexpected end of data" in str(wrong) else []
    return rows


def _fits_in_quotes(lines: Sequence[str]) -> bool:
    """Whether lines of unlike numbers of tabs are rows of one width where quotes enclose fields."""
    try:
        rows = list(csv.reader((line + "\n" for line in lines), delimiter="\t", strict=False))
    except csv.Error:
        return False
    return len({len(row) for row in rows[:-1] if row}) == 1


def _are_cells(lines: Sequence[str], rows: Sequence[_Row], problems: Problems) -> bool | None:
    """Whether lines that could be rows of their own are those of cells in quotes; None if open."""
    within = {place for row in rows for place in row.lines}
    others = [line.split("\t") for place, line in enumerate(lines) if line and place not in within]
    known = [set(column) for column in zip(*others, strict=True)]
    like_rows = {_stand_as_rows(lines, row, known) for row in rows}
    if like_rows == {True}:
        return False
    if like_rows != {False} or max(len(row.lines) for row in rows) > _FEW_LINES:
        return None
    problems.notes.append(
        f"{problems.name}, line {rows[0].lines[0] + 1}: a cell in quotes was read as going over "
        f"{len(rows[0].lines)} lines; where quotes are text, say so (quoted=False)"
    )
    return True


def _stand_as_rows(lines: Sequence[str], row: _Row, known: Sequence[set[str]]) -> bool:
    """Whether all that a cell in quotes has in some column stands there in other lines, too."""
    inner = [lines[place].split("\t") for place in row.lines if lines[place]]
    opened = [place for place, field in enumerate(inner[0]) if not _is_whole(field)]
    for column, words in enumerate(known):
        if column == opened[-1]:
            continue
        held = inner[:-1] if column > opened[-1] else inner[1:]
        if all(fields[column].strip() and fields[column] in words for fields in held):
            return True
    return False


def _is_whole(field: str) -> bool:
    return field[:1] != '"' or _is_quoted(field)


def _is_quoted(field: str) -> bool:
    inner = field[1:-1]
    return len(field) > 1 and field[-1] == '"' and '"' not in inner.replace('""', "")

"""CSV and TSV: a label column with a delimiter, or one column of 0 and 1 per label."""

import csv
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from zlpr._counted import counted
from zlpr._csv_rows import CsvRows
from zlpr._errors import UserError
from zlpr.data.dataset import Dataset
from zlpr.data.feature_columns import is_blank, number_of
from zlpr.data.files import Lines, allow_long_fields, read_lines
from zlpr.data.formats._tsv_quotes import looks_quoted
from zlpr.data.problems import Problems, name_all, quote, quote_all
from zlpr.data.roles import DELIMITERS, LIST_STARTS, find_roles, is_known_name, likely_roles
from zlpr.data.rows import Block, ReadOptions, is_position, sample_columns

BLOCK_ROWS = 2000
"""Rows that are looked at together; the first block decides what the columns mean."""

_BLOCK_CELLS = 2_000_000  # fewer rows where a table is very wide

Row = tuple[int, list[str]]
"""The number of a row's first line, and its fields."""


def read_tsv_blocks(path: Path, options: ReadOptions, problems: Problems) -> Iterator[Block]:
    """The rows of a file whose columns are separated by tabs, whatever its ending."""
    return read_blocks(path, options, problems, separator="\t")


def read_blocks(
    path: Path, options: ReadOptions, problems: Problems, separator: str | None = None
) -> Iterator[Block]:
    """The rows of a file, some thousands at a time; None finds out what separates the columns."""
    lines = read_lines(path, options.encoding, keep_returns=True)
    rows = parse_rows(lines, problems, separator=separator, quoted=options.quoted, blank=True)
    first = next((row for row in rows if row[1]), None)
    if first is None:
        return
    second = next(rows, None)
    rows = rows if second is None else itertools.chain([second], rows)
    following = [] if second is None else second[1]
    names, has_names = _header(str(path), first[1], following, options, rows)
    if not has_names:
        rows = itertools.chain([first], rows)
        if options.header is None and options.all_columns() and _may_be_names(first[1]):
            problems.notes.append(
                f"{path}, line {first[0]}: {quote_all(first[1], 4)} was read as a row, for columns "
                "are given by position; where it names them, say so (header=True, --header)"
            )
    if len(names) == 1:  # a blank line is an empty cell
        rows = ((line, fields or [""]) for line, fields in rows)
    else:
        rows = (row for row in rows if row[1])
    size = max(1, min(BLOCK_ROWS, _BLOCK_CELLS // len(names)))
    roles = None
    while block := list(itertools.islice(rows, size)):
        fitting = [row for row in block if _fits(row, names, problems)]
        if fitting:
            cells = zip(*(fields for _, fields in fitting), strict=True)
            columns = dict(zip(names, cells, strict=True))
            roles = roles or find_roles(str(path), columns, options, header=has_names)
            yield roles.block(columns, [line for line, _ in fitting], problems)


def _fits(row: Row, names: Sequence[str], problems: Problems) -> bool:
    line, fields = row
    if len(fields) == len(names):
        return True
    listing = f" ({name_all(names)})" if len(names) <= 8 else ""
    problems.add(line, f"{counted(len(fields), 'column')}, expected {len(names)}{listing}")
    return False


def _header(
    file: str,
    fields: list[str],
    following: list[str],
    options: ReadOptions,
    rows: Iterator[Row],
) -> tuple[list[str], bool]:
    """The names of the columns, and whether the first row held them.

    Args:
        file: for messages.
        fields: of the first row.
        following: the fields of the second.
        options: what the user said.
        rows: from the second on.
    """
    header = options.header
    if header is None and options.like is not None and not options.columns():
        header = options.like.header
        if not header and any(map(is_known_name, fields)):
            raise UserError(
                f"{file}, line 1: {quote_all(fields, 8)} looks like a header, and the data before "
                "had none; if it is one, name the columns with text=… and labels=…; if it is a "
                "row, say header=False"
            )
    if header is None:
        numbered = [is_position(column) for column in options.all_columns()]
        header = (
            not all(numbered)
            or any(map(is_known_name, fields))
            or _names_as_before(fields, options)
        )
        header = header or (not numbered and _names_numbers(fields, following))
        if not header and not numbered:
            text, labels = _likely(fields, rows)
            raise UserError(
                f"{file}, line 1: is this a header? None of {quote_all(fields, 8)} is a usual "
                f"name; if it is, name the columns, as text={quote(fields[text])}, "
                f"labels={quote(fields[labels])}; if not, say header=False with text={text}, "
                f"labels={labels}"
            )
    if not header:
        return [f"column {number}" for number in range(len(fields))], False
    if len(set(fields)) != len(fields):
        twice, _ = Counter(fields).most_common(1)[0]
        raise UserError(f"{file}, line 1: the column {quote(twice)} appears twice")
    return fields, True


def _names_as_before(fields: list[str], options: ReadOptions) -> bool:
    """Whether columns are called as in the data that this is read like."""
    like = options.like
    if like is None or not like.header:
        return False
    inputs = like.text if like.features is None else like.features.columns
    return any(names and {*names} <= {*fields} for names in (inputs, like.labels))


def _names_numbers(fields: list[str], following: list[str]) -> bool:
    """Whether words stand above at least two numbers; one alone may be the label of a text.

    The first column may have no name: it is an index that pandas wrote.
    """
    names = fields if fields[0].strip() else fields[1:]
    if any(is_blank(name) or number_of(name) is not None for name in names):
        return False
    return sum(number_of(field) is not None for field in following) > 1


def _may_be_names(fields: list[str]) -> bool:
    """Whether a row of words could be a header of unusual names."""
    return len(set(fields)) == len(fields) and all(
        0 < len(field.split()) <= _MOST_WORDS
        and len(field) <= _LONGEST_NAME
        and number_of(field) is None
        for field in fields
    )


_MOST_WORDS, _LONGEST_NAME = 3, 40  # of what may be the name of a column


def _likely(fields: list[str], rows: Iterator[Row]) -> tuple[int, int]:
    """The positions of the columns that seem to hold texts and labels."""
    cells = [found for _, found in itertools.islice(rows, BLOCK_ROWS) if len(found) == len(fields)]
    text, labels = likely_roles({str(i): [row[i] for row in cells] for i in range(len(fields))})
    return int(text), int(labels)


_SEPARATOR_LINE = re.compile(r"sep=([,;\t|])\r?", re.IGNORECASE)
"""What Excel takes, in place of a first row, for the sign between columns."""


def parse_rows(
    blocks: Iterator[Lines],
    problems: Problems,
    *,
    separator: str | None = None,
    quoted: bool | None = None,
    blank: bool = False,
) -> Iterator[Row]:
    r"""The rows in the lines of a table, with the numbers of their first lines.

    Args:
        blocks: the lines, with the ``\r`` that they may end in.
        problems: hears of rows that are none.
        separator: of the columns; None takes the sign that the first line has most often.
        quoted: whether fields may stand in double quotes; None finds it out.
        blank: whether a blank line is a row without fields, and not left out.
    """
    start = next(blocks, None)
    if start is None:
        return iter(())
    told = _SEPARATOR_LINE.fullmatch(start.texts[0])
    if told:
        separator, start.texts[0] = told[1], ""
    first = next((text for text in start.texts if text.strip()), "")  # blank lines show nothing
    separator = separator or max(",;\t", key=first.count)
    if quoted is None:
        quoted = separator != "\t" or looks_quoted(start.texts, problems)
    lines = itertools.chain.from_iterable(block.texts for block in itertools.chain([start], blocks))
    if quoted:
        rows = _quoted_rows(lines, separator, problems, spaced=_is_spaced(first, separator))
    else:
        rows = _plain_rows(lines, separator, problems, sure=quoted is False)
    return rows if blank else (row for row in rows if row[1])


def _is_spaced(first: str, separator: str) -> bool:
    """Whether a blank stands after every separator of a line, as in ``text, labels``."""
    blanks = first.count(f"{separator} ")
    return separator != "\t" and 0 < blanks == first.count(separator)


def _quoted_rows(
    lines: Iterator[str], separator: str, problems: Problems, *, spaced: bool
) -> Iterator[Row]:
    """Rows whose fields may stand in quotes, also behind a blank where the table is spaced."""
    allow_long_fields()
    reader = csv.reader(
        (line + "\n" for line in lines),
        delimiter=separator,
        strict=True,
        skipinitialspace=spaced,
    )
    while True:
        number = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as wrong:
            until = f" (read to line {reader.line_num})" if reader.line_num > number else ""
            what = "a carriage return within a line; save the file with ordinary line ends"
            if "new-line character" not in str(wrong):
                what = str(wrong).replace("\t", "\\t")
            problems.add(number, f"not a row of a table: {what}{until}")
            continue
        yield number, fields


def _plain_rows(
    lines: Iterator[str], separator: str, problems: Problems, *, sure: bool
) -> Iterator[Row]:
    """Rows without quoting; unless that is sure, a field that begins with a quote is refused."""
    for number, line in enumerate(lines, 1):
        fields = line.removesuffix("\r").split(separator)
        if not sure and any(field[:1] == '"' for field in fields):
            problems.add(
                number,
                "a field begins with a double quote, and the first rows do not tell whether such "
                "quotes enclose fields; say so with quoted=True or quoted=False, or save it as CSV",
            )
        else:
            yield number, [] if fields == [""] else fields


def write(dataset: Dataset, stream: TextIO) -> None:
    """Write a comma-separated table with a header; labels are joined by ``|``.

    Where a label has a sign that would be taken for a delimiter, cells hold JSON lists instead.
    """
    _write(dataset, stream, separator=",", quoting=csv.QUOTE_MINIMAL)


def write_tsv(dataset: Dataset, stream: TextIO) -> None:
    """Write a tab-separated table, all fields in quotes, so that readers need not guess."""
    _write(dataset, stream, separator="\t", quoting=csv.QUOTE_ALL)


def _write(dataset: Dataset, stream: TextIO, *, separator: str, quoting: int) -> None:
    columns = sample_columns(dataset)
    join = _json_cell if any(_needs_list(name) for name in dataset.label_names) else "|".join
    columns["labels"] = [join(labels) for labels in columns["labels"]]
    writer = CsvRows(stream, delimiter=separator, quoting=quoting)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))


def _needs_list(name: str) -> bool:
    return (
        any(sign in name for sign in DELIMITERS)
        or name != name.strip()
        or name.startswith(LIST_STARTS)
    )


def _json_cell(labels: Sequence[str]) -> str:
    return json.dumps(labels, ensure_ascii=False)

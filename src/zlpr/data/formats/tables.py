"""CSV and TSV: a label column with a delimiter, or one column of 0 and 1 per label."""

import csv
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from zlpr._errors import UserError
from zlpr.data.columns import ID_NAMES, LABEL_NAMES, SPLIT_COLUMNS, TEXT_NAMES, find_roles
from zlpr.data.dataset import Dataset
from zlpr.data.files import MAX_LINE, plain_suffix, read_lines
from zlpr.data.problems import Problems, quote
from zlpr.data.rows import Block, ReadOptions

BLOCK_ROWS = 2000
"""Rows that are looked at together; the first block decides what the columns mean."""

_KNOWN_NAMES = frozenset([*TEXT_NAMES, *LABEL_NAMES, *ID_NAMES, *SPLIT_COLUMNS])

Row = tuple[int, list[str]]
"""The number of a row's first line, and its fields."""


def read_blocks(path: Path, options: ReadOptions, problems: Problems) -> Iterator[Block]:
    """The rows of a file, some thousands at a time."""
    rows = _rows(path, options, problems)
    first = list(itertools.islice(rows, BLOCK_ROWS + 1))
    if not first:
        return
    names, skipped = _header(str(path), first[0][1], options)
    roles = None
    block = first[1:] if skipped else first
    while block:
        fitting = [row for row in block if _fits(row, names, problems)]
        if fitting:
            cells = zip(*(fields for _, fields in fitting), strict=True)
            columns = dict(zip(names, cells, strict=True))
            roles = roles or find_roles(str(path), columns, options)
            yield roles.block(columns, [line for line, _ in fitting], problems)
        block = list(itertools.islice(rows, BLOCK_ROWS))


def _fits(row: Row, names: Sequence[str], problems: Problems) -> bool:
    line, fields = row
    if len(fields) == len(names):
        return True
    listing = f" ({', '.join(names)})" if len(names) <= 8 else ""
    problems.add(line, f"{len(fields)} columns, expected {len(names)}{listing}")
    return False


def _header(file: str, fields: list[str], options: ReadOptions) -> tuple[list[str], bool]:
    """The names of the columns, and whether the first row held them."""
    header = options.header
    if header is None:
        asked = [options.text, options.labels, options.id, options.group, options.split]
        flat = [c for column in asked for c in (column if isinstance(column, list) else [column])]
        named = any(isinstance(column, str) for column in flat)
        header = named or any(field.strip().lower() in _KNOWN_NAMES for field in fields)
        if not header and not any(isinstance(c, int) and c is not False for c in flat):
            raise UserError(
                f"{file}, line 1: is this a header? None of {', '.join(map(quote, fields[:8]))} is "
                "a usual name; say header=True, or header=False with text=0, labels=1"
            )
    if not header:
        return [f"column {number}" for number in range(len(fields))], False
    repeated = {name for name in fields if fields.count(name) > 1} if len(fields) < 10_000 else ()
    if repeated:
        raise UserError(f"{file}, line 1: the column {quote(min(repeated))} appears twice")
    return fields, True


def _rows(path: Path, options: ReadOptions, problems: Problems) -> Iterator[Row]:
    """Parse a table; a row that spans lines has the number of its first line."""
    blocks = read_lines(path, options.encoding)
    start = next(blocks, None)
    if start is None:
        return
    separator = _separator(path, start.texts[0])
    quoted = options.quoted
    if quoted is None:
        quoted = separator != "\t" or _looks_quoted(start.texts)
    lines = itertools.chain.from_iterable(block.texts for block in itertools.chain([start], blocks))
    if not quoted:
        for number, line in enumerate(lines, 1):
            if line:
                yield number, line.split(separator)
        return
    if csv.field_size_limit() < MAX_LINE:
        csv.field_size_limit(MAX_LINE)
    reader = csv.reader((line + "\n" for line in lines), delimiter=separator, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as wrong:
            problems.add(number, f"not a row of a table: {wrong}")
            continue
        if fields:
            yield number, fields


def _separator(path: Path, first: str) -> str:
    """Tab, semicolon or comma, by the file's name and its first line."""
    if plain_suffix(path) in {".tsv", ".tab"}:
        return "\t"
    return max(",;\t", key=first.count)


def _looks_quoted(lines: Sequence[str]) -> bool:
    """Whether quotes in a tab-separated file enclose fields, rather than being part of the text."""
    sample = list(lines[:BLOCK_ROWS])
    plain = {line.count("\t") for line in sample if line}
    if len(plain) == 1:
        fields = [field for line in sample for field in line.split("\t") if field[:1] == '"']
        return bool(fields) and all(_is_quoted(field) for field in fields)
    try:
        rows = list(csv.reader((line + "\n" for line in sample), delimiter="\t", strict=True))
    except csv.Error:
        return False
    return len({len(row) for row in rows if row}) == 1


def _is_quoted(field: str) -> bool:
    inner = field[1:-1]
    return len(field) > 1 and field[-1] == '"' and '"' not in inner.replace('""', "")


def write(dataset: Dataset, stream: TextIO, *, separator: str = ",") -> None:
    """Write id, text, labels (joined by ``|``), group and split, as far as the data has them."""
    if dataset.texts is None:
        raise ValueError("a table of texts cannot hold features")
    columns: dict[str, Sequence[Any]] = {
        "text": dataset.texts,
        "labels": [join_labels(labels) for labels in dataset.label_sets()],
    }
    if dataset.ids is not None:
        columns = {"id": dataset.ids, **columns}
    if dataset.groups is not None:
        columns["group"] = dataset.groups
    if dataset.split is not None:
        columns["split"] = dataset.split.tolist()
    writer = csv.writer(stream, delimiter=separator, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))


def join_labels(labels: Sequence[str]) -> str:
    """The labels of one sample in one cell."""
    for label in labels:
        if "|" in label or label != label.strip() or not label:
            raise UserError(f"the label {quote(label)} cannot stand in a list separated by '|'")
    return "|".join(labels)

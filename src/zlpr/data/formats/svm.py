"""The extreme-classification repository's sparse format, and LIBSVM's without its header.

The header holds three numbers: samples, features, labels. A row is ``3,17 5:0.25 9:1.0``: label
indices joined by commas, then ``feature:value``. A row without labels starts with a space.

Under a header, labels are positions, from 0, and named by `label_names`, by a list beside the file
(``x.labels`` for ``x.svm``, or the folder's ``labels.txt``), or else by their numbers. Without one
they are any numbers, which are their names.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from scipy import sparse

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.data.columns import Columns
from zlpr.data.dataset import Dataset
from zlpr.data.files import COMPRESSED_SUFFIXES, Lines, read_lines
from zlpr.data.label_names import LABELS_FILE, list_label_names, numbers
from zlpr.data.problems import Problems, quote
from zlpr.data.rows import Block, ReadOptions, features_of

MAX_LABELS = 20_000_000
"""The most labels that a header may announce: a limit for files from strangers."""

MAX_FEATURES = 2**31 - 1

_HEADER = re.compile(r"\s*(\d+)\s+(\d+)\s+(\d+)\s*", re.ASCII)
_LABELS = r"\d+(?:,\d+)*"
# Visible ASCII but for the colon: str.split() below divides at spaces that ASCII does not have.
_FEATURE = r"\d+:[!-9;-~]+"
_ROW = re.compile(rf"({_LABELS})?((?:\s+{_FEATURE})*)\s*", re.ASCII)


@dataclass(frozen=True)
class Header:
    """What the first line announces; None where there is no header.

    Attributes:
        samples: how many rows.
        features: how many features, or at most.
        labels: how many labels.
        sure: whether there are so many features, and not only as many as rows show.
    """

    samples: int | None
    features: int
    labels: int | None
    sure: bool = True


def read_blocks(path: Path, options: ReadOptions, problems: Problems) -> Iterator[Block]:
    """The rows of a file."""
    header: Header | None = None
    names: tuple[str, ...] | None = None
    columns: Columns | None = None
    rows = repeated = 0
    for lines in read_lines(path, options.encoding):
        if header is None:
            header = parse_header(str(path), lines.texts[0], options)
            if header.labels is not None:
                names = _names(path, header.labels, options, problems)
                columns = Columns(numbered=True)
                lines = Lines(lines.first + 1, lines.texts[1:])
            elif not header.sure:
                columns = Columns(seen_width=True)
        before = problems.count
        block = _block(lines, header, names, options, problems)
        repeated += _sum_repeated(block, repeated, problems)
        rows += len(block.labels) + problems.count - before
        block.label_names, block.columns = names, columns
        if block.labels:
            yield block
    if repeated > 1:
        problems.notes.append(f"{path}: {repeated:,} features were repeated in all")
    if header and header.samples is not None and rows != header.samples:
        problems.doubt(
            1, f"the header announces {counted(header.samples, 'row')}, the file has {rows:,}"
        )


def parse_header(file: str, line: str, options: ReadOptions) -> Header:
    """Read the first line, and refuse what no memory could hold.

    A file without a header has as many features as the one that it is read like.
    """
    found = _HEADER.fullmatch(line)
    if found is None:
        width = options.like.num_features if options.like is not None else None
        return Header(None, width or MAX_FEATURES, None, sure=bool(width))
    # Twenty digits are beyond every limit already, and int() refuses thousands of them.
    samples, features, labels = (int(number[:20]) for number in found.groups())
    if labels > MAX_LABELS:
        raise UserError(f"{file}, line 1: {labels:,} labels, expected at most {MAX_LABELS:,}")
    if features > MAX_FEATURES:
        raise UserError(f"{file}, line 1: {features:,} features, expected at most {MAX_FEATURES:,}")
    return Header(samples, features, labels)


def names_path(path: Path) -> Path:
    """Where the names of a file's labels stand: ``x.labels`` for ``x.svm`` and ``x.svm.gz``."""
    if path.suffix.lower() in COMPRESSED_SUFFIXES:
        path = path.with_suffix("")
    return path.with_suffix(".labels")


def lists_beside(path: Path) -> tuple[Path, Path]:
    """Where names of a file's labels may stand: its own list, and else its folder's."""
    return names_path(path), path.parent / LABELS_FILE


def _names(path: Path, count: int, options: ReadOptions, problems: Problems) -> tuple[str, ...]:
    """The names of the labels that a header announces: given, listed beside the file, or numbers.

    Raises:
        UserError: another number of names is given, or listed in the file's own list.
    """
    own, shared = lists_beside(path)
    if not options.labelled:
        return numbers(count)
    if options.label_names is not None:
        names, place = options.label_names, "label_names"
    elif own.is_file():
        names, place = tuple(list_label_names(own)), str(own)
    elif shared.is_file():
        names, place = tuple(list_label_names(shared)), str(shared)
        if len(names) != count:  # of other data, perhaps
            problems.notes.append(
                f"{path}: {counted(count, 'label')}, and {shared} beside it lists {len(names):,}: "
                "not used"
            )
            return numbers(count)
    else:
        return numbers(count)
    if len(names) != count:
        raise UserError(
            f"{path}, line 1: the header announces {count:,} labels, {place} has {len(names):,}"
        )
    return names


def _block(
    lines: Lines,
    header: Header,
    names: Sequence[str] | None,
    options: ReadOptions,
    problems: Problems,
) -> Block:
    rows: list[tuple[int, re.Match[str]]] = []
    for number, line in enumerate(lines.texts, lines.first):
        found = _ROW.fullmatch(line)
        if found and line:
            rows.append((number, found))
        elif line:
            column, message = _syntax_problem(line)
            problems.add(number, message, column=column)
    try:
        return _assembled(rows, header, names, options)
    except (ValueError, OverflowError):  # some number is not one, or out of bounds: find the row
        within = []
        for number, row in rows:
            problem = _limit_problem(row.string, header)
            if problem is None:
                within.append((number, row))
            else:
                problems.add(number, problem[1], column=problem[0])
        return _assembled(within, header, names, options)


def _assembled(
    rows: list[tuple[int, re.Match[str]]],
    header: Header,
    names: Sequence[str] | None,
    options: ReadOptions,
) -> Block:
    """Make a block of rows whose syntax is right; ValueError where a number is out of bounds."""
    labels: list[str] = []
    label_counts = []
    tokens: list[str] = []
    ends = [0]
    for _, row in rows:
        listed, features = row.groups()
        row_labels = listed.split(",") if listed else []
        labels += row_labels
        label_counts.append(len(row_labels))
        tokens += features.replace(":", " ").split()
        ends.append(len(tokens) // 2)
    columns = np.array(labels, dtype=np.int64)
    indices = np.array(tokens[0::2], dtype=np.int64)
    values = np.array(tokens[1::2], dtype=np.float64)
    most = MAX_LABELS if header.labels is None else header.labels
    if (columns >= most).any() or (indices >= header.features).any():
        raise ValueError("an index is out of bounds")
    if not np.isfinite(values).all():
        raise ValueError("a value is not finite")
    width = header.features
    if not header.sure:
        width = int(indices.max()) + 1 if len(indices) else 0
    matrix = sparse.csr_array((values, indices, np.array(ends)), shape=(len(rows), width))
    named = map(str if names is None else names.__getitem__, columns.tolist())
    sets = [tuple(itertools.islice(named, count)) for count in label_counts]
    return Block(
        labels=list(sets) if options.labelled else [()] * len(rows),
        lines=[number for number, _ in rows],
        features=matrix,
    )


def _sum_repeated(block: Block, before: int, problems: Problems) -> int:
    """Add up the values of a feature that a row names more than once; how many were too many."""
    matrix: Any = block.features
    widths = np.diff(matrix.indptr)
    matrix.sum_duplicates()
    missing = widths - np.diff(matrix.indptr)
    if missing.any() and not before:
        line = block.lines[int(np.argmax(missing > 0))]
        problems.notes.append(
            f"{problems.name}, line {line}: a feature appears more than once; its values are added"
        )
    return int(missing.sum())


def _syntax_problem(line: str) -> tuple[int, str]:
    """The first word of a row that does not fit, with its column."""
    for number, word in enumerate(re.finditer(r"\S+", line)):
        first = number == 0 and word.start() == 0
        if not re.fullmatch(_LABELS if first else _FEATURE, word.group(), re.ASCII):
            what = "label indices joined by commas" if first else "feature:value"
            return word.start() + 1, f"expected {what}, got {quote(word.group())}"
    return 1, f"expected labels and features, got {quote(line)}"


def _limit_problem(line: str, header: Header) -> tuple[int, str] | None:
    """The first number of a row that is out of bounds or not finite, with its column."""
    for word in re.finditer(r"\S+", line):
        name, colon, value = word.group().partition(":")
        if colon:
            if len(name) > 10 or int(name) >= header.features:
                return (
                    word.start() + 1,
                    f"feature {name[:30]}, expected less than {header.features}",
                )
            try:
                finite = np.isfinite(float(value))
            except ValueError:
                finite = False
            if not finite:
                return word.start() + 1, f"expected a finite number, got {quote(value)}"
        else:
            most = MAX_LABELS if header.labels is None else header.labels
            for label in name.split(","):
                if len(label) > 10 or int(label) >= most:
                    return word.start() + 1, f"label {label[:30]}, expected less than {most}"
    return None


def looks_like(lines: Sequence[str]) -> bool:
    """Whether the first lines are a header of three numbers, or a row with ``feature:value``."""
    if not lines:
        return False
    rows = [line for line in lines[:20] if line]
    if rows and _HEADER.fullmatch(rows[0]):
        return len(rows) > 1 and all(_ROW.fullmatch(row) for row in rows[1:])
    return any(":" in row for row in rows) and all(_ROW.fullmatch(row) for row in rows)


def write(dataset: Dataset, stream: TextIO) -> None:
    """Write a header and a row per sample; labels are written by their position."""
    features: Any = sparse.csr_array(features_of(dataset))
    features.sort_indices()
    labels: Any = dataset.labels.sorted_indices()
    stream.write(f"{len(dataset)} {features.shape[1]} {dataset.num_labels}\n")
    for row in range(len(dataset)):
        names = labels.indices[labels.indptr[row] : labels.indptr[row + 1]].tolist()
        span = slice(features.indptr[row], features.indptr[row + 1])
        pairs = zip(features.indices[span].tolist(), features.data[span].tolist(), strict=True)
        cells = "".join(f" {index}:{float(value)!r}" for index, value in pairs)
        stream.write(",".join(map(str, names)) + (cells or " ") + "\n")

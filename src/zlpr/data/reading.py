"""Read a file into a `Dataset`, or go through its rows."""

import itertools
import logging
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import sparse

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr._escape import from_system
from zlpr.data.columns import Columns
from zlpr.data.dataset import Dataset
from zlpr.data.feature_columns import FeatureEncoder
from zlpr.data.formats import FORMATS, Format, find_format, info
from zlpr.data.label_names import (
    LabelNames,
    counted_from_1,
    doubts,
    is_number,
    label_order,
    list_label_names,
    numbers,
)
from zlpr.data.problems import Problems, name_all, quote, quote_all
from zlpr.data.rows import Block, Column, ReadOptions, UnknownLabels

_log = logging.getLogger("zlpr.data")

OF_COLUMNS = (
    "text",
    "features",
    "categories",
    "labels",
    "id",
    "group",
    "split",
    "label_delimiter",
)
"""Arguments of `read` that only a table has a use for."""


def read(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 - the word that users look for
    text: Column | Sequence[Column] | None = None,
    features: Column | Sequence[Column] | None = None,
    categories: Column | Sequence[Column] | None = None,
    labels: Column | Sequence[Column] | None = None,
    id: Column | Literal[False] | None = None,  # noqa: A002
    group: Column | None = None,
    split: Column | Literal[False] | None = None,
    label_delimiter: str | None = None,
    label_names: LabelNames | None = None,
    unknown_labels: UnknownLabels = "error",
    header: bool | None = None,
    quoted: bool | None = None,
    encoding: str = "utf-8",
    labelled: bool = True,
    skip_bad_rows: bool = False,
    like: Columns | None = None,
) -> Dataset:
    """Read one file, in any of the formats of `zlpr.data.FORMATS`.

    What is not said is found out from the file's name, its column names and its first rows; what
    cannot be found out is an error that says which argument to give.

    - An empty label set (an empty list or an empty cell) is a sample without labels.
    - A label that is repeated in a row counts once; a row that is repeated stays repeated.
    - Labels are sorted by name, or by number where all are integers, unless `label_names` or the
      file itself orders them.
    - A label that is not among `label_names` is an error; with ``unknown_labels="drop"`` it is left
      out of its set and a note says how often that happened.
    - Numbers are positions in `label_names`, from 0, where none of these is a number itself, and in
      an `svm` file with a header. Everywhere else they are names like any other.

    Args:
        path: the file; gzip, bzip2 and xz are read as they are.
        format: its format, where the name does not tell.
        text: the column of the texts, or several that are joined by a space.
        features: columns of a table to learn from instead of a text, by name, position, pattern
            (``"sensor_*"``) or range (``"first:last"``): numbers, and others as categories, of
            which each value is a feature. None takes all columns of numbers where there is no text.
        categories: those that are categories although they hold numbers.
        labels: the column of label sets, or a list of columns of 0 and 1, one per label.
        id: the column of identifiers; False for none.
        group: the column of groups that a split keeps together.
        split: the column that holds "train", "validation" or "test"; False for none.
        label_delimiter: what separates labels in a cell; "" for one label per cell.
        label_names: the labels in order, or a file with one per line.
        unknown_labels: "error" or "drop".
        header: whether a table's first row names the columns.
        quoted: whether a table's fields may stand in double quotes.
        encoding: of a text file.
        labelled: False to read the texts alone, as for prediction.
        skip_bad_rows: drop the rows that cannot be read, and note how many.
        like: the `columns` of data that was read before; what is not said is read in the same way,
            and a text or label column that is not there is an error.

    Raises:
        UserError: with file, line and column, what was expected, and the first few of many rows.

    Examples:
        >>> from zlpr.data import read
        >>> read("reviews.csv", text="comment", labels=["rude", "spam"])  # doctest: +SKIP
    """
    options = ReadOptions(
        text=text,
        features=features,
        categories=categories,
        labels=labels,
        id=id,
        group=group,
        split=split,
        label_delimiter=label_delimiter,
        header=header,
        quoted=quoted,
        encoding=encoding,
        labelled=labelled,
        like=like,
        label_names=None if label_names is None else tuple(list_label_names(label_names)),
    )
    return read_with(
        Path(path),
        options,
        format=format,
        unknown_labels=unknown_labels,
        skip_bad_rows=skip_bad_rows,
    )


def read_with(
    path: Path,
    options: ReadOptions,
    *,
    format: str | None = None,  # noqa: A002
    unknown_labels: UnknownLabels = "error",
    skip_bad_rows: bool = False,
) -> Dataset:
    """`read` for callers that already hold the options."""
    problems = Problems(str(path), skip=skip_bad_rows)
    chosen, options = _format_and_options(path, options, format)
    builder = _Builder(problems, options.label_names, unknown_labels, options.like)
    for block in chosen.read_blocks(path, options, problems):
        builder.add(block)
    return builder.finish(path, chosen.name)


def _format_and_options(
    path: Path, options: ReadOptions, name: str | None
) -> tuple[Format, ReadOptions]:
    """The format of a file, and how to read it: like another one where that has columns too."""
    chosen = find_format(path, options) if name is None else info(name)
    if not chosen.table:
        _refuse_columns(path, chosen, options)
    like = options.like
    if like is not None and like.format != chosen.name:
        other = FORMATS.get(like.format)
        if other is None or not (chosen.table and other.table):
            like = Columns(num_features=like.num_features)
    return chosen, replace(options, like=like)


def as_arguments(values: Mapping[str, Any]) -> list[str]:
    """Those that are given; False says that there is none."""
    return [
        f"{name}=…" for name, value in values.items() if value is not None and value is not False
    ]


def _refuse_columns(path: Path, chosen: Format, options: ReadOptions) -> None:
    """Refuse what is said of columns for a format without such, which would not look at it."""
    given = as_arguments({name: getattr(options, name) for name in OF_COLUMNS})
    if chosen.name == "mulan" and "labels=…" in given:  # attributes, or an XML file that lists them
        given.remove("labels=…")
    if given:
        raise UserError(
            f"{path}: read as {chosen.name}, which has no columns to name; leave out "
            f"{' '.join(given)}, or say what it is with format=…"
        )


class _Numbering(dict[str, int]):
    """The column of each label that was met: labels are numbered in that order."""

    named = numbered = ""  # the first label that was found by its name, and by its position

    def __missing__(self, label: str) -> int:
        number = self[label] = len(self)
        return number

    def knows(self, label: str) -> bool:
        """Whether a label has a column; any may have one here."""
        return True

    def note(self, file: str) -> str | None:
        """What to say of the labels once all are read."""
        return None


class _Listed(_Numbering):
    """The column of each label that was met, by its name in a list or by its position there.

    Numbers are positions only where no name is one: each label by itself could otherwise be taken
    for another. KeyError for a label that the list does not know.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.columns = {name: column for column, name in enumerate(names)}
        positions = () if any(map(is_number, names)) else numbers(len(names))
        self.positions = {number: column for column, number in enumerate(positions)}

    def __missing__(self, label: str) -> int:
        column = self.columns.get(label)
        if column is None:
            column = self.positions[label]
            self.numbered = self.numbered or label
        else:
            self.named = self.named or label
        self[label] = column
        return column

    def knows(self, label: str) -> bool:
        """Whether a label has a column."""
        return label in self.columns or label in self.positions

    def note(self, file: str) -> str | None:
        """What to say of labels that are numbers.

        Raises:
            UserError: some labels are numbers and others names.
        """
        if self.numbered and self.named:
            raise UserError(
                f"{file}: labels are given by name ({quote(self.named)}) and by number "
                f"({quote(self.numbered)}); give all of them one way"
            )
        if not self.numbered or "0" in self:
            return None
        taken = list(self.columns)[self[self.numbered]]
        return f"{file}: {counted_from_1(self.numbered, taken, 'the listed names')}"


class _Builder:
    """Gathers blocks of rows into one `Dataset`, holding texts and numbers only."""

    def __init__(
        self,
        problems: Problems,
        label_names: Sequence[str] | None,
        unknown: UnknownLabels,
        like: Columns | None,
    ) -> None:
        self.problems = problems
        self.like = like
        self.unknown = unknown
        self.unknown_counts: dict[str, int] = {}
        self.label_names = None if label_names is None else tuple(label_names)
        self.declared: tuple[str, ...] | None = None
        self.numbers = _Numbering() if label_names is None else _Listed(label_names)
        self.indices = array("i")
        self.lengths = array("i")
        self.texts: list[str] = []
        self.features: list[Any] = []
        self.ids: list[str] = []
        self.groups: list[str] = []
        self.split: list[str] = []
        self.columns: Columns | None = None
        self.cells: list[Mapping[str, Any]] = []

    def add(self, block: Block) -> None:
        """Take the rows of one block."""
        if block.label_names is not None:
            self._declare(block.label_names)
        self.columns = self.columns or block.columns
        flat = itertools.chain.from_iterable(block.labels)
        try:
            numbers = array("i", map(self.numbers.__getitem__, flat))
        except KeyError:
            block = self._known(block)
            flat = itertools.chain.from_iterable(block.labels)
            numbers = array("i", map(self.numbers.__getitem__, flat))
        self.indices.extend(numbers)
        self.lengths.extend(map(len, block.labels))
        for name in ("texts", "ids", "groups", "split"):
            values = getattr(block, name)
            if values is not None:
                getattr(self, name).extend(values)
        if block.features is not None:
            self.features.append(block.features)
        if block.cells is not None:
            self.cells.append(block.cells)

    def _declare(self, names: tuple[str, ...]) -> None:
        """Take the labels that a block declares: those of all parts, though they should agree."""
        if self.declared is None:
            self.declared = names
        elif names != self.declared:
            known = set(self.declared)
            more = tuple(name for name in names if name not in known)
            if more:
                self.problems.notes.append(
                    f"{self.problems.name}: its parts declare different labels: "
                    f"{quote_all(more, 5)} not in all of them"
                )
            self.declared = (*self.declared, *more)

    def _known(self, block: Block) -> Block:
        """The block without unknown labels, or without the rows that have one."""
        keep = []
        sets: list[Sequence[str]] = []
        for row, labels in enumerate(block.labels):
            strange = [label for label in labels if not self.numbers.knows(label)]
            if strange and self.unknown == "error":
                self.problems.add(
                    block.lines[row], f"unknown label {quote(strange[0])}{self._hint()}"
                )
                continue
            for label in strange:
                self.unknown_counts[label] = self.unknown_counts.get(label, 0) + 1
            keep.append(row)
            sets.append([label for label in labels if self.numbers.knows(label)])

        def kept(values: Any) -> Any:
            return None if values is None else [values[row] for row in keep]

        return Block(
            labels=sets,
            lines=kept(block.lines),
            texts=kept(block.texts),
            features=None if block.features is None else block.features[keep],
            cells=None if block.cells is None else _select_cells(block.cells, keep),
            ids=kept(block.ids),
            groups=kept(block.groups),
            split=kept(block.split),
        )

    def _hint(self) -> str:
        names = self.label_names or ()
        return f", expected one of the {len(names):,}: {name_all(names, 6)}"

    def finish(self, path: Path, format: str) -> Dataset:  # noqa: A002
        """The data that was gathered."""
        notes = [
            self.problems.finish(len(self.lengths)),
            self._unknown_note(),
            self._blank_texts_note(),
            self._blank_groups_note(),
            self._partial_note(),
            *self.problems.notes,
        ]
        if not len(self.lengths):
            raise UserError(f"{path}: no rows")
        notes.append(self.numbers.note(str(path)))
        names, labels = self._label_matrix()
        columns = self._encode(str(path), notes)
        if self.label_names is None and self.declared is None:
            delimiter = self.columns.label_delimiter if self.columns is not None else None
            notes += [f"{path}: {doubt}" for doubt in doubts(names, delimiter)]
        kept = tuple(note for note in notes if note)
        for note in kept:
            _log.warning(note)
        features = stacked(self.features) if self.features else None
        width = None if features is None else int(features.shape[1])
        columns = replace(columns or Columns(), format=format, num_features=width)
        if self.numbers.numbered:
            columns = replace(columns, numbered=True)
        return Dataset(
            labels=labels,
            label_names=names,
            texts=None if features is not None else self.texts,
            features=features,
            ids=self._of_every_row(self.ids),
            groups=self._of_every_row(self.groups),
            split=np.array(self.split) if self.split else None,
            name=from_system(path.name.partition(".")[0]),
            notes=kept,
            columns=columns,
        )

    def _encode(self, file: str, notes: list[str | None]) -> Columns | None:
        """Make features of a table's cells, as another file's or by what these hold."""
        columns = self.columns
        if columns is None or columns.features is None:
            return columns
        held = columns.features
        cells = {name: _joined_cells([part[name] for part in self.cells]) for name in held.columns}
        if self.like is None or self.like.features != held:
            held = held.learn(file, cells)
            notes += held.doubts(file, cells)
        encoder = FeatureEncoder(held)
        self.features = [encoder.encode(cells)]
        notes += encoder.notes(file)
        return replace(columns, features=held)

    def _of_every_row(self, values: list[str]) -> list[str] | None:
        """What a column holds, unless some parts of the data lack it."""
        return values if values and len(values) == len(self.lengths) else None

    def _partial_note(self) -> str | None:
        """A sentence on ids and groups that only some parts of the data have."""
        held = {"ids": self.ids, "groups": self.groups}
        partial = [name for name, values in held.items() if 0 < len(values) < len(self.lengths)]
        if not partial:
            return None
        return f"{self.problems.name}: not every part has {' and '.join(partial)}: left out"

    def _blank_texts_note(self) -> str | None:
        without = self._without(self.texts, "text")
        return without and f"{without}; kept as samples"

    def _blank_groups_note(self) -> str | None:
        without = self._without(self.groups, "group")
        return without and f"{without}; a split takes each of them by itself"

    def _without(self, values: Sequence[str], what: str) -> str | None:
        """How many rows lack something; None where none does."""
        blank = sum(not value or value.isspace() for value in values)
        if not blank:
            return None
        has = "has" if blank == 1 else "have"
        return f"{self.problems.name}: {blank:,} of {counted(len(values), 'row')} {has} no {what}"

    def _unknown_note(self) -> str | None:
        if not self.unknown_counts:
            return None
        total = sum(self.unknown_counts.values())
        few = ", ".join(quote(name) for name in list(self.unknown_counts)[:5])
        kinds = len(self.unknown_counts)
        lost = f"{counted(total, 'label')} of {counted(kinds, 'unknown kind')}"
        return f"{self.problems.name}: left out {lost}: {few}"

    def _label_matrix(self) -> tuple[tuple[str, ...], sparse.csr_array[Any]]:
        names = self.label_names
        indices = (
            np.frombuffer(self.indices, dtype=np.int32) if self.indices else np.zeros(0, np.int32)
        )
        if names is None:
            found = list(self.numbers)
            declared = dict.fromkeys(self.declared or ())
            others = [name for name in found if name not in declared]
            names = (*declared, *sorted(others, key=label_order(others)))
            column = {name: number for number, name in enumerate(names)}
            order = np.array([column[name] for name in found], dtype=np.int32)
            indices = order[indices]
        indptr = np.zeros(len(self.lengths) + 1, dtype=np.int64)
        np.cumsum(np.frombuffer(self.lengths, dtype=np.int32), out=indptr[1:])
        labels = sparse.csr_array(
            (np.ones(len(indices), dtype=bool), indices, indptr),
            shape=(len(self.lengths), len(names)),
        )
        labels.sum_duplicates()
        return names, labels


def _select_cells(cells: Mapping[str, Any], rows: Sequence[int]) -> dict[str, Any]:
    return {
        name: values[rows] if isinstance(values, np.ndarray) else [values[row] for row in rows]
        for name, values in cells.items()
    }


def _joined_cells(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return list(itertools.chain.from_iterable(parts))


def stacked(features: Sequence[Any]) -> Any:
    """Rows under rows; sparse ones may differ in width where no header gave it."""
    if not sparse.issparse(features[0]):
        return np.concatenate(features)
    width = max(matrix.shape[1] for matrix in features)
    return sparse.csr_array(sparse.vstack([widened(m, width) for m in features], format="csr"))


def widened(matrix: Any, width: int) -> Any:
    """A sparse matrix with columns of zeros behind its own."""
    shape = (matrix.shape[0], width)
    return sparse.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=shape)


def iterate(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002
    skip_bad_rows: bool = False,
    **how: Any,
) -> Iterator[Block]:
    """The rows of a file as they are read, without holding the file: for data larger than memory.

    A bad row raises when it is reached; rows before it have been given already. Features of a
    table are those of the data that it is read `like`; without one, columns of numbers are
    features as they stand, and blocks with categories hold `cells` alone.

    Args:
        path: the file.
        format: its format, where the name does not tell.
        skip_bad_rows: leave bad rows out.
        how: the fields of `ReadOptions`.

    Examples:
        >>> sum(len(block.texts) for block in iterate("reviews.jsonl"))  # doctest: +SKIP
        128000
    """
    problems = Problems(str(path), skip=skip_bad_rows, immediate=True)
    rows = 0
    file = Path(path)
    chosen, options = _format_and_options(file, ReadOptions(**how), format)
    known = None if options.like is None else options.like.features
    encoder = None if known is None else FeatureEncoder(known)
    for block in chosen.read_blocks(file, options, problems):
        rows += len(block.labels)
        block.columns = replace(block.columns or Columns(), format=chosen.name)
        held = block.columns.features
        if held is not None and block.cells is not None:
            if encoder is None and not held.categories:
                encoder = FeatureEncoder(held)
            if encoder is not None and held == encoder.columns:
                block.features = encoder.encode(block.cells)
        yield block
    unknown = () if encoder is None or known is None else encoder.notes(str(path))
    for note in (problems.finish(rows), *problems.notes, *unknown):
        if note:
            _log.warning(note)

"""Mulan: features and labels in one ARFF file, dense or sparse, and the labels' names in XML.

The XML file stands beside the ARFF file (``emotions.xml`` for ``emotions-train.arff``), or is named
with ``labels="….xml"``; a list of attribute names serves as well, and so does MEKA's ``-C`` in the
relation.

A nominal attribute of two values is 0 for the first and 1 for the second, unless the values are the
numbers 0 and 1; one of more values becomes a column per value. Attributes of text are left out with
a note.

A file that is read like another one gives the same features, whatever the order of its attributes
and of their values: they are found by name.
"""

import contextlib
import functools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO
from xml.parsers import expat

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.data.columns import Columns
from zlpr.data.dataset import Dataset, split_name
from zlpr.data.feature_attributes import FeatureAttributes
from zlpr.data.feature_columns import unknown_notes
from zlpr.data.files import COMPRESSED_SUFFIXES, Lines, open_bytes, read_lines
from zlpr.data.problems import Problems, name_all, quote
from zlpr.data.roles import INDICATORS
from zlpr.data.rows import Block, ReadOptions, features_of

MAX_XML = 64 * 1024 * 1024
"""The largest XML file that is read, in bytes."""

_NAME = r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s{,'"]\S*)"""
_ATTRIBUTE = re.compile(rf"@attribute\s+{_NAME}\s*(.*)", re.IGNORECASE)
# Possessive (*+), so that no file can make the matching go back and forth.
_VALUE = re.compile(r"""\s*+('(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|[^,'"]*+)\s*+(?:,|$)""")
_CELL = re.compile(r"""((?:[^,'"]++|'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")*+)(,|$)""")
_MEKA = re.compile(r"-C\s+(-?\d+)")
_NUMERIC = frozenset(["numeric", "real", "integer"])


@dataclass(frozen=True)
class Attribute:
    """One line of an ARFF header.

    Attributes:
        name: without quotes.
        values: the values of a nominal attribute, None for a number.
        textual: whether it is a string or a date.
        known: the values that training had, in its order, where they are codes of this file, too.
    """

    name: str
    values: tuple[str, ...] | None = None
    textual: bool = False
    known: tuple[str, ...] | None = None

    @property
    def coded(self) -> tuple[str, ...]:
        """The values that have a code, in the order of the codes."""
        return self.known if self.known is not None else self.values or ()

    @functools.cached_property
    def positions(self) -> dict[str, int]:
        """Where each value with a code stands; the first place of one that is listed twice."""
        return {value: len(self.coded) - 1 - i for i, value in enumerate(reversed(self.coded))}

    @functools.cached_property
    def listed(self) -> frozenset[str]:
        """The values that the header lists."""
        return frozenset(self.values or ())

    @functools.cached_property
    def binary(self) -> bool:
        """Whether its values are the numbers 0 and 1."""
        return self.values is not None and set(self.coded) <= {"0", "1"}

    @property
    def categories(self) -> tuple[str, ...] | None:
        """The values, where they are not simply numbers."""
        return None if self.binary else self.values

    @property
    def kind(self) -> str:
        """What its cells hold, for people."""
        return "text" if self.textual else "a number" if self.categories is None else "nominal"

    @property
    def width(self) -> int:
        """How many feature columns it becomes."""
        if self.textual:
            return 0
        return len(self.coded) if len(self.coded) > 2 else 1

    def code(self, value: str) -> tuple[int, float] | None:
        """The column, from 0 within the attribute, and the number for a value.

        None where the attribute has a column for each value that training had, and not for this.

        Raises:
            ValueError: if the attribute has no such value.
        """
        if self.values is None:
            with contextlib.suppress(ValueError):  # Python would read 1_0 as 10
                if "_" not in value and np.isfinite(number := float(value)):
                    return 0, number
            raise ValueError(f"expected a finite number, got {quote(value)}")
        if value not in self.listed:
            raise ValueError(f"expected one of {name_all(self.values, 8)}, got {quote(value)}")
        position = self.positions.get(value)
        if position is None and self.width > 1:
            return None
        if position is None:
            raise ValueError(
                f"expected one of {name_all(self.coded, 8)} as in training, got {quote(value)}"
            )
        if self.binary:
            return 0, float(value)
        return (0, float(position)) if self.width == 1 else (position, 1.0)


@dataclass
class _Header:
    relation: str = ""
    attributes: list[Attribute] = field(default_factory=list)


@dataclass(frozen=True)
class _Layout:
    """Where the attributes of a row go."""

    attributes: Sequence[Attribute]
    label_columns: dict[int, str]  # attribute position -> label name
    label_names: tuple[str, ...]
    offsets: dict[int, int]  # attribute position -> first feature column, in the columns' order
    width: int
    columns: Columns
    unknown: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    @functools.cached_property
    def numbers_only(self) -> bool:
        """Whether every cell is simply a number."""
        return all((a.values is None and not a.textual) or a.binary for a in self.attributes)

    @functools.cached_property
    def mostly_empty(self) -> bool:
        """Whether a column per value makes rows so wide that they are kept as sparse ones."""
        return self.width > 1000 + 4 * len(self.attributes)

    @functools.cached_property
    def left_out(self) -> tuple[tuple[int, str], ...]:
        """The first value of attributes whose code in training is not 0; sparse rows omit it."""
        return tuple(
            (position, attribute.values[0])
            for position, attribute in enumerate(self.attributes)
            if attribute.known is not None and attribute.values is not None
            if attribute.width > 1 or attribute.positions.get(attribute.values[0]) != 0
        )


def read_blocks(path: Path, options: ReadOptions, problems: Problems) -> Iterator[Block]:
    """The rows of an ARFF file."""
    header = _Header()
    layout: _Layout | None = None
    is_sparse: bool | None = None
    for block in read_lines(path, options.encoding):
        lines = block
        if layout is None:
            end = _read_header(path, block, header)
            if end is None:
                continue
            layout = _lay_out(path, header, options, problems)
            lines = Lines(block.first + end, block.texts[end:])
        rows = _data_lines(lines)
        if rows and is_sparse is None:
            is_sparse = rows[0][1].startswith("{")
            _check_sparse(path, layout, is_sparse)
        if rows:
            yield _block(rows, layout, bool(is_sparse), options, problems)
    if layout is None:
        raise UserError(f"{path}: no line with @data")
    problems.notes += unknown_notes(str(path), layout.unknown)


def _data_lines(lines: Lines) -> list[tuple[int, str]]:
    stripped = ((number, line.strip()) for number, line in enumerate(lines.texts, lines.first))
    return [(number, line) for number, line in stripped if line and line[0] != "%"]


def _read_header(path: Path, lines: Lines, header: _Header) -> int | None:
    """Take in header lines; how many there were up to ``@data``, or None if it goes on."""
    for number, line in enumerate(lines.texts):
        text = line.strip()
        word = text.split(None, 1)[0].lower() if text else ""
        if word == "@data":
            return number + 1
        if word == "@relation":
            header.relation = text[len("@relation") :].strip()
        elif word == "@attribute":
            header.attributes.append(_attribute(path, lines.first + number, text))
        elif text and text[0] != "%":
            raise UserError(
                f"{path}, line {lines.first + number}, column 1: expected @relation, @attribute or "
                f"@data, got {quote(text)}"
            )
    return None


def _attribute(path: Path, line: int, text: str) -> Attribute:
    found = _ATTRIBUTE.fullmatch(text)
    kind = found.group(2).strip() if found else ""
    if found is None or not kind:
        raise UserError(f"{path}, line {line}: expected @attribute NAME TYPE, got {quote(text)}")
    name = _unquoted(found.group(1))
    if kind.startswith("{") and kind.endswith("}"):
        try:
            return Attribute(name, tuple(split_values(kind[1:-1])))
        except ValueError as wrong:
            raise UserError(f"{path}, line {line}: the values of {quote(name)}: {wrong}") from None
    word = kind.split()[0].lower()
    if word in _NUMERIC:
        return Attribute(name)
    if word in ("string", "date"):
        return Attribute(name, textual=True)
    raise UserError(f"{path}, line {line}: the type {quote(kind)} is not one that ARFF knows")


def _unquoted(text: str) -> str:
    if text[:1] in ("'", '"') and text[-1:] == text[:1] and len(text) > 1:
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text


def split_values(text: str) -> list[str]:
    """Values separated by commas, some of them in quotes.

    Examples:
        >>> split_values("red, 'light, blue'")
        ['red', 'light, blue']
    """
    if "'" not in text and '"' not in text:
        return [value.strip() for value in text.split(",")]
    values, position, more = [], 0, True
    while more:
        found = _VALUE.match(text, position)
        if found is None:
            raise ValueError(f"quotes that do not match from character {position + 1} on")
        values.append(_unquoted(found.group(1).rstrip()))
        position, more = found.end(), found.group().endswith(",")
    return values


def _lay_out(path: Path, header: _Header, options: ReadOptions, problems: Problems) -> _Layout:
    positions = {attribute.name: i for i, attribute in enumerate(header.attributes)}
    names = _label_names(path, header, options)
    _note_repeated(path, header, set(names), problems)
    missing = [name for name in names if name not in positions]
    if missing:
        raise UserError(f"{path}: no attribute is called {quote(missing[0])}, as a label is")
    columns = {positions[name]: name for name in names}
    others = {i: held for i, held in enumerate(header.attributes) if i not in columns}
    problems.notes += [
        f"{path}: left out {quote(attribute.name)}, an attribute of text"
        for attribute in others.values()
        if attribute.textual
    ]
    like = None if options.like is None else options.like.attributes
    features, kept = _features(path, others, names, like)
    offsets, width = {}, 0
    for position, attribute in features.items():
        offsets[position] = width
        width += attribute.width
    unread = [held.name for i, held in others.items() if i not in features and not held.textual]
    return _Layout(
        [features.get(i, attribute) for i, attribute in enumerate(header.attributes)],
        columns,
        tuple(names),
        offsets,
        width,
        Columns(num_features=width, attributes=kept, unread=tuple(unread)),
    )


def _features(
    path: Path,
    attributes: Mapping[int, Attribute],
    labels: Sequence[str],
    like: FeatureAttributes | None,
) -> tuple[dict[int, Attribute], FeatureAttributes]:
    """The attributes that are features, by position in the features' order, and what to keep."""
    if like is not None and like.digest is None:
        return _matched(path, attributes, set(labels), like), like
    features = {i: attribute for i, attribute in attributes.items() if not attribute.textual}
    kept = FeatureAttributes.of([(held.name, held.categories) for held in features.values()])
    if like is not None and like != kept:
        raise UserError(
            f"{path}: its attributes are not those of training in the same order; some there share "
            "a name, or their names were too long to keep, so that order tells them apart"
        )
    return features, kept


def _matched(
    path: Path, attributes: Mapping[int, Attribute], labels: set[str], like: FeatureAttributes
) -> dict[int, Attribute]:
    """The attributes of training by their positions here, in training's order and with its values.

    Raises:
        UserError: one of them is not there, is there twice or is of another kind.
    """
    counts = Counter(attribute.name for attribute in attributes.values())
    positions = {attribute.name: i for i, attribute in attributes.items()}
    found = {}
    for name in like.names:
        if name in labels:
            raise UserError(f"{path}: {quote(name)} is a label here, and was a feature in training")
        if counts[name] != 1:
            many = f"{counts[name]} attributes are" if counts[name] else "no attribute is"
            raise UserError(f"{path}: {many} called {quote(name)}, as a feature was in training")
        attribute, known = attributes[positions[name]], like.values.get(name)
        if (attribute.kind != "a number") if known is None else (attribute.values is None):
            before = "a number" if known is None else "nominal"
            raise UserError(
                f"{path}: the attribute {quote(name)} is {attribute.kind}, and was {before} in "
                "training"
            )
        found[positions[name]] = replace(attribute, known=known)
    return found


def _note_repeated(path: Path, header: _Header, labels: set[str], problems: Problems) -> None:
    """Say which attributes have the same name; two of a label's name cannot be told apart."""
    counts = Counter(attribute.name for attribute in header.attributes)
    repeated = [name for name, count in counts.items() if count > 1]
    if labels.intersection(repeated):
        name = min(labels.intersection(repeated))
        raise UserError(
            f"{path}: {counts[name]} attributes are called {quote(name)}, as a label is"
        )
    if repeated:
        few = ", ".join(quote(name) for name in repeated[:5])
        names = counted(len(repeated), "name of attributes appears", "names of attributes appear")
        problems.notes.append(
            f"{path}: {names} more than once ({few}); each is an attribute of its own"
        )


def _label_names(path: Path, header: _Header, options: ReadOptions) -> list[str]:
    asked = options.labels
    if asked is not None and not isinstance(asked, str | int):
        every = [attribute.name for attribute in header.attributes]
        for place in asked:
            if isinstance(place, int) and not 0 <= place < len(every):
                raise UserError(
                    f"{path}: labels={place} is not an attribute; there are {len(every)}, counted "
                    "from 0"
                )
        return [every[name] if isinstance(name, int) else name for name in asked]
    if isinstance(asked, str) and is_xml(asked):
        return read_xml(Path(asked))
    if isinstance(asked, str | int):
        raise UserError(f"{path}: labels={asked!r}: expected an XML file or a list of attributes")
    beside = xml_beside(path)
    if beside is not None:
        return read_xml(beside)
    found = _MEKA.search(header.relation)
    if found:
        count = int(found.group(1)[:10])
        if not count:
            raise UserError(f"{path}: the relation says -C 0, that no attribute is a label")
        every = [attribute.name for attribute in header.attributes]
        return every[:count] if count > 0 else every[count:]
    raise UserError(
        f"{path}: which attributes are labels? There is no XML file beside it; name one with "
        "labels='….xml', or list the attributes"
    )


def is_xml(labels: Any) -> bool:
    """Whether what was given as labels is the name of an XML file."""
    return isinstance(labels, str) and labels.lower().endswith(".xml")


def xml_path(path: Path) -> Path:
    """``x.xml`` for ``x.arff`` and ``x.arff.gz``."""
    if path.suffix.lower() in COMPRESSED_SUFFIXES:
        path = path.with_suffix("")
    return path.with_suffix(".xml") if path.suffix.lower() == ".arff" else Path(f"{path}.xml")


def xml_beside(path: Path) -> Path | None:
    """The XML file of the same name, or of the name without ``-train`` or ``_test``."""
    own = xml_path(path)
    if own.is_file():
        return own
    head, sign, tail = own.stem.rpartition("-" if "-" in own.stem else "_")
    shared = own.with_name(f"{head}.xml")
    return shared if sign and split_name(tail) is not None and shared.is_file() else None


def read_xml(path: Path) -> list[str]:
    """The label names of a Mulan XML file, in order; nested labels follow the one they are in.

    Document types, and with them entities of any kind, are refused.
    """
    names: list[str] = []

    def start(element: str, attributes: dict[str, str]) -> None:
        if element.rpartition(":")[2] == "label" and "name" in attributes:
            names.append(attributes["name"])

    def refuse(*_: object) -> None:
        raise UserError(f"{path}: a document type, which could hide entities, is not read")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = refuse
    with open_bytes(path) as stream:
        content = stream.read(MAX_XML + 1)
    if len(content) > MAX_XML:
        raise UserError(f"{path}: larger than the limit of {MAX_XML:,} bytes")
    try:
        parser.Parse(content, True)
    except expat.ExpatError as wrong:
        raise UserError(
            f"{path}, line {wrong.lineno}, column {wrong.offset + 1}: not XML: "
            f"{expat.ErrorString(wrong.code)}"
        ) from None
    except (LookupError, ValueError) as wrong:  # an encoding that Python does not have
        if isinstance(wrong, UserError):
            raise
        raise UserError(f"{path}: not XML that can be read: {quote(str(wrong))}") from None
    if not names:
        raise UserError(f"{path}: no <label name=…> in it")
    if len(set(names)) != len(names):
        twice, _ = Counter(names).most_common(1)[0]
        raise UserError(f"{path}: the label {quote(twice)} is listed twice")
    return names


def _check_sparse(path: Path, layout: _Layout, is_sparse: bool) -> None:
    """A value that a sparse row leaves out is the attribute's first, which then must mean 0."""
    for position, attribute in enumerate(layout.attributes):
        values = attribute.values
        if not is_sparse or values is None:
            continue
        if position in layout.label_columns:
            zero_first = INDICATORS.get(values[0]) is False
        elif position not in layout.offsets or attribute.known is not None:
            continue  # not read, or put in where a row leaves it out
        else:
            zero_first = attribute.width == 1 and attribute.code(values[0]) == (0, 0.0)
        if not zero_first:
            raise UserError(
                f"{path}: sparse rows leave out the first value of an attribute, but that of "
                f"{quote(attribute.name)} ({quote(values[0])}) does not mean 0"
            )


def _block(
    rows: list[tuple[int, str]],
    layout: _Layout,
    is_sparse: bool,
    options: ReadOptions,
    problems: Problems,
) -> Block:
    good: list[int] = []
    sets: list[Sequence[str]] = []
    features: Any
    if is_sparse or layout.mostly_empty:
        read_cells = _sparse_cells if is_sparse else _dense_cells
        features = _sparse_rows(rows, layout, read_cells, good, sets, problems)
    else:
        features = _dense_rows(rows, layout, good, sets, problems)
    return Block(
        labels=sets if options.labelled else [()] * len(sets),
        lines=good,
        features=features,
        label_names=layout.label_names,
        columns=layout.columns,
    )


def _dense_rows(
    rows: list[tuple[int, str]],
    layout: _Layout,
    good: list[int],
    sets: list[Sequence[str]],
    problems: Problems,
) -> NDArray[np.float64]:
    fast = _all_numbers(rows, layout) if layout.numbers_only else None
    if fast is not None:
        good += [number for number, _ in rows]
        columns = list(layout.label_columns)
        for row in fast[:, columns].astype(bool):
            present = np.flatnonzero(row).tolist()
            sets.append([layout.label_columns[columns[i]] for i in present])
        return fast[:, list(layout.offsets)]
    features = np.zeros((len(rows), layout.width))
    for number, line in rows:
        try:
            labels, pairs = _encoded(_dense_cells(line, layout), layout)
        except ValueError as wrong:
            problems.add(number, str(wrong))
            continue
        for column, value in pairs:
            features[len(good), column] = value
        good.append(number)
        sets.append(labels)
    return features[: len(good)]


def _dense_cells(line: str, layout: _Layout) -> Iterator[tuple[int, str]]:
    cells = split_values(line)
    if len(cells) != len(layout.attributes):
        raise ValueError(f"{counted(len(cells), 'value')}, expected {len(layout.attributes)}")
    return enumerate(cells)


def _all_numbers(rows: list[tuple[int, str]], layout: _Layout) -> NDArray[np.float64] | None:
    """All cells at once, or None where a row is not simply numbers."""
    cells = [line.split(",") for _, line in rows]
    if set(map(len, cells)) != {len(layout.attributes)}:
        return None
    try:
        values = np.array(cells, dtype=np.float64)
    except ValueError:
        return None
    binary = [i for i, a in enumerate(layout.attributes) if a.values is not None]
    labels = list(layout.label_columns)
    zero_one = np.isin(values[:, sorted({*binary, *labels})], (0.0, 1.0)).all()
    return values if zero_one and np.isfinite(values).all() else None


def _encoded(cells: Any, layout: _Layout) -> tuple[list[str], list[tuple[int, float]]]:
    """The labels and the (column, value) pairs of a row of (position, text) cells."""
    labels: list[tuple[int, str]] = []
    pairs = []
    for position, text in cells:
        attribute = layout.attributes[position]
        if position not in layout.label_columns and position not in layout.offsets:
            continue
        if text == "?":
            raise ValueError(f"{quote(attribute.name)} is missing ('?'), expected a value")
        if position in layout.label_columns:
            if text not in INDICATORS:
                raise ValueError(
                    f"label {quote(attribute.name)}: expected 0 or 1, got {quote(text)}"
                )
            if INDICATORS[text]:
                labels.append((position, layout.label_columns[position]))
        else:
            try:
                code = attribute.code(text)
            except ValueError as wrong:
                raise ValueError(f"{quote(attribute.name)}: {wrong}") from None
            if code is None:
                layout.unknown[attribute.name][text] += 1
            else:
                pairs.append((layout.offsets[position] + code[0], code[1]))
    return [name for _, name in labels], pairs


def _sparse_rows(
    rows: list[tuple[int, str]],
    layout: _Layout,
    read_cells: Callable[[str, _Layout], Iterator[tuple[int, str]]],
    good: list[int],
    sets: list[Sequence[str]],
    problems: Problems,
) -> sparse.csr_array[Any]:
    columns: list[int] = []
    values: list[float] = []
    ends = [0]
    for number, line in rows:
        try:
            labels, pairs = _encoded(read_cells(line, layout), layout)
        except ValueError as wrong:
            problems.add(number, str(wrong))
            continue
        columns += [column for column, _ in pairs]
        values += [value for _, value in pairs]
        ends.append(len(columns))
        good.append(number)
        sets.append(labels)
    matrix = sparse.csr_array(
        (np.array(values), np.array(columns, dtype=np.int64), np.array(ends)),
        shape=(len(good), layout.width),
    )
    matrix.sort_indices()
    return matrix


def _sparse_cells(line: str, layout: _Layout) -> Iterator[tuple[int, str]]:
    if not (line[0] == "{" and line[-1] == "}"):
        raise ValueError(f"expected a sparse row in braces, got {quote(line)}")
    seen = set()
    inner = line[1:-1].strip()
    cells = _quoted_cells(inner) if "'" in inner or '"' in inner else inner.split(",")
    for cell in cells if inner else ():
        index, _, value = cell.strip().partition(" ")
        position = int(index) if index.isascii() and index.isdigit() and len(index) < 10 else -1
        if not 0 <= position < len(layout.attributes) or not value.strip():
            raise ValueError(
                f"expected an index below {len(layout.attributes)} and a value, got {quote(cell)}"
            )
        if position in seen:
            raise ValueError(f"index {position} appears twice")
        seen.add(position)
        yield position, _unquoted(value.strip())
    yield from (cell for cell in layout.left_out if cell[0] not in seen)


def _quoted_cells(text: str) -> Iterator[str]:
    """Cells separated by commas, except by those in quotes; one pass over the text."""
    position, more = 0, True
    while more:
        found = _CELL.match(text, position)
        if found is None:
            raise ValueError(f"quotes that do not match from character {position + 2} on")
        yield found.group(1)
        position, more = found.end(), found.group(2) == ","


def write(dataset: Dataset, stream: TextIO) -> None:
    """Write ARFF with the labels last, sparse where the features are; `xml` is the other file."""
    features: Any = features_of(dataset)
    width = features.shape[1]
    stream.write(f"@relation {_quoted(dataset.name or 'data')}\n\n")
    names = _attribute_names(dataset, width)
    stream.writelines(f"@attribute {name} numeric\n" for name in names)
    stream.writelines(f"@attribute {_quoted(name)} {{0,1}}\n" for name in dataset.label_names)
    stream.write("\n@data\n")
    labels: Any = dataset.labels.sorted_indices()
    as_sparse = sparse.issparse(features)
    if as_sparse:
        features = sparse.csr_array(features)
        features.sort_indices()
    for row in range(len(dataset)):
        present = labels.indices[labels.indptr[row] : labels.indptr[row + 1]].tolist()
        if as_sparse:
            span = slice(features.indptr[row], features.indptr[row + 1])
            pairs = zip(features.indices[span].tolist(), features.data[span].tolist(), strict=True)
            cells = [f"{i} {float(value)!r}" for i, value in pairs]
            cells += [f"{width + label} 1" for label in present]
            stream.write("{" + ",".join(cells) + "}\n")
        else:
            flags = np.zeros(dataset.num_labels, dtype=int)
            flags[present] = 1
            numbers = [repr(value) for value in features[row].astype(float).tolist()]
            stream.write(",".join([*numbers, *map(str, flags.tolist())]) + "\n")


def _attribute_names(dataset: Dataset, width: int) -> list[str]:
    """What the features are called: as in the ARFF file they come from where all were numbers."""
    taken = set(dataset.label_names)
    held = None if dataset.columns is None else dataset.columns.attributes
    names = () if held is None or held.values else held.names
    if len(names) == width and taken.isdisjoint(names):
        return [_quoted(name) for name in names]
    prefix = "feature"
    while any(name.startswith(prefix) for name in taken):
        prefix += "_"
    return [f"{prefix}{i}" for i in range(width)]


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def xml(dataset: Dataset) -> str:
    """The XML file that names the labels."""
    from xml.sax.saxutils import quoteattr

    lines = [f"<label name={quoteattr(name)}></label>" for name in dataset.label_names]
    return "\n".join(
        [
            '<?xml version="1.0" encoding="utf-8"?>',
            '<labels xmlns="http://mulan.sourceforge.net/labels">',
            *lines,
            "</labels>",
            "",
        ]
    )

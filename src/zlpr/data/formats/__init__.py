"""The file formats: one file each, and the register that finds them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from zlpr._errors import UserError
from zlpr._names import find
from zlpr.data.files import check_encoding, file_faults, open_bytes, plain_suffix
from zlpr.data.formats import (
    fasttext,
    huggingface,
    json_file,
    json_lines,
    libmultilabel,
    lines,
    mulan,
    parquet,
    svm,
    tables,
)
from zlpr.data.problems import Problems
from zlpr.data.roles import is_known_name
from zlpr.data.rows import Block, ReadOptions

_START = 1 << 16


@dataclass(frozen=True)
class Format:
    """A file format.

    Attributes:
        name: as the user names it.
        suffixes: how its files end.
        read_blocks: gives the rows of a file.
        write: writes a `Dataset` to what `target` says.
        target: whether it is written to a text stream, a file or a folder.
        table: whether it has columns with names.
    """

    name: str
    suffixes: tuple[str, ...]
    read_blocks: Callable[[Path, ReadOptions, Problems], Iterator[Block]]
    write: Callable[[Any, Any], None]
    target: Literal["text", "file", "folder"] = "text"
    table: bool = False


_ALL = (
    Format("jsonl", (".jsonl", ".ndjson"), json_lines.read_blocks, json_lines.write, table=True),
    Format("json", (".json",), json_file.read_blocks, json_file.write, table=True),
    Format("csv", (".csv",), tables.read_blocks, tables.write, table=True),
    Format("tsv", (".tsv", ".tab"), tables.read_tsv_blocks, tables.write_tsv, table=True),
    Format(
        "parquet",
        (".parquet", ".pq"),
        parquet.read_blocks,
        parquet.write,
        target="file",
        table=True,
    ),
    Format("fasttext", (".fasttext", ".ft"), fasttext.read_blocks, fasttext.write),
    Format("libmultilabel", (), libmultilabel.read_blocks, libmultilabel.write),
    Format("svm", (".svm", ".libsvm"), svm.read_blocks, svm.write),
    Format("mulan", (".arff",), mulan.read_blocks, mulan.write),
    Format("lines", (), lines.read_blocks, lines.write),
    Format(
        "huggingface", (), huggingface.read_blocks, huggingface.write, target="folder", table=True
    ),
)
FORMATS = {entry.name: entry for entry in _ALL}
SUFFIXES = {suffix: entry for entry in _ALL for suffix in entry.suffixes}
_BY_CONTENT = frozenset([".json", ".tsv", ".tab"])
"""Endings that are used for more than one format."""


def available() -> tuple[str, ...]:
    """The names of the formats."""
    return tuple(FORMATS)


def info(name: str) -> Format:
    """The format of this name."""
    return find("file format", name, FORMATS)


def find_format(path: Path, options: ReadOptions) -> Format:
    """The format of a file, by its name and its first lines."""
    if str(path).startswith(huggingface.HUB):
        return FORMATS["huggingface"]
    with file_faults(path):
        if path.is_dir() and huggingface.is_saved(path):
            return FORMATS["huggingface"]
    check_encoding(path, options.encoding)
    suffix = plain_suffix(path)
    if suffix in SUFFIXES and suffix not in _BY_CONTENT:
        return SUFFIXES[suffix]
    with open_bytes(path) as stream:
        start = stream.read(_START)
    name = _recognise(start, options)
    if name is None and not options.labelled and suffix in lines.SUFFIXES:
        name = "lines"
    if name is None and suffix in SUFFIXES:
        return SUFFIXES[suffix]
    if name is None:
        raise UserError(
            f"{path}: what format is it? Name one of {', '.join(FORMATS)} with format=…"
        )
    return FORMATS[name]


def _recognise(start: bytes, options: ReadOptions) -> str | None:
    """The format that the first bytes of a file look like."""
    if start.startswith(b"PAR1"):
        return "parquet"
    text = start.decode(options.encoding, errors="replace").removeprefix("\ufeff")
    rows = text.replace("\r\n", "\n").split("\n")
    rows = [row for row in (rows[:-1] or rows) if row.strip()]
    if not rows:
        return None
    first = rows[0].lstrip()
    if first[0] in "[{":
        return "json" if first[0] == "[" else "jsonl"
    if first.lower().startswith(("@relation", "%")):
        return "mulan"
    if any(word.startswith(fasttext.PREFIX) for row in rows[:50] for word in row.split()):
        return "fasttext"
    if svm.looks_like(rows):
        return "svm"
    return _recognise_table(rows, options)


def _recognise_table(rows: list[str], options: ReadOptions) -> str | None:
    """A table with a header of usual or given names; one without only where that is said."""
    first = rows[0].replace('"', "")
    fields = first.split("\t") if "\t" in first else first.replace(";", ",").split(",")
    named = options.text is not None or options.labels is not None or options.header is not None
    like = options.like.text if options.like is not None else ()
    named = named or bool(like and set(like) <= set(fields))
    header = any(is_known_name(field) for field in fields)
    if "\t" in first:
        if not named and not header and libmultilabel.looks_like(rows):
            return "libmultilabel"
        return "tsv" if named or header or options.labelled else None
    return "csv" if len(fields) > 1 and (named or header) else None

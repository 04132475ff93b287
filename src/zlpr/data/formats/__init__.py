"""The file formats: one file each, and the register that finds them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from zlpr._errors import UserError
from zlpr.data.dataset import Dataset
from zlpr.data.files import plain_suffix
from zlpr.data.formats import json_lines, tables
from zlpr.data.problems import Problems
from zlpr.data.rows import Block, ReadOptions


@dataclass(frozen=True)
class Format:
    """A file format: its name, its file suffixes, and how it is read and written."""

    name: str
    summary: str
    suffixes: tuple[str, ...]
    read_blocks: Callable[[Path, ReadOptions, Problems], Iterator[Block]]
    write: Callable[[Dataset, TextIO], None]


def _write_tsv(dataset: Dataset, stream: TextIO) -> None:
    tables.write(dataset, stream, separator="\t")


FORMATS = {
    entry.name: entry
    for entry in (
        Format(
            "jsonl",
            "one JSON object per line",
            (".jsonl", ".ndjson"),
            json_lines.read_blocks,
            json_lines.write,
        ),
        Format("csv", "comma-separated table", (".csv",), tables.read_blocks, tables.write),
        Format("tsv", "tab-separated table", (".tsv", ".tab"), tables.read_blocks, _write_tsv),
    )
}


def find_format(path: Path, name: str | None = None) -> Format:
    """The format that the user named, or that the file's name tells."""
    if name is not None:
        if name not in FORMATS:
            raise UserError(f"no format {name!r}; the formats are {', '.join(FORMATS)}")
        return FORMATS[name]
    suffix = plain_suffix(path)
    for known in FORMATS.values():
        if suffix in known.suffixes:
            return known
    raise UserError(f"{path}: what format is it? Name one of {', '.join(FORMATS)}")

"""Lines: a text per line and nothing else, for prediction."""

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn, TextIO

from zlpr._errors import UserError
from zlpr.data.dataset import Dataset
from zlpr.data.files import plain_suffix, read_lines
from zlpr.data.problems import Problems
from zlpr.data.rows import Block, ReadOptions

SUFFIXES = frozenset(["", ".txt"])
"""How such files end; they are recognised only where nothing else fits and no labels are needed."""


def hint(path: Path, options: ReadOptions) -> str:
    """What to add where the first line of such a file looks like JSON, and it is none."""
    is_text = not options.labelled and plain_suffix(path) in SUFFIXES
    return "; where each line is a text, say format='lines'" if is_text else ""


def read_blocks(path: Path, options: ReadOptions, problems: Problems) -> Iterator[Block]:
    """The lines of a file, empty ones too, so that answers stand in the same lines."""
    if options.labelled:
        raise UserError(f"{path}: lines of text have no labels; name the format, as format='tsv'")
    for lines in read_lines(path, options.encoding):
        numbers = range(lines.first, lines.first + len(lines.texts))
        yield Block(labels=[()] * len(numbers), lines=numbers, texts=lines.texts)


def write(dataset: Dataset, stream: TextIO) -> NoReturn:
    """Refuse: the labels would be lost."""
    raise UserError("lines of text cannot hold labels; use fasttext, jsonl or csv")

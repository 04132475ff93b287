"""fastText: a line per text, with words ``__label__name`` for the labels."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from zlpr._errors import UserError
from zlpr.data.dataset import Dataset
from zlpr.data.files import read_lines
from zlpr.data.problems import Problems, quote
from zlpr.data.rows import Block, ReadOptions, texts_of

PREFIX = "__label__"

_LABELS = re.compile(rf"(?:{PREFIX}\S*(?:\s+|$))++")  # those in front, in one pass


def read_blocks(path: Path, options: ReadOptions, problems: Problems) -> Iterator[Block]:
    """The lines of a file; as in fastText, a label may stand anywhere in the line."""
    for lines in read_lines(path, options.encoding):
        texts: list[str] = []
        sets = []
        numbers = []
        for number, line in enumerate(lines.texts, lines.first):
            if not line.strip():
                continue
            text, labels = _parse(line)
            if "" in labels:
                column = line.split().index(PREFIX)
                problems.add(number, f"word {column + 1} is a {PREFIX} without a name")
                continue
            joined = next((label for label in labels if PREFIX in label), None)
            if joined is not None:
                problems.add(number, f"{quote(PREFIX + joined)}: expected a space between labels")
                continue
            texts.append(text)
            sets.append(labels if options.labelled else ())
            numbers.append(number)
        if texts:
            yield Block(labels=list(sets), lines=numbers, texts=texts)


def _parse(line: str) -> tuple[str, tuple[str, ...]]:
    line = line.strip()
    first = _LABELS.match(line)
    start = first.end() if first else 0
    labels = [word.removeprefix(PREFIX) for word in line[:start].split()]
    rest = line[start:]
    if PREFIX in rest:
        words = rest.split()
        labels += [word.removeprefix(PREFIX) for word in words if word.startswith(PREFIX)]
        rest = " ".join(word for word in words if not word.startswith(PREFIX))
    return rest, tuple(labels)


def write(dataset: Dataset, stream: TextIO) -> None:
    """Write labels, then the text; line breaks in a text become spaces, as the format has no other.

    Raises:
        UserError: for a label with white space or a text with a word that would be read as a label,
            and for a sample with neither text nor label, whose blank line would be none.
    """
    texts = texts_of(dataset)
    for name in dataset.label_names:
        if name.split() != [name]:
            raise UserError(f"the label {quote(name)} has white space, which fastText cannot hold")
        if PREFIX in name:
            raise UserError(f"the label {quote(name)} has a {PREFIX}, which fastText cannot hold")
    for row, (text, labels) in enumerate(zip(texts, dataset.label_sets(), strict=True), 1):
        if not labels and not text.strip():
            raise UserError(
                f"sample {row:,} has neither text nor label, which fastText cannot hold"
            )
        if PREFIX in text:
            raise UserError(
                f"the text {quote(text)} has a {PREFIX}, which fastText reads as a label"
            )
        line = " ".join([*(PREFIX + label for label in labels), *text.splitlines()])
        stream.write(line + "\n")

"""LibMultiLabel: ``[id] <tab> labels separated by spaces <tab> text``, without a header."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.data.dataset import Dataset
from zlpr.data.files import read_lines
from zlpr.data.problems import Problems, quote
from zlpr.data.rows import Block, ReadOptions, texts_of


def read_blocks(path: Path, options: ReadOptions, problems: Problems) -> Iterator[Block]:
    """The lines of a file, all with two fields or all with three, the first of which is an id."""
    width: int | None = None
    for lines in read_lines(path, options.encoding):
        rows = []
        numbers = []
        for number, line in enumerate(lines.texts, lines.first):
            fields = line.split("\t")
            width = width or (len(fields) if len(fields) in (2, 3) else None)
            if not line:
                continue
            if width is None or len(fields) != width:
                expected = "2 (labels, text) or 3 (id, labels, text)" if width is None else width
                found = counted(len(fields), "field")
                problems.add(number, f"{found} separated by tabs, expected {expected}")
                continue
            rows.append(fields)
            numbers.append(number)
        if rows:
            yield Block(
                labels=[row[-2].split() if options.labelled else () for row in rows],
                lines=numbers,
                texts=[row[-1] for row in rows],
                ids=[row[0] for row in rows] if width == 3 and options.id is not False else None,
            )


def looks_like(lines: Sequence[str]) -> bool:
    """Whether a file without a header has its labels, and ids if any, in front of longer texts."""
    rows = [line.split("\t") for line in lines if line]
    widths = {len(row) for row in rows}
    if len(rows) < 2 or len(widths) != 1 or not widths <= {2, 3}:
        return False
    ids, labels, texts = (
        [row[:-2] for row in rows],
        [row[-2] for row in rows],
        [row[-1] for row in rows],
    )
    words = [word for cell in labels for word in cell.split()]
    ids_fit = all(len(cell.split()) == 1 for row in ids for cell in row)
    ids_differ = len({tuple(row) for row in ids}) == len(ids) or widths == {2}
    labels_repeat = len(set(words)) < len(words)
    texts_longer = sum(map(len, texts)) > 2 * sum(map(len, labels))
    return ids_fit and ids_differ and labels_repeat and texts_longer


def write(dataset: Dataset, stream: TextIO) -> None:
    """Write a line per sample; tabs and line breaks in a text become spaces.

    Raises:
        UserError: for a label or an id with white space, which the format cannot hold.
    """
    texts = texts_of(dataset)
    for name in [*dataset.label_names, *(dataset.ids or ())]:
        if name.split() != [name]:
            raise UserError(
                f"{quote(name)} has white space, which LibMultiLabel's format cannot hold"
            )
    for row, labels in enumerate(dataset.label_sets()):
        text = " ".join(texts[row].replace("\t", " ").splitlines())
        fields = [" ".join(labels), text]
        if dataset.ids is not None:
            fields.insert(0, dataset.ids[row])
        stream.write("\t".join(fields) + "\n")

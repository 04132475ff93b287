"""The paper's sources, one file each, read from the files as their publishers give them."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zlpr._errors import UserError
from zlpr._names import unknown
from zlpr.data.dataset import Dataset
from zlpr.data.sources import (
    archive,
    cmu_movie,
    cnipa,
    goemotions,
    toutiao,
    toxic,
    uspto,
)
from zlpr.data.sources._archives import Advance
from zlpr.data.sources._rows import Reading
from zlpr.data.sources._source import Record, RemoteFile, Source

__all__ = [
    "SOURCES",
    "Prepared",
    "Record",
    "RemoteFile",
    "Source",
    "available",
    "prepare",
    "resolve",
]

SOURCES: tuple[Source, ...] = (
    cnipa.SOURCE,
    toutiao.SOURCE,
    uspto.SOURCE,
    archive.SOURCE,
    cmu_movie.SOURCE,
    goemotions.RAW,
    goemotions.SIMPLIFIED,
    toxic.SOURCE,
)


@dataclass(frozen=True)
class Prepared:
    """Data sets made from a publisher's files.

    Attributes:
        datasets: by the set's name; they share samples, labels and ids.
        left_out: how many of the publisher's rows the sets have no use for, by reason.
    """

    datasets: dict[str, Dataset]
    left_out: dict[str, int]


def available() -> tuple[str, ...]:
    """The names of the sets of all sources."""
    return tuple(known for source in SOURCES for known in source.sets)


def resolve(name: str) -> tuple[Source, tuple[str, ...]]:
    """The source and the sets that a name stands for, whatever its case: a set, or a whole source.

    Examples:
        >>> source, sets = resolve("movie-name")
        >>> source.name, sets, resolve("cmu-movie")[1]
        ('CMU-Movie', ('Movie-Name',), ('Movie-Name', 'Movie-Summary'))
    """
    for source in SOURCES:
        for known in source.sets:
            if known.casefold() == name.casefold():
                return source, (known,)
        if source.name.casefold() == name.casefold():
            return source, source.sets
    raise unknown("data set", name, available())


def prepare(
    name: str,
    raw: str | Path,
    *,
    columns: Mapping[str, str] | None = None,
    encoding: str = "utf-8",
    skip_bad_rows: bool = False,
    advance: Advance = lambda count: None,
) -> Prepared:
    """Read a publisher's files into data sets of our form.

    Args:
        name: a set ("Movie-Name"), or a source for all of its sets ("CMU-Movie").
        raw: the folder with the publisher's files, packed as they come, or one file.
        columns: for tables, names of columns that differ from the usual, as {"title": "题名"}.
        encoding: of text files; XML names its own.
        skip_bad_rows: count malformed rows in `left_out` instead of refusing the file.
        advance: called with each number of bytes read from disk, for a progress bar.

    Returns:
        The sets, without a split unless the publisher gives one, and what was left out. A sample
        is left out of all sets of its source if one of its texts is empty.

    Raises:
        UserError: the files are missing, malformed, or hold no usable sample.
    """
    source, sets = resolve(name)
    reading = Reading(skip_bad_rows, encoding, dict(columns or {}), advance)
    records = []
    for record in source.records(Path(raw), reading):
        if all(text.strip() for text in record.texts):
            records.append(record)
        else:
            reading.leave_out("no text")
    reading.finish()
    if not records:
        reasons = ", ".join(f"{count} x {reason}" for reason, count in reading.left_out.items())
        raise UserError(
            f"{raw}: no usable sample ({reasons or 'no rows'}); expected {source.expects}"
        )
    return Prepared(
        {known: _dataset(source, known, records) for known in sets}, dict(reading.left_out)
    )


def _dataset(source: Source, name: str, records: list[Record]) -> Dataset:
    place = source.sets.index(name)
    splits = [record.split for record in records if record.split is not None]
    return Dataset.from_label_sets(
        [record.labels for record in records],
        label_names=source.label_names or None,
        texts=[record.texts[place].strip() for record in records],
        ids=[record.id for record in records],
        split=np.array(splits) if splits else None,
        name=name,
    )

"""Write data as a folder that `zlpr.data.load` reads back: a file per part, and the labels."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from zlpr._atomic import behind_link, folder_beside, write_text
from zlpr._errors import UserError
from zlpr.data.dataset import SPLIT_NAMES, Dataset
from zlpr.data.feature_columns import FeatureColumns
from zlpr.data.label_names import LABELS_FILE, listing, numbers
from zlpr.data.loading import READING_FILE, SPLIT_FILE, part_of
from zlpr.data.rows import table_columns
from zlpr.data.writing import write

_OWN = frozenset(
    [
        READING_FILE,
        SPLIT_FILE,
        *(f"{part}{end}" for part in SPLIT_NAMES for end in (".jsonl", ".svm", ".csv")),
    ]
)
"""What `save` may call its files, beside the list of labels, and what `zlpr data split` adds."""


def save(dataset: Dataset, folder: str | Path, *, overwrite: bool = False) -> list[Path]:
    """Write the parts of a split data set, and its label names, into a folder.

    Texts become `train.jsonl`, `validation.jsonl` and `test.jsonl`. Columns of a table that are
    learned from become `train.csv` and so on, with a `reading.json` that says what they are, which
    texts with groups have too; any other features become files of the `svm` format. All files are
    written beside the folder first: it gets all of them or none.

    Args:
        dataset: data with a split.
        folder: made if need be.
        overwrite: replace the files of an earlier save instead of refusing; none of its parts is
            left.

    Returns:
        The files, those of the parts first.

    Raises:
        UserError: the folder already has such files, or others that would be read as parts.

    Examples:
        >>> from zlpr.data import demo, load, make_split, save
        >>> files = save(make_split(demo.make(100)), "tickets")  # doctest: +SKIP
        >>> len(load("tickets"))  # doctest: +SKIP
        100
    """
    if dataset.split is None:
        raise ValueError("this data has no split; make one with zlpr.data.make_split")
    labels = listing(dataset.label_names, LABELS_FILE)
    table = table_columns(dataset)
    ending = ".jsonl" if dataset.features is None else ".svm" if table is None else ".csv"
    if ending == ".svm":  # rows of svm hold numbers; one list names those of all parts
        dataset = replace(dataset, label_names=numbers(dataset.num_labels))
    with _whole_folder(Path(folder), overwrite) as beside:
        for name in SPLIT_NAMES:
            part = replace(dataset.part(name), split=None)
            if len(part):
                write(part, beside / f"{name}{ending}")
        write_text(beside / LABELS_FILE, labels)
        if table is not None or (ending == ".jsonl" and dataset.groups is not None):
            _write_reading(beside, dataset, table)
        names = [path.name for path in beside.iterdir()]
    order = {f"{name}{ending}": place for place, name in enumerate(SPLIT_NAMES)}
    return [Path(folder) / name for name in sorted(names, key=lambda name: order.get(name, 9))]


def _write_reading(folder: Path, dataset: Dataset, table: FeatureColumns | None) -> None:
    """Say how the files of a folder are read, where their columns alone do not tell."""
    how: dict[str, Any] = {"labels": "labels"}
    if table is not None:
        how |= {"features": list(table.columns), "categories": list(table.categories)}
    how |= {} if dataset.ids is None else {"id": "id"}
    how |= {} if dataset.groups is None else {"group": "group"}
    write_text(folder / READING_FILE, json.dumps(how, ensure_ascii=False, indent=2) + "\n")


@contextlib.contextmanager
def _whole_folder(folder: Path, overwrite: bool) -> Iterator[Path]:
    """Give a folder beside `folder`; move its files into it if the block succeeds."""
    folder = behind_link(folder)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: a file, where a folder for the parts was expected")
    with folder_beside(folder) as beside:
        yield beside
        written = {path.name for path in beside.iterdir()}
        there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
        taken = sorted(there & (written | _OWN))
        if taken and not overwrite:
            raise UserError(
                f"{folder}: already has {', '.join(taken)}; give another folder, or replace them "
                "(overwrite=True, --overwrite)"
            )
        strange = sorted(there & set(_names_of_parts(folder)) - written - _OWN)
        if strange:
            raise UserError(
                f"{folder}: has {', '.join(strange)}, which would be read as a part of this data; "
                "give another folder"
            )
        for name in taken:
            if (folder / name).is_dir():
                raise UserError(f"{folder / name}: a folder; give another one to write to")
        folder.mkdir(exist_ok=True)
        _exchange(beside, folder, taken)


def _exchange(beside: Path, folder: Path, earlier: Sequence[str]) -> None:
    """Move the files of one folder to another in place of earlier ones; all of them or none."""
    kept = beside / ".earlier"
    moves = [(path, folder / path.name) for path in beside.iterdir()]
    kept.mkdir()
    moves = [*((folder / name, kept / name) for name in earlier), *moves]
    done: list[tuple[Path, Path]] = []
    try:
        for source, place in moves:
            source.replace(place)
            done.append((source, place))
    except BaseException:  # an interruption, too
        for source, place in reversed(done):
            place.replace(source)
        raise


def _names_of_parts(folder: Path) -> list[str]:
    """The files of a folder that `load` takes for parts."""
    return [path.name for path in (folder.iterdir() if folder.is_dir() else ()) if part_of(path)]

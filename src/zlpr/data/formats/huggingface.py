"""Hugging Face `datasets`: a folder written by ``save_to_disk``, or a name on the hub."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from zlpr._errors import UserError
from zlpr.data.dataset import SPLIT_NAMES, Dataset, SplitName, split_name
from zlpr.data.formats.parquet import class_names, named_classes
from zlpr.data.problems import Problems
from zlpr.data.roles import find_roles
from zlpr.data.rows import Block, ReadOptions, sample_columns

HUB = "hf:"
"""What a name on the hub starts with: ``hf:owner/name``, or ``hf:owner/name:configuration``."""

_BATCH_ROWS = 2000


def is_saved(path: Path) -> bool:
    """Whether a folder was written by ``save_to_disk``."""
    return (path / "dataset_dict.json").is_file() or (path / "state.json").is_file()


def read_blocks(path: Path, options: ReadOptions, problems: Problems) -> Iterator[Block]:
    """The rows of a saved folder, or of a name on the hub."""
    problems.unit = "row"
    parts = _parts(_open(str(path)), problems)
    for part, data in parts.items():
        names = class_names(data.features.arrow_schema)
        roles = None
        first = 1
        for batch in data.with_format(None).iter(_BATCH_ROWS):
            columns = named_classes(batch, names)
            rows = len(next(iter(columns.values())))
            roles = roles or find_roles(problems.name, columns, options, class_names=names)
            block = roles.block(columns, range(first, first + rows), problems)
            if len(parts) > 1:
                block.split = [part] * len(block.labels)
            yield block
            first += rows


def _open(name: str) -> Any:
    import datasets

    try:
        if not name.startswith(HUB):
            return datasets.load_from_disk(name)
        repository, _, configuration = name.removeprefix(HUB).partition(":")
        return datasets.load_dataset(repository, configuration or None)
    except (OSError, ValueError) as wrong:
        message = " ".join(str(wrong).split())[:300]
        raise UserError(f"{name}: cannot be loaded with datasets: {message}") from wrong


def _parts(data: Any, problems: Problems) -> dict[SplitName, Any]:
    """The parts we know by name; a single table counts as one part."""
    if not isinstance(data, Mapping):
        return {"train": data}
    found: dict[SplitName, Any] = {}
    for name, part in data.items():
        known = split_name(name)
        if known is None or known in found:
            problems.notes.append(f"{problems.name}: left out the part {name!r}")
        else:
            found[known] = part
    if not found:
        raise UserError(f"{problems.name}: no part called train, validation or test")
    return {name: found[name] for name in SPLIT_NAMES if name in found}


def write(dataset: Dataset, path: Path) -> None:
    """Write a folder that ``load_from_disk`` reads: a table, or one per part of a split."""
    import datasets

    def table(data: Dataset) -> Any:
        columns = sample_columns(data)
        columns.pop("split", None)
        text = datasets.Value("string")
        labels = [datasets.ClassLabel(names=list(data.label_names))]
        column = {name: number for number, name in enumerate(data.label_names)}
        columns["labels"] = [[column[name] for name in row] for row in columns["labels"]]
        features = {name: labels if name == "labels" else text for name in columns}
        return datasets.Dataset.from_dict(columns, features=datasets.Features(features))

    if dataset.split is None:
        whole = table(dataset)
    else:
        used = set(dataset.split.tolist())
        parts = {name: table(dataset.part(name)) for name in SPLIT_NAMES if name in used}
        whole = datasets.DatasetDict(parts)
    with _quiet():
        whole.save_to_disk(str(path))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep `datasets` from drawing progress bars for a moment."""
    import datasets

    shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()

"""Hugging Face `datasets`: a folder written by ``save_to_disk``, or a name on the hub."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from zlpr._errors import UserError
from zlpr.data.dataset import SPLIT_NAMES, Dataset, SplitName, split_name
from zlpr.data.files import check_file, file_faults
from zlpr.data.formats._arrow import (
    BATCH_ROWS,
    arrow_faults,
    checked_columns,
    class_names,
    open_file,
    schema_class_names,
)
from zlpr.data.problems import Problems, quote
from zlpr.data.roles import find_roles
from zlpr.data.rows import (
    Block,
    ReadOptions,
    answered_before,
    number_columns,
    sample_columns,
)

HUB = "hf:"
"""What a name on the hub starts with: ``hf:owner/name``, or ``hf:owner/name:configuration``."""


def is_saved(path: Path) -> bool:
    """Whether a folder was written by ``save_to_disk``."""
    return (path / "dataset_dict.json").is_file() or (path / "state.json").is_file()


def read_blocks(path: Path, options: ReadOptions, problems: Problems) -> Iterator[Block]:
    """The rows of a saved folder, or of a name on the hub; all parts are read as the first one."""
    problems.unit = "row"
    name = str(path)
    parts = _parts(_hub_parts(name) if name.startswith(HUB) else _saved_parts(path), problems)
    given, grouped = options.like, False
    for part, batches in parts.items():
        place = f"{problems.name}, {part} part" if len(parts) > 1 else problems.name
        roles, first = None, 1
        for columns, names in batches:
            rows = len(next(iter(columns.values()), ()))
            roles = roles or find_roles(place, columns, options, class_names=names)
            block = roles.block(columns, range(first, first + rows), problems)
            if len(parts) > 1:
                block.split = [part] * len(block.labels)
            if grouped and block.groups is None:  # which a split of the first part has to keep
                block.groups = [""] * len(block.labels)
            yield block
            first += rows
        if roles is not None and options.like is given:
            like = roles.columns
            asked: dict[str, Any] = answered_before(vars(options), like, another_part=True)
            options, grouped = replace(options, like=like, **asked), like.group is not None


Batch = tuple[dict[str, list[Any]], dict[str, tuple[str, ...]]]
"""Some rows as columns, and the class names of those that have classes."""


def _saved_parts(folder: Path) -> dict[str, Iterator[Batch]]:
    """The parts that ``save_to_disk`` wrote, by name; a single table counts as "train".

    The files are read here and not by `datasets`, which trusts them.
    """
    listed = folder / "dataset_dict.json"
    if not listed.is_file():
        return {"train": _saved_batches(folder)}
    names = _read_json(listed).get("splits")
    if not isinstance(names, list) or not all(_is_plain_name(name) for name in names):
        raise UserError(f"{listed}: expected the names of the parts under 'splits'")
    return {name: _saved_batches(folder / name) for name in names}


def _saved_batches(folder: Path) -> Iterator[Batch]:
    """The rows of one saved table."""
    import pyarrow

    state = _read_json(folder / "state.json")
    files = state.get("_data_files")
    if not isinstance(files, list) or state.get("_indices_data_files"):
        raise UserError(
            f"{folder / 'state.json'}: expected the names of the data files under '_data_files' "
            "and no indices; load it with datasets and save it again"
        )
    with arrow_faults(str(folder / "dataset_info.json"), "a description of columns"):
        described = class_names(_read_json(folder / "dataset_info.json").get("features"))
    for entry in files:
        name = str(entry.get("filename", "")) if isinstance(entry, dict) else ""
        if not _is_plain_name(name):
            raise UserError(f"{folder / 'state.json'}: {quote(entry)} names no file of the folder")
        path = folder / name
        check_file(path)
        with contextlib.ExitStack() as stack:
            with arrow_faults(str(path), "Arrow"):
                stream = stack.enter_context(open_file(path))
                reader = stack.enter_context(pyarrow.ipc.open_stream(stream))
                names = described or schema_class_names(reader.schema)
            yield from _checked_batches(str(path), reader, names)


def _checked_batches(path: str, reader: Any, names: dict[str, tuple[str, ...]]) -> Iterator[Batch]:
    while True:
        with arrow_faults(path, "Arrow"):
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            batch.validate(full=True)
        for start in range(0, batch.num_rows, BATCH_ROWS):
            with arrow_faults(path, "Arrow"):
                columns = checked_columns(batch.slice(start, BATCH_ROWS), names)
            yield columns, names


def _read_json(path: Path) -> dict[str, Any]:
    check_file(path)
    with file_faults(path):
        content = path.read_bytes()
    try:
        value = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as wrong:
        raise UserError(f"{path}: not JSON ({quote(str(wrong))})") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: expected a JSON object")
    return value


def _is_plain_name(name: object) -> bool:
    """Whether a name stays inside its folder."""
    return isinstance(name, str) and Path(name).name == name and name not in ("", ".", "..")


def _hub_parts(name: str) -> dict[str, Iterator[Batch]]:
    """The parts of a data set on the hub, which `datasets` fetches."""
    import datasets

    repository, _, configuration = name.removeprefix(HUB).partition(":")
    try:
        data = datasets.load_dataset(repository, configuration or None)
    except (OSError, ValueError) as wrong:
        message = " ".join(str(wrong).split())[:300]
        raise UserError(f"{name}: cannot be loaded with datasets: {message}") from wrong
    parts = data if isinstance(data, Mapping) else {"train": data}
    return {part: _hub_batches(name, table) for part, table in parts.items()}


def _hub_batches(name: str, table: Any) -> Iterator[Batch]:
    names = schema_class_names(table.features.arrow_schema)
    for batch in table.with_format("arrow").iter(BATCH_ROWS):
        for piece in batch.to_batches():
            with arrow_faults(name, "Arrow"):
                columns = checked_columns(piece, names)
            yield columns, names


def _parts(data: Mapping[str, Iterator[Batch]], problems: Problems) -> dict[SplitName, Any]:
    """The parts we know by name."""
    found: dict[SplitName, Any] = {}
    for name, part in data.items():
        known = split_name(name)
        if known is None or known in found:
            problems.notes.append(f"{problems.name}: left out the part {quote(name)}")
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
        numbers = dict.fromkeys(number_columns(data), datasets.Value("float64"))
        types = {"labels": labels, **numbers}
        features = {name: types.get(name, text) for name in columns}
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

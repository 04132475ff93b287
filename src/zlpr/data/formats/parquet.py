"""Parquet: the same columns as other tables, read a batch at a time through pyarrow."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from zlpr._errors import UserError
from zlpr.data.dataset import Dataset
from zlpr.data.files import check_file
from zlpr.data.problems import Problems
from zlpr.data.roles import find_roles
from zlpr.data.rows import Block, ReadOptions, sample_columns

_BATCH_ROWS = 2000


def read_blocks(path: Path, options: ReadOptions, problems: Problems) -> Iterator[Block]:
    """The rows of a file; class labels that Hugging Face `datasets` stored get their names."""
    import pyarrow
    from pyarrow import parquet

    check_file(path)
    problems.unit = "row"
    try:
        with parquet.ParquetFile(path) as file:
            names = class_names(file.schema_arrow)
            roles = None
            first = 1
            for batch in file.iter_batches(batch_size=_BATCH_ROWS):
                columns = named_classes(batch.to_pydict(), names)
                roles = roles or find_roles(str(path), columns, options, class_names=names)
                yield roles.block(columns, range(first, first + batch.num_rows), problems)
                first += batch.num_rows
    except pyarrow.ArrowException as wrong:
        message = " ".join(str(wrong).split())
        raise UserError(f"{path}: cannot be read as Parquet: {message}") from wrong


def class_names(schema: Any) -> dict[str, tuple[str, ...]]:
    """The class names that `datasets` keeps in the schema's metadata, by column."""
    import json

    try:
        stored = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = stored.get("info", {}).get("features", {})
    except (ValueError, AttributeError):
        return {}
    found = {}
    for column, feature in features.items() if isinstance(features, dict) else ():
        while isinstance(feature, dict) and isinstance(feature.get("feature"), dict):
            feature = feature["feature"]
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel":
            found[column] = tuple(map(str, feature.get("names") or ()))
    return {column: names for column, names in found.items() if names}


def named_classes(
    columns: dict[str, list[Any]], names: dict[str, tuple[str, ...]]
) -> dict[str, list[Any]]:
    """The columns with class numbers replaced by their names; numbers that have none stay."""
    return {
        column: [_named(cell, names[column]) for cell in cells] if column in names else cells
        for column, cells in columns.items()
    }


def _named(cell: Any, names: Sequence[str]) -> Any:
    if isinstance(cell, list):
        return [_named(one, names) for one in cell]
    if isinstance(cell, int) and 0 <= cell < len(names):
        return names[cell]
    return cell


def write(dataset: Dataset, path: Path) -> None:
    """Write id, text, labels (a list of names), group and split, as far as the data has them."""
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table(sample_columns(dataset), schema=pyarrow.schema(_fields(dataset)))
    parquet.write_table(table, path)


def _fields(dataset: Dataset) -> list[tuple[str, Any]]:
    """The types of the columns, which a column of empty lists alone would not tell."""
    import pyarrow

    text = pyarrow.string()
    return [
        (name, pyarrow.list_(text) if name == "labels" else text)
        for name in sample_columns(dataset)
    ]

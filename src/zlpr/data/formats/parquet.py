"""Parquet: the same columns as other tables, read a batch at a time through pyarrow."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zlpr.data.dataset import Dataset
from zlpr.data.files import check_file
from zlpr.data.formats._arrow import (
    BATCH_ROWS,
    arrow_faults,
    checked_columns,
    open_file,
    schema_class_names,
)
from zlpr.data.problems import Problems
from zlpr.data.roles import find_roles
from zlpr.data.rows import Block, ReadOptions, number_columns, sample_columns


def read_blocks(path: Path, options: ReadOptions, problems: Problems) -> Iterator[Block]:
    """The rows of a file; class labels that Hugging Face `datasets` stored get their names."""
    from pyarrow import parquet

    check_file(path)
    problems.unit = "row"
    with contextlib.ExitStack() as stack:
        with arrow_faults(str(path), "Parquet"):
            stream = stack.enter_context(open_file(path))
            file = stack.enter_context(parquet.ParquetFile(stream))
            names = schema_class_names(file.schema_arrow)
            batches = file.iter_batches(batch_size=BATCH_ROWS)
        roles, first = None, 1
        while True:
            with arrow_faults(str(path), "Parquet"):
                batch = next(batches, None)
                if batch is None:
                    return
                columns = checked_columns(batch, names)
            roles = roles or find_roles(str(path), columns, options, class_names=names)
            yield roles.block(columns, range(first, first + batch.num_rows), problems)
            first += batch.num_rows


def write(dataset: Dataset, path: Path) -> None:
    """Write id, text, labels (a list of names), group and split, as far as the data has them."""
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.table(sample_columns(dataset), schema=pyarrow.schema(_fields(dataset)))
    with open_file(path, "wb") as stream:
        parquet.write_table(table, stream)


def _fields(dataset: Dataset) -> list[tuple[str, Any]]:
    """The types of the columns, which a column of empty lists alone would not tell."""
    import pyarrow

    text = pyarrow.string()
    types = {"labels": pyarrow.list_(text)} | dict.fromkeys(
        number_columns(dataset), pyarrow.float64()
    )
    return [(name, types.get(name, text)) for name in sample_columns(dataset)]

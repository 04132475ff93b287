"""What Parquet and Hugging Face folders share: Arrow data that is checked before it is read."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from zlpr._errors import UserError
from zlpr.data.problems import quote

BATCH_ROWS = 2000

_FAULTS = (
    *(OSError, ValueError, TypeError, KeyError, IndexError, NotImplementedError),
    *(ArithmeticError, MemoryError, RecursionError),
)


@contextlib.contextmanager
def arrow_faults(name: str, what: str) -> Iterator[None]:
    """Turn whatever pyarrow raises on damaged data into one line with the file's name."""
    try:
        yield
    except UserError:
        raise
    except _FAULTS as wrong:
        message = " ".join(str(wrong).split())[:300] or type(wrong).__name__
        raise UserError(f"{name}: cannot be read as {what}: {message}") from wrong


def open_file(path: Path, mode: str = "rb") -> Any:
    """A file of Arrow's own, whose name may be in any encoding."""
    import pyarrow

    return pyarrow.OSFile(os.fsencode(path), mode)


def checked_columns(batch: Any, names: Mapping[str, Sequence[str]]) -> dict[str, list[Any]]:
    """The columns of a record batch as Python values, with the names of classes for their numbers.

    Arrow trusts the offsets in its buffers: read without this check, a damaged file can end the
    interpreter.
    """
    batch.validate(full=True)
    if len(set(batch.schema.names)) != batch.num_columns:
        raise ValueError("two columns have the same name")
    columns: dict[str, list[Any]] = batch.to_pydict()
    for column, cells in columns.items():
        if any(isinstance(cell, Decimal) for cell in cells):
            columns[column] = [_plain_number(cell) for cell in cells]
    return {
        column: [_named(cell, names[column]) for cell in cells] if column in names else cells
        for column, cells in columns.items()
    }


def schema_class_names(schema: Any) -> dict[str, tuple[str, ...]]:
    """The class names that `datasets` keeps in a schema's metadata, by column."""
    try:
        stored = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = stored.get("info", {}).get("features", {})
    except (ValueError, AttributeError, RecursionError):
        return {}
    return class_names(features)


def class_names(features: Any) -> dict[str, tuple[str, ...]]:
    """The class names in the description that `datasets` makes of columns, by column."""
    found = {}
    for column, feature in features.items() if isinstance(features, dict) else ():
        while isinstance(feature, dict) and isinstance(feature.get("feature"), dict):
            feature = feature["feature"]
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel":
            names = feature.get("names")
            if isinstance(names, list) and names:
                found[column] = tuple(map(str, names))
                if len(set(found[column])) != len(names):
                    raise ValueError(f"two classes of {quote(column)} have the same name")
    return found


def _plain_number(cell: Any) -> Any:
    """A decimal number as a whole one where it is, else in floating point; others as they are."""
    if not isinstance(cell, Decimal):
        return cell
    whole = cell.as_tuple().exponent == 0
    return int(cell) if whole else float(cell)


class UnknownClass:
    """Stands for a class number that no name belongs to, such as -1 for 'no label'."""

    def __init__(self, number: int, count: int) -> None:
        self._number, self._count = number, count

    def __repr__(self) -> str:
        return f"class {self._number} of a column with the classes 0 to {self._count - 1}"


def _named(cell: Any, names: Sequence[str]) -> Any:
    if isinstance(cell, list):
        return [_named(one, names) for one in cell]
    if isinstance(cell, int):
        return names[cell] if 0 <= cell < len(names) else UnknownClass(cell, len(names))
    return cell

"""A comparison's folder: its grid, its run records, and which of them may be counted together."""

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from zlpr._atomic import locked, write_text
from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.compare.records import CellSettings, RunRecord, read_records

T = TypeVar("T")


@dataclass(frozen=True)
class Selection:
    """The records that belong together.

    Attributes:
        records: in the order of the grid.
        missing: cells of the grid without a record.
        left_out: a line for each kind of record that is in the folder but not counted.
    """

    records: tuple[RunRecord, ...]
    missing: int
    left_out: tuple[str, ...]

    @property
    def failed(self) -> tuple[RunRecord, ...]:
        """The cells that ended with an error."""
        return tuple(record for record in self.records if record.status == "failed")


@dataclass(frozen=True)
class RunFolder:
    """`grid.json` names the cells of the last comparison, `runs/` holds the records.

    Cells are named by the hash of their settings. Records of other settings or versions may
    lie in `runs/` too, from an earlier grid; they are left alone, not counted, and reported.
    """

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))  # of a text, too

    @property
    def runs(self) -> Path:
        """Where the records are."""
        return self.path / "runs"

    @property
    def grid_file(self) -> Path:
        """The list of cells."""
        return self.path / "grid.json"

    @contextlib.contextmanager
    def claimed(self) -> Iterator[None]:
        """Keep the folder for one comparison, from its plan to its report.

        Raises:
            UserError: another process compares into it.
        """
        with locked(self.path):
            yield

    def check_data(self, cells: Sequence[CellSettings]) -> None:
        """Refuse to put a comparison in the place of one that has other data.

        Raises:
            UserError: a data set of the comparison that is there is not in the new one, or has
                changed; or `grid.json` is no list of cells, and so the user's own.
        """
        self._wanted()
        now = {cell.data: cell.fingerprint for cell in cells}
        gone = [name for name, content in self._data().items() if now.get(name) != content]
        if gone:
            why = "with other content" if gone[0] in now else "which this one lacks"
            raise UserError(
                f"{self.path}: holds a comparison on {gone[0]} {why}; choose another folder, or "
                "put this one in its place with --overwrite"
            )

    def write_grid(self, cells: Sequence[CellSettings], command: str) -> None:
        """Remember which cells the comparison consists of, and the command that asked for it."""
        grid = {
            "command": command,
            "data": {cell.data: cell.fingerprint for cell in cells},
            "cells": [cell.hash() for cell in cells],
        }
        write_text(self.grid_file, json.dumps(grid, indent=1) + "\n")

    def check_writable(self) -> None:
        """Find out before a training whether its record can be written; an `OSError` if not."""
        self.runs.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=self.runs):
            pass

    def select(self) -> Selection:
        """The records to count; a `UserError` where there are none or they do not fit together."""
        if not self.path.is_dir():
            raise UserError(f"{self.path}: no such folder")
        place = self.runs if self.runs.is_dir() else self.path
        records, faults = read_records(place)
        left_out = [fault for fault in faults if not fault.startswith(f"{self.grid_file}:")]
        if not records:
            raise UserError(f"{self.path}: no run records there; make some with zlpr compare")
        wanted = self._wanted()
        if wanted is None:
            _refuse_mixture(self.path, records)
            return Selection(tuple(records), 0, tuple(left_out))
        by_hash = {record.settings_hash: record for record in records}
        chosen = tuple(by_hash[name] for name in wanted if name in by_hash)
        others = [record for record in records if record.settings_hash not in set(wanted)]
        missing = len(wanted) - len(chosen)
        if not chosen:
            raise UserError(
                f"{self.path}: none of the grid's {counted(len(wanted), 'cell')} has a record"
            )
        return Selection(chosen, missing, (*left_out, *_describe_others(others, chosen)))

    def _wanted(self) -> list[str] | None:
        return self._in_grid(lambda grid: [str(name) for name in grid["cells"]])

    def _data(self) -> dict[str, str]:
        """Fingerprints of the comparison's data by name; a grid of earlier versions has none."""
        return self._in_grid(lambda grid: dict(grid.get("data", {}))) or {}

    def _in_grid(self, read: Callable[[Any], T]) -> T | None:
        try:
            return read(json.loads(self.grid_file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as fault:
            raise UserError(f"{self.grid_file}: not a list of cells ({fault})") from fault


def _describe_others(others: Sequence[RunRecord], chosen: Sequence[RunRecord]) -> list[str]:
    """Why records were not counted: another version of the package, or other settings."""
    version = chosen[0].settings.version
    counts: dict[str, int] = {}
    for record in others:
        of = record.settings.version
        why = "with other settings" if of == version else f"by zlpr {of}"
        counts[why] = counts.get(why, 0) + 1
    return [
        f"{count} record{'s' if count > 1 else ''} made {why} not counted"
        for why, count in counts.items()
    ]


def _refuse_mixture(path: Path, records: Sequence[RunRecord]) -> None:
    """Records without a grid must agree on all that is not data, model, loss or seed."""
    versions = sorted({record.settings.version for record in records})
    if len(versions) > 1:
        raise UserError(f"{path}: records by several versions of zlpr ({', '.join(versions)})")
    cells: dict[tuple[str, str, str, int], RunRecord] = {}
    for record in records:
        settings = record.settings
        cell = (settings.data, settings.model, settings.loss.label, settings.seed)
        if cell in cells:
            raise UserError(f"{path}: two records of {settings.title()} with other settings")
        cells[cell] = record
    differing: dict[str, set[tuple[str, str]]] = {
        "training settings": {(r.settings.model, str(r.settings.training)) for r in records},
        "model's files": {(r.settings.model, r.settings.model_fingerprint) for r in records},
        "way to count empty cases": {(r.settings.data, r.settings.empty) for r in records},
        "split or data": {
            (r.settings.data, f"{r.settings.split} {r.settings.fingerprint}") for r in records
        },
        "way to read the data": {(r.settings.data, str(r.settings.reading)) for r in records},
        "number of samples": {(r.settings.data, str(r.settings.max_samples)) for r in records},
        "parameters": {(r.settings.loss.label, str(r.settings.loss)) for r in records},
        "way to choose (--per-metric)": {
            (r.settings.model, str(r.settings.per_metric)) for r in records
        },
    }
    for what, values in differing.items():
        names = [name for name, _ in values]
        for name in sorted({name for name in names if names.count(name) > 1}):
            raise UserError(f"{path}: the records of {name} differ in their {what}")

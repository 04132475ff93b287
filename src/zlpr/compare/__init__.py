"""The comparison: a grid of data, models, losses and seeds; records, tables and a report.

>>> from pathlib import Path
>>> from zlpr import compare
>>> folder = compare.RunFolder(Path("compared"))
>>> todo = compare.plan(compare.preset("demo"), folder)  # checks everything, runs nothing
>>> len(todo.cells)
45
>>> compare.carry_out(todo)  # doctest: +SKIP
>>> compare.write_report(folder.select(), folder.path)  # doctest: +SKIP
"""

from zlpr.compare.experiment import Plan, carry_out, plan
from zlpr.compare.folder import RunFolder, Selection
from zlpr.compare.grid import DataSpec, Grid, preset, read_grid
from zlpr.compare.records import (
    CellSettings,
    LossSpec,
    RunRecord,
    read_record,
    record_schema,
    same_result,
)
from zlpr.compare.report import write_report
from zlpr.compare.results import Results

__all__ = [
    "CellSettings",
    "DataSpec",
    "Grid",
    "LossSpec",
    "Plan",
    "Results",
    "RunFolder",
    "RunRecord",
    "Selection",
    "carry_out",
    "plan",
    "preset",
    "read_grid",
    "read_record",
    "record_schema",
    "same_result",
    "write_report",
]

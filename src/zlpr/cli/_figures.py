"""Metrics as the rows of a table."""

from collections.abc import Mapping

Figures = Mapping[str, Mapping[str, float]]
"""Metrics by what they were measured on."""


def figure_rows(figures: Figures) -> tuple[list[str], list[list[str]]]:
    """Headers and rows: a metric per row, a column per part; an arrow where smaller is better."""
    from zlpr.metrics import table

    return table.figure_rows(figures)

"""Figures as people read them: in words, in per cent, an arrow where smaller is better."""

from collections.abc import Mapping

from zlpr.metrics._inputs import Empty
from zlpr.metrics.registry import available, info

__all__ = ["figure_rows", "in_words", "shown"]

Figures = Mapping[str, Mapping[str, float]]
"""Metrics by what they were measured on."""


def shown(value: float | None, *, share: bool = True) -> str:
    """A figure as every table for people prints it; files and `--json` keep the fractions.

    Args:
        value: the figure; None where there is none.
        share: whether it is a fraction of a whole, which is printed in per cent.

    Examples:
        >>> shown(2 / 3), shown(2.125, share=False), shown(None)
        ('66.7 %', '2.12', '-')
    """
    if value is None:
        return "-"
    return f"{100 * value:.1f} %" if share else f"{value:.2f}"


def in_words(empty: Empty) -> str:
    """What empty cases count, in a sentence that stands wherever figures do.

    Examples:
        >>> in_words("sklearn")[:42]
        'Empty cases count as in scikit-learn (empt'
    """
    whose, f1, precision = {"sklearn": ("scikit-learn", 0, 1), "paper": ("the paper", 1, 0)}[empty]
    return (
        f"Empty cases count as in {whose} (empty={empty}): with nothing true and nothing predicted "
        f"the F1 of a label or a sample is {f1}, and the average precision of a sample without "
        f"labels is {precision}."
    )


def figure_rows(figures: Figures) -> tuple[list[str], list[list[str]]]:
    """The headers and rows of a table: a metric per row, a column per part of the data.

    Args:
        figures: what `MetricSet.compute()` gave, by the name of the part.

    Returns:
        The headers, and the rows of those metrics in brief that any part has; where figures by
        the labels' frequency are among them, also what is of interest with many labels.

    Examples:
        >>> figure_rows({"test": {"micro_f1": 0.5, "ranking_loss": 0.25}})
        (['metric', 'test'], [['Micro-F1', '50.0 %'], ['ranking loss ↓', '25.0 %']])
    """
    rows = []
    many = any("ps_precision_at_1" in part for part in figures.values())
    for metric in map(info, available(of_frequencies=True)):
        values = [part.get(metric.name) for part in figures.values()]
        brief = metric.in_brief or (many and metric.of_many)
        if brief and any(value is not None for value in values):
            arrow = " ↓" if metric.sign < 0 else ""
            cells = (shown(value, share=metric.is_share) for value in values)
            rows.append([metric.words + arrow, *cells])
    return ["metric", *figures], rows

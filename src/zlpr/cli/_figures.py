"""Metrics as the rows of a table."""

from collections.abc import Mapping

Figures = Mapping[str, Mapping[str, float]]
"""Metrics by what they were measured on."""

ALSO_SHOWN = (
    "hamming_loss",
    "jaccard",
    "one_error",
    "precision_at_1",
    "cardinality_true",
    "cardinality_predicted",
    "empty_predictions",
)
WORDS = {
    "example_f1": "example F1",
    "micro_f1": "micro F1",
    "macro_f1": "macro F1",
    "cardinality_true": "labels a sample, true",
    "cardinality_predicted": "labels a sample, predicted",
    "empty_predictions": "share of empty predictions",
}


def metric_words(name: str) -> str:
    """A metric's name as one would say it."""
    return WORDS.get(name, name.replace("_", " "))


def figure_rows(figures: Figures) -> tuple[list[str], list[list[str]]]:
    """Headers and rows: a metric per row, a column per part; an arrow where smaller is better."""
    from zlpr.metrics import METRICS, PAPER_METRICS

    rows = []
    for name in (*PAPER_METRICS, *ALSO_SHOWN):
        values = [part.get(name) for part in figures.values()]
        if all(value is None for value in values):
            continue
        arrow = " ↓" if METRICS[name].larger_is_better is False else ""
        cells = ["-" if value is None else f"{value:.4f}" for value in values]
        rows.append([metric_words(name) + arrow, *cells])
    return ["metric", *figures], rows

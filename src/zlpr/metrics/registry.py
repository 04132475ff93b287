"""What each metric is called, what it needs, and which way is better."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

__all__ = ["METRICS", "PAPER_METRICS", "MetricInfo", "info"]


@dataclass(frozen=True)
class MetricInfo:
    """One entry of `METRICS`.

    Attributes:
        name: key in `MetricSet.compute()`, column in tables.
        needs: whether it is made from the scores or from the predicted label sets; None where
            the true labels are enough.
        larger_is_better: None for figures that describe rather than judge.
        title: short name for table heads.
    """

    name: str
    needs: Literal["scores", "predictions"] | None
    larger_is_better: bool | None
    title: str


PAPER_METRICS = (
    "subset_accuracy",
    "example_f1",
    "micro_f1",
    "macro_f1",
    "average_precision",
    "ranking_loss",
)
"""The six metrics of the paper, in its order."""

_AT_TITLES = {"precision": "P", "recall": "R", "ndcg": "nDCG"}


def _at(name: str, k: int) -> MetricInfo:
    """The entry of a metric at k."""
    return MetricInfo(f"{name}_at_{k}", "scores", True, f"{_AT_TITLES[name]}@{k}")


_ENTRIES = (
    MetricInfo("subset_accuracy", "predictions", True, "SubACC"),
    MetricInfo("example_f1", "predictions", True, "MLC-F1"),
    MetricInfo("micro_f1", "predictions", True, "Micro-F1"),
    MetricInfo("macro_f1", "predictions", True, "Macro-F1"),
    MetricInfo("average_precision", "scores", True, "AvgPrec"),
    MetricInfo("ranking_loss", "scores", False, "RankLoss"),
    MetricInfo("hamming_loss", "predictions", False, "Hamming"),
    MetricInfo("jaccard", "predictions", True, "Jaccard"),
    MetricInfo("weighted_f1", "predictions", True, "Weighted-F1"),
    MetricInfo("one_error", "scores", False, "OneError"),
    MetricInfo("coverage_error", "scores", False, "Coverage"),
    *(_at(name, k) for name in _AT_TITLES for k in (1, 3, 5)),
    MetricInfo("cardinality_true", None, None, "Labels"),
    MetricInfo("cardinality_predicted", "predictions", None, "Predicted"),
    MetricInfo("empty_predictions", "predictions", None, "Empty"),
)

METRICS: Mapping[str, MetricInfo] = MappingProxyType({entry.name: entry for entry in _ENTRIES})
"""Every figure that `MetricSet` computes by default, in its order."""


def info(name: str) -> MetricInfo:
    """Look a metric up; those at k exist for every k.

    Raises:
        ValueError: if there is no such metric; the message lists those there are.

    Examples:
        >>> info("ranking_loss").larger_is_better
        False
        >>> info("precision_at_10").title
        'P@10'
    """
    if at := re.fullmatch(r"(precision|recall|ndcg)_at_([1-9]\d*)", name):
        return _at(at[1], int(at[2]))
    if name not in METRICS:
        raise ValueError(f"no metric is called {name!r}; there are: {', '.join(METRICS)}")
    return METRICS[name]

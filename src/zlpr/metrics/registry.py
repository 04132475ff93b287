"""What each metric is: its names, what it says, what it needs, and which way is better.

The one place for these facts. Tables, reports, model cards, the command line and the theory look
them up here; the order of the entries is the order in which figures are shown.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from zlpr._names import find

__all__ = ["DECISION_METRICS", "PAPER_METRICS", "MetricInfo", "available", "info"]


@dataclass(frozen=True)
class MetricInfo:
    """What is known of a metric.

    Attributes:
        name: key in `MetricSet.compute()`, in settings and in files.
        abbreviation: the paper's where it has one, else a usual one.
        words: its name in a sentence.
        meaning: what it says, in words for newcomers.
        needs: whether it is made from the scores or from the predicted label sets; None where
            the true labels are enough.
        larger_is_better: None for figures that describe rather than judge.
        in_brief: whether it stands in the short tables that people read; `--json` has them all.
        of_many: whether it stands there too where there are many labels.
        is_share: whether it lies between 0 and 1, and people read it in per cent.
    """

    name: str
    abbreviation: str
    words: str
    meaning: str
    needs: Literal["scores", "predictions"] | None
    larger_is_better: bool | None
    in_brief: bool = True
    of_many: bool = False
    is_share: bool = True

    @property
    def title(self) -> str:
        """Its name as the head of a row or a column."""
        return self.words[0].upper() + self.words[1:]

    @property
    def full_title(self) -> str:
        """Its name with the abbreviation in brackets, where that says more."""
        same = self.abbreviation.casefold() == self.words.casefold()
        return self.title if same else f"{self.title} ({self.abbreviation})"

    @property
    def needs_decision(self) -> bool:
        """Whether it depends on how scores become label sets."""
        return self.needs == "predictions"

    @property
    def sign(self) -> int:
        """-1 where smaller is better: a value times its sign is always better when larger."""
        return -1 if self.larger_is_better is False else 1


_PAPER = (
    MetricInfo(
        "subset_accuracy",
        "SubACC",
        "subset accuracy",
        "share of samples whose whole label set is predicted exactly",
        needs="predictions",
        larger_is_better=True,
    ),
    MetricInfo(
        "example_f1",
        "MLC-F1",
        "example F1",
        "overlap of predicted and true labels, averaged over samples",
        needs="predictions",
        larger_is_better=True,
    ),
    MetricInfo(
        "micro_f1",
        "Micro-F1",
        "Micro-F1",
        "overlap of predicted and true labels, counted over all samples at once",
        needs="predictions",
        larger_is_better=True,
    ),
    MetricInfo(
        "macro_f1",
        "Macro-F1",
        "Macro-F1",
        "F1 averaged over labels, so that rare labels weigh the same",
        needs="predictions",
        larger_is_better=True,
    ),
    MetricInfo(
        "average_precision",
        "AvgPrec",
        "average precision",
        "how near the top of the ranking the true labels stand",
        needs="scores",
        larger_is_better=True,
    ),
    MetricInfo(
        "ranking_loss",
        "RankLoss",
        "ranking loss",
        "share of pairs of a true and another label in the wrong order",
        needs="scores",
        larger_is_better=False,
    ),
)

_OTHERS = (
    MetricInfo(
        "hamming_loss",
        "Hamming",
        "Hamming loss",
        "share of all yes-or-no decisions that are wrong",
        needs="predictions",
        larger_is_better=False,
    ),
    MetricInfo(
        "jaccard",
        "Jaccard",
        "Jaccard index",
        "labels that are both predicted and true, over those that are either, by sample",
        needs="predictions",
        larger_is_better=True,
    ),
    MetricInfo(
        "weighted_f1",
        "Weighted-F1",
        "weighted F1",
        "F1 averaged over labels, weighted by how often each is true",
        needs="predictions",
        larger_is_better=True,
        in_brief=False,
    ),
    MetricInfo(
        "one_error",
        "OneError",
        "one-error",
        "share of samples where a label that is not true stands at the top",
        needs="scores",
        larger_is_better=False,
    ),
    MetricInfo(
        "coverage_error",
        "Coverage",
        "coverage error",
        "how far down the ranking the last true label stands",
        needs="scores",
        larger_is_better=False,
        in_brief=False,
        is_share=False,
    ),
)

_DESCRIBING = (
    MetricInfo(
        "cardinality_true",
        "Labels",
        "labels per sample, true",
        "how many labels a sample has",
        needs=None,
        larger_is_better=None,
        is_share=False,
    ),
    MetricInfo(
        "cardinality_predicted",
        "Predicted",
        "labels per sample, predicted",
        "how many labels a sample is given",
        needs="predictions",
        larger_is_better=None,
        is_share=False,
    ),
    MetricInfo(
        "empty_predictions",
        "Empty",
        "empty predictions",
        "share of samples that are given no label",
        needs="predictions",
        larger_is_better=None,
    ),
)

_AT_K = {
    "precision": ("P", "share of true labels among the first {k}"),
    "recall": ("R", "share of a sample's true labels that are among the first {k}"),
    "ndcg": ("nDCG", "gain of the first {k} labels, discounted by rank, over the best possible"),
    "ps_precision": ("PSP", "precision at {k}, rare labels weighing more, over the best possible"),
    "ps_recall": ("PSR", "recall at {k}, rare labels weighing more, over the best possible"),
    "ps_ndcg": ("PSnDCG", "nDCG at {k}, rare labels weighing more, over the best possible"),
}
_FAMILY_WORDS = {
    "ndcg": "nDCG",
    "ps_precision": "propensity-scored precision",
    "ps_recall": "propensity-scored recall",
    "ps_ndcg": "propensity-scored nDCG",
}
_GROUPS = {
    "head": "the most frequent labels, a third of all occurrences",
    "torso": "the labels of middle frequency, a third of all occurrences",
    "tail": "the rarest labels, a third of all occurrences",
}


def _at_k(family: str, k: int) -> MetricInfo:
    """The entry of a metric at k."""
    letter, meaning = _AT_K[family]
    return MetricInfo(
        f"{family}_at_{k}",
        f"{letter}@{k}",
        f"{_FAMILY_WORDS.get(family, family)} at {k}",
        meaning.format(k=k),
        needs="scores",
        larger_is_better=True,
        in_brief=family == "precision" and k == 1,
        of_many=family in ("precision", "ps_precision")
        or (family in ("recall", "ndcg") and k == 5),
    )


def _by_frequency() -> tuple[MetricInfo, ...]:
    """The entries of head, torso and tail."""
    figures = {"macro_f1": ("Macro-F1", "F1 averaged over"), "recall": ("Recall", "recall of")}
    return tuple(
        MetricInfo(
            f"{figure}_{group}",
            f"{title} {group}",
            f"{title if figure == 'macro_f1' else figure} of the {group}",
            f"{meaning} {labels}",
            needs="predictions",
            larger_is_better=True,
            in_brief=False,
            of_many=True,
        )
        for figure, (title, meaning) in figures.items()
        for group, labels in _GROUPS.items()
    )


def _entries(ks: Sequence[int], *, of_frequencies: bool) -> tuple[MetricInfo, ...]:
    families = [family for family in _AT_K if of_frequencies or not family.startswith("ps_")]
    at_k = (_at_k(family, k) for family in families for k in ks)
    groups = _by_frequency() if of_frequencies else ()
    return (*_PAPER, *_OTHERS, *at_k, *groups, *_DESCRIBING)


_METRICS = {entry.name: entry for entry in _entries((1, 3, 5), of_frequencies=True)}

PAPER_METRICS: tuple[str, ...] = tuple(entry.name for entry in _PAPER)
"""The six metrics of the paper, in its order."""

DECISION_METRICS: tuple[str, ...] = tuple(
    entry.name for entry in (*_PAPER, *_OTHERS) if entry.needs_decision
)
"""The metrics that judge label sets: those a decoding rule can be fitted for."""


def available(ks: Sequence[int] = (1, 3, 5), *, of_frequencies: bool = False) -> tuple[str, ...]:
    """The names of all metrics, in the order in which they are shown.

    Args:
        ks: which k to name precision, recall and nDCG at.
        of_frequencies: also those that need the labels' frequencies in training.

    Examples:
        >>> available(ks=())[5:7]
        ('ranking_loss', 'hamming_loss')
    """
    return tuple(entry.name for entry in _entries(ks, of_frequencies=of_frequencies))


def info(name: str) -> MetricInfo:
    """Look a metric up; those at k exist for every k.

    Raises:
        UserError: there is no such metric; the message has the nearest name and all there are.

    Examples:
        >>> info("ranking_loss").larger_is_better
        False
        >>> info("example_f1").title, info("example_f1").abbreviation
        ('Example F1', 'MLC-F1')
        >>> info("precision_at_10").abbreviation
        'P@10'
    """
    if at := re.fullmatch(rf"({'|'.join(_AT_K)})_at_([1-9][0-9]{{0,8}})", str(name)):
        return _at_k(at[1], int(at[2]))
    return find("metric", name, _METRICS)

"""All metrics over a stream of batches, in memory that does not grow with the samples."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist

from zlpr._counted import counted
from zlpr.metrics._inputs import Empty, Labels, Scores, as_labels, blocks, check_empty
from zlpr.metrics._ranks import positive_ranks
from zlpr.metrics._totals import Totals
from zlpr.metrics.at_k import AtKTotals, check_ks
from zlpr.metrics.classification import DecisionTotals, LabelReport
from zlpr.metrics.frequency import FrequencyGroup, LabelFrequencies, by_frequency
from zlpr.metrics.propensity import PropensityTotals
from zlpr.metrics.ranking import RankingTotals
from zlpr.metrics.registry import available

__all__ = ["MetricSet", "evaluate"]

AnyTotals = TypeVar("AnyTotals", bound=Totals)


class MetricSet:
    """Accumulates every metric over batches; holds a few sums and three counts per label.

    The result does not depend on how the samples were cut into batches or spread over
    processes. Without `y_score` (or without `y_pred`) in the updates, the metrics that need it
    are left out of the result.

    Args:
        num_labels: L, the width of every batch.
        empty: what empty cases count, see `zlpr.metrics.classification` and `ranking`.
        ks: which k to compute precision, recall and nDCG at.
        frequencies: of the labels in training, for propensity-scored metrics and the figures of
            head, torso and tail; None leaves these out.

    Examples:
        >>> metrics = MetricSet(num_labels=2)
        >>> metrics.update([[1, 0]], [[0.3, -2.0]], [[1, 0]])
        >>> metrics.update([[1, 1]], [[0.1, -1.0]], [[1, 0]])
        >>> metrics.compute()["subset_accuracy"]
        0.5
    """

    def __init__(
        self,
        num_labels: int,
        *,
        empty: Empty = "paper",
        ks: Sequence[int] = (1, 3, 5),
        frequencies: LabelFrequencies | None = None,
    ) -> None:
        check_empty(empty)
        check_ks(ks)
        if not isinstance(num_labels, int | np.integer) or num_labels < 1:
            raise ValueError(f"num_labels must be a whole number of at least 1, got {num_labels!r}")
        if frequencies is not None and len(frequencies.counts) != num_labels:
            raise ValueError(
                f"frequencies are of {counted(len(frequencies.counts), 'label')}, "
                f"expected {num_labels}"
            )
        self.num_labels, self.empty, self.ks = num_labels, empty, tuple(ks)
        self.frequencies = frequencies
        self._weights = None if frequencies is None else 1 / frequencies.propensity
        self.reset()

    def reset(self) -> None:
        """Forget all samples."""
        self._decisions = DecisionTotals.zero(self.num_labels)
        self._ranking = RankingTotals()
        self._at_k = AtKTotals.zero(self.ks)
        self._propensity = PropensityTotals.zero(self.ks)
        self._seen = np.zeros(2, dtype=np.int64)  # samples, and true labels in all

    @property
    def samples(self) -> int:
        """How many samples have been seen."""
        return int(self._seen[0])

    def update(
        self, y_true: Labels, y_score: Scores | None = None, y_pred: Labels | None = None
    ) -> None:
        """Add a batch.

        Args:
            y_true: true labels, shape (batch, labels), dense or CSR.
            y_score: scores of the same shape, dense or `TopScores`, or None to leave the ranking
                metrics out.
            y_pred: predicted labels of the same shape, dense or CSR, or None to leave the metrics
                of label sets out.

        Raises:
            ValueError: if shapes differ, scores are NaN or labels are not zeros and ones; the
                totals are then as before the call.
        """
        if y_score is None and y_pred is None:
            raise ValueError("update needs y_score, y_pred or both")
        batch = self._without_samples()
        for block in blocks(y_true, y_score, y_pred, num_labels=self.num_labels):
            batch._seen += (len(block.true.counts), len(block.true.columns))
            if block.predicted is not None:
                batch._decisions += DecisionTotals.of_block(block)
            if block.scores is not None:
                ranks = positive_ranks(
                    block.scores, block.true, above=bool(self.ks), weights=self._weights
                )
                batch._ranking += RankingTotals.of_block(ranks)
                batch._at_k += AtKTotals.of_block(ranks, self.ks)
                if self._weights is not None and self.ks:
                    batch._propensity += PropensityTotals.of_block(ranks, self.ks)
        self.merge(batch)

    def _without_samples(self) -> "MetricSet":
        """A set that counts alike and has seen nothing."""
        return MetricSet(
            self.num_labels, empty=self.empty, ks=self.ks, frequencies=self.frequencies
        )

    def merge(self, other: "MetricSet") -> None:
        """Add the samples that another set has seen.

        Raises:
            ValueError: if the two count labels or empty cases differently.

        Examples:
            >>> left, right = MetricSet(1), MetricSet(1)
            >>> left.update([[1]], y_pred=[[1]])
            >>> right.update([[1]], y_pred=[[0]])
            >>> left.merge(right)
            >>> left.compute()["micro_f1"]
            0.6666666666666666
        """
        for name in ("num_labels", "empty", "ks"):
            here, there = getattr(self, name), getattr(other, name)
            if here != there:
                raise ValueError(f"cannot merge: {name} is {here} here, {there} there")
        if not _same(self.frequencies, other.frequencies):
            raise ValueError("cannot merge: the labels' frequencies in training differ")
        self._decisions = self._decisions + other._decisions
        self._ranking = self._ranking + other._ranking
        self._at_k = self._at_k + other._at_k
        self._propensity = self._propensity + other._propensity
        self._seen = self._seen + other._seen

    def all_reduce(
        self,
        group: dist.ProcessGroup | None = None,
        device: torch.device | str | None = None,
    ) -> "MetricSet":
        """The samples of all processes of a `torch.distributed` group, the same on each of them.

        This set is left as it is, so that it can be updated and reduced again.

        Args:
            group: process group, the default one if None.
            device: where the group's backend wants its tensors (NCCL: this process's GPU).

        Returns:
            A new `MetricSet`.
        """
        reduced = self._without_samples()
        reduced._decisions = _all_reduce(self._decisions, group, device)
        reduced._ranking = _all_reduce(self._ranking, group, device)
        reduced._at_k = _all_reduce(self._at_k, group, device)
        reduced._propensity = _all_reduce(self._propensity, group, device)
        seen = torch.tensor(self._seen, device=device)
        dist.all_reduce(seen, group=group)
        reduced._seen = seen.cpu().numpy()
        return reduced

    def compute(self) -> dict[str, float]:
        """Every metric of the samples seen, in the order of `available(ks)`.

        Raises:
            ValueError: if there were no samples, or only some came with scores or predictions.
        """
        if self.samples == 0:
            raise ValueError("no samples yet: call update first")
        figures = {**self._compute_decisions(), **self._compute_ranking()}
        figures["cardinality_true"] = float(self._seen[1] / self._seen[0])
        names = available(self.ks, of_frequencies=True)
        return {name: figures[name] for name in names if name in figures}

    def label_report(self) -> LabelReport:
        """Precision, recall, F1 and support of each label."""
        self._check_complete("y_pred", self._decisions.samples)
        return self._decisions.label_report(self.empty)

    def by_frequency(self) -> tuple[FrequencyGroup, ...]:
        """The figures of head, torso and tail; none without `frequencies`."""
        if self.frequencies is None:
            return ()
        return by_frequency(self.label_report(), self.frequencies)

    def _compute_decisions(self) -> dict[str, float]:
        totals, empty = self._decisions, self.empty
        if totals.samples == 0:
            return {}
        self._check_complete("y_pred", totals.samples)
        groups = {
            f"{figure}_{group.name}": getattr(group, figure)
            for group in self.by_frequency()
            for figure in group.figures
        }
        return {
            **groups,
            "subset_accuracy": totals.subset_accuracy(),
            "example_f1": totals.example_f1(empty),
            "micro_f1": totals.micro_f1(empty),
            "macro_f1": totals.macro_f1(empty),
            "hamming_loss": totals.hamming_loss(),
            "jaccard": totals.jaccard_index(empty),
            "weighted_f1": totals.weighted_f1(empty),
            "cardinality_predicted": float(totals.predicted.sum() / totals.samples),
            "empty_predictions": totals.empty_predictions / totals.samples,
        }

    def _compute_ranking(self) -> dict[str, float]:
        totals, empty = self._ranking, self.empty
        if totals.samples == 0:
            return {}
        self._check_complete("y_score", totals.samples)
        figures = {
            "average_precision": totals.mean_average_precision(empty),
            "ranking_loss": totals.mean_ranking_loss(),
            "one_error": totals.mean_one_error(empty),
            "coverage_error": totals.coverage_error(),
        }
        for name in ("precision", "recall", "ndcg"):
            means = getattr(self._at_k, name) / totals.samples
            figures |= {
                f"{name}_at_{k}": float(mean) for k, mean in zip(self.ks, means, strict=True)
            }
            if self.frequencies is not None:
                weighed = self._propensity.means(name)
                figures |= {
                    f"ps_{name}_at_{k}": float(x) for k, x in zip(self.ks, weighed, strict=True)
                }
        return figures

    def _check_complete(self, argument: str, samples: int) -> None:
        if samples != self.samples:
            raise ValueError(
                f"{argument} was given for {samples} of {counted(self.samples, 'sample')}; "
                "give it in every update or in none"
            )


def _same(one: LabelFrequencies | None, other: LabelFrequencies | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.samples, one.a, one.b) == (other.samples, other.a, other.b) and np.array_equal(
        one.counts, other.counts
    )


def _all_reduce(
    totals: AnyTotals, group: dist.ProcessGroup | None, device: torch.device | str | None
) -> AnyTotals:
    """Sum totals over processes."""
    reduced: dict[str, Any] = {}
    for name, array in totals.arrays().items():
        tensor = torch.tensor(array, device=device)
        dist.all_reduce(tensor, group=group)
        reduced[name] = tensor.item() if array.ndim == 0 else tensor.cpu().numpy()
    return type(totals)(**reduced)


def evaluate(
    y_true: Labels,
    y_score: Scores | None = None,
    y_pred: Labels | None = None,
    *,
    empty: Empty = "paper",
    ks: Sequence[int] = (1, 3, 5),
    frequencies: LabelFrequencies | None = None,
) -> dict[str, float]:
    """Every metric of one set of samples: `MetricSet` in one call.

    Args:
        y_true: true labels, shape (samples, labels), dense or CSR.
        y_score: scores of the same shape, dense or `TopScores`, or None to leave the ranking
            metrics out.
        y_pred: predicted labels of the same shape, or None to leave the metrics of sets out.
        empty: what empty cases count.
        ks: which k to compute precision, recall and nDCG at.
        frequencies: of the labels in training, see `MetricSet`.

    Returns:
        Name of each metric and its value.

    Examples:
        >>> evaluate([[1, 0], [1, 1]], y_pred=[[1, 0], [1, 0]])["hamming_loss"]
        0.25
    """
    samples, labels = as_labels("y_true", y_true).shape
    if samples == 0 or labels == 0:
        raise ValueError(f"there is nothing to measure: y_true has shape ({samples}, {labels})")
    metrics = MetricSet(labels, empty=empty, ks=ks, frequencies=frequencies)
    metrics.update(y_true, y_score, y_pred)
    return metrics.compute()

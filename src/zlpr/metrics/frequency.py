r"""What a label's frequency in training says: propensities, and head, torso and tail.

With very many labels most are rare, and a model that knows the frequent ones alone looks good at
precision. Jain et al. (2016) weigh a hit by the inverse of the chance that a label that applies was
recorded at all, its propensity, which they model by the number of training samples $N_l$ of the
label among N:

$$p_l = \frac{1}{1 + C e^{-A \log(N_l + B)}}, \qquad C = (\log N - 1)(B + 1)^A.$$
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from zlpr.metrics._inputs import IntArray, Labels, blocks
from zlpr.metrics._totals import ratio
from zlpr.metrics.classification import LabelReport

__all__ = ["FrequencyGroup", "LabelFrequencies", "by_frequency"]

GROUPS = ("head", "torso", "tail")


@dataclass(frozen=True, eq=False)
class LabelFrequencies:
    """How often each label was seen in training, and what follows from it.

    Args:
        counts: training samples of each label, shape (labels,).
        samples: training samples in all.
        a: A of Jain's propensities; 0.5 is usual for Wikipedia, 0.6 for Amazon.
        b: B of them; 0.4 is usual for Wikipedia, 2.6 for Amazon.

    Examples:
        >>> seen = LabelFrequencies(np.array([90, 9, 1]), samples=100)
        >>> seen.propensity.round(3)
        array([0.668, 0.379, 0.217])
        >>> seen.groups  # a third of all occurrences each, as far as whole labels allow
        array([0, 2, 2])
    """

    counts: IntArray
    samples: int
    a: float = 0.55
    b: float = 1.5

    BOUNDS: ClassVar[tuple[float, float]] = (0.0, 100.0)

    def __post_init__(self) -> None:
        counts = np.asarray(self.counts)
        if counts.ndim != 1 or not np.issubdtype(counts.dtype, np.integer):
            raise ValueError(f"counts must be whole numbers of shape (labels,), got {counts.shape}")
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, got {self.samples}")
        if len(counts) == 0 or counts.min() < 0 or counts.max() > self.samples:
            raise ValueError(f"counts must lie within 0 and the {self.samples} samples")
        for name in ("a", "b"):
            value = getattr(self, name)
            if not self.BOUNDS[0] <= value <= self.BOUNDS[1]:
                raise ValueError(f"{name} must lie within {self.BOUNDS}, got {value!r}")
        if self.b == 0 and counts.min() == 0:
            raise ValueError("b must be above 0 where a label has no training sample")
        object.__setattr__(self, "counts", counts.astype(np.int64))

    @classmethod
    def of(cls, labels: Labels, *, a: float = 0.55, b: float = 1.5) -> "LabelFrequencies":
        """Count the labels of a training part, shape (samples, labels), dense or CSR.

        Examples:
            >>> LabelFrequencies.of([[1, 0], [1, 1]]).counts
            array([2, 1])
        """
        counts: Any = 0
        samples = 0
        for block in blocks(labels):
            samples += len(block.true.counts)
            counts = counts + np.bincount(block.true.columns, minlength=block.true.num_labels)
        if samples == 0:
            raise ValueError("there are no training samples to count labels in")
        return cls(counts, samples, a, b)

    @cached_property
    def propensity(self) -> NDArray[np.float64]:
        """The chance that a label that applies was recorded, shape (labels,), at most 1."""
        c = max(0.0, np.log(self.samples) - 1) * (self.b + 1) ** self.a
        chance: NDArray[np.float64] = 1 / (1 + c * (self.counts + self.b) ** -self.a)
        return chance

    @cached_property
    def groups(self) -> IntArray:
        """0 for head, 1 for torso, 2 for tail, shape (labels,).

        From the most frequent label down, those before which less than a third of all occurrences
        lie are the head, less than two thirds the torso, the rest the tail; of labels equally
        frequent those that come first go first.
        """
        order = np.argsort(-self.counts, kind="stable")
        sorted_counts = self.counts[order]
        before = np.cumsum(sorted_counts) - sorted_counts
        groups = np.empty(len(order), dtype=np.int64)
        groups[order] = np.minimum(3 * before // max(1, int(sorted_counts.sum())), 2)
        return groups


@dataclass(frozen=True)
class FrequencyGroup:
    """How the labels of one range of frequency fare.

    Attributes:
        name: "head", "torso" or "tail".
        labels: how many labels it has.
        present: those of them that have a sample here.
        fewest: training samples of its rarest label.
        most: training samples of its most frequent label.
        support: how often its labels are true here.
        macro_f1: F1 averaged over the labels that are present.
        recall: share of the support that is predicted.
    """

    name: str
    labels: int
    present: int
    fewest: int
    most: int
    support: int
    macro_f1: float
    recall: float

    figures: ClassVar[tuple[str, ...]] = ("macro_f1", "recall")


def by_frequency(report: LabelReport, frequencies: LabelFrequencies) -> tuple[FrequencyGroup, ...]:
    """The figures of head, torso and tail; a group without labels is left out.

    Args:
        report: of each label, from `label_report` or `MetricSet.label_report`.
        frequencies: of the same labels in training.

    Examples:
        >>> from zlpr.metrics import label_report
        >>> report = label_report([[1, 0], [1, 1]], [[1, 0], [1, 0]])
        >>> groups = by_frequency(report, LabelFrequencies(np.array([9, 1]), samples=10))
        >>> [(group.name, group.macro_f1) for group in groups]
        [('head', 1.0), ('tail', 0.0)]
    """
    if len(report.support) != len(frequencies.counts):
        raise ValueError(
            f"the report is of {len(report.support)} labels, the frequencies of "
            f"{len(frequencies.counts)}"
        )
    found = []
    for number, name in enumerate(GROUPS):
        inside = frequencies.groups == number
        if not inside.any():
            continue
        support, present = report.support[inside], report.support[inside] > 0
        f1, recall = report.f1[inside][present], report.recall[inside][present]
        found.append(
            FrequencyGroup(
                name,
                labels=int(np.count_nonzero(inside)),
                present=int(np.count_nonzero(present)),
                fewest=int(frequencies.counts[inside].min()),
                most=int(frequencies.counts[inside].max()),
                support=int(support.sum()),
                macro_f1=float(ratio(f1.sum(), np.count_nonzero(present), 0.0)),
                recall=float(ratio((recall * support[present]).sum(), support.sum(), 0.0)),
            )
        )
    return tuple(found)

"""The metrics as `torchmetrics.Metric`: synced over processes, and at home in a `MetricCollection`.

    from torchmetrics import MetricCollection
    from zlpr.integrations.torchmetrics import ExampleF1, MicroF1

    metrics = MetricCollection([MicroF1(num_labels=20), ExampleF1(num_labels=20)])
    metrics.update(scores, targets)  # predictions first, as torchmetrics has it
    metrics.compute()  # {"MicroF1": ..., "ExampleF1": ...}

They take scores, and predict a label where its score is above the threshold. Their states are sums:
memory does not grow with the samples, and the figures do not depend on how these were cut into
batches or spread over processes. In a collection all of one threshold share one state and one
update.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torchmetrics import Metric

from zlpr.metrics import Empty
from zlpr.metrics import MetricSet as _MetricSet

__all__ = [
    "AveragePrecision",
    "ExampleF1",
    "MacroF1",
    "MetricSet",
    "MicroF1",
    "RankingLoss",
    "SubsetAccuracy",
]

_PARTS = ("_decisions", "_ranking", "_at_k")


class MetricSet(Metric):  # type: ignore[misc]
    """Every metric of `zlpr.metrics.MetricSet`; `compute` gives their figures by name.

    Args:
        num_labels: L.
        threshold: a label is predicted where its score is above it; a number or one per label.
        empty: what empty cases count, see `zlpr.metrics`.
        ks: which k to compute precision, recall and nDCG at.
        **settings: torchmetrics's own, such as `process_group`.

    Examples:
        >>> metrics = MetricSet(num_labels=2)
        >>> metrics.update(torch.tensor([[0.3, -2.0]]), torch.tensor([[1, 0]]))
        >>> metrics.compute()["example_f1"]
        tensor(1., dtype=torch.float64)
    """

    full_state_update = False

    def __init__(
        self,
        num_labels: int,
        *,
        threshold: float | Sequence[float] = 0.0,
        empty: Empty = "paper",
        ks: Sequence[int] = (1, 3, 5),
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        if torch.as_tensor(threshold, dtype=torch.float64).isnan().any():
            raise ValueError("threshold is NaN, above which no score is")
        shape = tuple(torch.as_tensor(threshold).shape)
        if shape not in ((), (num_labels,)):
            raise ValueError(f"threshold has shape {shape}, expected a number or ({num_labels},)")
        self.num_labels, self.empty, self.ks = num_labels, empty, tuple(ks)
        self.threshold = threshold
        for name, value in _states(self._no_samples()).items():
            self.add_state(name, value, dist_reduce_fx="sum")
        # A collection lets metrics share their sums whose states have the same names and values
        # after one batch, which those of two thresholds may have by chance.
        self.add_state(_name_of(threshold), torch.zeros(()), dist_reduce_fx="sum")

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch.

        Args:
            preds: scores, shape (samples, labels).
            target: true labels of the same shape, 0 or 1.
        """
        # In the scores' own dtype a threshold would be rounded, to a whole number for integers.
        threshold = torch.as_tensor(self.threshold, dtype=torch.float64)
        batch = self._no_samples()
        batch.update(target, preds, preds.detach().cpu().double() > threshold)
        for name, value in _states(batch).items():
            total = getattr(self, name)
            setattr(self, name, total + value.to(total.device))

    def compute(self) -> Any:
        """Each figure by name, as a tensor."""
        device = self.seen.device if isinstance(self.seen, Tensor) else None
        return {
            name: torch.tensor(value, dtype=torch.float64, device=device)
            for name, value in self._figures().items()
        }

    def _figures(self) -> dict[str, float]:
        metrics = self._no_samples()
        for part in _PARTS:
            totals = getattr(metrics, part)
            arrays = {
                name: getattr(self, f"{part[1:]}_{name}").cpu().numpy() for name in totals.arrays()
            }
            numbers = {name: a.item() if a.ndim == 0 else a for name, a in arrays.items()}
            setattr(metrics, part, type(totals)(**numbers))
        metrics._seen = self.seen.cpu().numpy()
        return metrics.compute()

    def _no_samples(self) -> _MetricSet:
        return _MetricSet(self.num_labels, empty=self.empty, ks=self.ks)


def _name_of(threshold: float | Sequence[float]) -> str:
    """A name of its own for each threshold."""
    numbers = torch.as_tensor(threshold, dtype=torch.float64) + 0.0  # and not -0
    return f"cut_at_{hashlib.sha256(numbers.numpy().tobytes()).hexdigest()[:16]}"


def _states(metrics: _MetricSet) -> dict[str, Tensor]:
    """The sums that a set of metrics holds, by names of their own."""
    states = {
        f"{part[1:]}_{name}": torch.tensor(array)
        for part in _PARTS
        for name, array in getattr(metrics, part).arrays().items()
    }
    return {**states, "seen": torch.tensor(metrics._seen)}


class _OneMetric(MetricSet):
    """One figure of the set."""

    figure: ClassVar[str]
    is_differentiable = False
    higher_is_better = True

    def __init__(
        self,
        num_labels: int,
        *,
        threshold: float | Sequence[float] = 0.0,
        empty: Empty = "paper",
        **settings: Any,
    ) -> None:
        super().__init__(num_labels, threshold=threshold, empty=empty, ks=(), **settings)

    def compute(self) -> Any:
        """The figure, a tensor without dimensions."""
        value = self._figures()[self.figure]
        return torch.tensor(value, dtype=torch.float64, device=self.seen.device)


class SubsetAccuracy(_OneMetric):
    """`zlpr.metrics.subset_accuracy`."""

    figure = "subset_accuracy"


class ExampleF1(_OneMetric):
    """`zlpr.metrics.example_f1`, which torchmetrics does not have.

    Examples:
        >>> metric = ExampleF1(num_labels=2)
        >>> metric(torch.tensor([[1.0, 2.0]]), torch.tensor([[1, 0]]))
        tensor(0.6667, dtype=torch.float64)
    """

    figure = "example_f1"


class MicroF1(_OneMetric):
    """`zlpr.metrics.micro_f1`."""

    figure = "micro_f1"


class MacroF1(_OneMetric):
    """`zlpr.metrics.macro_f1`."""

    figure = "macro_f1"


class AveragePrecision(_OneMetric):
    """`zlpr.metrics.average_precision`."""

    figure = "average_precision"


class RankingLoss(_OneMetric):
    """`zlpr.metrics.ranking_loss`; smaller is better."""

    figure = "ranking_loss"
    higher_is_better = False

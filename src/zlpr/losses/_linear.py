"""From the arguments of a linear loss to a sweep over its labels."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from zlpr.losses._arguments import (
    Weight,
    check_indices,
    check_mask,
    check_number,
    check_weight,
)
from zlpr.losses._tiles import (
    Kernels,
    LabelGroup,
    LabelTerms,
    LogSumTally,
    Positives,
    Sweep,
    SweptLoss,
    Tally,
    tile_width,
)
from zlpr.losses.weight_step import WeightStep

Impl = Literal["auto", "recompute", "store", "dense"]

# Stored values may add this share to the weight and its gradient, which a step holds anyway.
STORE_SHARE = 1 / 8
KERNEL_DEVICES = ("cuda",)


@dataclass(frozen=True)
class LabelArguments:
    """What a loss is told about its labels, checked, with the leading dimensions made one.

    Attributes:
        cells: A stand-in for the scores, shape (..., L), in their dtype, on the meta device.
        indices: Positive labels, padded with -1, shape (..., K).
        threshold: A number, or shape (L,) or (..., 1).
        label_mask: Shape (L,) or (..., L).
        label_weight: A number, or shape (L,) or (..., L).
        pos_weight: A number, or shape (L,) or (..., L).
        first_label: The index of column 0, where the columns are a slice of all labels.
    """

    cells: Tensor
    indices: Tensor
    threshold: Weight = 0.0
    label_mask: Tensor | None = None
    label_weight: Weight | None = None
    pos_weight: Weight | None = None
    first_label: int = 0

    def __post_init__(self) -> None:
        check_indices(self.indices, self.cells, num_labels=None)
        check_threshold(self.threshold, self.cells.shape)
        check_mask(self.cells, self.label_mask)
        check_weight("label_weight", self.label_weight, self.cells)
        check_weight("pos_weight", self.pos_weight, self.cells)

    @property
    def leading(self) -> torch.Size:
        """The shape of a loss per sample."""
        return self.cells.shape[:-1]

    @property
    def num_labels(self) -> int:
        """Columns."""
        return self.cells.shape[-1]

    @cached_property
    def flat_indices(self) -> Tensor:
        """Indices, shape (B, K)."""
        return self.indices.reshape(self.leading.numel(), self.indices.shape[-1])

    @cached_property
    def positives(self) -> Positives:
        """The positive pairs among the columns."""
        return Positives.from_indices(self.flat_indices, self.first_label, self.num_labels)

    def targets(self) -> Tensor:
        """Boolean targets, shape (..., L)."""
        targets = torch.zeros_like(self.cells, dtype=torch.bool, device=self.indices.device)
        rows, labels = self.positives.rows, self.positives.labels
        targets.view(self.leading.numel(), self.num_labels)[rows, labels] = True
        return targets

    def thresholds(self) -> tuple[Tensor | None, Tensor]:
        """The threshold per label, shape (L,), if it is one, and that per sample, shape (B,)."""
        threshold = torch.as_tensor(self.threshold, device=self.indices.device)
        threshold = threshold.to(self.cells.dtype)
        if threshold.dim() == 1 and threshold.shape != (*self.leading, 1):
            return threshold, threshold.new_zeros(self.leading.numel())
        return None, threshold.expand(*self.leading, 1).reshape(-1)

    def terms(self) -> tuple[Positives, LabelTerms]:
        """The known positives, and masks and weights as a tally takes them."""
        mask, positives = self._flat(self.label_mask), self.positives
        if mask is not None:
            positives = positives.where(positives.gather(mask))
        label_weight = self._weight("label_weight", self.label_weight)
        pos_weight = self._weight("pos_weight", self.pos_weight)
        given = [positives.gather(each) for each in (label_weight, pos_weight) if each is not None]
        padded = positives.padded(math.prod(given[1:], start=given[0]), 1.0) if given else None
        return positives, LabelTerms(label_weight, mask, padded)

    def _weight(self, name: str, weight: Weight | None) -> Tensor | None:
        if weight is None:
            return None
        values = torch.as_tensor(weight, dtype=self.cells.dtype, device=self.indices.device)
        if values.requires_grad and torch.is_grad_enabled():
            raise ValueError(f"{name} gets no gradient here; detach it, or use `sparse_zlpr_loss`")
        return self._flat(values.expand(self.num_labels) if values.dim() == 0 else values)

    def _flat(self, values: Tensor | None) -> Tensor | None:
        if values is None or values.dim() == 1:
            return values
        return values.reshape(self.leading.numel(), self.num_labels)


@dataclass(frozen=True)
class LinearHead:
    """A linear layer and the batch it works on.

    Attributes:
        features: Shape (..., F).
        weight: Shape (L, F).
        bias: Shape (L,), or None.
    """

    features: Tensor
    weight: Tensor
    bias: Tensor | None

    def __post_init__(self) -> None:
        check_layer(self.features, self.weight, self.bias)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of scores and sums."""
        inputs = torch.promote_types(self.features.dtype, self.weight.dtype)
        return torch.promote_types(inputs, torch.float32)

    @property
    def cells(self) -> Tensor:
        """A stand-in for the scores, without memory."""
        shape = (*self.features.shape[:-1], self.weight.shape[0])
        return torch.empty(shape, dtype=self.dtype, device="meta")

    def flat_features(self) -> Tensor:
        """Features, shape (B, F)."""
        num_samples = self.features.shape[:-1].numel()
        return self.features.reshape(num_samples, self.features.shape[-1])

    def bias_less(self, threshold: Tensor | None) -> Tensor | None:
        """The bias, in the dtype of the sums, with a threshold per label taken off."""
        bias = None if self.bias is None else self.bias.to(self.dtype)
        if threshold is None:
            return bias
        return -threshold if bias is None else bias - threshold

    def scores(self) -> Tensor:
        """All scores, shape (..., L)."""
        with torch.autocast(self.weight.device.type, enabled=False):
            return F.linear(
                self.features.to(self.dtype), self.weight.to(self.dtype), self.bias_less(None)
            )


def linear_losses(
    head: LinearHead,
    labels: LabelArguments,
    tally: Callable[[Tensor, LabelTerms], Tally],
    dense: Callable[[Tensor, LabelArguments], Tensor],
    *,
    impl: Impl = "auto",
    weight_step: WeightStep | None = None,
) -> Tensor:
    """The loss of every sample, shape (...).

    Args:
        head: The layer and its batch.
        labels: What is known of the labels.
        tally: Makes the loss's tally for a sweep.
        dense: The same losses from all scores.
        impl: How, or "auto".
        weight_step: Applied to the weight in the backward sweep.
    """
    check_indices(labels.indices, labels.cells, num_labels=labels.num_labels)
    check_step(head.weight, impl, weight_step)
    impl = choose(head, weight_step) if impl == "auto" else impl
    if impl == "dense":
        return dense(head.scores(), labels)
    return swept_losses(head, labels, tally, store=impl == "store", weight_step=weight_step)


def swept_losses(
    head: LinearHead,
    labels: LabelArguments,
    tally: Callable[[Tensor, LabelTerms], Tally],
    *,
    store: bool = False,
    weight_step: WeightStep | None = None,
    group: LabelGroup | None = None,
) -> Tensor:
    """The loss of every sample, shape (...), by a sweep over the labels."""
    threshold, bound = labels.thresholds()
    positives, terms = labels.terms()
    made = tally(bound.detach(), terms)
    sweep = Sweep(
        positives,
        made,
        width=tile_width(len(bound), labels.num_labels, head.dtype, head.weight.device),
        store=store and torch.is_grad_enabled(),
        weight_step=weight_step,
        group=group,
        kernels=None if store else find_kernels(head, made),
    )
    losses: Tensor = SweptLoss.apply(  # type: ignore[no-untyped-call]
        head.flat_features(), head.weight, head.bias_less(threshold), bound, sweep
    )
    return losses.view(labels.leading)


def find_kernels(head: LinearHead, tally: Tally) -> Kernels | None:
    """Kernels that can make this head's tiles on its device, if triton is installed."""
    given = [each for each in (tally.terms.weight, tally.terms.mask) if each is not None]
    fits = isinstance(tally, LogSumTally) and all(each.dim() == 1 for each in given)
    if not (fits and has_kernels(head)):
        return None
    from zlpr.losses._triton_linear import TritonKernels

    return TritonKernels(tally.terms.offsets())


def has_kernels(head: LinearHead) -> bool:
    """Whether there are kernels for the head's device and dtype."""
    served = head.weight.device.type in KERNEL_DEVICES and head.dtype == torch.float32
    return served and find_spec("triton") is not None


def choose(head: LinearHead, weight_step: WeightStep | None) -> Impl:
    """The fastest way that hardly adds to the memory a step holds anyway."""
    num_labels, num_samples = head.weight.shape[0], head.features.shape[:-1].numel()
    width = tile_width(num_samples, num_labels, head.dtype, head.weight.device)
    if width >= num_labels and weight_step is None:
        return "dense"
    held = head.weight.numel() * head.weight.itemsize * (2 if weight_step is None else 1)
    stored = num_samples * num_labels * torch.float16.itemsize
    # A kernel makes scores again on the chip, sooner than memory would bring stored ones.
    return "store" if stored <= STORE_SHARE * held and not has_kernels(head) else "recompute"


def check_layer(features: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """Features (..., F), weight (L, F) and bias (L,) fit together."""
    for name, value in (("features", features), ("weight", weight), ("bias", bias)):
        if isinstance(value, Tensor) and not value.is_floating_point():
            raise TypeError(f"{name} must be floating-point, got {value.dtype}")
    if weight.dim() != 2:
        raise ValueError(
            f"weight must have the shape (labels, features), got {tuple(weight.shape)}"
        )
    if features.dim() == 0 or features.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"features must have the shape (..., {weight.shape[1]}) to fit the weight "
            f"{tuple(weight.shape)}, got {tuple(features.shape)}"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"bias must have the shape ({weight.shape[0]},), got {tuple(bias.shape)}")


def check_threshold(threshold: Weight, shape: torch.Size) -> None:
    """A threshold is a number, one per label or one per sample."""
    if not isinstance(threshold, Tensor):
        check_number("threshold", threshold)
    elif threshold.shape not in ((), shape[-1:], (*shape[:-1], 1)):
        raise ValueError(
            f"threshold must be a number or have the shape {tuple(shape[-1:])} (per label) or "
            f"{(*shape[:-1], 1)} (per sample), got {tuple(threshold.shape)}"
        )


def check_step(weight: Tensor, impl: str, weight_step: WeightStep | None) -> None:
    """A step inside the sweep needs a sweep, and a weight that is being trained."""
    if impl not in get_args(Impl):
        raise ValueError(f"impl must be one of {', '.join(get_args(Impl))}, got {impl!r}")
    if weight_step is None:
        return
    if impl == "dense":
        raise ValueError("weight_step needs a sweep: impl 'auto', 'recompute' or 'store'")
    if not (weight.is_leaf and weight.requires_grad):
        raise ValueError("weight_step needs a weight that is a leaf and requires a gradient")

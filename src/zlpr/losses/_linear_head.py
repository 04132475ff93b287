"""From the arguments of a linear loss to a sweep over its labels."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from zlpr.losses._arguments import (
    Weight,
    Weighting,
    check_indices,
    check_number,
    wants_triton,
)
from zlpr.losses._label_sweep import (
    Kernels,
    LabelGroup,
    LogSumTally,
    Positives,
    Sweep,
    SweptLoss,
    Tally,
    tile_width,
)
from zlpr.losses.optimiser_steps import WeightStep

Impl = Literal["auto", "recompute", "store", "dense"]

# Stored values may add this share to the weight and its gradient, which a step holds anyway.
STORE_SHARE = 1 / 8


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
    indices: Tensor,
    weighting: Weighting,
    tally: type[Tally],
    dense: Callable[[Tensor], Tensor],
    *,
    threshold: Weight = 0.0,
    impl: Impl = "auto",
    weight_step: WeightStep | None = None,
) -> Tensor:
    """The loss of every sample, shape (...).

    Args:
        head: The layer and its batch.
        indices: Positive labels, padded with -1, shape (..., K).
        weighting: Mask and weights.
        tally: The loss's tally for a sweep.
        dense: The same losses from all scores.
        threshold: A number, or shape (L,) or (..., 1).
        impl: How, or "auto".
        weight_step: Applied to the weight in the backward sweep.
    """
    check_indices(indices, head.cells, num_labels=head.weight.shape[0])
    check_step(head.weight, impl, weight_step)
    impl = choose(head, weight_step) if impl == "auto" else impl
    if impl == "dense":
        return dense(head.scores())
    positives = Positives.from_indices(indices, 0, head.weight.shape[0])
    return swept_losses(
        head,
        positives,
        weighting,
        tally,
        threshold=threshold,
        store=impl == "store",
        weight_step=weight_step,
    )


def swept_losses(
    head: LinearHead,
    positives: Positives,
    weighting: Weighting,
    tally: type[Tally],
    *,
    threshold: Weight = 0.0,
    store: bool = False,
    weight_step: WeightStep | None = None,
    group: LabelGroup | None = None,
) -> Tensor:
    """The loss of every sample, shape (...), by a sweep over the labels."""
    device, num_labels = head.weight.device, head.weight.shape[0]
    per_label, bound = split_threshold(threshold, head.cells, device, of_slice=group is not None)
    weighting = weighting.of_tiles(head.cells, device)
    known = positives.known(weighting)
    made = tally(bound.detach(), weighting, known.weights(weighting))
    sweep = Sweep(
        known,
        made,
        width=tile_width(len(bound), num_labels, head.dtype, device),
        store=store and torch.is_grad_enabled(),
        weight_step=weight_step,
        group=group,
        kernels=None if store else find_kernels(head, made),
    )
    losses: Tensor = SweptLoss.apply(  # type: ignore[no-untyped-call]
        head.flat_features(), head.weight, head.bias_less(per_label), bound, sweep
    )
    return losses.view(head.cells.shape[:-1])


def split_threshold(
    threshold: Weight, cells: Tensor, device: torch.device, *, of_slice: bool = False
) -> tuple[Tensor | None, Tensor]:
    """The threshold per label, shape (L,), if it is one, and that per sample, shape (B,).

    Args:
        threshold: A number, or shape (L,) or (..., 1).
        cells: A stand-in for the scores, shape (..., L), in the dtype of their sums.
        device: Where the sums are taken.
        of_slice: Whether others hold further labels. One number in one dimension then is of a
            label, as it would be of the whole by chance where the slice has one label.
    """
    if of_slice and cells.dim() == 1:
        cells = cells[None]
    check_threshold(threshold, cells.shape)
    values = torch.as_tensor(threshold, dtype=cells.dtype, device=device)
    leading = cells.shape[:-1]
    if values.dim() == 1 and values.shape != (*leading, 1):
        return values, values.new_zeros(leading.numel())
    return None, values.expand(*leading, 1).reshape(-1)


def find_kernels(head: LinearHead, tally: Tally) -> Kernels | None:
    """Kernels that can make this head's tiles on its device, if they are asked for."""
    given = [each for each in tally.weighting.tensors() if each.dim() > 1]
    if given or not (isinstance(tally, LogSumTally) and has_kernels(head)):
        return None
    from zlpr.losses._linear_head_triton import TritonKernels

    weight, mask = tally.weighting.label_weight, tally.weighting.label_mask
    if isinstance(weight, Tensor) and mask is not None:
        return TritonKernels(weight * mask)
    return TritonKernels(None if mask is None else mask.float())


def has_kernels(head: LinearHead) -> bool:
    """Whether Triton kernels are asked for and serve the head's dtype."""
    return wants_triton() and head.dtype == torch.float32


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

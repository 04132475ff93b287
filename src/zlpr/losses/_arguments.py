"""Checks of a loss's arguments, and the two coefficients that masks and weights amount to.

Checks of shapes and types always run. Checks of values need to look at the data, which a tracer
(`torch.compile`, `torch.export`, `torch.func.vmap`, a meta tensor) cannot do; there they are
left out.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Weight = Tensor | float


@dataclass(frozen=True)
class Cells:
    """What a loss over cells computes with.

    Attributes:
        scores: Shape (..., L), in the dtype to compute in; 0 where `label_mask` is False, so that
            not even a NaN there reaches the gradient.
        positive: `label_mask * targets * label_weight * pos_weight`, shape (..., L).
        negative: `label_mask * (1 - targets) * label_weight`, shape (..., L).
        mask: `label_mask`, or None where every label is known.
    """

    scores: Tensor
    positive: Tensor
    negative: Tensor
    mask: Tensor | None = None


@dataclass(frozen=True)
class Weighting:
    """Mask and weights, checked; each per label or per cell of the scores.

    Attributes:
        label_mask: Shape (L,) or (..., L), or None.
        label_weight: A number or of shape (), (L,) or (..., L), or None.
        pos_weight: As `label_weight`.
    """

    label_mask: Tensor | None = None
    label_weight: Weight | None = None
    pos_weight: Weight | None = None

    @classmethod
    def check(
        cls,
        scores: Tensor,
        label_mask: Tensor | None,
        label_weight: Weight | None,
        pos_weight: Weight | None = None,
    ) -> "Weighting":
        """Check mask and weights against the scores."""
        if label_mask is None and label_weight is None and pos_weight is None:
            return _NO_WEIGHTING
        check_mask(scores, label_mask)
        return cls(
            label_mask,
            check_weight("label_weight", label_weight, scores),
            check_weight("pos_weight", pos_weight, scores),
        )

    def cells(self, scores: Tensor, targets: Tensor) -> Cells:
        """Fold mask and weights into the coefficients of the cells."""
        scores = scores.to(working_dtype(scores))
        truth = targets.to(scores.dtype)
        positive, negative = truth, 1 - truth
        if self.label_weight is not None:
            positive, negative = positive * self.label_weight, negative * self.label_weight
        if self.pos_weight is not None:
            positive = positive * self.pos_weight
        if self.label_mask is not None:
            scores = torch.where(self.label_mask, scores, 0.0)
            positive, negative = positive * self.label_mask, negative * self.label_mask
        return Cells(scores, positive, negative, self.label_mask)

    def masked_where_zero(self, num_labels: int) -> "Weighting":
        """The same with the labels masked whose weight is 0, be their scores infinite."""
        if self.label_weight is None:
            return self
        counts = torch.as_tensor(self.label_weight, device="cpu") != 0
        if bool(counts.all()):
            return self
        counts = counts.expand(num_labels) if counts.dim() == 0 else counts
        mask = counts if self.label_mask is None else counts & self.label_mask
        return Weighting(mask, self.label_weight, self.pos_weight)

    def flat(self, num_labels: int) -> "Weighting":
        """The same for scores with all leading dimensions in one."""
        return self._each(lambda x: x.reshape(-1, num_labels) if x.dim() > 1 else x)

    def of(self, rows: slice) -> "Weighting":
        """The part for some rows of a score matrix."""
        return self._each(lambda x: x[rows] if x.dim() > 1 else x)

    def tensors(self) -> list[Tensor]:
        """Those of the three that are tensors."""
        if self is _NO_WEIGHTING:
            return []
        parts = (self.label_mask, self.label_weight, self.pos_weight)
        return [part for part in parts if isinstance(part, Tensor)]

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Weighting":
        if self is _NO_WEIGHTING:
            return self
        parts = (self.label_mask, self.label_weight, self.pos_weight)
        return Weighting(*(change(x) if isinstance(x, Tensor) else x for x in parts))  # type: ignore[arg-type]


_NO_WEIGHTING = Weighting()  # the usual case, so that it costs little


def working_dtype(scores: Tensor) -> torch.dtype:
    """The dtype to compute in: sums of half-precision terms are taken in float32."""
    return torch.float64 if scores.dtype is torch.float64 else torch.float32


def check_scores(scores: Tensor, name: str = "scores") -> None:
    """Scores are a floating-point tensor with a dimension of labels."""
    if not isinstance(scores, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(scores).__name__}")
    if not scores.is_floating_point():
        raise TypeError(
            f"{name} must be a floating-point tensor, got {scores.dtype}; "
            "the scores come first, then the targets"
        )
    if scores.dim() == 0:
        raise ValueError(f"{name} must have the shape (..., labels), got a single number")


def check_targets(scores: Tensor, targets: Tensor, *, hard: bool = False) -> None:
    """Targets are like the scores in shape, and hold 0, 1 or, unless `hard`, values between."""
    if not isinstance(targets, Tensor):
        raise TypeError(f"targets must be a tensor, got {type(targets).__name__}")
    if targets.shape != scores.shape:
        raise ValueError(
            f"targets must have the scores' shape {tuple(scores.shape)}, got {tuple(targets.shape)}"
        )
    if targets.is_complex():
        raise TypeError(f"targets must be bool, integer or floating-point, got {targets.dtype}")
    if targets.dtype is torch.bool or targets.numel() == 0:
        return
    low, high = torch.aminmax(targets.detach())
    if not holds((low >= 0) & (high <= 1)):  # NaN fails this, too
        raise ValueError(
            f"targets must lie in [0, 1], got values from {low.item():g} to {high.item():g}; "
            "the scores come first, then the targets"
        )
    if hard and targets.is_floating_point():
        between = (targets.detach() > 0) & (targets.detach() < 1)
        if not holds(~between.any()):
            value = targets.detach()[between][0].item()
            raise ValueError(
                f"targets of this loss must be 0 or 1, got {value:g}: it compares pairs of labels, "
                "which soft targets do not define"
            )


def check_indices(indices: Tensor, scores: Tensor, *, num_labels: int | None) -> None:
    """Indices are integers from -1 (no label) up, with the scores' leading shape.

    Args:
        indices: Shape (..., K).
        scores: Shape (..., L), only looked at for its shape.
        num_labels: How many labels there are, if that is known here.
    """
    if not isinstance(indices, Tensor):
        raise TypeError(f"indices must be a tensor, got {type(indices).__name__}")
    if indices.is_floating_point() or indices.is_complex() or indices.dtype is torch.bool:
        raise TypeError(
            f"indices must be an integer tensor (the positive labels, padded with -1), "
            f"got {indices.dtype}"
        )
    if indices.dim() != scores.dim() or indices.shape[:-1] != scores.shape[:-1]:
        raise ValueError(
            f"indices must have the shape {(*scores.shape[:-1], 'K')} for scores of shape "
            f"{tuple(scores.shape)}, got {tuple(indices.shape)}"
        )
    if indices.numel() == 0:
        return
    low, high = torch.aminmax(indices)
    inside = low >= -1 if num_labels is None else (low >= -1) & (high < num_labels)
    if not holds(inside):
        end = "the number of labels" if num_labels is None else num_labels
        raise ValueError(
            f"indices must lie in [0, {end}) or be -1 for padding, "
            f"got values from {low.item()} to {high.item()}"
        )


def check_mask(scores: Tensor, label_mask: Tensor | None) -> None:
    """A mask is boolean, one per label or one per cell."""
    if label_mask is None:
        return
    if not isinstance(label_mask, Tensor) or label_mask.dtype is not torch.bool:
        kind = label_mask.dtype if isinstance(label_mask, Tensor) else type(label_mask).__name__
        raise TypeError(f"label_mask must be a boolean tensor (True = known label), got {kind}")
    if label_mask.shape not in (scores.shape, scores.shape[-1:]):
        raise ValueError(
            f"label_mask must have the shape {tuple(scores.shape[-1:])} or "
            f"{tuple(scores.shape)}, got {tuple(label_mask.shape)}"
        )


def check_weight(name: str, weight: Weight | None, scores: Tensor) -> Weight | None:
    """A weight is a number, one per label or one per cell; not negative."""
    if weight is None:
        return None
    if not isinstance(weight, Tensor):
        return check_number(name, weight, minimum=0.0)
    if weight.shape not in ((), scores.shape, scores.shape[-1:]):
        raise ValueError(
            f"{name} must be a number or have the shape {tuple(scores.shape[-1:])} or "
            f"{tuple(scores.shape)}, got {tuple(weight.shape)}"
        )
    if not holds((weight.detach() >= 0).all()):  # NaN fails this, too
        raise ValueError(f"{name} must not be negative, got {weight.min().item():g}")
    if not holds(torch.isfinite(weight.detach()).all()):
        raise ValueError(f"{name} must be finite, got {weight.max().item():g}")
    return weight.to(working_dtype(scores))


def check_number(
    name: str,
    value: float,
    *,
    minimum: float = float("-inf"),
    above: float = float("-inf"),
    below: float = float("inf"),
) -> float:
    """A finite number in the given range."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, got {type(value).__name__}")
    limits = [
        (math.isfinite(value), "finite"),
        (value >= minimum, f"at least {minimum:g}"),
        (value > above, f"above {above:g}"),
        (value < below, f"below {below:g}"),
    ]
    for kept, wanted in limits:
        if not kept:
            raise ValueError(f"{name} must be {wanted}, got {value}")
    return float(value)


def check_label_counts(scores: Tensor, label_counts: Tensor, num_samples: int) -> Tensor:
    """Counts are how many of the `num_samples` training samples carry each label.

    Returns:
        The counts in the dtype to compute in, a label without any sample counted as if it had one.
    """
    if not isinstance(label_counts, Tensor):
        raise TypeError(f"label_counts must be a tensor, got {type(label_counts).__name__}")
    if label_counts.shape != scores.shape[-1:]:
        raise ValueError(
            f"label_counts must have the shape {tuple(scores.shape[-1:])}, one count per label, "
            f"got {tuple(label_counts.shape)}"
        )
    if not isinstance(num_samples, int) or num_samples < 1:
        raise ValueError(f"num_samples must be an integer of at least 1, got {num_samples!r}")
    if label_counts.numel() > 0:
        low, high = torch.aminmax(label_counts)
        if not holds((low >= 0) & (high <= num_samples)):
            raise ValueError(
                f"label_counts must lie between 0 and num_samples={num_samples}, "
                f"got values from {low.item():g} to {high.item():g}"
            )
    return label_counts.to(working_dtype(scores)).clamp(min=1)


def holds(condition: Tensor) -> bool:
    """Whether a condition on data is true; True where the data cannot be looked at."""
    if torch.compiler.is_compiling():
        return True
    try:
        return bool(condition)
    except RuntimeError:  # inside vmap, on the meta device, or on a fake tensor
        return True

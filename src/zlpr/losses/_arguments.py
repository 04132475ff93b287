"""Checks of a loss's arguments, and the two coefficients that masks and weights amount to.

Checks of shapes and types always run. Checks of values need to look at the data, which a tracer
(`torch.compile`, `torch.export`, `torch.func.vmap`, a meta tensor) cannot do; there they are
left out.
"""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils.weak import WeakTensorKeyDictionary

Weight = Tensor | float
# Weights within these bounds cannot make a term count that is lost beside the largest one.
MODERATE = (2.0**-20, 2.0**20)


@dataclass(frozen=True)
class Weighting:
    """Mask and weights, checked; each per label or per cell of the scores.

    Attributes:
        label_mask: Shape (L,) or (..., L), or None.
        label_weight: A number or of shape (), (L,) or (..., L), or None.
        pos_weight: As `label_weight`.
        is_moderate: Whether no weight is known to be, or may be, 0, tiny or huge.
    """

    label_mask: Tensor | None = None
    label_weight: Weight | None = None
    pos_weight: Weight | None = None
    is_moderate: bool = False

    @classmethod
    def check(
        cls,
        scores: Tensor,
        label_mask: Tensor | None,
        label_weight: Weight | None,
        pos_weight: Weight | None = None,
        *,
        largest: float = math.inf,
    ) -> "Weighting":
        """Check mask and weights against the scores; larger weights count as the largest."""
        if label_mask is None and label_weight is None and pos_weight is None:
            return NO_WEIGHTING
        check_mask(scores, label_mask)
        weight, bounds = checked_weight("label_weight", label_weight, scores)
        positive, positive_bounds = checked_weight("pos_weight", pos_weight, scores)
        if max(bounds[1], positive_bounds[1]) > largest:
            weight, positive = at_most(weight, largest), at_most(positive, largest)
        if weight is not None and positive is not None:  # their product must be a number, too
            most = min(torch.finfo(working_dtype(scores)).max / 2, largest)
            if bounds[1] * positive_bounds[1] > most:
                positive = _held_product(positive, weight, most)
        lowest, highest = min(bounds[0], positive_bounds[0]), max(bounds[1], positive_bounds[1])
        return cls(label_mask, weight, positive, MODERATE[0] <= lowest and highest <= MODERATE[1])

    def coefficients(self, targets: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """What the cells count for on the positive and on the negative side, each (..., L).

        `mask * targets * label_weight * pos_weight` and `mask * (1 - targets) * label_weight`,
        differentiable.
        """
        positive = targets.to(dtype)
        negative = 1 - positive
        # The weights first: what is no positive label then has no slope, be its term infinite.
        weight, both = self.label_weight, self.pos_weight
        if weight is not None:
            negative, both = negative * weight, weight if both is None else weight * both
        if both is not None:
            positive = positive * both
        if self.label_mask is not None:
            positive, negative = positive * self.label_mask, negative * self.label_mask
        return positive, negative

    def of_tiles(self, cells: Tensor, device: torch.device) -> "Weighting":
        """The same as tensors of shape (L,) or (B, L), from which a tile of labels can be cut.

        A label without weight is masked, be its score infinite.

        Args:
            cells: A stand-in for the scores, shape (..., L), in the dtype of their sums.
            device: Where the sums are taken.
        """
        if self is NO_WEIGHTING:
            return self
        num_labels = cells.shape[-1]
        label_weight, pos_weight = (
            _weight_of_labels(name, weight, cells, device)
            for name, weight in (
                ("label_weight", self.label_weight),
                ("pos_weight", self.pos_weight),
            )
        )
        mask = self.label_mask
        if label_weight is not None:
            counts = label_weight != 0
            mask = counts if mask is None else mask & counts
        return Weighting(mask, label_weight, pos_weight).flat(num_labels)

    def flat(self, num_labels: int) -> "Weighting":
        """The same for scores with all leading dimensions in one."""
        return self._each(
            lambda x: x.reshape(x.shape[:-1].numel(), num_labels) if x.dim() > 1 else x
        )

    def of(self, rows: slice) -> "Weighting":
        """The part for some rows of a score matrix."""
        return self._each(lambda x: x[rows] if x.dim() > 1 else x)

    def tensors(self) -> list[Tensor]:
        """Those of the three that are tensors."""
        if self is NO_WEIGHTING:
            return []
        parts = (self.label_mask, self.label_weight, self.pos_weight)
        return [part for part in parts if isinstance(part, Tensor)]

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Weighting":
        if self is NO_WEIGHTING:
            return self
        parts = (self.label_mask, self.label_weight, self.pos_weight)
        mask, weight, positive = (change(x) if isinstance(x, Tensor) else x for x in parts)
        return Weighting(mask, weight, positive, self.is_moderate)  # type: ignore[arg-type]


NO_WEIGHTING = Weighting(is_moderate=True)  # the usual case, so that it costs little


def _weight_of_labels(
    name: str, weight: Weight | None, cells: Tensor, device: torch.device
) -> Tensor | None:
    """A weight as a tensor of shape (L,) or (..., L), where it gets no gradient."""
    if weight is None:
        return None
    values = torch.as_tensor(weight, dtype=cells.dtype, device=device)
    if values.requires_grad and torch.is_grad_enabled():
        raise ValueError(f"{name} gets no gradient here; detach it, or use `sparse_zlpr_loss`")
    return values.expand(cells.shape[-1]) if values.dim() == 0 else values


def at_most(weight: Weight | None, largest: float) -> Weight | None:
    """A weight, or the largest where it is more."""
    if weight is None:
        return None
    return weight.clamp(max=largest) if isinstance(weight, Tensor) else min(weight, largest)


def _held_product(positive: Weight, weight: Weight, most: float) -> Weight:
    """A positive weight whose product with the label weight is, cell by cell, at most a number."""
    if not isinstance(weight, Tensor) and not isinstance(positive, Tensor):
        return min(positive, most / max(weight, 1.0))
    like = weight if isinstance(weight, Tensor) else torch.as_tensor(positive)
    limit = most / torch.as_tensor(weight, dtype=like.dtype, device=like.device).clamp(min=1.0)
    return torch.minimum(torch.as_tensor(positive, dtype=like.dtype, device=like.device), limit)


def working_dtype(scores: Tensor) -> torch.dtype:
    """The dtype to compute in: sums of half-precision terms are taken in float32."""
    return torch.float64 if scores.dtype is torch.float64 else torch.float32


def as_numbers(targets: Tensor, dtype: torch.dtype) -> Tensor:
    """Targets in a floating-point dtype."""
    return as_bytes(targets).to(dtype)


def as_bytes(targets: Tensor) -> Tensor:
    """Booleans as bytes, which become numbers six times as fast; other targets as they are."""
    return targets.view(torch.uint8) if targets.dtype is torch.bool else targets


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
    if targets.dtype is torch.bool:
        return
    if not hard and targets.numel() > 0 and can_look_at(targets) and lie_within(targets, 0.0, 1.0):
        return
    low, high = extremes(targets)
    if not (low >= 0 and high <= 1):  # NaN fails this, too
        raise ValueError(
            f"targets must lie in [0, 1], got values from {low:g} to {high:g}; "
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
    low, high = extremes(indices, otherwise=-1)
    if low < -1 or (num_labels is not None and high >= num_labels):
        end = "the number of labels" if num_labels is None else num_labels
        raise ValueError(
            f"indices must lie in [0, {end}) or be -1 for padding, got values from {low} to {high}"
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
    return checked_weight(name, weight, scores)[0]


def checked_weight(
    name: str, weight: Weight | None, scores: Tensor
) -> tuple[Weight | None, tuple[float, float]]:
    """A weight as `check_weight` gives it, and its extremes; 0 where they cannot be seen."""
    if weight is None:
        return None, (1.0, 1.0)
    if not isinstance(weight, Tensor):
        number = check_number(name, weight, minimum=0.0)
        return number, (number, number)
    if weight.shape not in ((), scores.shape, scores.shape[-1:]):
        raise ValueError(
            f"{name} must be a number or have the shape {tuple(scores.shape[-1:])} or "
            f"{tuple(scores.shape)}, got {tuple(weight.shape)}"
        )
    low, high = _extremes_of_weight(weight)
    if not low >= 0:  # NaN fails this, too
        raise ValueError(f"{name} must not be negative, got {low:g}")
    if math.isinf(high):
        raise ValueError(f"{name} must be finite, got {high:g}")
    return weight.to(working_dtype(scores)), (low, high)


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
    low, high = extremes(label_counts)
    if not (low >= 0 and high <= num_samples):
        raise ValueError(
            f"label_counts must lie between 0 and num_samples={num_samples}, "
            f"got values from {low:g} to {high:g}"
        )
    return label_counts.to(working_dtype(scores)).clamp(min=1)


_KNOWN_EXTREMES = WeakTensorKeyDictionary()


def _extremes_of_weight(weight: Tensor) -> tuple[float, float]:
    """As `extremes`; where that waits for a device, looked at again only after a change.

    The same weights come with every batch. A change through `.data` is not counted as one, so that
    the values of a weight that is in reach are always looked at.
    """
    if not (can_look_at(weight) and _waits_for_device(weight)):
        return extremes(weight)
    if weight.is_inference():  # such tensors do not count their changes
        return extremes(weight)
    version, known = _KNOWN_EXTREMES.get(weight, (None, None))  # type: ignore[no-untyped-call]
    if known is None or version != weight._version:
        known = extremes(weight)
        _KNOWN_EXTREMES[weight] = weight._version, known
    return known  # type: ignore[no-any-return]


def _waits_for_device(tensor: Tensor) -> bool:
    return tensor.device.type != "cpu"


def extremes(values: Tensor, otherwise: float = 0) -> tuple[float, float]:
    """The smallest and the largest value; `otherwise` where none is there or can be looked at."""
    if values.numel() == 0 or not can_look_at(values):
        return otherwise, otherwise
    low, high = torch.aminmax(values.detach())
    return low.item(), high.item()


# The bits of numbers from 0 on are ordered as the numbers are, with NaN after infinity, and the
# extremes of many integers are found two to three times as fast (not so of 64 bits).
MANY = 1 << 13
_BITS = {torch.float32: torch.int32, torch.float16: torch.int16, torch.bfloat16: torch.int16}


def lie_within(values: Tensor, low: float, high: float) -> bool:
    """Whether all numbers lie in [low, high], both from 0 on; may be False for -0.0."""
    if values.requires_grad:
        values = values.detach()
    kind = _BITS.get(values.dtype)
    if kind is None or values.numel() < MANY:
        least, most = torch.aminmax(values)
        return low <= least.item() and most.item() <= high
    least, most = torch.aminmax(values.view(kind))
    return _bits(low, values.dtype) <= least.item() and most.item() <= _bits(high, values.dtype)


@cache
def _bits(number: float, dtype: torch.dtype) -> int:
    """A number's bits as an integer."""
    return int(torch.tensor(number, dtype=dtype, device="cpu").view(_BITS[dtype]).item())


# The Triton kernels are tested by Triton's interpreter; they have not been measured on hardware.
ASKS_FOR_TRITON = os.environ.get("ZLPR_TRITON", "") == "1"


def wants_triton() -> bool:
    """Whether `ZLPR_TRITON=1` was in the environment when this was imported."""
    return ASKS_FOR_TRITON


def can_look_at(values: Tensor) -> bool:
    """Whether a tensor holds numbers here, not a tracer's marks or a batch of them."""
    if torch.compiler.is_compiling():
        return False
    try:
        return values.data_ptr() != 0 or values.device.type != "meta"
    except RuntimeError:  # a fake tensor, or within torch.func's transforms
        return False


def may_have_slope(values: Tensor) -> bool:
    """Whether a gradient may be wanted in a tensor; True where that cannot be seen."""
    if values.requires_grad or not can_look_at(values):
        return True
    tangent = forward_ad.unpack_dual(values).tangent  # type: ignore[no-untyped-call]
    return tangent is not None


def holds(condition: Tensor) -> bool:
    """Whether a condition on data is true; True where the data cannot be looked at."""
    if torch.compiler.is_compiling():
        return True
    try:
        return bool(condition)
    except RuntimeError:  # inside vmap, on the meta device, or on a fake tensor
        return True

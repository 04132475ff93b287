"""The sweep over label tiles that stands under the linear losses and their sharded form.

A linear head gives `scores = features @ weight.T + bias`, one column per label. With 10^6 labels
the scores are what breaks memory first, and nothing needs them whole: the losses here are sums
over labels, so a tile of scores lives only as long as it takes to add it up. The forward sweep
leaves a few numbers per sample (a `Tally`); the backward sweep makes each tile again, or takes it
from a half-precision copy, turns it into slopes (derivatives by the scores) and multiplies them
into the gradients.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from zlpr.losses._arguments import Weighting
from zlpr.losses._cells import largest_score
from zlpr.losses._logsumexp import exponentiate, softplus
from zlpr.losses._zlpr_and_gradient import LINEAR_FROM
from zlpr.losses.optimiser_steps import WeightStep

# A tile of scores that stays in a CPU's second-level cache; a GPU wants more work per launch.
TILE_BYTES = {"cpu": 2 * 2**20}
TILE_BYTES_ELSEWHERE = 64 * 2**20
# Exponentials kept in half precision lie in [0, 1]; this factor moves them to the upper end of
# float16's range, so that only those below 2e-12 of the largest are lost.
KEPT_SCALE = 2.0**15


@dataclass(frozen=True)
class Positives:
    """The distinct positive (sample, label) pairs of a slice of labels, by ascending label.

    Attributes:
        rows: Sample of each pair, shape (P,).
        labels: Label of each pair, counted from the slice's first, shape (P,).
        slots: Column of each pair in the padded (B, K) layout of the indices, shape (P,).
        shape: That layout, (B, K).
    """

    rows: Tensor
    labels: Tensor
    slots: Tensor
    shape: tuple[int, int]

    @classmethod
    def from_indices(cls, indices: Tensor, first_label: int, num_labels: int) -> "Positives":
        """Take the pairs with labels in [first_label, first_label + num_labels).

        Args:
            indices: Positive labels per sample, padded with -1, repeats allowed, shape (..., K).
            first_label: The slice's first label.
            num_labels: The slice's labels.
        """
        indices = indices.reshape(indices.shape[:-1].numel(), indices.shape[-1])
        ordered = indices.long().sort(dim=1).values
        wanted = distinct(ordered)
        wanted &= (ordered >= first_label) & (ordered < first_label + num_labels)
        rows, slots = wanted.nonzero(as_tuple=True)
        labels = ordered[rows, slots] - first_label
        order = labels.argsort(stable=True)
        return cls(rows[order], labels[order], slots[order], (indices.shape[0], indices.shape[1]))

    def counts(self) -> Tensor:
        """Pairs per sample, shape (B,)."""
        return torch.bincount(self.rows, minlength=self.shape[0])

    def where(self, chosen: Tensor) -> "Positives":
        """Keep the pairs for which `chosen`, shape (P,), is true."""
        return Positives(self.rows[chosen], self.labels[chosen], self.slots[chosen], self.shape)

    def gather(self, values: Tensor) -> Tensor:
        """The value of each pair, from a number, a value per label or one per cell."""
        return values.expand(self.shape[0], -1)[self.rows, self.labels]

    def known(self, weighting: Weighting) -> "Positives":
        """Keep the pairs that are not masked."""
        mask = weighting.label_mask
        return self if mask is None else self.where(self.gather(mask))

    def weights(self, weighting: Weighting) -> Tensor | None:
        """The weight of each pair in the padded layout, shape (B, K); None for 1."""
        given = [
            self.gather(weight)
            for weight in (weighting.label_weight, weighting.pos_weight)
            if isinstance(weight, Tensor)
        ]
        return self.padded(math.prod(given[1:], start=given[0]), 1.0) if given else None

    def padded(self, values: Tensor, fill: float) -> Tensor:
        """Lay one value per pair out as (B, K), with `fill` where there is no pair."""
        return values.new_full(self.shape, fill).index_put_((self.rows, self.slots), values)


def distinct(ordered: Tensor) -> Tensor:
    """Where a sample's ascending indices name a label for the first time; -1 names none."""
    first = ordered >= 0
    first[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return first


@dataclass(frozen=True)
class Tile:
    """A run of labels and the positive pairs in it."""

    labels: slice
    rows: Tensor
    columns: Tensor
    slots: Tensor

    @property
    def width(self) -> int:
        """Number of labels."""
        return int(self.labels.stop - self.labels.start)


def tiles(positives: Positives, num_labels: int, width: int) -> Iterator[Tile]:
    """Cut the labels into runs of at most `width`."""
    starts = list(range(0, num_labels, width))
    edges = torch.tensor([*starts, num_labels], device=positives.labels.device)
    pairs = torch.searchsorted(positives.labels, edges).tolist()
    for start, first, last in zip(starts, pairs, pairs[1:], strict=False):
        yield Tile(
            labels=slice(start, min(start + width, num_labels)),
            rows=positives.rows[first:last],
            columns=positives.labels[first:last] - start,
            slots=positives.slots[first:last],
        )


def tile_width(num_samples: int, num_labels: int, dtype: torch.dtype, device: torch.device) -> int:
    """Labels per tile: as many as the tile's bytes allow, in whole cache lines and vectors."""
    room = TILE_BYTES.get(device.type, TILE_BYTES_ELSEWHERE) // dtype.itemsize
    return max(1, min(num_labels, max(128, room // max(num_samples, 1) // 128 * 128)))


@dataclass
class LogSum:
    """A sum of exponentials per sample, as `total * e^maximum`, that never overflows.

    Attributes:
        largest: What larger exponents, and infinite ones, count as.
    """

    maximum: Tensor
    total: Tensor
    largest: float

    @classmethod
    def empty(cls, floor: Tensor, largest: float | None = None) -> "LogSum":
        """Start with nothing; `floor` is a first, finite value for the maximum."""
        if largest is None:
            largest = torch.finfo(floor.dtype).max
        return cls(floor.clone(), torch.zeros_like(floor), largest)

    def add_(self, exponents: Tensor, weight: Tensor | None) -> None:
        """Add weight * e^exponents of shape (B, N); leaves them, times e^-maximum, in `exponents`.

        The weight is multiplied by, since added to a large score as a logarithm it would be lost;
        that decides about the maximum alone. What has the weight 0 is to be minus infinity.
        """
        if exponents.shape[1] == 0:
            return
        exponents.clamp_(max=self.largest)
        counted = exponents if weight is None else exponents + weight.log()
        maximum = torch.maximum(self.maximum, counted.amax(dim=1))
        exponentiate(exponents, maximum)
        if weight is not None:
            exponents.mul_(weight)
        self.rescale_(maximum)
        self.total += exponents.sum(dim=1)

    def rescale_(self, maximum: Tensor) -> None:
        """Express the same sum by another maximum."""
        self.total = self.total * (self.maximum - maximum).exp()
        self.maximum = maximum

    def log(self) -> Tensor:
        """Logarithm of the sum; minus infinity where it is empty."""
        return self.maximum + self.total.log()

    def log_excess(self, bound: Tensor) -> Tensor:
        """`log(e^bound + sum) - bound`, exact also where the sum is tiny beside the bound."""
        return F.softplus(self.maximum - bound + self.total.log(), threshold=LINEAR_FROM)


class Tally(ABC):
    """What a loss keeps per sample during the forward sweep, and its slopes afterwards.

    Args:
        bound: Of each sample, shape (B,), for losses that have one.
        weighting: Mask and weights of the labels; one without weight is masked.
        positive_weight: Weight of each positive in the padded layout, shape (B, K).
    """

    def __init__(self, bound: Tensor, weighting: Weighting, positive_weight: Tensor | None) -> None:
        self.bound = bound
        self.weighting = weighting
        self.positive_weight = positive_weight

    def weight_(self, values: Tensor, labels: slice) -> None:
        """Multiply a tile by the labels' weights, if there are any."""
        weight = self.weighting.label_weight
        if weight is not None:
            values.mul_(weight[..., labels] if isinstance(weight, Tensor) else weight)

    def silence_(self, scores: Tensor, labels: slice) -> None:
        """Take the labels out of a tile that do not count, being masked or without weight."""
        mask = self.weighting.label_mask
        if mask is not None:
            scores.masked_fill_(~mask[..., labels], -torch.inf)

    def hold_(self, scores: Tensor) -> None:  # noqa: B027 - most losses take scores as they are
        """Hold a tile's scores to the numbers that larger ones, and infinite ones, count as."""

    @abstractmethod
    def add_(self, scores: Tensor, labels: slice) -> None:
        """Take in a tile whose positives are minus infinity; may overwrite it."""

    @abstractmethod
    def kept(self, scores: Tensor) -> tuple[Tensor, Tensor | None]:
        """After `add_`: values in [0, 1] and a number per sample that give the slopes back."""

    @abstractmethod
    def settle(self, positive_scores: Tensor) -> Tensor:
        """Take in the positives' scores, plus infinity as padding, (B, K); give the losses."""

    @abstractmethod
    def slopes_(self, scores: Tensor, labels: slice) -> None:
        """Turn a tile's scores into slopes, up to `scale`; positives do not matter."""

    @abstractmethod
    def slopes_from_kept_(self, values: Tensor, reference: Tensor | None, labels: slice) -> None:
        """Turn what `kept` gave, times KEPT_SCALE, into slopes, up to `scale`."""

    @abstractmethod
    def positive_slopes(self) -> Tensor:
        """Slopes of the positives, up to `scale`, in the padded layout."""

    def scale(self, upstream: Tensor) -> Tensor:
        """Factor per sample on all slopes, given the upstream gradient."""
        return upstream

    def bound_gradient(self, upstream: Tensor) -> Tensor | None:
        """Gradient by the bound, for losses that have one."""
        return None


class LogSumTally(Tally):
    """Losses made of `sum_N w e^s` and `sum_P w e^-s`.

    A slope is a label's share `e^exponent / (e^bound + sum)`, made as `e^(exponent - maximum)`
    times a factor of at most 1 per sample, never as `e^(exponent - log)`: a logarithm of 1e4 has
    lost the digits that decide it.
    """

    negative: LogSum
    positive: LogSum
    negative_factor: Tensor
    positive_factor: Tensor
    positive_exponents: Tensor

    def add_(self, scores: Tensor, labels: slice) -> None:
        self.silence_(scores, labels)
        weight = self.weighting.label_weight
        self.negative.add_(scores, weight[..., labels] if isinstance(weight, Tensor) else None)

    def kept(self, scores: Tensor) -> tuple[Tensor, Tensor | None]:
        return scores, self.negative.maximum

    def add_positives(self, scores: Tensor) -> None:
        """Take in the positives' scores, plus infinity as padding, (B, K)."""
        # An impossible label (score minus infinity) as a positive costs as much as there is.
        self.positive_exponents = (-scores).clamp(max=self.positive.largest)
        if self.positive_weight is not None:
            self.positive_exponents.masked_fill_(self.positive_weight == 0, -torch.inf)
        self.positive.add_(self.positive_exponents.clone(), self.positive_weight)

    def settle(self, positive_scores: Tensor) -> Tensor:
        self.add_positives(positive_scores)
        return self.finish()

    @abstractmethod
    def finish(self) -> Tensor:
        """The losses, from the two sums; sets the two factors."""

    def slopes_(self, scores: Tensor, labels: slice) -> None:
        self.silence_(scores, labels)
        scores.clamp_(max=self.negative.largest)
        self.weight_(exponentiate(scores, self.negative.maximum), labels)

    def slopes_from_kept_(self, values: Tensor, reference: Tensor | None, labels: slice) -> None:
        assert reference is not None  # noqa: S101 - `kept` gave it
        values.mul_((reference - self.negative.maximum).exp().div_(KEPT_SCALE)[:, None])

    def positive_slopes(self) -> Tensor:
        shares = (self.positive_exponents - self.positive.maximum[:, None]).exp()
        if self.positive_weight is not None:
            shares *= self.positive_weight
        return shares * (-self.positive_factor / self.negative_factor)[:, None]

    def scale(self, upstream: Tensor) -> Tensor:
        return upstream * self.negative_factor


class ZLPRTally(LogSumTally):
    """`log(e^-t + sum_P w e^-s) + log(e^t + sum_N w e^s)` with a bound t per sample."""

    def __init__(self, bound: Tensor, weighting: Weighting, positive_weight: Tensor | None) -> None:
        super().__init__(bound, weighting, positive_weight)
        self.negative, self.positive = LogSum.empty(bound), LogSum.empty(-bound)

    def finish(self) -> Tensor:
        self.negative_bound = (self.bound - self.negative.maximum).exp()
        self.positive_bound = (-self.bound - self.positive.maximum).exp()
        self.negative_factor = 1 / (self.negative.total + self.negative_bound)
        self.positive_factor = 1 / (self.positive.total + self.positive_bound)
        losses = self.negative.log_excess(self.bound) + self.positive.log_excess(-self.bound)
        return losses.clamp_(max=torch.finfo(losses.dtype).max)

    def bound_gradient(self, upstream: Tensor) -> Tensor | None:
        negative = self.negative_bound * self.negative_factor
        return upstream * (negative - self.positive_bound * self.positive_factor)


class LSEPTally(LogSumTally):
    """`log(1 + sum_N w e^s * sum_P w e^-s)`, 0 where a sample has no pair."""

    def __init__(self, bound: Tensor, weighting: Weighting, positive_weight: Tensor | None) -> None:
        super().__init__(bound, weighting, positive_weight)
        floor = torch.full_like(bound, torch.finfo(bound.dtype).min)
        largest = largest_score(bound.dtype)
        self.negative, self.positive = LogSum.empty(floor, largest), LogSum.empty(floor, largest)

    def hold_(self, scores: Tensor) -> None:
        scores.clamp_(-self.negative.largest, self.negative.largest)

    def finish(self) -> Tensor:
        # An empty side has no slopes; any factor will do.
        self.negative_factor, self.positive_factor = (
            1 / side.total.masked_fill(side.total == 0, 1.0)
            for side in (self.negative, self.positive)
        )
        # The maxima first: where both are large they cancel, and the totals would be lost in one.
        maxima = self.negative.maximum + self.positive.maximum
        self.pairs_log = maxima + (self.negative.total.log() + self.positive.total.log())
        return softplus(self.pairs_log)

    def scale(self, upstream: Tensor) -> Tensor:
        return super().scale(upstream) * self.pairs_log.sigmoid()


class BCETally(Tally):
    """`sum_P w log(1 + e^-s) + sum_N w log(1 + e^s)`."""

    def __init__(self, bound: Tensor, weighting: Weighting, positive_weight: Tensor | None) -> None:
        super().__init__(bound, weighting, positive_weight)
        self.total = torch.zeros_like(bound)

    def add_(self, scores: Tensor, labels: slice) -> None:
        self.silence_(scores, labels)
        # As in `Cells`, an infinite score counts as a number, which a weight of 0 takes to 0.
        losses = softplus(scores).clamp_(max=largest_score(scores.dtype))
        self.weight_(losses, labels)
        self.total += losses.sum(dim=1)

    def kept(self, scores: Tensor) -> tuple[Tensor, Tensor | None]:
        return scores.sigmoid_(), None

    def settle(self, positive_scores: Tensor) -> Tensor:
        self.positive_scores = positive_scores
        largest = largest_score(positive_scores.dtype)
        losses = softplus(-positive_scores).clamp_(max=largest)
        if self.positive_weight is not None:
            losses *= self.positive_weight
        return self.total + losses.sum(dim=1)

    def slopes_(self, scores: Tensor, labels: slice) -> None:
        self.silence_(scores, labels)
        self.weight_(scores.sigmoid_(), labels)

    def slopes_from_kept_(self, values: Tensor, reference: Tensor | None, labels: slice) -> None:
        self.weight_(values.div_(KEPT_SCALE), labels)

    def positive_slopes(self) -> Tensor:
        slopes = -(-self.positive_scores).sigmoid()
        if self.positive_weight is not None:
            slopes *= self.positive_weight
        return slopes


@dataclass(frozen=True)
class Head:
    """A linear layer at work on a batch.

    Attributes:
        inputs: Features as the user has them, shape (B, F).
        weight: Shape (L, F), as the user has it.
        bias: Shape (L,), in the dtype of scores and sums, or None.
        features: The inputs in the dtype of scores and sums.
    """

    inputs: Tensor
    weight: Tensor
    bias: Tensor | None
    features: Tensor

    def rows(self, labels: slice) -> Tensor:
        """The weight's rows in the features' dtype."""
        return self.weight[labels].to(self.features.dtype)

    def scores(self, labels: slice, room: Tensor) -> Tensor:
        """Scores of a tile, (B, labels), written into the memory `room`."""
        width = labels.stop - labels.start
        scores = room[: self.features.shape[0] * width].view(self.features.shape[0], width)
        if self.bias is None:
            return torch.mm(self.features, self.rows(labels).T, out=scores)
        return torch.addmm(self.bias[labels], self.features, self.rows(labels).T, out=scores)


class LabelGroup(Protocol):
    """Processes that each hold a slice of the labels."""

    def combine(self, tally: Tally, positive_scores: Tensor) -> Tensor:
        """Settle the tallies of all slices together; the losses are the same everywhere."""

    def sum(self, gradient: Tensor) -> Tensor:
        """Add up a gradient to which every slice of the labels has its part."""


class Kernels(Protocol):
    """Makes whole runs of tiles at once, for losses made of two sums of exponentials."""

    def add(self, head: Head, negative: LogSum, positives: Positives) -> Tensor:
        """Add all negatives to a sum; give the positives' scores, padded with infinity, (B, K)."""

    def slopes(self, head: Head, labels: slice, negative: LogSum, room: Tensor) -> Tensor:
        """`e^(score - maximum)` of a run of labels, (B, labels), written into the memory `room`."""


@dataclass(frozen=True)
class Sweep:
    """One pass of a head over its labels, forward and backward.

    Attributes:
        positives: The positive pairs.
        tally: The loss, per sample.
        width: Labels per tile.
        store: Keep half-precision values from the forward sweep instead of making tiles again.
        weight_step: Applied to each tile's weight gradient in place of returning it.
        group: Other holders of labels, if the head is sharded.
        kernels: Take the place of single tiles, if the device has them.
    """

    positives: Positives
    tally: Tally
    width: int
    store: bool = False
    weight_step: WeightStep | None = None
    group: LabelGroup | None = None
    kernels: Kernels | None = None

    def forward(self, head: Head) -> tuple[Tensor, "list[Kept]"]:
        """Losses per sample, and what the backward sweep is to start from."""
        kept: list[Kept] = []
        if self.kernels is not None and isinstance(self.tally, LogSumTally):
            positive_scores = self.kernels.add(head, self.tally.negative, self.positives)
        else:
            positive_scores = self._add_tiles(head, kept)
        if self.group is not None:
            return self.group.combine(self.tally, positive_scores), kept
        return self.tally.settle(positive_scores), kept

    def _add_tiles(self, head: Head, kept: "list[Kept]") -> Tensor:
        """Take in all tiles; give the positives' scores, padded with infinity, (B, K)."""
        num_labels = head.weight.shape[0]
        positive_scores = head.features.new_full(self.positives.shape, torch.inf)
        room = head.features.new_empty(head.features.shape[0] * self.width)
        for tile in tiles(self.positives, num_labels, self.width):
            scores = head.scores(tile.labels, room)
            self.tally.hold_(scores)
            positive_scores[tile.rows, tile.slots] = scores[tile.rows, tile.columns]
            scores[tile.rows, tile.columns] = -torch.inf
            self.tally.add_(scores, tile.labels)
            if self.store:
                values, reference = self.tally.kept(scores)
                kept.append(Kept((values.mul_(KEPT_SCALE)).to(torch.float16), reference))
        return positive_scores

    def backward(
        self, head: Head, kept: "list[Kept]", upstream: Tensor, wanted: "Wanted"
    ) -> "Gradients":
        """Gradients by the head's parts, given the upstream gradient per sample."""
        scale = self.tally.scale(upstream)
        features = head.features * scale[:, None]
        positive_slopes = self.tally.positive_slopes()
        gradients = Gradients.empty(head, wanted)
        room = head.features.new_empty(head.features.shape[0] * self.width)
        for number, tile in enumerate(tiles(self.positives, head.weight.shape[0], self.width)):
            slopes = self._slopes(head, tile, kept[number] if kept else None, room)
            slopes[tile.rows, tile.columns] = positive_slopes[tile.rows, tile.slots]
            if gradients.features is not None:
                gradients.features.addmm_(slopes, head.rows(tile.labels))
            if gradients.bias is not None:
                torch.mv(slopes.T, scale, out=gradients.bias[tile.labels])
            if self.weight_step is not None:
                rows = (slopes.T @ features).to(head.weight.dtype)
                self.weight_step(tile.labels, head.weight[tile.labels], rows)
            elif gradients.weight is not None:
                _product_into(gradients.weight[tile.labels], slopes.T, features)
        if gradients.features is not None:
            gradients.features *= scale[:, None]
            if self.group is not None:
                gradients.features = self.group.sum(gradients.features)
        return gradients

    def _slopes(self, head: Head, tile: Tile, kept: "Kept | None", room: Tensor) -> Tensor:
        if self.kernels is not None and isinstance(self.tally, LogSumTally):
            return self.kernels.slopes(head, tile.labels, self.tally.negative, room)
        if kept is None:
            slopes = head.scores(tile.labels, room)
            self.tally.hold_(slopes)
            self.tally.slopes_(slopes, tile.labels)
            return slopes
        slopes = room[: kept.values.numel()].view(kept.values.shape).copy_(kept.values)
        self.tally.slopes_from_kept_(slopes, kept.reference, tile.labels)
        return slopes


def _product_into(out: Tensor, left: Tensor, right: Tensor) -> None:
    """`out = left @ right`, summed in the operands' dtype whatever that of `out`."""
    if out.dtype == left.dtype:
        torch.mm(left, right, out=out)
    else:
        out.copy_(left @ right)


@dataclass(frozen=True)
class Kept:
    """What the forward sweep kept of a tile, in float16, and a number per sample."""

    values: Tensor
    reference: Tensor | None


@dataclass(frozen=True)
class Wanted:
    """Which gradients the backward sweep is to make."""

    features: bool
    weight: bool
    bias: bool


@dataclass
class Gradients:
    """Gradients by the parts of a head."""

    features: Tensor | None
    weight: Tensor | None
    bias: Tensor | None

    @classmethod
    def empty(cls, head: Head, wanted: Wanted) -> "Gradients":
        """Room for the wanted gradients; that by the features starts at zero."""
        return cls(
            features=torch.zeros_like(head.features) if wanted.features else None,
            weight=torch.empty_like(head.weight) if wanted.weight else None,
            bias=torch.empty_like(head.bias) if wanted.bias and head.bias is not None else None,
        )


def refuse_second_derivatives(way_out: str) -> None:
    """Say so in a backward pass that is to be differentiated, rather than leave a term out."""
    if torch.is_grad_enabled():
        raise RuntimeError(f"no second derivatives (create_graph=True) here: {way_out}")


class SweptLoss(torch.autograd.Function):
    """The losses per sample of a linear head, by a sweep over its labels."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        bound: Tensor,
        sweep: Sweep,
    ) -> Tensor:
        """Features (B, F), weight (L, F), bias (L,) and bound (B,) give losses (B,)."""
        ctx.sweep = sweep
        # Weights among them, so that one changed in place before the way back is refused.
        ctx.save_for_backward(features, weight, bias, *sweep.tally.weighting.tensors())
        with torch.autocast(features.device.type, enabled=False):
            head = Head(features, weight, bias, features.to(bound.dtype))
            losses, ctx.kept = sweep.forward(head)
        return losses

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients in the order of `forward`'s arguments."""
        refuse_second_derivatives("linear losses have them with impl='dense'")
        sweep: Sweep = ctx.sweep
        features, weight, bias, bound, _ = ctx.needs_input_grad
        wanted = Wanted(features, weight and sweep.weight_step is None, bias)
        with torch.autocast(upstream.device.type, enabled=False):
            inputs, rows, shift, *_ = ctx.saved_tensors
            head = Head(inputs, rows, shift, inputs.to(upstream.dtype))
            gradients = sweep.backward(head, ctx.kept, upstream, wanted)
            of_bound = sweep.tally.bound_gradient(upstream) if bound else None
        return gradients.features, gradients.weight, gradients.bias, of_bound, None

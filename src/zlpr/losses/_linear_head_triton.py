"""The tile sweep as Triton kernels: scores are made, used and forgotten on the chip.

Taken where `ZLPR_TRITON=1` asks for them. The kernels are tested with Triton's interpreter on CPU;
they have not been measured on hardware.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from zlpr.losses._label_sweep import Head, LogSum, Positives

ROWS, LABELS, FEATURES = 64, 128, 32  # a block of scores and the depth of one product
# Programs per block of samples in the forward sweep: enough to fill a GPU with few samples.
SPLITS = 128


@triton.jit  # type: ignore[untyped-decorator]
def _scores(  # type: ignore[no-untyped-def]
    features, weight, bias, largest, rows, columns, num_rows, num_labels, num_features,
    HAS_BIAS: tl.constexpr, ROWS: tl.constexpr, LABELS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """Scores of a block in float32, held to +-`largest`; minus infinity beyond the last label."""
    block = tl.zeros((ROWS, LABELS), dtype=tl.float32)
    for start in range(0, num_features, FEATURES):
        depth = start + tl.arange(0, FEATURES)
        x = tl.load(
            features + rows[:, None] * num_features + depth[None, :],
            mask=(rows[:, None] < num_rows) & (depth[None, :] < num_features),
            other=0.0,
        )
        w = tl.load(
            weight + columns[None, :].to(tl.int64) * num_features + depth[:, None],
            mask=(columns[None, :] < num_labels) & (depth[:, None] < num_features),
            other=0.0,
        )
        block = tl.dot(x, w.to(x.dtype), block, input_precision="ieee")
    if HAS_BIAS:
        block += tl.load(bias + columns, mask=columns < num_labels, other=0.0)[None, :]
    block = tl.where(block > largest, largest, block)  # and NaN stays what it is
    block = tl.where(block < -largest, -largest, block)
    return tl.where(columns[None, :] < num_labels, block, float("-inf"))


@triton.jit  # type: ignore[untyped-decorator]
def _forward(  # type: ignore[no-untyped-def]
    features, weight, bias, weights, largest, floor,
    pair_rows, pair_labels, pair_starts, pair_scores, maxima, totals,
    num_rows, num_labels, num_features, num_tiles, tiles_per_split,
    HAS_BIAS: tl.constexpr, HAS_WEIGHTS: tl.constexpr,
    ROWS: tl.constexpr, LABELS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """Running maximum and sum of a block of samples over one split of the labels."""
    row_block, split = tl.program_id(0), tl.program_id(1)
    rows = row_block * ROWS + tl.arange(0, ROWS)
    maximum = tl.load(floor + rows, mask=rows < num_rows, other=0.0)
    total = tl.zeros((ROWS,), dtype=tl.float32)
    first = split * tiles_per_split
    for tile in range(first, tl.minimum(first + tiles_per_split, num_tiles)):
        columns = tile * LABELS + tl.arange(0, LABELS)
        block = _scores(
            features, weight, bias, largest, rows, columns, num_rows, num_labels, num_features,
            HAS_BIAS, ROWS, LABELS, FEATURES,
        )  # fmt: skip
        # Positives are few: take each out of the block by comparing places.
        cell = row_block * num_tiles + tile
        for pair in range(tl.load(pair_starts + cell), tl.load(pair_starts + cell + 1)):
            here = rows[:, None] == tl.load(pair_rows + pair)
            here = here & (columns[None, :] == tl.load(pair_labels + pair))
            tl.store(pair_scores + pair, tl.sum(tl.where(here, block, 0.0)))
            block = tl.where(here, float("-inf"), block)
        weight_of_labels = tl.full((LABELS,), 1.0, dtype=tl.float32)
        if HAS_WEIGHTS:
            weight_of_labels = tl.load(weights + columns, mask=columns < num_labels, other=0.0)
            block = tl.where(weight_of_labels[None, :] > 0, block, float("-inf"))
        counted = block + tl.log(weight_of_labels)[None, :]
        larger = tl.maximum(maximum, tl.max(counted, axis=1))
        terms = tl.exp(block - larger[:, None]) * weight_of_labels[None, :]
        total = total * tl.exp(maximum - larger) + tl.sum(terms, axis=1)
        maximum = larger
    tl.store(maxima + split * num_rows + rows, maximum, mask=rows < num_rows)
    tl.store(totals + split * num_rows + rows, total, mask=rows < num_rows)


@triton.jit  # type: ignore[untyped-decorator]
def _slopes(  # type: ignore[no-untyped-def]
    features, weight, bias, weights, largest, shift, slopes, num_rows, num_labels, num_features,
    HAS_BIAS: tl.constexpr, HAS_WEIGHTS: tl.constexpr,
    ROWS: tl.constexpr, LABELS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """`e^(score - shift)` of a block of samples and labels."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * LABELS + tl.arange(0, LABELS)
    block = _scores(
        features, weight, bias, largest, rows, columns, num_rows, num_labels, num_features,
        HAS_BIAS, ROWS, LABELS, FEATURES,
    )  # fmt: skip
    shifts = tl.load(shift + rows, mask=rows < num_rows, other=0.0)[:, None]
    if HAS_WEIGHTS:
        of_labels = tl.load(weights + columns, mask=columns < num_labels, other=0.0)[None, :]
        block = tl.where(of_labels > 0, block, float("-inf"))
        block = tl.exp(block - shifts) * of_labels
    else:
        block = tl.exp(block - shifts)
    tl.store(
        slopes + rows[:, None].to(tl.int64) * num_labels + columns[None, :],
        block,
        mask=(rows[:, None] < num_rows) & (columns[None, :] < num_labels),
    )


@dataclass(frozen=True)
class TritonKernels:
    """The two kernels, on heads whose sums are in float32.

    Attributes:
        weights: Of the labels' negative terms, 0 for what does not count, shape (L,).
    """

    weights: Tensor | None

    def add(self, head: Head, negative: LogSum, positives: Positives) -> Tensor:
        """Add all negatives to a sum; give the positives' scores, padded with infinity, (B, K)."""
        num_rows, num_labels = positives.shape[0], head.weight.shape[0]
        row_blocks, num_tiles = triton.cdiv(num_rows, ROWS), triton.cdiv(num_labels, LABELS)
        cells = positives.rows // ROWS * num_tiles + positives.labels // LABELS
        order = cells.argsort(stable=True)
        starts = torch.arange(row_blocks * num_tiles + 1, device=cells.device)
        splits = max(1, min(SPLITS, num_tiles))
        maxima = negative.maximum.new_empty(splits, num_rows)
        totals, scores = torch.empty_like(maxima), maxima.new_empty(len(order))
        _forward[(row_blocks, splits)](
            *self._layer(head, slice(0, num_labels)), negative.largest, negative.maximum,
            positives.rows[order], positives.labels[order],
            torch.searchsorted(cells[order], starts), scores, maxima, totals,
            num_rows, num_labels, head.weight.shape[1],
            num_tiles, triton.cdiv(num_tiles, splits), **self._constants(head),
        )  # fmt: skip
        negative.rescale_(maxima.amax(dim=0))
        negative.total += (totals * (maxima - negative.maximum).exp()).sum(dim=0)
        return positives.padded(scores[order.argsort()], torch.inf)

    def slopes(self, head: Head, labels: slice, negative: LogSum, room: Tensor) -> Tensor:
        """`e^(score - maximum)` of a run of labels, (B, labels), written into the memory `room`."""
        num_rows, num_labels = head.features.shape[0], labels.stop - labels.start
        slopes = room[: num_rows * num_labels].view(num_rows, num_labels)
        _slopes[(triton.cdiv(num_rows, ROWS), triton.cdiv(num_labels, LABELS))](
            *self._layer(head, labels), negative.largest, negative.maximum, slopes,
            num_rows, num_labels, head.weight.shape[1], **self._constants(head),
        )  # fmt: skip
        return slopes

    def _layer(self, head: Head, labels: slice) -> tuple[Tensor | None, ...]:
        """Features, weight, bias and weights of a run of labels, as the kernels address them."""
        # Half-precision products run on tensor cores, with sums in float32.
        alike = head.inputs.dtype == head.weight.dtype
        features = head.inputs if alike else head.features
        bias = None if head.bias is None else head.bias[labels].contiguous()
        weights = None if self.weights is None else self.weights[labels].contiguous()
        return features.contiguous(), head.weight[labels].contiguous(), bias, weights

    def _constants(self, head: Head) -> dict[str, int | bool]:
        return {
            "HAS_BIAS": head.bias is not None,
            "HAS_WEIGHTS": self.weights is not None,
            "ROWS": ROWS,
            "LABELS": LABELS,
            "FEATURES": FEATURES,
        }

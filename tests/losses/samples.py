"""Inputs and losses that several test files share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tests import reference
from zlpr import losses

COUNTS = torch.tensor([40, 3, 25, 1, 12, 7, 30])
SAMPLES = 50


@dataclass(frozen=True)
class Case:
    """A loss beside its formula written out."""

    name: str
    formula: Callable[..., Tensor]
    formula_options: dict[str, Any] = field(default_factory=dict)

    @property
    def info(self) -> losses.LossInfo:
        return losses.info(self.name)

    @property
    def options(self) -> dict[str, Any]:
        if self.info.needs_label_counts:
            return {"label_counts": COUNTS, "num_samples": SAMPLES}
        return {}

    def loss(self, scores: Tensor, targets: Tensor, **options: Any) -> Tensor:
        return self.info.function(scores, targets, **self.options, **options)

    def expected(self, scores: Tensor, targets: Tensor) -> Tensor:
        return self.formula(scores, targets, **self.formula_options)


CASES = [
    Case("zlpr", reference.zlpr),
    Case("bce", reference.bce),
    Case("focal", reference.focal),
    Case("dice1", reference.dice1),
    Case("dice2", reference.dice2),
    Case("ranking", reference.ranking),
    Case("warp", reference.warp),
    Case("bp_mll", lambda s, y: reference.bp_mll(s, y).log()),
    Case("lsep", reference.lsep),
    Case("asymmetric", reference.asymmetric),
    Case("two_way", reference.two_way),
    Case("hbm", reference.hbm),
    Case("adaptive_threshold", reference.adaptive_threshold),
    Case("circle", reference.circle),
    Case("decoupled_softmax", reference.decoupled_softmax),
    Case(
        "distribution_balanced",
        reference.distribution_balanced,
        {"counts": COUNTS, "samples": SAMPLES},
    ),
    Case("class_balanced", reference.class_balanced, {"counts": COUNTS}),
    Case("sigmoid_f1", reference.sigmoid_f1),
    Case("self_adjusting_dice", reference.self_adjusting_dice),
    Case("hill", reference.hill),
    Case("asymmetric_polynomial", reference.asymmetric_polynomial),
    Case("splc", reference.splc),
    Case("cb_ntr", reference.cb_ntr, {"counts": COUNTS, "samples": SAMPLES}),
    Case("logit_adjusted", reference.logit_adjusted, {"counts": COUNTS, "samples": SAMPLES}),
]
# Cross entropy's formula is for one positive label; its own tests hold the rest.
ALL = [*CASES, Case("cross_entropy", reference.cross_entropy)]
PER_SAMPLE = [case for case in ALL if not case.info.over_batch]
OVER_BATCH = [case for case in ALL if case.info.over_batch]
PAIRS = ["ranking", "warp", "bp_mll", "lsep", "circle", "decoupled_softmax"]


def scores_and_targets(
    seed: int = 0, shape: tuple[int, ...] = (6, 7), dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor]:
    """Random scores, and targets with at least one positive and one negative label a sample."""
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(shape, generator=generator, dtype=torch.float64)
    targets = torch.rand(shape, generator=generator) < 0.4
    targets[..., 0], targets[..., 1] = True, False
    return scores.to(dtype), targets

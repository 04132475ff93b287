r"""Which decoding rule suits which metric, on known joints.

A population is a handful of inputs, each with its own joint distribution of labels, as in
`zlpr.theory.regret`. A perfect model gives each input the scores that minimise its loss's risk. A
rule is fitted on a validation sample of the population, of a size that is given, decides every
input, and is measured exactly: what is missing to the best decision there is, is the rule's regret.
It has two sources, which more validation data tells apart: what the rule cannot express stays, what
it could not yet learn goes away.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from zlpr import decoding
from zlpr.metrics import info
from zlpr.theory.joint import label_vectors, random_joint
from zlpr.theory.regret import SET_METRICS, best_possible, measure, scores_of

__all__ = ["METRICS", "RULES", "RuleRegret", "draw", "rule_regrets"]

RULES = decoding.rules_of_scores()
METRICS = (*SET_METRICS, "jaccard", "hamming_loss")


@dataclass(frozen=True)
class RuleRegret:
    """Regret of a rule on a metric, over populations.

    Attributes:
        rule: its name.
        metric: what it was fitted for and is judged by.
        samples: of the validation part that it was fitted on.
        gaps: each population's distance to its best reachable value, in points (0 to 100).
    """

    rule: str
    metric: str
    samples: int
    gaps: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over the populations; 0 is optimal."""
        return float(np.mean(self.gaps))

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return float(np.std(self.gaps, ddof=1) / np.sqrt(len(self.gaps)))


def rule_regrets(
    rules: Sequence[str] = RULES,
    *,
    loss: str = "zlpr",
    samples: Sequence[int] = (100, 1000, 10_000),
    dependence: float = 1.0,
    num_labels: int = 5,
    inputs: int = 8,
    populations: int = 20,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> list[RuleRegret]:
    """The regret of each rule on each metric of label sets, by the size of the validation part.

    Args:
        rules: names of `zlpr.decoding`.
        loss: whose risk minimisers are the scores.
        samples: sizes of the validation part.
        dependence: of the labels, see `random_joint`.
        num_labels: labels of a population.
        inputs: joints in a population.
        populations: at least 2.
        seed: makes the joints and draws the samples.
        progress: called with 1 as each population is done at each size.
    """
    if populations < 2:
        raise ValueError(f"populations is {populations}; an error needs at least 2")
    generator = torch.Generator().manual_seed(seed)
    groups = [
        [random_joint(num_labels, dependence, generator) for _ in range(inputs)]
        for _ in range(populations)
    ]
    scores = scores_of(loss, groups)
    best = [_best_values(joints) for joints in groups]
    found: list[RuleRegret] = []
    for size in samples:
        gaps: dict[tuple[str, str], list[float]] = {}
        for number, (rows, joints) in enumerate(zip(scores, groups, strict=True)):
            true, which = draw(joints, size, seed=seed + number)
            for rule in rules:
                for metric in METRICS:
                    fitted = decoding.create(rule).fit(true, rows[which], metric)
                    reached = _values(fitted(rows).double(), joints)[metric]
                    gap = 100 * info(metric).sign * (best[number][metric] - reached)
                    gaps.setdefault((rule, metric), []).append(gap)
            progress(1)
        found += [RuleRegret(*key, size, tuple(values)) for key, values in gaps.items()]
    return found


def _values(decisions: Tensor, joints: Sequence[Tensor]) -> dict[str, float]:
    """Each metric of decisions (inputs, L), exactly."""
    chances = torch.stack([joint.flatten() for joint in joints])
    jaccard, hamming = _example_values(decisions)
    return {
        **measure(decisions - 0.5, joints),
        "jaccard": float((jaccard * chances).sum(1).mean()),
        "hamming_loss": float((hamming * chances).sum(1).mean()),
    }


def _best_values(joints: Sequence[Tensor]) -> dict[str, float]:
    """The best reachable value of each metric, each by its own predictor."""
    chances = torch.stack([joint.flatten() for joint in joints])
    jaccard, hamming = _example_values(label_vectors(joints[0].ndim))
    return {
        **best_possible(joints),
        "jaccard": float((jaccard @ chances.T).amax(0).mean()),
        "hamming_loss": float((hamming @ chances.T).amin(0).mean()),
    }


def _example_values(decisions: Tensor) -> tuple[Tensor, Tensor]:
    """Jaccard index and Hamming loss of decisions (D, L) for each label set: two (D, 2**L)."""
    sets = label_vectors(decisions.shape[1])
    both = decisions @ sets.T
    sizes = decisions.sum(1, keepdim=True) + sets.sum(1)
    either = sizes - both
    jaccard = torch.where(either == 0, 1.0, both / either.clamp(min=1))
    return jaccard, (sizes - 2 * both) / decisions.shape[1]


def draw(
    joints: Sequence[Tensor], samples: int, *, seed: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Label sets of samples whose inputs are drawn evenly, and which input each has.

    Args:
        joints: of the inputs, tensors of shape (2,) * L.
        samples: how many to draw.
        seed: of the draw.

    Returns:
        Shapes (samples, L) and (samples,).
    """
    generator = np.random.default_rng(seed)
    which = generator.integers(len(joints), size=samples)
    chances = np.stack([joint.flatten().numpy() for joint in joints])
    above = generator.random((samples, 1)) > np.cumsum(chances, axis=1)[which]
    sets = label_vectors(joints[0].ndim).numpy().astype(bool)
    return sets[np.minimum(above.sum(axis=1), len(sets) - 1)], which

"""Probabilities of labels: the calibrator's or the marginals of label sets, whichever fit better.

A calibrator looks at one label's score at a time. The posterior over label sets looks at all of
them and at the sets seen in training, so its marginals know that labels exclude or attract each
other. Which is nearer to the truth is a question for validation data.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from zlpr._counted import counted
from zlpr.decoding._folds import (
    FEW_SAMPLES,
    TOLERANCE,
    error_of_mean,
    folds_of,
    groups_among,
    thinned,
    too_few,
)
from zlpr.decoding._rule import Config, Validation
from zlpr.decoding.calibration import Calibrator
from zlpr.decoding.set_posterior import SetPosterior
from zlpr.metrics import Labels, Scores

__all__ = [
    "Probabilities",
    "ProbabilityChoice",
    "choose_probabilities",
    "probabilities_from_config",
]

Probabilities: TypeAlias = Calibrator | SetPosterior
"""Called on scores, gives probabilities of the same shape; kept as JSON."""

_WORDS = {"calibrator": "the calibrator", "label_sets": "the marginals of label sets"}
LEAST = 1e-6
"""Where a probability is held off 0 and 1, so that one sure mistake does not decide alone."""


@dataclass(frozen=True)
class ProbabilityChoice:
    """What makes probabilities, fitted, and what it was chosen from.

    Attributes:
        probabilities: fitted on all of the validation data.
        name: "calibrator" or "label_sets".
        log_loss: of both by name, per sample and label, each sample's by what was fitted without
            it; empty where there were too few samples to compare.
        samples: that were compared on.
        alone: whether the calibrator was all there is to choose from.
        groups: of which the samples are, copies of one among them; None where each is its own.
    """

    probabilities: Probabilities
    name: str
    log_loss: dict[str, float] = field(default_factory=dict)
    samples: int = 0
    alone: bool = False
    groups: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The record of the choice as plain JSON, without what was fitted."""
        groups = {} if self.groups is None else {"groups": self.groups}
        return {"by": self.name, "log_loss": self.log_loss, "samples": self.samples, **groups}

    def describe(self) -> str:
        """The choice in one line, for people.

        Examples:
            >>> losses = {"calibrator": 0.31, "label_sets": 0.25}
            >>> ProbabilityChoice(SetPosterior(), "label_sets", losses, 200).describe()
            'the marginals of label sets: log loss 0.2500, with the calibrator 0.3100'
        """
        words = _WORDS[self.name]
        if self.alone:
            return f"{words}, fitted on {counted(self.samples, 'sample')}"
        if not self.log_loss:
            return f"{words}: {too_few(self.samples, self.groups)} to compare with"
        own = self.log_loss[self.name]
        other = next(name for name in _WORDS if name != self.name)
        others = f"with {_WORDS[other]} {self.log_loss[other]:.4f}"
        by_chance = ", which may be chance" if self.log_loss[other] < own else ""
        return f"{words}: log loss {own:.4f}, {others}{by_chance}"


def choose_probabilities(
    y_true: Labels,
    y_score: Scores,
    *,
    link_scale: float = 2.0,
    train_labels: Labels | None = None,
    tolerance: float = TOLERANCE,
    groups: Sequence[Any] | NDArray[Any] | None = None,
) -> ProbabilityChoice:
    """Fit the calibrator, or the posterior of label sets where its marginals fit better.

    Both are compared by log loss over the folds that rules are compared on. The marginals are taken
    where they are ahead by more than `tolerance` standard errors of the difference; with fewer than
    fifty samples the calibrator is, and of `TopScores`, which the posterior cannot read.

    Args:
        y_true: true labels of the validation part, shape (samples, labels), dense or CSR.
        y_score: scores of the same shape, dense or `TopScores`.
        link_scale: of the loss, see `Calibrator`.
        train_labels: labels of the training part, shape (any, labels), dense or CSR;
            of other samples than these, each of which would have seen its own set there.
        tolerance: standard errors by which the marginals must be ahead.
        groups: a value per sample, equal for those that are judged together, see `weigh`.

    Examples:
        >>> generator = np.random.default_rng(0)
        >>> either = generator.integers(2, size=400)  # one of two labels, never none or both
        >>> true = np.stack([either == 0, either == 1], axis=1)
        >>> scores = 2.0 * true - 1.0 + generator.normal(size=true.shape)
        >>> choose_probabilities(true, scores).name
        'label_sets'
    """
    data = Validation.check(y_true, y_score, "micro_f1", "paper", train_labels, None, groups)
    calibrator = Calibrator(link_scale)
    part = thinned(data)
    if data.shortlist is not None or part.num_groups < FEW_SAMPLES:
        calibrator.learn(data)
        alone = data.shortlist is not None
        return ProbabilityChoice(
            calibrator,
            "calibrator",
            samples=len(data.true),
            alone=alone,
            groups=groups_among(data),
        )
    made: dict[str, Probabilities] = {
        "calibrator": calibrator,
        "label_sets": SetPosterior(deepcopy(calibrator)),
    }
    losses = {name: _log_losses(each, part) for name, each in made.items()}
    gain = losses["calibrator"] - losses["label_sets"]
    ahead = gain.mean() > tolerance * error_of_mean(gain, part)
    name = "label_sets" if ahead else "calibrator"
    made[name].learn(data)
    means = {name: float(each.mean()) for name, each in losses.items()}
    return ProbabilityChoice(
        made[name], name, means, samples=len(part.true), groups=groups_among(part)
    )


def _log_losses(unfitted: Probabilities, data: Validation) -> NDArray[np.float64]:
    """Each sample's mean over its labels, by what was fitted on the other folds."""
    losses = np.empty(len(data.true))
    for fold, rest, held in folds_of(data):
        fitted = deepcopy(unfitted)
        fitted.learn(rest)
        chances = fitted.probabilities(held.scores).astype(np.float64).clip(LEAST, 1 - LEAST)
        losses[fold] = -np.log(np.where(held.true, chances, 1 - chances)).mean(axis=1)
    return losses


def probabilities_from_config(config: Config) -> Probabilities:
    """What a `to_config` described: a posterior has seen sets, a calibrator has none.

    Examples:
        >>> probabilities_from_config(Calibrator().to_config())
        Calibrator(link_scale=2.0, temperature=1.0, bias=0.0, min_positives=...)
    """
    if isinstance(config, dict) and "seen" in config:
        return SetPosterior.from_config(config)
    return Calibrator.from_config(config)

"""A floor under any rule: no label below a probability."""

from dataclasses import dataclass, field
from typing import ClassVar, Self

from zlpr._errors import UserError
from zlpr.decoding._rule import (
    BoolArray,
    Config,
    Features,
    FloatArray,
    Rule,
    Validation,
    check_number,
)
from zlpr.decoding._shortlist import Shortlist
from zlpr.decoding.calibration import Calibrator
from zlpr.decoding.probabilities import Probabilities, probabilities_from_config
from zlpr.decoding.threshold import ZeroBound
from zlpr.decoding.with_ancestors import WithAncestors

__all__ = ["ProbabilityFloor"]


@dataclass
class ProbabilityFloor(Rule):
    r"""Predict what a rule predicts, less the labels below a probability.

    $$\hat{Y} = \{l \in \hat{Y}_{\mathrm{rule}} : p_l \ge p_{\min}\}$$

    The best set for a metric may hold labels that are less likely than not: for F1 a label at 0.3
    is often worth its risk. Where a wrong label costs more than a missing one, the floor says how
    much. `fit` fits the rule and the probabilities, each as if there were no floor.

    Args:
        rule: decides; one that adds ancestors stands above a floor, not below.
        calibrator: makes probabilities from scores, a `Calibrator` or a `SetPosterior`.
        min_probability: the floor, from 0 to 1.

    Examples:
        >>> import numpy as np
        >>> rule = ProbabilityFloor(ZeroBound(), Calibrator(link_scale=1.0), 0.6)
        >>> rule(np.array([[0.3, 0.5, -1.0]]))  # probabilities 0.57, 0.62, 0.27
        array([[False,  True, False]])
    """

    name: ClassVar[str] = "floor"
    rule: Rule = field(default_factory=ZeroBound)
    calibrator: Probabilities = field(default_factory=Calibrator)
    min_probability: float = 0.5

    def __post_init__(self) -> None:
        check_number("min_probability", self.min_probability)
        if not 0 <= self.min_probability <= 1:
            raise UserError(f"min_probability must lie in [0, 1], got {self.min_probability!r}")
        if isinstance(self.rule, ProbabilityFloor):
            raise UserError("a floor cannot stand on a floor: give one min_probability")
        if isinstance(self.rule, WithAncestors):
            raise UserError("a floor cannot stand on ancestors: add these to what is above a floor")

    def learn(self, data: Validation) -> None:
        """Fit the rule and the probabilities."""
        self.rule.learn(data)
        self.calibrator.learn(data)

    @property
    def reads_features(self) -> bool:
        """Whether the rule below the floor does."""
        return self.rule.reads_features

    @property
    def reads_all_labels(self) -> bool:
        """Whether the rule below the floor does."""
        return self.rule.reads_all_labels

    def decide(
        self,
        scores: FloatArray,
        features: Features | None = None,
        shortlist: Shortlist | None = None,
    ) -> BoolArray:
        """The rule's labels that reach the floor."""
        likely = self.calibrator.probabilities(scores, shortlist) >= self.min_probability
        kept: BoolArray = self.rule.decide(scores, features, shortlist) & likely
        return kept

    def to_config(self) -> Config:
        """The rule as plain JSON."""
        return {
            "rule": self.name,
            "rule_below": self.rule.to_config(),
            "calibrator": self.calibrator.to_config(),
            "min_probability": self.min_probability,
        }

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """The rule that `to_config` described."""
        from zlpr.decoding.registry import from_config  # the registry knows this class as well

        if config.keys() != {"rule", "rule_below", "calibrator", "min_probability"}:
            raise UserError("a floor needs rule_below, calibrator and min_probability")
        if not isinstance(config["rule_below"], dict):
            raise UserError("rule_below of a floor must be a rule's configuration")
        if config["rule_below"].get("rule") == cls.name:
            raise UserError("a floor cannot stand on a floor: give one min_probability")
        below = from_config(config["rule_below"])
        calibrator = probabilities_from_config(config["calibrator"])
        return cls(below, calibrator, config["min_probability"])

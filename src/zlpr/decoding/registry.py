"""Decoding rules by name."""

from typing import Any

from zlpr._names import find, make
from zlpr.decoding._rule import Config, Rule
from zlpr.decoding.expected_f1 import ExpectedF1
from zlpr.decoding.floor import ProbabilityFloor
from zlpr.decoding.label_count import FeatureCount, LabelCount
from zlpr.decoding.label_sets import LabelSets
from zlpr.decoding.sample_threshold import FeatureThreshold, SampleThreshold
from zlpr.decoding.threshold import PerLabelThreshold, Threshold, ZeroBound
from zlpr.decoding.top_k import TopK
from zlpr.decoding.with_ancestors import WithAncestors

__all__ = ["available", "create", "from_config", "info", "rules_of_scores"]

_RULES: dict[str, type[Rule]] = {
    rule.name: rule
    for rule in (
        ZeroBound,
        Threshold,
        TopK,
        LabelCount,
        LabelSets,
        SampleThreshold,
        FeatureCount,
        FeatureThreshold,
        PerLabelThreshold,
        ExpectedF1,
    )
}


def available() -> tuple[str, ...]:
    """Names of the rules, the simpler before the less simple.

    Simple is what has few numbers to fit: none, one, a handful, at last some for each label.

    Examples:
        >>> available()[:4]
        ('zero', 'threshold', 'top_k', 'label_count')
    """
    return tuple(_RULES)


def rules_of_scores(*, of_candidates: bool = False) -> tuple[str, ...]:
    """Names of the rules that need nothing but scores, in the order of `available`.

    Args:
        of_candidates: only those that can decide on `TopScores`.
    """
    return tuple(
        name
        for name, rule in _RULES.items()
        if not rule.needs_features and not (of_candidates and rule.needs_all_labels)
    )


def create(name: str, **parameters: Any) -> Rule:
    """Make a rule by name.

    Args:
        name: one of `available()`.
        parameters: the rule's own.

    Examples:
        >>> create("top_k", k=3)
        TopK(k=3)
    """
    return make("decoding rule", name, info(name), parameters)


def from_config(config: Config) -> Rule:
    """The rule that a `to_config` described, one that stands on another included.

    Examples:
        >>> from_config({"rule": "threshold", "threshold": 0.25})
        Threshold(threshold=0.25)
    """
    for upon_another in (ProbabilityFloor, WithAncestors):
        if config.get("rule") == upon_another.name:
            return upon_another.from_config(config)
    return info(config.get("rule", "")).from_config(config)


def info(name: str) -> type[Rule]:
    """The class of a rule; a `UserError` where there is none of that name."""
    return find("decoding rule", name, _RULES)

"""Label sets that agree with a hierarchy: a label only with all its ancestors."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import torch

from zlpr._ancestors import Ancestors
from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.decoding._rule import BoolArray, Config, Features, FloatArray, Rule, Validation
from zlpr.decoding._shortlist import Shortlist
from zlpr.decoding.threshold import ZeroBound
from zlpr.metrics import LabelLists

__all__ = ["WithAncestors", "bare", "close", "like"]


@dataclass
class WithAncestors(Rule):
    r"""Predict what a rule predicts, and all ancestors of these labels.

    $$\hat{Y} = \hat{Y}_{\mathrm{rule}} \cup \bigcup_{l \in \hat{Y}_{\mathrm{rule}}} A(l)$$

    Scores stay what they are. For one threshold this is the same as to give each label the highest
    score among itself and its descendants. Of `TopScores` an ancestor is predicted that was no
    candidate.

    Args:
        rule: decides.
        parents: the direct parents of each label, by number.

    Examples:
        >>> rule = WithAncestors(ZeroBound(), [[], [0], [1]])
        >>> rule(np.array([[-1.0, -2.0, 0.5]]))
        array([[ True,  True,  True]])
    """

    name: ClassVar[str] = "with_ancestors"
    rule: Rule = field(default_factory=ZeroBound)
    parents: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if isinstance(self.rule, WithAncestors):
            raise UserError("ancestors are added once: with_ancestors cannot stand on itself")
        rows = self.parents if isinstance(self.parents, list) else [None]
        if not all(isinstance(row, list) and all(type(p) is int for p in row) for row in rows):
            raise UserError("parents must be a list of whole numbers for each label")
        self.ancestors  # noqa: B018  # refuses cycles here, not at the first prediction

    @cached_property
    def ancestors(self) -> Ancestors:
        """All ancestors of each label."""
        try:
            return Ancestors.of(self.parents)
        except ValueError as fault:
            raise UserError(f"parents: {fault}") from None

    def learn(self, data: Validation) -> None:
        """Fit the rule below."""
        self.rule.learn(data)

    @property
    def reads_features(self) -> bool:
        """Whether the rule below does."""
        return self.rule.reads_features

    @property
    def reads_all_labels(self) -> bool:
        """Whether the rule below does."""
        return self.rule.reads_all_labels

    def decide(
        self,
        scores: FloatArray,
        features: Features | None = None,
        shortlist: Shortlist | None = None,
    ) -> BoolArray:
        """The rule's labels with their ancestors; of candidates, only what the rule says."""
        chosen = self.rule.decide(scores, features, shortlist)
        return chosen if shortlist is not None else close(chosen, self.ancestors)

    def __call__(self, y_score: Any, *, features: Features | None = None) -> Any:
        """As any rule; ancestors that are no candidates are added to the lists of labels."""
        chosen = self.rule(y_score, features=features)
        return close(chosen, self.ancestors)

    def to_config(self) -> Config:
        """The rule as plain JSON."""
        return {"rule": self.name, "rule_below": self.rule.to_config(), "parents": self.parents}

    @classmethod
    def from_config(cls, config: Config) -> Self:
        """The rule that `to_config` described."""
        from zlpr.decoding.registry import from_config  # the registry knows this class as well

        if config.keys() != {"rule", "rule_below", "parents"}:
            raise UserError(f"{cls.name} needs rule_below and parents")
        below = config["rule_below"]
        if not isinstance(below, dict) or below.get("rule") == cls.name:
            raise UserError(f"rule_below of {cls.name} must be the configuration of another rule")
        return cls(from_config(below), config["parents"])


def close(chosen: Any, ancestors: Ancestors) -> Any:
    """Label sets with all ancestors of their labels, in the form in which they are given.

    Args:
        chosen: booleans of shape (samples, labels), array or tensor, or `LabelLists`.
        ancestors: of the same labels.
    """
    labels = chosen.shape[1]
    if labels != ancestors.num_labels:
        raise UserError(
            f"{counted(labels, 'label')}, and a hierarchy of {ancestors.num_labels:,}: "
            "they are not of the same labels"
        )
    if isinstance(chosen, LabelLists):
        rows = np.repeat(np.arange(len(chosen)), np.diff(chosen.indptr))
        cells = ancestors.close(rows * labels + chosen.indices)
        rows, columns = np.divmod(cells, labels)
        counts = np.bincount(rows, minlength=len(chosen))
        return LabelLists(np.append(0, np.cumsum(counts)), columns, labels)
    dense = chosen.cpu().numpy() if isinstance(chosen, torch.Tensor) else chosen
    closed = np.zeros(dense.size, dtype=bool)
    closed[ancestors.close(np.flatnonzero(dense))] = True
    closed = closed.reshape(dense.shape)
    return torch.from_numpy(closed).to(chosen.device) if dense is not chosen else closed


def bare(rule: Rule) -> Rule:
    """The rule that decides before ancestors are added.

    Examples:
        >>> bare(WithAncestors(ZeroBound(), [[]]))
        ZeroBound()
    """
    return rule.rule if isinstance(rule, WithAncestors) else rule


def like(model_rule: Rule, rule: Rule) -> Rule:
    """A rule in the place of another, with ancestors where that had them.

    Args:
        model_rule: what decided.
        rule: what is to decide.
    """
    return replace(model_rule, rule=rule) if isinstance(model_rule, WithAncestors) else rule

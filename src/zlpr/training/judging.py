"""How a fitted model is judged, the same for every command: at its own bound and as decoded."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from zlpr import decoding, metrics
from zlpr._ancestors import Ancestors
from zlpr.data import Dataset
from zlpr.decoding.with_ancestors import bare, close
from zlpr.losses import registry

if TYPE_CHECKING:
    from zlpr.training.base import Trained
    from zlpr.training.parts import Parts


@dataclass(frozen=True)
class ScoredPart:
    """A part of the data with what a model makes of it.

    Attributes:
        truth: labels, CSR.
        scores: of the same shape, (samples, labels), or of candidates.
        features: what a decoding rule may read beside them, where the model has it.
        ancestors: of the labels, which come with them in every label set.
        holds_training: whether samples of the training part are among them, as where both parts are
            scored in folds.
        groups: a number per sample, the same for copies of one and for samples of a group; None
            where there are none.
    """

    truth: Any
    scores: NDArray[np.float32] | metrics.TopScores
    features: decoding.Features | None = None
    ancestors: Ancestors | None = None
    holds_training: bool = False
    groups: NDArray[np.int64] | None = None

    def seen_apart(self, train_labels: Any) -> Any:
        """The training part's labels; None where its samples are among these.

        The set of such a sample would have been seen already, its own, when it is decided on.
        """
        return None if self.holds_training else train_labels

    def decided(self, rule: decoding.Rule) -> NDArray[np.bool_] | metrics.LabelLists:
        """The label sets by a rule, in agreement with the hierarchy where there is one."""
        chosen: NDArray[np.bool_] | metrics.LabelLists
        chosen = rule(self.scores, features=self.features)
        return chosen if self.ancestors is None else close(chosen, self.ancestors)


def scored_validation(parts: "Parts", trained: "Trained") -> ScoredPart:
    """What a decoding rule and probabilities are chosen on, as a fit scored it.

    That is the validation part, or both parts where these were scored in folds. What a split keeps
    together is judged together: a rule is never judged on a copy of what it was fitted to.
    """
    in_folds = trained.validation_labels is not None
    return ScoredPart(
        trained.validation_labels if in_folds else parts.validation.labels,
        trained.validation_scores,
        trained.validation_features,
        ancestors_of(parts.train),
        holds_training=in_folds,
        groups=parts.units_of_both if in_folds else parts.validation_units,
    )


def hierarchy_of(train: Dataset) -> tuple[list[list[int]] | None, Ancestors | None]:
    """The parents of labels and all their ancestors; None where labels have no hierarchy."""
    if train.hierarchy is None:
        return None, None
    parents = train.hierarchy.numbered(train.label_names)
    return parents, Ancestors.of(parents)


def ancestors_of(train: Dataset) -> Ancestors | None:
    """All ancestors of labels; None where they have no hierarchy."""
    return hierarchy_of(train)[1]


def own_bound(loss: str) -> decoding.Rule | None:
    """The rule by which a loss decides without anything fitted; None for one that only ranks."""
    return decoding.create("zero") if registry.info(loss).decides else None


MANY_LABELS = 100
"""From here on, figures at k, by propensity and by the labels' frequency are of interest."""


def frequencies_of(
    seen: metrics.LabelFrequencies | None, *, a: float = 0.55, b: float = 1.5
) -> metrics.LabelFrequencies | None:
    """The frequencies to judge a model by; None where its labels are few, or were not counted.

    Args:
        seen: how often its labels were in training.
        a: A of Jain's propensities.
        b: B of them.
    """
    if seen is None or len(seen.counts) < MANY_LABELS:
        return None
    return metrics.LabelFrequencies(seen.counts, seen.samples, a, b)


def judge(
    loss: str,
    decoder: decoding.Rule,
    parts: Mapping[str, ScoredPart],
    empty: metrics.Empty,
    frequencies: metrics.LabelFrequencies | None = None,
) -> dict[str, dict[str, float]]:
    """Figures on each part as decoded, and on the last part at the loss's own bound.

    Args:
        loss: the loss's name.
        decoder: the fitted rule.
        parts: by name, the one to be judged by last.
        empty: what empty cases count.
        frequencies: of the labels in training.
    """
    judged = frequencies_of(frequencies)

    def figures_of(part: ScoredPart, rule: decoding.Rule) -> dict[str, float]:
        decided = part.decided(rule)
        return metrics.evaluate(part.truth, part.scores, decided, empty=empty, frequencies=judged)

    figures = {name: figures_of(part, decoder) for name, part in parts.items()}
    own = own_bound(loss)
    if own is not None and not isinstance(bare(decoder), decoding.ZeroBound):
        name, part = list(parts.items())[-1]
        figures[f"{name}, bound 0"] = figures_of(part, own)
    return figures

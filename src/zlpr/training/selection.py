"""How validation judges a model during training, the same for every kind of model."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlpr import decoding
from zlpr._ancestors import Ancestors
from zlpr.decoding.with_ancestors import close
from zlpr.losses import registry
from zlpr.metrics import MetricSet, TopScores, info
from zlpr.training.config import AUTO, TrainingConfig
from zlpr.training.judging import ScoredPart


def choose_rule(
    config: TrainingConfig,
    train_labels: Any,
    validation: ScoredPart,
    metric: str | None = None,
) -> decoding.Choice:
    """The rule that the settings ask for, fitted on validation, and what it was chosen from.

    Args:
        config: names the rule, or leaves the choice to cross-validation.
        train_labels: labels of the training part, CSR.
        validation: what to choose and fit on.
        metric: what to choose and fit for; `config.decision_metric` where None.
    """
    metric = metric or config.decision_metric
    given = given_rule(config)
    if given is not None:
        return decoding.Choice(given, metric, (), len(validation.scores))
    names: tuple[str, ...] = (config.decode,)
    if config.decode == AUTO:
        of_candidates = isinstance(validation.scores, TopScores)
        names = rules_of(config.scored_as, of_candidates=of_candidates)
    return decoding.weigh(
        validation.truth,
        validation.scores,
        metric,
        rules=names,
        train_labels=validation.seen_apart(train_labels),
        features=validation.features,
        empty=config.convention,
        ancestors=validation.ancestors,
        groups=validation.groups,
    )


def rules_of(loss: str, *, of_candidates: bool = False) -> tuple[str, ...]:
    """The rules that "auto" chooses among, the preferred first; at zero only losses that decide.

    Args:
        loss: its name.
        of_candidates: only rules that can decide on `TopScores`.
    """
    names = decoding.by_preference(decoding.rules_of_scores(of_candidates=of_candidates))
    return tuple(name for name in names if registry.info(loss).decides or name != "zero")


def given_rule(config: TrainingConfig) -> decoding.Rule | None:
    """The threshold or number of labels that the settings give; None where a rule is fitted."""
    if config.threshold is None and config.top is None:
        return None
    bare, threshold, top = decoding.ZeroBound(), config.threshold, config.top
    return decoding.by_hand(bare, decoding.Calibrator(), threshold=threshold, top=top)


def quick_rule(config: TrainingConfig) -> decoding.Rule:
    """What is fitted while a model is being trained and judged many times, by scores alone."""
    if config.decode in decoding.rules_of_scores():
        return decoding.create(config.decode)
    return decoding.create(
        "threshold" if registry.info(config.scored_as).decides else "label_count"
    )


def choose_probabilities(
    loss: str, train_labels: Any, validation: ScoredPart
) -> decoding.ProbabilityChoice:
    """What makes probabilities, starting from the loss's own link, fitted on validation."""
    scale = registry.info(loss).link_scale or 1.0
    return decoding.choose_probabilities(
        validation.truth,
        validation.scores,
        link_scale=scale,
        train_labels=validation.seen_apart(train_labels),
        groups=validation.groups,
    )


def validation_metric(
    config: TrainingConfig,
    y_true: Any,
    y_score: NDArray[np.float32] | TopScores,
    ancestors: Ancestors | None = None,
) -> float:
    """`config.choice_metric` on validation.

    Where it needs label sets, the rule that the settings give decides, or one that is fitted now,
    and labels come with their `ancestors`, as in the figures of the finished model.
    """
    figures = MetricSet(y_score.shape[1], empty=config.convention)
    by_scores = info(config.choice_metric).needs == "scores"
    predicted: Any = None
    if not by_scores:
        rule = given_rule(config) or quick_rule(config).fit(
            y_true, y_score, config.decision_metric, empty=config.convention
        )
        predicted = rule(y_score)
        if ancestors is not None:
            predicted = close(predicted, ancestors)
    figures.update(y_true, y_score if by_scores else None, predicted)
    return float(figures.compute()[config.choice_metric])


def is_better(metric: str, value: float, than: float) -> bool:
    """Whether a value of the metric beats another."""
    return info(metric).sign * value > info(metric).sign * than

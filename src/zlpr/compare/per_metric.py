"""Every figure by a model that validation chose for that very figure.

A search leaves several fits: regularisations, and parameters of the loss where these are to be
chosen. Whoever picks one of them by Micro-F1 and then reports subset accuracy compares the losses
by how well one metric stands in for another. Here each figure of the paper takes, of the same fits,
the one that is best by it on validation, decided in the same way; so does one threshold, and the
chosen rule is fitted to the scores that one threshold found best. All losses pay the same for it:
nothing is trained again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zlpr import decoding, metrics
from zlpr.compare.records import Decoded, Evaluation
from zlpr.compare.results import METRICS
from zlpr.metrics import MetricInfo
from zlpr.training import TrainingConfig, TrainingProgress
from zlpr.training.judging import ScoredPart, own_bound
from zlpr.training.selection import choose_rule

DECIDED = tuple(metric for metric in METRICS if metric.needs_decision)


@dataclass(frozen=True)
class Try:
    """One fit of a search.

    Attributes:
        chosen: at what it was made, such as {"regularisation": 0.3, "pos_weight": 2.7}.
        validation: the validation part as it scored it.
        test: the test part.
        history: its own lines.
    """

    chosen: Mapping[str, float]
    validation: ScoredPart
    test: ScoredPart
    history: tuple[TrainingProgress, ...] = ()


@dataclass(frozen=True)
class Picked:
    """What a set of tries gives where each figure picks its own.

    Attributes:
        evaluation: the figures.
        tries: by decoding ("own", "threshold", "fitted") and metric, the place of the fit.
        rules: by metric, the chosen rule.
    """

    evaluation: Evaluation
    tries: Mapping[str, Mapping[str, int]]
    rules: Mapping[str, decoding.Rule]

    @property
    def used(self) -> set[int]:
        """The fits that any figure is of."""
        return {place for places in self.tries.values() for place in places.values()}


@dataclass
class Picker:
    """Judges tries, each once, and picks among all or some of them.

    Attributes:
        config: of the search.
        tries: its fits.
        train_labels: of the training part, CSR.
    """

    config: TrainingConfig
    tries: Sequence[Try]
    train_labels: Any
    _own: dict[int, dict[str, float]] = field(default_factory=dict)
    _cuts: dict[tuple[int, str], tuple[decoding.Rule, float]] = field(default_factory=dict)
    _rules: dict[tuple[int, str], decoding.Rule] = field(default_factory=dict)

    def pick(self, *several: Sequence[int]) -> list[Picked]:
        """The figures that each of several sets of tries gives, by their places.

        The rules of one try are fitted one after the other, for they share what they learn of it.
        """
        cuts = [self._best_cuts(among) for among in several]
        wanted = {(place, name) for cut in cuts for name, place in cut.items()}
        for place, name in sorted(wanted):
            self._rule(place, name)
        return [self._picked(among, cut) for among, cut in zip(several, cuts, strict=True)]

    def _best_cuts(self, among: Sequence[int]) -> dict[str, int]:
        """For each metric of label sets the try that one threshold makes best."""
        decided = dict.fromkeys([*DECIDED, metrics.info(self.config.decision_metric)])
        return {metric.name: self._best(among, metric, self._cut_value) for metric in decided}

    def _picked(self, among: Sequence[int], cut: Mapping[str, int]) -> Picked:
        own = {m.name: self._best(among, m, self._own_value) for m in METRICS if self._has_own(m)}
        main = self.config.decision_metric
        rules = {name: self._rule(place, name) for name, place in cut.items()}
        parts = [
            Decoded(
                self._figures_at_own_bound(part, own),
                self._figures_by_rules(part, cut, rules, main),
                {
                    name: self._figure(part, place, self._cut(place, name)[0], name)
                    for name, place in cut.items()
                },
            )
            for part in ("validation", "test")
        ]
        tries = {"own": own, "threshold": cut, "fitted": cut}
        return Picked(Evaluation(*map(_finite, parts)), tries, rules)

    def _has_own(self, metric: MetricInfo) -> bool:
        return own_bound(self.config.scored_as) is not None or not metric.needs_decision

    def _best(self, among: Sequence[int], metric: MetricInfo, value: Any) -> int:
        """The first of the tries that has the best value."""
        return max(among, key=lambda place: metric.sign * value(place, metric.name))

    def _own_value(self, place: int, metric: str) -> float:
        if place not in self._own:
            self._own[place] = self._at_own_bound(self.tries[place].validation)
        return self._own[place][metric]

    def _at_own_bound(self, part: ScoredPart) -> dict[str, float]:
        own = own_bound(self.config.scored_as)
        decided = None if own is None else part.decided(own)
        return metrics.evaluate(part.truth, part.scores, decided, empty=self.config.convention)

    def _cut(self, place: int, metric: str) -> tuple[decoding.Rule, float]:
        """One threshold fitted for a metric, and what it reaches there."""
        if (place, metric) not in self._cuts:
            part = self.tries[place].validation
            rule = decoding.Threshold().fit(
                part.truth, part.scores, metric, empty=self.config.convention
            )
            value = self._figure("validation", place, rule, metric)
            self._cuts[place, metric] = rule, value
        return self._cuts[place, metric]

    def _cut_value(self, place: int, metric: str) -> float:
        return self._cut(place, metric)[1]

    def _rule(self, place: int, metric: str) -> decoding.Rule:
        if (place, metric) not in self._rules:
            part = self.tries[place].validation
            found = choose_rule(self.config, self.train_labels, part, metric)
            self._rules[place, metric] = found.rule
        return self._rules[place, metric]

    def _figure(self, part: str, place: int, rule: decoding.Rule, metric: str) -> float:
        return self._by(part, place, rule)[metric]

    def _by(self, part: str, place: int, rule: decoding.Rule) -> dict[str, float]:
        scored: ScoredPart = getattr(self.tries[place], part)
        decided = scored.decided(rule)
        return metrics.evaluate(scored.truth, y_pred=decided, empty=self.config.convention)

    def keep_rule(self, metric: str, rule: decoding.Rule) -> None:
        """Take a rule that is there already as the first try's for a metric."""
        self._rules[0, metric] = rule

    def _figures_at_own_bound(self, part: str, own: Mapping[str, int]) -> dict[str, float]:
        found = {
            place: self._at_own_bound(getattr(self.tries[place], part)) for place in own.values()
        }
        usual = own.get(self.config.decision_metric, next(iter(own.values())))
        return {**found[usual], **{name: found[place][name] for name, place in own.items()}}

    def _figures_by_rules(
        self,
        part: str,
        cut: Mapping[str, int],
        rules: Mapping[str, decoding.Rule],
        main: str,
    ) -> dict[str, float]:
        found = {name: self._by(part, place, rules[name]) for name, place in cut.items()}
        scored: ScoredPart = getattr(self.tries[cut[main]], part)
        by_scores = metrics.evaluate(scored.truth, scored.scores, empty=self.config.convention)
        return {**by_scores, **found[main], **{name: found[name][name] for name in cut}}


def _finite(part: Decoded) -> Decoded:
    """Without the metrics that are not defined on this data."""
    kept = (
        {name: float(value) for name, value in figures.items() if np.isfinite(value)}
        for figures in (part.own, part.fitted, part.threshold)
    )
    return Decoded(*kept)

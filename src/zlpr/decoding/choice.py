"""Which rule to decide by: cross-validation on the validation scores."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlpr._ancestors import Ancestors
from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.decoding._folds import (
    FEW_SAMPLES,
    FOLDS,
    TOLERANCE,
    error_of_mean,
    folds_of,
    groups_among,
    thinned,
    too_few,
)
from zlpr.decoding._rule import BoolArray, Features, Rule, Validation, check_all_labels
from zlpr.decoding._shortlist import Shortlist
from zlpr.decoding._sweep import set_values
from zlpr.decoding.label_sets import LabelSets
from zlpr.decoding.registry import available, create
from zlpr.decoding.with_ancestors import close
from zlpr.metrics import Empty, Labels, Scores, info
from zlpr.metrics.table import shown

__all__ = ["Choice", "JudgedRule", "by_preference", "choose", "weigh"]

SIMPLE = ("zero", "threshold", "top_k", "label_count")

Values = NDArray[np.float64]


@dataclass(frozen=True)
class JudgedRule:
    """What cross-validation says of a rule.

    Attributes:
        name: of the rule.
        value: the metric over all samples, each decided by a rule fitted without it.
        behind: how far this is behind the best rule's value, 0 for the best itself.
        error: standard error of `behind`, from the samples' paired differences.
    """

    name: str
    value: float
    behind: float
    error: float


@dataclass(frozen=True)
class Choice:
    """A fitted rule, and what it was chosen from.

    Attributes:
        rule: fitted on all of the validation data.
        metric: what it was chosen and fitted for.
        judged: all rules, the preferred first; empty where there were too few samples to compare.
        samples: that were compared on.
        groups: of which these are, copies of a sample among them; None where each is its own.
    """

    rule: Rule
    metric: str
    judged: tuple[JudgedRule, ...]
    samples: int
    groups: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The record of the choice as plain JSON, without the rule's parameters."""
        return {
            "rule": self.rule.name,
            "metric": self.metric,
            "samples": self.samples,
            **({} if self.groups is None else {"groups": self.groups}),
            "judged": [vars(judged) for judged in self.judged],
        }

    def describe(self) -> str:
        """The choice in one line, for people.

        Examples:
            >>> rows = (JudgedRule("zero", 0.5, 0.1, 0.02), JudgedRule("label_sets", 0.6, 0.0, 0.0))
            >>> Choice(create("label_sets"), "subset_accuracy", rows, 200).describe()
            'label_sets, chosen for subset accuracy on 200 samples: 60.0 %; others: zero 50.0 %'
        """
        words = info(self.metric).words
        if not self.judged:
            few = too_few(self.samples, self.groups)
            return f"{self.rule.name}, fitted for {words}: {few} to choose on"
        values = {judged.name: judged.value for judged in self.judged}
        own = values.pop(self.rule.name)
        others = ", ".join(f"{name} {shown(value)}" for name, value in values.items())
        samples = counted(self.samples, "sample")
        line = f"{self.rule.name}, chosen for {words} on {samples}: {shown(own)}"
        return f"{line}; others: {others}" if others else line


def choose(
    y_true: Labels,
    y_score: Scores,
    metric: str = "micro_f1",
    *,
    rules: Sequence[str | Rule] | None = None,
    train_labels: Labels | None = None,
    features: Features | None = None,
    empty: Empty = "paper",
) -> Rule:
    """The fitted rule that cross-validation on the given scores finds best for the metric.

    See `weigh`, which also tells by how much.

    Examples:
        >>> generator = np.random.default_rng(0)
        >>> either = generator.integers(2, size=400)  # one of two labels, never none or both
        >>> true = np.stack([either == 0, either == 1], axis=1)
        >>> scores = true - 1.5 + generator.normal(size=true.shape)
        >>> choose(true, scores, "subset_accuracy", rules=["threshold", "top_k"])
        TopK(k=1)
    """
    return weigh(
        y_true,
        y_score,
        metric,
        rules=rules,
        train_labels=train_labels,
        features=features,
        empty=empty,
    ).rule


def weigh(
    y_true: Labels,
    y_score: Scores,
    metric: str = "micro_f1",
    *,
    rules: Sequence[str | Rule] | None = None,
    train_labels: Labels | None = None,
    features: Features | None = None,
    empty: Empty = "paper",
    tolerance: float = TOLERANCE,
    ancestors: Ancestors | None = None,
    groups: Sequence[Any] | NDArray[Any] | None = None,
) -> Choice:
    """Compare rules by five-fold cross-validation and fit the one to decide by.

    That is the first, in order of preference, which is behind the best by no more than `tolerance`
    standard errors of their difference. The joint rule is preferred, then the simpler to the less
    simple (`by_preference`): on validation parts of ten data sets that order loses least where the
    samples do not tell the rules apart (`bench/decision.py --tolerance-study`).

    The folds are the same in every call. With fewer than fifty samples only the cut at zero, one
    threshold, one number of labels and a learned number are compared (of the rules given, where any
    of these is among them), the simplest preferred. With fewer than ten nothing is compared: the
    cut at zero is taken, or where it is not among the rules the last of these.

    Args:
        y_true: true labels of the validation part, shape (samples, labels), dense or CSR.
        y_score: scores of the same shape, dense or `TopScores`.
        metric: what to be best at, one of `DECISION_METRICS`.
        rules: names or rules, the preferred first; None takes all there are.
        train_labels: labels of the training part, shape (any, labels), dense or CSR;
            of other samples than these, each of which would have seen its own set there.
        features: of the validation samples, shape (samples, columns), dense or CSR.
        empty: what empty cases count, see `zlpr.metrics`.
        tolerance: standard errors that a preferred rule may be behind; 0 takes the best.
        ancestors: of the labels, which come with whatever a rule decides on: rules are compared by
            the sets with them.
        groups: a value per sample, equal for those that are judged together by a rule that has
            seen none of them, as copies of one sample have to be.

    Returns:
        The fitted rule with the record of the comparison.
    """
    data = Validation.check(y_true, y_score, metric, empty, train_labels, features, groups)
    given = _all_rules(data) if rules is None else rules
    weighed = _affordable([create(x) if isinstance(x, str) else deepcopy(x) for x in given], data)
    for each in weighed:
        if each.reads_all_labels:
            check_all_labels(each.name, data.shortlist)
    judged: tuple[JudgedRule, ...] = ()
    rule = weighed[0] if weighed[0].name == "zero" else weighed[-1]
    part = thinned(data)
    if part.num_groups >= 2 * FOLDS and len(weighed) > 1:
        judged = _judge(weighed, part, ancestors)
        near = (judge.behind <= tolerance * judge.error for judge in judged)
        rule = next(rule for rule, is_near in zip(weighed, near, strict=True) if is_near)
    rule.learn(data)
    return Choice(rule, metric, judged, len(part.true), groups_among(part))


def by_preference(names: Iterable[str]) -> tuple[str, ...]:
    """Rules in the order in which to prefer them: the joint one first, the others as they come.

    Examples:
        >>> by_preference(["zero", "threshold", "label_sets", "expected_f1"])
        ('label_sets', 'zero', 'threshold', 'expected_f1')
    """
    return tuple(sorted(names, key=lambda name: name != LabelSets.name))


def _all_rules(data: Validation) -> list[str | Rule]:
    """Every rule that stands for itself and has what it needs."""
    rules = [create(name) for name in by_preference(available())]
    return [
        rule
        for rule in rules
        if (data.features is not None or not rule.needs_features)
        and (data.shortlist is None or not rule.needs_all_labels)
    ]


def _affordable(rules: list[Rule], data: Validation) -> list[Rule]:
    """All of the rules, or with few samples only the simple ones among them."""
    if not rules:
        raise UserError("there is no rule to choose from")
    simple = [rule for rule in rules if rule.name in SIMPLE]
    return simple if data.num_groups < FEW_SAMPLES and simple else rules


def _judge(
    rules: Sequence[Rule], data: Validation, ancestors: Ancestors | None
) -> tuple[JudgedRule, ...]:
    """Each rule's value on samples that it was not fitted on, and its distance from the best."""
    decided = [(data, _decided(rule, data)) for rule in rules]
    if ancestors is not None:
        decided = [_with_ancestors(data, chosen, ancestors) for _, chosen in decided]
    parts = [per_sample(*pair) for pair in decided]
    values = [float(part.mean()) for part in parts]
    best = int(np.argmax(values))
    sign = info(data.metric).sign
    return tuple(
        JudgedRule(
            rule.name,
            sign * value,
            values[best] - value,
            error_of_mean(parts[best] - part, data),
        )
        for rule, value, part in zip(rules, values, parts, strict=True)
    )


def _decided(rule: Rule, data: Validation) -> BoolArray:
    """Label sets of all samples, each fold decided by a rule fitted on the others."""
    decided = np.empty(data.true.shape, dtype=bool)
    for fold, rest, held in folds_of(data):
        fitted = deepcopy(rule)
        fitted.learn(rest)
        decided[fold] = fitted.decide(held.scores, held.features, held.shortlist)
    if data.shortlist is not None:
        decided &= data.scores > -np.inf  # no candidate
    return decided


def _with_ancestors(
    data: Validation, decided: BoolArray, ancestors: Ancestors
) -> tuple[Validation, BoolArray]:
    """What was decided with its ancestors, and cells among which these are.

    Of candidates, the cells are those that are true or decided on, for an ancestor may be none.
    """
    if data.shortlist is None:
        return data, close(decided, ancestors)
    num_labels, labels = data.num_labels, data.shortlist.labels

    def cells_of(mask: BoolArray) -> NDArray[np.int64]:
        return np.nonzero(mask)[0] * num_labels + labels[mask]

    true, chosen = cells_of(data.true), ancestors.close(cells_of(decided))
    if data.missed is not None:
        true = np.concatenate([true, data.missed.cells])
    cells = np.union1d(true, chosen)
    rows, columns = np.divmod(cells, num_labels)
    counts = np.bincount(rows, minlength=len(decided))
    places = np.arange(len(cells)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = (len(decided), int(counts.max(initial=1)))
    listed = np.full(shape, num_labels)
    is_true, is_chosen = np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)
    listed[rows, places] = columns
    is_true[rows, places], is_chosen[rows, places] = np.isin(cells, true), np.isin(cells, chosen)
    around = Shortlist(listed, num_labels)
    return replace(data, true=is_true, shortlist=around, missed=None), is_chosen


def per_sample(data: Validation, predicted: BoolArray) -> Values:
    r"""What each sample adds to the metric; the mean is the metric (Hamming loss negative).

    For the F1 measures of whole data this is the metric plus each sample's influence on it: with
    $F = 2 \sum t_i / \sum d_i$, sample i has $F + n (2 t_i - F d_i) / \sum d_i$.

    Args:
        data: the truth and the metric.
        predicted: which cells are predicted, shape (samples, width).

    Returns:
        Shape (samples,).
    """
    true, samples = data.true, len(data.true)
    hit, sizes = true & predicted, data.sample_sizes()
    if data.metric not in ("micro_f1", "macro_f1", "weighted_f1"):
        hits, chosen = np.count_nonzero(hit, axis=1), np.count_nonzero(predicted, axis=1)
        values = set_values(data, hits, chosen, sizes)
        return values * samples if data.metric == "hamming_loss" else values
    if data.metric == "micro_f1":
        both, together = 2.0 * hit.sum(axis=1), (predicted.sum(axis=1) + sizes).astype(np.float64)
        f1 = both.sum() / together.sum() if together.any() else float(data.empty == "paper")
        influence: Values = samples * (both - f1 * together) / max(1.0, together.sum())
        return influence + f1
    return _per_sample_of_labels(data, hit, predicted)


def _per_sample_of_labels(data: Validation, hit: BoolArray, predicted: BoolArray) -> Values:
    """`per_sample` of the metrics that are means over labels."""
    positives = data.label_sizes()
    hits, total = 2.0 * data.count_by_label(hit), positives + data.count_by_label(predicted)
    f1 = np.where(total > 0, hits / np.maximum(total, 1), float(data.empty == "paper"))
    weights = np.full(len(f1), 1 / len(f1))
    if data.metric == "weighted_f1":
        weights = positives / max(1, int(positives.sum()))
    share = weights / np.maximum(total, 1)
    gain, cost = data.per_cell(2 * share), data.per_cell(share * f1)
    influence: Values = (hit * gain - (data.true * 1.0 + predicted) * cost).sum(axis=1)
    if data.missed is not None:
        lost = (share * f1)[data.missed.columns]
        influence -= np.bincount(data.missed.rows, lost, minlength=len(influence))
    return len(data.true) * influence + float(weights @ f1)

"""Probabilities and decoding rules as parts of an ONNX graph, equal to `zlpr.decoding`.

Scores are finite here: the kinds of models that are exported give no others.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zlpr._errors import UserError
from zlpr.decoding import Calibrator, Rule
from zlpr.decoding._feature_columns import MOST_COLUMNS, buckets
from zlpr.decoding._second_stage import ReadsFeatures, SecondStage
from zlpr.decoding.expected_f1 import ExpectedF1
from zlpr.decoding.floor import ProbabilityFloor
from zlpr.decoding.label_count import FeatureCount, LabelCount
from zlpr.decoding.label_sets import LabelSets
from zlpr.decoding.probabilities import Probabilities
from zlpr.decoding.sample_threshold import SHOWN, FeatureThreshold, SampleThreshold
from zlpr.decoding.threshold import PerLabelThreshold, Threshold, ZeroBound
from zlpr.decoding.top_k import TopK
from zlpr.decoding.with_ancestors import WithAncestors
from zlpr.serving.export_graph import Graph, Value, concat, where
from zlpr.serving.export_sets import Posterior, best_set, posterior_of

MOST_INTEGRATED = 256
"""Labels up to which expected F1 is put into a graph: it takes the square of them for a sample."""

MOST_IN_HIERARCHY = 4096
"""Labels up to which a hierarchy is put into a graph, as a matrix of their square."""


@dataclass
class Sample:
    """What a graph knows of the samples when it decides.

    Attributes:
        scores: shape (batch, labels), float32.
        num_labels: L.
        condensed: features in at most 128 columns, (batch, columns), float64, for the rules that
            read features; made when it is called for.
        posteriors: those of label sets that stand in the graph already, by what they were made of.
    """

    scores: Value
    num_labels: int
    condensed: Callable[[], Value] | None = None
    posteriors: dict[str, Posterior] = field(default_factory=dict)

    @property
    def graph(self) -> Graph:
        """That all of this stands in."""
        return self.scores.graph


def add_probabilities(sample: Sample, probabilities: Probabilities) -> Value:
    """The chance of each label, (batch, labels), float32."""
    if isinstance(probabilities, Calibrator):
        return log_odds(sample.scores, probabilities).apply("Sigmoid")
    made = posterior_of(sample.scores, probabilities, sample.posteriors, log_odds)
    return made.marginals().cast(np.float32)


def log_odds(scores: Value, calibrator: Calibrator) -> Value:
    """Calibrated log odds in the type of the scores, as `Calibrator.log_odds`."""
    slope = (calibrator.link_scale / np.asarray(calibrator.temperature)).astype(scores.dtype)
    return scores * slope + np.asarray(calibrator.bias, dtype=scores.dtype)


def add_decision(sample: Sample, rule: Rule) -> Value:
    """Which labels are predicted, (batch, labels), bool.

    Raises:
        UserError: the rule cannot be put into a graph; the line names those that can.
    """
    decide = _RULES.get(type(rule))
    if decide is None:
        raise UserError(
            f"the rule {rule.name!r} cannot be exported, only {', '.join(exportable_rules())}; "
            "train with one of them (zlpr train --decode threshold), or decide here by "
            "--threshold or --top"
        )
    decided: Value = decide(sample, rule)
    return decided


def exportable_rules() -> tuple[str, ...]:
    """Names of the rules that can be put into a graph."""
    return tuple(rule.name for rule in _RULES if rule not in (ProbabilityFloor, WithAncestors))


def _zero(sample: Sample, rule: ZeroBound) -> Value:
    return sample.scores > 0.0


def _threshold(sample: Sample, rule: Threshold) -> Value:
    return sample.scores > rule.threshold


def _per_label(sample: Sample, rule: PerLabelThreshold) -> Value:
    return sample.scores > np.asarray(rule.thresholds)


def _top_k(sample: Sample, rule: TopK) -> Value:
    _, places = sample.scores.top(min(rule.k, sample.num_labels))
    return _marked(sample.scores, places)


def _marked(scores: Value, places: Value) -> Value:
    """True at some places of each row."""
    none = scores * 0.0
    ones = places.cast(scores.dtype) * 0.0 + 1.0
    return none.put_along(places, ones) > 0.0


def _floor(sample: Sample, rule: ProbabilityFloor) -> Value:
    likely = add_probabilities(sample, rule.calibrator) >= rule.min_probability
    return add_decision(sample, rule.rule) & likely


def _with_ancestors(sample: Sample, rule: WithAncestors) -> Value:
    """A label, or any below it: a product with a matrix of all labels and their ancestors."""
    if sample.num_labels > MOST_IN_HIERARCHY:
        raise UserError(
            f"a hierarchy of {sample.num_labels:,} labels cannot be exported, only of up to "
            f"{MOST_IN_HIERARCHY:,}: the graph holds a number for each pair of them"
        )
    above = np.eye(sample.num_labels, dtype=np.float32)
    for label in range(sample.num_labels):
        above[label, rule.ancestors[label]] = 1.0
    return add_decision(sample, rule.rule).cast(np.float32) @ above > 0.0


def _label_count(sample: Sample, rule: LabelCount) -> Value:
    """The first labels of each sample, as long as the chance of so many exceeds the cut."""
    count = min(rule.max_count, sample.num_labels)
    if count == 0:
        return sample.scores > np.inf
    exact = sample.scores.cast(np.float64)
    order, inputs = _rank_inputs(exact, count, sample.num_labels)
    if isinstance(rule, FeatureCount):
        columns = _condensed(sample, rule).expand_dims(1)
        inputs = concat([inputs, columns.broadcast([1, count, 1])], 2)
    survival = (-_softplus(-_linear(rule, inputs))).cumsum(1).apply("Exp")
    beyond = exact * 0.0 - 1.0  # below all chances, and above no cut
    return beyond.put_along(order, survival) > max(rule.cut, -1.0)


def _rank_inputs(scores: Value, count: int, labels: int) -> tuple[Value, Value]:
    """The first labels by score, and what `LabelCount` reads of each rank."""
    shown = min(count + 1, labels)
    top, order = scores.top(shown)
    if shown == count:
        top = concat([top, top[count - 1 : count]], 1)
    mean, deviation = _moments(scores, labels)
    here, first = top[0:count], top[0:1]
    before = first if count == 1 else concat([first, top[0 : count - 1]], 1)
    ranks = here * 0.0 + np.log(np.arange(1, count + 1))
    standard = (here - mean) / deviation.at_least(1e-12)
    columns = [here, standard, first - here, before - here, here - top[1 : count + 1], ranks]
    inputs = concat([column.expand_dims(2) for column in columns], 2)
    return order[0:count], inputs


def _moments(scores: Value, labels: int) -> tuple[Value, Value]:
    """Mean and standard deviation of each row, each of shape (batch, 1)."""
    mean = scores.sum(1, keep=True) / float(labels)
    centred = scores - mean
    return mean, ((centred * centred).sum(1, keep=True) / float(labels)).apply("Sqrt")


def _softplus(values: Value) -> Value:
    """`log(1 + e^x)` without overflow."""
    return values.at_least(0.0) + ((-values.apply("Abs")).apply("Exp") + 1.0).apply("Log")


def _linear(rule: SecondStage, inputs: Value) -> Value:
    """`w . (x - mean) / scale + b` over the last axis, which goes."""
    standardised = (inputs - np.asarray(rule.mean)) / np.asarray(rule.scale)
    return standardised @ np.asarray(rule.weights[:-1]) + rule.weights[-1]


def _condensed(sample: Sample, rule: ReadsFeatures) -> Value:
    if sample.condensed is None:
        raise UserError(f"the rule {rule.name!r} reads features, which this kind has none of")
    return sample.condensed()


def _sample_threshold(sample: Sample, rule: SampleThreshold) -> Value:
    """The labels above a threshold that is read off the sample's highest scores."""
    exact = sample.scores.cast(np.float64)
    shown = min(SHOWN, sample.num_labels)
    top, _ = exact.top(shown)
    top = concat([top, *[top[shown - 1 : shown]] * (SHOWN - shown)], 1)
    mean, deviation = _moments(exact, sample.num_labels)
    inputs = concat([top, top.sum(1, keep=True) / float(SHOWN), mean, deviation], 1)
    if isinstance(rule, FeatureThreshold):
        inputs = concat([inputs, _condensed(sample, rule)], 1)
    return exact - _linear(rule, inputs).expand_dims(1) > rule.offset


def condense_dense(features: Value, columns: int) -> Value:
    """Features of shape (batch, columns) as `zlpr.decoding` condenses them."""
    exact = features.cast(np.float64)
    if columns <= MOST_COLUMNS:
        return exact
    bucket, sign = buckets(columns)
    matrix = np.zeros((columns, MOST_COLUMNS))
    matrix[np.arange(columns), bucket] = sign
    return exact @ matrix


def condense_sparse(indices: Value, values: Value, columns: int) -> Value:
    """The same of features that are given by their columns, (batch, entries)."""
    graph = indices.graph
    bucket, sign = buckets(columns)
    signed = values.cast(np.float64) * graph.run(
        "Gather", graph.constant(sign, np.float64), indices, axis=0
    )
    held = graph.run("Gather", graph.constant(bucket, np.int64), indices, axis=0)
    none = signed.sum(1, keep=True) * 0.0 + np.zeros(min(columns, MOST_COLUMNS))
    return none.put_along(held, signed, add=True)


def _expected_f1(sample: Sample, rule: ExpectedF1) -> Value:
    r"""The set with the highest expected F1, by the same quadrature with enough nodes for all."""
    labels = sample.num_labels
    if labels > MOST_INTEGRATED:
        raise UserError(
            f"the rule 'expected_f1' over {labels:,} labels cannot be exported, only up to "
            f"{MOST_INTEGRATED}; train with another (zlpr train --decode threshold), or decide "
            "here by --threshold or --top"
        )
    chances = log_odds(sample.scores, rule.calibrator).apply("Sigmoid").cast(np.float64)
    descending, order = chances.top(labels)
    curve = _f1_curve(descending, labels, empty_counts=rule.empty == "paper")
    mean = chances.sum(1, keep=True)
    best = curve.max(1, keep=True).at_least(1e-300)
    needed = mean * 2.0 / best - mean
    sizes = np.arange(labels + 1.0)
    possible = needed * (1 + 1e-9) >= sizes
    worth = where(possible, curve - rule.price * sizes, -np.inf)
    taken = worth.argmax(1).cast(np.float64) > np.arange(float(labels))
    none = sample.scores * 0.0
    return none.put_along(order, taken.cast(np.float32)) > 0.0


def _f1_curve(descending: Value, labels: int, *, empty_counts: bool) -> Value:
    """Expected F1 of the 0, 1, … most probable labels, (batch, labels + 1)."""
    nodes, weights = np.polynomial.legendre.leggauss(labels)
    nodes, weights = (nodes + 1) / 2, weights / 2
    shares = descending.expand_dims(1)  # (batch, nodes, labels) below
    factors = 1.0 - shares * (1 - nodes)[:, None]
    inner = (shares / factors).cumsum(2)
    powers = 2 * weights[:, None] * nodes[:, None] ** np.arange(1, labels + 1)
    curve = (inner * factors.product(2, keep=True) * powers).sum(1)
    none = (1.0 - descending).product(1, keep=True)
    return concat([none if empty_counts else none * 0.0, curve], 1)


def _label_sets(sample: Sample, rule: LabelSets) -> Value:
    """The decision of the posterior over whole sets, for the metric that it was fitted for."""
    made = posterior_of(sample.scores, rule.posterior, sample.posteriors, log_odds)
    if rule.cut is not None:
        return add_decision(Sample(made.marginals().cast(np.float32), sample.num_labels), rule.cut)
    if rule.metric == "hamming_loss":
        return made.marginals().cast(np.float32) > 0.5
    chosen = best_set(made, rule.metric, rule.empty)
    none = sample.scores.cast(np.float64) * 0.0
    return none.put_along(made.labels, chosen) > 0.0


_RULES: dict[type[Rule], Callable[[Sample, Any], Value]] = {
    ZeroBound: _zero,
    Threshold: _threshold,
    TopK: _top_k,
    LabelCount: _label_count,
    LabelSets: _label_sets,
    SampleThreshold: _sample_threshold,
    FeatureCount: _label_count,
    FeatureThreshold: _sample_threshold,
    PerLabelThreshold: _per_label,
    ExpectedF1: _expected_f1,
    ProbabilityFloor: _floor,
    WithAncestors: _with_ancestors,
}

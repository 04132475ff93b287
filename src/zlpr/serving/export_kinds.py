"""How kinds of models become a graph: from features to the scores of all labels."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlpr._errors import UserError
from zlpr.data import Columns
from zlpr.models import FittedModel
from zlpr.models.features import TextFeatures
from zlpr.models.linear import LinearModel
from zlpr.models.powerset import PowersetModel, SetSoftmax
from zlpr.serving.export_graph import Graph, Value, take, where
from zlpr.serving.export_rules import Sample, condense_dense, condense_sparse

MOST_CELLS = 1 << 20
"""Sets times labels of a powerset that a graph goes through for every sample."""


@dataclass(frozen=True)
class Scored:
    """A graph that gives scores, and what a program must know to feed it.

    Attributes:
        sample: the scores, and what rules may read beside them.
        reading: how inputs are made, as small JSON values; "inputs" is "texts", "features" or
            "tokens".
        attachments: longer texts that go with it by name: a vocabulary, a tokenizer.
    """

    sample: Sample
    reading: dict[str, Any]
    attachments: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Features:
    """The inputs of a graph, which any number of layers may read.

    Attributes:
        times: the product with weights of shape (features, outputs).
        condensed: see `Sample`.
        reading: see `Scored`.
        attachments: see `Scored`.
    """

    times: Callable[[NDArray[np.float32]], Value]
    condensed: Callable[[], Value]
    reading: dict[str, Any]
    attachments: dict[str, str]


def linear(graph: Graph, model: FittedModel, *, sparse: bool | None) -> Scored:
    """`X W + b`."""
    if not isinstance(model, LinearModel):
        raise AssertionError("the registry names this for linear models")
    inputs = _inputs(graph, model, len(model.weight), model.text_features, model.means, sparse)
    return _scored(inputs, inputs.times(model.weight) + model.bias, model)


def powerset(graph: Graph, model: FittedModel, *, sparse: bool | None) -> Scored:
    """The mean of what set softmaxes give a label."""
    if not isinstance(model, PowersetModel):
        raise AssertionError("the registry names this for powersets")
    read = (model.num_features, model.text_features, model.means)
    inputs = _inputs(graph, model, *read, sparse)
    total, votes = None, np.zeros(len(model.label_names))
    for part in model.softmaxes:
        spread = np.zeros((len(part.labels), len(votes)), dtype=np.float32)
        spread[np.arange(len(part.labels)), part.labels] = 1.0
        logits = (inputs.times(part.weight) + part.bias).cast(np.float64)
        own = _label_scores(logits, part, model.set_scores).cast(np.float32) @ spread
        total = own if total is None else total + own
        votes[part.labels] += 1
    if total is None:
        raise UserError("a powerset without any set cannot be exported")
    return _scored(inputs, total / np.maximum(votes, 1), model)


def _label_scores(logits: Value, part: SetSoftmax, kind: str) -> Value:
    """As `zlpr.models.powerset.scores_of_labels`."""
    if part.sets.size > MOST_CELLS:
        raise UserError(
            f"a powerset of {part.sets.shape[0]:,} sets of {part.sets.shape[1]:,} labels is too "
            f"large to export ({MOST_CELLS:,} cells at most); train with --subset-size"
        )
    lowest = logits.min(1, keep=True) - 1.0
    sides = []
    for held in (part.sets, ~part.sets):
        nothing = np.asarray(~held.any(axis=0))
        # Such a label takes all sets here, lest infinities meet.
        block = logits.expand_dims(2) + np.where(held | nothing, 0.0, -np.inf)
        top = block.max(1, keep=True)
        joined = top.squeeze(1)
        if kind == "marginal":
            joined = joined + (block - top).apply("Exp").sum(1).apply("Log")
        sides.append(where(logits.graph.constant(nothing, np.bool_), lowest, joined))
    return sides[0] - sides[1]


def _scored(inputs: _Features, scores: Value, model: FittedModel) -> Scored:
    sample = Sample(scores, len(model.label_names), inputs.condensed)
    return Scored(sample, inputs.reading, inputs.attachments)


def _inputs(
    graph: Graph,
    model: FittedModel,
    num_features: int,
    text_features: TextFeatures | None,
    means: NDArray[np.float32] | None,
    sparse: bool | None,
) -> _Features:
    """Sparse inputs for texts, and dense ones for features unless told otherwise."""
    by_entry = text_features is not None if sparse is None else sparse
    reading: dict[str, Any] = {"num_features": num_features, "sparse": by_entry}
    attachments = {}
    if text_features is not None:
        reading["inputs"] = "texts"
        attachments["vocabulary"] = json.dumps(text_features.to_json(), ensure_ascii=False)
    else:
        reading["inputs"] = "features"
        held = Columns.from_json(model.record.data.get("columns", {})).features
        if held is not None:
            reading["feature_names"] = list(held.names)
        reading["missing"] = means is not None
    if by_entry:
        return _by_entry(graph, num_features, means, reading, attachments)
    return _by_column(graph, num_features, means, reading, attachments)


def _by_entry(
    graph: Graph,
    num_features: int,
    means: NDArray[np.float32] | None,
    reading: dict[str, Any],
    attachments: dict[str, str],
) -> _Features:
    """Each sample's features by their columns, filled up with zeros of column 0; NaN as below."""
    shape = ("batch", "entries")
    indices = graph.input("indices", np.int64, shape)
    given = graph.input("values", np.float32, shape)
    values = given
    if means is not None:
        values = _filled(given, take(graph.constant(means, np.float32), indices))
    row = values.expand_dims(1)

    def times(weight: NDArray[np.float32]) -> Value:
        table = graph.constant(weight, np.float32)
        return (row @ graph.run("Gather", table, indices, axis=0)).squeeze(1)

    return _Features(
        times, lambda: condense_sparse(indices, values, num_features), reading, attachments
    )


def _by_column(
    graph: Graph,
    num_features: int,
    means: NDArray[np.float32] | None,
    reading: dict[str, Any],
    attachments: dict[str, str],
) -> _Features:
    """A number for every feature; NaN stands for a missing one where training had such."""
    given = graph.input("features", np.float32, ("batch", num_features))
    features = given
    if means is not None:
        features = _filled(given, graph.constant(means, np.float32))
    return _Features(
        lambda weight: features @ weight,
        lambda: condense_dense(features, num_features),
        reading,
        attachments,
    )


def _filled(given: Value, means: Value) -> Value:
    """Features with the mean of its column for every one that is missing."""
    return where(given.graph.run("IsNaN", given, dtype=np.bool_), means, given)

"""Scores and features to decide on, and what a graph decides."""

import functools

import numpy as np
from scipy import sparse

from tests.serving.graphs import run
from zlpr import decoding
from zlpr.serving.export_graph import Graph
from zlpr.serving.export_rules import Sample, add_decision, condense_dense

LABELS, FEATURES = 9, 300


@functools.cache
def data():
    """Labels that depend on each other, scores that know them in part, and sparse features."""
    random = np.random.default_rng(0)
    topic = random.integers(4, size=600)
    chances = random.random((4, LABELS)) ** 3
    true = random.random((600, LABELS)) < chances[topic]
    scores = (2.5 * true - 2 + random.normal(size=true.shape)).astype(np.float32)
    features = sparse.random_array((600, FEATURES), density=0.05, rng=random, format="csr")
    return true, scores, features.astype(np.float32)


def fitted(name: str, metric: str) -> decoding.Rule:
    true, scores, features = data()
    return decoding.create(name).fit(
        true[:300], scores[:300], metric, train_labels=true[:300], features=features[:300]
    )


def decided(rule: decoding.Rule, scores, features=None) -> np.ndarray:
    """What the graph of a rule decides."""
    graph = Graph()
    width = scores.shape[1]
    sample = Sample(graph.input("scores", np.float32, ("batch", width)), width)
    given = {"scores": scores}
    if features is not None:
        columns = graph.input("features", np.float32, ("batch", features.shape[1]))
        sample.condensed = lambda: condense_dense(columns, features.shape[1])
        given["features"] = features.toarray()
    graph.output("decision", add_decision(sample, rule), ("batch", width))
    return run(graph, **given)["decision"]

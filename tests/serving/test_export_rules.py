"""In a graph every rule decides as in the package, and probabilities are the same."""

import dataclasses
import functools

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("onnxruntime", reason="exported files run in onnxruntime")

from tests.serving.graphs import run
from zlpr import UserError, decoding
from zlpr.decoding import Calibrator, ProbabilityFloor
from zlpr.decoding._rule import Validation
from zlpr.decoding._score_cells import ScoreCells
from zlpr.decoding.set_posterior import SetPosterior
from zlpr.serving.export_graph import Graph
from zlpr.serving.export_rules import (
    Sample,
    add_decision,
    add_probabilities,
    condense_dense,
    condense_sparse,
    exportable_rules,
)

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


@pytest.mark.parametrize("metric", ["micro_f1", "macro_f1"])
@pytest.mark.parametrize("name", decoding.available())
def test_every_rule_decides_as_in_the_package(name, metric):
    rule = fitted(name, metric)
    _, scores, features = data()
    rest = features[300:] if rule.reads_features else None
    expected = rule(scores[300:], features=rest)
    assert expected.any()
    np.testing.assert_array_equal(decided(rule, scores[300:], rest), expected)


@pytest.mark.parametrize(
    "metric", ["subset_accuracy", "example_f1", "jaccard", "hamming_loss", "weighted_f1"]
)
@pytest.mark.parametrize("empty", ["paper", "sklearn"])
def test_label_sets_are_decided_for_every_metric(metric, empty):
    true, scores, _ = data()
    rule = decoding.LabelSets().fit(
        true[:300], scores[:300], metric, empty=empty, train_labels=true[:300]
    )
    np.testing.assert_array_equal(decided(rule, scores[300:]), rule(scores[300:]))


@pytest.mark.parametrize("samples", [1, 7])
@pytest.mark.parametrize("name", ["zero", "top_k", "label_count", "label_sets", "expected_f1"])
def test_batches_of_any_size_are_decided(name, samples):
    rule, scores = fitted(name, "example_f1"), data()[1][300 : 300 + samples]
    found = decided(rule, scores)
    assert found.shape == (samples, LABELS)
    np.testing.assert_array_equal(found, rule(scores))


@pytest.mark.parametrize("k", [0, 1, 3, LABELS, 50])
def test_of_tied_labels_the_first_are_taken(k):
    scores = np.random.default_rng(1).integers(3, size=(40, LABELS)).astype(np.float32)
    rule = decoding.TopK(k)
    np.testing.assert_array_equal(decided(rule, scores), rule(scores))


@pytest.mark.parametrize("labels", [1, 2, 5])
@pytest.mark.parametrize("name", decoding.rules_of_scores())
def test_few_labels_are_decided(name, labels):
    true, scores, _ = data()
    rule = decoding.create(name).fit(true[:300, :labels], scores[:300, :labels], "example_f1")
    rest = np.ascontiguousarray(scores[300:, :labels])
    np.testing.assert_array_equal(decided(rule, rest), rule(rest))


def test_a_floor_stands_on_any_rule():
    _, scores, _ = data()
    floor = ProbabilityFloor(fitted("label_count", "micro_f1"), Calibrator(1.5), 0.7)
    found = decided(floor, scores)
    np.testing.assert_array_equal(found, floor(scores))
    assert (found != floor.rule(scores)).any()


def probabilities_of(made, scores) -> np.ndarray:
    graph = Graph()
    sample = Sample(graph.input("scores", np.float32, ("batch", LABELS)), LABELS)
    graph.output("probabilities", add_probabilities(sample, made), ("batch", LABELS))
    return run(graph, scores=scores)["probabilities"]


def test_probabilities_are_those_of_the_package():
    true, scores, _ = data()
    posterior = SetPosterior()
    posterior.learn(Validation.check(true[:300], scores[:300], "micro_f1", "paper", true[:300]))
    centres = posterior.calibrator.log_odds(scores[:3]).astype(np.float64).tolist()
    sets = len(posterior.seen.sets)
    cells = ScoreCells(centres, [[0, 0, 5], [1, 1, 9], [1, sets - 1, 2]], 3.0, sets)
    in_cells = dataclasses.replace(posterior, cells=cells)
    assert (abs(in_cells(scores[300:]) - posterior(scores[300:])) > 0.01).any()
    calibrator = Calibrator().fit(true[:300], scores[:300])
    for made in (Calibrator(), calibrator, posterior, in_cells):
        found = probabilities_of(made, scores[300:])
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, made(scores[300:]), atol=1e-6)


def test_a_posterior_that_decides_and_gives_probabilities_stands_in_the_graph_once():
    rule = fitted("label_sets", "micro_f1")
    graph = Graph()
    sample = Sample(graph.input("scores", np.float32, ("batch", LABELS)), LABELS)
    add_probabilities(sample, rule.posterior)
    before = len(graph.nodes)
    add_decision(sample, rule)
    assert len(graph.nodes) < before + 20


def test_sparse_features_are_condensed_as_dense_ones_are():
    _, _, features = data()
    rows = features[:5]
    width = int(np.diff(rows.indptr).max())
    indices, values = np.zeros((5, width), dtype=np.int64), np.zeros((5, width), dtype=np.float32)
    for row in range(5):
        held = slice(rows.indptr[row], rows.indptr[row + 1])
        indices[row, : held.stop - held.start] = rows.indices[held]
        values[row, : held.stop - held.start] = rows.data[held]
    graph = Graph()
    given = [
        graph.input("indices", np.int64, ("batch", "entries")),
        graph.input("values", np.float32, ("batch", "entries")),
    ]
    dense = graph.input("features", np.float32, ("batch", FEATURES))
    graph.output("sparse", condense_sparse(*given, FEATURES), ("batch", 128))
    graph.output("dense", condense_dense(dense, FEATURES), ("batch", 128))
    found = run(graph, indices=indices, values=values, features=rows.toarray())
    from zlpr.decoding._feature_columns import condense

    np.testing.assert_allclose(found["sparse"], condense(rows), atol=1e-12)
    np.testing.assert_allclose(found["dense"], condense(rows), atol=1e-12)


def test_what_cannot_be_expressed_is_refused_with_what_can():
    class Coin(decoding.ZeroBound):
        name = "coin"

    graph = Graph()
    sample = Sample(graph.input("scores", np.float32, ("batch", 300)), 300)
    with pytest.raises(UserError, match=r"'coin' cannot be exported, only zero, threshold, .*top"):
        add_decision(sample, Coin())
    with pytest.raises(UserError, match="over 300 labels cannot be exported, only up to 256"):
        add_decision(sample, decoding.ExpectedF1())
    with pytest.raises(UserError, match="reads features, which this kind has none of"):
        add_decision(sample, decoding.create("feature_count", max_count=2))
    with pytest.raises(UserError, match="learned nothing"):
        add_decision(sample, decoding.LabelSets())
    assert set(exportable_rules()) == set(decoding.available())

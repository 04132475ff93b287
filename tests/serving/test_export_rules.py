"""In a graph every rule decides as in the package."""

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="exported files run in onnxruntime")

from tests.serving.graphs import run
from tests.serving.scores import FEATURES, LABELS, data, decided, fitted
from zlpr import UserError, decoding
from zlpr.decoding import Calibrator, ProbabilityFloor
from zlpr.serving.export_graph import Graph
from zlpr.serving.export_rules import (
    Sample,
    add_decision,
    condense_dense,
    condense_sparse,
    exportable_rules,
)


@pytest.mark.parametrize("metric", ["micro_f1", "macro_f1"])
@pytest.mark.parametrize("name", decoding.available())
def test_every_rule_decides_as_in_the_package(name, metric):
    rule = fitted(name, metric)
    _, scores, features = data()
    rest = features[300:] if rule.reads_features else None
    expected = rule(scores[300:], features=rest)
    assert expected.any()
    np.testing.assert_array_equal(decided(rule, scores[300:], rest), expected)


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


@pytest.mark.parametrize("name", ["per_label_threshold", "label_count"])
def test_ancestors_are_added_in_the_graph(name, monkeypatch):
    _, scores, _ = data()
    parents = [[], *([label // 2] for label in range(LABELS - 1))]
    rule = decoding.WithAncestors(fitted(name, "macro_f1"), parents)
    expected = rule(scores[300:])
    assert (expected != rule.rule(scores[300:])).any()
    np.testing.assert_array_equal(decided(rule, scores[300:]), expected)
    monkeypatch.setattr("zlpr.serving.export_rules.MOST_IN_HIERARCHY", 2)
    with pytest.raises(UserError, match=f"a hierarchy of {LABELS} labels cannot be exported"):
        decided(rule, scores[300:])


def test_a_floor_stands_on_any_rule():
    _, scores, _ = data()
    floor = ProbabilityFloor(fitted("label_count", "micro_f1"), Calibrator(1.5), 0.7)
    found = decided(floor, scores)
    np.testing.assert_array_equal(found, floor(scores))
    assert (found != floor.rule(scores)).any()


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

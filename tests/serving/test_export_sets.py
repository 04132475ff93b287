"""In a graph the posterior of label sets has the chances and takes the decisions of the package."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="exported files run in onnxruntime")

from tests.serving.graphs import run
from tests.serving.scores import LABELS, data, decided, fitted
from zlpr import decoding
from zlpr.decoding import Calibrator
from zlpr.decoding._rule import Validation
from zlpr.decoding._score_cells import ScoreCells
from zlpr.decoding.set_posterior import SetPosterior
from zlpr.serving.export_graph import Graph
from zlpr.serving.export_rules import Sample, add_decision, add_probabilities


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


@pytest.mark.parametrize("metric", ["micro_f1", "example_f1"])
def test_labels_that_training_never_saw_have_equal_scores_and_the_first_of_them_count(metric):
    random = np.random.default_rng(0)
    chances = random.random((4, 30)) ** 3
    true = random.random((300, 30)) < chances[random.integers(4, size=300)]
    true[:, 20:] = False
    scores = (2.5 * true - 2 + random.normal(size=true.shape)).astype(np.float32)
    scores[:, 20:] = -1.3  # more of them than there is room for among the labels in play
    rule = decoding.LabelSets().fit(true[:200], scores[:200], metric, train_labels=true[:200])
    graph = Graph()
    sample = Sample(graph.input("scores", np.float32, ("batch", 30)), 30)
    graph.output("probabilities", add_probabilities(sample, rule.posterior), ("batch", 30))
    graph.output("decision", add_decision(sample, rule), ("batch", 30))
    found = run(graph, scores=scores[200:])
    np.testing.assert_allclose(found["probabilities"], rule.posterior(scores[200:]), atol=1e-6)
    np.testing.assert_array_equal(found["decision"], rule(scores[200:]))

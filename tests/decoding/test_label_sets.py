import itertools
import json

import numpy as np
import pytest
import torch
from scipy import sparse

from zlpr import metrics
from zlpr._errors import UserError
from zlpr.decoding import DECISION_METRICS, LabelSets, Threshold, TopK, from_config
from zlpr.decoding.label_sets import _best_of_each_size, _expected_jaccard, _with_background

SETS = [(0,), (1, 2), (0, 3), (4,), (1, 2, 5)]


def tied_data(seed, samples=600, noise=1.0):
    """Five label sets of six labels, and scores that see each label for itself."""
    generator = np.random.default_rng(seed)
    table = np.zeros((len(SETS), 6), dtype=bool)
    for row, labels in enumerate(SETS):
        table[row, list(labels)] = True
    true = table[generator.choice(len(SETS), size=samples, p=[0.35, 0.25, 0.2, 0.15, 0.05])]
    return true, 2.0 * true - 1.5 + generator.normal(scale=noise, size=true.shape)


def goodness(metric, true, predicted):
    value = getattr(metrics, metric)(true, predicted)
    return value if metrics.info(metric).larger_is_better else -value


@pytest.mark.parametrize("metric", DECISION_METRICS)
def test_tied_labels_are_decided_better_than_by_cuts(metric):
    (true, scores), (fresh, fresh_scores) = tied_data(0), tied_data(1)
    rules = [kind().fit(true, scores, metric) for kind in (Threshold, TopK, LabelSets)]
    cut, top, joint = (goodness(metric, fresh, rule(fresh_scores)) for rule in rules)
    assert joint > max(cut, top) + 0.01


@pytest.mark.parametrize("metric", ["jaccard", "example_f1", "subset_accuracy"])
@pytest.mark.parametrize("empty", ["paper", "sklearn"])
def test_impossible_labels_are_not_predicted_where_nothing_else_is_worth_more(metric, empty):
    """Without a label in truth and prediction scikit-learn's index is 0, as with a wrong label."""
    true, scores = tied_data(3, samples=200)
    rule = LabelSets().fit(true, scores, metric, empty=empty)
    few = np.array([[-np.inf] * 6, [4.0, *[-np.inf] * 5], [-9.0, *[-np.inf] * 5]])
    assert not (rule(few) & (few == -np.inf)).any()
    assert not rule(few)[0].any()


def test_training_labels_help_where_validation_is_small():
    generator = np.random.default_rng(2)
    table = np.unique(generator.random((60, 10)) < 0.3, axis=0)  # more sets than validation shows
    train, true, fresh = (table[generator.integers(len(table), size=n)] for n in (2000, 60, 1000))
    scores, fresh_scores = (
        2.0 * rows - 1.5 + generator.normal(scale=0.8, size=rows.shape) for rows in (true, fresh)
    )

    def exact(**options):
        rule = LabelSets().fit(true, scores, "subset_accuracy", **options)
        return metrics.subset_accuracy(fresh, rule(fresh_scores))

    informed = exact(train_labels=sparse.csr_array(train))
    assert informed > exact() + 0.05
    assert informed == exact(train_labels=train)


def test_subset_accuracy_is_near_that_of_the_true_posterior():
    """Scores with known noise: the best decision is known as well."""
    (true, scores), (fresh, fresh_scores) = tied_data(5, 3000), tied_data(6, 3000)
    table = np.unique(true, axis=0)
    prior = np.array([(true == row).all(axis=1).mean() for row in table])
    distance = ((fresh_scores[:, None] - (2.0 * table - 1.5)) ** 2).sum(axis=2)
    best = table[(np.log(prior) - distance / 2).argmax(axis=1)]
    rule = LabelSets().fit(true, scores, "subset_accuracy")
    reached = metrics.subset_accuracy(fresh, rule(fresh_scores))
    assert reached > metrics.subset_accuracy(fresh, best) - 0.01


def test_marginals_are_probabilities_and_beat_the_calibrator_on_tied_labels():
    (true, scores), (fresh, fresh_scores) = tied_data(7), tied_data(8)
    rule = LabelSets().fit(true, scores)
    joint = rule.probabilities(fresh_scores)
    assert (joint >= 0).all()
    assert (joint <= 1).all()

    def log_loss(chance):
        chance = np.clip(chance, 1e-6, 1 - 1e-6)
        return -np.log(np.where(fresh, chance, 1 - chance)).mean()

    assert log_loss(joint) < log_loss(rule.posterior.calibrator(fresh_scores)) - 0.05


@pytest.mark.parametrize("empty", ["paper", "sklearn"])
def test_the_best_expected_f1_is_that_of_trying_every_set(empty):
    generator = torch.Generator().manual_seed(0)
    sets = (torch.rand(40, 7, 5, generator=generator) < 0.35).double()
    chances = torch.rand(40, 7, generator=generator).double().softmax(1)
    every = torch.tensor(list(itertools.product([0.0, 1.0], repeat=5)), dtype=torch.float64)
    sizes = every.sum(1)[:, None] + sets.sum(2)[:, None]
    f1 = 2 * (every @ sets.mT) / sizes.clamp(min=1) + (sizes == 0) * (empty == "paper")
    tried = (f1 * chances[:, None]).sum(2)
    decided, values = _best_of_each_size(sets, chances, empty)
    torch.testing.assert_close(values.amax(1), tried.amax(1))
    best = decided[torch.arange(40), values.argmax(1)]
    place = (best @ 2 ** torch.arange(4, -1, -1).double()).long()
    torch.testing.assert_close(tried[torch.arange(40), place], tried.amax(1))


def test_the_best_set_may_be_larger_than_any_that_has_a_chance():
    """One of three labels is true, each as likely: one alone 1/3, two 4/9, all three 1/2."""
    decided, values = _best_of_each_size(
        torch.eye(3, dtype=torch.float64)[None], torch.full((1, 3), 1 / 3).double(), "paper"
    )
    torch.testing.assert_close(values, torch.tensor([[0.0, 1 / 3, 4 / 9, 1 / 2]]).double())
    assert decided[0].sum(1).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("metric", ["example_f1", "jaccard"])
def test_a_sample_is_decided_alone_as_among_others(metric):
    """Scores that say little of one label in twenty-five: large sets are best, larger than seen."""
    generator = np.random.default_rng(0)
    true = np.eye(25, dtype=bool)[generator.integers(0, 25, 150)]
    scores = (generator.normal(size=true.shape) + 0.3 * true - 1).astype(np.float32)
    rule = LabelSets().fit(true, scores, metric)
    fresh = generator.normal(size=(40, 25)).astype(np.float32)
    alone = np.concatenate([rule(fresh[row : row + 1]) for row in range(40)])
    np.testing.assert_array_equal(rule(fresh), alone)


def test_expected_jaccard_written_out():
    decisions = torch.tensor([[[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]], dtype=torch.float64)
    sets = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]], dtype=torch.float64)
    chances = torch.tensor([[0.75, 0.25]], dtype=torch.float64)
    values = _expected_jaccard(decisions, sets, chances, "paper")
    assert values.tolist() == [[0.375, 0.25]]


@pytest.mark.parametrize("empty", ["paper", "sklearn"])
def test_the_sets_tried_for_jaccard_hold_the_best_there_is(empty):
    (true, scores), (_, fresh) = tied_data(12), tied_data(13, samples=300)
    rule = LabelSets().fit(true, scores, "jaccard", empty=empty)
    every = torch.tensor(list(itertools.product([0.0, 1.0], repeat=6)), dtype=torch.float64)
    for _, posterior in rule.posterior.posteriors(fresh):
        sets, chances = _with_background(posterior)
        best = _expected_jaccard(every.expand(len(sets), -1, -1), sets, chances, empty).amax(1)
        taken = rule._best_sets(posterior).double()[:, None]
        torch.testing.assert_close(_expected_jaccard(taken, sets, chances, empty)[:, 0], best)


def test_impossible_labels_and_infinite_scores():
    true, scores = tied_data(9)
    scores[:, 4] = np.where(true[:, 4], scores[:, 4], -np.inf)
    for metric in DECISION_METRICS:
        rule = LabelSets().fit(true, scores, metric)
        assert not rule(scores)[scores == -np.inf].any()
        sure = scores.copy()
        sure[:, 0] = np.inf
        assert np.isfinite(rule.probabilities(sure)).all()
    nothing = LabelSets().fit(true, scores, "subset_accuracy")
    assert not nothing(np.full((1, 6), -np.inf)).any()


def test_many_positive_labels_are_no_fault():
    generator = np.random.default_rng(10)
    true = generator.random((60, 90)) < 0.9  # sets of eighty labels: more than are in play
    scores = 2.0 * true - 1 + generator.normal(size=true.shape)
    for metric in ("micro_f1", "example_f1", "subset_accuracy"):
        rule = LabelSets().fit(true, scores, metric)
        assert rule(scores).shape == true.shape
    marginals = LabelSets().fit(true, scores).probabilities(scores)
    assert abs(marginals.mean() - true.mean()) < 0.05


def test_one_label_and_one_sample():
    rule = LabelSets().fit([[1], [0], [1], [0]], [[1.0], [-1.0], [2.0], [-2.0]], "subset_accuracy")
    assert rule(np.array([[3.0], [-3.0]])).tolist() == [[True], [False]]
    assert LabelSets().fit([[1, 0]], [[1.0, -1.0]])(np.array([[1.0, -1.0]])).shape == (1, 2)


def test_fitting_twice_gives_the_same_and_blocks_do_not_matter(monkeypatch):
    true, scores = tied_data(11)
    rule = LabelSets().fit(true, scores, "example_f1")
    assert LabelSets().fit(true, scores, "example_f1") == rule
    together = rule(scores)
    monkeypatch.setattr("zlpr.decoding.set_posterior.BLOCK_CELLS", 1024 * 37)
    np.testing.assert_array_equal(rule(scores), together)


def saved():
    true, scores = tied_data(12, samples=50)
    rule = LabelSets().fit(true, scores, "macro_f1", train_labels=true)
    return json.loads(json.dumps(rule.to_config(), allow_nan=False))


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("metric",), "accuracy", "metric 'accuracy' does not exist"),
        (("cut",), None, "needs a cut of kind 'per_label_threshold'"),
        (("cut",), {"rule": "top_k", "k": 3}, "must be a threshold or per_label_threshold"),
        (("cut", "thresholds"), [0.5], "the cut has 1 label, the seen sets 6"),
        (("posterior",), [], "a posterior of label sets needs"),
        (("posterior", "weights"), [1.0], "weights of label sets must be 9 numbers, got 1"),
        (("posterior", "weights"), [], "both weights and seen sets, or neither"),
        (("posterior", "inside"), [1e300, 0.0], "inside of label sets must lie within 1e9"),
        (("posterior", "weights"), "heavy", "weights must be a list of numbers"),
        (("posterior", "seen"), 3, "seen label sets need num_labels, sets and counts"),
        (("posterior", "seen", "num_labels"), 10**9, "the calibrator has 6 labels"),
        (("posterior", "seen", "num_labels"), True, "num_labels must be a whole number"),
        (("posterior", "seen", "counts"), [1], "lists of one length"),
        (("posterior", "seen", "counts", 0), 0, "whole numbers of at least 1"),
        (("posterior", "seen", "counts", 0), 10**400, "whole numbers of at least 1"),
        (("posterior", "seen", "sets", 0), [6], "must ascend within 0 to 5"),
        (("posterior", "seen", "sets", 0), [1, 1], "must ascend within 0 to 5"),
        (("posterior", "seen", "sets", 0), [-1], "must ascend within 0 to 5"),
        (("posterior", "seen", "sets", 0), [0.5], "must be a list of label indices"),
        (("posterior", "seen", "sets", 0), "abc", "must be a list of label indices"),
        (("posterior", "calibrator"), {"temperature": 0.0, "bias": 0.0}, "must be positive"),
    ],
)
def test_damaged_configurations_are_refused_in_one_line(path, value, words):
    config = saved()
    place = config
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(UserError, match=words) as error:
        from_config(config)
    assert "\n" not in str(error.value)


def test_too_many_or_repeated_sets_are_refused():
    config = saved()
    seen = config["posterior"]["seen"]
    seen["sets"], seen["counts"] = [[0], [0]], [1, 1]
    with pytest.raises(UserError, match="stands in the list twice"):
        from_config(config)
    seen["sets"], seen["counts"] = [[]] * 5000, [1] * 5000
    with pytest.raises(UserError, match="expected 1 to 4096 seen label sets, got 5000"):
        from_config(config)


def test_unfitted_and_other_labels():
    with pytest.raises(UserError, match="call fit first"):
        LabelSets()(np.zeros((1, 2)))
    true, scores = tied_data(13, samples=50)
    with pytest.raises(UserError, match="y_score has 5 labels, the rule was fitted on 6"):
        LabelSets().fit(true, scores)(scores[:, :5])
    with pytest.raises(UserError, match="train_labels has 5 labels, y_score has 6"):
        LabelSets().fit(true, scores, train_labels=true[:, :5])


@pytest.mark.parametrize("metric", DECISION_METRICS)
def test_automatic_precision_changes_no_decision(metric):
    generator = np.random.default_rng(0)
    true = generator.random((400, 12)) < 0.2
    scores = (2.0 * true - 1 + generator.normal(size=true.shape)).astype(np.float32)
    usual = LabelSets().fit(true[:200], scores[:200], metric)
    decided = usual(scores[200:])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (usual(scores[200:]) == decided).all()
        assert (LabelSets().fit(true[:200], scores[:200], metric)(scores[200:]) == decided).all()

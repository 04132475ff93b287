import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from scipy import sparse

from tests import processes
from tests.metrics.cases import CASES, random_case
from zlpr import metrics
from zlpr.metrics import MetricSet, available, evaluate, info

CASE = random_case(samples=50, labels=9, density=0.25, seed=30, ties=True)


def single_figures(case, empty):
    """Every figure from the function of its own."""
    figures = {}
    for name, entry in ((name, info(name)) for name in available()):
        stem, _, k = name.rpartition("_at_")
        if stem:
            figures[name] = getattr(metrics, f"{stem}_at_k")(case.true, case.scores, int(k))
        elif name.startswith("cardinality_"):
            figures[name] = metrics.cardinality(getattr(case, name.removeprefix("cardinality_")))
        elif name == "empty_predictions":
            figures[name] = metrics.empty_share(case.predicted)
        else:
            second = case.scores if entry.needs == "scores" else case.predicted
            figures[name] = getattr(metrics, name)(case.true, second, empty=empty)
    return figures


@pytest.mark.parametrize("empty", ["paper", "sklearn"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_evaluate_agrees_with_each_function(case, empty):
    figures = evaluate(case.true, case.scores, case.predicted, empty=empty)
    assert tuple(figures) == available()
    assert figures == pytest.approx(single_figures(case, empty), abs=1e-12)


@pytest.mark.parametrize("size", [1, 7, 50])
def test_batches_of_any_size_give_the_same(size):
    metric_set = MetricSet(9)
    for start in range(0, 50, size):
        rows = slice(start, start + size)
        true = sparse.csr_array(CASE.true[rows]) if start % 2 else torch.from_numpy(CASE.true[rows])
        metric_set.update(true, CASE.scores[rows], CASE.predicted[rows])
    assert metric_set.samples == 50
    expected = evaluate(CASE.true, CASE.scores, CASE.predicted)
    assert metric_set.compute() == pytest.approx(expected, abs=1e-12)


def test_an_empty_batch_changes_nothing():
    metric_set = MetricSet(9)
    metric_set.update(CASE.true, CASE.scores, CASE.predicted)
    before = metric_set.compute()
    metric_set.update(CASE.true[:0], CASE.scores[:0], CASE.predicted[:0])
    assert metric_set.compute() == before


def test_reset_forgets():
    metric_set = MetricSet(9)
    metric_set.update(~CASE.true, CASE.scores, CASE.predicted)
    metric_set.reset()
    with pytest.raises(ValueError, match="no samples yet"):
        metric_set.compute()
    metric_set.update(CASE.true, CASE.scores, CASE.predicted)
    assert metric_set.compute() == evaluate(CASE.true, CASE.scores, CASE.predicted)


def test_label_report_of_the_stream():
    metric_set = MetricSet(9, empty="sklearn")
    for rows in (slice(0, 20), slice(20, 50)):
        metric_set.update(CASE.true[rows], y_pred=CASE.predicted[rows])
    expected = metrics.label_report(CASE.true, CASE.predicted, empty="sklearn")
    np.testing.assert_array_equal(metric_set.label_report().f1, expected.f1)


def test_without_scores_or_predictions_their_metrics_are_left_out():
    by_sets = evaluate(CASE.true, y_pred=CASE.predicted)
    by_scores = evaluate(CASE.true, CASE.scores)
    assert set(by_sets) == {name for name in available() if info(name).needs != "scores"}
    assert set(by_scores) == {name for name in available() if info(name).needs != "predictions"}


def test_scores_in_some_updates_only_is_an_error():
    metric_set = MetricSet(9)
    metric_set.update(CASE.true, CASE.scores, CASE.predicted)
    metric_set.update(CASE.true, y_pred=CASE.predicted)
    with pytest.raises(ValueError, match="y_score was given for 50 of 100 samples"):
        metric_set.compute()


def test_a_refused_batch_leaves_no_trace():
    metric_set = MetricSet(9)
    metric_set.update(CASE.true, CASE.scores, CASE.predicted)
    before = metric_set.compute()
    scores = CASE.scores.copy()
    scores[-1, -1] = np.nan
    with pytest.raises(ValueError, match="NaN for sample 49, label 8"):
        metric_set.update(CASE.true, scores, CASE.predicted)
    assert metric_set.compute() == before


def test_wrong_width_and_other_settings_are_named():
    with pytest.raises(ValueError, match="y_true has 9 labels, expected 8"):
        MetricSet(8).update(CASE.true, CASE.scores)
    with pytest.raises(ValueError, match="cannot merge: empty is paper here, sklearn there"):
        MetricSet(3).merge(MetricSet(3, empty="sklearn"))
    with pytest.raises(ValueError, match="update needs y_score, y_pred or both"):
        MetricSet(9).update(CASE.true)


def test_memory_of_the_state_is_three_counts_per_label():
    metric_set = MetricSet(1000)
    generator = np.random.default_rng(0)
    for _ in range(3):
        true = generator.random((40, 1000)) < 0.01
        metric_set.update(true, generator.random((40, 1000)), true)
    numbers = sum(
        array.size
        for totals in (metric_set._decisions, metric_set._ranking, metric_set._at_k)
        for array in totals.arrays().values()
    )
    assert numbers < 3 * 1000 + 50


def test_wide_sparse_truth_is_never_made_dense():
    """100 000 labels: what is allocated stays below the dense truth, let alone the scores."""
    generator = np.random.default_rng(1)
    samples, labels = 200, 100_000
    rows, columns = np.repeat(np.arange(samples), 5), generator.integers(0, labels, 5 * samples)
    true = sparse.csr_array((np.ones(len(rows), bool), (rows, columns)), shape=(samples, labels))
    scores = generator.random((samples, labels), dtype=np.float32)
    tracemalloc.start()
    figures = evaluate(true, scores, true)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert figures["subset_accuracy"] == 1.0
    assert peak < samples * labels


def _reduce_in_process(path: str) -> None:
    rank = dist.get_rank()
    rows = slice(0, 13) if rank == 0 else slice(13, 50)
    metric_set = MetricSet(9)
    metric_set.update(CASE.true[rows], CASE.scores[rows], CASE.predicted[rows])
    figures = [metric_set.all_reduce().compute(), metric_set.all_reduce().compute()]
    support = metric_set.all_reduce().label_report().support.tolist()
    Path(path, f"{rank}.json").write_text(json.dumps([figures, support]))


def test_two_processes_agree_with_one(tmp_path):
    processes.run(_reduce_in_process, 2, tmp_path, str(tmp_path))
    expected = evaluate(CASE.true, CASE.scores, CASE.predicted)
    for rank in range(2):
        figures, support = json.loads((tmp_path / f"{rank}.json").read_text())
        assert figures[0] == pytest.approx(expected, abs=1e-12)
        assert figures[1] == figures[0]
        assert support == CASE.true.sum(axis=0).tolist()

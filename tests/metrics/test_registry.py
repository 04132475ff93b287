import numpy as np
import pytest

from zlpr.data import published
from zlpr.metrics import (
    DECISION_METRICS,
    PAPER_METRICS,
    available,
    evaluate,
    info,
)


def test_the_six_of_the_paper_come_first_in_its_order():
    assert available()[:6] == PAPER_METRICS
    for name in PAPER_METRICS:
        assert published.wins(name)  # the paper's own table has it under this name


def test_larger_is_better_points_from_wrong_to_right():
    true = np.eye(6, dtype=bool)
    right, wrong = evaluate(true, true.astype(float), true), evaluate(true, 1.0 - true, ~true)
    for metric in map(info, available()):
        if metric.larger_is_better is not None:
            assert metric.sign * right[metric.name] > metric.sign * wrong[metric.name]
            assert metric.larger_is_better == (metric.sign > 0)


def test_what_a_metric_needs_is_what_it_cannot_do_without():
    true = np.eye(6, dtype=bool)
    by_sets, by_scores = evaluate(true, y_pred=true), evaluate(true, true.astype(float))
    for metric in map(info, available()):
        assert (metric.name in by_sets) == (metric.needs != "scores")
        assert (metric.name in by_scores) == (not metric.needs_decision)


def test_decision_metrics_are_those_that_another_decision_makes_worse():
    true = np.eye(6, dtype=bool)
    scores = true.astype(float)
    right, wrong = evaluate(true, scores, true), evaluate(true, scores, ~true)
    changed = {name for name in right if right[name] != wrong[name]}
    assert set(DECISION_METRICS) == {n for n in changed if info(n).larger_is_better is not None}


def test_every_figure_can_be_looked_up_whatever_its_k():
    true = np.eye(4, dtype=bool)
    figures = evaluate(true, true.astype(float), true, ks=(2, 17))
    assert tuple(figures) == available(ks=(2, 17))
    for name in figures:
        assert info(name).name == name


def test_names_titles_and_words_tell_the_metrics_apart():
    metrics = [info(name) for name in available()]
    for of in ("name", "title", "words", "meaning"):
        assert len({getattr(metric, of) for metric in metrics}) == len(metrics)


def test_unknown_metric_names_the_nearest_and_lists_those_there_are():
    with pytest.raises(ValueError, match=r"'micro_f'; did you mean 'micro_f1'\? .*ranking_loss"):
        info("micro_f")
    for wrong in ("precision_at_0", "precision_at_01", "f1_at_3", ""):
        with pytest.raises(ValueError, match="no metric"):
            info(wrong)

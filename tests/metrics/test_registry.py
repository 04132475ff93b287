import numpy as np
import pytest

from zlpr.metrics import METRICS, PAPER_METRICS, evaluate, info


def test_the_six_of_the_paper_come_first():
    assert tuple(METRICS)[:6] == PAPER_METRICS


def test_larger_is_better_points_from_wrong_to_right():
    true = np.eye(6, dtype=bool)
    right, wrong = evaluate(true, true.astype(float), true), evaluate(true, 1.0 - true, ~true)
    for name, entry in METRICS.items():
        if entry.larger_is_better is True:
            assert right[name] > wrong[name]
        elif entry.larger_is_better is False:
            assert right[name] < wrong[name]


def test_every_figure_can_be_looked_up_whatever_its_k():
    true = np.eye(4, dtype=bool)
    for name in evaluate(true, true.astype(float), true, ks=(2, 17)):
        assert info(name).name == name


def test_unknown_metric_lists_those_there_are():
    with pytest.raises(ValueError, match="no metric is called 'f1'; there are: subset_accuracy"):
        info("f1")

import numpy as np
import pytest
import sklearn.metrics as sk

from tests.metrics import reference
from tests.metrics.cases import CASES, random_case
from zlpr import metrics


@pytest.mark.parametrize("k", [1, 3, 5, 1000])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_ndcg_is_sklearns(case, k):
    expected = sk.ndcg_score(case.true, case.scores, k=k)
    assert metrics.ndcg_at_k(case.true, case.scores, k) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3, 7])
@pytest.mark.parametrize("name", ["precision_at_k", "recall_at_k", "ndcg_at_k"])
@pytest.mark.parametrize("ties", [False, True])
def test_expectation_over_all_orders_of_the_ties(name, k, ties):
    case = random_case(samples=12, labels=6, density=0.3, seed=20, ties=ties)
    expected = getattr(reference, name)(case.true.tolist(), case.scores.tolist(), k)
    assert getattr(metrics, name)(case.true, case.scores, k) == pytest.approx(expected, abs=1e-12)


def test_recall_reaches_one_at_the_last_label():
    case = random_case(density=0.5, seed=21)
    labelled = case.true.any(axis=1).mean()
    assert metrics.recall_at_k(case.true, case.scores, case.true.shape[1]) == pytest.approx(
        labelled
    )


@pytest.mark.parametrize("k", [0, -1, 2.5])
def test_bad_k_is_refused(k):
    with pytest.raises(ValueError, match="k must be a whole number of at least 1"):
        metrics.precision_at_k(np.eye(2), np.eye(2), k)

import numpy as np
import pytest
import torch

from tests.metrics.cases import CASES
from zlpr import metrics
from zlpr._errors import UserError
from zlpr.decoding import DECISION_METRICS, TopK
from zlpr.metrics import info

SWEPT = {name: case for name, case in CASES.items() if not name.startswith("wide")}


def first_k(scores, k):
    """The k highest of each row, sorted one by one; ties in label order."""
    chosen = np.zeros(scores.shape, bool)
    for row, values in enumerate(scores):
        chosen[row, sorted(range(len(values)), key=lambda label: -values[label])[:k]] = True
    return chosen


@pytest.mark.parametrize("k", [0, 1, 3, 4, 100])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_k_highest_with_ties_in_label_order(case, k):
    np.testing.assert_array_equal(TopK(k)(case.scores), first_k(case.scores, k))


@pytest.mark.parametrize("metric", DECISION_METRICS)
@pytest.mark.parametrize("case", SWEPT.values(), ids=SWEPT)
def test_no_k_is_better_than_the_fitted_one(case, metric):
    def goodness(k):
        value = getattr(metrics, metric)(case.true, first_k(case.scores, k))
        return value if info(metric).larger_is_better else -value

    fitted = TopK().fit(case.true, case.scores, metric)
    best = max(goodness(k) for k in range(case.scores.shape[1] + 1))
    assert goodness(fitted.k) == pytest.approx(best, abs=1e-9)


def test_infinite_scores_are_ranked():
    scores = torch.tensor([[-torch.inf, -torch.inf, 1.0, torch.inf]])
    assert TopK(3)(scores).tolist() == [[True, False, True, True]]


@pytest.mark.parametrize("k", [-1, 1.5, True, "3"])
def test_bad_k_is_refused(k):
    with pytest.raises(UserError, match="k must be a whole number of at least 0"):
        TopK(k)

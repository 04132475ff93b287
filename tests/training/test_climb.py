"""The hill of a metric over regularisations is climbed in the direction that improves."""

import numpy as np
import pytest
from scipy import sparse

from zlpr.training import TrainingConfig
from zlpr.training.climb import Climb

LABELS = sparse.csr_array(np.eye(20, dtype=bool)[:, :4])


@pytest.mark.parametrize("peak", [0.1, 1.0, 10.0])
def test_the_best_regularisation_is_found_on_either_side(peak: float) -> None:
    def fit(regularisation: float):
        # The nearer to the peak, the fewer true labels are buried.
        buried = round(4 * min(1, abs(np.log10(regularisation / peak)) / 2))
        scores = np.where(LABELS.toarray(), 1.0, -1.0).astype(np.float32)
        scores[:buried] *= -1
        return regularisation, scores

    config = TrainingConfig(metric="average_precision")
    climb = Climb(config, LABELS, fit, None)
    best = climb.best(lambda: 1.0, None)
    assert abs(np.log10(best.model / peak)) <= 0.5
    assert best.metric == max(line.metric for line in climb.history)
    assert climb.best(lambda: 1.0, 7.0).regularisation == 7.0

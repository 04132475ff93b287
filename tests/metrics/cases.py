"""Label matrices, scores and predictions: random, tied, empty and full."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Case:
    true: NDArray[np.bool_]
    scores: NDArray[np.floating]
    predicted: NDArray[np.bool_]


def random_case(samples=60, labels=12, density=0.2, seed=0, dtype=np.float64, ties=False):
    generator = np.random.default_rng(seed)
    scores = generator.standard_normal((samples, labels))
    if ties:
        scores = np.round(scores)
    true = generator.random((samples, labels)) < density
    return Case(true, scores.astype(dtype), scores + generator.standard_normal(scores.shape) > 0.8)


def edge_case(seed=0):
    """Samples and labels that are absent, complete, predicted or not, in all combinations."""
    case = random_case(samples=40, labels=10, density=0.3, seed=seed, ties=True)
    true, predicted = case.true.copy(), case.predicted.copy()
    true[:8], predicted[4:12] = False, False
    true[12:20], predicted[16:24] = True, True
    true[:, :2], predicted[:, 1:3] = False, False
    true[24:28], predicted[26:30] = False, False
    case.scores[:3] = 0.0
    return Case(true, case.scores, predicted)


CASES = {
    "sparse": random_case(density=0.1),
    "dense": random_case(density=0.6, seed=1),
    "tied": random_case(density=0.3, seed=2, ties=True),
    "float32": random_case(seed=3, dtype=np.float32),
    "wide": random_case(samples=7, labels=700, density=0.01, seed=4),
    "wide and dense": random_case(samples=7, labels=700, density=0.5, seed=5, ties=True),
    "edges": edge_case(),
    "all empty": Case(np.zeros((5, 4), bool), np.zeros((5, 4)), np.zeros((5, 4), bool)),
    "all full": Case(np.ones((5, 4), bool), np.zeros((5, 4)), np.ones((5, 4), bool)),
    "empty truth": Case(np.zeros((5, 4), bool), np.ones((5, 4)), np.ones((5, 4), bool)),
    "one sample": random_case(samples=1, labels=5, density=0.4, seed=6),
}

"""Small data whose labels depend on each other, and models of every mode fitted to it."""

import functools
from typing import Any

import numpy as np
from scipy import sparse

from zlpr.data import Dataset
from zlpr.training import FitResult, TrainingConfig, fit

# What scikit-multilearn 0.2.0 predicts for the test part, on scikit-learn 1.9.1: label powerset and
# a chain in the order 2, 0, 3, 1 over LogisticRegression(C=1, tol=1e-8), ML-kNN of five neighbours,
# all on features with mean 0 and deviation 1 in training. Its ML-kNN fails with scikit-learn from
# 1.0 on, so NearestNeighbors(k) was mended to NearestNeighbors(n_neighbors=k); and training samples
# were kept from being their own neighbours (ignore_first_neighbours=1, then 0 to predict).
PEER = {
    "powerset": """
        1010 1010 1010 0110 1100 1100 1100 1010 1100 1011 1010 1100 1010 0000 1100 0001
        0000 0000 1010 1010 0000 1100 1010 0001 0000 0000 0111 0110 0110 1011 0110 0110
        0000 0001 0110 1010 1010 1100 1100 1100 1011 1010 0000 0001 1100 1010 0111 1010
        0110 0000 0110 0110 1010 0000 0000 0110 0110 0000 1100 1010 1100 1010 1010 0000
        0110 0110 0000 1010 1010 0110 1101 1100 1010 1010 0110 1100 0000 1100 1100 0000""",
    "chain": """
        1010 1000 1000 0100 1110 1110 1111 1010 1110 1011 1000 1110 1000 0000 1000 0001
        0000 0000 1000 1000 0000 1100 1010 0001 0000 0000 0111 0110 0100 1001 0100 0100
        0000 0000 0110 1000 1000 1110 1110 1100 1011 1000 0000 1001 1110 1000 0111 1000
        0100 0000 0100 0110 1000 0000 0000 0100 0110 0000 0110 1000 1110 1010 1000 0000
        0100 0110 0000 1000 1010 0110 0111 1110 0000 1000 1110 0110 0000 1110 1111 0000""",
    "knn": """
        1010 1010 1010 0110 0010 1100 1010 1110 0110 1111 1010 1100 1010 0000 1010 0001
        0111 1010 1010 1010 0000 1010 1010 0011 0000 0010 0111 0110 0110 1011 0010 0110
        0000 0010 0010 1010 1010 1110 0110 1110 1011 1010 0100 0010 1100 1000 0111 0010
        0010 0010 0110 0111 1010 0010 0000 0110 0110 1010 1110 1010 1110 1010 0110 0000
        0000 0110 0000 1010 1010 0110 1111 1100 1010 1010 1110 1100 1110 1100 1110 0000""",
}
# The log-odds of its ML-kNN by how many of the five neighbours have a label, a column per label.
PEER_LOG_ODDS = [
    [-3.80178, -2.76313, -1.95167, -3.98901],
    [-1.54365, -1.39789, -2.4481, -1.76567],
    [-0.24073, -0.07613, 0.04303, -0.28976],
    [0.27009, 0.75055, 0.53324, 2.08978],
    [1.87953, 1.72301, 0.95933, 0.99117],
    [2.97814, 3.1239, 1.00585, 0.99117],
]

MODES: dict[str, dict[str, Any]] = {
    "powerset": {"regularisation": 1.0},
    "chain": {"regularisation": 1.0},
    "knn": {"neighbours": 5},
    "mmp": {"epochs": 2},
}


def data(samples: int, seed: int, *, dense: bool = True) -> Dataset:
    """Four labels of five features; the third label is the exclusive or of the first two."""
    random = np.random.default_rng(seed)
    features = random.standard_normal((samples, 5)).astype(np.float32)
    noise = 0.3 * random.standard_normal((samples, 4))
    first, second = features[:, 0] + noise[:, 0] > 0, features[:, 1] + noise[:, 1] > 0
    labels = np.stack([first, second, first ^ second, features[:, 2] + noise[:, 3] > 1], axis=1)
    matrix = features if dense else sparse.csr_array(np.where(features > 0, features, 0))
    return Dataset(sparse.csr_array(labels), ("a", "b", "c", "d"), features=matrix)


def parts() -> tuple[Dataset, Dataset, Dataset]:
    """Training, validation and test part."""
    return data(160, 0), data(60, 1), data(80, 2)


def peer(mode: str) -> Any:
    """The label sets that scikit-multilearn predicts for the test part, bool (samples, labels)."""
    return np.array([[cell == "1" for cell in row] for row in PEER[mode].split()])


@functools.cache
def result(mode: str, decode: str = "zero", **settings: Any) -> FitResult:
    """A fitted model of a mode."""
    train, validation, test = parts()
    decode = "label_count" if mode == "mmp" else decode
    config = TrainingConfig(model=mode, decode=decode, **{**MODES[mode], **settings})
    return fit(train, validation, config, test=test)

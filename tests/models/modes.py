"""Small data whose labels depend on each other, and models of every mode fitted to it."""

import functools
from typing import Any

import numpy as np
from scipy import sparse

from zlpr.data import Dataset
from zlpr.training import FitResult, TrainingConfig, fit

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


@functools.cache
def result(mode: str, decode: str = "zero", **settings: Any) -> FitResult:
    """A fitted model of a mode."""
    train, validation, test = parts()
    decode = "label_count" if mode == "mmp" else decode
    config = TrainingConfig(model=mode, decode=decode, **{**MODES[mode], **settings})
    return fit(train, validation, config, test=test)

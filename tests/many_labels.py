"""Texts with many labels, each told by words of its own."""

from typing import Any

import numpy as np
from scipy import sparse

from zlpr.data import Dataset
from zlpr.training import FitResult

FILLERS = ("and", "near", "old", "small", "the", "with")


def make(samples: int = 240, labels: int = 40, *, seed: int = 0, named: bool = False) -> Dataset:
    """Each sample has one or two labels, two of the three words of each, and noise.

    With `named`, a label's name is one of its words; otherwise it is a number.
    """
    rng = np.random.default_rng(seed)
    words = [[f"{_word(3 * label + part)}" for part in range(3)] for label in range(labels)]
    texts, rows, columns = [], [], []
    for row in range(samples):
        own = rng.choice(labels, rng.integers(1, 3), replace=False)
        told = [word for label in own for word in rng.choice(words[label], 2, replace=False)]
        texts.append(" ".join(rng.permutation([*told, *rng.choice(FILLERS, 3)])))
        rows += [row] * len(own)
        columns += own.tolist()
    matrix = sparse.csr_array((np.ones(len(rows), dtype=bool), (rows, columns)), (samples, labels))
    names = tuple(words[label][0] if named else f"{label:04d}" for label in range(labels))
    return Dataset(labels=matrix, label_names=names, texts=texts, name="many")


def _word(number: int) -> str:
    """A word of its own for every number."""
    letters = "bcdfghklmn"
    return "".join(f"{letters[int(digit)]}{'aeiou'[int(digit) % 5]}" for digit in f"{number:04d}")


def bits(result: FitResult) -> bytes:
    """All numbers of a fitted model, and those that validation saw of it."""
    model: Any = result.model
    matrices = [model.weight, model.centroids]
    arrays = [
        *(array for matrix in matrices for array in (matrix.data, matrix.indices, matrix.indptr)),
        model.bias,
        result.validation.scores.labels,
        result.validation.scores.scores,
        np.array([line.loss for line in result.history]),
    ]
    return b"".join(array.tobytes() for array in arrays)

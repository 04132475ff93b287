"""Embeddings beside n-grams for many labels: at a scale by which they help and do no harm."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests import many_labels
from zlpr.data import Dataset
from zlpr.training import TrainingConfig
from zlpr.training.fitting import fit_parts
from zlpr.training.linear_features import extract_features
from zlpr.training.parts import Parts
from zlpr.training.projected_features import (
    SCALES,
    ProjectedFeatures,
    choose_scale,
    memory_of_embeddings,
    project,
)

ALL = many_labels.make(500)
ROWS = np.arange(340), np.arange(340, 400), np.arange(400, 500)
SETTINGS = {"regularisation": 0.1, "label_texts": "no"}
CONFIG = TrainingConfig(model="embed-shortlist:a-table", **SETTINGS)


@dataclass
class Table:
    """An encoder that knows a vector of every text."""

    vectors: dict[str, Any]
    fingerprint: str = "table"
    max_length: int = 1
    name: str = "a table"

    @property
    def width(self) -> int:
        return len(next(iter(self.vectors.values())))

    def embed(self, texts: list[str], watch: Any = None) -> Any:
        found = np.stack([self.vectors[text] for text in texts]).astype(np.float32)
        if watch is not None:
            watch(np.arange(len(texts)), found)
        return found


def read(data: Dataset, vectors: Any) -> tuple[Parts, ProjectedFeatures]:
    train, validation, test = map(data.select, ROWS)
    parts = Parts(train, validation, test, {"train": train}, "published", 0)
    encoder: Any = Table(dict(zip(data.texts or [], vectors, strict=True)))
    plain = extract_features(train, validation, CONFIG.features)
    return parts, project(plain, encoder, vectors[:400])


def of_labels(noise: float) -> Any:
    """A vector for every label, their sum for a sample, and noise."""
    rng = np.random.default_rng(0)
    known = ALL.labels.toarray().astype(np.float32) @ rng.normal(size=(40, 60))
    return (known + noise * rng.normal(size=(500, 60))).astype(np.float32)


def without_words() -> Dataset:
    """The same labels of texts that say nothing of them."""
    orders = itertools.permutations(many_labels.FILLERS)
    drawn = np.random.default_rng(1).permutation([" ".join(order) for order in orders])
    texts = drawn[:500].tolist()
    return Dataset(labels=ALL.labels, label_names=ALL.label_names, texts=texts)


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZLPR_CACHE_GB", "0")


def test_embeddings_tell_labels_that_words_do_not() -> None:
    parts, inputs = read(without_words(), of_labels(0.1))
    result = fit_parts(parts, CONFIG, inputs=inputs)
    assert result.figures["test"]["precision_at_1"] > 0.9
    assert result.figures["test"]["micro_f1"] > 0.8
    plain = fit_parts(parts, TrainingConfig(model="shortlist", **SETTINGS))
    assert plain.figures["test"]["precision_at_1"] < 0.3


def test_the_scale_is_large_where_embeddings_tell_labels_and_small_where_words_do() -> None:
    chosen = []
    for data, vectors in ((without_words(), of_labels(0.1)), (ALL, of_labels(100.0))):
        parts, inputs = read(data, vectors)
        chosen.append(choose_scale(parts.train, parts.validation, CONFIG, inputs))
    assert chosen[0] > chosen[1] == SCALES[0]


def test_what_only_makes_noise_does_little_harm() -> None:
    parts, inputs = read(ALL, of_labels(100.0))
    result = fit_parts(parts, CONFIG, inputs=inputs)
    plain = fit_parts(parts, TrainingConfig(model="shortlist", **SETTINGS))
    assert result.chosen["embedding_scale"] == SCALES[0]
    assert result.figures["test"]["micro_f1"] > plain.figures["test"]["micro_f1"] - 0.05


def test_another_scale_is_another_length_of_the_embeddings_alone() -> None:
    _, inputs = read(ALL, of_labels(1.0))
    longer: Any = inputs.at(2.0)
    np.testing.assert_allclose(longer.train.right, 2.0 * inputs.train.right)  # type: ignore[union-attr]
    assert longer.train.left is inputs.train.left  # type: ignore[union-attr]
    given: Any = longer.validation_as_given(None)
    np.testing.assert_allclose(given.right, inputs.validation.right)  # type: ignore[union-attr]
    texts = list(ALL.texts or [])[340:400]
    np.testing.assert_allclose(longer.read(texts).right, given.right, atol=1e-6)
    np.testing.assert_allclose(longer.beside(None, texts).right, 2 * given.right, atol=1e-6)


def test_memory_grows_with_labels_samples_and_directions() -> None:
    _, inputs = read(ALL, of_labels(1.0))
    few, many = (memory_of_embeddings((340, labels), inputs.train) for labels in (40, 100_040))
    assert many - few >= 4 * 100_000 * inputs.projection.directions.shape[1]

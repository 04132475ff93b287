"""A model of many labels that costs nothing to make: a label is predicted where its word is."""

import zlib

import numpy as np

from zlpr.data import Dataset
from zlpr.models.base import FittedModel, TrainingRecord
from zlpr.models.inputs import list_texts

STRANGE = "<script>window.hacked=1</script><img src=x onerror='window.hacked=1'>"


class WordModel(FittedModel):
    """Label l has a score of about 2 where the text holds its word, and of about -2 elsewhere."""

    kind = "test_words"

    def __init__(self, labels: int = 1_000) -> None:
        names = [STRANGE, *(f"label {number}" for number in range(1, labels))]
        super().__init__(names, record=TrainingRecord(loss="zlpr"))

    def read(self, inputs):
        return list_texts(inputs)

    def score(self, read):
        scores = np.stack([self._noise(text) for text in read]) - 2
        for row, text in enumerate(read):
            for word in text.split():
                if word.startswith("w") and word[1:].isdigit():
                    scores[row, int(word[1:])] += 4
        return scores.astype(np.float32)

    def _noise(self, text):
        return np.random.default_rng(zlib.crc32(text.encode())).normal(size=len(self.label_names))

    def save_parts(self, folder):
        raise AssertionError("a model that no test saves")

    @classmethod
    def load_parts(cls, folder, config, shared):
        raise AssertionError("a model that no test loads")


def data(model: WordModel, samples: int = 200) -> Dataset:
    """Texts with their labels' words, one of them missing now and then."""
    rng = np.random.default_rng(0)
    own = [rng.choice(len(model.label_names), 3, replace=False) for _ in range(samples)]
    own[0][0] = 0
    texts = [" ".join(f"w{label}" for label in labels[: rng.integers(2, 4)]) for labels in own]
    sets = [[model.label_names[label] for label in labels] for labels in own]
    return Dataset.from_label_sets(sets, label_names=model.label_names, texts=texts, name="words")

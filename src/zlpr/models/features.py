"""TF-IDF features of texts, with a vocabulary that saves as plain JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Analyzer = Literal["auto", "word", "char", "word+char"]


@dataclass(frozen=True, kw_only=True)
class FeatureConfig:
    """How the linear model reads text.

    Attributes:
        analyzer: "word", "char", both, or "auto": character n-grams for text without spaces
            (Chinese, Japanese, Thai), words otherwise.
        word_ngrams: shortest and longest run of words.
        char_ngrams: shortest and longest run of characters.
        min_count: texts an n-gram must appear in to count; None chooses by the data's size.
        max_features: keep this many of the most frequent; None keeps all.
    """

    analyzer: Analyzer = "auto"
    word_ngrams: tuple[int, int] = (1, 2)
    char_ngrams: tuple[int, int] = (1, 3)
    min_count: int | None = None
    max_features: int | None = None


class TextFeatures:
    """TF-IDF with sublinear counts and rows of length one, as scikit-learn computes it."""

    def __init__(self, config: FeatureConfig | None = None) -> None:
        self.config = config or FeatureConfig()
        self._vectorizer: Any = None

    def fit_transform(self, texts: Sequence[str]) -> sparse.csr_array[Any]:
        """Learn the vocabulary and give the texts' features, (texts, features), float32."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._vectorizer = TfidfVectorizer(
            sublinear_tf=True,
            ngram_range=self.config.word_ngrams,
            min_df=self.config.min_count or 2,
            max_features=self.config.max_features,
            dtype=np.float32,
        )
        return sparse.csr_array(self._vectorizer.fit_transform(texts))

    def transform(self, texts: Sequence[str]) -> sparse.csr_array[Any]:
        """The features of new texts."""
        return sparse.csr_array(self._vectorizer.transform(texts))

    @property
    def num_features(self) -> int:
        """Columns of the matrices that `transform` gives."""
        return len(self._vectorizer.vocabulary_)


Matrix = sparse.csr_array[Any] | NDArray[Any]

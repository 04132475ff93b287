"""Texts as features: the linear model's TF-IDF as a scikit-learn transformer.

Import it from `zlpr.integrations.sklearn`.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from zlpr.models.feature_config import FeatureConfig
from zlpr.models.features import TextFeatures
from zlpr.models.inputs import list_texts

__all__ = ["TextVectoriser"]


class TextVectoriser(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """TF-IDF of words and of the characters within them, as `zlpr train` reads texts.

    Args:
        analyzer: what n-grams are of: "word", "subword", "char", several joined by "+", or "auto";
            see `zlpr.models.FeatureConfig`.
        word_ngrams: shortest and longest run of words.
        subword_ngrams: shortest and longest run of characters within a word.
        char_ngrams: shortest and longest run of characters.
        min_count: texts an n-gram must appear in; None depends on how many there are.
        max_features: keep this many of the most frequent; None keeps all.

    Attributes:
        features_: the fitted `TextFeatures`.

    Examples:
        >>> TextVectoriser(analyzer="word").fit_transform(["red wine", "red house"]).shape
        (2, 5)
    """

    def __init__(
        self,
        *,
        analyzer: str = "auto",
        word_ngrams: tuple[int, int] = (1, 2),
        subword_ngrams: tuple[int, int] = (4, 4),
        char_ngrams: tuple[int, int] = (1, 3),
        min_count: int | None = None,
        max_features: int | None = None,
    ) -> None:
        self.analyzer = analyzer
        self.word_ngrams = word_ngrams
        self.subword_ngrams = subword_ngrams
        self.char_ngrams = char_ngrams
        self.min_count = min_count
        self.max_features = max_features

    def fit(self, X: Sequence[str], y: Any = None) -> Self:
        """Learn the n-grams of texts."""
        self.fit_transform(X)
        return self

    def fit_transform(self, X: Sequence[str], y: Any = None) -> sparse.csr_array[Any]:
        """Learn the n-grams of texts, and give their features, (texts, features), float32."""
        self.features_ = TextFeatures(FeatureConfig(**self.get_params()))
        return self.features_.fit_transform(list_texts(X))

    def transform(self, X: Sequence[str]) -> sparse.csr_array[Any]:
        """The features of texts, (texts, features)."""
        check_is_fitted(self)
        return self.features_.transform(list_texts(X))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The n-gram of each column."""
        check_is_fitted(self)
        return np.array(self.features_.terms, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        tags.input_tags.one_d_array = True
        return tags

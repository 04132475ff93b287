"""Frozen encoders as a transformer of scikit-learn."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from zlpr.models.embedding_cache import embed
from zlpr.models.encoder import Encoder
from zlpr.models.inputs import list_texts


class TextEmbedder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Texts to the vectors of a frozen encoder, as a step of a scikit-learn pipeline.

    Nothing is learned from the texts. Vectors are kept on the disk and not computed twice; see
    `zlpr cache`.

    Args:
        encoder: a transformers or sentence-transformers folder, or a name on the hub.
        max_length: tokens read of a text; None reads what the encoder's folder says.

    Attributes:
        encoder_: the encoder.
        n_features_out_: numbers in a vector.

    Examples:
        >>> embedder = TextEmbedder("all-MiniLM-L6-v2")  # doctest: +SKIP
        >>> embedder.fit_transform(["good value", "bad smell"]).shape  # doctest: +SKIP
        (2, 384)
    """

    def __init__(self, encoder: str, *, max_length: int | None = None) -> None:
        self.encoder = encoder
        self.max_length = max_length

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the encoder.

        Args:
            X: texts, which are only checked.
            y: not looked at.
        """
        list_texts(X)
        self.encoder_ = Encoder(self.encoder, max_length=self.max_length)
        self.n_features_out_ = self.encoder_.width
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Vectors of shape (texts, width)."""
        check_is_fitted(self)
        return embed(self.encoder_, list_texts(X))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """A name per number of a vector."""
        check_is_fitted(self)
        names = [f"embedding{number}" for number in range(self.n_features_out_)]
        return np.asarray(names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.requires_fit = True
        return tags

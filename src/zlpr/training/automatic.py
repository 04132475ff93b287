"""Which kind of model to train where nobody says."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zlpr._errors import UserError
from zlpr.models.registry import DEFAULT

if TYPE_CHECKING:
    from zlpr.training.config import TrainingConfig
    from zlpr.training.parts import Parts

AUTO_MODEL = "auto"
"""What `--model` says where the data may choose."""
MANY_LABELS = 500
"""From so many labels on, texts and sparse features are for `shortlist`: a dense layer takes
minutes there, and finds less of the rare labels (`docs/guides/many-labels.md`)."""


def settle(values: Mapping[str, Any], parts: "Parts") -> "TrainingConfig":
    """The configuration for data, with a kind of model for `auto`.

    Settings that only the linear model has, and losses that only it trains, keep it.

    Args:
        values: of the configuration, as `TrainingConfig.of` takes them.
        parts: the data.

    Raises:
        UserError: a setting that the kind does not have, or a value of the wrong type.
    """
    from zlpr.training.config import TrainingConfig

    if values.get("model", AUTO_MODEL) != AUTO_MODEL:
        return TrainingConfig.of(values)
    usual = TrainingConfig.of({**values, "model": DEFAULT})
    if not has_many_labels(parts):
        return usual
    try:
        return TrainingConfig.of({**values, "model": "shortlist"})
    except UserError:
        return usual


def has_many_labels(parts: "Parts") -> bool:
    """Whether data is what the model for many labels is for."""
    from scipy import sparse

    train = parts.train
    is_sparse = train.texts is not None or sparse.issparse(train.features)
    return train.num_labels >= MANY_LABELS and is_sparse

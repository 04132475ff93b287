"""Which kind of model to train where nobody says."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zlpr._errors import UserError
from zlpr.models.registry import DEFAULT

if TYPE_CHECKING:
    from zlpr.training.config import TrainingConfig
    from zlpr.training.parts import Parts

AUTO_MODEL = "auto"
"""What `--model` says where the data may choose."""
FOR_MANY = "shortlist"
"""What `auto` takes where labels are many."""
MANY_LABELS = 500
"""From so many labels on, texts and sparse features are for `shortlist`: a dense layer takes
minutes there, and finds less of the rare labels (`docs/guides/many-labels.md`)."""
MANY_WEIGHTS = 2**24
"""Features times labels from which given features are for `shortlist`: a smaller dense layer is
trained in a minute or two, and few features tell candidates badly apart."""


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
    from zlpr.training.registry import config_of_kind

    if values.get("model", AUTO_MODEL) != AUTO_MODEL:
        return TrainingConfig.of(values)
    kinds = (DEFAULT, FOR_MANY) if not has_many_labels(parts) else (FOR_MANY, DEFAULT)
    fitting = possible(values)
    if kinds[0] != FOR_MANY and [config.model for config in fitting] == [FOR_MANY]:
        usual = {entry.name for entry in dataclasses.fields(config_of_kind(DEFAULT))}
        given = ", ".join(name for name in values if name not in usual)
        raise UserError(
            f"{given}: for {FOR_MANY}, which auto takes for texts and many sparse features from "
            f"{MANY_LABELS} labels on, and there are {parts.train.num_labels:,}; name the model, "
            f"as in --model {FOR_MANY}, or leave this out"
        )
    return min(fitting, key=lambda config: kinds.index(config.model))


def possible(values: Mapping[str, Any]) -> "list[TrainingConfig]":
    """The configurations that `auto` may come to, the usual one first.

    Raises:
        UserError: there is none; what is wrong with the usual one.
    """
    from zlpr.training.config import TrainingConfig

    fitting, faults = [], []
    for kind in (DEFAULT, FOR_MANY):
        try:
            fitting.append(TrainingConfig.of({**values, "model": kind}))
        except UserError as fault:
            faults.append(fault)
    if not fitting:
        raise faults[0]
    return fitting


def has_many_labels(parts: "Parts") -> bool:
    """Whether data is what the model for many labels is for."""
    from scipy import sparse

    train = parts.train
    if train.num_labels < MANY_LABELS:
        return False
    if train.texts is not None:
        return True
    features: Any = train.features
    weights = train.num_labels * int(features.shape[1])
    return bool(sparse.issparse(features)) and weights >= MANY_WEIGHTS

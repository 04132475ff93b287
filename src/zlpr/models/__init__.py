"""Fitted models: from texts or features to scores, probabilities and label names."""

from zlpr.models.base import FittedModel, TrainingRecord
from zlpr.models.features import FeatureConfig, TextFeatures
from zlpr.models.folder import load, save
from zlpr.models.linear import LinearModel

__all__ = [
    "FeatureConfig",
    "FittedModel",
    "LinearModel",
    "TextFeatures",
    "TrainingRecord",
    "load",
    "save",
]

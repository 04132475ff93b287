"""Fitted models: from texts or features to scores, probabilities and label names."""

from zlpr.models.base import FittedModel, TrainingRecord
from zlpr.models.folder import load, save

__all__ = ["FittedModel", "TrainingRecord", "load", "save"]

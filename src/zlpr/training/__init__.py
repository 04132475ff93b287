"""Training: from data and settings to a fitted model."""

from zlpr.training.config import FitResult, Progress, TrainingConfig
from zlpr.training.fit import fit
from zlpr.training.linear import ExtractedFeatures, extract_features

__all__ = [
    "ExtractedFeatures",
    "FitResult",
    "Progress",
    "TrainingConfig",
    "extract_features",
    "fit",
]

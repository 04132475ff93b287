"""Fitted models: from texts or features to scores, probabilities and label names."""

from typing import TYPE_CHECKING

from zlpr._lazy import lazy_names

if TYPE_CHECKING:
    from zlpr.models.base import FittedModel as FittedModel
    from zlpr.models.base import TrainingRecord as TrainingRecord
    from zlpr.models.explanation import Explanation as Explanation
    from zlpr.models.feature_config import FeatureConfig as FeatureConfig
    from zlpr.models.features import TextFeatures as TextFeatures
    from zlpr.models.folder import load as load
    from zlpr.models.folder import save as save
    from zlpr.models.linear import LinearModel as LinearModel
    from zlpr.models.registry import available as available
    from zlpr.models.registry import info as info

_PLACES = {
    "Explanation": "zlpr.models.explanation",
    "FeatureConfig": "zlpr.models.feature_config",
    "FittedModel": "zlpr.models.base",
    "LinearModel": "zlpr.models.linear",
    "TextFeatures": "zlpr.models.features",
    "TrainingRecord": "zlpr.models.base",
    "available": "zlpr.models.registry",
    "info": "zlpr.models.registry",
    "load": "zlpr.models.folder",
    "save": "zlpr.models.folder",
}
__all__ = [
    "Explanation",
    "FeatureConfig",
    "FittedModel",
    "LinearModel",
    "TextFeatures",
    "TrainingRecord",
    "available",
    "info",
    "load",
    "save",
]
__getattr__, __dir__ = lazy_names(__name__, _PLACES)

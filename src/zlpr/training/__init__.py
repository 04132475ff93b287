"""Training: from data and settings to a fitted, judged model with its record."""

from typing import TYPE_CHECKING

from zlpr._lazy import lazy_names

if TYPE_CHECKING:
    from zlpr.training.base import TrainingProgress as TrainingProgress
    from zlpr.training.config import TrainingConfig as TrainingConfig
    from zlpr.training.fitting import FitResult as FitResult
    from zlpr.training.fitting import fit as fit
    from zlpr.training.linear import LinearConfig as LinearConfig
    from zlpr.training.parts import Parts as Parts
    from zlpr.training.parts import divide as divide
    from zlpr.training.transformer import TransformerConfig as TransformerConfig

_PLACES = {
    "FitResult": "zlpr.training.fitting",
    "LinearConfig": "zlpr.training.linear",
    "Parts": "zlpr.training.parts",
    "TrainingConfig": "zlpr.training.config",
    "TrainingProgress": "zlpr.training.base",
    "TransformerConfig": "zlpr.training.transformer",
    "divide": "zlpr.training.parts",
    "fit": "zlpr.training.fitting",
}
__all__ = [
    "FitResult",
    "LinearConfig",
    "Parts",
    "TrainingConfig",
    "TrainingProgress",
    "TransformerConfig",
    "divide",
    "fit",
]
__getattr__, __dir__ = lazy_names(__name__, _PLACES)

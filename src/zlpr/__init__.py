"""Multi-label classification around the ZLPR loss.

The rooms of the package load when they are first used, so that `import zlpr` costs nothing
and the command line can print its help without torch:

    >>> import torch, zlpr
    >>> loss = zlpr.losses.ZLPRLoss()
    >>> loss(torch.zeros(1, 2), torch.tensor([[True, False]])).item()  # 2 log 2
    1.3862943649291992
"""

import importlib
from typing import TYPE_CHECKING, Any

from zlpr._errors import UserError

__version__ = "0.1.0"

if TYPE_CHECKING:
    from zlpr import compare as compare
    from zlpr import data as data
    from zlpr import decoding as decoding
    from zlpr import distributed as distributed
    from zlpr import integrations as integrations
    from zlpr import losses as losses
    from zlpr import metrics as metrics
    from zlpr import models as models
    from zlpr import serving as serving
    from zlpr import theory as theory
    from zlpr import training as training
    from zlpr.models import load as load

_ROOMS = frozenset(
    {
        "compare",
        "data",
        "decoding",
        "distributed",
        "integrations",
        "losses",
        "metrics",
        "models",
        "serving",
        "theory",
        "training",
    }
)

__all__ = ["UserError", "__version__", "load", *sorted(_ROOMS)]


def __getattr__(name: str) -> Any:
    """Load a room on first use (PEP 562)."""
    if name in _ROOMS:
        return importlib.import_module(f"zlpr.{name}")
    if name == "load":
        return importlib.import_module("zlpr.models").load
    raise AttributeError(f"module 'zlpr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

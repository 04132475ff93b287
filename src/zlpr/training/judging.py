"""How a fitted model is judged, the same for every command: at its own bound and as decoded."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlpr import decoding, metrics
from zlpr.losses import registry

Scores = NDArray[np.float32]


def own_bound(loss: str) -> decoding.Rule | None:
    """The rule by which a loss decides without anything fitted; None for one that only ranks."""
    return decoding.create("zero") if registry.info(loss).decides else None


def judge(
    loss: str, decoder: Any, parts: Mapping[str, tuple[Any, Scores]], empty: metrics.Empty
) -> dict[str, dict[str, float]]:
    """Figures on each part as decoded, and on the last part at the loss's own bound.

    Args:
        loss: the loss's name.
        decoder: the fitted rule.
        parts: truth, as CSR, and scores by the part's name, the one to be judged by last.
        empty: what empty cases count.
    """
    figures = {
        name: metrics.evaluate(truth, scores, decoder(scores), empty=empty)
        for name, (truth, scores) in parts.items()
    }
    own = own_bound(loss)
    if own is not None and not isinstance(decoder, decoding.ZeroBound):
        name, (truth, scores) = list(parts.items())[-1]
        figures[f"{name}, bound 0"] = metrics.evaluate(truth, scores, own(scores), empty=empty)
    return figures

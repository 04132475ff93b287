"""The colours of every figure: Okabe and Ito's, which colour-blind people can tell apart.

A loss has the same colour everywhere, and beyond the first seven a marker and a dash of its own.
"""

import re
import zlib
from dataclasses import dataclass

BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK = (
    "#0072b2", "#d55e00", "#009e73", "#e69f00", "#cc79a7", "#56b4e9", "#000000",
)  # fmt: skip
GREY = "#6b7280"
COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK)
"""On white paper."""

ON_DARK = ("#4da3dd", "#ff8c42", "#2fc79a", "#f0b429", "#e0a0c5", "#8fd0f5", "#e8eaed")
"""The same hues, light enough for a dark page."""

_DASHES: tuple[str | tuple[int, tuple[float, ...]], ...] = (
    "-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)),
)  # fmt: skip
_MARKERS = "osD^vP*"
_LOSSES = (
    "zlpr", "bce", "focal", "dice1", "dice2", "ranking", "warp", "bp_mll", "lsep", "cross_entropy",
    "asymmetric", "two_way", "hbm", "adaptive_threshold", "circle", "decoupled_softmax",
    "distribution_balanced", "class_balanced", "sigmoid_f1", "self_adjusting_dice", "hill",
    "asymmetric_polynomial", "splc", "cb_ntr", "logit_adjusted",
)  # fmt: skip


@dataclass(frozen=True)
class Look:
    """How a loss is drawn: the place of its colour in `COLOURS`, its marker and its dash."""

    colour: int
    marker: str
    dash: str | tuple[int, tuple[float, ...]]

    @property
    def hex(self) -> str:
        """The colour on white paper."""
        return COLOURS[self.colour]


def look_of(loss: str) -> Look:
    """How to draw a loss, by its name or by a label that begins with it.

    Examples:
        >>> look_of("zlpr").hex == look_of("zlpr:pos_weight=2.7").hex == BLUE
        True
        >>> look_of("ZLPR").marker
        'o'
    """
    name = re.split(r"[^a-z0-9_]", loss.casefold())[0]
    known = name in _LOSSES
    place = _LOSSES.index(name) if known else zlib.crc32(loss.encode()) % 100
    round_ = place // len(COLOURS)
    turned = (place + 2 * round_) % len(COLOURS)  # no two rounds begin with the same colour
    dash = round_ + (known and name != loss.casefold())
    return Look(turned, _MARKERS[(turned - round_) % len(_MARKERS)], _DASHES[dash % len(_DASHES)])

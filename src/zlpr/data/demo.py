"""The demo corpus: made-up support tickets whose label sets follow a known joint distribution.

Twelve labels, English texts, no download, any size:

    >>> from zlpr.data import demo
    >>> tickets = demo.make(size=100, seed=7)
    >>> len(tickets), tickets.num_labels
    (100, 12)
    >>> demo.joint().shape, round(float(demo.joint().sum()), 9)
    ((2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2), 1.0)

A ticket is made in two steps. Its label set is drawn from `joint()`, a log-linear model with
couplings between pairs of labels. Its text then comes from a small grammar over the sentences of
`demo.txt`: a greeting, a sentence or two per label, sentences that say nothing or that mention a
label in order to deny it, and a closing. Some sentences fit two labels, which is what keeps any
model from being always right.
"""

import functools
import random
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from zlpr.data.dataset import Dataset

LABELS = (
    "accessibility",
    "billing",
    "cancellation",
    "crash",
    "damaged",
    "delivery",
    "feature",
    "login",
    "praise",
    "refund",
    "security",
    "slow",
)

# Log-odds of each label on its own: a few common ones and a long tail.
_BIAS = {
    "accessibility": -5.1,
    "billing": -1.1,
    "cancellation": -2.9,
    "crash": -1.9,
    "damaged": -2.2,
    "delivery": -1.1,
    "feature": -1.5,
    "login": -2.0,
    "praise": -1.7,
    "refund": -3.0,
    "security": -4.4,
    "slow": -2.5,
}

# What a pair adds to the log-probability: positive for labels that come together.
_COUPLING = {
    ("accessibility", "feature"): 1.6,
    ("accessibility", "login"): 0.7,
    ("billing", "cancellation"): 1.3,
    ("billing", "crash"): -1.2,
    ("billing", "damaged"): -0.8,
    ("billing", "refund"): 2.0,
    ("cancellation", "feature"): -1.5,
    ("cancellation", "slow"): 0.9,
    ("crash", "damaged"): -2.0,
    ("crash", "delivery"): -2.5,
    ("crash", "login"): 0.6,
    ("crash", "praise"): -1.6,
    ("crash", "slow"): 1.7,
    ("damaged", "delivery"): 0.7,
    ("damaged", "login"): -2.0,
    ("damaged", "praise"): -1.8,
    ("damaged", "refund"): 2.2,
    ("delivery", "login"): -1.6,
    ("delivery", "refund"): 1.2,
    ("delivery", "security"): -2.0,
    ("delivery", "slow"): -2.2,
    ("feature", "praise"): 1.2,
    ("feature", "refund"): -1.5,
    ("login", "praise"): -1.4,
    ("login", "security"): 2.3,
}

# Pairs that no customer writes in one ticket.
_EXCLUSIVE = (("praise", "cancellation"), ("praise", "refund"), ("praise", "security"))

EMPTY_SHARE = 0.08
"""The probability of a ticket without any label."""

# How a text is composed; together these set how hard the corpus is.
_SHARED = 0.24  # a label speaks through a sentence that also fits another label
_SECOND = 0.25  # a label gets a second sentence of its own
_MENTION = 0.30  # a label that is absent is mentioned and denied
_NEUTRAL = (0.25, 0.65, 0.90, 1.0)  # cumulative: 0, 1, 2 or 3 sentences about nothing
_GREETING = 0.55
_CLOSING = 0.60


@functools.cache
def joint() -> NDArray[np.float64]:
    """The joint distribution from which the label sets are drawn.

    ``P(y) ~ exp(sum_i a_i y_i + sum_(i<j) c_ij y_i y_j)`` over the non-empty label sets that hold
    no exclusive pair, scaled so that the empty set has probability `EMPTY_SHARE`.

    Returns:
        Array of shape (2,) * 12 that sums to one; axis i is label `LABELS[i]`. Read-only.

    Examples:
        >>> probability = joint()
        >>> float(probability[(0,) * 12])  # the empty set
        0.08
    """
    number = {label: i for i, label in enumerate(LABELS)}
    y = np.indices((2,) * len(LABELS)).reshape(len(LABELS), -1)
    energy = np.zeros(y.shape[1])
    for label, bias in _BIAS.items():
        energy += bias * y[number[label]]
    for (one, other), coupling in _COUPLING.items():
        energy += coupling * y[number[one]] * y[number[other]]
    weight = np.exp(energy)
    for one, other in _EXCLUSIVE:
        weight[(y[number[one]] & y[number[other]]).astype(bool)] = 0.0
    weight[0] = 0.0
    probability: NDArray[np.float64] = weight * ((1.0 - EMPTY_SHARE) / weight.sum())
    probability[0] = EMPTY_SHARE
    probability.flags.writeable = False
    return probability.reshape((2,) * len(LABELS))


def make(size: int = 6000, seed: int = 0) -> Dataset:
    """Write `size` tickets; the same seed gives the same tickets, and fewer are a prefix of more.

    Args:
        size: how many tickets, at least one.
        seed: any integer.

    Examples:
        >>> make(3, seed=1).texts == make(5, seed=1).texts[:3]
        True
    """
    if size < 1:
        raise ValueError(f"size is {size}, expected at least 1")
    cumulative = list(accumulate(joint().ravel().tolist()))
    grammar = _grammar()
    rng = random.Random(seed)  # noqa: S311
    texts = []
    indices: list[int] = []
    indptr = [0]
    for _ in range(size):
        code = min(bisect_right(cumulative, rng.random()), len(cumulative) - 1)
        present = [i for i in range(len(LABELS)) if code >> (len(LABELS) - 1 - i) & 1]
        texts.append(grammar.write(present, rng))
        indices.extend(present)
        indptr.append(len(indices))
    labels = sparse.csr_array(
        (np.ones(len(indices), dtype=bool), np.array(indices, dtype=np.int32), np.array(indptr)),
        shape=(size, len(LABELS)),
    )
    ids = [f"ticket-{number:06d}" for number in range(1, size + 1)]
    return Dataset(labels=labels, label_names=LABELS, texts=texts, ids=ids, name="demo")


Template = tuple[Sequence[str], ...]
"""A sentence as a row of places, each with the texts that may stand there."""


def _pick(options: Sequence[Template], rng: random.Random) -> str:
    # int(random() * n) is the one draw whose result is the same in every Python version.
    template = options[int(rng.random() * len(options))]
    return "".join(
        place[0] if len(place) == 1 else place[int(rng.random() * len(place))] for place in template
    )


@dataclass(frozen=True)
class _Grammar:
    """The sentences, by what they are for; lists of labels are in the order of `LABELS`."""

    own: list[list[Template]]
    shared: list[list[Template]]
    mention: list[list[Template]]
    neutral: list[Template]
    nothing: list[Template]
    greeting: list[Template]
    closing: list[Template]

    def write(self, present: Sequence[int], rng: random.Random) -> str:
        """Compose one ticket for the labels at these positions."""
        body = []
        for label in present:
            shared = self.shared[label] and rng.random() < _SHARED
            body.append(_pick(self.shared[label] if shared else self.own[label], rng))
            if rng.random() < _SECOND:
                body.append(_pick(self.own[label], rng))
        if not present:
            body.append(_pick(self.nothing, rng))
        if rng.random() < _MENTION:
            label = int(rng.random() * len(LABELS))
            if label not in present and self.mention[label]:
                body.append(_pick(self.mention[label], rng))
        body += [_pick(self.neutral, rng) for _ in range(bisect_right(_NEUTRAL, rng.random()))]
        body.sort(key=lambda _: rng.random())
        if rng.random() < _GREETING:
            body.insert(0, _pick(self.greeting, rng))
        if rng.random() < _CLOSING:
            body.append(_pick(self.closing, rng))
        return " ".join(body)


@functools.cache
def _grammar() -> _Grammar:
    """Compile `demo.txt`."""
    sections = fragments()
    slots = {
        title.removeprefix("slot "): lines
        for title, lines in sections.items()
        if title.startswith("slot ")
    }

    def compiled(title: str) -> list[Template]:
        return [_template(line, slots) for line in sections.get(title, ())]

    shared: dict[str, list[Template]] = {label: [] for label in LABELS}
    for title in sections:
        if title.startswith("shared "):
            for label in title.split()[1:]:
                shared[label].extend(compiled(title))
    return _Grammar(
        own=[compiled(f"label {label}") for label in LABELS],
        shared=[shared[label] for label in LABELS],
        mention=[compiled(f"mention {label}") for label in LABELS],
        neutral=compiled("neutral"),
        nothing=compiled("nothing"),
        greeting=compiled("greeting"),
        closing=compiled("closing"),
    )


def fragments() -> dict[str, tuple[str, ...]]:
    """The hand-written sentences by section, such as ``"label billing"`` or ``"neutral"``.

    Examples:
        >>> len(fragments()["label crash"]) >= 25
        True
    """
    sections: dict[str, list[str]] = {}
    text = resources.files("zlpr.data").joinpath("demo.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("## "):
            current = sections.setdefault(line.removeprefix("## "), [])
        elif line and not line.startswith("#"):
            current.append(line)
    return {title: tuple(lines) for title, lines in sections.items()}


def _template(line: str, slots: dict[str, tuple[str, ...]]) -> Template:
    places: list[Sequence[str]] = []
    for piece in re.split(r"(\{\w+\}|\([^)]*\|[^)]*\))", line):
        if piece.startswith("{"):
            places.append(slots[piece[1:-1]])
        elif piece.startswith("("):
            places.append(tuple(piece[1:-1].split("|")))
        elif piece:
            places.append((piece,))
    return tuple(places)

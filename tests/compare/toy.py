"""A small data file of our own and a grid over it that trains in moments."""

import random
from pathlib import Path

from zlpr.compare.grid import DataSpec, Grid
from zlpr.compare.records import LossSpec

WORDS = {
    "bread": ("crust", "flour", "oven"),
    "boats": ("sail", "harbour", "mast"),
    "birds": ("feather", "nest", "song"),
    "clocks": ("hour", "spring", "chime"),
}
FILLER = ("the", "a", "near", "old", "with", "and", "under", "small")


def write_file(path: Path, samples: int = 160) -> Path:
    """Sentences that carry words of their labels; some have none, some two."""
    chance = random.Random(7)  # noqa: S311 - sentences, not secrets
    lines = ["text,labels"]
    for _ in range(samples):
        labels = chance.sample(sorted(WORDS), chance.choice((0, 1, 1, 1, 2)))
        words = [chance.choice(WORDS[label]) for label in labels for _ in range(2)]
        words += chance.choices(FILLER, k=4)
        chance.shuffle(words)
        lines.append(f"{' '.join(words)} {len(lines)},{'|'.join(labels)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def grid(path: Path, **changes) -> Grid:
    """Three losses, among them one that only ranks, at one regularisation."""
    made = {
        "data": (DataSpec(str(path), "toy"),),
        "models": ("linear",),
        "losses": tuple(LossSpec(name, name) for name in ("zlpr", "dice2", "lsep")),
        "seeds": (0, 1),
        "training": {"regularisation": 1.0},
    }
    return Grid(**{**made, **changes})

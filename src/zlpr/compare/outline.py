"""What a comparison would run, before anything is trained: sizes, what is missing, how long."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlpr import data
from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.compare.faults import check_data, data_faults, find_faults
from zlpr.compare.grid import DataSpec, Grid, losses_of, models_of, settings_for
from zlpr.data import published
from zlpr.data.dataset import SPLIT_NAMES
from zlpr.data.statistics import Unit, text_lengths, unit_of
from zlpr.models.registry import argument_of, kind_of
from zlpr.training.registry import config_of
from zlpr.training.transformer import RECIPES

# An encoder of the usual size, where its own is not known before it is there.
_USUAL_LAYERS, _USUAL_WIDTH = 12, 768
# Tokens to a word of Latin script, roughly; encoders of Chinese read characters.
_TOKENS: dict[Unit, float] = {"words": 1.3, "characters": 1.0}
_MOST_TOKENS = 512
_TEXTS_TO_LOOK_AT = 2000


@dataclass(frozen=True)
class OutlinedData:
    """A data set of a grid.

    Attributes:
        name: what tables call it.
        sizes: samples of training, validation and test part; the paper's where the data is missing
            and the paper has it; empty where nothing is known.
        labels: how many, known or from the paper; 0 where nothing is known.
        found: whether the data is there.
        runs: how many of the grid's runs are on it.
        hours: an estimate of their time on this machine; None where there is none.
    """

    name: str
    sizes: tuple[int, ...]
    labels: int
    found: bool
    runs: int
    hours: float | None


@dataclass(frozen=True)
class Outline:
    """What a grid amounts to.

    Attributes:
        data: each set with its runs.
        missing: data that is not there or cannot be read, with how to get it.
        faults: what else the comparison would be refused for.
        speed: multiplications and additions a second that the estimate is based on.
    """

    data: tuple[OutlinedData, ...]
    missing: tuple[str, ...]
    faults: tuple[str, ...]
    speed: float

    @property
    def runs(self) -> int:
        """All runs of the grid."""
        return sum(entry.runs for entry in self.data)

    @property
    def hours(self) -> float | None:
        """The estimate for all runs; None where one of them has none."""
        hours = [entry.hours for entry in self.data]
        return None if None in hours else sum(hour for hour in hours if hour is not None)


def outline(grid: Grid) -> Outline:
    """Look at the data and models of a grid; nothing is trained or written.

    The time is that of encoders' matrix products, `6 parameters x tokens x samples x epochs`, at
    the speed that this machine reaches in one product: a lower bound, and the right order.

    Args:
        grid: what would be compared.
    """
    speed = _speed()
    sets, missing = [], []
    for entry in grid.data:
        found, fault = _load(entry)
        sets.append(_outlined(grid, entry, found, speed))
        if fault:
            missing.append(f"data {entry.title}: {fault}{_how_to_get(entry.title)}")
    return Outline(tuple(sets), tuple(missing), tuple(_faults(grid, sets)), speed)


def _faults(grid: Grid, sets: Sequence[OutlinedData]) -> list[str]:
    """What is wrong with the grid, but for the data that is known not to be there."""
    found = [entry for entry, made in zip(grid.data, sets, strict=True) if made.found]
    said = {line for entry in grid.data if entry not in found for line in data_faults(entry)}
    faults = [fault for fault in find_faults(grid) if fault not in said]
    return [*faults, *check_data(grid, found).faults]


def _load(entry: DataSpec) -> tuple[data.Dataset | None, str]:
    try:
        return data.load(entry.path, **entry.read), ""
    except (UserError, OSError, ValueError, TypeError) as fault:
        return None, str(fault)


def _how_to_get(title: str) -> str:
    """The commands that make one of the paper's sets."""
    if published.set_name(title) is None:
        return ""
    source, _ = data.sources.resolve(title)
    raw = Path("raw") / source.name
    return f"; get it by: zlpr data download {title}, then zlpr data prepare {title} --raw {raw}"


def _outlined(
    grid: Grid, entry: DataSpec, found: data.Dataset | None, speed: float
) -> OutlinedData:
    runs = {
        model: len(entry.seeds or grid.seeds) * len(losses_of(grid, entry, model))
        for model in models_of(grid, entry)
    }
    sizes, labels, tokens = _size(grid, entry, found)
    hours: float | None = 0.0
    for model, count in runs.items():
        seconds = _seconds(grid, model, sizes, tokens, speed)
        hours = None if hours is None or seconds is None else hours + count * seconds / 3600
    return OutlinedData(entry.title, sizes, labels, found is not None, sum(runs.values()), hours)


def _size(
    grid: Grid, entry: DataSpec, found: data.Dataset | None
) -> tuple[tuple[int, ...], int, NDArray[np.float64]]:
    """Samples of the parts, labels, and tokens of some texts, as far as they are known."""
    if found is not None:
        own = None
        if found.split is not None and (entry.split or grid.split) == "published":
            own = [int((found.split == name).sum()) for name in SPLIT_NAMES]
        return _parts(grid, len(found), own), found.num_labels, _tokens(found)
    if published.set_name(entry.title) is None:
        return (), 0, np.zeros(1)
    rows = [published.statistics(entry.title, part) for part in SPLIT_NAMES]
    whole = published.statistics(entry.title)
    tokens = np.array([_TOKENS[whole.unit] * (whole.mean_words or 0)])
    own = [row.instances for row in rows]
    return _parts(grid, sum(own), own), whole.categories, tokens


def _parts(grid: Grid, samples: int, own: Sequence[int] | None) -> tuple[int, ...]:
    """Samples of training, validation and test part, of those that the grid takes."""
    taken = min(samples, grid.max_samples or samples)
    shares = [0.8, 0.1, 0.1] if own is None else [size / max(samples, 1) for size in own]
    return tuple(round(share * taken) for share in shares)


def _tokens(found: data.Dataset) -> NDArray[np.float64]:
    """How many tokens an encoder reads of some of the texts, were none too long for it."""
    if not found.texts:
        return np.zeros(1)
    texts = found.texts[:: max(1, len(found) // _TEXTS_TO_LOOK_AT)]
    unit = unit_of(texts)
    return _TOKENS[unit] * text_lengths(texts, unit).astype(np.float64)


def _seconds(
    grid: Grid, model: str, sizes: tuple[int, ...], tokens: NDArray[np.float64], speed: float
) -> float | None:
    """One run of an encoder; None for other kinds, and where the data is not known."""
    if kind_of(model).name != "hf" or not sizes:
        return None
    config: Any = config_of(model).of({**settings_for(grid.training, model), "model": model})
    epochs = config.epochs or RECIPES[config.preset].epochs
    layers, width = _encoder_size(argument_of(model))
    parameters = 12 * layers * width**2
    length = float(np.minimum(tokens + 2, config.max_length or _MOST_TOKENS).mean())
    # A pass forwards costs two operations a parameter and token, one with its gradient six.
    training = 6 * parameters * length * sizes[0] * epochs
    judging = 2 * parameters * length * (sizes[1] * (epochs + 1) + sizes[2])
    return float((training + judging) / speed)


def _encoder_size(name: str) -> tuple[int, int]:
    """Layers and width of an encoder in a folder; the usual ones else."""
    import json

    path = Path(name) / "config.json"
    if not path.is_file():
        return _USUAL_LAYERS, _USUAL_WIDTH
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        return int(config["num_hidden_layers"]), int(config["hidden_size"])
    except (ValueError, KeyError, TypeError):
        return _USUAL_LAYERS, _USUAL_WIDTH


def _speed() -> float:
    """Floating-point operations a second in a product of matrices, on the device that trains."""
    import torch

    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
    one = torch.ones(768, 768, device=device)
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        (one @ one)[0, 0].item()
        best = min(best, time.perf_counter() - started)
    return 2 * 768**3 / best


def lines(made: Outline) -> Iterator[str]:
    """What is missing, the departures from the paper that a preset has, and the sum."""
    yield from (f"missing: {line}" for line in made.missing)
    yield from (f"refused: {line}" for line in made.faults)
    hours = "" if made.hours is None else f", at least {made.hours:,.1f} hours of one device here"
    sets = counted(len(made.data), "data set")
    yield f"{counted(made.runs, 'run')} on {sets}{hours}; nothing was run"

"""What is wrong with a grid, all of it, before anything runs."""

import contextlib
import inspect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from zlpr import data, metrics
from zlpr._errors import UserError
from zlpr._names import unknown
from zlpr.compare.cell import divide_with_test
from zlpr.compare.grid import DataSpec, Grid, models_of, settings_for
from zlpr.compare.records import LossSpec
from zlpr.losses import registry
from zlpr.models.registry import available, kind_of
from zlpr.training import Parts, TrainingConfig
from zlpr.training.fitting import check_decision, idle_runs, settings_for_texts
from zlpr.training.loss import create_loss
from zlpr.training.registry import trainer_of

OWN_FIELDS = frozenset({"model", "loss", "loss_params", "choose", "seed"})
"""Fields of a training configuration that the grid itself gives."""

FLOOR = "min_probability"
"""A field that would hold for the rule of one metric only, as each metric has its own."""


def find_faults(grid: Grid) -> list[str]:
    """Everything that would make a cell fail and can be known without reading the data."""
    models = dict.fromkeys(
        itertools.chain.from_iterable(models_of(grid, entry) for entry in grid.data)
    )
    return [
        *_twice("data sets", [entry.title for entry in grid.data]),
        *_twice("losses", [loss.label for loss in grid.losses]),
        *_twice("seeds", [str(seed) for seed in grid.seeds]),
        *_twice("models", grid.models),
        *(fault for entry in grid.data for fault in _doubled(entry)),
        *(fault for entry in grid.data for fault in data_faults(entry)),
        *(fault for entry in grid.data for fault in _unknown_losses(entry, grid)),
        *(fault for loss in grid.losses for fault in _loss_faults(loss)),
        *_faults_of_models(tuple(models)),
        *_training_faults(grid, tuple(models)),
    ]


@dataclass(frozen=True)
class DataCheck:
    """What reading the data of a grid showed.

    Attributes:
        faults: what would make a cell fail.
        notes: what a user should know: what was read as what, splits that are drawn anew.
    """

    faults: tuple[str, ...]
    notes: tuple[str, ...]


def check_data(grid: Grid, entries: Iterable[DataSpec]) -> DataCheck:
    """Read and divide data once, before anything runs.

    What `find_faults` has said of an entry already is not said again.
    """
    faults: list[str] = []
    notes: list[str] = []
    for entry in entries:
        if list(data_faults(entry)):
            continue
        split = entry.split or grid.split
        try:
            dataset = data.load(entry.path, **entry.read)
            parts, _ = divide_with_test(dataset, split, next(iter(grid.seeds), 0))
            notes += _notes(entry, dataset, parts)
            notes += _unused(grid, entry, dataset)
        except (ValueError, TypeError, OSError) as fault:
            faults.append(f"data {entry.title}: {fault}")
            continue
        faults += [
            f"data {entry.title}: holds features, and model '{model}' reads texts"
            for model in models_of(grid, entry)
            if dataset.texts is None and "features" not in kind_of(model).reads
        ]
        faults += _undecidable(grid, entry, parts.train)
    return DataCheck(tuple(faults), tuple(notes))


def _undecidable(grid: Grid, entry: DataSpec, train: data.Dataset) -> Iterator[str]:
    """Decisions that need the scores of more labels than a model has."""
    for model in models_of(grid, entry):
        try:
            settings = {**settings_for(grid.training, model), "model": model}
            config = TrainingConfig.of(settings)
        except (ValueError, TypeError):  # find_faults has said so
            continue
        try:
            check_decision(train, config)
        except UserError as fault:
            yield f"data {entry.title}: {model}: {fault}"


def _notes(entry: DataSpec, dataset: data.Dataset, parts: Parts) -> Iterator[str]:
    if dataset.columns is not None:
        yield f"read {entry.path} as {dataset.columns.describe()}"
    if dataset.split is not None and parts.method != "published":
        yield (
            f"{entry.title} comes divided, and each seed divides all of it anew; "
            'split = "published" (--split published) keeps its own parts'
        )
    for note in parts.check():
        yield f"{entry.title}: {note}"


def _unused(grid: Grid, entry: DataSpec, dataset: data.Dataset) -> Iterator[str]:
    """Settings for texts that do nothing here; another set of the grid may have a use for them."""
    for model in models_of(grid, entry):
        with contextlib.suppress(ValueError, TypeError):  # find_faults has said so
            config = TrainingConfig.of({**settings_for(grid.training, model), "model": model})
            if dataset.texts is None:
                given, why = settings_for_texts(config), "holds features"
            else:
                given, read = idle_runs(config, dataset.texts)
                why = f"is read by the analyzer {read}"
            if given:
                yield f"{entry.title} {why}: {', '.join(given)} of {model} do nothing"


def _twice(what: str, names: Sequence[str]) -> list[str]:
    doubled = sorted({name for name in names if names.count(name) > 1})
    advice = "leave one out" if what in ("models", "seeds") else "give each a name of its own"
    return [f"two {what} are called '{name}'; {advice}" for name in doubled]


def _doubled(entry: DataSpec) -> Iterator[str]:
    """Runs that a data set of its own models or seeds would have twice."""
    for what, names in (("models", entry.models), ("seeds", [str(seed) for seed in entry.seeds])):
        yield from (f"data {entry.title}: {fault}" for fault in _twice(what, names))


def _unknown_losses(entry: DataSpec, grid: Grid) -> Iterator[str]:
    for label in sorted(set(entry.losses) - {loss.label for loss in grid.losses}):
        yield f"data {entry.title}: the grid has no loss '{label}'"


def data_faults(entry: DataSpec) -> Iterator[str]:
    """What is wrong with how the grid names a data set."""
    if entry.path != "demo" and not Path(entry.path).exists():
        yield f"data {entry.title}: {entry.path}: no such file or folder"
    options = {*inspect.signature(data.read).parameters, "hierarchy", "hierarchy_separator"}
    for name in entry.read:
        if name not in options:
            yield f"data {entry.title}: no reading option '{name}'"


def _loss_faults(loss: LossSpec) -> Iterator[str]:
    if loss.name not in registry.available():
        yield f"loss {loss.label}: {unknown('loss', loss.name, registry.available())}"
        return
    allowed = set(inspect.signature(registry.info(loss.name).module).parameters) - {"reduction"}
    for name, values in ({k: (v,) for k, v in loss.params.items()} | loss.choose).items():
        if name not in allowed:
            yield f"loss {loss.label}: {loss.name} has no parameter '{name}'"
        else:
            yield from (
                f"loss {loss.label}: {fault}" for fault in _value_faults(loss, name, values)
            )
    for name, values in loss.choose.items():
        if len(values) < 2:
            yield f"loss {loss.label}: choose.{name} needs at least two candidates"
        elif any(isinstance(one, bool) or not isinstance(one, int | float) for one in values):
            yield f"loss {loss.label}: choose.{name} takes numbers"
    if loss.choose_by and loss.choose_by not in metrics.available():
        yield f"loss {loss.label}: choose_by names no metric: '{loss.choose_by}'"


def _value_faults(loss: LossSpec, name: str, values: Sequence[Any]) -> Iterator[str]:
    """Each value is tried by itself, on as many labels as it has weights."""
    for value in values:
        num_labels = len(value) if isinstance(value, list) else 2
        labels = sparse.csr_array(np.eye(num_labels, dtype=np.int8))
        try:
            create_loss(TrainingConfig(loss=loss.name, loss_params={name: value}), labels)
        except (ValueError, TypeError) as fault:
            yield f"{name} = {value!r}: {fault}"


def _faults_of_models(models: Sequence[str]) -> Iterator[str]:
    """Asked at the same time, for a hub that does not answer takes its time to say so."""
    with ThreadPoolExecutor() as pool:
        yield from itertools.chain.from_iterable(pool.map(_model_faults, models))


def _model_faults(model: str) -> list[str]:
    try:
        return trainer_of(model).faults(model)
    except UserError as fault:
        return [str(fault)]


def _training_faults(grid: Grid, models: Sequence[str]) -> Iterator[str]:
    """Each setting is tried by itself, so that one fault does not hide the next."""
    kinds = {model.partition(":")[0] for model in models}
    for kind in available():
        if kind in grid.training and kind not in kinds:
            yield f"training.{kind}: the grid has no such model"
    faults: dict[str, None] = {}  # one that holds for several models is said once
    for model in (model for model in models if model.partition(":")[0] in available()):
        for name, value in settings_for(grid.training, model).items():
            faults |= dict.fromkeys(_setting_faults(model, name, value))
    yield from faults


def _setting_faults(model: str, name: str, value: Any) -> Iterator[str]:
    if name in OWN_FIELDS:
        yield f"training: '{name}' belongs to the grid itself"
        return
    if name == FLOOR and value is not None:
        yield f"training: '{name}': a comparison has a rule for each metric, and none has a floor"
        return
    try:
        TrainingConfig.of({"model": model, name: value})
    except ValueError as fault:
        yield f"training: {fault}"

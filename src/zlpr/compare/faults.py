"""What is wrong with a grid, all of it, before anything runs."""

import contextlib
import dataclasses
import inspect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
from scipy import sparse

from zlpr import data, metrics
from zlpr._errors import UserError
from zlpr._typed_json import from_plain
from zlpr.compare.cell import divide
from zlpr.compare.grid import DataSpec, Grid, models_of, weight_files
from zlpr.compare.records import LossSpec
from zlpr.losses import registry
from zlpr.training import TrainingConfig
from zlpr.training.loss import create_loss

OWN_FIELDS = frozenset({"model", "loss", "loss_params", "seed"})
"""Fields of a training configuration that the grid itself gives."""


def find_faults(grid: Grid) -> list[str]:
    """Everything that would make a cell fail and can be known without reading the data."""
    models = dict.fromkeys(
        itertools.chain.from_iterable(models_of(grid, entry) for entry in grid.data)
    )
    return [
        *_twice("data sets", [entry.title for entry in grid.data]),
        *_twice("losses", [loss.label for loss in grid.losses]),
        *_twice("seeds", [str(seed) for seed in grid.seeds]),
        *(fault for entry in grid.data for fault in _data_faults(entry)),
        *(fault for entry in grid.data for fault in _unknown_losses(entry, grid)),
        *(fault for loss in grid.losses for fault in _loss_faults(loss)),
        *_faults_of_models(tuple(models)),
        *_training_faults(grid),
    ]


def unreadable(grid: Grid, entries: Iterable[DataSpec]) -> Iterator[str]:
    """Faults that show only when data is read and divided, or that its models find in it.

    What `find_faults` has said of an entry already is not said again.
    """
    for entry in entries:
        if list(_data_faults(entry)):
            continue
        try:
            dataset = data.load(entry.path, **entry.read)
            divide(dataset, entry.split or grid.split, next(iter(grid.seeds), 0))
        except (ValueError, TypeError, OSError) as fault:
            yield f"data {entry.title}: {fault}"
            continue
        for model in models_of(grid, entry):
            if dataset.texts is None and model.startswith("hf:"):
                yield f"data {entry.title}: holds features, and model '{model}' reads texts"


def _twice(what: str, names: Sequence[str]) -> list[str]:
    doubled = sorted({name for name in names if names.count(name) > 1})
    return [f"two {what} are called '{name}'; give each a name of its own" for name in doubled]


def _unknown_losses(entry: DataSpec, grid: Grid) -> Iterator[str]:
    for label in sorted(set(entry.losses) - {loss.label for loss in grid.losses}):
        yield f"data {entry.title}: the grid has no loss '{label}'"


def _data_faults(entry: DataSpec) -> Iterator[str]:
    if entry.path != "demo" and not Path(entry.path).exists():
        yield f"data {entry.title}: {entry.path}: no such file or folder"
    options = inspect.signature(data.read).parameters
    for name in entry.read:
        if name not in options:
            yield f"data {entry.title}: no reading option '{name}'"


def _loss_faults(loss: LossSpec) -> Iterator[str]:
    if loss.name not in registry.available():
        known = ", ".join(registry.available())
        yield f"loss {loss.label}: no loss '{loss.name}'; there are {known}"
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
    if loss.choose and not registry.info(loss.name).decides:
        yield f"loss {loss.label}: only ranks, so there is no own bound to choose by"
    if loss.choose_by not in metrics.METRICS:
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
    encoders = [model for model in models if model.startswith("hf:")]
    for model in models:
        if model != "linear" and model not in encoders:
            yield f"model '{model}': expected 'linear' or 'hf:NAME_OR_PATH'"
    if encoders:
        with _quiet(), ThreadPoolExecutor() as pool:
            yield from itertools.chain.from_iterable(pool.map(_encoder_faults, encoders))


def _encoder_faults(model: str) -> list[str]:
    from transformers import AutoConfig

    from zlpr.models.transformer import load_tokenizer

    name = model.removeprefix("hf:")
    try:
        AutoConfig.from_pretrained(name)
    except Exception as fault:  # whatever a hub, a folder or a broken file can raise
        reason = (str(fault).strip() or type(fault).__name__).splitlines()[0]
        return [f"model '{model}' cannot load: {reason}"]
    faults = []
    if Path(name).is_dir() and not weight_files(Path(name)):
        faults.append(f"model '{model}' cannot load: no weights there, such as model.safetensors")
    try:
        load_tokenizer(name)
    except UserError as fault:
        faults.append(f"model '{model}': {fault}")
    return faults


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the hub client's lines on its retries; what it fails with is said in ours."""
    from huggingface_hub.utils import logging

    from zlpr.models.transformer import quiet

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        with quiet():
            yield
    finally:
        logging.set_verbosity(verbosity)


def _training_faults(grid: Grid) -> Iterator[str]:
    """Each setting is tried by itself, so that one fault does not hide the next."""
    known = {entry.name for entry in dataclasses.fields(TrainingConfig)}
    for name, value in grid.training.items():
        if name not in known:
            allowed = ", ".join(sorted(known - OWN_FIELDS))
            yield f"training: no setting '{name}'; there are {allowed}"
        elif name in OWN_FIELDS:
            yield f"training: '{name}' belongs to the grid itself"
        else:
            try:
                TrainingConfig(**{name: _typed(name, value)})
            except ValueError as fault:
                yield f"training: {fault}"


def _typed(name: str, value: Any) -> Any:
    """A training setting as its field wants it, or a `ValueError` that says what that is."""
    if name == "report_to" and isinstance(value, str):  # the Trainer takes one name as well
        value = [value]
    return from_plain(get_type_hints(TrainingConfig)[name], value, name)

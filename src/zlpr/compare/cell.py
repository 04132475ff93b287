"""One cell of the grid, from its settings to its record: split, train, choose, judge."""

import contextlib
import functools
import importlib.metadata
import os
import platform
import shutil
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from zlpr import __version__, decoding, metrics
from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.compare.grid import Cell, fingerprint
from zlpr.compare.per_metric import Picked, Picker, Try
from zlpr.compare.records import (
    MOST_OF_METRIC,
    MOST_OF_OBJECTIVE,
    SCHEMA,
    CellSettings,
    Curve,
    DataFacts,
    Decoding,
    EndOfTraining,
    Evaluation,
    Made,
    Outcome,
    PerLabel,
    Reliability,
    ReliabilityBin,
    RunRecord,
    Seconds,
)
from zlpr.data import Dataset, load
from zlpr.losses import registry
from zlpr.models.registry import kind_of
from zlpr.training import FitResult, Parts, TrainingConfig, TrainingProgress, divide
from zlpr.training.base import ReadInputs, Trained
from zlpr.training.fitting import check_data, check_memory, fit_parts
from zlpr.training.judging import ScoredPart, ancestors_of, own_bound, scored_validation
from zlpr.training.parts import SplitMethod
from zlpr.training.registry import config_of, trainer_of

WARM_UP_SAMPLES = 64
RELIABILITY_BINS = 10
CURVE_POINTS = 100


@dataclass(frozen=True)
class Place:
    """Where and how a cell runs; none of it changes the result, but for how threads round sums.

    Attributes:
        command: the command line that asked for the comparison.
        threads: that the cell may use.
        checkpoints: folder in which a long training keeps its state, or None for none.
    """

    command: str
    threads: int
    checkpoints: Path | None = None


def run_cell(cell: Cell, place: Place, dataset: Dataset | None = None) -> RunRecord:
    """Run one cell; whatever goes wrong inside it ends up in its record, not here.

    Args:
        cell: what to run.
        place: where it runs.
        dataset: its data, where the caller has it at hand; read from the cell's path otherwise.
    """
    started, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
    outcome, error = None, None
    try:
        outcome, seconds = _run(cell, place, dataset)
    except Exception as fault:
        error = _describe(fault)
        seconds = Seconds(0.0, time.perf_counter() - clock, 0.0)
    return RunRecord(
        schema=SCHEMA,
        status="failed" if outcome is None else "done",
        settings=cell.settings,
        settings_hash=cell.settings.hash(),
        outcome=outcome,
        error=error,
        seconds=seconds,
        made=provenance(place, started, cell.settings.model),
    )


def failed_record(cell: Cell, place: Place, error: str) -> RunRecord:
    """The record of a cell whose process died."""
    return RunRecord(
        schema=SCHEMA,
        status="failed",
        settings=cell.settings,
        settings_hash=cell.settings.hash(),
        outcome=None,
        error=error,
        seconds=Seconds(0.0, 0.0, 0.0),
        made=provenance(
            place, datetime.now(UTC).isoformat(timespec="seconds"), cell.settings.model
        ),
    )


@dataclass(frozen=True)
class SharedInputs:
    """What cells of one group share: the parts of one split, as the model reads them."""

    parts: Parts
    drawn: bool
    test: Dataset
    inputs: ReadInputs
    test_inputs: Any


def share_inputs(cell: Cell, dataset: Dataset | None = None) -> SharedInputs:
    """Split the data by the cell's seed and read the parts as the model does."""
    settings = cell.settings
    whole = _data_of(cell) if dataset is None else dataset
    taken = _sampled(whole, settings.max_samples, settings.seed)
    parts, test = divide_with_test(taken, settings.split, settings.seed)
    config = _config(settings)
    check_data(parts, config)
    inputs = trainer_of(settings.model).read(parts.train, parts.validation, config)
    return SharedInputs(parts, len(taken) < len(whole), test, inputs, inputs.read(test.inputs))


def _sampled(dataset: Dataset, most: int, seed: int) -> Dataset:
    """So many samples at most, drawn by the seed, in their order."""
    if not most or len(dataset) <= most:
        return dataset
    drawn = np.random.default_rng([seed, most]).permutation(len(dataset))[:most]
    return dataset.select(np.sort(drawn))


def divide_with_test(dataset: Dataset, method: SplitMethod, seed: int) -> tuple[Parts, Dataset]:
    """The data's parts, and the test part, without which nothing can be compared."""
    parts = divide(dataset, method, seed)
    if parts.test is None:
        raise UserError(f"{dataset.name}: its split has no test part")
    return parts, parts.test


_last_data: tuple[tuple[Any, ...], Dataset] | None = None
_last_shared: tuple[tuple[Any, ...], SharedInputs] | None = None


def _data_of(cell: Cell) -> Dataset:
    """The cell's data, read once for the cells that follow each other on it."""
    global _last_data
    key = (cell.path, cell.settings.fingerprint, str(cell.read))
    if _last_data is None or _last_data[0] != key:
        _last_data = None  # free the memory before filling it again
        data = load(cell.path, **cell.read)
        if fingerprint(cell.path, cell.read) != cell.settings.fingerprint:
            raise UserError(f"{cell.path}: changed while it was being compared on; start again")
        _last_data = (key, data)
    return _last_data[1]


def _shared(cell: Cell, dataset: Dataset | None) -> SharedInputs:
    """What the previous cell read, where this cell reads the same."""
    global _last_shared
    settings = cell.settings
    reading = trainer_of(settings.model).reading(_config(settings))
    data = (cell.path, settings.fingerprint, str(cell.read), settings.split, settings.max_samples)
    key = (*data, settings.seed, settings.model, settings.model_fingerprint, reading)
    if _last_shared is None or _last_shared[0] != key:
        _last_shared = None  # free the memory before filling it again
        _last_shared = (key, share_inputs(cell, dataset))
    return _last_shared[1]


def _run(cell: Cell, place: Place, dataset: Dataset | None) -> tuple[Outcome, Seconds]:
    clock = time.perf_counter
    start = clock()
    shared = _shared(cell, dataset)
    _read_ahead(cell.settings, shared, place)
    _warm_up(cell.settings, shared)
    ready = clock()
    fitted = _fit(cell, shared, place)
    trained = clock()
    outcome = _judge(cell.settings, shared, fitted)
    return outcome, Seconds(ready - start, trained - ready, clock() - trained)


def _read_ahead(settings: CellSettings, shared: SharedInputs, place: Place) -> None:
    """Read before the clock starts what the first of several losses would read for all of them."""
    checkpoint = _checkpoint(settings, place)
    if checkpoint is not None and checkpoint.exists():  # which goes on after that
        return
    config = _config(settings)
    check_memory(shared.parts, config, shared.inputs)
    trainer_of(settings.model).read_ahead(shared.parts.train, config, shared.inputs)


def _checkpoint(settings: CellSettings, place: Place) -> Path | None:
    """Where a training that is worth resuming keeps its state."""
    if place.checkpoints is None or not trainer_of(settings.model).resumes:
        return None
    return place.checkpoints / settings.hash()


_warm: set[tuple[str, str]] = set()


def _warm_up(settings: CellSettings, shared: SharedInputs) -> None:
    """Train on a few samples before the clock starts, once per kind of model and loss.

    A process's first training also loads code and fills caches, which would else be charged to
    whichever loss comes first. Kinds whose trainings take long do without.
    """
    key = (kind_of(settings.model).name, settings.loss.name)
    trainer = trainer_of(settings.model)
    if key in _warm or trainer.resumes:
        return
    _warm.add(key)
    train, validation = (
        part.select(range(min(len(part), WARM_UP_SAMPLES)))
        for part in (shared.parts.train, shared.parts.validation)
    )
    # What fails on so few samples need not fail on all; where it does, the training says so.
    with torch.random.fork_rng(devices=[]), contextlib.suppress(Exception):
        config = _config(settings)
        inputs = trainer.read(train, validation, config)
        trainer.train(train, validation, config, inputs, run={}, checkpoint=None, progress=None)


@dataclass(frozen=True)
class _Fitted:
    result: FitResult
    steps: Sequence[TrainingProgress]
    config: TrainingConfig
    tries: Sequence[Try]


def _fit(cell: Cell, shared: SharedInputs, place: Place) -> _Fitted:
    """Train; a training that takes long can be killed and goes on from its checkpoint."""
    settings = cell.settings
    config = _config(settings, choose=True)
    checkpoint = _checkpoint(settings, place)
    steps: list[TrainingProgress] = []
    tries: list[Try] = []

    def note(trained: Trained) -> None:
        if settings.per_metric:
            tries.append(_scored(trained, shared))
        else:  # what it learned is in the result; how it ended is not
            tries.append(Try(trained.chosen, _NOTHING, _NOTHING, _own_lines(trained)))

    result = fit_parts(
        shared.parts,
        config,
        inputs=shared.inputs,
        test_inputs=shared.test_inputs,
        checkpoint=checkpoint,
        progress=steps.append,
        tried=note,
    )
    if checkpoint is not None:
        shutil.rmtree(checkpoint, ignore_errors=True)
    return _Fitted(result, steps, config, tries)


_NOTHING = ScoredPart(None, np.empty((0, 0), dtype=np.float32))


def _scored(trained: Trained, shared: SharedInputs) -> Try:
    """A fit by its scores of both parts, its weights let go."""
    model, read = trained.model, shared.test_inputs
    ancestors = ancestors_of(shared.parts.train)
    return Try(
        dict(trained.chosen),
        scored_validation(shared.parts, trained),
        ScoredPart(shared.test.labels, model.score(read), model.features(read), ancestors),
        _own_lines(trained),
    )


def _own_lines(trained: Trained) -> tuple[TrainingProgress, ...]:
    """The history of one training; nothing where it is of several, each with a line of its own."""
    return trained.history if trained.trainings == 1 else ()


def _config(settings: CellSettings, *, choose: bool = False) -> TrainingConfig:
    """The training that a cell asks for.

    Args:
        settings: of the cell.
        choose: whether it is to choose the loss's parameters, where there are any to choose from,
            and not to take the first.
    """
    loss = settings.loss
    own: dict[str, Any] = {"model": settings.model, "loss": loss.name, "seed": settings.seed}
    own |= {"empty": settings.empty, "loss_params": dict(loss.params)}
    if choose:
        own["choose"] = {name: tuple(values) for name, values in loss.choose.items()}
    else:
        own["loss_params"] |= {name: values[0] for name, values in loss.choose.items()}
    if loss.choose_by:
        own["metric"] = loss.choose_by
    if settings.per_metric and any(
        entry.name == "refit" for entry in fields(config_of(settings.model))
    ):
        own["refit"] = False
    return TrainingConfig.of({**settings.training, **own})


def _judge(settings: CellSettings, shared: SharedInputs, fitted: _Fitted) -> Outcome:
    picked = _pick(fitted, shared)
    test = fitted.result.test
    if test is None:
        raise AssertionError("a cell has a test part")
    own = own_bound(fitted.config.scored_as)
    main = fitted.config.decision_metric
    rules = picked.every.rules
    if settings.per_metric:
        test = fitted.tries[picked.every.tries["fitted"][main]].test
    return Outcome(
        data=_facts(shared.parts, shared.drawn),
        chosen=_python_numbers(fitted.result.chosen),
        trainings=fitted.result.trainings,
        evaluation=picked.every.evaluation,
        decoding=Decoding(
            None if own is None else own.to_config(),
            {metric: rule.to_config() for metric, rule in rules.items()},
        ),
        per_label=_per_label(settings, shared, test, own, rules[main]),
        reliability=_reliability(
            fitted.config.scored_as, fitted.result.probabilities, fitted.result.test or test
        ),
        curves=curves(fitted.steps, fitted.result.history, fitted.result.trainings),
        end=end_of_training(picked.histories, len(shared.parts.validation)),
        chosen_for=picked.chosen_for,
        first=picked.first,
    )


@dataclass(frozen=True)
class _Choice:
    """What the figures of a cell are of.

    Attributes:
        every: picked among all fits.
        histories: of the fits that the figures are of.
        first: the figures of the loss's first parameters; None where nothing was to choose.
        chosen_for: what was chosen, by decoding and metric.
    """

    every: Picked
    histories: Sequence[Sequence[TrainingProgress]]
    first: Evaluation | None = None
    chosen_for: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)


def _pick(fitted: _Fitted, shared: SharedInputs) -> _Choice:
    """All figures of the model that `fit` gave, or each of the fit that is best by it."""
    tries, config, result = fitted.tries, fitted.config, fitted.result
    train_labels = shared.parts.train.labels
    if tries and tries[0].validation is not _NOTHING:
        picker = Picker(config, tries, train_labels)
        firsts = {name: values[0] for name, values in config.choose.items()}
        plain = [i for i, one in enumerate(tries) if firsts.items() <= one.chosen.items()]
        every, alone = picker.pick(range(len(tries)), plain)
        first = alone.evaluation if config.choose else None
        chosen_for = {
            decided: {name: _python_numbers(tries[i].chosen) for name, i in places.items()}
            for decided, places in every.tries.items()
        }
        return _Choice(every, [tries[i].history for i in every.used], first, chosen_for)
    if result.test is None:
        raise AssertionError("a cell has a test part")
    kept = [one.history for one in tries if one.chosen == result.chosen]
    picker = Picker(config, [Try(result.chosen, result.validation, result.test)], train_labels)
    picker.keep_rule(config.decision_metric, result.model.decoder)
    return _Choice(picker.pick([0])[0], kept)


def end_of_training(
    histories: Sequence[Sequence[TrainingProgress]], samples: int
) -> EndOfTraining | None:
    """How far some fits had settled, by the one that had least; None where nobody measured.

    A fit in epochs has a line for each: the last epoch stands for the last tenth.

    Args:
        histories: of each fit, its lines.
        samples: of the validation part: its metric moves by no less than one of them.
    """
    ends = [_end(lines) for lines in histories if lines]
    objective = max((end for end, _ in ends if end is not None), default=None)
    metric = max((end for _, end in ends if end is not None), default=None)
    if objective is None and metric is None:
        return None
    least = max(MOST_OF_METRIC, 2 / samples)
    settled = (objective or 0.0) <= MOST_OF_OBJECTIVE and (metric or 0.0) <= least
    return EndOfTraining(objective, metric, settled)


def _end(lines: Sequence[TrainingProgress]) -> tuple[float | None, float | None]:
    last = lines[-1]
    if last.last_tenth is not None or len(lines) < 2:
        return last.last_tenth, last.metric_moved
    before, gain = lines[-2], lines[0].loss - last.loss
    objective = max(0.0, before.loss - last.loss) / gain if gain > 0 else None
    if last.metric is None or before.metric is None:
        return objective, None
    return objective, abs(last.metric - before.metric)


def _facts(parts: Parts, drawn: bool) -> DataFacts:
    given = [part for part in (parts.train, parts.validation, parts.test) if part is not None]
    total = sum(part.labels.nnz for part in given)
    return DataFacts(
        labels=parts.train.num_labels,
        cardinality=float(total / sum(len(part) for part in given)),
        train=len(parts.train),
        validation=len(parts.validation),
        test=0 if parts.test is None else len(parts.test),
        empty=None if parts.test is None else _empty_share(parts.test),
        drawn=drawn,
    )


def _empty_share(part: Dataset) -> float:
    """The share of samples without any label."""
    return float(np.mean(np.diff(part.labels.indptr) == 0)) if len(part) else 0.0


def _per_label(
    settings: CellSettings,
    shared: SharedInputs,
    test: ScoredPart,
    own: decoding.Rule | None,
    rule: decoding.Rule,
) -> PerLabel:
    def f1(by: decoding.Rule) -> tuple[float, ...]:
        report = metrics.label_report(test.truth, test.decided(by), empty=settings.empty)
        return tuple(round(float(x), 4) for x in report.f1)

    counts = np.asarray(shared.parts.train.labels.sum(axis=0)).ravel()
    return PerLabel(
        train_count=tuple(int(count) for count in counts),
        own_f1=None if own is None else f1(own),
        fitted_f1=f1(rule),
    )


def _reliability(loss: str, chosen: decoding.ProbabilityChoice, test: ScoredPart) -> Reliability:
    truth, scores = test.truth, test.scores
    shown = chosen.probabilities(scores)
    calibrated = decoding.reliability_curve(truth, shown, bins=RELIABILITY_BINS)
    scale = registry.info(loss).link_scale
    raw = None
    if scale is not None:
        link = decoding.Calibrator(scale)(scores)
        raw = decoding.reliability_curve(truth, link, bins=RELIABILITY_BINS)
    return Reliability(
        raw=None if raw is None else _filled_bins(raw),
        raw_error=None if raw is None else raw.expected_calibration_error,
        calibrated=_filled_bins(calibrated),
        calibrated_error=calibrated.expected_calibration_error,
        by=chosen.name,
        raw_label_error=None if raw is None else raw.label_calibration_error,
        calibrated_label_error=calibrated.label_calibration_error,
    )


def _filled_bins(curve: decoding.ReliabilityCurve) -> tuple[ReliabilityBin, ...]:
    """The bins of a curve that hold anything."""
    rows = zip(curve.predicted.tolist(), curve.observed.tolist(), curve.count.tolist(), strict=True)
    return tuple(ReliabilityBin(*row) for row in rows if row[-1])


def curves(
    steps: Sequence[TrainingProgress], history: Sequence[TrainingProgress], trainings: int
) -> tuple[Curve, ...]:
    """The training loss as the first fit went, and validation by epoch or by candidate.

    A regularisation that is tried later starts from an earlier fit, so that only the first shows
    how a loss trains.

    Args:
        steps: all that training reported on its way.
        history: its summary, a line per epoch or per candidate.
        trainings: how many it was.
    """
    first = [e for e in steps if e.metric is None and e.stage == steps[0].stage]
    judged = [entry for entry in history if entry.metric is not None]
    unit = "candidate" if len(judged) <= trainings else "epoch"
    lines = {
        "training loss: step": [(float(e.step), e.loss) for e in _thinned(first)],
        f"validation: {unit}": [(float(i), float(e.metric or 0)) for i, e in enumerate(judged, 1)],
    }
    return tuple(
        Curve(name, tuple(step for step, _ in line), tuple(float(value) for _, value in line))
        for name, line in lines.items()
        if len(line) > 1 and all(np.isfinite(value) for _, value in line)
    )


def _thinned(entries: Sequence[TrainingProgress]) -> Sequence[TrainingProgress]:
    """At most a hundred of them, evenly; the eye sees no more."""
    if len(entries) <= CURVE_POINTS:
        return entries
    kept = np.linspace(0, len(entries) - 1, CURVE_POINTS).round().astype(int)
    return [entries[place] for place in kept.tolist()]


def _python_numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers as JSON knows them, whatever library they came from."""
    return {k: v.item() if hasattr(v, "item") else v for k, v in values.items()}


def _describe(fault: Exception) -> str:
    """The error in a line, with the place that raised it unless the user's input is at fault."""
    text = " ".join(str(fault).split()) or "no message"
    if isinstance(fault, UserError):
        return text
    frame = traceback.extract_tb(fault.__traceback__)[-1]
    return f"{type(fault).__name__}: {text} ({Path(frame.filename).name}:{frame.lineno})"


def provenance(place: Place, started: str, model: str) -> Made:
    """How, where and when."""
    packages = ["numpy", "scipy", "scikit-learn", "torch", *trainer_of(model).packages]
    return Made(
        started=started,
        command=place.command,
        threads=place.threads,
        versions={
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in packages},
            "zlpr": __version__,
        },
        machine=_machine(),
    )


@functools.cache
def _machine() -> dict[str, str]:
    """The kind of machine, without what would name it."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor() or platform.machine(),
        "cores": counted(os.cpu_count() or 1, "core"),
    }


def _processor() -> str:
    if sys.platform != "linux":
        return platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())

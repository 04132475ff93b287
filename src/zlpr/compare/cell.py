"""One cell of the grid, from its settings to its record: split, train, choose, judge."""

import contextlib
import functools
import importlib.metadata
import itertools
import os
import platform
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from zlpr import __version__, decoding, metrics
from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.compare.grid import Cell, fingerprint
from zlpr.compare.records import (
    SCHEMA,
    CellSettings,
    Curve,
    DataFacts,
    Decoded,
    Decoding,
    Evaluation,
    LossSpec,
    Made,
    Outcome,
    PerLabel,
    Reliability,
    ReliabilityBin,
    RunRecord,
    Seconds,
)
from zlpr.compare.results import METRICS
from zlpr.data import Dataset, load
from zlpr.losses import registry
from zlpr.models.registry import kind_of
from zlpr.training import FitResult, Parts, TrainingConfig, TrainingProgress, divide
from zlpr.training.base import ReadInputs
from zlpr.training.fitting import check_data, fit_parts
from zlpr.training.judging import ScoredPart, own_bound
from zlpr.training.parts import SplitMethod
from zlpr.training.registry import trainer_of
from zlpr.training.selection import choose_rule

WARM_UP_SAMPLES = 64
RELIABILITY_BINS = 10
CURVE_POINTS = 100


@dataclass(frozen=True)
class Place:
    """Where and how a cell runs; none of it changes the result.

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
    test: Dataset
    inputs: ReadInputs
    test_inputs: Any


def share_inputs(cell: Cell, dataset: Dataset | None = None) -> SharedInputs:
    """Split the data by the cell's seed and read the parts as the model does."""
    settings = cell.settings
    whole = _data_of(cell) if dataset is None else dataset
    parts, test = divide_with_test(whole, settings.split, settings.seed)
    config = _config(settings, settings.loss.params)
    check_data(parts, config)
    inputs = trainer_of(settings.model).read(parts.train, parts.validation, config)
    return SharedInputs(parts, test, inputs, inputs.read(test.inputs))


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
    reading = trainer_of(settings.model).reading(_config(settings, settings.loss.params))
    data = (cell.path, settings.fingerprint, str(cell.read), settings.split)
    key = (*data, settings.seed, settings.model, settings.model_fingerprint, reading)
    if _last_shared is None or _last_shared[0] != key:
        _last_shared = None  # free the memory before filling it again
        _last_shared = (key, share_inputs(cell, dataset))
    return _last_shared[1]


def _run(cell: Cell, place: Place, dataset: Dataset | None) -> tuple[Outcome, Seconds]:
    clock = time.perf_counter
    start = clock()
    shared = _shared(cell, dataset)
    _warm_up(cell.settings, shared)
    ready = clock()
    fitted = _fit_best(cell, shared, place)
    trained = clock()
    outcome = _judge(cell.settings, shared, fitted)
    return outcome, Seconds(ready - start, trained - ready, clock() - trained)


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
        config = _config(settings, {**settings.loss.params, **next(_candidates(settings.loss))})
        inputs = trainer.read(train, validation, config)
        trainer.train(train, validation, config, inputs, run={}, checkpoint=None, progress=None)


@dataclass(frozen=True)
class _Fitted:
    result: FitResult
    steps: Sequence[TrainingProgress]
    config: TrainingConfig
    chosen: dict[str, Any]
    trainings: int


def _fit_best(cell: Cell, shared: SharedInputs, place: Place) -> _Fitted:
    """Train, once or for every candidate, and keep what is best on validation."""
    loss = cell.settings.loss
    best: tuple[float, _Fitted] | None = None
    trainings = 0
    for candidate in _candidates(loss):
        config = _config(cell.settings, {**loss.params, **candidate})
        steps: list[TrainingProgress] = []
        result = _fit(cell, config, shared, place, steps.append)
        trainings += max(1, len({entry.stage for entry in result.history}))
        chosen = {**result.chosen, **candidate}
        value = _own_bound_value(cell.settings, result) if loss.choose else 0.0
        if best is None or value > best[0]:
            best = (value, _Fitted(result, steps, config, chosen, 0))
    if best is None:
        raise AssertionError("a loss has at least one candidate")
    return replace(best[1], trainings=trainings)


def _fit(
    cell: Cell,
    config: TrainingConfig,
    shared: SharedInputs,
    place: Place,
    progress: Callable[[TrainingProgress], None],
) -> FitResult:
    """One training; one that takes long can be killed and goes on from its checkpoint."""
    checkpoint = None
    if place.checkpoints is not None and trainer_of(config.model).resumes:
        name = hash_of_parameters(cell.settings, config.loss_params)
        checkpoint = place.checkpoints / name
    result = fit_parts(
        shared.parts,
        config,
        inputs=shared.inputs,
        test_inputs=shared.test_inputs,
        checkpoint=checkpoint,
        progress=progress,
    )
    if checkpoint is not None:
        shutil.rmtree(checkpoint, ignore_errors=True)
    return result


def hash_of_parameters(settings: CellSettings, params: Mapping[str, Any]) -> str:
    """Tells the trainings of one cell apart."""
    return replace(settings, loss=replace(settings.loss, params=dict(params))).hash()


def _candidates(loss: LossSpec) -> Iterator[dict[str, Any]]:
    names = list(loss.choose)
    for values in itertools.product(*loss.choose.values()):
        yield dict(zip(names, values, strict=True))


def _own_bound_value(settings: CellSettings, result: FitResult) -> float:
    """The metric that chooses among candidates, made so that larger is better."""
    part, name = result.validation, settings.loss.choose_by
    decided = part.decided(decoding.create("zero"))
    figures = metrics.evaluate(part.truth, part.scores, decided, empty=settings.empty)
    return metrics.info(name).sign * figures[name]


def _config(settings: CellSettings, loss_params: Mapping[str, Any]) -> TrainingConfig:
    own = {"model": settings.model, "loss": settings.loss.name, "seed": settings.seed}
    own |= {"empty": settings.empty, "loss_params": dict(loss_params)}
    return TrainingConfig.of({**settings.training, **own})


def _judge(settings: CellSettings, shared: SharedInputs, fitted: _Fitted) -> Outcome:
    validation, test = fitted.result.validation, fitted.result.test
    if test is None:
        raise AssertionError("a cell has a test part")
    own = own_bound(fitted.config.scored_as)
    rules = _fit_rules(fitted, shared.parts.train.labels)
    cuts = {
        metric: decoding.Threshold().fit(
            validation.truth, validation.scores, metric, empty=settings.empty
        )
        for metric in rules
    }
    main = fitted.config.decision_metric
    evaluation = Evaluation(
        _decoded(settings, validation, own, rules, cuts, main),
        _decoded(settings, test, own, rules, cuts, main),
    )
    return Outcome(
        data=_facts(shared.parts),
        chosen=_python_numbers(fitted.chosen),
        trainings=fitted.trainings,
        evaluation=evaluation,
        decoding=Decoding(
            None if own is None else own.to_config(),
            {metric: rule.to_config() for metric, rule in rules.items()},
        ),
        per_label=_per_label(settings, shared, test, own, rules[main]),
        reliability=_reliability(fitted.config.scored_as, fitted.result.probabilities, test),
        curves=curves(fitted.steps, fitted.result.history),
    )


def _fit_rules(fitted: _Fitted, train_labels: Any) -> dict[str, decoding.Rule]:
    """A decoding rule per metric of label sets, fitted for it on validation."""
    main = fitted.config.decision_metric
    rules: dict[str, decoding.Rule] = {main: fitted.result.model.decoder}
    for metric in METRICS:
        if metric.needs_decision and metric.name not in rules:
            validation = fitted.result.validation
            chosen = choose_rule(fitted.config, train_labels, validation, metric.name)
            rules[metric.name] = chosen.rule
    return rules


def _decoded(
    settings: CellSettings,
    part: ScoredPart,
    own: decoding.Rule | None,
    rules: Mapping[str, decoding.Rule],
    cuts: Mapping[str, decoding.Rule],
    main: str,
) -> Decoded:
    evaluate = functools.partial(metrics.evaluate, part.truth, empty=settings.empty)
    at_own_bound = evaluate(part.scores, None if own is None else part.decided(own))
    fitted = evaluate(part.scores, part.decided(rules[main]))
    for name, rule in rules.items():
        if name != main:
            fitted[name] = evaluate(y_pred=part.decided(rule))[name]
    threshold = {name: evaluate(y_pred=part.decided(cut))[name] for name, cut in cuts.items()}
    return Decoded(_finite(at_own_bound), _finite(fitted), _finite(threshold))


def _finite(figures: Mapping[str, float]) -> dict[str, float]:
    """A metric that is not defined on this data is left out rather than written as NaN."""
    return {name: float(value) for name, value in figures.items() if np.isfinite(value)}


def _facts(parts: Parts) -> DataFacts:
    given = [part for part in (parts.train, parts.validation, parts.test) if part is not None]
    total = sum(part.labels.nnz for part in given)
    return DataFacts(
        labels=parts.train.num_labels,
        cardinality=float(total / sum(len(part) for part in given)),
        train=len(parts.train),
        validation=len(parts.validation),
        test=0 if parts.test is None else len(parts.test),
        empty=None if parts.test is None else _empty_share(parts.test),
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
    )


def _filled_bins(curve: decoding.ReliabilityCurve) -> tuple[ReliabilityBin, ...]:
    """The bins of a curve that hold anything."""
    rows = zip(curve.predicted.tolist(), curve.observed.tolist(), curve.count.tolist(), strict=True)
    return tuple(ReliabilityBin(*row) for row in rows if row[-1])


def curves(
    steps: Sequence[TrainingProgress], history: Sequence[TrainingProgress]
) -> tuple[Curve, ...]:
    """The training loss as the first fit went, and validation by epoch or by candidate.

    A regularisation that is tried later starts from an earlier fit, so that only the first shows
    how a loss trains.

    Args:
        steps: all that training reported on its way.
        history: its summary, a line per epoch or per candidate.
    """
    first = [e for e in steps if e.metric is None and e.stage == steps[0].stage]
    judged = [entry for entry in history if entry.metric is not None]
    unit = "candidate" if len({e.stage for e in judged}) == len(judged) else "epoch"
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

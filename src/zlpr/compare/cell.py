"""One cell of the grid, from its settings to its record: split, train, choose, judge."""

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
from numpy.typing import NDArray

from zlpr import __version__, decoding, metrics, training
from zlpr._errors import UserError
from zlpr.compare.grid import Cell
from zlpr.compare.records import (
    SCHEMA,
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
    Settings,
    SplitMethod,
)
from zlpr.compare.results import METRICS
from zlpr.data import SPLIT_NAMES, Dataset, load, make_split
from zlpr.losses import registry
from zlpr.training.selection import decode_name

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
class Prepared:
    """The parts of one split and, for the linear model, their features."""

    parts: Mapping[str, Dataset]
    features: training.ExtractedFeatures | None
    test_features: Any


def prepare(cell: Cell, dataset: Dataset | None = None) -> Prepared:
    """Split the data by the cell's seed, and extract features where the model needs them."""
    settings = cell.settings
    whole = load(cell.path, **settings.reading) if dataset is None else dataset
    divided = divide(whole, settings.split, settings.seed)
    parts: dict[str, Dataset] = {name: divided.part(name) for name in SPLIT_NAMES}
    if settings.model != "linear":
        return Prepared(parts, None, None)
    config = _config(settings, settings.loss.params)
    features = training.extract_features(parts["train"], parts["validation"], config.features)
    test = parts["test"].inputs
    reader = features.text_features
    return Prepared(parts, features, test if reader is None else reader.transform(test))


def divide(dataset: Dataset, method: SplitMethod, seed: int) -> Dataset:
    """The data with a split: drawn by the seed, or its own.

    A published split without a validation part gives a ninth of its training part, drawn by the
    seed, so that nothing is ever chosen on the test part.
    """
    if method != "published":
        return make_split(dataset, method=method, seed=seed)
    if dataset.split is None:
        raise UserError(f"{dataset.name}: no published split; give files or a column with one")
    sizes = {name: int((dataset.split == name).sum()) for name in SPLIT_NAMES}
    if not sizes["train"] or not sizes["test"]:
        raise UserError(f"{dataset.name}: its split lacks a training or a test part")
    if sizes["validation"]:
        return dataset
    rows = np.flatnonzero(dataset.split == "train")
    drawn = make_split(dataset.select(rows), seed=seed, fractions=(8 / 9, 1 / 9, 0.0))
    split = dataset.split.astype("<U10")
    split[rows] = drawn.split
    return replace(dataset, split=split)


_last_prepared: tuple[tuple[Any, ...], Prepared] | None = None


def _prepared(cell: Cell, dataset: Dataset | None) -> Prepared:
    """The previous cell's data and features where this cell shares them."""
    global _last_prepared
    settings = cell.settings
    features = str(settings.training.get("features"))
    data = (cell.path, settings.fingerprint, str(settings.reading), settings.split)
    key = (*data, settings.seed, settings.model == "linear", features)
    if _last_prepared is None or _last_prepared[0] != key:
        _last_prepared = None  # free the memory before filling it again
        _last_prepared = (key, prepare(cell, dataset))
    return _last_prepared[1]


def _run(cell: Cell, place: Place, dataset: Dataset | None) -> tuple[Outcome, Seconds]:
    clock = time.perf_counter
    start = clock()
    prepared = _prepared(cell, dataset)
    ready = clock()
    fitted = _fit_best(cell, prepared, place)
    trained = clock()
    outcome = _judge(cell.settings, prepared, fitted)
    return outcome, Seconds(ready - start, trained - ready, clock() - trained)


@dataclass(frozen=True)
class _Fitted:
    result: training.FitResult
    steps: Sequence[training.Progress]
    config: training.TrainingConfig
    chosen: dict[str, Any]
    trainings: int


def _fit_best(cell: Cell, prepared: Prepared, place: Place) -> _Fitted:
    """Train, once or for every candidate, and keep what is best on validation."""
    loss = cell.settings.loss
    best: tuple[float, _Fitted] | None = None
    trainings = 0
    for candidate in _candidates(loss):
        config = _config(cell.settings, {**loss.params, **candidate})
        steps: list[training.Progress] = []
        result = _fit(cell, config, prepared, place, steps.append)
        trainings += max(1, len({entry.stage for entry in result.history}))
        chosen = {**result.chosen, **candidate}
        value = _own_bound_value(loss, prepared, result) if loss.choose else 0.0
        if best is None or value > best[0]:
            best = (value, _Fitted(result, steps, config, chosen, 0))
    if best is None:
        raise AssertionError("a loss has at least one candidate")
    return replace(best[1], trainings=trainings)


def _fit(
    cell: Cell,
    config: training.TrainingConfig,
    prepared: Prepared,
    place: Place,
    progress: Callable[[training.Progress], None],
) -> training.FitResult:
    """One training; one that takes long can be killed and goes on from its checkpoint."""
    checkpoint = None
    if place.checkpoints is not None and config.model != "linear":
        name = hash_of_parameters(cell.settings, config.loss_params)
        checkpoint = place.checkpoints / name
    result = training.fit(
        prepared.parts["train"],
        prepared.parts["validation"],
        config,
        features=prepared.features,
        checkpoint=checkpoint,
        progress=progress,
    )
    if checkpoint is not None:
        shutil.rmtree(checkpoint, ignore_errors=True)
    return result


def hash_of_parameters(settings: Settings, params: Mapping[str, Any]) -> str:
    """Tells the trainings of one cell apart."""
    return replace(settings, loss=replace(settings.loss, params=dict(params))).hash()


def _candidates(loss: LossSpec) -> Iterator[dict[str, Any]]:
    names = list(loss.choose)
    for values in itertools.product(*loss.choose.values()):
        yield dict(zip(names, values, strict=True))


def _own_bound_value(loss: LossSpec, prepared: Prepared, result: training.FitResult) -> float:
    """The metric that chooses among candidates, made so that larger is better."""
    scores = result.validation_scores
    truth = prepared.parts["validation"].labels
    value = metrics.evaluate(truth, scores, decoding.create("zero")(scores))[loss.choose_by]
    return -value if metrics.info(loss.choose_by).larger_is_better is False else value


def _config(settings: Settings, loss_params: Mapping[str, Any]) -> training.TrainingConfig:
    options = dict(settings.training)
    if isinstance(options.get("features"), Mapping):
        from zlpr.models.features import FeatureConfig

        options["features"] = FeatureConfig(**options["features"])
    return training.TrainingConfig(
        model=settings.model,
        loss=settings.loss.name,
        loss_params=dict(loss_params),
        seed=settings.seed,
        **options,
    )


def _judge(settings: Settings, prepared: Prepared, fitted: _Fitted) -> Outcome:
    parts = prepared.parts
    validation, test = parts["validation"].labels, parts["test"].labels
    model = fitted.result.model
    if prepared.test_features is None:
        test_scores = model.predict_scores(parts["test"].inputs)
    else:
        test_scores = model.scores_of_features(prepared.test_features)  # type: ignore[attr-defined]
    validation_scores = fitted.result.validation_scores
    decides = registry.info(settings.loss.name).decides
    own = decoding.create("zero") if decides else None
    rules = _fit_rules(fitted, validation, validation_scores)
    main = fitted.config.decode_metric
    evaluation = Evaluation(
        _decoded(validation, validation_scores, own, rules, main),
        _decoded(test, test_scores, own, rules, main),
    )
    return Outcome(
        data=_facts(parts),
        chosen=_plain(fitted.chosen),
        trainings=fitted.trainings,
        evaluation=evaluation,
        decoding=Decoding(
            None if own is None else own.to_config(),
            {metric: rule.to_config() for metric, rule in rules.items()},
        ),
        per_label=_per_label(parts["train"], test, test_scores, own, rules[main]),
        reliability=_reliability(settings.loss.name, model, test, test_scores),
        curves=curves(fitted.steps, fitted.result.history),
    )


def _fit_rules(fitted: _Fitted, truth: Any, scores: NDArray[np.float32]) -> dict[str, Any]:
    """A decoding rule per metric of label sets, fitted for it on validation."""
    main, name = fitted.config.decode_metric, decode_name(fitted.config)
    rules: dict[str, Any] = {main: fitted.result.model.decoder}
    for metric in METRICS:
        if metric.needs_decision and metric.name not in rules:
            rules[metric.name] = decoding.create(name).fit(truth, scores, metric=metric.name)
    return rules


def _decoded(
    truth: Any, scores: NDArray[np.float32], own: Any, rules: Mapping[str, Any], main: str
) -> Decoded:
    at_own_bound = metrics.evaluate(truth, scores, None if own is None else own(scores))
    fitted = metrics.evaluate(truth, scores, rules[main](scores))
    for name, rule in rules.items():
        if name != main:
            fitted[name] = metrics.evaluate(truth, y_pred=rule(scores))[name]
    return Decoded(_finite(at_own_bound), _finite(fitted))


def _finite(figures: Mapping[str, float]) -> dict[str, float]:
    """A metric that is not defined on this data is left out rather than written as NaN."""
    return {name: float(value) for name, value in figures.items() if np.isfinite(value)}


def _facts(parts: Mapping[str, Dataset]) -> DataFacts:
    samples = sum(len(part) for part in parts.values())
    total = sum(part.labels.nnz for part in parts.values())
    return DataFacts(
        labels=parts["train"].num_labels,
        cardinality=float(total / samples),
        train=len(parts["train"]),
        validation=len(parts["validation"]),
        test=len(parts["test"]),
    )


def _per_label(
    train: Dataset, truth: Any, scores: NDArray[np.float32], own: Any, rule: Any
) -> PerLabel:
    def f1(decide: Any) -> tuple[float, ...]:
        return tuple(round(float(x), 4) for x in metrics.label_report(truth, decide(scores)).f1)

    counts = np.asarray(train.labels.sum(axis=0)).ravel()
    return PerLabel(
        train_count=tuple(int(count) for count in counts),
        own_f1=None if own is None else f1(own),
        fitted_f1=f1(rule),
    )


def _reliability(loss: str, model: Any, truth: Any, scores: NDArray[np.float32]) -> Reliability:
    dense = truth.toarray().astype(bool)
    calibrated = reliability_bins(dense, np.asarray(model.calibrator(scores)))
    scale = registry.info(loss).link_scale
    raw = None
    if scale is not None:
        link = 1 / (1 + np.exp(-np.clip(scale * scores.astype(np.float64), -50, 50)))
        raw = reliability_bins(dense, link)
    return Reliability(
        raw=raw,
        raw_error=None if raw is None else calibration_error(raw),
        calibrated=calibrated,
        calibrated_error=calibration_error(calibrated),
    )


def reliability_bins(
    truth: NDArray[np.bool_], probabilities: NDArray[Any]
) -> tuple[ReliabilityBin, ...]:
    """Predicted against observed in ten intervals of equal width; empty ones are left out."""
    flat, happened = probabilities.ravel(), truth.ravel()
    place = np.minimum((flat * RELIABILITY_BINS).astype(int), RELIABILITY_BINS - 1)
    counts = np.bincount(place, minlength=RELIABILITY_BINS)
    predicted = np.bincount(place, weights=flat, minlength=RELIABILITY_BINS)
    observed = np.bincount(place, weights=happened, minlength=RELIABILITY_BINS)
    return tuple(
        ReliabilityBin(float(predicted[i] / counts[i]), float(observed[i] / counts[i]), int(count))
        for i, count in enumerate(counts)
        if count
    )


def calibration_error(bins: Sequence[ReliabilityBin]) -> float:
    """The expected calibration error: mean distance of predicted and observed, by count."""
    total = sum(entry.count for entry in bins)
    return sum(entry.count * abs(entry.predicted - entry.observed) for entry in bins) / total


def curves(
    steps: Sequence[training.Progress], history: Sequence[training.Progress]
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


def _thinned(entries: Sequence[training.Progress]) -> Sequence[training.Progress]:
    """At most a hundred of them, evenly; the eye sees no more."""
    if len(entries) <= CURVE_POINTS:
        return entries
    kept = np.linspace(0, len(entries) - 1, CURVE_POINTS).round().astype(int)
    return [entries[place] for place in kept.tolist()]


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
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
    packages = ["numpy", "scipy", "scikit-learn", "torch"]
    packages += [] if model == "linear" else ["transformers", "accelerate"]
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
        "cores": f"{os.cpu_count()} cores",
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

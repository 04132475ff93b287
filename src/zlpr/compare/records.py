"""What one cell of a comparison leaves behind: a run record, one JSON file, whole or absent.

Tables and reports are made from run records alone. A record says what was asked for (`settings`),
what came out (`evaluation` and the rest), and how it was made (`made`). The hash of the settings
is part of the file's name, so that runs with other settings, on changed data or by another
version of the package stand beside each other and are never taken for one another.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from zlpr._atomic import write_text
from zlpr._errors import UserError
from zlpr._escape import to_system
from zlpr._typed_json import from_plain, schema_of, to_plain
from zlpr.metrics import Empty
from zlpr.training.parts import SplitMethod

SCHEMA = 1
"""Raised when the meaning of a record's entries changes; older records are then left out."""

LONGEST_NAME = 180
"""Bytes of a record's file name that its words may take: file systems end at 255."""


@dataclass(frozen=True)
class LossSpec:
    """A loss as the grid asks for it.

    Attributes:
        label: what tables call it; two entries of a grid may use one loss with other parameters.
        name: its name in `zlpr.losses`.
        params: fixed parameters.
        choose: numbers per parameter, of which validation picks, as `TrainingConfig.choose`; the
            first is what the loss has without a choice.
        choose_by: the metric that picks; the one of the training settings where empty.
    """

    label: str
    name: str
    params: dict[str, Any] = field(default_factory=dict)
    choose: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    choose_by: str = ""


@dataclass(frozen=True)
class CellSettings:
    """All that decides a cell's outcome; two cells with equal settings have equal results.

    Attributes:
        data: the data set's name in tables.
        fingerprint: hash of the data's content, so that edited data is new data.
        reading: options given to the reader of the file.
        split: "random" and "stratified" draw 8:1:1 anew for each seed; "published" takes the
            data's own parts.
        model: a kind of model, as users name it.
        loss: the loss and its parameters.
        seed: draws the split and the initialisation.
        training: further settings of the model's kind, as given.
        version: the package's version and a digest of the code that decides the outcome.
        empty: what empty cases count in the figures; records from before it was said are the
            paper's.
        model_fingerprint: hash of the model's files where it is a folder, so that other weights
            under the same path are another model; empty otherwise.
        per_metric: whether each of the paper's figures is of the fit that is best by it on
            validation, and not all of one model; no model is then fitted to the validation part.
        max_samples: of a larger set so many are drawn by the seed, before it is divided; 0 takes
            all.
    """

    data: str
    fingerprint: str
    reading: dict[str, Any]
    split: SplitMethod
    model: str
    loss: LossSpec
    seed: int
    training: dict[str, Any]
    version: str
    model_fingerprint: str = ""
    empty: Empty = "paper"
    per_metric: bool = False
    max_samples: int = 0

    def hash(self) -> str:
        """Sixteen hexadecimal digits that change with any of the settings."""
        text = json.dumps(to_plain(self), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:16]

    def file_name(self) -> str:
        """The record's file name: readable, and unlike that of any other settings."""
        words = [self.data, self.model, self.loss.label]
        words = [re.sub(r"[^\w.+-]+", "-", word).strip("-.") for word in words]
        if len("".join(words).encode()) > LONGEST_NAME:
            words = [word.encode()[: LONGEST_NAME // 3].decode(errors="ignore") for word in words]
        return to_system("__".join([*words, f"seed{self.seed}", self.hash()[:8]])) + ".json"

    def title(self) -> str:
        """The cell in a few words, for progress and errors."""
        return f"{self.data} / {self.model} / {self.loss.label} / seed {self.seed}"


@dataclass(frozen=True)
class DataFacts:
    """The data as the cell saw it.

    Attributes:
        empty: the share of test samples without any label; None in records that do not say.
        drawn: whether samples were left out; None in records that do not say.
    """

    labels: int
    cardinality: float
    train: int
    validation: int
    test: int
    empty: float | None = None
    drawn: bool | None = None


@dataclass(frozen=True)
class Decoded:
    """Metrics at the loss's own bound, at one threshold, and with the rule that was chosen.

    A loss that only ranks has no own bound: `own` then holds the metrics that need scores alone.
    In `fitted`, each of the paper's metrics of label sets is that of the rule chosen and fitted
    for it on validation; in `threshold`, that of one threshold fitted for it, the same rule for
    every loss.
    """

    own: dict[str, float]
    fitted: dict[str, float]
    threshold: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """The metrics on the two parts that the model was not trained on."""

    validation: Decoded
    test: Decoded


@dataclass(frozen=True)
class Decoding:
    """The decoding rules as configurations that `zlpr.decoding.from_config` reads.

    `fitted` has one per metric that it was fitted for.
    """

    own: dict[str, Any] | None
    fitted: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class PerLabel:
    """Per label: its count in the training part, and its F1 on the test part."""

    train_count: tuple[int, ...]
    own_f1: tuple[float, ...] | None
    fitted_f1: tuple[float, ...]


@dataclass(frozen=True)
class ReliabilityBin:
    """Predicted probabilities that fell into one interval, against what happened."""

    predicted: float
    observed: float
    count: int


@dataclass(frozen=True)
class Reliability:
    """How far probabilities can be taken at their word, on the test part.

    `raw` holds the loss's own link, `sigma(link_scale * score)`, absent for losses that only
    rank; `calibrated` the probabilities that a user of the model sees. The errors are expected
    calibration errors, the count-weighted mean of `|predicted - observed|`; those by label weigh by
    the labels that were true or announced, so that cells near 0 do not swamp them (None in records
    that do not say). `by` says what made the latter, the calibrator or the marginals of
    `label_sets`.
    """

    raw: tuple[ReliabilityBin, ...] | None
    raw_error: float | None
    calibrated: tuple[ReliabilityBin, ...]
    calibrated_error: float
    by: str = "calibrator"
    raw_label_error: float | None = None
    calibrated_label_error: float | None = None


@dataclass(frozen=True)
class Curve:
    """One line of a training curve: a value per step (an epoch or an iteration)."""

    name: str
    steps: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Seconds:
    """Where a cell's time went.

    `prepare` reads and splits the data, nearly 0 where another cell left features, and warms the
    process up, so that `fit` does not depend on which loss comes first.
    """

    prepare: float
    fit: float
    evaluate: float


@dataclass(frozen=True)
class EndOfTraining:
    """How far the last tenth of a training still moved it: the most of all fits with a figure.

    Attributes:
        objective: the share of all that the objective gained; None where it is not known.
        metric: change of the metric that validation chooses by, up or down; None likewise.
        settled: whether the objective is within `MOST_OF_OBJECTIVE`, and the metric within
            `MOST_OF_METRIC` or what two validation samples can change, whichever is more.
    """

    objective: float | None
    metric: float | None
    settled: bool


MOST_OF_OBJECTIVE = 0.01
"""The share of its gain that the last tenth of a training that has settled may bring."""

MOST_OF_METRIC = 0.005
"""By how much it may change the validation metric, as a fraction."""


@dataclass(frozen=True)
class Outcome:
    """What came out of a finished cell; equal settings give equal outcomes.

    Attributes:
        data: sizes of the data and of its parts.
        chosen: what was chosen on validation: regularisation, loss parameters, stopping point.
        trainings: how many trainings the choice took.
        evaluation: the metrics.
        decoding: the rules.
        per_label: F1 by label.
        reliability: the calibration's bins.
        curves: training curves.
        end: how far training had settled; None in records that do not say.
        chosen_for: with `per_metric`, what was chosen by decoding and metric.
        first: with `per_metric` and a parameter of the loss to choose, the figures that its first
            value has alone, of the same fits: the loss without a choice.
    """

    data: DataFacts
    chosen: dict[str, Any]
    trainings: int
    evaluation: Evaluation
    decoding: Decoding
    per_label: PerLabel
    reliability: Reliability | None
    curves: tuple[Curve, ...]
    end: EndOfTraining | None = None
    chosen_for: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    first: Evaluation | None = None


@dataclass(frozen=True)
class Made:
    """How, where and when a cell was made."""

    started: str
    command: str
    threads: int
    versions: dict[str, str]
    machine: dict[str, str]


@dataclass(frozen=True)
class RunRecord:
    """One cell: settings, outcome (None where it failed, with the error), time, provenance."""

    schema: int
    status: Literal["done", "failed"]
    settings: CellSettings
    settings_hash: str
    outcome: Outcome | None
    error: str | None
    seconds: Seconds
    made: Made

    @property
    def done(self) -> Outcome:
        """The outcome of a cell that is known to have finished."""
        if self.outcome is None:
            raise ValueError(f"{self.settings.title()} failed: {self.error}")
        return self.outcome

    @property
    def redrawn(self) -> bool:
        """Whether the seed drew the samples of the parts, so that those of two seeds overlap.

        Of the data's own parts it does where `max_samples` leaves some of them out.
        """
        if self.settings.split != "published" or self.outcome is None:
            return self.settings.split != "published"
        data = self.outcome.data
        if data.drawn is not None:
            return data.drawn
        taken = data.train + data.validation + data.test
        return 0 < self.settings.max_samples <= taken


def record_schema() -> dict[str, Any]:
    """The JSON Schema of a run record."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "zlpr run record",
        **schema_of(RunRecord),
    }


def write_record(record: RunRecord, folder: Path) -> Path:
    """Write a record under its settings' file name; a reader sees all of it or nothing."""
    path = folder / record.settings.file_name()
    text = json.dumps(to_plain(_rounded(record)), ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")
    return path


def read_record(path: Path) -> RunRecord:
    """Read one record; a `UserError` names the file and the entry that does not fit."""
    if not path.is_file():  # a pipe of that name would be waited for
        raise UserError(f"{path}: not a run record, for it is no regular file")
    try:
        value = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
        if isinstance(value, dict) and value.get("schema") != SCHEMA:
            raise ValueError(f"schema: {value.get('schema')!r}, this version reads {SCHEMA}")
        return from_plain(RunRecord, value)
    except ValueError as fault:
        raise UserError(f"{path}: not a run record of this version: {fault}") from fault


def _refuse_constant(name: str) -> float:
    """JSON has no NaN and no infinity, which Python reads; a mean over one would tell nothing."""
    raise ValueError(f"{name} is no figure")


def read_records(folder: Path) -> tuple[list[RunRecord], list[str]]:
    """All records of a folder, and a line for each file that is none."""
    records, faults = [], []
    # A pattern would pass over a folder that cannot be read.
    for path in sorted(path for path in folder.iterdir() if path.suffix == ".json"):
        try:
            records.append(read_record(path))
        except UserError as fault:
            faults.append(str(fault))
    return records, faults


def same_result(a: RunRecord, b: RunRecord) -> bool:
    """Whether two records tell the same result, whenever and wherever they were made."""
    return (a.settings, a.status, a.outcome, a.error) == (b.settings, b.status, b.outcome, b.error)


def versions_of(records: Iterable[RunRecord]) -> dict[str, tuple[str, ...]]:
    """Each package that took part with all its versions, for the report's last section."""
    seen: dict[str, set[str]] = {}
    for record in records:
        for package, version in record.made.versions.items():
            seen.setdefault(package, set()).add(version)
    return {package: tuple(sorted(versions)) for package, versions in sorted(seen.items())}


def _rounded(record: RunRecord) -> RunRecord:
    """Times to the millisecond; results are kept as computed."""
    seconds = record.seconds
    rounded = [round(value, 3) for value in (seconds.prepare, seconds.fit, seconds.evaluate)]
    return replace(record, seconds=Seconds(*rounded))

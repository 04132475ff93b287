"""What a training run is told, and what it gives back."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from zlpr import decoding
from zlpr._errors import UserError
from zlpr.decoding import DECISION_METRICS
from zlpr.losses import available
from zlpr.metrics import METRICS
from zlpr.models.base import FittedModel
from zlpr.models.features import FeatureConfig

Preset = Literal["default", "paper"]
DECODE_NAMES = ("auto", *decoding.available())


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Everything that decides what a run computes; a field left at None takes its model's default.

    Attributes:
        model: "linear", or "hf:NAME_OR_PATH" for a transformers encoder.
        loss: a name of the losses' registry.
        loss_params: the loss's own parameters, such as `{"pos_weight": 2.7}`.
        seed: of initialisation, shuffling and dropout; the same seed gives the same bits.
        decode: the rule that turns scores into label sets. "auto" fits one threshold on
            validation (for losses that only rank, the number of labels); "zero" keeps the
            paper's bound; the other names are those of `zlpr.decoding`.
        decode_metric: what the fitted rule maximises on validation.
        metric: what validation chooses by (regularisation, checkpoint, early stopping). The
            default does not collapse while early models predict nothing.
        preset: "paper" sets the paper's optimiser and epochs and its loss parameters.
        regularisation: of the linear model, `r` in `sum of losses + r/2 |W|^2`;
            None chooses on validation.
        features: how the linear model reads text.
        learning_rate: of Adam.
        epochs: passes over the training data, for what trains in batches.
        batch_size: samples per optimiser step, over all processes and accumulation steps.
        max_length: tokens that a transformer reads of a text; None reads up to 512, or what the
            model can. Batches are padded to their own longest text, so short texts cost no more.
        accumulation_steps: forward passes per optimiser step.
        mixed_precision: "no", "fp16", "bf16", or "auto" for bf16 where the hardware is fast at it.
        patience: evaluations without improvement before stopping early; None never stops early.
        label_smoothing: mass moved from the hard targets, in [0, 1).
        r_drop: weight of the divergence between two dropout passes.
        vat: weight of the divergence under a virtual adversarial step on the embeddings.
        mixup: the Beta distribution's parameter; 0 is off.
        report_to: the Trainer's reporters, such as "tensorboard".
        process_timeout: seconds that one of several processes waits for the others before it
            gives up with an error.

    Examples:
        >>> TrainingConfig(loss="bce", regularisation=1.0).model
        'linear'
    """

    model: str = "linear"
    loss: str = "zlpr"
    loss_params: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    decode: str = "auto"
    decode_metric: str = "micro_f1"
    metric: str = "average_precision"
    preset: Preset = "default"
    regularisation: float | None = None
    features: FeatureConfig = field(default_factory=FeatureConfig)
    learning_rate: float | None = None
    epochs: int | None = None
    batch_size: int | None = None
    max_length: int | None = None
    accumulation_steps: int = 1
    mixed_precision: Literal["auto", "no", "fp16", "bf16"] = "auto"
    patience: int | None = None
    label_smoothing: float = 0.0
    r_drop: float = 0.0
    vat: float = 0.0
    mixup: float = 0.0
    report_to: tuple[str, ...] = ()
    process_timeout: float = 600.0

    def __post_init__(self) -> None:
        if self.model != "linear" and not self.model.startswith("hf:"):
            raise UserError(f"model {self.model!r}: expected 'linear' or 'hf:NAME_OR_PATH'")
        for name, allowed in (
            ("loss", available()),
            ("decode", DECODE_NAMES),
            ("metric", tuple(name for name, metric in METRICS.items() if metric.needs)),
            ("decode_metric", DECISION_METRICS),
            ("preset", get_args(Preset)),
        ):
            value = getattr(self, name)
            if value not in allowed:
                raise UserError(f"{name} {value!r}: expected one of {', '.join(allowed)}")
        for name in (
            "regularisation",
            "learning_rate",
            "epochs",
            "batch_size",
            "max_length",
            "accumulation_steps",
            "patience",
            "process_timeout",
        ):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UserError(f"{name} {value!r}: expected a number above 0")
        if not 0 <= self.label_smoothing < 1:
            raise UserError(
                f"label_smoothing {self.label_smoothing!r}: expected a number in [0, 1)"
            )
        for name in ("r_drop", "vat", "mixup"):
            if not getattr(self, name) >= 0:
                raise UserError(f"{name} {getattr(self, name)!r}: expected a number of at least 0")

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain JSON values."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Progress:
    """One line of a training history, also handed to the progress callback as it happens.

    Attributes:
        stage: what is being done, such as "regularisation 0.3" or "epoch".
        step: how far, counted from 1.
        total: of how many; 0 where that is not known.
        loss: the training objective.
        metric: the chosen metric on validation, where it was measured.
        seconds: since the run began.
    """

    stage: str
    step: int
    total: int
    loss: float
    metric: float | None = None
    seconds: float = 0.0


ProgressCallback = Callable[[Progress], None]


@dataclass(frozen=True)
class Trained:
    """What the trainer of one kind of model hands to `fit`; attributes as in `FitResult`."""

    model: FittedModel
    history: tuple[Progress, ...]
    chosen: Mapping[str, float]
    validation_scores: NDArray[np.float32]
    num_features: int


@dataclass(frozen=True)
class FitResult:
    """A fitted model and how it came to be.

    Attributes:
        model: ready to predict, with its `decoder` and `calibrator`.
        history: what happened, in order.
        chosen: what validation chose, such as {"regularisation": 0.3} or {"epoch": 4}.
        validation_scores: the model's scores of the validation samples, (samples, labels).
        num_features: columns of the linear model's features, or the encoder's width.
        seconds: of the whole fit, features, decoding and calibration included.
    """

    model: FittedModel
    history: tuple[Progress, ...]
    chosen: Mapping[str, float]
    validation_scores: NDArray[np.float32]
    num_features: int
    seconds: float

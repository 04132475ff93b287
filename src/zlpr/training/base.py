"""What the trainer of a kind of model can do, and what passes between it and `fit`."""

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from zlpr.training.automatic import FOR_MANY

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zlpr.data import Dataset
    from zlpr.decoding import Features
    from zlpr.metrics import TopScores
    from zlpr.models.base import FittedModel
    from zlpr.training.block_workers import BlockWorkers
    from zlpr.training.linear_features import ExtractedFeatures


@dataclass(frozen=True)
class TrainingProgress:
    """One line of a training history, also handed to the progress callback as it happens.

    Attributes:
        stage: what is being done, such as "regularisation 0.3" or "epoch".
        step: how far, counted from 1.
        total: of how many; 0 where that is not known.
        loss: the training objective; NaN where a kind has none to follow.
        metric: the chosen metric on validation, where it was measured.
        seconds: since the run began.
        last_tenth: at the end of a fit, how much of all that it gained came in its last tenth:
            near 0 where it was trained to the end; None where that is not known.
        metric_moved: by how much the metric changed, up or down, over that last tenth; None where
            nobody asked.
    """

    stage: str
    step: int
    total: int
    loss: float
    metric: float | None = None
    seconds: float = 0.0
    last_tenth: float | None = None
    metric_moved: float | None = None


ProgressCallback = Callable[[TrainingProgress], None]


class ReadInputs(Protocol):
    """The training and validation inputs as a kind reads them, shared by runs on the same parts."""

    def read(self, inputs: Any) -> Any:
        """Other inputs, as the fitted model's `score` takes them."""


@dataclass(frozen=True)
class Trained:
    """What a trainer hands to `fit`.

    Attributes:
        model: with its weights, not yet with a fitted decoder and calibrator.
        history: what happened, in order.
        chosen: what validation chose, such as {"regularisation": 0.3} or {"epoch": 4}.
        validation_scores: the model's scores of the validation samples, (samples, labels), or of
            their candidates.
        validation_features: of the same samples, as the model's `features` gives them.
        validation_labels: of the same samples, where these are others than the validation part.
        trainings: how many trainings the history is of, each from its start to its end. Where
            there is one, its lines are its epochs.
        num_features: columns of what the model makes of a sample, or its width.
    """

    model: "FittedModel"
    history: tuple[TrainingProgress, ...]
    chosen: Mapping[str, float]
    validation_scores: "NDArray[np.float32] | TopScores"
    num_features: int
    validation_features: "Features | None" = None
    validation_labels: Any = None
    trainings: int = 1


TriedCallback = Callable[[Trained], None]
"""Called with each fit from which validation picks, the history its own line alone."""


class ModelTrainer(abc.ABC):
    """Trains one kind of model; a class without state but for who computes.

    Args:
        workers: compute the blocks into which the training divides; None for this process.

    Attributes:
        packages: whose versions a run record names, beside those that every kind uses.
        on_accelerator: whether it trains on a graphics card where there is one.
        resumes: whether a killed run of a comparison is worth resuming from a checkpoint.
        scores_all_labels: whether its models score every label of a sample, and not candidates.
        chooses: whether it picks among the settings' `alternatives` itself, by a shorter way than
            to train each of them from the beginning.
        takes_less: what a user may do where texts would take too much memory.
        divides: whether its training divides into blocks for several workers.
    """

    packages: tuple[str, ...] = ()
    on_accelerator: bool = False
    resumes: bool = False
    scores_all_labels: bool = True
    chooses: bool = False
    takes_less: tuple[str, ...] = ("fewer features (max_features, --max-features)",)
    divides: bool = False

    def __init__(self, workers: "BlockWorkers | None" = None) -> None:
        self.workers = workers

    def faults(self, model: str) -> list[str]:
        """Why a model cannot be trained here, as far as that can be known before any data."""
        return []

    def advice(self, train: "Dataset", config: Any) -> list[str]:
        """What a user had better know before this kind is trained on these data, a line each."""
        return []

    def fingerprint(self, model: str) -> str:
        """Hash of the files that a model starts from; empty where its name says what it is."""
        return ""

    def for_many(self, model: str) -> str:
        """The model that takes its place where labels are too many for it."""
        return FOR_MANY

    @abc.abstractmethod
    def reading(self, config: Any) -> str:
        """What of the settings decides how inputs are read: equal texts may share them."""

    @abc.abstractmethod
    def read(self, train: "Dataset", validation: "Dataset", config: Any) -> ReadInputs:
        """The inputs of both parts, as the model reads them; learned on the training part alone."""

    def memory(self, train: "Dataset", config: Any, inputs: Any) -> int:
        """Bytes that training takes beside the inputs, by an estimate; 0 where nobody knows."""
        return 0

    def read_ahead(  # noqa: B027 (most kinds have nothing to read)
        self, train: "Dataset", config: Any, inputs: Any
    ) -> None:
        """Leave in the inputs what a training would, and trainings with other losses find there.

        A comparison asks for it, so that its first loss does not take longer than the others.
        """

    @abc.abstractmethod
    def train(
        self,
        train: "Dataset",
        validation: "Dataset",
        config: Any,
        inputs: Any,
        *,
        run: "Mapping[str, Any]",
        checkpoint: Path | None,
        progress: ProgressCallback | None,
        tried: TriedCallback | None = None,
    ) -> Trained:
        """Fit the weights.

        Args:
            train: what they are fitted to.
            validation: what regularisation and stopping are chosen on.
            config: the settings, of the kind's own class.
            inputs: from `read`, on the same parts.
            run: what decides the result, by which a checkpoint knows its run.
            checkpoint: folder where a killed run leaves its state; None keeps none.
            progress: called with each step as it happens.
            tried: called with each fit, by a kind that `chooses` and of which several are made;
                fits that a killed run left are not made again.
        """


class FeatureTrainer(ModelTrainer):
    """Trains a kind of model over features: TF-IDF of texts, or the data's own, scaled.

    Its settings have `features`, a `FeatureConfig`.
    """

    def reading(self, config: Any) -> str:
        """Features are learned from the texts by these settings alone."""
        return repr(config.features)

    def read(self, train: "Dataset", validation: "Dataset", config: Any) -> "ExtractedFeatures":
        """The features of both parts, learned on the training part."""
        from zlpr.training.linear_features import extract_features

        return extract_features(train, validation, config.features)

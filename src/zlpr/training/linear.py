"""The linear model's settings and its trainer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zlpr.models.feature_config import FeatureConfig
from zlpr.training.base import FeatureTrainer, ProgressCallback, Trained, TriedCallback
from zlpr.training.config import (
    TrainingConfig,
    check_above_zero,
    check_at_least_zero,
    check_share,
    regularisation_setting,
    setting,
)

if TYPE_CHECKING:
    from zlpr.data import Dataset
    from zlpr.training.linear_features import ExtractedFeatures


@dataclass(frozen=True, kw_only=True)
class LinearConfig(TrainingConfig):
    """Settings of the linear model.

    Attributes:
        regularisation: `r` in `sum of losses + r/2 |W|^2`; None chooses on validation.
        refit: whether the weights are fitted once more, on training and validation part together,
            after everything has been chosen on the latter.
        features: how text is read.
        learning_rate: of Adam, for losses that train in batches.
        epochs: passes over the training data, for losses that train in batches.
        batch_size: samples per step, for losses that train in batches.
        label_smoothing: mass moved from the hard targets, in [0, 1).
        mixup: the Beta distribution's parameter; 0 is off.
    """

    regularisation: float | None = regularisation_setting()
    refit: bool = setting(
        True, "train once more at the end, on training and validation data together"
    )
    features: FeatureConfig = field(default_factory=FeatureConfig)
    learning_rate: float | None = setting(
        None, "learning rate of the Adam optimiser", metavar="RATE"
    )
    epochs: int | None = setting(None, "passes over the training data", metavar="N")
    batch_size: int | None = setting(None, "samples per step, over all processes", metavar="N")
    label_smoothing: float = setting(
        0.0, "how much hard targets are softened, from 0 to below 1", metavar="MASS"
    )
    mixup: float = setting(
        0.0, "alpha of mixup's Beta distribution; 0 turns it off", metavar="ALPHA"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_above_zero(self, ("regularisation", "learning_rate", "epochs", "batch_size"))
        check_share(self, "label_smoothing")
        check_at_least_zero(self, ("mixup",))


class LinearTrainer(FeatureTrainer):
    """Fits one linear layer over features, at a regularisation that validation chooses."""

    chooses = True

    def memory(self, train: "Dataset", config: LinearConfig, inputs: "ExtractedFeatures") -> int:
        """Weights and past steps of all labels at once."""
        from zlpr.training.solvers import memory_of_fit

        return memory_of_fit(inputs.train, train.num_labels)

    def train(
        self,
        train: "Dataset",
        validation: "Dataset",
        config: LinearConfig,
        inputs: "ExtractedFeatures",
        *,
        run: Mapping[str, Any],
        checkpoint: Path | None = None,
        progress: ProgressCallback | None = None,
        tried: TriedCallback | None = None,
    ) -> Trained:
        """Fit the weights at one regularisation, or at the best that validation finds."""
        from zlpr.training.regularisation import train_linear

        return train_linear(
            train,
            validation,
            config,
            inputs,
            run=run,
            checkpoint=checkpoint,
            progress=progress,
            tried=tried,
        )

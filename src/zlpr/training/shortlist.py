"""The settings and the trainer of the model for many labels."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from zlpr._errors import UserError
from zlpr.models.feature_config import FeatureConfig
from zlpr.training.base import ModelTrainer, ProgressCallback, Trained, TriedCallback
from zlpr.training.config import (
    TrainingConfig,
    check_above_zero,
    regularisation_setting,
    setting,
)

if TYPE_CHECKING:
    from zlpr.data import Dataset
    from zlpr.training.linear_features import ExtractedFeatures

LabelTexts = Literal["auto", "yes", "no"]


@dataclass(frozen=True, kw_only=True)
class ShortlistConfig(TrainingConfig):
    """Settings of the model for many labels.

    Attributes:
        regularisation: `r` in `sum of losses + r/2 |W - prior|^2`; None chooses on validation.
        refit: whether the weights are fitted once more, on training and validation part together.
        features: how text is read.
        candidates: labels of a sample that are scored when it is predicted; None for ten times as
            many as the training samples have on average, and 50 at least.
        negatives: labels nearest to a training sample that the loss sets against its own, None for
            as many; fewer where there are so many samples that the kernel would grow too large.
        label_texts: whether a label's name is one more training text of that label; "auto" where
            the names are found to name their labels.
    """

    regularisation: float | None = regularisation_setting()
    refit: bool = setting(
        True, "train once more at the end, on training and validation data together"
    )
    features: FeatureConfig = field(default_factory=FeatureConfig)
    candidates: int | None = setting(
        None,
        "how many candidate labels of each sample are scored (default: ten times as many as "
        "samples have, and 50 at least)",
        metavar="N",
    )
    negatives: int | None = setting(
        None,
        "how many of the nearest other labels a training sample is contrasted with (default: as "
        "many as candidates by default)",
        metavar="N",
    )
    label_texts: LabelTexts = setting(
        "auto",
        "whether to train on the labels' names as texts, too; auto tries it on validation data",
    )

    def __post_init__(self) -> None:
        from zlpr.losses import registry

        super().__post_init__()
        check_above_zero(self, ("regularisation", "candidates", "negatives"))
        if self.label_texts not in get_args(LabelTexts):
            ways = ", ".join(get_args(LabelTexts))
            raise UserError(f"label_texts {self.label_texts!r}: expected one of {ways}")
        loss = registry.info(self.loss)
        if loss.over_batch or loss.needs_label_counts or not (loss.convex and loss.smooth):
            fitting = (
                name
                for name, info in ((name, registry.info(name)) for name in registry.available())
                if info.convex and info.smooth and not (info.over_batch or info.needs_label_counts)
            )
            raise UserError(
                f"model shortlist trains losses of one sample that are smooth and convex, which "
                f"{self.loss} is not; there are: {', '.join(fitting)}"
            )
        lists = [name for name, value in self.loss_params.items() if isinstance(value, list)]
        if lists or loss.is_random(self.loss_params):
            raise UserError(
                f"loss_params {', '.join(lists) or loss.sampled_by}: model shortlist takes "
                "numbers for all labels alike, and nothing drawn at random"
            )


class ShortlistTrainer(ModelTrainer):
    """Centroids of the labels, and weights of each over the samples that it is a candidate of."""

    scores_all_labels = False

    def reading(self, config: ShortlistConfig) -> str:
        """Features are learned from the texts by these settings alone."""
        return repr(config.features)

    def read(
        self, train: "Dataset", validation: "Dataset", config: ShortlistConfig
    ) -> "ExtractedFeatures":
        """TF-IDF of texts, or the data's own sparse features."""
        from zlpr.training.shortlist_fit import read_sparse

        return read_sparse(train, validation, config)

    def memory(self, train: "Dataset", config: ShortlistConfig, inputs: "ExtractedFeatures") -> int:
        """The kernel's features, the solver's vectors, and the weights."""
        from zlpr.training.shortlist_fit import memory_of_fit

        return memory_of_fit(train.labels, inputs.train, config)

    def train(
        self,
        train: "Dataset",
        validation: "Dataset",
        config: ShortlistConfig,
        inputs: "ExtractedFeatures",
        *,
        run: Mapping[str, Any],
        checkpoint: Path | None = None,
        progress: ProgressCallback | None = None,
        tried: TriedCallback | None = None,
    ) -> Trained:
        """Fit at one regularisation, or at the best that validation finds."""
        from zlpr.training.shortlist_fit import train_shortlist

        return train_shortlist(
            train, validation, config, inputs, run=run, checkpoint=checkpoint, progress=progress
        )

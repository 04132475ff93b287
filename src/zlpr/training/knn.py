"""ML-kNN: settings and trainer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zlpr._errors import UserError
from zlpr.models.feature_config import FeatureConfig
from zlpr.models.registry import NO_LOSS
from zlpr.training.base import FeatureTrainer, ProgressCallback, Trained, TriedCallback
from zlpr.training.config import TrainingConfig, check_above_zero, setting

if TYPE_CHECKING:
    from zlpr.data import Dataset
    from zlpr.training.linear_features import ExtractedFeatures


@dataclass(frozen=True, kw_only=True)
class NeighboursConfig(TrainingConfig):
    """Settings of ML-kNN.

    Attributes:
        neighbours: of a sample, by Euclidean distance.
        smoothing: samples that every count is thought to have had before any was seen.
        features: how text is read.
    """

    loss: str = NO_LOSS
    neighbours: int = setting(10, "how many nearest training samples are asked", metavar="K")
    smoothing: float = setting(1.0, "added to every count of samples", metavar="S")
    features: FeatureConfig = field(default_factory=FeatureConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_above_zero(self, ("neighbours", "smoothing"))


class NeighboursTrainer(FeatureTrainer):
    """Keeps the training samples and counts what their neighbours say."""

    def train(
        self,
        train: "Dataset",
        validation: "Dataset",
        config: NeighboursConfig,
        inputs: "ExtractedFeatures",
        *,
        run: Mapping[str, Any],
        checkpoint: Path | None = None,
        progress: ProgressCallback | None = None,
        tried: TriedCallback | None = None,
    ) -> Trained:
        """Count, over the training samples, how neighbours and labels go together."""
        import numpy as np
        from scipy import sparse

        from zlpr.models.base import TrainingRecord
        from zlpr.models.knn import (
            NeighboursModel,
            counts_of_neighbours,
            log_odds_by_count,
            nearest_samples,
        )

        number = config.neighbours
        if number >= len(train):
            raise UserError(f"neighbours {number}: there are {len(train)} training samples")
        labels: Any = sparse.csr_array(train.labels).astype(np.float32)
        nearest = nearest_samples(inputs.train, inputs.train, number, themselves=True)
        counts = counts_of_neighbours(nearest, labels)
        scaling = inputs.scaling
        model = NeighboursModel(
            train.label_names,
            inputs.train,
            labels,
            log_odds_by_count(counts, labels, number, config.smoothing),
            record=TrainingRecord(loss=config.loss),
            shift=None if scaling is None else scaling.shift,
            scale=None if scaling is None else scaling.scale,
            num_features=inputs.train.shape[1],
            text_features=inputs.text_features,
            means=inputs.means,
        )
        read = inputs.read(validation.inputs)
        return Trained(model, (), {}, model.score(read), inputs.train.shape[1], read)

"""The averaged perceptron for ranking labels (MMP): settings and trainer."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zlpr.models.feature_config import FeatureConfig
from zlpr.models.registry import NO_LOSS
from zlpr.training.base import FeatureTrainer, ProgressCallback, Trained, TriedCallback
from zlpr.training.config import TrainingConfig, check_above_zero, setting

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zlpr.data import Dataset
    from zlpr.training.linear_features import ExtractedFeatures

_log = logging.getLogger("zlpr.training")


@dataclass(frozen=True, kw_only=True)
class PerceptronConfig(TrainingConfig):
    """Settings of the averaged perceptron.

    Attributes:
        epochs: passes over the training data, of which validation picks the best end.
        features: how text is read.
    """

    loss: str = NO_LOSS
    epochs: int = setting(10, "passes over the training data", metavar="N")
    features: FeatureConfig = field(default_factory=FeatureConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_above_zero(self, ("epochs",))

    @property
    def scored_as(self) -> str:
        """Its scores rank labels, as those of the ranking loss do."""
        return "ranking"


class PerceptronTrainer(FeatureTrainer):
    """Moves the weights by each sample whose labels are not above all others."""

    def memory(
        self, train: "Dataset", config: PerceptronConfig, inputs: "ExtractedFeatures"
    ) -> int:
        """Weights, the sum of their moves and a mean in 64 bits, and the best in 32."""
        return (3 * 8 + 3 * 4) * int(inputs.train.shape[1]) * train.num_labels

    def train(
        self,
        train: "Dataset",
        validation: "Dataset",
        config: PerceptronConfig,
        inputs: "ExtractedFeatures",
        *,
        run: Mapping[str, Any],
        checkpoint: Path | None = None,
        progress: ProgressCallback | None = None,
        tried: TriedCallback | None = None,
    ) -> Trained:
        """Pass over the samples in random orders; keep the mean weights of the best epoch."""
        import time

        import numpy as np

        from zlpr.models.base import TrainingRecord
        from zlpr.models.perceptron import PerceptronModel
        from zlpr.training.base import TrainingProgress
        from zlpr.training.judging import ancestors_of
        from zlpr.training.selection import is_better, validation_metric

        ancestors = ancestors_of(train)
        started, best, history = time.perf_counter(), None, []
        perceptron = Perceptron(inputs.train, train.labels)
        for epoch in range(1, config.epochs + 1):
            wrong = perceptron.epoch(np.random.default_rng([config.seed, epoch]))
            weight, bias = perceptron.mean()
            scores = np.asarray(inputs.validation @ weight + bias, dtype=np.float32)
            metric = validation_metric(config, validation.labels, scores, ancestors)
            stage, seconds = f"epoch {epoch} of {config.epochs}", time.perf_counter() - started
            history.append(TrainingProgress(stage, epoch, config.epochs, wrong, metric, seconds))
            if progress is not None:
                progress(history[-1])
            if best is None or is_better(config.choice_metric, metric, best[0]):
                best = (metric, epoch, weight, bias, scores)
        assert best is not None  # noqa: S101 (there is an epoch)
        _, epoch, weight, bias, scores = best
        if not weight.any():
            _log.warning(
                "mmp: no training sample has a label that another one should stand below, so that "
                "the model has no weights and scores every sample alike"
            )
        if inputs.scaling is not None:
            weight, bias = inputs.scaling.undo(weight, bias)
        model = PerceptronModel(
            train.label_names,
            weight,
            bias,
            inputs.text_features,
            record=TrainingRecord(loss=config.loss),
            means=inputs.means,
        )
        return Trained(
            model,
            tuple(history),
            {"epoch": epoch},
            scores,
            inputs.train.shape[1],
            inputs.validation_as_given(validation.inputs),
        )


class Perceptron:
    """Weights of the uniform MMP of Crammer and Singer (2003), and their mean along the way.

    A sample moves the weights where a positive label is not above a negative one: of E such pairs,
    label i is in e_i, and `w_i += e_i / E x` where it is positive, `w_i -= e_i / E x` where not.

    Args:
        features: of shape (samples, features), dense or CSR.
        labels: of shape (samples, labels), CSR.
    """

    def __init__(self, features: Any, labels: Any) -> None:
        import numpy as np

        self.features, self.labels = features, labels
        shape = (features.shape[1], labels.shape[1])
        self.weight, self.bias = np.zeros(shape), np.zeros(shape[1])
        # The sum of the moves, each times the step it came at: the mean is weight - this / steps.
        self._late, self._late_bias = np.zeros(shape), np.zeros(shape[1])
        self.steps = 0

    def epoch(self, random: "np.random.Generator") -> float:
        """One pass in a random order; gives the share of samples that moved the weights."""
        moved = 0
        for row in random.permutation(self.labels.shape[0]):
            moved += self.step(int(row))
        return float(moved / max(self.labels.shape[0], 1))

    def step(self, row: int) -> bool:
        """One sample; whether it moved the weights."""
        import numpy as np

        columns, values = self._row(row)
        scores = values @ self.weight[columns] + self.bias
        first, last = self.labels.indptr[row : row + 2]
        truth = np.zeros(len(scores), dtype=bool)
        truth[self.labels.indices[first:last]] = True
        wrong = scores[truth][:, None] <= scores[~truth]
        self.steps += 1
        pairs = wrong.sum()
        if pairs == 0:
            return False
        move = np.zeros(len(scores))
        move[truth], move[~truth] = wrong.sum(axis=1) / pairs, -wrong.sum(axis=0) / pairs
        change = np.outer(values, move)
        self.weight[columns] += change
        self.bias += move
        self._late[columns] += (self.steps - 1) * change
        self._late_bias += (self.steps - 1) * move
        return True

    def mean(self) -> "tuple[NDArray[np.float32], NDArray[np.float32]]":
        """The mean of weights and biases after each step so far."""
        import numpy as np

        weight = self.weight - self._late / max(self.steps, 1)
        bias = self.bias - self._late_bias / max(self.steps, 1)
        return weight.astype(np.float32), bias.astype(np.float32)

    def _row(self, row: int) -> tuple[Any, Any]:
        """Which features a sample has, and their values."""
        from scipy import sparse

        features: Any = self.features
        if not sparse.issparse(self.features):
            return slice(None), features[row]
        first, last = features.indptr[row : row + 2]
        return features.indices[first:last], features.data[first:last]

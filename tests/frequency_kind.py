"""A kind of model as CONTRIBUTING's recipe adds one, in one file: every label's share, always.

It is not trained with a loss; its scores are log-odds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from zlpr.models import registry as kinds
from zlpr.models.base import FittedModel, TrainingRecord
from zlpr.training import registry as trainers
from zlpr.training.base import ModelTrainer, Trained
from zlpr.training.config import NO_LOSS, TrainingConfig, check_above_zero, setting


class FrequencyModel(FittedModel):
    kind = "zlpr_frequency"

    def __init__(self, label_names: Any, log_odds: Any, **shared: Any) -> None:
        super().__init__(label_names, **shared)
        self.log_odds = log_odds

    def read(self, inputs: Any) -> Any:
        return len(inputs)

    def score(self, read: Any) -> Any:
        return np.tile(self.log_odds, (read, 1)).astype(np.float32)

    def save_parts(self, folder: Path) -> dict[str, Any]:
        save_file({"log_odds": self.log_odds}, folder / "model.safetensors")
        return {"inputs": "texts"}

    @classmethod
    def load_parts(cls, folder: Path, config: Any, shared: Any) -> "FrequencyModel":
        return cls(log_odds=load_file(folder / "model.safetensors")["log_odds"], **shared)


@dataclass(frozen=True, kw_only=True)
class FrequencyConfig(TrainingConfig):
    loss: str = NO_LOSS
    prior: float = setting(1.0, "samples of either kind that every label is thought to have had")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_above_zero(self, ("prior",))


class Counted:
    def read(self, inputs: Any) -> int:
        return len(inputs)


class FrequencyTrainer(ModelTrainer):
    def reading(self, config: Any) -> str:
        return ""

    def read(self, train: Any, validation: Any, config: Any) -> Counted:
        return Counted()

    def train(
        self, train: Any, validation: Any, config: Any, inputs: Any, **run: Mapping[str, Any]
    ) -> Trained:
        counts = train.labels.toarray().sum(0) + config.prior
        log_odds = np.log(counts / (len(train) + 2 * config.prior - counts)).astype(np.float32)
        record = TrainingRecord(loss=config.loss)
        model = FrequencyModel(train.label_names, log_odds, record=record)
        return Trained(model, (), {}, model.score(len(validation)), 1)


def register(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its line in each of the two tables."""
    place = f"{__name__}:Frequency"
    kind = kinds.ModelKind(
        "frequency",
        "every label's share in training, whatever the sample",
        ("texts", "features"),
        ("text",),
        FrequencyModel.kind,
        f"{place}Model",
    )
    monkeypatch.setitem(kinds._KINDS, kind.name, kind)
    monkeypatch.setitem(trainers._CONFIGS, kind.name, f"{place}Config")
    monkeypatch.setitem(trainers._TRAINERS, kind.name, f"{place}Trainer")

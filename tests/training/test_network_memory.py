from pathlib import Path
from typing import Any

import pytest
from transformers import ViTConfig

from tests import tiny
from zlpr._errors import UserError
from zlpr.models.transformer import load_network
from zlpr.training import TrainingConfig, fit
from zlpr.training.fine_tuning import read_tokens
from zlpr.training.network_memory import count_parameters, memory_of_fine_tuning

TRAIN, VALIDATION = tiny.texts(40, seed=3), tiny.texts(10, seed=4)


def estimate(folder: Path, **settings: Any) -> int:
    config: Any = TrainingConfig(model=f"hf:{folder}", **settings)
    return memory_of_fine_tuning(5, config, read_tokens(TRAIN, VALIDATION, config))


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_parameters_are_counted_without_being_made(
    kind: str, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(kind)
    network = load_network(str(folder), num_labels=7, ignore_mismatched_sizes=True)
    counted = count_parameters(str(folder), 7)
    assert counted == sum(weight.numel() for weight in network.parameters())


def test_more_samples_and_passes_at_a_time_take_more(bert: Path) -> None:
    usual = estimate(bert, batch_size=8)
    assert estimate(bert, batch_size=16) > usual
    assert estimate(bert, batch_size=16, accumulation_steps=2) == usual
    assert estimate(bert, batch_size=8, r_drop=1.0) > usual
    assert estimate(bert, batch_size=8, max_length=4) < usual
    assert estimate(bert, batch_size=40) == estimate(bert, batch_size=400)  # there are 40


def test_the_fit_of_the_head_counts_where_it_takes_more_than_training(bert: Path) -> None:
    """A small encoder with many labels, of whose scores the fit holds those of all samples."""
    many = tiny.texts(3_000)
    config: Any = TrainingConfig(model=f"hf:{bert}", batch_size=8)
    taken = memory_of_fine_tuning(2_000, config, read_tokens(many, VALIDATION, config))
    assert taken > 4 * 2 * 3_000 * 2_000  # scores and their gradient
    random: Any = TrainingConfig(model=f"hf:{bert}", batch_size=8, preset="paper")
    assert memory_of_fine_tuning(2_000, random, read_tokens(many, VALIDATION, random)) < taken


def test_a_fine_tuning_that_would_not_fit_is_refused_before_it_starts(
    bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zlpr._memory.available_memory", lambda: 1_000)
    said = r"would take about .* take fewer tokens of each text \(max_length, --max-length\) or few"
    with pytest.raises(UserError, match=said):
        fit(TRAIN, VALIDATION, TrainingConfig(model=f"hf:{bert}"))


def test_an_encoder_that_reads_no_texts_is_refused_in_a_line(tmp_path: Path) -> None:
    ViTConfig().save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"model .*Unrecognized configuration class"):
        count_parameters(str(tmp_path), 7)

"""Fine-tuning by name: from texts to a model folder that transformers also reads."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import zlpr
from tests import tiny
from tests.training import worker
from zlpr.training import Progress, TrainingConfig, fit

TRAIN, VALIDATION, TEST = tiny.texts(240, seed=3), tiny.texts(60, seed=4), tiny.texts(40, seed=5)


def settings(folder: Path, **options: Any) -> dict[str, Any]:
    return {
        "model": f"hf:{folder}",
        "learning_rate": 0.01,
        "epochs": 2,
        "batch_size": 16,
        **options,
    }


@pytest.fixture(scope="module", params=["bert", "roberta"])
def fitted(request: pytest.FixtureRequest) -> Any:
    folder = request.getfixturevalue(request.param)
    lines: list[Progress] = []
    config = TrainingConfig(**settings(folder, epochs=8, learning_rate=0.02))
    return fit(TRAIN, VALIDATION, config, progress=lines.append), lines


def test_fine_tuning_learns_which_words_make_a_label(fitted: Any) -> None:
    result, _ = fitted
    targets = TEST.labels.toarray()
    shares = TRAIN.labels.toarray().mean(axis=0, keepdims=True).repeat(len(targets), axis=0)
    baseline = zlpr.metrics.average_precision(targets, shares)
    scores = result.model.predict_scores(TEST.inputs)
    assert zlpr.metrics.average_precision(targets, scores) > baseline + 0.1


def test_the_best_epoch_is_kept(fitted: Any) -> None:
    result, _ = fitted
    metrics = [line.metric for line in result.history]
    assert result.chosen["epoch"] == 1 + int(np.argmax(metrics))
    scores = result.model.predict_scores(VALIDATION.inputs)
    np.testing.assert_array_equal(scores, result.validation_scores)
    assert zlpr.metrics.average_precision(VALIDATION.labels, scores) == pytest.approx(max(metrics))


def test_progress_tells_of_steps_and_epochs(fitted: Any) -> None:
    result, lines = fitted
    steps = [line for line in lines if line.stage == "step"]
    epochs = [line for line in lines if line.stage == "epoch"]
    assert steps[-1].step == steps[-1].total == 8 * 15
    assert [line.step for line in epochs] == list(range(1, 9))
    assert [line.metric for line in epochs] == [line.metric for line in result.history]
    assert steps[-1].loss < steps[0].loss


def test_the_folder_gives_the_same_scores_in_plain_transformers(
    fitted: Any, tmp_path: Path
) -> None:
    result, _ = fitted
    result.model.save(tmp_path / "model")
    network = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    with torch.no_grad():
        inputs = tokenizer(list(TEST.inputs), padding=True, return_tensors="pt")
        scores = network(**inputs).logits.numpy()
    np.testing.assert_allclose(scores, result.model.predict_scores(TEST.inputs), atol=1e-5)
    assert network.config.id2label == dict(enumerate(tiny.LABELS))
    assert network.config.problem_type == "multi_label_classification"
    assert not list((tmp_path / "model").glob("*.bin"))


def test_the_folder_loads_in_another_process(fitted: Any, tmp_path: Path) -> None:
    result, _ = fitted
    result.model.save(tmp_path / "model")
    code = (
        "import json, sys, zlpr; model = zlpr.load(sys.argv[1]); texts = json.load(sys.stdin);"
        "print(json.dumps([model.predict_scores(texts).tolist(), model.predict(texts)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model")],
        input=json.dumps(list(TEST.inputs)),
        capture_output=True,
        text=True,
        check=True,
    )
    scores, labels = json.loads(done.stdout)
    np.testing.assert_array_equal(np.float32(scores), result.model.predict_scores(TEST.inputs))
    assert [tuple(row) for row in labels] == result.model.predict(TEST.inputs)


def test_the_same_seed_gives_the_same_bits_and_another_does_not(bert: Path) -> None:
    first, second = (worker.run(settings(bert)) for _ in range(2))
    assert first == second
    assert worker.run(settings(bert, seed=1)) != first


def test_a_run_leaves_the_callers_random_numbers_alone(bert: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    worker.run(settings(bert, epochs=1))
    assert torch.equal(torch.rand(3), expected)

"""Several processes train as one does, and outlive the death of any of them."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zlpr
from tests.processes import Command
from tests.training import worker

ROOT = Path(__file__).parents[2]


def settings(folder: Path, **options: Any) -> dict[str, Any]:
    base = {"model": f"hf:{folder}", "learning_rate": 0.01, "epochs": 2, "batch_size": 16}
    return {**base, **options}


def start(tmp_path: Path, runs: list[dict[str, Any]], **options: Any) -> list[Command]:
    """Two processes of one group that train, as torchrun would start them."""
    spec = {"runs": runs, "out": str(tmp_path / "out.json"), **options}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    return [
        Command(
            worker.carry_out,
            spec,
            log=tmp_path / f"process{rank}",
            environment={**group, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    ]


def train(tmp_path: Path, runs: list[dict[str, Any]], **options: Any) -> list[dict[str, Any]]:
    for process in start(tmp_path, runs, **options):
        assert process.wait() == 0, process.stderr
    results: list[dict[str, Any]] = json.loads((tmp_path / "out.json").read_text())
    return results


def assert_alike(result: dict[str, Any], expected: dict[str, Any]) -> None:
    assert result["losses"] == pytest.approx(expected["losses"], rel=1e-4)
    assert result["metrics"] == pytest.approx(expected["metrics"], rel=1e-3)
    assert result["epoch"] == expected["epoch"]
    np.testing.assert_allclose(result["scores"], expected["scores"], atol=2e-3)


def test_two_processes_train_as_one_with_the_same_batch(
    still_bert: Path, bert: Path, tmp_path: Path
) -> None:
    runs = [
        settings(still_bert, loss="zlpr"),
        settings(still_bert, loss="zlpr", loss_params={"learn_threshold": True}),
        settings(still_bert, loss="bce"),
        settings(still_bert, loss="dice2"),
        settings(still_bert, loss="dice2", accumulation_steps=2),
        settings(still_bert, loss="two_way"),
        settings(still_bert, loss="sigmoid_f1", metric="micro_f1"),
    ]
    extras = {"label_smoothing": 0.1, "mixup": 0.2, "r_drop": 1.0, "vat": 1.0}
    random = [
        settings(bert, loss=name, accumulation_steps=2, **extras) for name in ("zlpr", "dice2")
    ]
    results = train(tmp_path, runs + random)
    for run, result in zip(runs, results, strict=False):
        assert_alike(result, worker.run(run))
    for result in results[len(runs) :]:  # what is drawn at random differs: it has to run
        assert np.isfinite(result["losses"]).all()
        assert np.isfinite(result["scores"]).all()


def test_the_others_notice_a_dead_process_and_the_run_goes_on_from_its_checkpoint(
    still_bert: Path, tmp_path: Path
) -> None:
    run = settings(still_bert, loss="dice2", epochs=3, process_timeout=10)
    checkpoint = {"checkpoint": str(tmp_path / "state")}
    # Four steps an epoch: process 1 dies in the second, after one whole checkpoint.
    first, second = start(tmp_path, [run], die={"rank": 1, "step": 6}, **checkpoint)
    try:
        assert first.wait(120) != 0
        assert second.wait(60) == -signal.SIGKILL
    finally:
        first.process.kill()
        second.process.kill()
    assert "another process of this run died or did not answer for 10 s" in first.stderr
    assert not (tmp_path / "out.json").exists()
    (resumed,) = train(tmp_path, [run], **checkpoint)
    assert_alike(resumed, worker.run(run))


def test_the_command_writes_one_folder_and_prints_once(bert: Path, tmp_path: Path) -> None:
    lines = zip(worker.TRAIN.inputs, worker.TRAIN.label_sets(), strict=True)
    data, out = tmp_path / "data.jsonl", tmp_path / "model"
    data.write_text("".join(json.dumps({"text": t, "labels": s}) + "\n" for t, s in lines))
    options = ["--model", f"hf:{bert}", "--epochs", 1, "--report-to", "tensorboard"]
    group = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [sys.executable, *group, "-m", "zlpr", "train", data, *options, "--out", out]
    done = subprocess.run(
        list(map(str, command)), cwd=ROOT, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert said.count("epoch 1 of 1") == 1
    assert said.count("model written to") == 1
    assert zlpr.load(out).predict_scores(["the horse"]).shape == (1, 5)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.jsonl", "model", "model.runs"]

import pytest

from zlpr.cli import _training
from zlpr.cli._training import SILENCE, training_progress
from zlpr.training import TrainingProgress


@pytest.mark.parametrize("quiet", [False, True])
def test_a_log_hears_of_a_long_training_now_and_then(monkeypatch, capsys, quiet):
    now = [0.0]
    monkeypatch.setattr(_training.time, "monotonic", lambda: now[0])
    with training_progress("micro_f1", quiet=quiet) as progress:
        for step in range(1, 101):
            now[0] += SILENCE / 10
            progress(TrainingProgress("regularisation 1", step, 0, 2.5, seconds=now[0]))
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert len(lines) == (0 if quiet else 10)
    assert quiet or lines[0] == "  regularisation 1, step 10: loss 2.5000, 30.0 s"
    assert not captured.out


def test_a_quick_training_prints_its_validations_alone(capsys):
    with training_progress("micro_f1", quiet=False) as progress:
        progress(TrainingProgress("regularisation 1", 1, 0, 2.5, seconds=0.1))
        progress(TrainingProgress("regularisation 1", 1, 1, 2.5, 0.75, 0.1))
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "  regularisation 1, 1 step: loss 2.5000, validation Micro-F1 75.0 %, 0.1 s"
    ]
    assert not captured.err


def test_a_kind_without_a_loss_to_follow_tells_of_none(capsys):
    with training_progress("micro_f1", quiet=False) as progress:
        progress(TrainingProgress("regularisation 1", 1, 1, float("nan"), 0.75, 0.1))
    told = capsys.readouterr().out
    assert told == "  regularisation 1, validation Micro-F1 75.0 %, 0.1 s\n"

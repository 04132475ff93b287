"""A training run in a process of its own, for tests that spread it over processes or kill it."""

import json
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback
from transformers.trainer import DEFAULT_CALLBACKS

from tests import tiny
from zlpr.training import TrainingConfig, fit

TRAIN, VALIDATION = tiny.texts(61, seed=1), tiny.texts(23, seed=2)


def run(settings: dict[str, Any], checkpoint: Path | None = None, **options: Any) -> dict[str, Any]:
    """Fit to the tiny texts; what two equal runs have in common."""
    result = fit(TRAIN, VALIDATION, TrainingConfig(**settings), checkpoint=checkpoint, **options)
    return {
        "losses": [line.loss for line in result.history],
        "metrics": [line.metric for line in result.history],
        "epoch": result.chosen["epoch"],
        "scores": result.validation.scores.tolist(),
    }


def carry_out(spec: dict[str, Any]) -> None:
    """Do the runs of a specification.

    It has "runs", a list of `TrainingConfig` settings; "out", where to write what became of them;
    optionally "checkpoint", a folder; "die", {"rank", "step"}: which process kills itself, when;
    "full", {"step"}: from when on no file of more than 20 kB can be written.
    """
    rank = int(os.environ.get("RANK", "0"))
    checkpoint = Path(spec["checkpoint"]) if "checkpoint" in spec else None
    die = spec.get("die", {"rank": -1, "step": -1})
    if die["rank"] == rank:
        _at(die["step"], lambda: os.kill(os.getpid(), signal.SIGKILL))
    if "full" in spec:
        _at(spec["full"]["step"], _limit_files)
    results = [run(settings, checkpoint) for settings in spec["runs"]]
    if rank == 0:
        Path(spec["out"]).write_text(json.dumps(results))


def _at(step: int, act: Callable[[], None]) -> None:
    """Do something when the Trainer begins this optimiser step."""

    class Act(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == step:
                act()

    DEFAULT_CALLBACKS.append(Act)


def _limit_files() -> None:
    """Let writes fail beyond 20 kB, as they do on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))

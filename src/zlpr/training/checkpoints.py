"""Checkpoints of a run: sealed when whole, checked before a run resumes from them.

A run's folder holds `run.json`, which says what the run is, and transformers' `checkpoint-N`
folders. Each of those is sealed last, with the SHA-256 of its files: one that a kill, a full disk
or a fault of the disk left incomplete or altered is never resumed from, and the one before is.
"""

import json
import logging
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from zlpr import __version__
from zlpr._atomic import write_text
from zlpr._digest import file_digest
from zlpr._errors import UserError
from zlpr.training.config import TrainingConfig
from zlpr.training.parts import Parts

RUN, SEAL, STATE = "run.json", "seal.json", "trainer_state.json"
logger = logging.getLogger(__name__)


def claim(folder: Path, run: Mapping[str, Any]) -> None:
    """Make `folder` this run's own, or check that it already is.

    Args:
        folder: where the run's checkpoints go.
        run: what decides the run's result, as plain JSON.

    Raises:
        UserError: the folder holds something else, or the checkpoints of another run.
    """
    description = json.loads(json.dumps(run))
    there = run_of(folder)
    if there is not None:
        keys = sorted({*there, *description})
        other = [key for key in keys if there.get(key) != description.get(key)]
        if other:
            raise UserError(
                f"{folder}: holds checkpoints of another run (different: {', '.join(other)}); "
                "choose another folder or discard them (zlpr train --restart)"
            )
    write_text(folder / RUN, json.dumps(description, indent=2, ensure_ascii=False) + "\n")


def run_of(folder: Path) -> dict[str, Any] | None:
    """What the run is whose checkpoints a folder holds; None where it holds nothing yet.

    A run that was killed while it claimed the folder left the beginnings of `run.json` under
    another name. They are passed over and not removed: another process of the same run may be
    writing one of them.

    Raises:
        UserError: the folder holds something else, which is not ours to delete.
    """
    for place in (folder, candidate(folder, 0)):  # the first, where each value has a folder
        try:
            run = json.loads((place / RUN).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(run, dict):
            return run
    if folder.is_dir() and not all(p.match(f".{RUN}.*.part") for p in folder.iterdir()):
        raise UserError(
            f"{folder}: not empty, and no checkpoints of a run are in it; choose another folder "
            "(zlpr train: another --out)"
        )
    return None


def candidate(folder: Path, number: int) -> Path:
    """Where a run that trains anew for each value of a loss's parameter keeps one of them."""
    return folder / f"candidate-{number}"


def describe_run(parts: Parts, config: TrainingConfig) -> dict[str, Any]:
    """What decides the result of a run; reporting does not."""
    settings = {key: value for key, value in config.to_dict().items() if key != "report_to"}
    return {
        **settings,
        "zlpr": __version__,
        "torch": torch.__version__,
        "data": parts.digests,
        "split": parts.division,  # methods do not say which groups, or what a column says
    }


def seal(checkpoint: Path) -> None:
    """Say that a checkpoint is whole."""
    files = {
        path.name: file_digest(path) for path in sorted(checkpoint.iterdir()) if path.name != SEAL
    }
    write_text(checkpoint / SEAL, json.dumps(files, indent=2) + "\n")


def latest(folder: Path) -> Path | None:
    """The newest checkpoint that is whole, as is the best one it refers to; None without one."""
    for checkpoint in sorted(folder.glob("checkpoint-*"), key=_step, reverse=True):
        fault = fault_of(checkpoint) or fault_of(best(checkpoint))
        if fault is None:
            return checkpoint
        logger.warning("%s; going back to an earlier checkpoint", fault)
    return None


def remove_newer(folder: Path, checkpoint: Path | None) -> None:
    """Delete a run's checkpoints after the one it resumes from: they cannot be used."""
    for other in folder.glob("checkpoint-*"):
        if checkpoint is None or _step(other) > _step(checkpoint):
            shutil.rmtree(other)


def best(checkpoint: Path) -> Path:
    """The best checkpoint of a run by the time `checkpoint` was written."""
    try:
        step = _state(checkpoint)["best_global_step"]
    except (OSError, ValueError, KeyError):
        step = None
    return checkpoint if step is None else checkpoint.with_name(f"checkpoint-{step}")


def seconds(checkpoint: Path) -> float:
    """How long a run had taken when it wrote a checkpoint."""
    return float(_state(checkpoint)["log_history"][-1]["seconds"])


def is_final(checkpoint: Path) -> bool:
    """Whether the run had stopped early when it wrote this checkpoint."""
    state = _state(checkpoint)
    control = state["stateful_callbacks"].get("TrainerControl", {}).get("args", {})
    return bool(control.get("should_training_stop"))


def fault_of(checkpoint: Path) -> str | None:
    """What is wrong with a checkpoint, or None."""
    try:
        files = json.loads((checkpoint / SEAL).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return f"{checkpoint}: not completely written"
    except (OSError, ValueError) as error:
        return f"{checkpoint / SEAL}: unreadable ({error})"
    for name, expected in files.items():
        try:
            if file_digest(checkpoint / name) != expected:
                return f"{checkpoint / name}: altered since it was written"
        except OSError as error:
            return f"{checkpoint / name}: unreadable ({error.strerror})"
    return None


def _state(checkpoint: Path) -> Any:
    return json.loads((checkpoint / STATE).read_text(encoding="utf-8"))


def _step(checkpoint: Path) -> int:
    number = re.search(r"-(\d+)$", checkpoint.name)
    return int(number[1]) if number else -1

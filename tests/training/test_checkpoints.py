"""A run resumes from checkpoints that are whole, and only from its own."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from zlpr._errors import UserError
from zlpr.data import demo
from zlpr.training import Parts, TrainingConfig, TrainingProgress, checkpoints, divide
from zlpr.training.fitting import fit_parts
from zlpr.training.parts import combine


def write(folder: Path, step: int, best: int | None = None, stopped: bool = False) -> Path:
    checkpoint = folder / f"checkpoint-{step}"
    checkpoint.mkdir(parents=True)
    (checkpoint / "model.safetensors").write_bytes(b"weights")
    state = {
        "best_global_step": best,
        "stateful_callbacks": {"TrainerControl": {"args": {"should_training_stop": stopped}}},
    }
    (checkpoint / "trainer_state.json").write_text(json.dumps(state))
    checkpoints.seal(checkpoint)
    return checkpoint


def test_the_newest_whole_checkpoint_is_resumed_from(tmp_path: Path) -> None:
    assert checkpoints.latest(tmp_path) is None
    write(tmp_path, 5)
    newest = write(tmp_path, 10, best=5)
    assert checkpoints.latest(tmp_path) == newest


@pytest.mark.parametrize("fault", ["altered", "missing", "unsealed", "garbled seal"])
def test_a_checkpoint_with_a_fault_is_passed_over_and_named(
    tmp_path: Path, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    whole, broken = write(tmp_path, 5), write(tmp_path, 10)
    if fault == "altered":
        (broken / "model.safetensors").write_bytes(b"weightz")
    elif fault == "missing":
        (broken / "model.safetensors").unlink()
    elif fault == "unsealed":
        (broken / checkpoints.SEAL).unlink()
    else:
        (broken / checkpoints.SEAL).write_text("{")
    assert checkpoints.latest(tmp_path) == whole
    assert "checkpoint-10" in caplog.text
    checkpoints.remove_newer(tmp_path, whole)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-5"]


def test_a_checkpoint_whose_best_is_lost_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path, 10, best=5)
    assert checkpoints.latest(tmp_path) is None


def test_a_run_that_stopped_early_says_so(tmp_path: Path) -> None:
    assert not checkpoints.is_final(write(tmp_path, 5))
    assert checkpoints.is_final(write(tmp_path, 10, stopped=True))


def test_a_folder_belongs_to_one_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    checkpoints.claim(folder, {"loss": "zlpr", "seed": 0})
    checkpoints.claim(folder, {"loss": "zlpr", "seed": 0})
    with pytest.raises(UserError, match=r"checkpoints of another run \(different: loss\)"):
        checkpoints.claim(folder, {"loss": "bce", "seed": 0})


def test_a_users_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(UserError, match="not empty, and no checkpoints of a run are in it"):
        checkpoints.claim(tmp_path, {"seed": 0})
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("content", ["[1]", "{"])
def test_a_users_file_of_the_same_name_is_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(UserError, match=r"choose another folder \(zlpr train: another --out"):
        checkpoints.claim(tmp_path, {"seed": 0})
    assert (tmp_path / "run.json").read_text() == content


def test_a_folder_whose_claim_was_killed_can_be_claimed_again(tmp_path: Path) -> None:
    (tmp_path / ".run.json.abc.part").touch()
    assert checkpoints.run_of(tmp_path) is None
    checkpoints.claim(tmp_path, {"seed": 0})
    assert checkpoints.run_of(tmp_path) == {"seed": 0}


DATA = demo.make(120, 3)
SETTINGS = TrainingConfig(model="linear", regularisation=0.1, refit=False)


def by_group(size: int) -> Parts:
    return divide(replace(DATA, groups=[str(row // size) for row in range(120)]))


def by_column(first: str, second: str) -> Parts:
    return divide(replace(DATA, split=np.array([first, *["train"] * 8, second] * 12)))


def by_method(method: str) -> Parts:
    return combine(DATA, None, demo.make(20, 4), 0, method)


def stop(line: TrainingProgress) -> None:
    if line.metric is not None:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("make", "before", "now"),
    [
        (by_group, (4,), (7,)),
        (by_column, ("validation", "test"), ("test", "validation")),
        (by_method, ("stratified",), ("random",)),
    ],
)
def test_a_run_goes_on_only_with_its_data_divided_as_it_was(
    tmp_path: Path, make: Callable[..., Parts], before: tuple[object, ...], now: tuple[object, ...]
) -> None:
    """The data is the same to the last byte; what says how it is divided is not."""
    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        fit_parts(make(*before), SETTINGS, checkpoint=folder, progress=stop)
    with pytest.raises(UserError, match=r"checkpoints of another run \(different: split\)"):
        fit_parts(make(*now), SETTINGS, checkpoint=folder)
    resumed = fit_parts(make(*before), SETTINGS, checkpoint=folder)
    unbroken = fit_parts(make(*before), SETTINGS)
    assert resumed.figures == unbroken.figures


def test_a_run_that_did_not_say_how_its_data_was_divided_is_refused(tmp_path: Path) -> None:
    parts = divide(DATA)
    earlier = {**checkpoints.describe_run(parts, SETTINGS), "split": ["random", 0]}
    (tmp_path / checkpoints.RUN).write_text(json.dumps(earlier))
    with pytest.raises(UserError, match=r"\(different: split\); choose another folder or discard"):
        fit_parts(parts, SETTINGS, checkpoint=tmp_path)

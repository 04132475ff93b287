"""Slices of labels, and processes that go missing."""

import os
import signal
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.processes import start
from zlpr.distributed import ProcessLostError, sharded_zlpr_loss
from zlpr.distributed._slices import slice_of

TIMEOUT = 4.0


@given(num_labels=st.integers(0, 50), size=st.integers(1, 9))
@settings(max_examples=50)
def test_slices_are_those_of_torch_chunk(num_labels, size):
    labels = torch.arange(num_labels)
    chunks = [chunk.tolist() for chunk in labels.chunk(size)] if num_labels else []
    ours = [labels[slice_of(num_labels, size, rank)].tolist() for rank in range(size)]
    assert [part for part in ours if part] == [chunk for chunk in chunks if chunk]


def lose_a_process(how: str, report: str) -> None:
    """The last process goes after the first step; the others write down what they then see."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for step in range(2):
        if step == 1 and rank == size - 1:
            if how == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(3600)  # until it is killed: only the time-out can end the others' wait
        try:
            sharded_zlpr_loss(torch.zeros(2, 3), torch.tensor([[0], [4]]), first_label=3 * rank)
        except ProcessLostError as error:
            Path(report).write_text(f"{step} {error}")
            os._exit(0)


@pytest.mark.parametrize("how", ["killed", "silent"])
def test_a_lost_process_is_a_clear_error_and_no_endless_wait(how, tmp_path):
    report = tmp_path / "report"
    processes = start(lose_a_process, 2, tmp_path, TIMEOUT, how, str(report))
    processes[0].join(300)  # a group without our time-out would wait for half an hour
    processes[1].kill()
    processes[1].join()
    step, message = report.read_text().split(maxsplit=1)
    assert processes[0].exitcode == 0
    assert step == "1"
    assert "process 0 of 2" in message
    assert "another process died" in message
    assert "resume from the last checkpoint" in message

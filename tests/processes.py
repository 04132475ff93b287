"""Processes of their own for tests: groups of gloo processes, and commands that may be killed.

They are forked from a server that has loaded what is slow to load, so that a test pays for it once
and not with every process that it starts.
"""

import datetime
import multiprocessing
import os
import sys
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.processes", "tests.preloaded"])


def run(function: Callable[..., None], size: int, folder: Path, *arguments: Any) -> None:
    """Call `function(*arguments)` in `size` gloo processes; raise what any raises."""
    work = (function, size, folder / "store", 60.0, arguments)
    mp.start_processes(_work, work, nprocs=size, start_method="forkserver")


def start(
    function: Callable[..., None], size: int, folder: Path, timeout: float, *arguments: Any
) -> list[ForkServerProcess]:
    """Start the same without waiting, with the group's time-out in seconds."""
    work = (function, size, folder / "store", timeout, arguments)
    processes = [CONTEXT.Process(target=_work, args=(rank, *work)) for rank in range(size)]
    for process in processes:
        process.start()
    return processes


class Command:
    """A function of this project that runs as a command does: alone, with its output in files."""

    def __init__(
        self,
        function: Callable[..., object],
        *arguments: Any,
        log: Path,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.log = log
        what = (function, arguments, log, environment or {})
        self.process = CONTEXT.Process(target=_obey, args=what)
        self.process.start()

    def wait(self, seconds: float = 240.0) -> int:
        """Its exit code, negative for a signal; one that hangs is killed, and an error."""
        self.process.join(seconds)
        if self.process.exitcode is None:
            self.process.kill()
            raise TimeoutError(f"{self.log} does not end")
        return self.process.exitcode

    @property
    def stdout(self) -> str:
        return self.log.with_suffix(".out").read_text()

    @property
    def stderr(self) -> str:
        return self.log.with_suffix(".err").read_text()


def _obey(
    function: Callable[..., object],
    arguments: tuple[Any, ...],
    log: Path,
    environment: dict[str, str],
) -> None:
    for number, suffix in ((1, ".out"), (2, ".err")):
        os.dup2(os.open(log.with_suffix(suffix), os.O_CREAT | os.O_WRONLY | os.O_TRUNC), number)
    os.environ.update(environment)
    torch.set_num_threads(1)
    sys.exit(function(*arguments))  # type: ignore[arg-type]


def _work(
    rank: int,
    function: Callable[..., None],
    size: int,
    store: Path,
    timeout: float,
    arguments: tuple[Any, ...],
) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=timeout),
    )
    function(*arguments)
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # gloo's threads may abort an ordinary exit while others still close

"""Runs a function in several gloo processes on this machine."""

import datetime
import os
from collections.abc import Callable
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def run(function: Callable[..., None], size: int, folder: Path, *arguments: Any) -> None:
    """Call `function(*arguments)` in `size` processes of one group; raise what any raises."""
    mp.spawn(_work, (function, size, folder / "store", 60.0, arguments), nprocs=size)


def start(
    function: Callable[..., None], size: int, folder: Path, timeout: float, *arguments: Any
) -> list[SpawnProcess]:
    """Start the same without waiting, with the group's time-out in seconds."""
    context = mp.get_context("spawn")
    processes = [
        context.Process(
            target=_work, args=(rank, function, size, folder / "store", timeout, arguments)
        )
        for rank in range(size)
    ]
    for process in processes:
        process.start()
    return processes


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

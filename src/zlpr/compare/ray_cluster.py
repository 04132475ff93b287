"""Workers that are actors of a Ray cluster: how a comparison leaves one machine."""

import socket
from dataclasses import replace
from typing import Any

from zlpr._errors import UserError
from zlpr.compare.cell import Place, run_cell
from zlpr.compare.grid import Cell
from zlpr.compare.records import RunRecord
from zlpr.compare.version import code_version
from zlpr.data import Dataset, load


class RayWorkers:
    """One actor per slot, each with as many cores as the place has threads.

    The data is read here, once, and travels through Ray's object store, so that the machines of
    the cluster need the package but not the files.

    Args:
        address: of the cluster: "auto", "HOST:PORT", "ray://HOST:PORT", or "local" to start one
            on this machine.
        count: how many cells at a time; None takes what the cluster has cores for.
        place: handed to every cell; checkpoints are left out, for actors share no disk.
    """

    def __init__(self, address: str, count: int | None, place: Place) -> None:
        import ray

        self._ray: Any = ray
        self._place = replace(place, checkpoints=None)
        self._connect(address, count)
        cores = int(self._ray.cluster_resources().get("CPU", 1))
        self._count = count or max(1, cores // place.threads)
        if self._count * place.threads > cores:
            self.close()
            raise UserError(
                f"{self._count} workers of {place.threads} threads need more than the cluster's "
                f"{cores} cores; say fewer with --workers"
            )
        self._actors: dict[int, Any] = {}
        self._running: dict[Any, int] = {}
        self._data: dict[tuple[str, str], Any] = {}

    @property
    def count(self) -> int:
        """How many cells run at a time."""
        return self._count

    def start(self, slot: int, cell: Cell) -> None:
        """Send a cell, and a reference to its data, to the slot's actor."""
        if slot not in self._actors:
            self._actors[slot] = self._launch()
        key = (cell.path, str(cell.settings.reading))
        if key not in self._data:
            self._data[key] = self._ray.put(load(cell.path, **cell.settings.reading))
        self._running[self._actors[slot].run.remote(cell, self._data[key])] = slot

    def wait(self, seconds: float) -> list[tuple[int, RunRecord | str]]:
        """Collect what is ready; an actor that died gives the reason instead of a record."""
        ready, _ = self._ray.wait(list(self._running), timeout=seconds)
        ended: list[tuple[int, RunRecord | str]] = []
        for reference in ready:
            slot = self._running.pop(reference)
            try:
                ended.append((slot, self._ray.get(reference)))
            except self._ray.exceptions.RayError as fault:
                self._actors.pop(slot, None)
                ended.append((slot, f"its Ray worker died ({type(fault).__name__})"))
        return ended

    def close(self) -> None:
        """Leave the cluster; its actors of this comparison end with it."""
        self._ray.shutdown()

    def _connect(self, address: str, count: int | None) -> None:
        _check_reachable(address)
        local = address == "local"
        cores = (count or 1) * self._place.threads if local and count else None
        try:
            self._ray.init(
                address=address,
                num_cpus=cores,
                include_dashboard=False if local else None,
                log_to_driver=False,
                logging_level="error",
            )
        except (ConnectionError, OSError, ValueError, RuntimeError) as fault:
            reason = str(fault).strip().splitlines()[0]
            raise UserError(f"no Ray cluster at {address}: {reason}") from fault

    def _launch(self) -> Any:
        actor = self._ray.remote(num_cpus=self._place.threads)(_Actor).remote(self._place)
        version = self._ray.get(actor.version.remote())
        if version != code_version():
            raise UserError(f"the cluster has zlpr {version}, this is {code_version()}")
        return actor


def _check_reachable(address: str) -> None:
    """Ray waits for minutes where nobody answers; find out in seconds."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as fault:
        raise UserError(f"no Ray cluster at {address}: {fault.strerror or fault}") from fault


class _Actor:
    """Runs cells in a process of the cluster."""

    def __init__(self, place: Place) -> None:
        import torch

        torch.set_num_threads(place.threads)
        self._place = place

    def version(self) -> str:
        """The package's version there."""
        return code_version()

    def run(self, cell: Cell, dataset: Dataset) -> RunRecord:
        """Run one cell on data that came with it."""
        return run_cell(cell, self._place, dataset)

"""Workers that are actors of a Ray cluster: how a comparison leaves one machine."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr._ray_cluster import connect, reason_of
from zlpr.compare.cell import Place, run_cell
from zlpr.compare.grid import Cell
from zlpr.compare.records import RunRecord
from zlpr.compare.version import code_version
from zlpr.data import Dataset, load


@dataclass(frozen=True)
class Resources:
    """How many actors run at a time, and what each of them asks the cluster for."""

    count: int
    cores: int
    cards: int


def share_out(
    cluster: Mapping[str, float], count: int | None, threads: int, *, encoders: bool
) -> Resources:
    """Divide a cluster's cores, and where encoders are trained its graphics cards, among actors.

    Args:
        cluster: what Ray says it has, as in `{"CPU": 16.0, "GPU": 4.0}`.
        count: how many actors are asked for; None takes as many as fit.
        threads: cores per actor.
        encoders: whether transformers are trained, one card to an actor.

    Examples:
        >>> share_out({"CPU": 16.0, "GPU": 4.0}, None, 2, encoders=True)
        Resources(count=4, cores=2, cards=1)
        >>> share_out({"CPU": 16.0, "GPU": 4.0}, None, 2, encoders=False)
        Resources(count=8, cores=2, cards=0)
    """
    cores, cards = int(cluster.get("CPU", 1)), int(cluster.get("GPU", 0))
    by_card = encoders and cards > 0
    most = min(cores // threads, cards) if by_card else cores // threads
    wanted = count or max(1, most)
    if wanted * threads > cores:
        raise UserError(
            f"{counted(wanted, 'worker')} of {counted(threads, 'thread')} each: more than the "
            f"cluster's {counted(cores, 'core')}; say fewer with --workers"
        )
    if by_card and wanted > cards:
        raise UserError(
            f"{counted(wanted, 'worker')} that train encoders: more than the cluster's "
            f"{counted(cards, 'graphics card')}; say fewer with --workers"
        )
    return Resources(wanted, threads, int(by_card))


class RayWorkers:
    """One actor per slot, each with as many cores as the place has threads.

    Where encoders are trained and the cluster has graphics cards, each actor has one to itself.

    The data is read here, once, and travels through Ray's object store, so that the machines of
    the cluster need the package but not the files.

    Args:
        address: of the cluster: "auto", "HOST:PORT", "ray://HOST:PORT", or "local" to start one
            on this machine.
        count: how many cells at a time; None takes what the cluster has cores, or cards, for.
        place: handed to every cell; checkpoints are left out, for actors share no disk.
        encoders: whether any of the cells trains a transformer.
    """

    def __init__(
        self, address: str, count: int | None, place: Place, *, encoders: bool = False
    ) -> None:
        import ray

        self._ray: Any = ray
        self._place = replace(place, checkpoints=None)
        self._connect(address, count)
        try:
            self._resources = share_out(
                self._ray.cluster_resources(), count, place.threads, encoders=encoders
            )
        except UserError:
            self.close()
            raise
        self._actors: dict[int, Any] = {}
        self._running: dict[Any, int] = {}
        self._data: dict[tuple[str, str], Any] = {}

    @property
    def count(self) -> int:
        """How many cells run at a time."""
        return self._resources.count

    def start(self, slot: int, cell: Cell) -> None:
        """Send a cell, and a reference to its data, to the slot's actor."""
        if slot not in self._actors:
            self._actors[slot] = self._launch()
        key = (cell.path, str(cell.read))
        if key not in self._data:
            self._data[key] = self._ray.put(load(cell.path, **cell.read))
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
        connect(address, count * self._place.threads if count else None)

    def _launch(self) -> Any:
        own = self._resources
        kind = self._ray.remote(num_cpus=own.cores, num_gpus=own.cards)(_Actor)
        try:
            actor = kind.remote(self._place)
            version = self._ray.get(actor.version.remote())
        except self._ray.exceptions.RayError as fault:
            raise UserError(
                "a machine of the cluster cannot run zlpr; is it installed there, in version "
                f"{code_version()}? {reason_of(fault)}"
            ) from fault
        if version != code_version():
            raise UserError(f"the cluster has zlpr {version}, this is {code_version()}")
        return actor


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

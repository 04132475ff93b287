"""A comparison from its grid to its records: check everything, run what is missing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zlpr._errors import UserError
from zlpr.compare.cell import Place
from zlpr.compare.faults import check_data, find_faults
from zlpr.compare.folder import RunFolder
from zlpr.compare.grid import Cell, Grid, cells
from zlpr.compare.processes import ProcessWorkers, available_cores, end_unguarded_worker
from zlpr.compare.runner import ComparisonProgress, Workers, missing_cells, run_cells
from zlpr.training.registry import trainer_of


@dataclass(frozen=True)
class Plan:
    """A checked grid: all its cells, those that have no record yet, and notes on its data."""

    cells: tuple[Cell, ...]
    missing: tuple[Cell, ...]
    folder: RunFolder
    command: str
    notes: tuple[str, ...] = ()


def plan(grid: Grid, folder: RunFolder, command: str = "", *, overwrite: bool = False) -> Plan:
    """Check the whole grid and find what is left to do; nothing has run or been written yet.

    Args:
        grid: what to compare.
        folder: where records and report go.
        command: what asked for it.
        overwrite: put it in the place of a comparison on other data.

    Raises:
        UserError: that names every fault of the grid: unknown losses, parameters, metrics and
            settings, values that they do not take, files that are missing or cannot be read,
            models that cannot load or cannot read the data; or the folder holds a comparison on
            other data.
    """
    end_unguarded_worker()
    faults = find_faults(grid)
    everything = () if faults else tuple(cells(grid))
    if everything and not overwrite:
        folder.check_data([cell.settings for cell in everything])
    missing = tuple(missing_cells(everything, folder))
    needed = {cell.settings.data for cell in missing}
    entries = [entry for entry in grid.data if faults or entry.title in needed]
    checked = check_data(grid, entries)
    _raise_all([*faults, *checked.faults])
    return Plan(everything, missing, folder, command, checked.notes)


def carry_out(
    plan: Plan,
    *,
    workers: int | None = None,
    ray: str | None = None,
    watch: Callable[[ComparisonProgress], None] = lambda progress: None,
    seconds: float | None = None,
) -> ComparisonProgress:
    """Run the missing cells and leave a record of each.

    Args:
        plan: what to run.
        workers: how many cells at a time; None for one per core (or per graphics card, where
            encoders are trained on one).
        ray: address of a Ray cluster to run on, see `RayWorkers`; None for processes here.
        watch: called a few times per second, for a display.
        seconds: start no cell after this time.
    """
    with plan.folder.claimed():
        plan.folder.write_grid([cell.settings for cell in plan.cells], plan.command)
        if not plan.missing:
            return ComparisonProgress(plan.missing, 1)
        plan.folder.check_writable()
        place = Place(plan.command, 1, plan.folder.path / "checkpoints")
        chosen, place = _workers(plan, place, workers, ray)
        return run_cells(plan.missing, plan.folder, chosen, place, watch=watch, seconds=seconds)


def _workers(plan: Plan, place: Place, count: int | None, ray: str | None) -> tuple[Workers, Place]:
    if ray is not None:
        from zlpr.compare.ray_cluster import RayWorkers

        return RayWorkers(ray, count, place, encoders=_trains_encoders(plan)), place
    cores = available_cores()
    count = min(count or _default_count(plan, cores), len(plan.missing))
    place = Place(place.command, max(1, cores // count), place.checkpoints)
    return ProcessWorkers(count, place, plan.folder.path / "logs"), place


def _default_count(plan: Plan, cores: int) -> int:
    if not _trains_encoders(plan):
        return cores
    import torch

    return torch.cuda.device_count() or cores


def _trains_encoders(plan: Plan) -> bool:
    return any(trainer_of(cell.settings.model).on_accelerator for cell in plan.missing)


def _raise_all(faults: Sequence[str]) -> None:
    if len(faults) == 1:
        raise UserError(faults[0])
    if faults:
        numbered = (f"({number}) {fault}" for number, fault in enumerate(faults, 1))
        raise UserError(f"{len(faults)} faults in the grid: {'; '.join(numbered)}")

"""Workers that are actors of a Ray cluster: how training on many labels leaves one machine."""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from zlpr import __version__
from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr._ray_cluster import connect, told
from zlpr.training.block_workers import Block, Held


class RayBlockWorkers:
    """Actors of a core each, which get the data from here: they need the package but no files.

    Args:
        address: of the cluster: "auto", "HOST:PORT", "ray://HOST:PORT", or "local" to start one on
            this machine.
        count: how many; None takes one for every core of the cluster.

    Raises:
        UserError: there is no such cluster, it has too few cores, or another version of zlpr.

    Examples:
        >>> with RayBlockWorkers("auto") as workers:  # doctest: +SKIP
        ...     result = fit(train, validation, config, workers=workers)
    """

    def __init__(self, address: str, count: int | None = None) -> None:
        self.elsewhere = address != "local"
        self._ray = connect(address, count)
        try:
            cores = int(self._ray.cluster_resources().get("CPU", 0))
            self.count = count or max(cores, 1)
            if self.count > cores:
                raise UserError(
                    f"{counted(self.count, 'worker')} of one core each: more than the cluster's "
                    f"{counted(cores, 'core')}; say fewer with --workers"
                )
            kind = self._ray.remote(num_cpus=1)(_Actor)
            self._actors = [kind.remote() for _ in range(self.count)]
            self._check_version()
        except BaseException:
            self._ray.shutdown()
            raise

    def __enter__(self) -> "RayBlockWorkers":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the cluster; its actors of this training end with it."""
        self._ray.shutdown()

    def share(self, value: Any) -> Any:
        """A reference into Ray's object store, which each machine fetches once."""
        return self._ray.put(value)

    def run(self, function: Callable[..., Any], blocks: Sequence[Block]) -> list[Any]:
        """Call the function, on each actor with a block."""
        return self._all("run", [(function, *block) for block in blocks])

    def hold(self, make: Callable[..., Any], blocks: Sequence[Block]) -> Held:
        """Make an object on each actor."""
        self._all("hold", [(make, *block) for block in blocks])
        return lambda method, arguments: self._all("call", [(method, *own) for own in arguments])

    def _all(self, method: str, arguments: Sequence[Block]) -> list[Any]:
        """What the first actors answer, one for each of the arguments."""
        try:
            asked = [
                getattr(actor, method).remote(*own)
                for actor, own in zip(self._actors[: len(arguments)], arguments, strict=True)
            ]
            return list(self._ray.get(asked))
        except self._ray.exceptions.RayError as fault:
            raise UserError(
                f"{told(fault)}; a run with a checkpoint, as zlpr train has it, goes on from the "
                "last penalty that was solved"
            ) from fault

    def _check_version(self) -> None:
        try:
            versions = set(self._ray.get([actor.version.remote() for actor in self._actors]))
        except self._ray.exceptions.RayError as fault:
            raise UserError(
                f"a machine of the cluster cannot run zlpr; is it installed there, in version "
                f"{__version__}? {told(fault)}"
            ) from fault
        for other in versions - {__version__}:
            raise UserError(f"the cluster has zlpr {other}, this is {__version__}")


class _Actor:
    """Computes blocks in a process of the cluster."""

    def version(self) -> str:
        """The package's version there."""
        return __version__

    def run(self, function: Callable[..., Any], *block: Any) -> Any:
        """What the function makes of a block."""
        return function(*block)

    def hold(self, make: Callable[..., Any], *block: Any) -> None:
        """Keep what is made of a block, in place of what was kept before."""
        self._held: Any = None
        self._held = make(*block)

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of what is kept."""
        return getattr(self._held, method)(*arguments)

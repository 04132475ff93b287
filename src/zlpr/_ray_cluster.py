"""How the package finds a Ray cluster, and says so where there is none."""

import socket
from typing import Any

from zlpr._errors import UserError


def connect(address: str, cores: int | None = None) -> Any:
    """Join a cluster, or start one on this machine, and give the package `ray`.

    Args:
        address: "auto", "HOST:PORT", "ray://HOST:PORT", or "local" to start one here.
        cores: that one started here may use; None takes all.

    Raises:
        UserError: nobody answers there.
    """
    import ray

    cluster: Any = ray
    _check_reachable(address)
    local = address == "local"
    try:
        cluster.init(
            address=address,
            num_cpus=cores if local else None,
            include_dashboard=False if local else None,
            log_to_driver=False,
            logging_level="error",
        )
    except Exception as fault:  # a start that takes too long is nothing more special
        reason = (str(fault).strip().splitlines() or [type(fault).__name__])[0]
        raise UserError(f"no Ray cluster at {address}: {reason}") from fault
    return cluster


def _check_reachable(address: str) -> None:
    """Ray waits for minutes where nobody answers; find out in seconds."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as fault:
        raise UserError(f"no Ray cluster at {address}: {fault.strerror or fault}") from fault


def told(fault: Any) -> str:
    """A worker's own words where it said what was wrong, else the end of what Ray says."""
    cause = getattr(fault, "cause", None)
    while cause is not None and not isinstance(cause, UserError):
        cause = getattr(cause, "cause", None) or cause.__cause__
    return str(cause) if cause is not None else f"a Ray worker failed: {reason_of(fault)}"


def reason_of(fault: Exception) -> str:
    """The last line of what Ray says, which is the remote error itself."""
    lines = str(fault).strip().splitlines()
    return lines[-1].strip() if lines else type(fault).__name__

"""How much memory is free, so that what would not fit is refused with numbers."""

import os
from collections.abc import Iterator
from pathlib import Path

from zlpr._errors import UserError

SWITCH = "ZLPR_MEMORY_CHECK"
"""The environment variable that, set to "off", lets everything be tried."""

_GROUPS = Path("/sys/fs/cgroup")
_MEMINFO = Path("/proc/meminfo")
_OWN_GROUP = Path("/proc/self/cgroup")


def require_memory(what: str, needed: int, instead: str) -> None:
    """Refuse what would take more memory than is free.

    Args:
        what: takes it, for the message.
        needed: bytes, by an estimate.
        instead: what the user may do, for the message.

    Raises:
        UserError: it would not fit; nothing is raised where nobody knows how much is free.
    """
    free = available_memory()
    if free is None or needed <= free or os.environ.get(SWITCH) == "off":
        return
    raise UserError(
        f"{what} would take about {in_words(needed)} of memory, and {in_words(free)} are free; "
        f"{instead}; {SWITCH}=off tries it all the same"
    )


def in_words(size: int) -> str:
    """A size in the largest unit that leaves a number of at least 1.

    Examples:
        >>> in_words(3_600_000_000), in_words(41_000_000), in_words(12)
        ('3.6 GB', '41 MB', '12 bytes')
    """
    for unit, scale, places in (("TB", 1e12, 1), ("GB", 1e9, 1), ("MB", 1e6, 0)):
        if size >= scale:
            return f"{size / scale:,.{places}f} {unit}"
    return f"{size:,} bytes"


def available_memory() -> int | None:
    """Bytes that this process may still take: of the machine, and of its control group's limit.

    Returns:
        The bytes, or None where the system does not say.
    """
    known = [size for size in (_of_machine(), *_of_groups()) if size is not None]
    return min(known, default=None)


def _of_machine() -> int | None:
    """What Linux could give without swapping; elsewhere all of the machine's memory."""
    fields = dict(_fields(_MEMINFO))
    if "MemAvailable:" in fields:
        return 1024 * fields["MemAvailable:"]
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has none of these
        return None


def _of_groups() -> Iterator[int]:
    """What the limits of the control groups leave, as in a container; none where there are none."""
    joint, memory = _GROUPS, _GROUPS / "memory"
    for folder in _own_groups("", joint):
        yield from _left(folder, "memory.max", "memory.current")
    for folder in _own_groups("memory", memory):
        yield from _left(folder, "memory.limit_in_bytes", "memory.usage_in_bytes")


def _left(folder: Path, limit: str, used: str) -> Iterator[int]:
    """What one group's limit leaves; nothing where it has none."""
    try:
        most, taken = (int((folder / name).read_text()) for name in (limit, used))
    except (OSError, ValueError):  # "max" is no limit
        return
    # Files that the system only remembers are given up before anything else.
    fields = dict(_fields(folder / "memory.stat"))
    yield max(0, most - taken + fields.get("inactive_file", 0))


def _own_groups(controller: str, root: Path) -> list[Path]:
    """The folder of this process's group and those above it, whose limits hold for it as well.

    Args:
        controller: of one, or of all where the name is empty.
        root: where its groups are.
    """
    try:
        lines = [line.split(":", 2) for line in _OWN_GROUP.read_text().splitlines()]
    except OSError:
        return [root]
    own = next((parts[2] for parts in lines if parts[1:2] == [controller]), "")
    folder = root / own.strip("/")
    if not folder.is_dir():  # a container sees its own group as the root
        return [root]
    depth = len(folder.relative_to(root).parts)
    return [folder, *folder.parents[:depth]]


def _fields(path: Path) -> Iterator[tuple[str, int]]:
    """The numbers of a file that has a name and a number in each line."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return
    for words in map(str.split, lines):
        if len(words) > 1 and words[1].isdigit():
            yield words[0], int(words[1])

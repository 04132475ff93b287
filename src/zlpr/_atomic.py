"""Files and folders that are either whole or absent: write beside the target, then rename.

A folder is locked while it is written, so that two processes or threads do not write it at once.
"""

import contextlib
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from zlpr._errors import UserError

_STREAMS = frozenset(["/dev/stdout", "/dev/stderr"])
_DESCRIPTORS = frozenset([Path("/dev/fd"), Path("/proc/self/fd")])

_RANDOM = 8  # characters by which `tempfile` tells names apart

# Of this process, by the lock's path and the thread that has it, and how often each was taken.
_held: dict[tuple[Path, int], tuple[int, int]] = {}


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside `path`; rename it to `path` if the block succeeds.

    On any exception the temporary file is removed and `path` keeps its previous content. A link
    stays a link, to a new file. What is no ordinary file, such as a pipe or a device, is given
    itself: nothing can take its place.

    Raises:
        UserError: `path` is a folder.

    Examples:
        >>> with replacing("figures.json") as beside:  # doctest: +SKIP
        ...     beside.write_text("{}")
    """
    if is_special(path):
        with naming(Path(path)):
            yield Path(path)
        return
    target = behind_link(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with naming(target):
        if target.is_dir():
            raise UserError(f"{target}: a folder; choose another name to write to")
        handle, name = tempfile.mkstemp(
            dir=target.parent, prefix=f".{target.name}.", suffix=".part"
        )
        os.close(handle)
        beside = Path(name)
        try:
            yield beside
            with beside.open("rb") as written:
                os.fsync(written.fileno())
            umask = os.umask(0)
            os.umask(umask)
            beside.chmod(0o666 & ~umask)  # mkstemp makes private files; users expect ordinary ones
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)


def is_special(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a pipe, a device or a descriptor of a process: written to, not replaced."""
    target = Path(path)
    if str(target) in _STREAMS or target.parent in _DESCRIPTORS:  # perhaps of an ordinary file
        return True
    return target.exists() and not target.is_file() and not target.is_dir()


def behind_link(path: str | os.PathLike[str]) -> Path:
    """What a link leads to, there or not; any other path as it is."""
    return Path(os.path.realpath(path)) if Path(path).is_symlink() else Path(path)


@contextlib.contextmanager
def naming(target: Path) -> Iterator[None]:
    """Name the target in an error of the system that names no file, or what stands beside it."""
    try:
        yield
    except OSError as fault:
        parts = () if fault.filename is None else Path(os.fsdecode(fault.filename)).parts
        ours = [part.startswith(f".{target.name}.") and part.endswith(".part") for part in parts]
        if fault.errno is None or (parts and not any(ours)):
            raise
        within = parts[ours.index(True) + 1 :] if parts else ()
        raise OSError(fault.errno, fault.strerror, str(target.joinpath(*within))) from fault


def write_text(path: str | os.PathLike[str], text: str) -> None:
    r"""Write a text file in UTF-8, whole or not at all.

    Half of a surrogate pair, as in the name of a file in another encoding, is spelled ``\udce9``:
    what JSON calls it too, so that the name comes back.
    """
    with (
        replacing(path) as beside,
        open_text(beside, errors="backslashreplace", newline=None) as file,
    ):
        file.write(text)


def open_text(path: Path, *, errors: str = "strict", newline: str | None = "") -> TextIO:
    """Open what `replacing` gave, for text in UTF-8.

    A descriptor may be of an ordinary file, as in `--out /dev/stdout >> log`: it is added to, for
    to open it anew would empty the file.
    """
    if is_special(path):
        return path.open("a", encoding="utf-8", errors=errors, newline=newline)
    return path.open("w", encoding="utf-8", errors=errors, newline=newline)


@contextlib.contextmanager
def folder_beside(target: Path, *, patience: float = 30.0) -> Iterator[Path]:
    """Give an empty folder beside `target` to write into; what is left of it goes at the end.

    Nobody else writes to `target` meanwhile, and what a killed process left beside it is removed.

    Args:
        target: the folder that is to be written.
        patience: seconds to wait for another process that writes it.

    Raises:
        UserError: another process has it, or it is a mount point.
    """
    target = behind_link(target)
    check_not_mounted(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target, patience=patience), naming(target):
        remove_leftovers(target)
        name = tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
        beside = Path(name)
        try:
            yield beside
        finally:
            shutil.rmtree(beside, ignore_errors=True)


def check_not_mounted(target: Path) -> None:
    """Refuse a folder that none can take the place of, and files beside which are on another disk.

    Raises:
        UserError: it is a mount point.
    """
    if os.path.ismount(target):
        raise UserError(
            f"{target}: a disk is mounted there, which cannot be replaced; choose a folder within "
            f"it, such as {target / 'new'}"
        )


def remove_leftovers(target: Path) -> None:
    """Remove what killed processes left beside a file or folder, for who has it to himself.

    What stands between is as long as a random name, so that `model` leaves alone what is being
    written for `model.v2`.
    """
    target = behind_link(target)
    for leftover in target.parent.glob(f".{_escaped(target.name)}.{'?' * _RANDOM}.part"):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(target: Path, *, patience: float = 0.0) -> Iterator[None]:
    """Keep others from writing `target`; one thread may lock it several times.

    Args:
        target: a file or folder, there or not.
        patience: seconds to wait for another process, or another thread of this one.

    Raises:
        UserError: another process or thread has it.
    """
    target = behind_link(target)
    path = target.absolute().with_name(f".{target.name}.lock")
    key = path, threading.get_ident()
    handle, count = _held.get(key, (-1, 0))
    if count == 0:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = _lock(path, target, patience)
        except OSError as fault:  # of the lock, which is no name that a user gave
            raise OSError(fault.errno, fault.strerror, str(target)) from fault
    _held[key] = (handle, count + 1)
    try:
        yield
    finally:
        _held[key] = (handle, _held[key][1] - 1)
        if _held[key][1] == 0:
            del _held[key]
            path.unlink(missing_ok=True)  # while it is held: who waits sees that it is gone
            os.close(handle)


def _lock(path: Path, target: Path, patience: float) -> int:
    """An open descriptor of the lock file, which nobody else has locked."""
    import fcntl

    late = time.monotonic() + patience
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(path, handle):
                return handle
        except BlockingIOError:
            if time.monotonic() > late:
                os.close(handle)
                raise UserError(
                    f"{target}: another process is writing to it; wait for it, or choose another"
                ) from None
            time.sleep(0.1)
        os.close(handle)


def _is_still(path: Path, handle: int) -> bool:
    """Whether the file that was locked is the one by that name: its last owner removes it."""
    try:
        return path.stat().st_ino == os.fstat(handle).st_ino
    except FileNotFoundError:
        return False


def _escaped(name: str) -> str:
    """A name as a pattern that matches it alone."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)

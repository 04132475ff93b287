"""Find and open the files that a publisher gives: plain, compressed, or inside an archive."""

import contextlib
import fnmatch
import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, cast

from zlpr._errors import UserError
from zlpr.data.files import COMPRESSED_SUFFIXES, decompressed, file_faults

_TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")

Advance = Callable[[int], object]


@dataclass(frozen=True)
class RawFile:
    """One file of a publisher.

    Attributes:
        path: the file on disk; an archive where `member` is set.
        member: the file's name inside the archive, or "".
    """

    path: Path
    member: str = ""

    @property
    def name(self) -> str:
        """The file's own name, without folders and without `.gz`, `.bz2` or `.xz`."""
        name = PurePosixPath(self.member or self.path.name).name
        return name.removesuffix(_compression(name))

    def __str__(self) -> str:
        return f"{self.path}:{self.member}" if self.member else str(self.path)

    @contextlib.contextmanager
    def open(self, advance: Advance = lambda count: None) -> Iterator[IO[bytes]]:
        """Open for reading, decompressed; `advance` hears of the bytes read from disk."""
        with file_faults(self), contextlib.ExitStack() as stack:
            disk = stack.enter_context(self.path.open("rb"))
            watched = stack.enter_context(io.BufferedReader(_Watched(disk, advance), 1 << 16))
            yield decompressed(self._unpacked(watched, stack))

    def _unpacked(self, disk: IO[bytes], stack: contextlib.ExitStack) -> IO[bytes]:
        if not self.member:
            return disk
        if zipfile.is_zipfile(self.path):
            archive = stack.enter_context(zipfile.ZipFile(disk))
            try:
                return archive.open(self.member)
            except (RuntimeError, NotImplementedError) as wrong:  # a password, or a compression
                raise UserError(f"{self}: cannot be unpacked: {wrong}") from None
        tar = stack.enter_context(tarfile.open(fileobj=disk))  # noqa: SIM115
        return cast("IO[bytes]", tar.extractfile(self.member))


class _Watched(io.RawIOBase):
    """A file that tells how far it has been read."""

    def __init__(self, disk: IO[bytes], advance: Advance) -> None:
        self._disk, self._advance = disk, advance

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._disk.seek(offset, whence)

    def tell(self) -> int:
        return self._disk.tell()

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self._disk.read(len(buffer))
        buffer[: len(data)] = data
        self._advance(len(data))
        return len(data)


def find(raw: Path, *patterns: str, expects: str) -> list[RawFile]:
    """The files in a folder (or one file, or an archive) that match the first pattern to match any.

    Args:
        raw: a folder, searched with its subfolders, or a file.
        patterns: names such as "train.csv" or "*.xml", without the ending of a compression.
        expects: what to tell the user where nothing matches.

    Returns:
        The files in the order of their names, never the same name twice: an unpacked file goes
        before its archive.
    """
    files = sorted(_list(raw), key=lambda file: (file.name, bool(file.member)))
    if files == [RawFile(raw)] and any("*" in pattern for pattern in patterns):
        return files  # one file where any name will do: the user chose it
    for pattern in patterns:
        hits = [file for file in files if fnmatch.fnmatch(file.name.lower(), pattern.lower())]
        if hits:
            return _without_archived_twins(hits)
    raise UserError(f"{raw}: nothing to read here; expected {expects}")


def find_one(raw: Path, *patterns: str, expects: str) -> RawFile:
    """As `find`, where one file is wanted; several to choose from are refused."""
    files = find(raw, *patterns, expects=expects)
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise UserError(f"{raw}: cannot choose among {names}; expected {expects}")
    return files[0]


def _list(raw: Path) -> Iterator[RawFile]:
    if not raw.exists():
        raise UserError(f"{raw}: no such file or folder")
    for path in [raw] if raw.is_file() else sorted(raw.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            yield from (RawFile(path, member) for member in _members(path))


def _members(path: Path) -> list[str]:
    """The files in an archive; [""] for a file that is no archive."""
    name = path.name.lower()
    with file_faults(path):
        if name.endswith(".zip"):
            with zipfile.ZipFile(path) as archive:
                names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
        elif name.endswith(_TAR_SUFFIXES):
            with tarfile.open(path) as tar:
                names = [entry.name for entry in tar if entry.isfile()]
        else:
            return [""]
    return [member for member in names if not PurePosixPath(member).name.startswith(".")]


def _without_archived_twins(files: list[RawFile]) -> list[RawFile]:
    kept: dict[str, RawFile] = {}
    for file in files:
        other = kept.setdefault(file.name, file)
        if other is not file and not file.member:
            raise UserError(f"{other} and {file} have the same name; give the path of one of them")
    return list(kept.values())


def _compression(name: str) -> str:
    suffix = PurePosixPath(name).suffix.lower()
    return suffix if suffix in COMPRESSED_SUFFIXES else ""

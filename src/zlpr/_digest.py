"""The SHA-256 of files and folders: what tells whether they are still the same."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path


def file_digest(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def tree_digest(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file, or of all files of a folder with their names, behind links too.

    Examples:
        >>> tree_digest("reviews") == tree_digest("copy of reviews")  # doctest: +SKIP
        True
    """
    root = Path(path)
    return files_digest(root, _files_below(root) if root.is_dir() else [root])


def _files_below(root: Path) -> Iterator[Path]:
    """All files of a folder; a folder that several links lead to is entered once."""
    entered: set[Path] = set()
    for folder, inner, names in os.walk(root, followlinks=True):
        inner.sort()
        if (place := Path(folder).resolve()) in entered:
            inner.clear()
            continue
        entered.add(place)
        yield from (path for name in names if (path := Path(folder, name)).is_file())


def files_digest(root: Path, files: Iterable[Path]) -> str:
    """The SHA-256 of some files of a folder with their names, whatever their order."""
    whole = hashlib.sha256()
    for file in sorted(files):
        whole.update(os.fsencode(file.relative_to(root)) + b"\0")
        whole.update(bytes.fromhex(file_digest(file)))
    return whole.hexdigest()

"""The SHA-256 of files and folders: what tells whether they are still the same."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path


def file_digest(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def tree_digest(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file, or of all files of a folder with their names.

    Examples:
        >>> tree_digest("reviews") == tree_digest("copy of reviews")  # doctest: +SKIP
        True
    """
    root = Path(path)
    files = (p for p in root.rglob("*") if p.is_file()) if root.is_dir() else [root]
    return files_digest(root, files)


def files_digest(root: Path, files: Iterable[Path]) -> str:
    """The SHA-256 of some files of a folder with their names, whatever their order."""
    whole = hashlib.sha256()
    for file in sorted(files):
        whole.update(os.fsencode(file.relative_to(root)) + b"\0")
        whole.update(bytes.fromhex(file_digest(file)))
    return whole.hexdigest()

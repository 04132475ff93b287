"""Embeddings on the disk, by encoder and text, so that none is computed twice.

An encoder has a folder of its own, named by the fingerprint of its files and by how much of a text
it reads. A file in it holds the keys of some texts (a hash of each) and their vectors, and never
changes: it is written beside its place and renamed, so that a killed process leaves nothing
half-written. While a process computes, others that want the same encoder's vectors wait and then
find them here. Above a limit the files that have not been used for longest are removed.
"""

import contextlib
import hashlib
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zlpr._atomic import locked, replacing, write_text
from zlpr._errors import UserError
from zlpr.models.embedding_progress import heard
from zlpr.models.encoder import Encoder

FOLDER, LIMIT = "ZLPR_CACHE", "ZLPR_CACHE_GB"
"""Variables of the environment: where caches are, and how large all embeddings may become."""
DEFAULT_GIGABYTES = 4.0
FEWEST = 128
"""Fewer new texts are not worth a file."""
SECONDS_BETWEEN_FILES = 20.0
"""What a kill may cost."""

_KEY_BYTES = 16
_NOTE = "encoder.json"
_OLD = 3600.0  # seconds after which what a killed process left is nobody's
_log = logging.getLogger("zlpr.models")


def cache_folder() -> Path:
    """Where embeddings are kept: `$ZLPR_CACHE`, or zlpr's place among the user's caches."""
    given = os.environ.get(FOLDER)
    if given:
        return Path(given).expanduser() / "embeddings"
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(home).expanduser() / "zlpr" / "embeddings"


def size_limit() -> int:
    """Bytes that all embeddings together may take; 0 keeps none.

    Raises:
        UserError: the environment says something else than a number.
    """
    given = os.environ.get(LIMIT)
    try:
        gigabytes = DEFAULT_GIGABYTES if given is None else float(given)
        if not 0 <= gigabytes < 1e9:
            raise ValueError
    except ValueError:
        raise UserError(f"{LIMIT}={given!r}: expected a number of at least 0") from None
    return int(gigabytes * 1e9)


def embed(encoder: Encoder, texts: Sequence[str]) -> NDArray[np.float32]:
    """Vectors of shape (texts, width), from the cache where it has them.

    Equal texts are embedded once. New vectors are kept from `FEWEST` on, as long as there is room.
    """
    keys = [_key(text) for text in texts]
    place = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    distinct = dict(zip(keys, texts, strict=True))
    vectors = np.empty((len(place), encoder.width), dtype=np.float32)
    missing = _Shelf.of(encoder).fill(vectors, place)
    if missing:
        _compute(encoder, vectors, {key: place[key] for key in missing}, distinct)
    return vectors[[place[key] for key in keys]]


def _compute(
    encoder: Encoder,
    vectors: NDArray[np.float32],
    place: dict[bytes, int],
    texts: dict[bytes, str],
) -> None:
    """Embed what is missing, unless another process is at it and leaves it in the cache."""
    shelf = _Shelf.of(encoder)
    if len(place) < FEWEST or not shelf.is_usable():
        _embed_missing(encoder, vectors, place, texts, None)
        return
    with _alone(shelf.folder):
        missing = shelf.fill(vectors, place)
        _embed_missing(encoder, vectors, {key: place[key] for key in missing}, texts, shelf)


def _embed_missing(
    encoder: Encoder,
    vectors: NDArray[np.float32],
    place: dict[bytes, int],
    texts: dict[bytes, str],
    shelf: "_Shelf | None",
) -> None:
    """Embed texts into their rows, and put them on the shelf now and then."""
    keys = list(place)
    rows = np.fromiter(place.values(), dtype=np.int64, count=len(place))
    unsaved: list[int] = []
    saved, done, tell = time.monotonic(), 0, heard()

    def keep(batch: NDArray[np.int64], found: NDArray[np.float32]) -> None:
        nonlocal saved, done
        vectors[rows[batch]] = found
        unsaved.extend(batch.tolist())
        done += len(batch)
        if tell is not None:
            tell(done, len(keys))
        late = time.monotonic() - saved > SECONDS_BETWEEN_FILES and len(unsaved) >= FEWEST
        if shelf is not None and (late or done == len(keys)):
            shelf.put([keys[number] for number in unsaved], vectors[rows[unsaved]])
            unsaved.clear()
            saved = time.monotonic()

    encoder.embed([texts[key] for key in keys], keep)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait for another process that embeds with the same encoder; its work may be ours."""
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(locked(folder, patience=60.0))
                break
            except UserError:
                _log.info("waiting for another process that embeds into %s", folder)
        yield


class _Shelf:
    """The embeddings of one encoder in the cache."""

    def __init__(self, folder: Path, encoder: Encoder) -> None:
        self.folder, self.encoder = folder, encoder

    @classmethod
    def of(cls, encoder: Encoder) -> "_Shelf":
        """Where the vectors of an encoder are, of whatever name it goes by."""
        name = f"{encoder.fingerprint[:32]}-{encoder.max_length}"
        return cls(cache_folder() / name, encoder)

    def is_usable(self) -> bool:
        """Whether anything can be kept; made if need be, with a note on whose vectors they are."""
        if not size_limit():
            return False
        try:
            if not (self.folder / _NOTE).is_file():
                note = {"name": self.encoder.name, "max_length": self.encoder.max_length}
                write_text(self.folder / _NOTE, json.dumps(note) + "\n")
            return os.access(self.folder, os.W_OK)
        except OSError as fault:
            _log.warning("embeddings are not kept: %s", fault)
            return False

    def fill(self, vectors: NDArray[np.float32], place: dict[bytes, int]) -> list[bytes]:
        """Put the vectors that are here into their rows; gives the keys of those that are not."""
        missing = dict.fromkeys(place)
        for file in _files(self.folder):
            if not missing:
                break
            held = _read(file, vectors.shape[1])
            if held is None:
                continue
            keys, found = held
            pairs = [(place[key], row) for row, key in enumerate(keys) if key in missing]
            if pairs:
                rows, sources = map(list, zip(*pairs, strict=True))
                vectors[rows] = found[sources]
                for row in sources:
                    del missing[keys[row]]
                with contextlib.suppress(OSError):  # somebody else's, or just removed
                    os.utime(file)
        return list(missing)

    def put(self, keys: Sequence[bytes], vectors: NDArray[np.float32]) -> None:
        """Write a file of vectors, whole or not at all, and make room for it."""
        from safetensors.numpy import save

        joined = b"".join(keys)
        tensors: dict[str, NDArray[Any]] = {
            "keys": np.frombuffer(joined, dtype=np.uint8).reshape(-1, _KEY_BYTES),
            "embeddings": np.ascontiguousarray(vectors),
        }
        try:
            with replacing(self.folder / f"{_content_name(tensors)}.safetensors") as beside:
                beside.write_bytes(save(tensors))
            shrink(size_limit())
        except OSError as fault:  # as on a full disk: what was computed is still good
            _log.warning("embeddings are not kept: %s", fault)


def _key(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(raw, digest_size=_KEY_BYTES).digest()


def _content_name(tensors: Mapping[str, NDArray[Any]]) -> str:
    """What a file is called: a digest of what it holds, by which damage is seen."""
    digest = hashlib.blake2b(digest_size=_KEY_BYTES)
    for name in ("keys", "embeddings"):
        digest.update(tensors[name].tobytes())
    return digest.hexdigest()


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


def _read(file: Path, width: int) -> tuple[list[bytes], NDArray[np.float32]] | None:
    """Keys and vectors of a file; None, and the file is removed, where it is damaged."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        tensors = load_file(file)
        keys, vectors = tensors["keys"], tensors["embeddings"]
        fits = keys.shape == (len(vectors), _KEY_BYTES) and vectors.shape == (len(vectors), width)
        if not fits or vectors.dtype != np.float32 or file.stem != _content_name(tensors):
            raise ValueError(f"{file}: holds something else than embeddings")
    except FileNotFoundError:  # another process made room meanwhile
        return None
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as fault:
        _log.warning("%s is damaged and removed from the cache: %s", file, fault)
        with contextlib.suppress(OSError):  # somebody else's, or a folder
            file.unlink()
        return None
    joined = keys.tobytes()
    return [joined[i : i + _KEY_BYTES] for i in range(0, len(joined), _KEY_BYTES)], vectors


@dataclass(frozen=True)
class CachedEncoder:
    """What the cache holds of one encoder.

    Attributes:
        folder: where.
        name: of the encoder, when it was first used.
        max_length: tokens read of a text.
        num_bytes: on the disk.
        last_used: seconds since 1970.
    """

    folder: Path
    name: str
    max_length: int
    num_bytes: int
    last_used: float


def contents() -> list[CachedEncoder]:
    """What the cache holds, what was used last first."""
    found = []
    for note in cache_folder().glob(f"*/{_NOTE}"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            said = json.loads(note.read_text(encoding="utf-8"))
            states = [file.stat() for file in _files(note.parent)]
            used = max((state.st_mtime for state in states), default=note.stat().st_mtime)
            size = sum(state.st_size for state in states)
            found.append(
                CachedEncoder(note.parent, str(said["name"]), int(said["max_length"]), size, used)
            )
    return sorted(found, key=lambda entry: -entry.last_used)


def shrink(limit: int) -> None:
    """Remove the files that were used longest ago until all take at most so many bytes.

    What killed processes left half-written goes too.
    """
    root = cache_folder()
    for left in root.glob("*/.*.part"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _OLD:
                left.unlink()
    states = []
    for file in root.glob("*/*.safetensors"):
        with contextlib.suppress(OSError):
            state = file.stat()
            states.append((state.st_mtime, state.st_size, file))
    total = sum(size for _, size, _ in states)
    for _, size, file in sorted(states):
        if total <= limit:
            break
        file.unlink(missing_ok=True)
        total -= size


def clear() -> int:
    """Remove all cached embeddings; gives the bytes that this freed.

    What is not the cache's own stays where it is.
    """
    held = contents()
    freed = sum(entry.num_bytes for entry in held)
    for entry in held:
        for file in (*_files(entry.folder), *entry.folder.glob(".*.part"), entry.folder / _NOTE):
            file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not empty, or a link
            entry.folder.rmdir()
    return freed

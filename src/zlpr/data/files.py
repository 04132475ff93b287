"""From bytes on disk to numbered lines of text: compression, encoding, limits."""

import bz2
import codecs
import csv
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from zlpr._errors import UserError

MAX_LINE = 32 * 1024 * 1024
"""The longest line that is read, in characters: a limit for files from strangers."""

_CHUNK = 1 << 18
_LONGEST_MARK = 6  # bytes by which a compression is known
_LOOKED_AT = 1000  # bytes in which letters of two bytes show
_LONGEST_NAME = 200


@dataclass(frozen=True)
class Compression:
    """One way in which files are compressed; `open` takes a path or a stream."""

    suffix: str
    first_bytes: bytes
    open: Callable[..., Any]


COMPRESSIONS = (
    Compression(".gz", b"\x1f\x8b", gzip.open),
    Compression(".bz2", b"BZh", bz2.open),
    Compression(".xz", b"\xfd7zXZ\x00", lzma.open),
)
COMPRESSED_SUFFIXES = {compression.suffix: compression.open for compression in COMPRESSIONS}

_OTHER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


_NOT_TEXT = (
    (b"PAR1", "a Parquet file"),
    (b"PK\x03\x04", "a zip archive or an Excel file"),
    (b"%PDF", "a PDF file"),
)


@dataclass(frozen=True)
class Lines:
    """Consecutive lines of a file, without their line ends; `first` is the first one's number."""

    first: int
    texts: list[str]


def allow_long_fields() -> None:
    """Let the csv module read fields as long as the longest line."""
    if csv.field_size_limit() < MAX_LINE:
        csv.field_size_limit(MAX_LINE)


def check_file(path: Path) -> None:
    """Refuse what is not a readable file with something in it."""
    with file_faults(path):
        if not path.exists():
            raise UserError(f"{path}: no such file")
        if not path.is_file():
            raise UserError(f"{path}: not a file")
        if path.stat().st_size == 0:
            raise UserError(f"{path}: the file is empty")


@contextmanager
def file_faults(name: object) -> Iterator[None]:
    """Turn what an unreadable or damaged file raises into one line with its name."""
    try:
        yield
    except (EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile, tarfile.TarError) as broken:
        raise _damaged(name, broken) from broken
    except OSError as broken:
        if broken.errno is None:  # raised by a decompressor, not by the system
            raise _damaged(name, broken) from broken
        raise UserError(f"{_shortened(name)}: cannot be read: {broken.strerror}") from broken


def _damaged(name: object, reason: BaseException) -> UserError:
    first = str(reason).partition("\n")[0].rstrip(":")
    return UserError(f"{name}: the compressed file is damaged or cut short ({first})")


def _shortened(name: object) -> str:
    text = str(name)
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME // 2]}…{text[-20:]}"


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading; gzip, bzip2 and xz are recognised by their first bytes."""
    check_file(path)
    with file_faults(path), path.open("rb") as plain, decompressed(plain) as stream:
        yield stream


def decompressed(stream: IO[bytes]) -> IO[bytes]:
    """What a stream holds once decompressed, or the stream itself."""
    start = stream.read(_LONGEST_MARK)
    stream.seek(-len(start), io.SEEK_CUR)
    for compression in COMPRESSIONS:
        if start.startswith(compression.first_bytes):
            opened: IO[bytes] = compression.open(stream, "rb")
            return opened
    return stream


def plain_suffix(path: Path) -> str:
    """The suffix that tells the format, in lower case: ``.csv`` for ``Reviews.CSV.xz``."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED_SUFFIXES:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def read_lines(
    path: Path, encoding: str = "utf-8", *, keep_returns: bool = False
) -> Iterator[Lines]:
    r"""The lines of a text file, a block at a time; memory stays at a block and the longest line.

    Lines end at ``\\n`` or ``\\r\\n`` and nowhere else: the other line ends of Unicode are text.
    With `keep_returns` the ``\r`` stays, for formats in which it may be part of a field.
    """
    with open_bytes(path) as stream:
        yield from lines_of(stream, path, encoding, keep_returns=keep_returns)


def lines_of(
    stream: IO[bytes], path: Path, encoding: str = "utf-8", *, keep_returns: bool = False
) -> Iterator[Lines]:
    """As `read_lines`, from what is open already; `path` only stands in messages."""
    for lines in _split_lines(_decoded(path, stream, encoding), path):
        if not keep_returns and any("\r" in line for line in lines.texts):
            lines.texts[:] = [line.removesuffix("\r") for line in lines.texts]
        yield lines


def read_text(path: Path, encoding: str = "utf-8", *, limit: int) -> str:
    """A whole text file of at most `limit` characters."""
    pieces = []
    left = limit
    with open_bytes(path) as stream:
        for piece in _decoded(path, stream, encoding):
            left -= len(piece)
            if left < 0:
                raise UserError(f"{path}: larger than the limit of {limit:,} characters")
            pieces.append(piece)
    return "".join(pieces)


def _split_lines(pieces: Iterator[str], path: Path) -> Iterator[Lines]:
    first, rest = 1, ""
    for piece in pieces:
        lines = (rest + piece).split("\n")
        rest = lines.pop()
        if len(rest) > MAX_LINE:
            raise UserError(
                f"{path}, line {first + len(lines)}: longer than {MAX_LINE:,} characters"
            )
        if lines:
            yield Lines(first, lines)
            first += len(lines)
    if rest:
        yield Lines(first, [rest])


def check_encoding(path: object, encoding: str) -> None:
    """Refuse the name of no encoding of text; Python has codecs of other things, as hex."""
    try:
        io.TextIOWrapper(io.BytesIO(), encoding)
        b"a".decode(encoding, "replace")  # which those of host names cannot
    except (LookupError, ValueError):  # ValueError: a name that no codec can have
        raise UserError(f"{path}: no encoding is called {encoding!r}") from None


def _decoded(path: Path, stream: IO[bytes], encoding: str) -> Iterator[str]:
    check_encoding(path, encoding)
    decoder = codecs.getincrementaldecoder(encoding)()
    line, column, start = 1, 1, True
    while True:
        chunk = stream.read(_CHUNK)
        if start:
            _refuse_strangers(path, chunk, encoding)
        try:
            piece = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as wrong:
            raise _encoding_error(path, wrong, line, column, encoding) from None
        except UnicodeError as wrong:  # some say no more
            raise UserError(f"{path}: not {encoding.upper()} ({wrong})") from None
        if start and piece.startswith("\ufeff"):
            piece = piece[1:]
        start = False
        if piece:
            yield piece
            newlines = piece.count("\n")
            line += newlines
            column = len(piece) - piece.rfind("\n") if newlines else column + len(piece)
        if not chunk:
            return


def _refuse_strangers(path: Path, chunk: bytes, encoding: str) -> None:
    for magic, what in _NOT_TEXT:
        if chunk.startswith(magic):
            raise UserError(f"{path}: expected text, but this is {what}")
    if codecs.lookup(encoding).name != "utf-8":
        return
    for mark, name in _OTHER_MARKS:
        if chunk.startswith(mark):
            raise UserError(
                f"{path}: this is {name.upper()}, not UTF-8; name it: encoding={name!r}"
            )
    check_not_utf16(path, chunk[:_LOOKED_AT].decode("latin-1"))


def check_not_utf16(name: object, start: str) -> None:
    """Refuse text that has a NUL beside almost every letter: UTF-16 without a mark, read as UTF-8.

    Args:
        name: of the file, for the message.
        start: the first of its characters.
    """
    ends = start[::2].count("\0"), start[1::2].count("\0")
    if max(ends) > len(start) // 4:
        found = "utf-16-be" if ends[0] > ends[1] else "utf-16-le"
        raise UserError(
            f"{name}: this is {found[:6].upper()} without its mark, not UTF-8; name it: "
            f"encoding={found!r}"
        )


def _encoding_error(
    path: Path, wrong: UnicodeDecodeError, line: int, column: int, encoding: str
) -> UserError:
    before = wrong.object[: wrong.start].decode(encoding, errors="replace")
    newlines = before.count("\n")
    column = len(before) - before.rfind("\n") if newlines else column + len(before)
    byte = wrong.object[wrong.start]
    return UserError(
        f"{path}, line {line + newlines}, column {column}: "
        f"byte 0x{byte:02x} is not {encoding.upper()}; "
        "if the file is in another encoding, name it, for example encoding='gb18030' or 'latin-1'"
    )

"""What every command prints with: lines, tables and JSON, for any terminal, pipe and encoding."""

import contextlib
import io
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

from zlpr._escape import for_json, for_terminal

# Sentences in less room than this are harder to read than a line that the terminal breaks.
NARROWEST_FOLD = 24


def say(text: str = "", *, error: bool = False) -> None:
    """Print a message: to standard output, or as a note or an error beside it.

    Control characters are spelled out, but for newlines: a name of the user's that may hold one
    goes through `for_terminal` before it becomes part of a message. A message that cannot be
    written, as in `zlpr train … | head -1` or on a full disk, does not end the work.
    """
    stream = sys.stderr if error else sys.stdout
    with contextlib.suppress(OSError):
        print(for_terminal(text, keep="\n"), file=stream, flush=True)


def print_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    last_folds: bool = False,
) -> None:
    """Print a table, aligned as it will show; columns of numbers are set to the right.

    Args:
        headers: one per column.
        rows: the cells.
        title: a line above it.
        last_folds: whether the last column holds our own sentences, which go on below themselves
            where the terminal is too narrow (80 columns where there is none).
    """
    table = [[_as_printed(cell) for cell in row] for row in (headers, *rows)]
    if last_folds:
        table = _fold_last(table)
    columns = list(zip(*table, strict=True))
    widths = [max(map(display_width, column)) for column in columns]
    right = [all(_is_number(cell) for cell in column[1:]) and len(column) > 1 for column in columns]
    lines = [
        "  ".join(_pad(cell, w, r) for cell, w, r in zip(row, widths, right, strict=True)).rstrip()
        for row in table
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    say("\n".join([title, *lines] if title else lines))


def _fold_last(table: list[list[str]]) -> list[list[str]]:
    """The rows with sentences cut at words; what goes on stands below, in a row of its own."""
    others = [max(map(display_width, column)) for column in zip(*table, strict=True)][:-1]
    room = shutil.get_terminal_size().columns - sum(width + 2 for width in others)
    if room < NARROWEST_FOLD:
        return table
    folded: list[list[str]] = []
    for *cells, sentence in table:
        first, *further = textwrap.wrap(sentence, room, break_on_hyphens=False) or [""]
        folded.append([*cells, first])
        folded.extend([*[""] * len(cells), line] for line in further)
    return folded


def print_json(value: Any) -> None:
    """Print a value as indented JSON, the only thing on standard output."""
    print(json_text(value, sys.stdout, indent=2), flush=True)


def json_text(value: Any, stream: TextIO, *, indent: int | None = None) -> str:
    """A value as JSON that a stream can carry and that no terminal obeys."""
    is_unicode = _encoding(stream).lower().startswith("utf")
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    return for_json(text, ascii_only=not is_unicode)


def display_width(text: str) -> int:
    """Columns that a text takes in a terminal: Chinese characters two, marks over others none.

    Examples:
        >>> display_width("abc"), display_width("标签"), display_width("e\u0301")
        (3, 4, 1)
    """
    import unicodedata

    visible = [c for c in text if unicodedata.category(c) not in ("Mn", "Me", "Cf")]
    return len(visible) + sum(unicodedata.east_asian_width(c) in ("W", "F") for c in visible)


@contextlib.contextmanager
def standard_streams() -> Iterator[Callable[[], OSError | None]]:
    """Make standard output and standard error streams that do not end a command's work.

    A descriptor that was closed (`>&-`) is opened on nothing, lest the next file take its number;
    what an encoding lacks is spelled out; and once a stream cannot be written, because its reader
    has left or its disk is full, there is one error (none from standard error), and what follows
    goes nowhere.

    Yields:
        A function that gives what is wrong with standard output, None while nothing is.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, this one
    before = sys.stdout, sys.stderr
    output, error = _Descriptor(1, silent=False), _Descriptor(2, silent=True)
    sys.stdout = _lasting(sys.stdout, sys.__stdout__, output)
    sys.stderr = _lasting(sys.stderr, sys.__stderr__, error)
    try:
        yield lambda: output.trouble
    finally:
        for stream, old in zip((sys.stdout, sys.stderr), before, strict=True):
            if stream is not old:
                with contextlib.suppress(OSError):
                    stream.flush()
        sys.stdout, sys.stderr = before


def data_stream() -> TextIO:
    """Standard output for data rather than words: what it cannot carry is an error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="strict")
    return sys.stdout


def _lasting(stream: Any, original: Any, descriptor: "_Descriptor") -> TextIO:
    """The stream itself where somebody has put their own in place, as tests and notebooks do."""
    if stream is not original:
        return stream  # type: ignore[no-any-return]
    if stream is not None:
        stream.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(descriptor),
        encoding="utf-8" if stream is None else stream.encoding,
        errors="backslashreplace",
        line_buffering=stream is not None and stream.line_buffering,
    )


class _Descriptor(io.RawIOBase):
    """A file descriptor that swallows what comes after the first failure."""

    def __init__(self, number: int, *, silent: bool) -> None:
        super().__init__()
        self._number, self._silent = number, silent
        self.trouble: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return os.isatty(self._number)

    def write(self, data: Any) -> int:
        try:
            return len(data) if self.trouble else os.write(self._number, data)
        except OSError as trouble:
            name = "standard output" if self._number == 1 else "standard error"
            self.trouble = OSError(trouble.errno, trouble.strerror, name)
            if self._silent:
                return len(data)
            raise self.trouble from None


def _as_printed(cell: str) -> str:
    """A cell with what standard output's encoding lacks spelled out, as the stream would do it."""
    encoding = _encoding(sys.stdout)
    return for_terminal(cell).encode(encoding, "backslashreplace").decode(encoding)


def _encoding(stream: TextIO) -> str:
    return getattr(stream, "encoding", None) or "utf-8"


def _pad(cell: str, width: int, right: bool) -> str:
    space = " " * (width - display_width(cell))
    return space + cell if right else cell + space


def _is_number(cell: str) -> bool:
    try:
        float(cell.rstrip("%").replace(",", ""))
    except ValueError:
        return cell in {"", "-"}
    return True

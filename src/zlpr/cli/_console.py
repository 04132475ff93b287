"""What every command prints with: lines, tables and JSON, for any terminal, pipe and encoding."""

import contextlib
import io
import itertools
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

from zlpr._escape import for_json, for_terminal
from zlpr.cli._colour import paint, paint_help, paint_message

NARROWEST = 12
"""Columns below which a table's texts are not folded; the terminal breaks the lines then."""


_FIGURE = re.compile(
    r"[-–]? ?|[+-]?\d[\d,]*(\.\d+)?([eE][+-]?\d+)?( ?%)?(±[\d.]+)?(\(n=\d+\))?[*~ ]?"
)


def say(text: str = "", *, error: bool = False, style: str = "") -> None:
    """Print a message: to standard output, or as a note or an error beside it.

    Control characters are spelled out, but for newlines: a name of the user's that may hold one
    goes through `for_terminal` before it becomes part of a message. A message that cannot be
    written, as in `zlpr train … | head -1` or on a full disk, does not end the work.

    Args:
        text: the message.
        error: whether it goes to standard error.
        style: how it looks where there is colour, see `paint`.
    """
    stream = sys.stderr if error else sys.stdout
    safe = for_terminal(text, keep="\n")
    with contextlib.suppress(OSError):
        print(paint_message(safe, style, stream), file=stream, flush=True)


def say_sentence(text: str, *, error: bool = False) -> None:
    """Print sentences of ours, folded at words to the width of the terminal."""
    say(textwrap.fill(text, terminal_width(), break_on_hyphens=False), error=error)


def say_help(text: str) -> None:
    """Print a help text of ours, which holds nothing of the user's."""
    with contextlib.suppress(OSError):
        print(paint_help(text, sys.stdout), file=sys.stdout, flush=True)


def terminal_width() -> int:
    """Columns of the terminal, 80 where there is none; COLUMNS sets it."""
    return max(NARROWEST, shutil.get_terminal_size().columns)


def print_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    strong: Callable[[str], bool] = lambda cell: False,
) -> None:
    """Print a table that fits the terminal: numbers to the right, texts folded at words.

    Args:
        headers: one per column.
        rows: the cells.
        title: a line above it.
        strong: which cells stand out where there is colour.
    """
    table = [[_as_printed(cell) for cell in row] for row in (headers, *rows)]
    columns = list(zip(*table, strict=True))
    right = [all(map(_is_number, column[1:])) and len(column) > 1 for column in columns]
    widths = _fitting_widths(columns, right)
    printed = []
    for place, row in enumerate(table):
        printed += _lines_of(row, widths, right, strong if place else lambda cell: True)
        if place == 0:
            rule = "  ".join("-" * width for width in widths)
            printed.append(paint(rule, "quiet", sys.stdout))
    with contextlib.suppress(OSError):
        lines = [*for_terminal(title, keep="\n").split("\n"), *printed] if title else printed
        print("\n".join(lines), file=sys.stdout, flush=True)


def _fitting_widths(columns: Sequence[Sequence[str]], right: Sequence[bool]) -> list[int]:
    """The columns' widths, made narrower until the table fits, as far as words allow.

    Numbers are never broken, nor are words; a table that cannot fit stays as wide as it is.
    """
    widths = [max(map(display_width, column)) for column in columns]
    narrowest = [
        _narrowest(column, is_right) for column, is_right in zip(columns, right, strict=True)
    ]
    room = terminal_width() - 2 * (len(columns) - 1)
    if sum(widths) <= room or sum(narrowest) > room:
        return widths
    while sum(widths) > room:  # the headings of numbers first, then the widest texts
        spare = [
            (is_right, width) if width > least else (False, 0)
            for width, least, is_right in zip(widths, narrowest, right, strict=True)
        ]
        widths[spare.index(max(spare))] -= 1
    return [
        max(display_width(line) for cell in column for line in _fold(cell, width))
        for column, width in zip(columns, widths, strict=True)
    ]


def _narrowest(column: Sequence[str], is_right: bool) -> int:
    """The narrowest a column may become: its longest word, or number."""
    words = column[0].split() or [""]
    cells = column[1:] if is_right else [w for cell in column[1:] for w in cell.split()]
    least = max(map(display_width, [*words, *cells]))
    return least if is_right else max(least, min(NARROWEST, max(map(display_width, column))))


def _lines_of(
    row: Sequence[str],
    widths: Sequence[int],
    right: Sequence[bool],
    is_strong: Callable[[str], object],
) -> list[str]:
    """A row as lines, cells that are too wide for their column going on below themselves."""
    folded = [_fold(cell, width) for cell, width in zip(row, widths, strict=True)]
    lines = []
    for parts in itertools.zip_longest(*folded, fillvalue=""):
        cells = [
            paint(_pad(part, width, is_right), "strong" if is_strong(cell) else "", sys.stdout)
            for part, cell, width, is_right in zip(parts, row, widths, right, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def _fold(cell: str, width: int) -> list[str]:
    """A cell cut at words into lines of at most a width, in columns of a terminal."""
    if display_width(cell) <= width:
        return [cell]
    lines = [""]
    for word in cell.split():
        longer = f"{lines[-1]} {word}".strip()
        if display_width(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return [line for line in lines if line]


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
    """Whether a cell holds a figure, with its spread and its mark, or the sign that there is none.

    Examples:
        >>> [_is_number(cell) for cell in ("1,024", "61.3 %", "61.3±0.4~", "-", "1 of 3")]
        [True, True, True, True, False]
    """
    return _FIGURE.fullmatch(cell) is not None

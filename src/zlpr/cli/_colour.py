"""Colour on a terminal, sparingly: none in pipes and files, none where NO_COLOR is set."""

import os
import re
from collections.abc import Callable
from typing import TextIO

_CODES = {"strong": "1", "quiet": "2", "wrong": "1;31", "note": "33", "command": "36"}
_OPENINGS = re.compile(r"^(?:(?P<wrong>zlpr: error:)|(?P<note> *note:))")


def is_coloured(stream: TextIO) -> bool:
    """Whether a stream takes colour: a terminal's does, unless the environment says otherwise.

    NO_COLOR (https://no-color.org) forbids it; FORCE_COLOR asks for it also where nobody watches.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, style: str, stream: TextIO) -> str:
    """A text in a style, where the stream takes colour; spaces around it stay plain.

    Args:
        text: what was made safe for a terminal already.
        style: "strong", "quiet", "wrong", "note" or "command"; "" for none.
        stream: where it will be printed.
    """
    inner = text.strip()
    if not style or not inner or not is_coloured(stream):
        return text
    start = text.index(inner)
    painted = f"\x1b[{_CODES[style]}m{inner}\x1b[0m"
    return f"{text[:start]}{painted}{text[start + len(inner) :]}"


def paint_message(text: str, style: str, stream: TextIO) -> str:
    """A message, each line in the style; the words that open errors and notes in their own."""
    if not is_coloured(stream):
        return text
    if style:
        return "\n".join(paint(line, style, stream) for line in text.split("\n"))
    return _OPENINGS.sub(lambda found: paint(found[0], str(found.lastgroup), stream), text)


def paint_help(text: str, stream: TextIO) -> str:
    """A help text: headings strong, flags and commands as one types them."""
    if not is_coloured(stream):
        return text
    headings = re.sub(
        r"^(?:usage|[a-z][^\n]*)(?=:( |$))", _painter("strong", stream), text, flags=re.M
    )
    typed = r"^ {2,4}(?:-\S.*?|zlpr .*?|\S+)(?=  |$)"
    return re.sub(typed, _painter("command", stream), headings, flags=re.M)


def _painter(style: str, stream: TextIO) -> Callable[[re.Match[str]], str]:
    return lambda found: paint(found[0], style, stream)

"""JSON: one array of objects, such as ``[{"text": "…", "labels": ["a", "b"]}, …]``."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from zlpr._errors import UserError
from zlpr.data.dataset import Dataset
from zlpr.data.files import read_text
from zlpr.data.formats.json_lines import Keys, Rows, json_rows, note_repeated_keys
from zlpr.data.formats.lines import hint
from zlpr.data.problems import Problems, quote
from zlpr.data.roles import find_roles
from zlpr.data.rows import Block, ReadOptions

MAX_TEXT = 1 << 30
"""The largest array that is read, in characters; larger data belongs into JSON Lines."""

_SAMPLE_ROWS = 2000
_BLOCK_ROWS = 256
_SPACE = re.compile(r"[ \t\n\r]*")

_decode = json.JSONDecoder().raw_decode


def read_blocks(path: Path, options: ReadOptions, problems: Problems) -> Iterator[Block]:
    """The objects of the array, some hundred at a time; the text of the file is held meanwhile.

    After a syntax error the rest of an array cannot be read, so that this is never one bad row.
    """
    roles = None
    keys = Keys()
    otherwise = hint(path, options)
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    size = _SAMPLE_ROWS
    sources: list[str] = []
    text = read_text(path, options.encoding, limit=MAX_TEXT)
    for line, value, source in _hinted(_elements(str(path), text), otherwise):
        if isinstance(value, dict):
            rows.append(value)
            lines.append(line)
            sources.append(source)
        else:
            problems.add(line, f"expected a JSON object, got {quote(value)}{otherwise}")
        if len(rows) == size:
            roles = roles or find_roles(str(path), keys.of_first(rows), options)
            keys.look(rows, lines)
            note_repeated_keys(sources, lines, roles, problems)
            yield roles.block(Rows(rows), lines, problems)
            rows, lines, sources, size = [], [], [], _BLOCK_ROWS
    if rows:
        roles = roles or find_roles(str(path), keys.of_first(rows), options)
        keys.look(rows, lines)
        note_repeated_keys(sources, lines, roles, problems)
        yield roles.block(Rows(rows), lines, problems)
    keys.note(problems)


def _hinted(
    elements: Iterator[tuple[int, Any, str]], otherwise: str
) -> Iterator[tuple[int, Any, str]]:
    """The same elements; the error that ends them says what else the file may be."""
    try:
        yield from elements
    except UserError as wrong:
        raise UserError(f"{wrong}{otherwise}") from None


def _elements(file: str, text: str) -> Iterator[tuple[int, Any, str]]:
    """The elements of the array in a text, each with its line number and its own text."""
    position = _after_space(text, 0)
    if text[position : position + 1] != "[":
        raise _syntax_error(file, text, position, "expected '[' and objects")
    line = 1 + text.count("\n", 0, position)
    at = position
    position = _after_space(text, position + 1)
    if text[position : position + 1] == "]":
        return
    while True:
        line += text.count("\n", at, position)
        at = position
        try:
            value, position = _decode(text, position)
        except json.JSONDecodeError as wrong:
            raise _syntax_error(file, text, wrong.pos, f"not JSON: {wrong.msg}") from None
        except RecursionError:
            raise _syntax_error(file, text, at, "nested too deeply") from None
        except ValueError:
            raise _syntax_error(file, text, at, "a number of thousands of digits") from None
        yield line, value, text[at:position]
        position = _after_space(text, position)
        sign = text[position : position + 1]
        if sign == "]":
            break
        if sign != ",":
            raise _syntax_error(file, text, position, "expected ',' or ']'")
        position = _after_space(text, position + 1)
    position = _after_space(text, position + 1)
    if position != len(text):
        raise _syntax_error(file, text, position, "expected nothing after the array")


def _after_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _syntax_error(file: str, text: str, position: int, message: str) -> UserError:
    line = 1 + text.count("\n", 0, position)
    column = position - text.rfind("\n", 0, position)
    return UserError(f"{file}, line {line}, column {column}: {message}")


def write(dataset: Dataset, stream: TextIO) -> None:
    """Write an array with an object per line."""
    stream.write("[")
    for number, row in enumerate(json_rows(dataset)):
        stream.write((",\n" if number else "\n") + json.dumps(row, ensure_ascii=False))
    stream.write("\n]\n")

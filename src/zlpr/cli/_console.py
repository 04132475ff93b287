"""What every command prints with: tables and JSON."""

import json
import sys
from collections.abc import Sequence
from typing import Any


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "") -> None:
    """Print an aligned table; columns of numbers are set to the right."""
    columns = list(zip(headers, *rows, strict=True))
    widths = [max(map(display_width, column)) for column in columns]
    right = [all(_is_number(cell) for cell in column[1:]) and len(column) > 1 for column in columns]
    if title:
        print(title)
    for index, row in enumerate([headers, *rows]):
        cells = [_pad(cell, w, r) for cell, w, r in zip(row, widths, right, strict=True)]
        print("  ".join(cells).rstrip())
        if index == 0:
            print("  ".join("-" * width for width in widths))


def print_json(value: Any) -> None:
    """Print a value as indented JSON, the only thing on standard output."""
    json.dump(value, sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    print()


def display_width(text: str) -> int:
    """Columns that a text takes in a terminal; Chinese characters take two."""
    import unicodedata

    return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in text)


def _pad(cell: str, width: int, right: bool) -> str:
    space = " " * (width - display_width(cell))
    return space + cell if right else cell + space


def _is_number(cell: str) -> bool:
    try:
        float(cell.rstrip("%").replace(",", ""))
    except ValueError:
        return cell in {"", "-"}
    return True

"""Read a publisher's rows: decode, split, and remember what could not be used and why."""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from zlpr._errors import UserError
from zlpr.data.sources._raw import Advance, RawFile

_SHOWN, _ENOUGH = 3, 100


@dataclass
class Reading:
    """How to read, and what was met on the way.

    Attributes:
        skip_bad_rows: count malformed rows instead of refusing the file.
        encoding: of text files; any that keeps ASCII as it is (UTF-8, GB18030, Latin-1).
        columns: the user's names for a table's columns, such as {"title": "发明名称"}.
        advance: hears of each number of bytes read from disk.
        left_out: rows that the publisher has but the set cannot use, by reason.
    """

    skip_bad_rows: bool = False
    encoding: str = "utf-8"
    columns: Mapping[str, str] = field(default_factory=dict)
    advance: Advance = lambda count: None
    left_out: Counter[str] = field(default_factory=Counter)
    _bad: list[str] = field(default_factory=list)

    def leave_out(self, reason: str) -> None:
        """Count a well-formed row that the set has no use for."""
        self.left_out[reason] += 1

    def reject(self, file: RawFile, line: int, problem: str) -> None:
        """Count a malformed row; many of them end the reading unless they are to be skipped."""
        if self.skip_bad_rows:
            self.left_out["bad row"] += 1
            return
        self._bad.append(f"{file}, line {line}: {problem}")
        if len(self._bad) >= _ENOUGH:
            self.finish()

    def finish(self) -> None:
        """Refuse the file if it had malformed rows, showing the first few."""
        if not self._bad:
            return
        more = len(self._bad) - _SHOWN
        tail = f"; and {more} more bad rows" if more > 0 else ""
        advice = " (--skip-bad-rows leaves them out)"
        raise UserError("; ".join(self._bad[:_SHOWN]) + tail + advice)


def lines(file: RawFile, reading: Reading) -> Iterator[tuple[int, str]]:
    """Number and text of each line, the newline kept."""
    with file.open(reading.advance) as stream:
        for number, raw in enumerate(stream, 1):
            content = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
            try:
                yield number, content.decode(reading.encoding)
            except UnicodeDecodeError as wrong:
                raise UserError(
                    f"{file}, line {number}, byte {wrong.start + 1}: not {reading.encoding}; "
                    "name the file's encoding with --encoding, such as gb18030"
                ) from wrong


def table(
    file: RawFile, reading: Reading, delimiter: str | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Number of the last line and the cells of each row of a CSV or TSV file, header included.

    The delimiter is a tab where the first line has one, else a comma.
    """
    numbered = lines(file, reading)
    first = next(numbered, None)
    if first is None:
        raise UserError(f"{file}: the file is empty")
    separator = delimiter or ("\t" if "\t" in first[1] else ",")

    def texts() -> Iterator[str]:
        yield first[1]
        yield from (text for _, text in numbered)

    rows = csv.reader(texts(), delimiter=separator, strict=True)
    while True:
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as wrong:
            raise UserError(f"{file}, line {rows.line_num}: {wrong}") from wrong
        if cells:
            yield rows.line_num, cells


def positions(file: RawFile, header: Sequence[str], names: Sequence[str]) -> list[int]:
    """Where the named columns stand in a header, whatever their case."""
    known = {name.strip().casefold(): index for index, name in enumerate(header)}
    missing = [name for name in names if name.casefold() not in known]
    if missing:
        raise UserError(
            f"{file}, line 1: no column {', '.join(missing)}; the columns are {', '.join(header)}"
        )
    return [known[name.casefold()] for name in names]


def rows_of(
    file: RawFile, reading: Reading, names: Sequence[str]
) -> Iterator[tuple[int, list[str]]]:
    """Line and cells, in the order of `names`, of each row of a table with a header."""
    rows = table(file, reading)
    _, header = next(rows)
    wanted = positions(file, header, names)
    for line, cells in rows:
        if len(cells) == len(header):
            yield line, [cells[index] for index in wanted]
        else:
            reading.reject(file, line, f"{len(cells)} columns, expected {len(header)}")


def indicated(
    file: RawFile, line: int, names: Sequence[str], cells: Sequence[str], reading: Reading
) -> tuple[str, ...] | None:
    """The names whose cell is 1; None, and the row rejected, where a cell is neither 0 nor 1."""
    for name, cell in zip(names, cells, strict=True):
        if cell not in {"0", "1"}:
            reading.reject(file, line, f"column {name}: '{cell}', expected 0 or 1")
            return None
    return tuple(name for name, cell in zip(names, cells, strict=True) if cell == "1")

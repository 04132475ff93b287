"""Read a publisher's rows: decode, split, and remember what could not be used and why."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.data.files import lines_of, plain_suffix
from zlpr.data.formats.tables import parse_rows
from zlpr.data.problems import Problems, name_all, quote
from zlpr.data.sources._archives import Advance, RawFile


@dataclass
class Reading:
    """How to read, and what was met on the way.

    Attributes:
        skip_bad_rows: count malformed rows instead of refusing the file.
        encoding: of text files.
        columns: the user's names for a table's columns, such as {"title": "发明名称"}.
        advance: hears of each number of bytes read from disk.
        left_out: rows that the publisher has but the set cannot use, by reason.
    """

    skip_bad_rows: bool = False
    encoding: str = "utf-8"
    columns: Mapping[str, str] = field(default_factory=dict)
    advance: Advance = lambda count: None
    left_out: Counter[str] = field(default_factory=Counter)
    _problems: dict[str, Problems] = field(default_factory=dict)

    def leave_out(self, reason: str) -> None:
        """Count a well-formed row that the set has no use for."""
        self.left_out[reason] += 1

    def reject(
        self, file: RawFile, line: int, problem: str, *, column: int | str | None = None
    ) -> None:
        """Count a malformed row."""
        self.problems_of(file).add(line, problem, column=column)

    def problems_of(self, file: RawFile) -> Problems:
        """What is wrong with the rows of a file."""
        return self._problems.setdefault(str(file), Problems(str(file)))

    def finish(self) -> None:
        """Refuse the first file that had malformed rows, unless they are to be skipped."""
        for problems in filter(lambda problems: problems.count, self._problems.values()):
            if not self.skip_bad_rows:
                raise problems.error()
            self.left_out["bad row"] += problems.count


def lines(file: RawFile, reading: Reading) -> Iterator[tuple[int, str]]:
    """Number and text of each line, without its end."""
    with file.open(reading.advance) as stream:
        for block in lines_of(stream, Path(str(file)), reading.encoding):
            yield from enumerate(block.texts, block.first)


def table(file: RawFile, reading: Reading) -> Iterator[tuple[int, list[str]]]:
    """Number of the first line and the cells of each row of a CSV or TSV file, header included."""
    place = Path(str(file))
    with file.open(reading.advance) as stream:
        blocks = lines_of(stream, place, reading.encoding, keep_returns=True)
        separator = "\t" if plain_suffix(place) in {".tsv", ".tab"} else None
        rows = parse_rows(blocks, reading.problems_of(file), separator=separator)
        first = next(rows, None)
        if first is None:
            raise UserError(f"{file}: the file is empty")
        yield first
        yield from rows


def positions(file: RawFile, header: Sequence[str], names: Sequence[str]) -> list[int]:
    """Where the named columns stand in a header, whatever their case."""
    known = {name.strip().casefold(): index for index, name in enumerate(header)}
    missing = [name for name in names if name.casefold() not in known]
    if missing:
        raise UserError(
            f"{file}, line 1: no column {name_all(missing)}; the columns are {name_all(header)}"
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
            reading.reject(file, line, f"{counted(len(cells), 'column')}, expected {len(header)}")


def indicated(
    file: RawFile, line: int, names: Sequence[str], cells: Sequence[str], reading: Reading
) -> tuple[str, ...] | None:
    """The names whose cell is 1; None, and the row rejected, where a cell is neither 0 nor 1."""
    for name, cell in zip(names, cells, strict=True):
        if cell not in {"0", "1"}:
            reading.reject(file, line, f"expected 0 or 1, got {quote(cell)}", column=name)
            return None
    return tuple(name for name, cell in zip(names, cells, strict=True) if cell == "1")

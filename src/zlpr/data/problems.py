"""Bad rows: where they are, what was expected, and what becomes of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from zlpr._counted import counted
from zlpr._errors import UserError

SHOWN = 5
"""How many of many bad rows a message lists."""

_LONGEST_QUOTE = 60


@dataclass
class Problems:
    """Collects the bad rows of one file.

    Without `skip` they end in a `UserError` that lists the first few and says how many there are;
    with `skip` the rows are dropped and `finish` returns the sentence that says so.

    Attributes:
        name: the file's name as the user gave it.
        skip: whether bad rows are dropped.
        immediate: raise at the first bad row instead of looking for more.
        notes: what else there is to say about the file.
        unit: what the numbers count: lines, or rows where a file has no lines.

    Examples:
        >>> problems = Problems("reviews.csv", skip=True)
        >>> problems.add(17, "3 columns, expected 2 (text, labels)")
        >>> problems.finish(rows=99)
        'reviews.csv: dropped 1 of 100 rows: line 17: 3 columns, expected 2 (text, labels)'
    """

    name: str
    skip: bool = False
    immediate: bool = False
    unit: str = "line"
    count: int = 0
    shown: list[tuple[int, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, line: int, message: str, *, column: int | str | None = None) -> None:
        """Report one bad row by its line and, where known, its column (a number or a name)."""
        place = f"{self.unit} {line}"
        if column is not None:
            place += (
                f", column {quote(column)}" if isinstance(column, str) else f", column {column}"
            )
        self.count += 1
        if len(self.shown) < SHOWN:
            self.shown.append((line, f"{place}: {message}"))
        if self.immediate and not self.skip:
            raise self.error()

    def doubt(self, line: int, message: str) -> None:
        """Report what is wrong with the file but with no row: an error, or a note with `skip`."""
        if self.skip:
            self.notes.append(f"{self.name}, {self.unit} {line}: {message}")
        else:
            self.add(line, message)

    def error(self) -> UserError:
        """The error for what has been collected."""
        if self.count == 1:
            return UserError(f"{self.name}, {self.shown[0][1]}")
        return UserError(f"{self.name}: {self.count:,} bad rows: {self._listing()}")

    def finish(self, rows: int) -> str | None:
        """Raise, or say how many rows were dropped beside the `rows` that were kept."""
        if not self.count:
            return None
        if not self.skip:
            raise self.error()
        total = counted(rows + self.count, "row")
        return f"{self.name}: dropped {self.count:,} of {total}: {self._listing()}"

    def _listing(self) -> str:
        hidden = self.count - len(self.shown)
        return "; ".join(text for _, text in sorted(self.shown)) + (
            f"; and {hidden:,} more" if hidden else ""
        )


def quote(value: object) -> str:
    r"""A value as it can stand in a message: on one line and not too long.

    Examples:
        >>> quote("a\\nb")
        "'a\\\\nb'"
    """
    text = repr(value)
    return text if len(text) <= _LONGEST_QUOTE else f"{text[: _LONGEST_QUOTE - 1]}…"


def quote_all(names: Sequence[str], most: int = 12) -> str:
    """Names as they can stand in a message, in quotes: the first few, and how many more.

    Examples:
        >>> quote_all(["a", "b", "c"], most=2)
        "'a', 'b' and 1 more"
    """
    return _listed([quote(name) for name in names[:most]], len(names))


def name_all(names: Sequence[str], most: int = 12) -> str:
    """As `quote_all`, but without quotes where a name is short and printable."""
    fine = [
        name if name.isprintable() and len(name) <= 40 else quote(name) for name in names[:most]
    ]
    return _listed(fine, len(names))


def _listed(shown: Sequence[str], total: int) -> str:
    more = f" and {total - len(shown):,} more" if total > len(shown) else ""
    return ", ".join(shown) + more

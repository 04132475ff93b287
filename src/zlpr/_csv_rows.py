"""Rows of CSV as every writer of this package puts them down: no cell breaks its row."""

import csv
from collections.abc import Iterable
from typing import Any, TextIO


class CsvRows:
    r"""Writes rows of CSV, with all cells of a row in quotes where one has a carriage return.

    Python before 3.13 leaves a lone `\r` bare, which readers take for the end of the row: what
    stands behind it would begin the next one, and could be a formula there.

    Args:
        stream: where to write.
        delimiter: between columns.
        quoting: of other rows, as `csv` has it.

    Examples:
        >>> import sys
        >>> CsvRows(sys.stdout).writerow(["soup, cold", 2])
        "soup, cold",2
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        delimiter: str = ",",
        quoting: Any = csv.QUOTE_MINIMAL,
    ) -> None:
        form: dict[str, Any] = {"delimiter": delimiter, "lineterminator": "\n"}
        self._plain = csv.writer(stream, quoting=quoting, **form)
        self._quoted = csv.writer(stream, quoting=csv.QUOTE_ALL, **form)

    def writerow(self, cells: Iterable[Any]) -> None:
        """Write one row."""
        row = list(cells)
        bare = any(isinstance(cell, str) and "\r" in cell for cell in row)
        (self._quoted if bare else self._plain).writerow(row)

    def writerows(self, rows: Iterable[Iterable[Any]]) -> None:
        """Write some rows."""
        for row in rows:
            self.writerow(row)

"""Label hierarchies: which labels stand above which, from a file of links or from the names."""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zlpr._ancestors import parents_first
from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.data.files import plain_suffix, read_lines
from zlpr.data.problems import quote

__all__ = ["Hierarchy"]

MOST_LINKS = 20_000_000
"""Links that a file may hold: a limit for files from strangers."""

_CHILD, _PARENT = ("label", "child", "narrower"), ("parent", "broader")


@dataclass(frozen=True)
class Hierarchy:
    """The parents of labels, by name; a label may have several, and shares ancestors with others.

    Attributes:
        parents: of each label that has any.

    Examples:
        >>> sports = Hierarchy({"football": ("ball games",), "ball games": ("sports",)})
        >>> sports.with_ancestors(["cooking", "football"])
        ('cooking', 'football', 'ball games', 'sports')
    """

    parents: Mapping[str, tuple[str, ...]]

    @classmethod
    def read(cls, path: str | Path, encoding: str = "utf-8") -> "Hierarchy":
        """Read links from a CSV or TSV file: a label and one of its parents in each line.

        A first line `label,parent` (or `child,parent`, `narrower,broader`, or the other way
        round) says which column is which; without it the label stands first.

        Raises:
            UserError: a line is no link, a label is its own parent or its own ancestor; with file
                and line.
        """
        path = Path(path)
        links: dict[tuple[str, str], int] = {}
        for line, child, parent in _links(path, encoding):
            if child == parent:
                raise UserError(f"{path}, line {line}: {quote(child)} is its own parent")
            links.setdefault((child, parent), line)
            if len(links) > MOST_LINKS:
                raise UserError(f"{path}: more than {MOST_LINKS:,} links")
        if not links:
            raise UserError(f"{path}: no links; expected lines as 'label,parent'")
        made = cls.of_links(links)
        cycle = made.cycle()
        if cycle:
            around = " > ".join(quote(name) for name in (*cycle[:5], cycle[0]))
            raise UserError(
                f"{path}, line {links[cycle[0], cycle[1 % len(cycle)]]}: {quote(cycle[0])} is its "
                f"own ancestor ({around if len(cycle) <= 5 else f'{len(cycle)} links around'})"
            )
        return made

    @classmethod
    def by_separator(cls, names: Iterable[str], separator: str) -> "Hierarchy":
        """The hierarchy that names spell out, as in `Sports/Football` below `Sports`.

        Raises:
            UserError: the separator is empty, or a name is so between two of them.

        Examples:
            >>> Hierarchy.by_separator(["a > b > c"], ">").parents
            {'a > b > c': ('a > b',), 'a > b': ('a',)}
        """
        if not separator.strip():
            raise UserError("the separator of a hierarchy needs a character that is no space")
        parents: dict[str, tuple[str, ...]] = {}
        for name in names:
            if separator in name and not all(map(str.strip, name.split(separator))):
                raise UserError(f"label {quote(name)}: nothing on one side of {separator!r}")
            while name not in parents and separator in name:
                above = name.rpartition(separator)[0].strip()
                parents[name] = (above,)
                name = above
        return cls(parents)

    @classmethod
    def of_links(cls, links: Iterable[tuple[str, str]]) -> "Hierarchy":
        """From pairs of a label and a parent."""
        parents: dict[str, list[str]] = {}
        for child, parent in links:
            parents.setdefault(child, []).append(parent)
        return cls({child: tuple(above) for child, above in parents.items()})

    @classmethod
    def of_numbers(cls, names: Sequence[str], parents: Sequence[Sequence[int]]) -> "Hierarchy":
        """From the parents of labels by number, as `numbered` gives them."""
        return cls(
            {
                name: tuple(names[parent] for parent in above)
                for name, above in zip(names, parents, strict=True)
                if above
            }
        )

    def joined(self, other: "Hierarchy") -> "Hierarchy":
        """The links of both."""
        if other.parents == self.parents:
            return self
        both = [*self._links(), *other._links()]
        return Hierarchy.of_links(dict.fromkeys(both))

    def _links(self) -> Iterator[tuple[str, str]]:
        return ((child, parent) for child, above in self.parents.items() for parent in above)

    def with_ancestors(self, names: Iterable[str]) -> tuple[str, ...]:
        """Names, and after them in alphabetical order all ancestors that are not among them."""
        own = tuple(names)
        known, waiting = set(own), list(own)
        while waiting:
            for parent in self.parents.get(waiting.pop(), ()):
                if parent not in known:
                    known.add(parent)
                    waiting.append(parent)
        return (*own, *sorted(known.difference(own)))

    def numbered(self, names: Sequence[str]) -> list[list[int]]:
        """The parents of each of the names, by their positions; parents of no name are left out."""
        position = {name: number for number, name in enumerate(names)}
        return [
            [position[parent] for parent in self.parents.get(name, ()) if parent in position]
            for name in names
        ]

    def cycle(self) -> list[str]:
        """Labels each of which has the next as a parent, and the last the first; mostly none."""
        names = self.with_ancestors(self.parents)
        return [names[number] for number in parents_first(self.numbered(names))[1]]


def _links(path: Path, encoding: str) -> Iterator[tuple[int, str, str]]:
    """Line, label and parent of each link."""
    mark = "\t" if plain_suffix(path) in (".tsv", ".tab") else ","
    swapped, first = False, True
    for lines in read_lines(path, encoding):
        for line, text in enumerate(lines.texts, lines.first):
            if not text.strip():
                continue
            cells = _cells(path, line, text, mark)
            if first:
                first = False
                known = _columns(cells)
                if known is not None:
                    swapped = known
                    continue
            yield (line, cells[1], cells[0]) if swapped else (line, cells[0], cells[1])


def _cells(path: Path, line: int, text: str, mark: str) -> list[str]:
    try:
        rows = list(csv.reader([text], delimiter=mark, strict=True))
    except csv.Error as fault:
        raise UserError(f"{path}, line {line}: {fault}") from None
    cells = [cell.strip() for cell in rows[0]]
    if len(cells) != 2:
        quoted = "; a name that holds a comma stands in double quotes" if mark == "," else ""
        raise UserError(
            f"{path}, line {line}: {counted(len(cells), 'column')}, expected 2 (label, parent)"
            f"{quoted}"
        )
    if not all(cells):
        what = "label" if not cells[0] else "parent"
        raise UserError(f"{path}, line {line}: the {what} is empty; leave out labels without one")
    return cells


def _columns(cells: Sequence[str]) -> bool | None:
    """Whether a first line names the parent first; None where it is no header."""
    one, other = (cell.lower() for cell in cells)
    if one in _CHILD and other in _PARENT:
        return False
    return True if one in _PARENT and other in _CHILD else None

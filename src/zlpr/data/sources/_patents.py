"""What the two patent offices share: IPC codes, and tables of title, abstract and codes."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.data.dataset import split_name
from zlpr.data.problems import name_all
from zlpr.data.sources._archives import RawFile
from zlpr.data.sources._rows import Reading, table
from zlpr.data.sources._source import Record

_SUBCLASS = re.compile(r"(?<![A-Z0-9])[A-H][0-9]{2}[A-Z](?![A-Z])")
_SECTION = re.compile(r"[A-H]")
_SECTIONS_ONLY = re.compile(r"\s*[A-H](?:[\s,;|]+[A-H])*\s*")

# Headers seen in tables of patents, the best first; a user's own go before them.
COLUMN_NAMES = {
    "title": (
        "title",
        "invention_title",
        "patent_title",
        "发明名称",
        "专利名称",
        "标题",
        "名称",
        "publication_title_claims",
    ),
    "abstract": ("abstract", "patent_abstract", "摘要", "application_type_abstract"),
    "ipc": (
        "ipc",
        "ipc_codes",
        "ipc_code",
        "ipcr",
        "IPC分类号",
        "国际分类号",
        "分类号",
        "label",
        "labels",
    ),
    "id": ("id", "publication_number", "patent_number", "公开号", "公开(公告)号", "申请号"),
}
EXPECTS_TABLE = (
    "a CSV or TSV table with the columns title, abstract and ipc "
    "(name others with --column title=NAME)"
)


def ipc_subclasses(text: str) -> tuple[str, ...]:
    """The IPC subclasses, first four characters of each code, in the order they come.

    Where the text has bare sections and no more, as some tables do, it is the sections.

    Examples:
        >>> ipc_subclasses("G06F 17/30(2006.01)I; H04L29/06; G06F9/46")
        ('G06F', 'H04L')
        >>> ipc_subclasses("G,H")
        ('G', 'H')
    """
    code = _SECTION if _SECTIONS_ONLY.fullmatch(text) else _SUBCLASS
    return tuple(dict.fromkeys(code.findall(text.upper())))


def check_parts(raw: Path, files: Sequence[RawFile]) -> None:
    """Refuse files of which some are called after a part (train, dev, test) and others are not.

    Such rows would be divided anew with the others, the publisher's test rows into training.
    """
    parts = {file.name: split_name(file.name.partition(".")[0]) for file in files}
    named = [name for name, part in parts.items() if part is not None]
    others = [name for name, part in parts.items() if part is None]
    if named and others:
        raise UserError(
            f"{raw}: {name_all(named, 5)} {'is a part' if len(named) == 1 else 'are parts'} of a "
            f"split by name, and {name_all(others, 5)} {'is' if len(others) == 1 else 'are'} none; "
            "take the one or the other out of the folder, or, to divide all rows anew, give all "
            "of them other names than train, validation and test"
        )


def table_records(file: RawFile, reading: Reading) -> Iterator[Record]:
    """Read a table of patents: title, abstract, and IPC codes in one cell.

    A file called after a part (train, dev, test) is that part of a predefined split.
    """
    split = split_name(file.name.partition(".")[0])
    rows = table(file, reading)
    _, header = next(rows)
    title, abstract, ipc = (
        _column(file, header, what, reading) for what in COLUMN_NAMES if what != "id"
    )
    identifier = _column(file, header, "id", reading, optional=True)
    for line, cells in rows:
        if len(cells) != len(header):
            reading.reject(file, line, f"{counted(len(cells), 'column')}, expected {len(header)}")
            continue
        labels = ipc_subclasses(cells[ipc])
        if labels:
            name = f"{file.name}:{line}" if identifier < 0 else cells[identifier]
            yield Record(name, (cells[title], cells[abstract]), labels, split)
        else:
            reading.leave_out("no IPC code")


def _column(
    file: RawFile, header: Sequence[str], what: str, reading: Reading, *, optional: bool = False
) -> int:
    """Where a column stands, by the user's name for it or a usual one; -1 if it may be absent."""
    names = (reading.columns[what],) if what in reading.columns else COLUMN_NAMES[what]
    known = {name.strip().casefold(): index for index, name in enumerate(header)}
    for name in names:
        if name.casefold() in known:
            return known[name.casefold()]
    if optional and what not in reading.columns:
        return -1
    raise UserError(
        f"{file}, line 1: no column {names[0]}; the columns are {name_all(header)}; "
        f"name it with --column {what}=NAME"
    )

"""CNIPA: Chinese patents with their IPC subclasses, by title and by abstract."""

from collections.abc import Iterator
from pathlib import Path

from zlpr.data.sources._archives import find
from zlpr.data.sources._patents import EXPECTS_TABLE, check_parts, table_records
from zlpr.data.sources._rows import Reading
from zlpr.data.sources._source import Record, Source


def records(raw: Path, reading: Reading) -> Iterator[Record]:
    """Read tables of title, abstract and IPC codes; the labels are the codes' subclasses.

    Designs, which carry Locarno instead of IPC classes, are left out.
    """
    files = find(raw, "*.csv", "*.tsv", expects=EXPECTS_TABLE)
    check_parts(raw, files)
    for file in files:
        yield from table_records(file, reading)


SOURCE = Source(
    name="CNIPA",
    sets=("CNIPA-Title", "CNIPA-Abstract"),
    summary="Chinese patents with IPC subclasses (National Intellectual Property Administration)",
    address="http://patdata1.cnipa.gov.cn/",
    terms="free after registration with proof of identity; not to be passed on to others as it is",
    expects=EXPECTS_TABLE,
    records=records,
    instructions=(
        "Register at the office's data service, choose Chinese bibliographic data, and make a "
        "table of it with the columns title, abstract and ipc. The paper's 212,095 patents are "
        "not published as a set."
    ),
)

"""USPTO: United States patents with their IPC subclasses, by title and by abstract."""

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

from zlpr.data.sources._archives import RawFile, find
from zlpr.data.sources._patents import EXPECTS_TABLE, check_parts, ipc_subclasses, table_records
from zlpr.data.sources._rows import Reading
from zlpr.data.sources._source import Record, Source

ROOT = "us-patent-grant"
FRONT_PAGE = "us-bibliographic-data-grant"
EXPECTS = f"weekly grant files such as ipg240102.xml or ipg240102.zip, or {EXPECTS_TABLE}"

_DECLARATION = re.compile(rb"<\?xml\s")
_BEGINNING = len(b"<?xml")
_CHUNK = 1 << 16
_BITE = 1 << 12  # small, so that little is parsed in vain
_TAIL = 200
_SPACE = b" \t\r\n\xef\xbb\xbf"
# What follows the abstract in a grant, and is most of it: parsing stops where one of them starts.
_BODY = frozenset({"drawings", "description", "claims"})
# Long lists on the front page, forgotten as soon as they are read.
_LISTS = frozenset({"us-citation", "citation", "relation", "us-related-documents"})


def records(raw: Path, reading: Reading) -> Iterator[Record]:
    """Read weekly grant files, or else tables of title, abstract and IPC codes.

    Grants without an IPC class (designs) are left out, as are documents that are no grants
    (sequence listings).
    """
    files = find(raw, "*.xml", "*.csv", "*.tsv", expects=EXPECTS)
    check_parts(raw, [file for file in files if not file.name.lower().endswith(".xml")])
    for file in files:
        if file.name.lower().endswith(".xml"):
            yield from grant_records(file, reading)
        else:
            yield from table_records(file, reading)


def grant_records(file: RawFile, reading: Reading) -> Iterator[Record]:
    """Stream the grants of a week: many XML documents, one after another, in one file.

    Memory holds a chunk of the file and the front page of one grant. Entities are not expanded,
    no DTD is loaded and nothing is fetched.
    """
    line = 1
    with file.open(reading.advance) as stream:
        for _, pieces in groupby(_pieces(stream), key=itemgetter(0)):
            document = _Document()
            document.read(piece for _, piece in pieces)
            if document.problem:
                reading.reject(
                    file,
                    line + document.problem_line,
                    document.problem,
                    column=document.problem_column,
                )
            elif document.root:
                yield from _record_of(document, reading)
            line += document.newlines


def _pieces(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """The file in pieces, each with the number of the document that it belongs to."""
    number, held = 0, b""
    while chunk := stream.read(_CHUNK):
        held += chunk
        start, end = 0, max(0, len(held) - _BEGINNING)  # the next declaration may have begun
        for declaration in _DECLARATION.finditer(held):
            yield number, held[start : declaration.start()]
            number, start = number + 1, declaration.start()
        yield number, held[start:end]
        held = held[end:]
    yield number, held


def _record_of(document: "_Document", reading: Reading) -> Iterator[Record]:
    if document.root != ROOT:
        reading.leave_out("document that is no grant")
    elif not document.labels:
        reading.leave_out("no IPC code")
    else:
        yield Record(document.number, (document.title, document.abstract), document.labels)


@dataclass
class _Document:
    """What a document holds as far as its abstract, and whether it was whole."""

    root: str = ""
    number: str = ""
    title: str = ""
    abstract: str = ""
    labels: tuple[str, ...] = ()
    newlines: int = 0
    problem: str = ""
    problem_line: int = 0
    problem_column: int | None = None

    def read(self, pieces: Iterable[bytes]) -> None:
        """Parse up to the abstract's end; of the rest, see only that it ends as it should."""
        from lxml import etree

        parser = etree.XMLPullParser(
            events=("start", "end"), resolve_entities=False, load_dtd=False, no_network=True
        )
        parsing, tail = True, b""
        for piece in pieces:
            self.newlines += piece.count(b"\n")
            tail = (tail + piece).strip(_SPACE)[-_TAIL:]
            if parsing and tail:
                with self._noting(etree.XMLSyntaxError):
                    parsing = self._parse(parser, piece)
                parsing = parsing and not self.problem
        if parsing and tail:
            with self._noting(etree.XMLSyntaxError):
                parser.close()
        elif tail and not self.problem and not tail.endswith(f"</{self.root}>".encode()):
            self.problem = f"the document that starts here is cut short: no </{self.root}>"

    @contextlib.contextmanager
    def _noting(self, syntax_error: type[Any]) -> Iterator[None]:
        try:
            yield
        except syntax_error as wrong:
            reason = wrong.msg.partition(", line ")[0]  # its lines count from the document's first
            self.problem = f"not well-formed XML ({' '.join(reason.split())[:200]})"
            self.problem_line, self.problem_column = wrong.position[0] - 1, wrong.position[1]

    def _parse(self, parser: Any, piece: bytes) -> bool:
        """Parse a piece and say whether more is wanted."""
        for start in range(0, len(piece), _BITE):
            parser.feed(piece[start : start + _BITE])
            if not all(self._take(event, element) for event, element in parser.read_events()):
                return False
        return True

    def _take(self, event: str, element: Any) -> bool:
        """Take what is wanted from an element and say whether to go on."""
        tag = element.tag
        if event == "start":
            self.root = self.root or tag
            return self.root == ROOT and tag not in _BODY
        if tag == FRONT_PAGE:
            self._take_front_page(element)
        elif tag == "abstract":
            self.abstract = self.abstract or _text(element)
        if tag in _LISTS or tag == FRONT_PAGE:
            element.clear()
        return True

    def _take_front_page(self, page: Any) -> None:
        self.number = page.findtext("publication-reference/document-id/doc-number", "").strip()
        title = page.find("invention-title")
        self.title = "" if title is None else _text(title)
        codes = [
            "".join(
                (code.findtext(part) or "").strip() for part in ("section", "class", "subclass")
            )
            or _text(code)
            for code in page.iterfind("classifications-ipcr/classification-ipcr")
        ]
        codes += [_text(code)[:4] for code in page.iterfind("classification-ipc/*")]
        self.labels = ipc_subclasses(" ".join(codes))


def _text(element: Any) -> str:
    """The text inside an element, white space made even; entities and comments stay unread."""
    return " ".join("".join(_texts(element)).split())


def _texts(element: Any) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if isinstance(child.tag, str):
            yield from _texts(child)
        yield child.tail or ""


SOURCE = Source(
    name="USPTO",
    sets=("USPTO-Title", "USPTO-Abstract"),
    summary="United States patents with IPC subclasses (Patent and Trademark Office)",
    address="https://data.uspto.gov/bulkdata/datasets/ptgrxml",
    terms="public domain in general; see https://www.uspto.gov/terms-use-uspto-websites",
    expects=EXPECTS,
    records=records,
    instructions=(
        "Needs a free account and its API key. Download 'Patent Grant Full-Text Data (No Images) - "
        "XML', weekly zip files of about 8,000 grants each; a year of them has the size of the "
        "paper's set (353,701), which does not say which weeks it took."
    ),
    not_known=(
        "which weeks the paper took; the address is where the office publishes the files now, and "
        "may differ from that in the paper's footnote"
    ),
)

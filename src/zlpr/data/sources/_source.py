"""What is known of a public source, and one sample of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from zlpr.data.dataset import SplitName
from zlpr.data.sources._rows import Reading


@dataclass(frozen=True)
class RemoteFile:
    """A file with a public address.

    Attributes:
        url: where it is.
        sha256: its checksum where one is known from a second public place, else "": then the
            checksum of the first download is kept beside the file and holds from then on.
    """

    url: str
    sha256: str = ""

    @property
    def name(self) -> str:
        """What the file is called on disk."""
        return self.url.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Record:
    """One sample: a text for each of the source's sets, and the labels they share."""

    id: str
    texts: tuple[str, ...]
    labels: tuple[str, ...]
    split: SplitName | None = None


@dataclass(frozen=True)
class Source:
    """A publisher's data and how to read it.

    Attributes:
        name: what the paper calls it.
        sets: the data sets made from it, one for each text of a record.
        summary: what it is, in a line.
        address: the publisher's page.
        terms: under what terms the data is given.
        expects: the files that `records` reads, for the message where they are not there.
        records: reads a folder or a file, sample by sample.
        label_names: the labels in the publisher's order; empty where the data defines them.
        files: what can be fetched without an account.
        instructions: how to get the data where `files` is empty.
        not_known: what the paper does not say, or nobody could check, about its use of the data.
    """

    name: str
    sets: tuple[str, ...]
    summary: str
    address: str
    terms: str
    expects: str
    records: Callable[[Path, Reading], Iterator[Record]]
    label_names: tuple[str, ...] = ()
    files: tuple[RemoteFile, ...] = ()
    instructions: str = ""
    not_known: str = ""

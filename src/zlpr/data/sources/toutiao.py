"""Toutiao: Chinese news headlines with the categories that the publisher's app gave them."""

from collections.abc import Iterator
from pathlib import Path

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.data.sources._archives import RawFile, find
from zlpr.data.sources._rows import Reading, lines
from zlpr.data.sources._source import Record, Source

SEPARATOR = "|,|"
FIELDS = ("id", "codes", "title", "keywords", "label")
EXPECTS = "mlc_dataset.txt with lines of id|,|codes|,|title|,|keywords|,|label"


def records(raw: Path, reading: Reading) -> Iterator[Record]:
    """Read headlines with their categories.

    A code is a path such as `digital/appliances/fridge`; the label is its first step (`digital`).
    That is our choice: the paper does not say how it made its 142 categories. The publisher's list
    has 1,070 codes, 601 different first two steps and 160 different first steps, so that no depth
    gives 142, and the first step comes nearest. The paper's set (659,870 headlines, 1.53 labels
    each) is a part of the published file, chosen in a way it does not describe; this reads the
    whole file.
    """
    for file in _headline_files(raw, reading):
        for line, text in lines(file, reading):
            fields = text.split(SEPARATOR)
            if len(fields) < len(FIELDS) - 1:
                expected = f"at least {len(FIELDS) - 1} (id, codes, title, keywords)"
                found = counted(len(fields), "field")
                reading.reject(file, line, f"{found} divided by '|,|', expected {expected}")
                continue
            labels = dict.fromkeys(code.strip().partition("/")[0] for code in fields[1].split(","))
            labels.pop("", None)
            if labels:
                yield Record(fields[0], (fields[2],), tuple(labels))
            else:
                reading.leave_out("no category")


def _headline_files(raw: Path, reading: Reading) -> list[RawFile]:
    """The files whose first line is a headline; the publisher's list of categories has none."""
    files = find(raw, "mlc_dataset*", "*.txt", expects=EXPECTS)
    quiet = Reading(encoding=reading.encoding)
    hits = [file for file in files if SEPARATOR in next(lines(file, quiet), (0, ""))[1]]
    if not hits:
        raise UserError(f"{files[0]}, line 1: no '|,|'; expected {EXPECTS}")
    return hits


SOURCE = Source(
    name="Toutiao",
    sets=("Toutiao",),
    summary="Chinese news headlines by category (Toutiao app, June 2018)",
    address="https://github.com/skdjfla/toutiao-multilevel-text-classfication-dataset",
    terms="none stated by the publisher; the headlines are their authors'",
    expects=EXPECTS,
    records=records,
    instructions=(
        "Clone the repository and unpack its data file, mlc_dataset, which the publisher keeps in "
        "parts."
    ),
    not_known=(
        "how the paper made its 142 categories (the publisher's list has 160 first steps, which "
        "are the labels here, and 1,070 codes) and which 659,870 of the headlines it took; the "
        "repository has stood under several accounts (fate233, aceimnorstuvwxz, skdjfla), so that "
        "its address may differ from that in the paper's footnote"
    ),
)

"""Archive: arXiv papers in six fields, by title and by abstract."""

from collections.abc import Iterator
from pathlib import Path

from zlpr.data.sources._archives import find_one
from zlpr.data.sources._rows import Reading, indicated, rows_of
from zlpr.data.sources._source import Record, Source

LABELS = (
    "Computer Science",
    "Physics",
    "Mathematics",
    "Statistics",
    "Quantitative Biology",
    "Quantitative Finance",
)
EXPECTS = f"train.csv with the columns ID, TITLE, ABSTRACT, {', '.join(LABELS)}"


def records(raw: Path, reading: Reading) -> Iterator[Record]:
    """Read the contest's `train.csv`; its `test.csv` has no labels and stays aside."""
    file = find_one(raw, "train.csv", "*.csv", expects=EXPECTS)
    for line, (identifier, title, abstract, *cells) in rows_of(
        file, reading, ("ID", "TITLE", "ABSTRACT", *LABELS)
    ):
        labels = indicated(file, line, LABELS, cells, reading)
        if labels is not None:
            yield Record(identifier, (title, abstract), labels)


SOURCE = Source(
    name="Archive",
    sets=("Archive-Title", "Archive-Abstract"),
    summary="arXiv papers in six fields (Janatahack contest, August 2020)",
    address="https://www.kaggle.com/datasets/blessondensil294/topic-modeling-for-research-articles",
    terms="as the page states; the abstracts are their authors', by way of arXiv",
    expects=EXPECTS,
    records=records,
    label_names=LABELS,
    instructions="Needs a Kaggle account. Download the archive from the page; it holds train.csv.",
    not_known=(
        "whether this is the copy of the contest's files that the paper used; the address may "
        "differ from that in the paper's footnote"
    ),
)

"""Toxic: Wikipedia talk-page comments with six kinds of toxicity; nine in ten have none."""

from collections.abc import Iterator
from pathlib import Path

from zlpr.data.sources._archives import find_one
from zlpr.data.sources._rows import Reading, indicated, rows_of
from zlpr.data.sources._source import Record, Source

LABELS = ("toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate")
EXPECTS = f"train.csv with the columns id, comment_text, {', '.join(LABELS)}"


def records(raw: Path, reading: Reading) -> Iterator[Record]:
    """Read the competition's `train.csv`; a comment with no label is a sample with an empty set."""
    file = find_one(raw, "train.csv", "*.csv", expects=EXPECTS)
    for line, (identifier, text, *cells) in rows_of(file, reading, ("id", "comment_text", *LABELS)):
        labels = indicated(file, line, LABELS, cells, reading)
        if labels is not None:
            yield Record(identifier, (text,), labels)


SOURCE = Source(
    name="Toxic",
    sets=("Toxic",),
    summary="Wikipedia talk-page comments rated for six kinds of toxicity (Jigsaw)",
    address="https://www.kaggle.com/c/jigsaw-toxic-comment-classification-challenge/data",
    terms="CC0; the comments themselves under Wikipedia's CC BY-SA 3.0",
    expects=EXPECTS,
    records=records,
    label_names=LABELS,
    instructions=(
        "Needs a Kaggle account that has accepted the competition's rules. Download train.csv.zip "
        "from the page, or run\n"
        "  kaggle competitions download -c jigsaw-toxic-comment-classification-challenge"
    ),
)

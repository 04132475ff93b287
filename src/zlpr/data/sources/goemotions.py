"""GoEmotions: Reddit comments with 27 emotions or none; raw ratings, and the simplified split."""

from collections.abc import Iterator
from pathlib import Path

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.data.dataset import SplitName
from zlpr.data.problems import quote
from zlpr.data.sources._archives import RawFile, find
from zlpr.data.sources._rows import Reading, indicated, lines, rows_of
from zlpr.data.sources._source import Record, RemoteFile, Source

LABELS = (
    "admiration",
    "amusement",
    "anger",
    "annoyance",
    "approval",
    "caring",
    "confusion",
    "curiosity",
    "desire",
    "disappointment",
    "disapproval",
    "disgust",
    "embarrassment",
    "excitement",
    "fear",
    "gratitude",
    "grief",
    "joy",
    "love",
    "nervousness",
    "optimism",
    "pride",
    "realization",
    "relief",
    "remorse",
    "sadness",
    "surprise",
    "neutral",
)
SPLIT_FILES: dict[str, SplitName] = {
    "train.tsv": "train",
    "dev.tsv": "validation",
    "test.tsv": "test",
}
EXPECTS_RAW = "goemotions_1.csv, goemotions_2.csv and goemotions_3.csv"
EXPECTS_SIMPLIFIED = "train.tsv, dev.tsv and test.tsv with the columns text, label ids, id"
_BUCKET = "https://storage.googleapis.com/gresearch/goemotions/data/full_dataset/"
_REPOSITORY = "https://raw.githubusercontent.com/google-research/google-research/master/goemotions/"
_ADDRESS = "https://github.com/google-research/google-research/tree/master/goemotions"
_TERMS = "Apache License 2.0; the comments are their authors', by way of Reddit"


def raw_records(raw: Path, reading: Reading) -> Iterator[Record]:
    """Read the raw ratings, the paper's set: a row for each rater's reading of a comment.

    A row that its rater found too unclear to rate has no label: a sample with an empty set, as
    in the paper. The same comment comes once for each of its raters; its id tells which.
    """
    for file in find(raw, "goemotions_*.csv", "*.csv", expects=EXPECTS_RAW):
        for line, (text, comment, rater, *cells) in rows_of(
            file, reading, ("text", "id", "rater_id", *LABELS)
        ):
            labels = indicated(file, line, LABELS, cells, reading)
            if labels is not None:
                yield Record(f"{comment}/{rater}", (text,), labels)


def simplified_records(raw: Path, reading: Reading) -> Iterator[Record]:
    """Read the published split of the comments on which raters agreed."""
    files = {file.name: file for file in find(raw, "*.tsv", expects=EXPECTS_SIMPLIFIED)}
    missing = SPLIT_FILES.keys() - files.keys()
    if missing:
        raise UserError(f"{raw}: no {', '.join(sorted(missing))}; expected {EXPECTS_SIMPLIFIED}")
    for name, split in SPLIT_FILES.items():
        for line, text in lines(files[name], reading):
            record = _simplified_record(files[name], line, text, split, reading)
            if record is not None:
                yield record


def _simplified_record(
    file: RawFile, line: int, row: str, split: SplitName, reading: Reading
) -> Record | None:
    cells = row.split("\t")
    if len(cells) != 3:
        reading.reject(
            file, line, f"{counted(len(cells), 'column')}, expected 3 (text, label ids, id)"
        )
        return None
    numbers = cells[1].split(",")
    wrong = [n for n in numbers if not (n.isdecimal() and len(n) < 9 and int(n) < len(LABELS))]
    if wrong:
        reading.reject(
            file, line, f"expected label ids from 0 to 27, got {quote(wrong[0])}", column=2
        )
        return None
    return Record(cells[2], (cells[0],), tuple(LABELS[int(n)] for n in numbers), split)


RAW = Source(
    name="GoEmotions",
    sets=("GoEmotions",),
    summary="Reddit comments with 27 emotions or none, each rater's reading (Google Research)",
    address=_ADDRESS,
    terms=_TERMS,
    expects=EXPECTS_RAW,
    records=raw_records,
    label_names=LABELS,
    files=(
        RemoteFile(
            _BUCKET + "goemotions_1.csv",
            "cac049036bad5d68d1081f72b65f2cc51e4df82af05e3e22cfa747051cac1af3",
        ),
        RemoteFile(
            _BUCKET + "goemotions_2.csv",
            "f699ecc5aa425c1720c1d02475f1e41815244b680bd75b282eb770d2c76cd84d",
        ),
        RemoteFile(
            _BUCKET + "goemotions_3.csv",
            "467f1e7191af00f2e76cc7f425885c2dc304bea8aff284b10e8c460d22f2e1af",
        ),
    ),
)
SIMPLIFIED = Source(
    name="GoEmotions-Simplified",
    sets=("GoEmotions-Simplified",),
    summary="GoEmotions where raters agreed, with its published split; not one of the paper's",
    address=_ADDRESS,
    terms=_TERMS,
    expects=EXPECTS_SIMPLIFIED,
    records=simplified_records,
    label_names=LABELS,
    files=(
        RemoteFile(
            _REPOSITORY + "data/train.tsv",
            "1c254a142be5c00e80d819b9ae1bbd36d94b2eeb8f4b1271846508d57e57d9c5",
        ),
        RemoteFile(
            _REPOSITORY + "data/dev.tsv",
            "575489c079c9de1097062a01738f998590d6b7ead66dd1c9fd1d2ba01fd8bc62",
        ),
        RemoteFile(
            _REPOSITORY + "data/test.tsv",
            "0587b2dd8b27b97352adbfc3fb083d46005c8946657fdc2b1ca8b1cc7f1f8be4",
        ),
    ),
)

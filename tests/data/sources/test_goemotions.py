import shutil

import pytest

from tests.data.sources.test_sources import FILES
from zlpr._errors import UserError
from zlpr.data.sources import prepare
from zlpr.data.sources.goemotions import LABELS

SIMPLIFIED = FILES / "goemotions-simplified"


def test_each_raters_reading_is_a_sample():
    data = prepare("GoEmotions", FILES / "goemotions").datasets["GoEmotions"]
    assert data.label_names == LABELS
    assert data.ids == ["c1/5", "c1/9", "c2/5", "c3/2", "c4/2"]
    assert data.label_sets() == [
        ("joy", "surprise"),
        ("excitement",),
        (),
        ("gratitude",),
        ("neutral",),
    ]


def test_simplified_ids_are_names_in_the_publishers_order():
    data = prepare("GoEmotions-Simplified", SIMPLIFIED).datasets["GoEmotions-Simplified"]
    assert len(LABELS) == 28
    assert data.label_sets() == [("amusement", "surprise"), ("neutral",), ("pride",), ("remorse",)]
    assert data.texts[0] == 'The cake "leaned" like a tower'


def test_missing_part_of_the_split_is_named(tmp_path):
    shutil.copy(SIMPLIFIED / "train.tsv", tmp_path)
    with pytest.raises(UserError, match=r"no dev\.tsv, test\.tsv"):
        prepare("GoEmotions-Simplified", tmp_path)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("only text\n", ": 1 column, expected 3"),
        ("text\t28\tid\n", ", column 2: expected label ids from 0 to 27, got '28'"),
        (f"text\t{'9' * 5000}\tid\n", ", column 2: expected label ids from 0 to 27, got '999"),
        ("text\tjoy\tid\n", ", column 2: expected label ids from 0 to 27, got 'joy'"),
    ],
)
def test_bad_rows_are_reported(row, problem, tmp_path):
    shutil.copytree(SIMPLIFIED, tmp_path, dirs_exist_ok=True)
    with (tmp_path / "dev.tsv").open("a") as file:
        file.write(row)
    with pytest.raises(UserError, match=rf"dev\.tsv, line 2{problem}"):
        prepare("GoEmotions-Simplified", tmp_path)

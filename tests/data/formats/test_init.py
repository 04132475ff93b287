"""Formats are found by name, by ending and by first lines."""

import pytest

from zlpr._errors import UserError
from zlpr.data import FORMATS, read


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ('{"text": "a", "labels": ["b"]}\n', "jsonl"),
        ('[{"text": "a", "labels": ["b"]}]', "json"),
        ("__label__b a word\n", "fasttext"),
        ("1 2 3\n0,2 0:1.5 1:2\n", "svm"),
        ("0,2 1:1.5 2:2\n", "svm"),
        ("@relation 'x: -C 1'\n@attribute b {0,1}\n@attribute f numeric\n@data\n1,2\n", "mulan"),
        ("% a comment\n@relation 'x: -C 1'\n@attribute b {0,1}\n@data\n1\n", "mulan"),
        ("text\tlabels\na\tb\n", "tsv"),
        ("text,labels\na,b\n", "csv"),
        ('"labels";"text"\n"b";"a"\n', "csv"),
        ("7\tb c\ta longer text here\n8\tb\tyet another text there\n", "libmultilabel"),
        ("b c\ta longer text here\nb\tyet another text there\n", "libmultilabel"),
    ],
)
@pytest.mark.parametrize("ending", [".txt", ""])
def test_formats_are_recognised_by_their_first_lines(tmp_path, content, name, ending):
    path = tmp_path / f"data{ending}"
    path.write_text(content)
    found, said = read(path), read(path, format=name)
    assert found.label_sets() == said.label_sets()
    assert "b" in found.label_names or name == "svm"
    assert (found.texts is None) == (name in ("svm", "mulan"))


def test_a_format_that_cannot_be_told(tmp_path):
    (tmp_path / "data").write_text("just a line of words\n")
    with pytest.raises(UserError, match=r"what format is it\? Name one of jsonl, json, csv"):
        read(tmp_path / "data")
    with pytest.raises(UserError, match=r"no format 'xml'; the formats are jsonl"):
        read(tmp_path / "data", format="xml")


def test_json_lines_that_are_called_json(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"text": "x", "labels": []}\n{"text": "y", "labels": []}\n')
    assert len(read(path)) == 2


def test_every_ending_belongs_to_one_format():
    endings = [suffix for entry in FORMATS.values() for suffix in entry.suffixes]
    assert len(endings) == len(set(endings))

"""Formats are found by name, by ending and by first lines."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
    with pytest.raises(
        UserError,
        match=r"no file format 'xml'; there are: jsonl",
    ):
        read(tmp_path / "data", format="xml")


def test_json_lines_that_are_called_json(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"text": "x", "labels": []}\n{"text": "y", "labels": []}\n')
    assert len(read(path)) == 2


def test_every_ending_belongs_to_one_format():
    endings = [suffix for entry in FORMATS.values() for suffix in entry.suffixes]
    assert len(endings) == len(set(endings))


VALID = {
    "jsonl": b'{"text": "a", "labels": ["b", 3], "id": 1}\n{"text": "c", "labels": []}\n',
    "json": b'[{"text": "a", "labels": ["b"]}, {"text": "c", "labels": [1]}]',
    "csv": b'id,text,labels,split\n1,"a ""b""\n",x|y,train\n2,c,,test\n',
    "tsv": b"text\tlabels\na\tx,y\n\"b\"\t['z']\n",
    "fasttext": b"__label__a some words\n__label__b more words\n",
    "libmultilabel": b"1\ta b\tsome words\n2\ta\tmore words\n",
    "svm": b"2 3 4\n0,1 0:1.5 2:-1e3\n 1:2\n",
    "mulan": b"@relation 'r: -C 1'\n@attribute 'l' {0,1}\n@attribute f numeric\n"
    b"@attribute g {a,'b c'}\n@data\n1,2.5,a\n0,1,'b c'\n{0 1,1 2}\n",
}


@pytest.mark.parametrize("name", sorted(VALID))
@given(
    cut=st.integers(0, 120),
    length=st.integers(0, 10),
    put=st.one_of(
        st.binary(max_size=6),
        st.sampled_from([b'"', b"'", b"\n", b"\t", b"{", b"[", b",", b"9" * 30]),
    ),
    skip=st.booleans(),
    guess=st.booleans(),
)
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_whatever_a_file_holds_it_is_read_or_refused(tmp_path, name, cut, length, put, skip, guess):
    content = VALID[name]
    path = tmp_path / "data"
    path.write_bytes(content[:cut] + put + content[cut + length :])
    message = None
    try:
        data = read(path, format=None if guess else name, skip_bad_rows=skip)
    except UserError as refused:
        message = str(refused)
    if message is None:
        assert len(data) > 0
        assert len(data.label_names) == len(set(data.label_names))
    else:
        assert str(path) in message
        assert message.isprintable()

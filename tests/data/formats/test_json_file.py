import json

import pytest

from zlpr._errors import UserError
from zlpr.data import read
from zlpr.data.formats import json_file


def _read(tmp_path, content, **how):
    path = tmp_path / "a.json"
    path.write_text(content, encoding="utf-8")
    return read(path, format="json", **how)


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_of_objects(tmp_path, indent):
    rows = [{"text": f"text {i}", "labels": [f"l{i % 3}"]} for i in range(3000)]
    data = _read(tmp_path, json.dumps(rows, indent=indent))
    assert list(data.texts) == [row["text"] for row in rows]
    assert data.label_sets() == [tuple(row["labels"]) for row in rows]


def test_rows_carry_the_line_where_they_start(tmp_path):
    content = (
        '[\n  {\n    "text": "a",\n    "labels": []\n  },\n\n  {"text": 5, "labels": []}, 7\n]\n'
    )
    message = r"2 bad rows: line 7, column 'text'.*; line 7: expected a JSON object, got 7"
    with pytest.raises(UserError, match=message):
        _read(tmp_path, content)
    data = _read(tmp_path, content, skip_bad_rows=True)
    assert len(data) == 1
    assert "dropped 2 of 3 rows" in data.notes[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"text": "a"}', r"line 1, column 1: expected '\['"),
        ('[{"text": "a", "labels": []}', r"line 1, column 29: expected ',' or '\]'"),
        ('[{"text": "a", "labels": []},]', r"line 1, column 30: not JSON: Expecting value"),
        ('[{"text": "a", "labels": []}]\n x', r"line 2, column 2: expected nothing after"),
        ('[\n{"text": "a",\n  "labels": [}]', r"line 3, column 14: not JSON"),
        ("[" + "9" * 5000 + "]", r"line 1, column 2: a number of thousands of digits"),
        ("[" * 100_000, r"line 1, column \d+: (not JSON|nested too deeply)"),
    ],
)
def test_a_syntax_error_ends_the_reading_even_when_bad_rows_are_skipped(tmp_path, content, message):
    with pytest.raises(UserError, match=rf"a.json, {message}"):
        _read(tmp_path, content, skip_bad_rows=True)


def test_an_empty_array(tmp_path):
    with pytest.raises(UserError, match="no rows"):
        _read(tmp_path, " [ ] ")


def test_a_file_larger_than_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(json_file, "MAX_TEXT", 100)
    with pytest.raises(UserError, match="larger than the limit of 100 characters"):
        _read(tmp_path, json.dumps([{"text": "x" * 200, "labels": []}]))

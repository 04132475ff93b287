import json

import pytest

from zlpr._errors import UserError
from zlpr.data import iterate, read
from zlpr.data.formats.json_lines import columns_of


def _read(tmp_path, content, **how):
    path = tmp_path / "a.jsonl"
    path.write_text(content, encoding="utf-8")
    return read(path, **how)


def test_names_and_ids_and_chinese(tmp_path):
    data = _read(
        tmp_path,
        '{"text": "水壶漏水", "labels": ["厨房", "坏"], "id": 7}\n'
        '{"labels": [], "text": "\\u706f", "id": "x", "more": {"deep": [1]}}\n',
    )
    assert list(data.texts) == ["水壶漏水", "灯"]
    assert data.label_sets() == [("厨房", "坏"), ()]
    assert data.ids == ["7", "x"]


def test_blank_lines_and_white_space_around_rows(tmp_path):
    data = _read(tmp_path, '\n  {"text": "a", "labels": []}  \r\n\n{"text": "b", "labels": []}')
    assert list(data.texts) == ["a", "b"]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"text": "a", "labels": ["b"]', r"line 2, column 30: not JSON: Expecting ',' delimiter"),
        ('{"text": "a" "labels": []}', r"line 2, column 14: not JSON"),
        ('{"text": "a", "labels": []} x', r"line 2, column 29: not JSON: Extra data"),
        ('{"text": "a", "labels": []}{"text": "b", "labels": []}', r"line 2, column 28"),
        ('["a", ["b"]]', r"line 2, column 1: expected a JSON object, got \['a', \['b'\]\]"),
        ('{"labels": ["b"]}', r"line 2, column 'text': missing, expected a text"),
        ('{"text": null, "labels": []}', r"line 2, column 'text': expected a text, got None"),
        ('{"text": "a"}', r"line 2, column 'labels': expected a list of labels, got nothing"),
        ('{"text": "a", "labels": null}', r"line 2, column 'labels': expected a list.*None"),
        ('{"text": "a", "labels": [""]}', r"line 2, column 'labels': .*got an empty one"),
        ('{"text": "a", "labels": ["\\udc00"]}', r"line 2, column 'labels': half of a surrogate"),
        ('{"text": "a", "labels": [true]}', r".*label names or integer ids, got True"),
        ('{"text": "a", "labels": [1.5]}', r".*label names or integer ids, got 1.5"),
        ('{"text": "a", "labels": [["b"]]}', r".*label names or integer ids, got \['b'\]"),
        ('{"text": "a", "labels": {"b": 1}}', r".*expected a list of labels, got \{'b': 1\}"),
        (
            '{"text": "\\ud83d", "labels": []}',
            r".*half of a surrogate pair \(\\ud83d\) at char.* 1",
        ),
        ('{"text": "a", "labels": [' + "9" * 5000 + "]}", r"line 2: not read: a number of thous"),
        ("[" * 100_000, r"line 2: not read: nested too deeply"),
    ],
)
def test_a_bad_row_among_good_ones(tmp_path, row, message):
    good = '{"text": "a", "labels": ["b"]}\n'
    with pytest.raises(UserError, match=rf"a.jsonl, {message}"):
        _read(tmp_path, f"{good}{row}\n{good}")
    assert len(_read(tmp_path, f"{good}{row}\n{good}", skip_bad_rows=True)) == 2


def test_rows_that_only_together_would_be_json_are_both_bad(tmp_path):
    with pytest.raises(UserError, match="2 bad rows"):
        _read(tmp_path, '{"text": "a", "labels": [{}\n{}]},{"text": "b", "labels": []}\n')


def test_a_bad_row_far_into_the_file_has_the_right_number(tmp_path):
    good = '{"text": "some words that fill the line", "labels": ["a", "b"]}\n'
    with pytest.raises(UserError, match="line 20001, column 1: not JSON"):
        _read(tmp_path, good * 20_000 + "oops\n" + good * 300)


def test_other_names_for_the_columns(tmp_path):
    row = '{"headline": "h", "body": "b", "topics": ["t"], "author": "me"}\n'
    assert list(_read(tmp_path, row).texts) == ["b"]
    data = _read(tmp_path, row, text=["headline", "body"], labels="topics", group="author")
    assert list(data.texts) == ["h b"]
    assert data.groups == ["me"]
    with pytest.raises(UserError, match="no column 'nope' for text; the columns are 'headline'"):
        _read(tmp_path, row, text="nope")


def test_a_key_per_label(tmp_path):
    rows = '{"text": "a", "rude": 1, "spam": 0}\n{"text": "b", "rude": true, "spam": false}\n'
    data = _read(tmp_path, rows, labels=["spam", "rude"])
    assert data.label_names == ("spam", "rude")
    assert data.label_sets() == [("rude",), ("rude",)]


def test_a_key_that_is_repeated_is_said(tmp_path):
    rows = ['{"text": "a \\"text\\" of text", "labels": ["a"]}'] * 300
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(rows))
    assert read(path).notes == ()
    rows[250] = '{"text": "x", "labels": ["a"], "other": {"text": 1}}'
    path.write_text("\n".join(rows))
    assert read(path).notes == ()
    rows[250] = '{"text": "x", "labels": ["a"], "text": "y"}'
    path.write_text("\n".join(rows))
    data = read(path)
    assert data.texts[250] == "y"
    assert "a.jsonl, line 251: the key 'text' appears more than once" in data.notes[0]
    path = tmp_path / "a.json"
    path.write_text("[\n" + ",\n".join(rows) + "]")
    assert "line 252: the key 'text' appears more than once" in read(path).notes[0]


def test_objects_that_have_no_keys_in_common(tmp_path):
    rows = [json.dumps({"text": "t", "labels": ["a"], f"key {i}": 1}) for i in range(20_000)]
    (tmp_path / "a.json").write_text("[" + ",".join(rows) + "]")
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    assert len(read(tmp_path / "a.json")) == len(read(tmp_path / "a.jsonl")) == 20_000


@pytest.mark.parametrize("count", [1, 1000, 3000])
def test_a_table_of_objects_with_no_keys_in_common_is_bounded(count):
    """All keys of all objects would be the square of their number."""
    columns = columns_of([{"text": "t", f"key {i}": 1} for i in range(count)])
    assert sum(map(len, columns.values())) <= 2_000_000
    assert columns["text"][0] == "t"


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_keys_that_the_first_rows_lack_are_said_not_to_be_read(tmp_path, name):
    rows = [{"text": "x" * 100, "labels": ["a"]} for _ in range(4000)]
    rows += [{**rows[0], "mood": "good"}, {**rows[0], "mood": "bad", "day": 3}]
    lines = list(map(json.dumps, rows))
    listed = name.endswith(".json")
    text = "[" + ",\n".join(lines) + "]" if listed else "\n".join(lines)
    (tmp_path / name).write_text(text, encoding="utf-8")
    note = "not read: 'mood', 'day', which the first rows lack (from line 4001 on)"
    assert read(tmp_path / name).notes == (f"{tmp_path / name}: {note}",)


@pytest.mark.parametrize("first", ["[URGENT] soup was cold", "{x} soup", "[1] soup"])
def test_lines_of_text_that_begin_as_json_are_no_riddle(tmp_path, first):
    (tmp_path / "notes.txt").write_text(f"{first}\nwarm soup\n")
    with pytest.raises(UserError, match="where each line is a text, say format='lines'"):
        list(iterate(tmp_path / "notes.txt", labelled=False))
    read_again = iterate(tmp_path / "notes.txt", labelled=False, format="lines")
    assert next(read_again).texts == [first, "warm soup"]

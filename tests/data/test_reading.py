"""What holds for all formats: labels, duplicates, unknown and empty sets, laziness."""

import json
import logging
import re

import pytest

from zlpr._errors import UserError
from zlpr.data import (
    Dataset,
    iterate,
    list_label_names,
    read,
)

ARFF = """@relation r
@attribute l {0,1}
@attribute m {0,1}
@attribute x numeric
@data
1,0,2
0,1,3
"""


def _jsonl(path, rows):
    lines = [json.dumps({"text": text, "labels": labels}) + "\n" for text, labels in rows]
    path.write_text("".join(lines))
    return path


def test_label_names_are_sorted_and_numbers_by_size(tmp_path):
    path = _jsonl(tmp_path / "a.jsonl", [("x", ["pear", "apple"]), ("y", ["fig"])])
    assert read(path).label_names == ("apple", "fig", "pear")
    path = _jsonl(tmp_path / "b.jsonl", [("x", [10, 2]), ("y", [33])])
    assert read(path).label_names == ("2", "10", "33")


def test_integer_ids_are_positions_in_the_label_names(tmp_path):
    path = _jsonl(tmp_path / "a.jsonl", [("x", [2, 0]), ("y", ["1"])])
    data = read(path, label_names=["green", "red", "blue"])
    assert data.label_names == ("green", "red", "blue")
    assert data.label_sets() == [("green", "blue"), ("red",)]
    assert data.columns.numbered
    assert not data.notes


def test_positions_count_from_0_and_a_file_that_counts_from_1_is_noticed(tmp_path):
    path = _jsonl(tmp_path / "a.jsonl", [("x", [1]), ("y", [2])])
    data = read(path, label_names=["green", "red", "blue"])
    assert ["no label is numbered 0" in note for note in data.notes] == [True]
    path = _jsonl(tmp_path / "a.jsonl", [("x", [1]), ("y", [3])])
    with pytest.raises(UserError, match=r"line 2: unknown label '3'"):
        read(path, label_names=["green", "red", "blue"])


def test_numbers_are_names_and_never_positions_where_a_name_is_a_number(tmp_path):
    path = _jsonl(tmp_path / "a.jsonl", [("x", [2])])
    assert read(path, label_names=["2", "1", "0"]).label_sets() == [("2",)]
    for names in (["1", "3", "7"], ["a", "b", "7"]):
        with pytest.raises(UserError, match=r"line 1: unknown label '2'"):
            read(path, label_names=names)
        dropped = read(path, label_names=names, unknown_labels="drop")
        assert dropped.label_sets() == [()]
        assert not dropped.columns.numbered


def test_a_file_has_labels_by_name_or_by_number_and_not_both(tmp_path):
    path = _jsonl(tmp_path / "a.jsonl", [("x", [2, 0]), ("y", ["red"])])
    with pytest.raises(UserError, match=r"by name \('red'\) and by number \('2'\)"):
        read(path, label_names=["green", "red", "blue"])


def test_a_label_of_thousands_of_digits_is_one_like_any_other(tmp_path):
    long = "1" + "0" * 5_000
    path = _jsonl(tmp_path / "a.jsonl", [("x", [long, "10"]), ("y", ["9", "0009"])])
    assert read(path).label_names == ("9", "0009", "10", long)


def test_label_names_from_a_file(tmp_path):
    (tmp_path / "names.txt").write_text("绿\nred\n\n")
    path = _jsonl(tmp_path / "a.jsonl", [("x", [1])])
    assert read(path, label_names=tmp_path / "names.txt").label_sets() == [("red",)]
    (tmp_path / "names.txt").write_text("a\nb\na\n")
    with pytest.raises(UserError, match=r"names.txt: the label 'a' is listed twice"):
        list_label_names(tmp_path / "names.txt")


def test_unknown_labels_are_an_error_that_names_line_and_label(tmp_path):
    path = _jsonl(tmp_path / "a.jsonl", [("x", ["red"]), ("y", ["red", "mauve"])])
    with pytest.raises(UserError, match=r"a.jsonl, line 2: unknown label 'mauve'.*2: red, blue"):
        read(path, label_names=["red", "blue"])


def test_unknown_labels_can_be_dropped_and_are_counted(tmp_path, caplog):
    rows = [("x", ["red"]), ("y", ["red", "mauve"]), ("z", ["mauve", "beige"])]
    path = _jsonl(tmp_path / "a.jsonl", rows)
    with caplog.at_level(logging.WARNING, "zlpr.data"):
        data = read(path, label_names=["red", "blue"], unknown_labels="drop")
    assert data.label_sets() == [("red",), ("red",), ()]
    assert "left out 3 labels of 2 unknown kinds: 'mauve', 'beige'" in data.notes[0]
    assert data.notes[0] in caplog.text


def test_rows_with_unknown_labels_can_be_skipped(tmp_path):
    path = _jsonl(tmp_path / "a.jsonl", [("x", ["red"]), ("y", ["mauve"])])
    data = read(path, label_names=["red"], skip_bad_rows=True)
    assert list(data.texts) == ["x"]
    assert "dropped 1 of 2 rows: line 2: unknown label 'mauve'" in data.notes[0]


def test_labels_of_a_model_for_data_that_was_read_without_them():
    data = Dataset.from_label_sets([{"a", "z"}, {"b"}], texts=["x", "y"], name="d")
    assert data.with_label_names(["z", "c", "b", "a"]).label_sets() == [("z", "a"), ("b",)]
    with pytest.raises(UserError, match="d has 1 label of 1 unknown kind: 'z'"):
        data.with_label_names(["a", "b"])
    dropped = data.with_label_names(["a", "b"], unknown="drop")
    assert dropped.label_sets() == [("a",), ("b",)]
    assert dropped.notes == ("d: left out 1 label of 1 unknown kind: 'z'",)


def test_empty_label_sets_are_samples(tmp_path):
    data = read(_jsonl(tmp_path / "a.jsonl", [("x", []), ("y", ["a"]), ("z", [])]))
    assert data.label_sets() == [(), ("a",), ()]


def test_a_file_without_any_label_has_no_label_columns(tmp_path):
    data = read(_jsonl(tmp_path / "a.jsonl", [("x", []), ("y", [])]))
    assert data.labels.shape == (2, 0)


def test_repeated_labels_count_once_and_repeated_rows_stay(tmp_path):
    data = read(_jsonl(tmp_path / "a.jsonl", [("x", ["a", "b", "a"]), ("x", ["a", "b", "a"])]))
    assert data.label_sets() == [("a", "b")] * 2
    assert data.labels.nnz == 4
    assert data.labels.dtype == bool
    assert data.labels.data.all()


def test_one_label_in_all(tmp_path):
    data = read(_jsonl(tmp_path / "a.jsonl", [("x", ["only"]), ("y", [])]))
    assert data.labels.shape == (2, 1)
    assert data.labels.toarray().tolist() == [[True], [False]]


def test_texts_alone_for_prediction(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "x"}\n{"text": "y", "labels": ["never looked at", 3.5]}\n')
    data = read(path, labelled=False)
    assert list(data.texts) == ["x", "y"]
    assert data.labels.shape == (2, 0)
    (tmp_path / "a.csv").write_text("label,body\nq,hello\n")
    assert list(read(tmp_path / "a.csv", labelled=False).texts) == ["hello"]


def test_a_column_may_say_the_split(tmp_path):
    (tmp_path / "a.csv").write_text("text,labels,split\nx,a,train\ny,b,DEV\nz,b,test\n")
    assert read(tmp_path / "a.csv").split.tolist() == ["train", "validation", "test"]
    assert read(tmp_path / "a.csv", split=False).split is None
    (tmp_path / "b.csv").write_text("text,labels,split\nx,a,fold 1\n")
    assert read(tmp_path / "b.csv").split is None  # called so, but something else
    with pytest.raises(UserError, match="expected train, validation or test, got 'fold 1'"):
        read(tmp_path / "b.csv", split="split")


def test_a_column_called_id_that_has_gaps_is_not_taken_for_one(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"id": 1, "text": "x", "labels": []}\n{"text": "y", "labels": []}\n'
    )
    assert read(tmp_path / "a.jsonl").ids is None
    with pytest.raises(
        UserError, match="line 2, column 'id': expected a name or a number, missing"
    ):
        read(tmp_path / "a.jsonl", id="id")


def test_two_rows_of_many_kinds_of_problems(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "x", "labels": ["a"]}\nnonsense\n{"text": 5, "labels": ["a"]}\n')
    with pytest.raises(UserError, match=r"a.jsonl: 2 bad rows: line 2, column 1.*; line 3, column"):
        read(path)
    data = read(path, skip_bad_rows=True)
    assert len(data) == 1
    assert data.notes[0].startswith(f"{path}: dropped 2 of 3 rows: line 2")


def test_nothing_but_bad_rows(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("nonsense\n")
    with pytest.raises(UserError, match="no rows"):
        read(path, skip_bad_rows=True)


def test_iterating_is_lazy_and_raises_where_the_row_is(tmp_path):
    path = tmp_path / "a.jsonl"
    good = '{"text": "x", "labels": ["a"]}\n'
    path.write_text(good * 30_000 + "nonsense\n" + good)
    blocks = iterate(path)
    first = next(blocks)
    assert first.texts[0] == "x"
    assert len(first.texts) < 30_000
    with pytest.raises(UserError, match="line 30001"):
        list(blocks)
    assert sum(len(b.texts) for b in iterate(path, skip_bad_rows=True)) == 30_001


@pytest.mark.parametrize(
    ("name", "content", "given", "left_out"),
    [
        ("a.svm", "0 1:1\n1 2:1\n", {"group": "g", "text": 0}, "text=… group=…"),
        ("a.svm", "0 1:1\n1 2:1\n", {"labels": ["x", "y"]}, "labels=…"),
        ("a.arff", ARFF, {"labels": ["l", "m"], "features": ["x"]}, "features=…"),
        ("a.ft", "__label__a one\n__label__b two\n", {"label_delimiter": "|"}, "label_delimiter=…"),
    ],
)
def test_columns_are_refused_where_a_format_has_none(name, content, given, left_out, tmp_path):
    (tmp_path / name).write_text(content)
    said = f"which has no columns to name; leave out {left_out}, or say what it is with format=…"
    with pytest.raises(UserError, match=re.escape(said)):
        read(tmp_path / name, **given)
    own = {"labels": ["l", "m"]} if name == "a.arff" else {}
    assert len(read(tmp_path / name, **own, id=False)) == 2


@pytest.mark.parametrize("labels", ["body", ["tag", "body"]])
def test_a_column_cannot_be_both_text_and_labels(tmp_path, labels):
    (tmp_path / "a.csv").write_text("body,tag\nred,1\nblue,0\n")
    with pytest.raises(UserError, match="'body' is read as labels and as text"):
        read(tmp_path / "a.csv", text="body", labels=labels)

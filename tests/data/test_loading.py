"""The demo corpus, and folders with a file or more for each part."""

import json

import numpy as np
import pytest

from zlpr._errors import UserError
from zlpr.data import (
    Dataset,
    concatenate,
    demo,
    join_parts,
    load,
    write,
)


def _jsonl(path, rows):
    lines = [json.dumps({"text": text, "labels": labels}) + "\n" for text, labels in rows]
    path.write_text("".join(lines))
    return path


def test_the_demo_has_no_columns_to_name():
    with pytest.raises(UserError, match="no file with columns; leave out text=… id=…"):
        load("demo", text="body", id="number", split=False)


def test_load_demo_and_a_folder_that_is_called_demo(tmp_path, monkeypatch):
    assert list(load("demo").texts[:5]) == list(demo.make(5).texts)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    _jsonl(tmp_path / "demo" / "train.jsonl", [("mine", ["a"])])
    assert list(load("demo").texts) == ["mine"]


def test_a_folder_with_a_file_per_part(tmp_path):
    _jsonl(tmp_path / "train.jsonl", [("x", ["b"]), ("y", [])])
    (tmp_path / "dev.csv").write_text("text,labels\nz,c|b\n")
    write(Dataset.from_label_sets([{"a"}], texts=["w"]), tmp_path / "my-test.jsonl.xz")
    (tmp_path / "notes.txt").write_text("not data")
    data = load(tmp_path)
    assert data.split.tolist() == ["train", "train", "validation", "test"]
    assert data.label_names == ("a", "b", "c")
    assert data.label_sets() == [("b",), (), ("b", "c"), ("a",)]
    assert data.name == tmp_path.name


def test_shards_of_a_part_are_joined_in_order(tmp_path):
    for i in range(3):
        _jsonl(tmp_path / f"train-0000{i}-of-00003.jsonl", [(f"text {i}", ["a"])])
    assert list(load(tmp_path).texts) == ["text 0", "text 1", "text 2"]


@pytest.mark.parametrize(
    "shards", [["0-of-3", "2-of-3"], ["0-of-2", "1-of-2", "0-of-1"], ["0-of-2", "00-of-2"]]
)
def test_shards_that_are_missing_or_of_two_divisions_are_refused(tmp_path, shards):
    for shard in shards:
        _jsonl(tmp_path / f"train-{shard}.jsonl", [("x", ["a"])])
    with pytest.raises(UserError, match="the train part should be as many files as their names"):
        load(tmp_path)


def test_a_range_of_features_means_the_columns_of_the_first_part(tmp_path):
    (tmp_path / "train.csv").write_text("age,size,city,labels\n1,2,Rome,a\n2,3,Bern,b\n")
    (tmp_path / "test.csv").write_text("city,labels,age,size\nRome,a,5,6\n")
    data = load(tmp_path, features="age:city")
    assert data.columns.features.columns == ("age", "size", "city")
    assert data.features[-1].tolist() == [5, 6, 0, 1]


def test_two_files_for_one_part(tmp_path):
    _jsonl(tmp_path / "train.jsonl", [("x", [])])
    _jsonl(tmp_path / "training.jsonl", [("x", [])])
    with pytest.raises(UserError, match=r"both train.jsonl and training.jsonl are the train part"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["train2.jsonl", "train-2.jsonl", "extra.csv", "test.txt"])
def test_files_beside_the_parts_are_named(name, tmp_path, caplog):
    _jsonl(tmp_path / "train.jsonl", [("x", ["a"])])
    _jsonl(tmp_path / name, [("y", ["a"])])
    for other in ("labels.txt", "split.json", "README.md", ".hidden.csv"):
        (tmp_path / other).write_text("a\n")
    data = load(tmp_path)
    assert data.texts == ["x"]
    assert data.notes == (f"{tmp_path}: left out '{name}'; not called or ending as a part's file",)
    assert caplog.messages == list(data.notes)


def test_a_folder_without_parts(tmp_path):
    with pytest.raises(UserError, match="no files called train, validation or test"):
        load(tmp_path)


def test_parts_must_be_of_one_kind():
    texts = Dataset.from_label_sets([{"a"}], texts=["x"])
    features = Dataset.from_label_sets([{"a"}], features=np.ones((1, 2)))
    with pytest.raises(UserError, match="some parts hold texts and others features"):
        join_parts({"train": texts, "test": features})


def test_concatenation_keeps_what_all_have():
    one = Dataset.from_label_sets([{"b"}], texts=["x"], ids=["1"])
    other = Dataset.from_label_sets([{"a"}], texts=["y"])
    both = concatenate([one, other])
    assert both.ids is None
    assert both.label_sets() == [("b",), ("a",)]


def _table(path, *rows):
    path.write_text("\n".join(rows) + "\n")
    return path


def test_a_column_of_classes_stays_one_in_a_part_that_has_two_of_them(tmp_path):
    _table(tmp_path / "train.csv", "note,kind", *(f"text {i},{i % 4}" for i in range(40)))
    _table(tmp_path / "test.csv", "note,kind", "x,1", "y,0")
    data = load(tmp_path, labels="kind")
    assert data.label_names == ("0", "1", "2", "3")
    assert data.part("test").label_sets() == [("1",), ("0",)]


def test_blank_cells_are_errors_in_a_part_of_a_column_of_zeros_and_ones(tmp_path):
    _table(tmp_path / "train.csv", "note,toxic", *(f"text {i},{i % 2}" for i in range(40)))
    _table(tmp_path / "test.csv", "note,toxic", "x,", "y,0", "z,", "u,2")
    with pytest.raises(UserError, match=r"test.csv: 3 bad rows: line 2, .* line 4, .* line 5, "):
        load(tmp_path, labels="toxic")


@pytest.mark.parametrize("header", [None, True])
def test_a_position_means_the_column_of_the_first_part(tmp_path, header):
    _table(tmp_path / "train.csv", "id,story,kind,who", "n1,wine,food,g1", "n2,bed,room,g2")
    _table(tmp_path / "test.csv", "who,story,id,kind", "g3,soup,n3,food")
    data = load(tmp_path, text=1, labels="2", id=0, group=3, header=header)
    assert list(data.texts) == ["wine", "bed", "soup"]
    assert data.label_sets()[-1] == ("food",)
    assert list(data.ids) == ["n1", "n2", "n3"]
    assert list(data.groups) == ["g1", "g2", "g3"]
    _table(tmp_path / "test.csv", "who,tale,id,kind", "g3,soup,n3,food")
    with pytest.raises(UserError, match="no column 'story' for text"):
        load(tmp_path, text=1, labels=2, header=header)


def test_positions_stay_positions_where_the_first_part_has_no_header(tmp_path):
    _table(tmp_path / "train.csv", "n1,wine,food", "n2,bed,room")
    _table(tmp_path / "test.csv", "n3,soup,food")
    data = load(tmp_path, text=1, labels=2, header=False)
    assert list(data.texts) == ["wine", "bed", "soup"]


def test_other_parts_need_no_groups_nor_ids(tmp_path):
    _table(tmp_path / "train.csv", "id,text,labels,who", "1,wine,food,g1", "2,bed,room,g2")
    _table(tmp_path / "test.csv", "text,labels", "soup,food")
    data = load(tmp_path, group="who", id="id")
    assert list(data.groups) == ["g1", "g2", ""]
    assert data.ids is None
    with pytest.raises(UserError, match="no column 'who' for group"):  # they will be divided anew
        load(tmp_path, group="who", mixed=True)
    (tmp_path / "train.csv").rename(tmp_path / "train-0-of-2.csv")
    (tmp_path / "test.csv").rename(tmp_path / "train-1-of-2.csv")
    with pytest.raises(UserError, match="no column 'who' for group"):
        load(tmp_path, group="who")


@pytest.mark.parametrize("listed", ["train", "test"])
def test_one_list_names_the_numbers_of_all_parts(tmp_path, caplog, listed):
    _table(tmp_path / "train.svm", "2 3 2", "0 0:1", "1 1:1")
    _table(tmp_path / "test.svm", "1 3 2", "1 2:1")
    _table(tmp_path / f"{listed}.labels", "cat", "dog")
    data = load(tmp_path)
    assert data.label_names == ("cat", "dog")
    assert data.label_sets() == [("cat",), ("dog",), ("dog",)]
    other = {"train": "test", "test": "train"}[listed]
    note = f"{other}: its labels are numbers, read as positions among the others'"
    assert data.notes == (note,)
    assert caplog.messages == [note]


def test_a_list_of_labels_that_is_not_read_is_named(tmp_path):
    _table(tmp_path / "train.svm", "0 0:1", "1 1:1")  # without a header, numbers are names
    _table(tmp_path / "train.labels", "cat", "dog")
    data = load(tmp_path)
    assert data.label_names == ("0", "1")
    assert "left out 'train.labels'" in data.notes[0]


def test_sparse_parts_without_a_header_are_as_wide_as_the_widest(tmp_path):
    _table(tmp_path / "train.svm", "3 0:1", "4 1:1")
    _table(tmp_path / "test.svm", "3 6:1")
    data = load(tmp_path)
    assert data.features.shape == (3, 7)
    assert data.columns.num_features == 7
    _table(tmp_path / "test.svm", "1 9 5", "3 6:1")
    assert load(tmp_path).columns.num_features == 9
    _table(tmp_path / "train.svm", "2 4 5", "3 0:1", "4 1:1")
    with pytest.raises(UserError, match="train: 4 features, and test has 9; all parts need"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("train", "test", "doubt"),
    [
        ("food", "Food", "the labels 'food' and 'Food' differ in case or spaces alone"),
        ("food;room", "food|room", "the label 'food|room' holds '|', where labels are separated"),
    ],
)
def test_names_that_look_wrong_beside_those_of_another_part_are_said(
    tmp_path, caplog, train, test, doubt
):
    _table(tmp_path / "train.csv", "text,labels", f"x,{train}", "y,room")
    _table(tmp_path / "test.csv", "text,labels", f"z,{test}")
    data = load(tmp_path)
    assert [doubt in note for note in data.notes] == [True]
    assert data.notes[0].startswith(("train, test: ", f"{tmp_path / 'test.csv'}: "))
    assert caplog.messages == list(data.notes)
    _table(tmp_path / "labels.txt", *sorted({*train.split(";"), test, "room"}))
    assert load(tmp_path).notes == ()  # they are listed


def test_what_one_part_says_of_its_names_is_not_said_again(tmp_path):
    _table(tmp_path / "train.csv", "text,labels", "x,food", "y,Food")
    _table(tmp_path / "test.csv", "text,labels", "z,room")
    assert sum("differ in case" in note for note in load(tmp_path).notes) == 1

import pytest

from zlpr import UserError
from zlpr.data import Columns, iterate, load, read


def test_what_was_read_is_said_in_one_line():
    columns = Columns(
        "csv",
        text=("overview",),
        labels=("l1", "l2"),
        indicators=True,
        id="key",
        also_text=("title",),
        unread=tuple(f"c{i}" for i in range(9)),
    )
    assert columns.describe() == (
        "csv: text from 'overview' (not from 'title'), labels from 2 columns of 0 and 1 "
        "('l1', 'l2'), id from 'key'; not read: 'c0', 'c1', 'c2', 'c3', 'c4', 'c5' and 3 more"
    )
    assert Columns("svm", num_features=1234).describe() == "svm: 1,234 features"
    assert Columns("fasttext").describe() == "fasttext"


def test_what_another_file_is_read_by_survives_json():
    columns = Columns("tsv", ("a", "b"), ("c",), label_delimiter=";", header=False, unread=("d",))
    kept = Columns.from_json(columns.to_json())
    assert kept == Columns("tsv", ("a", "b"), ("c",), label_delimiter=";", header=False)
    with pytest.raises(ValueError, match=r"columns\.text"):
        Columns.from_json({"text": "overview"})
    with pytest.raises(ValueError, match=r"columns\.colour"):
        Columns.from_json({"colour": "red"})


TABLE = "title,overview,genres\nThe end,A long story of the end,a|b\nNo more,Two lines of it,a\n"


def test_a_file_is_read_like_another_one(tmp_path):
    (tmp_path / "a.csv").write_text(TABLE)
    first = read(tmp_path / "a.csv", text="title")
    assert first.columns.text == ("title",)
    assert first.columns.label_delimiter == "|"
    again = read(tmp_path / "a.csv", like=first.columns)
    assert list(again.texts) == ["The end", "No more"]
    (tmp_path / "b.jsonl").write_text(
        '{"overview": "other words", "title": "t", "genres": ["b"]}\n'
    )
    assert list(read(tmp_path / "b.jsonl", like=first.columns).texts) == ["t"]
    alone = next(iterate(tmp_path / "b.jsonl", labelled=False, like=first.columns))
    assert alone.texts == ["t"]
    assert alone.columns.text == ("title",)
    assert list(read(tmp_path / "b.jsonl", like=first.columns, text="overview").texts) == [
        "other words"
    ]
    (tmp_path / "c.csv").write_text("overview,genres\nsome more words,a\n")
    with pytest.raises(ValueError, match=r"c.csv: no column 'title' for text.*name another with"):
        read(tmp_path / "c.csv", like=first.columns)


def test_columns_without_names_are_known_by_their_place(tmp_path):
    (tmp_path / "a.csv").write_text("a,some text\nb,more text\n")
    first = read(tmp_path / "a.csv", header=False, labels=0, text=1)
    assert first.columns.header is False
    again = read(tmp_path / "a.csv", like=Columns.from_json(first.columns.to_json()))
    assert list(again.texts) == list(first.texts)
    assert again.label_sets() == first.label_sets()


def test_a_header_where_the_data_before_had_none_is_no_sample(tmp_path):
    (tmp_path / "a.csv").write_text("some text,a\nmore text,b\n")
    first = read(tmp_path / "a.csv", header=False, text=0, labels=1)
    (tmp_path / "b.csv").write_text("text,labels\nsome text,a\n")
    with pytest.raises(UserError, match=r"b.csv, line 1: 'text', 'labels' looks like a header"):
        read(tmp_path / "b.csv", like=first.columns, labelled=False)
    named = read(tmp_path / "b.csv", like=first.columns, text="text", labels="labels")
    assert list(named.texts) == ["some text"]
    assert len(read(tmp_path / "b.csv", like=first.columns, header=False)) == 2


def test_columns_of_zeros_and_ones_are_remembered(tmp_path):
    (tmp_path / "a.csv").write_text("text,l1,l2\nx,1,0\ny,0,1\n")
    first = read(tmp_path / "a.csv")
    assert (first.columns.indicators, first.columns.labels) == (True, ("l1", "l2"))
    (tmp_path / "b.csv").write_text("text,l1\nx,1\n")
    with pytest.raises(ValueError, match="no column 'l2' for labels"):
        read(tmp_path / "b.csv", like=first.columns)


def test_other_formats_have_no_columns_to_be_alike_in(tmp_path):
    (tmp_path / "a.txt").write_text("__label__a some words\n")
    assert read(tmp_path / "a.txt", like=Columns("csv", ("title",), ("g",))).label_sets() == [
        ("a",)
    ]
    (tmp_path / "b.txt").write_text("1 3:0.5\n0,1 2:1\n")
    data = read(tmp_path / "b.txt", like=Columns("svm", num_features=9))
    assert data.features.shape == (2, 9)
    assert data.columns.num_features == 9
    with pytest.raises(ValueError, match="feature 3, expected less than 3"):
        read(tmp_path / "b.txt", like=Columns("svm", num_features=3))


def test_the_files_of_a_folder_are_read_alike(tmp_path):
    (tmp_path / "train.csv").write_text(TABLE)
    (tmp_path / "test.csv").write_text("title,overview,genres\nA title that is very long,short,c\n")
    data = load(tmp_path)
    assert data.columns.text == ("overview",)
    assert list(data.texts)[-1] == "short"


def test_a_column_of_counts_stays_none_of_the_labels_in_a_part_where_it_is_0_and_1(tmp_path):
    train = [f"text {i},{i},{i % 2}" for i in range(9)]
    (tmp_path / "train.csv").write_text("\n".join(["text,likes,spam", *train]))
    (tmp_path / "test.csv").write_text("text,likes,spam\nx,1,0\ny,0,1\n")
    for like in (None, Columns("fasttext")):  # which says nothing of columns
        data = load(tmp_path, like=like)
        assert data.label_names == ("spam",)
        assert data.part("test").label_sets() == [(), ("spam",)]
    (tmp_path / "test.csv").write_text("text,likes,spam\nx,1,7\ny,0,1\n")
    with pytest.raises(ValueError, match="'spam': expected 0 or 1, got '7'; where it is no label"):
        load(tmp_path)


def test_a_column_that_is_called_by_digits_is_not_sought_at_that_position(tmp_path):
    (tmp_path / "a.csv").write_text("text,1,2\nx,1,0\ny,0,1\n")
    first = read(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("text,1,likes\nx,1,0\n")
    with pytest.raises(ValueError, match="no column '2' for labels"):
        read(tmp_path / "b.csv", like=first.columns)


def test_what_is_said_of_a_file_comes_before_how_another_one_was_read(tmp_path):
    (tmp_path / "a.csv").write_text("text,labels\nx,b|c\n")
    (tmp_path / "b.csv").write_text("text,labels\nx,b;c\n")
    first = read(tmp_path / "a.csv")
    assert read(tmp_path / "b.csv", like=first.columns).label_sets() == [("b;c",)]
    second = read(tmp_path / "b.csv", like=first.columns, label_delimiter=";")
    assert second.label_sets() == [("b", "c")]
    assert second.columns.label_delimiter == ";"

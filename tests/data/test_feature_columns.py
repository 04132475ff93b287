"""Columns of a table as features: what is taken for what, and the same for every file."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OneHotEncoder

from zlpr._errors import UserError
from zlpr.data import Columns, iterate, load, read
from zlpr.data.feature_columns import (
    MOST_CATEGORIES,
    FeatureColumns,
    FeatureEncoder,
    are_numbers,
    find_columns,
)

HEADER = "id,age,height,colour,month,old,hot"
ROWS = [
    "a,31.5,170,red,3,0,1",
    "b,,180,blue,2,0,0",
    "c,60,165.5,,3,1,0",
    "d,72,NA,red,12,1,1",
]


def write_table(folder, rows=ROWS, header=HEADER, name="people.csv"):
    path = folder / name
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def test_all_columns_of_numbers_are_features_where_there_is_no_text(tmp_path):
    data = read(write_table(tmp_path), labels=["old", "hot"])
    assert data.texts is None
    assert data.columns.features.names == (
        *("age", "height", "month"),
        *("age is missing", "height is missing"),
    )
    assert data.columns.unread == ("colour",)
    np.testing.assert_array_equal(
        data.features,
        np.float32(
            [
                [31.5, 170, 3, 0, 0],
                [np.nan, 180, 2, 1, 0],
                [60, 165.5, 3, 0, 0],
                [72, np.nan, 12, 0, 1],
            ]
        ),
    )
    assert "numbers from 'age', 'height', 'month'" in data.columns.describe()


def test_labels_of_zeros_and_ones_are_found_beside_features(tmp_path):
    data = read(write_table(tmp_path))
    assert data.label_names == ("old", "hot")
    assert data.columns.id == "id"


def test_a_named_feature_of_zeros_and_ones_is_no_label(tmp_path):
    data = read(write_table(tmp_path), features=["age", "hot"])
    assert data.label_names == ("old",)
    assert data.columns.features.numbers == ("age", "hot")


def test_categories_are_those_of_scikit_learn(tmp_path):
    path = write_table(tmp_path)
    data = read(path, features=["height", "colour"], categories=["month"])
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    theirs = make_column_transformer((OneHotEncoder(sparse_output=False), ["colour", "month"]))
    start = len(data.columns.features.numbers) + len(data.columns.features.indicated)
    np.testing.assert_array_equal(data.features[:, start:], theirs.fit_transform(table))
    assert data.columns.features.names[start:] == (
        *("colour=", "colour=blue", "colour=red"),
        *("month=12", "month=2", "month=3"),
    )


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_other_tables_give_the_same(form, tmp_path):
    source = write_table(tmp_path)
    table = pd.read_csv(source)
    path = tmp_path / f"people.{form}"
    if form == "parquet":
        table.to_parquet(path)
    else:
        rows = [
            {key: value for key, value in row.items() if not pd.isna(value)}
            for row in table.to_dict("records")
        ]
        path.write_text("\n".join(map(json.dumps, rows)))
    ways = {"features": ["age", "height", "colour"], "labels": ["old", "hot"]}
    first = read(source, **ways)
    np.testing.assert_array_equal(read(path, **ways).features, first.features)
    new = read(path, labelled=False, like=first.columns)  # as for prediction
    np.testing.assert_array_equal(new.features, first.features)
    assert not new.labels.nnz


def test_another_file_has_the_features_of_the_first(tmp_path, caplog):
    first = read(write_table(tmp_path), features=["height", "colour"])
    like = Columns.from_json(json.loads(json.dumps(first.columns.to_json())))
    rows = ["e,20,150,pink,1,0,0", "f,20,,red,1,0,1", "g,20,160,pink,1,1,0"]
    path = write_table(tmp_path, rows, name="new.csv")
    second = read(path, like=like)
    assert second.features.tolist()[0] == [150, 0, 0, 0, 0]
    assert second.features[1, 1:].tolist() == [1, 0, 0, 1]
    expected = f"{path}: 2 cells of 'colour' hold a category that training did not have ('pink'),"
    assert [note for note in second.notes if note.startswith(expected)]
    blocks = list(iterate(path, labelled=False, like=like))
    np.testing.assert_array_equal(blocks[0].features, second.features)
    assert sum(expected in record.getMessage() for record in caplog.records) == 2  # once a reading


@pytest.mark.parametrize("text", ["colour", "no such column"])
def test_no_text_is_read_in_place_of_the_features_of_another_file(tmp_path, text):
    first = read(write_table(tmp_path), features=["height", "colour"])
    expected = "no text is read, but features as before, from 'height', 'colour'; leave text=… out"
    with pytest.raises(UserError, match=expected):
        read(write_table(tmp_path), like=first.columns, text=text)


def test_a_number_that_is_missing_for_the_first_time_is_said(tmp_path):
    first = read(write_table(tmp_path), features=["month"])
    path = write_table(tmp_path, ["e,20,150,pink,,0,0"], name="new.csv")
    data = read(path, like=first.columns)
    assert np.isnan(data.features).all()
    assert any("1 number of 'month' is missing, and none was in training" in n for n in data.notes)


def test_the_parts_of_a_folder_share_the_training_part_s_categories(tmp_path):
    write_table(tmp_path, name="train.csv")
    write_table(tmp_path, ["e,20,150,pink,1,1,0", "f,20,,red,1,0,1"], name="test.csv")
    data = load(tmp_path, features=["height", "colour"])
    assert data.columns.features.categories == {"colour": ("", "blue", "red")}
    assert data.features.shape == (6, 5)


def test_a_cell_that_is_no_number_is_an_error_with_its_place(tmp_path):
    path = write_table(tmp_path, [*ROWS, "e,old,170,red,3,0,1"])
    with pytest.raises(UserError, match=r"line 6, column 'age': expected a number, got 'old'"):
        read(path)
    data = read(path, skip_bad_rows=True, features=["age", "colour"])
    assert data.features.shape == (4, 5)


def test_a_cell_that_is_infinite_is_one_too(tmp_path):
    with pytest.raises(UserError, match="column 'age': expected a number, got 'inf'"):
        read(write_table(tmp_path, [*ROWS, "e,inf,170,red,3,0,1"]))


def test_a_column_of_names_is_refused_as_categories(tmp_path):
    rows = [f"{i},{i},1,name {i},1,{i % 2},1" for i in range(MOST_CATEGORIES + 1)]
    with pytest.raises(UserError, match="the column 'colour' has 1,001 different values, too many"):
        read(write_table(tmp_path, rows), features=["colour"])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"features": ["weight"]},
            r"no column 'weight' for features; did you mean 'height'\? The columns are 'id'",
        ),
        ({"features": ["x*"]}, r"no column 'x\*' for features"),
        ({"features": ["age"], "text": "colour"}, "a model reads the one or the other"),
        ({"features": ["old", "age"], "labels": ["old"]}, "is read as labels and as features"),
    ],
)
def test_what_cannot_be_is_refused(asked, message, tmp_path):
    with pytest.raises(UserError, match=message):
        read(write_table(tmp_path), **asked)


def test_other_columns_than_before_are_refused(tmp_path):
    path = write_table(tmp_path)
    like = read(path, features=["age"]).columns
    with pytest.raises(UserError, match="'height' is none of the features before"):
        read(path, features=["height"], like=like)
    other = write_table(tmp_path, ["a,1,0"], "id,height,old", "other.csv")
    with pytest.raises(UserError, match="no column 'age' for features"):
        read(other, labels=["old"], like=like)


def test_a_text_stays_a_text_beside_numbers(tmp_path):
    rows = ["1,a good thing,x", "2,a bad thing,y"]
    data = read(write_table(tmp_path, rows, "price,words,labels"))
    assert data.texts == ["a good thing", "a bad thing"]
    assert data.columns.unread == ("price",)


def test_a_column_called_text_is_one_whatever_it_holds(tmp_path):
    data = read(write_table(tmp_path, ["1,x", "2,y"], "text,labels"))
    assert data.texts == ["1", "2"]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("b", ["b"]),
        ("1", ["b"]),
        ("a:c", ["a", "b", "c"]),
        ("2:3", ["c", "d:e"]),
        ("d:e", ["d:e"]),
        ("[bc]", ["b", "c"]),
        ("9", []),
        ("c:a", []),
    ],
)
def test_columns_are_found_by_name_place_range_and_pattern(asked, found):
    assert find_columns(["a", "b", "c", "d:e"], asked) == found


@pytest.mark.parametrize(
    ("cells", "numeric"),
    [
        (["1", " 2.5 ", "-3e4"], True),
        (["1", "", None, "?"], True),
        (["1", "two", "three"], False),
        (["", None], False),
        ([True, 2, float("nan")], True),
        ([[1], [2]], False),
        (["2020_01", "2020_02"], False),
        (["1e39", "-1e300"], False),
    ],
)
def test_what_counts_as_numbers(cells, numeric):
    assert are_numbers(cells) is numeric


def test_the_encoder_needs_no_file():
    encoder = FeatureEncoder(FeatureColumns(("x",), (), {"c": ("a",)}))
    assert encoder.encode({"x": np.array([1.0]), "c": ["a"]}).tolist() == [[1.0, 1.0]]
    assert encoder.notes("file") == []


def test_words_above_numbers_are_the_names_of_columns(tmp_path):
    data = read(write_table(tmp_path, ["31.5,170,1,0", "42,180,0,1"], "age,height,old,hot"))
    assert data.columns.features.numbers == ("age", "height")
    assert data.label_names == ("old", "hot")


def test_columns_without_names_are_found_by_their_places(tmp_path):
    path = write_table(tmp_path, ["42,180,0,1"], "31.5,170,1,0")
    data = read(path, features="0:1", labels=[2, 3])
    assert data.features.tolist() == [[31.5, 170.0], [42.0, 180.0]]


@pytest.mark.parametrize(
    "cells", [["1,5", "2,5", ""], ["5,0", "7", "8,5", "1"], ["1.234,5", "12"], ["1 234", "2'345"]]
)
def test_numbers_that_only_people_can_read_are_no_categories(cells, tmp_path):
    path = write_table(tmp_path, [f"{cell};a" for cell in cells], "size;labels")
    with pytest.raises(UserError, match=r"'size' holds numbers as '.*'; write them with a decimal"):
        read(path, features="size")
    assert read(path, categories="size").columns.features.categories["size"]


def test_categories_that_are_met_once_are_doubted(tmp_path):
    rows = [f"2020-01-{day:02},{day % 3},a" for day in range(1, 29)]
    path = write_table(tmp_path, rows, "day,kind,labels")
    (note,) = read(path, features="day", categories="kind").notes
    assert "28 different categories of 'day' in 28 rows" in note


@pytest.mark.parametrize(("shift", "doubted"), [(0.0, False), (1e4, False), (1e9, True)])
def test_numbers_that_32_bits_do_not_tell_apart_are_doubted(shift, doubted, tmp_path):
    rows = [f"{shift + number},a" for number in range(9)]
    notes = read(write_table(tmp_path, rows, "size,labels"), features="size").notes
    assert any("'size' differ too little" in note for note in notes) is doubted


def test_a_number_beyond_32_bits_is_an_error_with_its_place(tmp_path):
    path = write_table(tmp_path, ["1,a", "1e39,b", "2,a"], "size,labels")
    with pytest.raises(UserError, match=r"line 3, column 'size': expected a number, got '1e39'"):
        read(path, features="size")


@pytest.mark.parametrize("written", ["0,5", "-1.234,50", "1,234,567.8", "12 500,75"])
@pytest.mark.parametrize("third", ["4", "4,5"])
def test_numbers_with_a_comma_are_refused_where_all_numbers_are_learned_from(
    tmp_path, written, third
):
    """They would be left out, and a model would learn from what is left of the table."""
    path = tmp_path / "a.csv"
    path.write_text("x;z;old;new\n" + f"{written};{third};1;0\n3,25;{third};0;1\n" * 5)
    with pytest.raises(UserError, match=r"a.csv: the column 'x' holds numbers as .*features=…"):
        read(path)
    with pytest.raises(UserError, match="the column 'x' holds numbers as"):
        read(path, categories="z", labels=["old"])
    assert read(path, categories=["x", "z"], labels=["old"]).columns.features.categories
    if third == "4":
        assert read(path, features="z").columns.features.columns == ("z",)


@pytest.mark.parametrize("other", ["01.02.2024", "192.168.0.1", "030 1234", "1.2.3", "12,5,7"])
def test_dates_and_versions_beside_numbers_are_not_read_as_before(tmp_path, other):
    path = tmp_path / "a.csv"
    path.write_text("x;z;old\n" + f"{other};4;1\n{other};5;0\n" * 5)
    assert read(path).columns.unread == ("x",)


def test_a_price_with_a_comma_beside_a_text_is_not_read_as_before(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("price;text;old\n" + "3,50;good soup today;1\n4,20;cold soup today;0\n" * 5)
    data = read(path)
    assert (data.columns.text, data.columns.unread) == (("text",), ("price",))


def test_a_price_with_a_comma_beside_what_may_be_a_text_is_not_blamed(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("price;dish;labels\n" + "3,50;soup;a\n4,20;rice;b\n" * 5)
    with pytest.raises(UserError, match="which column holds the text"):
        read(path)

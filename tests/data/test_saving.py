import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from zlpr._errors import UserError
from zlpr.data import demo, load, make_split, read, saving, write
from zlpr.data.dataset import Dataset
from zlpr.data.loading import files_behind
from zlpr.data.saving import save

TICKETS = make_split(demo.make(200))


def same(left, right):
    assert right.label_names == left.label_names
    order = {identifier: row for row, identifier in enumerate(right.ids)}
    rows = [order[identifier] for identifier in left.ids]
    again = right.select(rows)
    assert list(again.texts) == list(left.texts)
    assert again.label_sets() == left.label_sets()
    np.testing.assert_array_equal(again.split, left.split)


def with_ids(data):
    return Dataset(
        data.labels,
        data.label_names,
        texts=data.texts,
        split=data.split,
        ids=[f"t{row}" for row in range(len(data))],
    )


def test_a_saved_folder_loads_as_it_was(tmp_path):
    data = with_ids(TICKETS)
    files = save(data, tmp_path / "deep" / "tickets")
    assert [file.name for file in files] == [
        "train.jsonl",
        "validation.jsonl",
        "test.jsonl",
        "labels.txt",
    ]
    same(data, load(tmp_path / "deep" / "tickets"))
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["tickets"]


def test_labels_keep_their_order_and_those_that_never_occur(tmp_path):
    data = Dataset.from_label_sets(
        [{"z"}, {"a"}, set()],
        label_names=["z", "never", "a"],
        texts=["一", "二", "three\nlines"],
        ids=["1", "2", "3"],
        split=np.array(["train", "validation", "test"]),
    )
    save(data, tmp_path / "out")
    same(data, load(tmp_path / "out"))


@pytest.mark.parametrize("dense", [True, False])
def test_features_come_back_with_their_labels_names(dense, tmp_path):
    features = np.array([[1.5, 0, 2], [0, 0, 3], [4, 5, 0.25]], dtype=np.float32)
    data = Dataset.from_label_sets(
        [{"z"}, {"a", "z"}, set()],
        label_names=["z", "never", "a"],
        features=features if dense else sparse.csr_array(features),
        split=np.array(["train", "validation", "test"]),
    )
    save(data, tmp_path / "out")
    again = load(tmp_path / "out")
    assert again.label_names == data.label_names
    assert again.label_sets() == data.label_sets()
    np.testing.assert_array_equal(sparse.csr_array(again.features).toarray(), features)


def test_nothing_is_overwritten_unasked(tmp_path):
    (tmp_path / "train.jsonl").write_text("mine")
    with pytest.raises(UserError, match=r"already has train\.jsonl"):
        save(TICKETS, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["train.jsonl"]
    assert (tmp_path / "train.jsonl").read_text() == "mine"
    save(TICKETS, tmp_path, overwrite=True)
    assert len(load(tmp_path)) == 200


def test_a_failure_half_way_leaves_nothing(tmp_path, monkeypatch):
    def full(path, text):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saving, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        save(TICKETS, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_among_the_renames_leaves_what_was_there(tmp_path, monkeypatch):
    save(make_split(demo.make(60)), tmp_path / "t")
    before = {path.name: path.read_bytes() for path in (tmp_path / "t").iterdir()}
    moved = Path.replace

    def replace_all_but_one(path, place):
        if path.name == "test.jsonl" and path.parent.suffix == ".part":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return moved(path, place)

    monkeypatch.setattr(Path, "replace", replace_all_but_one)
    with pytest.raises(OSError, match="No space"):
        save(TICKETS, tmp_path / "t", overwrite=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "t").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_a_folder_by_the_name_of_a_part_is_left_alone(tmp_path):
    save(make_split(demo.make(60)), tmp_path / "t")
    (tmp_path / "t" / "train.jsonl").unlink()
    (tmp_path / "t" / "train.jsonl").mkdir()
    (tmp_path / "t" / "train.jsonl" / "kept").touch()
    with pytest.raises(UserError, match=r"train\.jsonl: a folder"):
        save(TICKETS, tmp_path / "t", overwrite=True)
    assert (tmp_path / "t" / "train.jsonl" / "kept").exists()
    assert (tmp_path / "t" / "test.jsonl").exists()


def test_a_mount_point_is_refused_before_anything_is_touched(tmp_path, monkeypatch):
    save(make_split(demo.make(60)), tmp_path / "t")
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path) == tmp_path / "t")
    with pytest.raises(UserError, match=r"t: a disk is mounted there.* such as .*t/new"):
        save(TICKETS, tmp_path / "t", overwrite=True)
    assert len(load(tmp_path / "t")) == 60


def test_labels_that_no_line_can_hold_are_refused(tmp_path):
    data = Dataset.from_label_sets([{"a\nb"}], texts=["x"], split=np.array(["train"]))
    with pytest.raises(UserError, match="cannot stand on a line"):
        save(data, tmp_path / "out")


def test_data_without_a_split_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no split"):
        save(demo.make(10), tmp_path / "out")


@pytest.mark.parametrize("names", [("1", "3", "7"), ("1", "2", "3"), ("2", "0", "1")])
def test_labels_that_are_numbers_come_back_as_these_numbers(names, tmp_path):
    data = Dataset.from_label_sets(
        [{names[0]}, {names[1]}, set(names)],
        label_names=names,
        features=np.eye(3),
        split=np.array(["train", "validation", "test"]),
    )
    files = save(data, tmp_path / "out")
    assert load(tmp_path / "out").label_sets() == data.label_sets()
    assert load(tmp_path / "out").label_names == names
    assert load(files[1]).label_sets() == [(names[1],)]


def test_a_split_of_fewer_parts_leaves_none_of_the_earlier_one(tmp_path):
    save(TICKETS, tmp_path)
    fewer = replace(TICKETS, split=np.where(TICKETS.split == "train", "train", "test"))
    with pytest.raises(UserError, match=r"already has .*validation\.jsonl.*overwrite"):
        save(fewer, tmp_path)
    save(fewer, tmp_path, overwrite=True)
    assert not (tmp_path / "validation.jsonl").exists()
    assert len(load(tmp_path)) == len(TICKETS)


def test_files_that_would_be_read_as_parts_and_are_none_of_ours_are_refused(tmp_path):
    (tmp_path / "dev.csv").write_text("text,labels\nx,a\n")
    (tmp_path / "notes.csv").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(UserError, match=r"has dev\.csv, which would be read as a part"):
            save(TICKETS, tmp_path, overwrite=overwrite)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dev.csv", "notes.csv"]


def test_a_linked_folder_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    save(TICKETS, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert len(load(tmp_path / "real")) == len(TICKETS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


def table(folder, samples=60):
    """Numbers of which some are missing, categories of which some are, and a column of 0 and 1."""
    rng = np.random.default_rng(0)
    rows = ["id,age,smokes,region,tags"]
    for row in range(samples):
        age = "" if row % 7 == 0 else f"{rng.normal():.3f}"
        region = ("north east", "west", "")[row % 3]
        rows.append(f"r{row},{age},{rng.integers(2)},{region},{('a', 'b', 'a|b')[row % 3]}")
    path = folder / "people.csv"
    path.write_text("\n".join(rows) + "\n")
    return read(path, features=["age", "smokes", "region"], labels="tags")


def test_a_table_comes_back_with_its_columns_and_what_is_missing(tmp_path):
    data = make_split(table(tmp_path))
    files = save(data, tmp_path / "out")
    assert [file.name for file in files][:3] == ["train.csv", "validation.csv", "test.csv"]
    again = load(tmp_path / "out")
    order = {identifier: row for row, identifier in enumerate(again.ids)}
    rows = [order[identifier] for identifier in data.ids]
    again = again.select(rows)
    assert np.isnan(data.features).any()
    np.testing.assert_array_equal(again.features, data.features)
    assert again.columns.features == data.columns.features
    assert again.label_sets() == data.label_sets()
    assert load(tmp_path / "out", features=["age"]).columns.features.columns == ("age",)


def test_a_table_of_numbers_alone_is_read_back(tmp_path):
    rows = "".join(f"{row},{row % 7},{row % 2}\n" for row in range(60))
    (tmp_path / "a.csv").write_text(f"age,size,tall\n{rows}")
    data = make_split(read(tmp_path / "a.csv", labels=["tall"]))
    save(data, tmp_path / "out")
    assert load(tmp_path / "out").columns.features.columns == ("age", "size")
    part = load(tmp_path / "out" / "train.csv")
    np.testing.assert_array_equal(part.features, data.part("train").features)


def test_texts_over_a_saved_table_leave_nothing_of_it(tmp_path):
    save(make_split(table(tmp_path)), tmp_path / "out")
    with pytest.raises(
        UserError, match=r"already has labels\.txt, reading\.json, test\.csv, train\.csv"
    ):
        save(TICKETS, tmp_path / "out")
    save(TICKETS, tmp_path / "out", overwrite=True)
    assert not (tmp_path / "out" / "reading.json").exists()
    assert len(load(tmp_path / "out")) == 200


@pytest.mark.parametrize(
    "held", ["[", '["age"]', '{"format": "svm"}', '{"features": [1]}', "[" * 9999]
)
def test_a_strangers_word_on_how_to_read_is_checked(held, tmp_path):
    save(make_split(table(tmp_path)), tmp_path / "out")
    (tmp_path / "out" / "reading.json").write_text(held)
    with pytest.raises(UserError, match=r"reading\.json: expected an object with features"):
        load(tmp_path / "out")


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "json", "parquet"])
def test_tables_are_written_in_every_format_of_tables(ending, tmp_path):
    data = table(tmp_path)
    write(data, tmp_path / f"copy.{ending}")
    again = read(tmp_path / f"copy.{ending}", features=["age", "smokes", "region"], labels="labels")
    np.testing.assert_array_equal(again.features, data.features)
    assert again.label_sets() == data.label_sets()


def test_a_hugging_face_folder_holds_a_table(tmp_path):
    data = table(tmp_path)
    write(data, tmp_path / "copy", format="huggingface")
    again = load(tmp_path / "copy", features=["age", "smokes", "region"], labels="labels")
    np.testing.assert_array_equal(again.features, data.features)


@pytest.mark.parametrize("ending", ["svm", "arff"])
def test_missing_numbers_are_not_written_where_they_could_not_be_read(ending, tmp_path):
    with pytest.raises(UserError, match="missing numbers, which this format cannot hold; use csv"):
        write(table(tmp_path), tmp_path / f"copy.{ending}")
    assert not (tmp_path / f"copy.{ending}").exists()


def test_a_feature_that_is_called_as_another_column_is_refused(tmp_path):
    data = table(tmp_path)
    features = replace(data.columns.features, numbers=("age", "labels"))
    data = replace(data, columns=replace(data.columns, features=features))
    with pytest.raises(UserError, match="the column 'labels' of the features is called as one"):
        save(make_split(data), tmp_path / "out")


def test_a_part_by_itself_is_read_as_its_folder_says(tmp_path):
    data = make_split(table(tmp_path))
    save(data, tmp_path / "out")
    part, whole = load(tmp_path / "out" / "train.csv"), load(tmp_path / "out").part("train")
    assert part.columns.features == whole.columns.features
    np.testing.assert_array_equal(part.features, whole.features)
    assert tmp_path / "out" / "reading.json" in files_behind(tmp_path / "out" / "train.csv")
    (tmp_path / "out" / "reading.json").write_text('{"features": []}')
    with pytest.raises(UserError, match=r"reading\.json: expected an object"):
        load(tmp_path / "out" / "train.csv")


def test_a_split_that_somebody_kept_is_not_replaced(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "split.json").write_text("mine")
    with pytest.raises(UserError, match=r"already has split\.json"):
        save(TICKETS, tmp_path / "out")
    assert (tmp_path / "out" / "split.json").read_text() == "mine"


def test_groups_of_texts_come_back(tmp_path):
    """What is drawn from the folder later keeps them together, too."""
    groups = [f"author {place % 40}" if place % 9 else "" for place in range(len(TICKETS))]
    data = make_split(replace(with_ids(demo.make(200)), groups=groups), "group")
    save(data, tmp_path / "out")
    again = load(tmp_path / "out")
    same(data, again)
    assert dict(zip(again.ids, again.groups, strict=True)) == dict(
        zip(data.ids, groups, strict=True)
    )
    assert load(tmp_path / "out" / "train.jsonl").groups is not None
    save(TICKETS, tmp_path / "out", overwrite=True)
    assert load(tmp_path / "out").groups is None
    assert not (tmp_path / "out" / "reading.json").exists()


def test_a_file_in_place_of_the_folder_is_named_as_such(tmp_path):
    (tmp_path / "t.csv").write_text("mine")
    with pytest.raises(UserError, match=r"t\.csv: a file, where a folder for the parts was"):
        save(TICKETS, tmp_path / "t.csv", overwrite=True)
    assert (tmp_path / "t.csv").read_text() == "mine"

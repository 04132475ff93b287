"""Damaged Arrow data, in Parquet or in a Hugging Face folder, is one line with the file's name."""

import json
import os
import subprocess
import sys

import pyarrow
import pytest
from pyarrow import parquet

from zlpr._errors import UserError
from zlpr.data import demo, read, write


def _hugging_face(tmp_path):
    folder = tmp_path / "saved"
    write(demo.make(50), folder, format="huggingface")
    (data,) = folder.glob("*.arrow")
    return folder, data


def _bad_text(kind):
    """A column of texts whose buffers lie: offsets beyond the data, or bytes that are no UTF-8."""
    offsets = pyarrow.array([0, 1 << 30 if kind == "offsets" else 1, 2], pyarrow.int32())
    return pyarrow.StringArray.from_buffers(2, offsets.buffers()[1], pyarrow.py_buffer(b"a\xff"))


@pytest.mark.parametrize("kind", ["offsets", "bytes"])
def test_a_hugging_face_folder_with_lying_buffers_does_not_end_the_interpreter(tmp_path, kind):
    folder, data = _hugging_face(tmp_path)
    table = pyarrow.record_batch({"text": _bad_text(kind), "labels": pyarrow.array([["a"], ["b"]])})
    with pyarrow.OSFile(str(data), "wb") as out, pyarrow.ipc.new_stream(out, table.schema) as s:
        s.write_batch(table)
    code = "import sys; from zlpr.data import read; read(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True)
    assert done.returncode == 1, "the interpreter ended"
    last = done.stderr.splitlines()[-1]
    assert f"UserError: {data}: cannot be read as Arrow: " in last


def test_bytes_that_are_no_utf8_in_parquet(tmp_path):
    table = pyarrow.table({"text": pyarrow.array([b"a", b"\xff"]), "labels": [["a"], ["b"]]})
    schema = pyarrow.schema({"text": pyarrow.string(), "labels": table.schema.field("labels").type})
    with parquet.ParquetWriter(tmp_path / "a.parquet", schema) as writer:
        view = table.column("text").chunk(0).view(pyarrow.string())
        writer.write_table(pyarrow.table([view, table.column("labels")], schema=schema))
    with pytest.raises(UserError, match=r"a.parquet: cannot be read as Parquet: .*UTF8"):
        read(tmp_path / "a.parquet")


@pytest.mark.parametrize("cut", [3, 100, 2000])
def test_a_cut_file(tmp_path, cut):
    folder, data = _hugging_face(tmp_path)
    data.write_bytes(data.read_bytes()[:cut])
    with pytest.raises(UserError, match=f"{data.name}: cannot be read as Arrow"):
        read(folder)
    write(demo.make(50), tmp_path / "a.parquet")
    content = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(content[:cut] + content[cut + 1 :])
    with pytest.raises(UserError, match=r"a.parquet: cannot be read as Parquet"):
        read(tmp_path / "a.parquet")


def test_a_class_without_a_name_is_a_bad_row(tmp_path):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["a", "b"])}
    )
    data = {"text": ["x", "y", "z"], "label": [0, -1, 1]}
    table = datasets.Dataset.from_dict(data, features=features)
    table.save_to_disk(tmp_path / "saved")
    table.to_parquet(tmp_path / "a.parquet")
    for path in (tmp_path / "saved", tmp_path / "a.parquet"):
        with pytest.raises(UserError, match=r"row 2, column 'label': .*class -1 of a column with"):
            read(path)
        assert read(path, skip_bad_rows=True).label_sets() == [("a",), ("b",)]


def test_metadata_that_is_nested_too_deeply_is_no_description(tmp_path):
    deep = b'{"info": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    table = pyarrow.table({"text": ["x"], "labels": [["a"]]})
    parquet.write_table(
        table.replace_schema_metadata({b"huggingface": deep}), tmp_path / "a.parquet"
    )
    assert read(tmp_path / "a.parquet").label_sets() == [("a",)]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, "state.json: expected the names of the data files"),
        ({"_data_files": [{}]}, "state.json: .* names no file"),
        ({"_data_files": [{"filename": "../a.arrow"}]}, "state.json: .* names no file"),
        ({"_data_files": [{"filename": "none.arrow"}]}, "none.arrow: no such file"),
        ([], "state.json: expected a JSON object"),
    ],
)
def test_a_description_of_a_folder_that_is_none(tmp_path, state, message):
    folder, _ = _hugging_face(tmp_path)
    (folder / "state.json").write_text(json.dumps(state))
    with pytest.raises(UserError, match=message):
        read(folder)


def test_two_columns_or_two_classes_of_one_name(tmp_path):
    table = pyarrow.table([["x"], ["y"], [["a"]]], names=["text", "text", "labels"])
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"a.parquet.*same name"):
        read(tmp_path / "a.parquet")


def test_parts_that_declare_different_classes(tmp_path):
    datasets = pytest.importorskip("datasets")

    def part(text, names):
        features = {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=names)}
        data = {"text": [text] * len(names), "label": list(range(len(names)))}
        return datasets.Dataset.from_dict(data, features=datasets.Features(features))

    parts = {"train": part("x", ["a", "b"]), "test": part("y", ["b", "c"])}
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "saved")
    data = read(tmp_path / "saved")
    assert data.label_names == ("a", "b", "c")
    assert data.label_sets() == [("a",), ("b",), ("b",), ("c",)]
    assert any("declare different labels: 'c' not in all of them" in note for note in data.notes)


@pytest.mark.parametrize("form", ["parquet", "huggingface"])
def test_names_of_files_may_be_in_any_encoding(tmp_path, form):
    path = tmp_path / os.fsdecode(b"caf\xe9.parquet" if form == "parquet" else b"caf\xe9")
    data = demo.make(20)
    write(data, path, format=form)
    assert read(path).label_sets() == data.label_sets()

from decimal import Decimal

import pytest

from zlpr._errors import UserError
from zlpr.data import read

pyarrow = pytest.importorskip("pyarrow", reason="needs the extra 'data'")
from pyarrow import parquet  # noqa: E402


def _read(tmp_path, columns, metadata=None, **how):
    path = tmp_path / "a.parquet"
    table = pyarrow.table(columns)
    parquet.write_table(table.replace_schema_metadata(metadata), path)
    return read(path, **how)


def test_lists_of_names_and_of_ids(tmp_path):
    data = _read(tmp_path, {"text": ["水", "b"], "labels": [["x", "y"], []]})
    assert list(data.texts) == ["水", "b"]
    assert data.label_sets() == [("x", "y"), ()]
    data = _read(tmp_path, {"text": ["a", "b"], "labels": [[11, 2], [2]]})
    assert data.label_names == ("2", "11")


def test_a_column_per_label(tmp_path):
    data = _read(tmp_path, {"text": ["a", "b"], "rude": [0, 1], "spam": [1, 1]})
    assert data.label_sets() == [("spam",), ("rude", "spam")]


def test_class_names_in_the_metadata_of_datasets(tmp_path):
    features = (
        '{"info": {"features": {"labels": {"feature": '
        '{"names": ["joy", "anger", "fear"], "_type": "ClassLabel"}, "_type": "List"}}}}'
    )
    columns = {"text": ["a", "b"], "labels": [[2, 0], []]}
    data = _read(tmp_path, columns, {"huggingface": features})
    assert data.label_names == ("joy", "anger", "fear")
    assert data.label_sets() == [("joy", "fear"), ()]


def test_many_rows_in_many_batches(tmp_path):
    texts = [f"text {i}" for i in range(7001)]
    data = _read(tmp_path, {"text": texts, "labels": [[str(i % 5)] for i in range(7001)]})
    assert list(data.texts) == texts


def test_bad_rows_are_numbered_as_rows(tmp_path):
    columns = {"text": ["a", None, "c"], "labels": [["x"], ["x"], None]}
    with pytest.raises(
        UserError, match=r"2 bad rows: row 2, column 'text': .*; row 3, column 'lab"
    ):
        _read(tmp_path, columns)
    assert len(_read(tmp_path, columns, skip_bad_rows=True)) == 1


def test_a_file_that_is_not_parquet(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(UserError, match=r"a.parquet: cannot be read as Parquet"):
        read(tmp_path / "a.parquet")


def test_decimal_numbers_are_numbers(tmp_path):
    """As databases write amounts and whole numbers."""
    amounts = pyarrow.array([Decimal("1.50"), None, Decimal("3.00")], pyarrow.decimal128(10, 2))
    flags = pyarrow.array([Decimal(1), Decimal(0), Decimal(1)], pyarrow.decimal128(5, 0))
    data = _read(tmp_path, {"id": flags, "paid": amounts, "late": flags}, labels=["late"])
    assert data.columns.features.columns == ("paid",)
    assert data.features[[0, 2], 0].tolist() == [1.5, 3.0]
    assert (data.label_sets(), data.ids) == ([("late",), (), ("late",)], ["1", "0", "1"])

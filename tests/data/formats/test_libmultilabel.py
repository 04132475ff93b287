import pytest

from zlpr._errors import UserError
from zlpr.data import read


def _read(tmp_path, content, **how):
    path = tmp_path / "a.tsv"
    path.write_text(content, encoding="utf-8")
    return read(path, **how)


def test_with_and_without_ids(tmp_path):
    rows = [("d1", "GCAT E12", "prices rose in “spring” again"), ("d2", "E12", "banks met in Oslo")]
    with_ids = _read(tmp_path, "".join("\t".join(row) + "\n" for row in rows))
    without = _read(tmp_path, "".join("\t".join(row[1:]) + "\n" for row in rows))
    assert with_ids.label_sets() == without.label_sets() == [("E12", "GCAT"), ("E12",)]
    assert list(with_ids.texts) == list(without.texts) == [row[2] for row in rows]
    assert with_ids.ids == ["d1", "d2"]
    assert without.ids is None


def test_empty_label_sets(tmp_path):
    data = _read(tmp_path, "d1\t\tsome words\nd2\tA\tmore words\n", format="libmultilabel")
    assert data.label_sets() == [(), ("A",)]


def test_a_row_with_other_fields(tmp_path):
    content = "d1\tA\tsome words\nd2\tA some words\nd3\tA\tmore\twords\n"
    message = "2 bad rows: line 2: 2 fields separated by tabs, expected 3; line 3: 4 fields"
    with pytest.raises(UserError, match=message):
        _read(tmp_path, content, format="libmultilabel")


def test_a_table_with_text_first_is_not_taken_for_it(tmp_path):
    content = "what a lovely day\t3\tid1\nnot so good today\t1,3\tid2\n"
    with pytest.raises(UserError, match=r"is this a header\?"):
        _read(tmp_path, content)

import sys

import pytest

from zlpr._errors import UserError
from zlpr.data import read
from zlpr.data.formats import fasttext


def _read(tmp_path, content, **how):
    path = tmp_path / "a.txt"
    path.write_text(content, encoding="utf-8")
    return read(path, **how)


def test_labels_in_front_and_anywhere(tmp_path):
    data = _read(
        tmp_path,
        "__label__sauce __label__cheese How much does  potato starch do?\n"
        "\n"
        "no label at all\n"
        "__label__sauce\n"
        "late __label__汤 labels count , too\n",
    )
    assert data.label_sets() == [("cheese", "sauce"), (), ("sauce",), ("汤",)]
    assert list(data.texts) == [
        "How much does  potato starch do?",
        "no label at all",
        "",
        "late labels count , too",
    ]


def test_a_label_without_a_name(tmp_path):
    content = "__label__a fine\n__label__b __label__ not fine\n"
    with pytest.raises(UserError, match=r"a.txt, line 2: word 2 is a __label__ without a name"):
        _read(tmp_path, content)
    assert len(_read(tmp_path, content, skip_bad_rows=True)) == 1


def test_texts_alone(tmp_path):
    assert _read(tmp_path, "__label__a x\n", labelled=False).labels.shape == (1, 0)


def test_a_line_of_very_many_labels(tmp_path):
    """Split in one pass: label by label, each split would copy the rest of the line."""
    splits = 0

    def count(frame, event, function):
        nonlocal splits
        if frame.f_code.co_filename == fasttext.__file__ and event == "c_call":
            splits += function.__name__ == "split"

    (tmp_path / "a.txt").write_text(" ".join(f"__label__{i}" for i in range(20_000)) + " a text\n")
    sys.setprofile(count)
    try:
        data = read(tmp_path / "a.txt", format="fasttext")
    finally:
        sys.setprofile(None)
    assert data.num_labels == 20_000
    assert list(data.texts) == ["a text"]
    assert 0 < splits < 10


def test_labels_that_are_joined(tmp_path):
    with pytest.raises(UserError, match="line 1: '__label__a,__label__b': expected a space"):
        _read(tmp_path, "__label__a,__label__b text\n")

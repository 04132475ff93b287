import io

import numpy as np
import pytest

from zlpr._errors import UserError
from zlpr.data import Dataset, read, write

CONTENT = "4 6 5\n0,3 0:0.5 5:1.25\n 2:-1e-3\n4\n1,4 1:1 2:2 3:3\n"


def _read(tmp_path, content, **how):
    path = tmp_path / "a.svm"
    path.write_text(content)
    return read(path, **how)


def test_rows_labels_and_widths(tmp_path):
    data = _read(tmp_path, CONTENT)
    assert data.label_names == ("0", "1", "2", "3", "4")
    assert data.label_sets() == [("0", "3"), (), ("4",), ("1", "4")]
    assert data.features.toarray().tolist() == [
        [0.5, 0, 0, 0, 0, 1.25],
        [0, 0, -0.001, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
        [0, 1, 2, 3, 0, 0],
    ]


def test_names_for_the_labels(tmp_path):
    data = _read(tmp_path, CONTENT, label_names=["a", "b", "c", "d", "e"])
    assert data.label_sets() == [("a", "d"), (), ("e",), ("b", "e")]


def test_against_scikit_learn(tmp_path):
    from sklearn.datasets import load_svmlight_file

    rng = np.random.default_rng(0)
    lines = []
    for _ in range(300):
        labels = sorted(rng.choice(40, rng.integers(1, 5), replace=False).tolist())
        columns = sorted(rng.choice(100, rng.integers(1, 9), replace=False).tolist())
        pairs = " ".join(f"{column}:{rng.normal():.6g}" for column in columns)
        lines.append(",".join(map(str, labels)) + " " + pairs)
    body = "\n".join(lines) + "\n"
    data = _read(tmp_path, "300 100 40\n" + body)
    features, labels = load_svmlight_file(
        io.BytesIO(body.encode()), n_features=100, multilabel=True, zero_based=True
    )
    assert abs(data.features - features).max() == 0
    assert data.label_sets() == [tuple(str(int(label)) for label in row) for row in labels]


def test_tabs_and_blank_lines_between_rows(tmp_path):
    data = _read(tmp_path, "2 6 5\n0,3\t0:0.5  5:1\n\n \n")
    assert data.label_sets() == [("0", "3"), ()]
    assert data.features.nnz == 2


def test_without_a_header_the_widths_are_what_occurs(tmp_path):
    data = _read(tmp_path, "12,3 1:1 7:2\n3 2:1\n")
    assert data.features.shape == (2, 8)
    assert data.label_names == ("3", "12")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("0,x 1:1", r"line 3, column 1: expected label indices joined by commas, got '0,x'"),
        ("0 1:1 2", r"line 3, column 7: expected feature:value, got '2'"),
        ("0 1:2:3", r"line 3, column 3: expected feature:value, got '1:2:3'"),
        ("0 -1:2", r"line 3, column 3: expected feature:value"),
        ("0 1:abc", r"line 3, column 3: expected a finite number, got 'abc'"),
        ("0 1:nan", r"line 3, column 3: expected a finite number, got 'nan'"),
        ("0 1:1e999", r"line 3, column 3: expected a finite number"),
        ("0 6:1", r"line 3, column 3: feature 6, expected less than 6"),
        ("0 99999999999999999999999:1", r"line 3, column 3: feature 9{23}, expected less than 6"),
        ("5 1:1", r"line 3, column 1: label 5, expected less than 5"),
        ("0,99999999999999999999 1:1", r"line 3, column 1: label 9{20}, expected less than 5"),
    ],
)
def test_a_bad_row(tmp_path, row, message):
    with pytest.raises(UserError, match=f"a.svm, {message}"):
        _read(tmp_path, f"3 6 5\n0 1:1\n{row}\n1 2:1\n")
    assert len(_read(tmp_path, f"3 6 5\n0 1:1\n{row}\n1 2:1\n", skip_bad_rows=True)) == 2


def test_a_header_that_announces_other_rows(tmp_path):
    with pytest.raises(UserError, match="line 1: the header announces 9 rows, the file has 4"):
        _read(tmp_path, CONTENT.replace("4 6 5", "9 6 5"))
    data = _read(tmp_path, CONTENT.replace("4 6 5", "9 6 5"), skip_bad_rows=True)
    assert len(data) == 4
    assert "announces 9 rows" in data.notes[0]


def test_a_million_labels(tmp_path):
    data = _read(tmp_path, "1 2 1000000\n999999,0 0:1\n")
    assert data.labels.shape == (1, 1_000_000)
    assert data.label_sets() == [("0", "999999")]


@pytest.mark.parametrize("header", ["1 2 99999999999", f"1 2 {'9' * 5000}", f"1 {'9' * 30} 2"])
def test_a_header_beyond_all_memory_is_refused_at_once(tmp_path, header):
    with pytest.raises(UserError, match=r"line 1: [\d,]+ (labels|features), expected at most"):
        _read(tmp_path, f"{header}\n0 0:1\n")


def test_a_feature_that_is_repeated_is_added_up_and_said(tmp_path):
    data = _read(tmp_path, "2 6 2\n0 0:1 3:1\n1 3:1 2:1 3:2 3:4\n")
    assert data.features.toarray()[1].tolist() == [0, 0, 1, 7, 0, 0]
    assert "a.svm, line 3: a feature appears more than once; its values are added" in data.notes[0]
    assert "2 features were repeated in all" in data.notes[1]
    assert _read(tmp_path, CONTENT).notes == ()


@pytest.mark.parametrize("space", ["\u2028", "\x85", "\x1c", "\xa0"])
@pytest.mark.parametrize("row", ["0 1:1{}1 2:1", "0{}1 2:1", "0 1:{}3 2:1", "0 1:1{} 2:1"])
def test_spaces_that_are_none_in_ascii_are_a_bad_row(tmp_path, space, row):
    with pytest.raises(UserError, match=r"a\.svm, line 2, column \d+: expected"):
        _read(tmp_path, "0 1:1\n" + row.format(space) + "\n")


def test_a_label_of_very_many_digits(tmp_path):
    with pytest.raises(UserError, match=r"label 9{30}, expected less than"):
        _read(tmp_path, "9" * 5000 + " 1:1\n")


def test_under_a_header_numbers_are_positions_even_among_names_that_are_numbers(tmp_path):
    data = _read(tmp_path, "3 2 3\n0 0:1\n1 0:1\n2,0 1:1\n", label_names=["1", "3", "7"])
    assert data.label_sets() == [("1",), ("3",), ("1", "7")]
    assert data.columns.numbered
    with pytest.raises(UserError, match=r"header announces 3 labels, label_names has 2"):
        _read(tmp_path, "1 2 3\n0 0:1\n", label_names=["a", "b"])


def test_without_a_header_numbers_are_names_where_the_list_has_numbers(tmp_path):
    data = _read(tmp_path, "1 0:1\n7,3 1:1\n", label_names=["1", "3", "7"])
    assert data.label_sets() == [("1",), ("3", "7")]
    with pytest.raises(UserError, match="unknown label '2'"):
        _read(tmp_path, "1 0:1\n2 1:1\n", label_names=["1", "3", "7"])


@pytest.mark.parametrize("names", [("1", "3", "7"), ("2", "1", "0"), ("cat", "dog", "a fish")])
@pytest.mark.parametrize("file", ["a.svm", "a.svm.gz"])
def test_names_are_listed_beside_the_file_and_read_back(names, file, tmp_path):
    features = np.eye(3)
    data = Dataset.from_label_sets(
        [{names[1]}, set(names), set()], label_names=names, features=features
    )
    write(data, tmp_path / file)
    again = read(tmp_path / file)
    assert again.label_names == names
    assert again.label_sets() == data.label_sets()
    # Numbers over it: the old list must not name them.
    plain = Dataset.from_label_sets([{"1"}], label_names=["0", "1"], features=features[:1])
    write(plain, tmp_path / file)
    assert read(tmp_path / file).label_names == ("0", "1")
    (tmp_path / "a.labels").write_text("one\n")
    with pytest.raises(UserError, match=r"header announces 2 labels, .*a\.labels has 1"):
        read(tmp_path / file)


def test_the_list_of_a_folder_names_the_labels_of_its_files(tmp_path):
    (tmp_path / "labels.txt").write_text("1\n3\n7\n")
    assert _read(tmp_path, "1 2 3\n1 0:1\n").label_sets() == [("3",)]
    other = _read(tmp_path, "1 2 4\n1 0:1\n")
    assert other.label_sets() == [("1",)]
    assert ["labels.txt beside it lists 3: not used" in note for note in other.notes] == [True]


def test_the_lists_beside_a_file_are_among_what_is_read(tmp_path):
    from zlpr.data import files_behind

    for name in ("a.svm", "a.csv", "a.labels", "labels.txt"):
        (tmp_path / name).write_text("x\n")
    files = [tmp_path / name for name in ("a.svm", "a.labels", "labels.txt")]
    assert files_behind(tmp_path / "a.svm") == files
    assert files_behind(tmp_path / "a.csv") == [tmp_path / "a.csv"]

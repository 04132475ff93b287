"""Every format gives back what was written, through every compression."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from zlpr._errors import UserError
from zlpr.data import Dataset, read, write

TEXTS = [
    "The kettle leaks.",
    "灯不亮了，请帮忙。",
    'She said "no, thanks", twice',
    "tab\tand, comma; bar|end",
    "emoji 🙂 and accents: naïve café",
    "",
]
SETS = [{"broken", "kitchen"}, {"灯"}, set(), {"kitchen"}, {"broken", "灯", "kitchen"}, {"broken"}]

TABLES = ["jsonl", "json", "csv", "tsv", "parquet"]
ENDINGS = ["", ".gz", ".bz2", ".xz"]
PLAIN = {"fasttext": ".fasttext", "libmultilabel": ".txt"}


def _same(one: Dataset, other: Dataset) -> None:
    assert one.label_names == other.label_names
    assert one.label_sets() == other.label_sets()
    for field in ("texts", "ids", "groups"):
        first, second = getattr(one, field), getattr(other, field)
        assert (first is None and second is None) or list(first) == list(second), field
    if one.split is None:
        assert other.split is None
    else:
        assert (one.split == other.split).all()
    if one.features is not None:
        assert sparse.issparse(one.features) == sparse.issparse(other.features)
        difference = one.features - other.features
        assert abs(difference).max() == 0


@pytest.mark.parametrize(
    ("name", "ending"),
    [(name, ending) for name in TABLES[:-1] for ending in ENDINGS] + [("parquet", "")],
)
def test_tables_keep_everything(tmp_path, name, ending):
    data = Dataset.from_label_sets(
        SETS,
        texts=TEXTS,
        ids=[f"编号 {i}" for i in range(6)],
        groups=["a", "a", "b", "b", "c", "c"],
        split=np.array(["train", "test", "train", "validation", "train", "test"]),
    )
    path = tmp_path / f"data.{name}{ending}"
    write(data, path)
    _same(read(path, group="group"), data)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_texts_alone(tmp_path, name):
    data = Dataset.from_label_sets(SETS, texts=TEXTS)
    write(data, tmp_path / f"data.{name}")
    _same(read(tmp_path / f"data.{name}"), data)


@pytest.mark.parametrize("name", TABLES)
def test_a_label_with_a_carriage_return(tmp_path, name):
    data = Dataset.from_label_sets([{"a\rb"}, {"c", "a\rb"}], texts=["x", "y"])
    write(data, tmp_path / f"data.{name}")
    assert read(tmp_path / f"data.{name}").label_sets() == data.label_sets()


@pytest.mark.parametrize("name", sorted(PLAIN))
@pytest.mark.parametrize("ending", ENDINGS)
def test_formats_of_lines(tmp_path, name, ending):
    texts = [f"{i} {text.replace(chr(9), ' ')}".strip() for i, text in enumerate(TEXTS)]
    data = Dataset.from_label_sets(SETS, texts=texts)
    path = tmp_path / f"data{PLAIN[name]}{ending}"
    write(data, path, format=name)
    _same(read(path, format=name), data)


def test_libmultilabel_with_ids(tmp_path):
    data = Dataset.from_label_sets(SETS[:2], texts=TEXTS[:2], ids=["x1", "x2"])
    write(data, tmp_path / "data.txt", format="libmultilabel")
    _same(read(tmp_path / "data.txt", format="libmultilabel"), data)


@pytest.mark.parametrize("name", ["svm", "arff"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_formats_of_features(tmp_path, name, ending):
    values = np.array([[0.0, 0.1, -2.5e-7], [0, 0, 0], [1, 0, 3], [0, 1e30, 0]])
    data = Dataset.from_label_sets(
        [{"0"}, set(), {"0", "2"}, {"2"}],
        label_names=["0", "1", "2"],
        features=sparse.csr_array(values),
    )
    path = tmp_path / f"data.{name}{ending}"
    write(data, path)
    _same(read(path), data)


def test_dense_features_in_arff(tmp_path):
    values = np.random.default_rng(0).normal(size=(5, 3))
    data = Dataset.from_label_sets(
        [{"it's"}, set(), {"a b", "it's"}, {"a b"}, set()],
        label_names=["it's", "a b", "never"],
        features=values,
    )
    write(data, tmp_path / "data.arff")
    _same(read(tmp_path / "data.arff"), data)


def test_hugging_face_folder_keeps_unused_labels_and_the_split(tmp_path):
    data = Dataset.from_label_sets(
        SETS,
        label_names=["kitchen", "灯", "never", "broken"],
        texts=TEXTS,
        split=np.array(["train"] * 4 + ["test"] * 2),
    )
    write(data, tmp_path / "saved", format="huggingface")
    _same(read(tmp_path / "saved"), data)


any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
any_label = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)


@pytest.mark.parametrize("name", TABLES)
@given(
    rows=st.lists(st.tuples(any_text, st.sets(any_label, max_size=3)), min_size=1, max_size=12),
)
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_text_and_any_label_survive_a_table(tmp_path, name, rows):
    data = Dataset.from_label_sets([labels for _, labels in rows], texts=[text for text, _ in rows])
    write(data, tmp_path / f"data.{name}")
    again = read(tmp_path / f"data.{name}")
    assert list(again.texts) == list(data.texts)
    assert [set(labels) for labels in again.label_sets()] == [labels for _, labels in rows]


@given(
    rows=st.lists(
        st.tuples(
            st.sets(st.integers(0, 9), max_size=3),
            st.dictionaries(
                st.integers(0, 19),
                st.floats(allow_nan=False, allow_infinity=False).filter(bool),
                max_size=4,
            ),
        ),
        min_size=1,
        max_size=8,
    ),
    name=st.sampled_from(["svm", "arff"]),
)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_finite_features_survive(tmp_path, rows, name):
    features = sparse.lil_array((len(rows), 20))
    for row, (_, pairs) in enumerate(rows):
        for column, value in pairs.items():
            features[row, column] = value
    data = Dataset.from_label_sets(
        [set(map(str, labels)) for labels, _ in rows],
        label_names=[str(i) for i in range(10)],
        features=sparse.csr_array(features),
    )
    write(data, tmp_path / f"data.{name}")
    again = read(tmp_path / f"data.{name}")
    assert again.label_sets() == data.label_sets()
    assert (again.features != data.features).nnz == 0


@pytest.mark.parametrize(
    ("name", "labels", "text", "message"),
    [
        ("fasttext", {"two words"}, "x", "'two words' has white space"),
        ("fasttext", {"a"}, "about __label__b", "reads as a label"),
        ("fasttext", {"a__label__b"}, "x", "'a__label__b' has a __label__"),
        ("fasttext", (), " \n", "sample 1 has neither text nor label"),
        ("libmultilabel", {"two words"}, "x", "'two words' has white space"),
        ("svm", {"a"}, "x", "the data has texts, and this format holds features"),
        ("mulan", {"a"}, "x", "the data has texts, and this format holds features"),
    ],
)
def test_what_a_format_cannot_hold_is_refused_and_leaves_no_file(
    tmp_path, name, labels, text, message
):
    data = Dataset.from_label_sets([labels], texts=[text])
    with pytest.raises(UserError, match=message):
        write(data, tmp_path / "data.out", format=name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["jsonl", "json", "csv", "tsv", "parquet", "fasttext", "libmultilabel", "huggingface"]
)
def test_formats_of_texts_refuse_features(tmp_path, name):
    data = Dataset.from_label_sets([{"a"}], features=np.ones((1, 2)))
    with pytest.raises(UserError, match="the data has features, and this format holds texts"):
        write(data, tmp_path / "data.out", format=name)
    assert list(tmp_path.iterdir()) == []


def test_lines_lose_their_breaks_and_nothing_else(tmp_path):
    data = Dataset.from_label_sets([{"a"}], texts=["one\ntwo\tthree"])
    write(data, tmp_path / "x.fasttext")
    assert list(read(tmp_path / "x.fasttext").texts) == ["one two\tthree"]
    write(data, tmp_path / "x.txt", format="libmultilabel")
    assert list(read(tmp_path / "x.txt", format="libmultilabel").texts) == ["one two three"]


def test_an_unknown_ending_asks_for_the_format(tmp_path):
    with pytest.raises(UserError, match=r"in what format\? Name one of jsonl, json, csv"):
        write(Dataset.from_label_sets([{"a"}], texts=["x"]), tmp_path / "data.doc")


def test_a_folder_that_exists_is_not_replaced(tmp_path):
    (tmp_path / "mine").mkdir()
    data = Dataset.from_label_sets([{"a"}], texts=["x"])
    with pytest.raises(UserError, match="exists already"):
        write(data, tmp_path / "mine", format="huggingface")

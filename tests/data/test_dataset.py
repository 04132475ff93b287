import numpy as np
import pytest
from scipy import sparse

from zlpr.data import Dataset, split_name


def _data(**fields):
    return Dataset.from_label_sets(
        [{"b"}, set(), {"a", "c"}], texts=["x", "y", "z"], ids=["1", "2", "3"], **fields
    )


def test_cells_that_are_stored_and_false_are_no_labels():
    labels = sparse.csr_array(np.ones((2, 2), dtype=bool))
    labels.data[:] = [True, False, False, False]
    data = Dataset(labels=labels, label_names=("a", "b"), texts=["x", "y"])
    assert data.label_sets() == [("a",), ()]
    assert data.labels.nnz == 1
    assert labels.nnz == 4  # the user's own is left as it was


def test_label_sets_and_back():
    data = _data()
    assert data.label_names == ("a", "b", "c")
    assert data.labels.toarray().tolist() == [[0, 1, 0], [0, 0, 0], [1, 0, 1]]
    again = Dataset.from_label_sets(data.label_sets(), texts=data.texts)
    assert (again.labels != data.labels).nnz == 0


def test_selection_by_position_and_by_mask():
    data = _data(groups=["g", "g", "h"], split=np.array(["train", "test", "train"]))
    assert list(data.select([2, 0]).texts) == ["z", "x"]
    assert data.select([2, 0]).label_sets() == [("a", "c"), ("b",)]
    by_mask = data.select(np.array([False, True, True]))
    assert by_mask.ids == ["2", "3"]
    assert by_mask.groups == ["g", "h"]
    assert list(data.part("train").texts) == ["x", "z"]


def test_inputs_are_texts_or_features():
    assert list(_data().inputs) == ["x", "y", "z"]
    features = sparse.csr_array(np.eye(2))
    data = Dataset.from_label_sets([{"a"}, set()], features=features)
    assert data.inputs is features
    assert data.select([1]).features.toarray().tolist() == [[0, 1]]


def test_a_part_needs_a_split():
    with pytest.raises(ValueError, match="no split"):
        _data().part("train")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"texts": ["x"]}, "texts has 1 entries for 2 samples"),
        ({"texts": ["x", "y"], "ids": ["1"]}, "ids has 1 entries"),
        ({"texts": ["x", "y"], "groups": ["1"]}, "groups has 1 entries"),
        ({"texts": ["x", "y"], "split": np.array(["test"])}, "split has 1 entries"),
        ({"features": np.ones((3, 2))}, "features has 3 rows for 2 samples"),
        ({"texts": ["x", "y"], "features": np.ones((2, 2))}, "either texts or features"),
        ({}, "either texts or features"),
    ],
)
def test_fields_must_fit_together(fields, message):
    with pytest.raises(ValueError, match=message):
        Dataset.from_label_sets([{"a"}, set()], **fields)


def test_names_must_fit_the_matrix():
    with pytest.raises(ValueError, match="labels has 1 column, label_names 2 names"):
        Dataset(sparse.csr_array(np.ones((1, 1), dtype=bool)), ("a", "b"), texts=["x"])


def test_a_name_that_is_not_listed_is_named():
    with pytest.raises(ValueError, match="'z' is not among the 2 label_names"):
        Dataset.from_label_sets([{"a", "z"}], label_names=["a", "b"], texts=["x"])


@pytest.mark.parametrize(
    ("word", "part"), [("train", "train"), (" Val ", "validation"), ("TEST", "test"), ("x", None)]
)
def test_words_for_the_parts(word, part):
    assert split_name(word) == part


def test_numbers_are_named_by_position_once_and_at_once():
    # Each number by itself, one after the other, would turn 0 into 1 and that into 3.
    data = Dataset.from_label_sets([{"0"}, {"1"}, {"2", "0"}], texts=["a", "b", "c"])
    named = data.with_numbers_named(["1", "3", "7"])
    assert named.label_names == ("1", "3", "7")
    assert named.label_sets() == [("1",), ("3",), ("1", "7")]


@pytest.mark.parametrize(
    ("sets", "what"),
    [(["news", "sport"], "text 'news'"), ([[0, 1, 0]], "holds 0"), ([{"a"}, "b"], "text 'b'")],
)
def test_label_sets_hold_names(sets, what):
    with pytest.raises(ValueError, match=rf"sets or lists of label names, .*{what}"):
        Dataset.from_label_sets(sets, texts=["x"] * len(sets))

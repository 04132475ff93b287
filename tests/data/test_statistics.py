import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from zlpr.data import statistics
from zlpr.data.dataset import Dataset
from zlpr.data.statistics import describe, unit_of

LABEL_SETS = st.lists(st.sets(st.sampled_from("abcdef")), min_size=1, max_size=30)


def test_examples_in_the_documentation_hold():
    assert doctest.testmod(statistics).failed == 0


@given(sets=LABEL_SETS)
@settings(max_examples=50, deadline=None)
def test_figures_equal_a_count_by_hand(sets):
    texts = ["word " * (index % 7) for index in range(len(sets))]
    row = describe(Dataset.from_label_sets(sets, label_names="abcdef", texts=texts))["all"]
    occurring = set().union(*sets)
    assert row.instances == len(sets)
    assert row.mean_words == pytest.approx(np.mean([index % 7 for index in range(len(sets))]))
    assert row.categories == len(occurring)
    assert row.cardinality == pytest.approx(np.mean([len(labels) for labels in sets]))
    assert row.density == pytest.approx(row.cardinality / len(occurring) if occurring else 0.0)


def test_each_split_counts_the_labels_it_holds():
    data = Dataset.from_label_sets(
        [{"a"}, {"b"}, {"a", "c"}, set()],
        texts=["one", "one two", "one two three", "one two three four"],
        split=np.array(["train", "train", "test", "test"]),
    )
    rows = describe(data)
    assert list(rows) == ["all", "train", "test"]
    assert (rows["train"].categories, rows["test"].categories, rows["all"].categories) == (2, 2, 3)
    assert (rows["train"].mean_words, rows["test"].mean_words) == (1.5, 3.5)
    assert rows["test"].cardinality == 1.0


@pytest.mark.parametrize(
    ("texts", "unit"),
    [
        (["一种用于水泵的密封圈", "PPT 模板怎么选"], "characters"),
        (["A seal for a water pump", "水泵 is Chinese for water pump"], "words"),
        (["2024", "!?"], "words"),
        ([], "words"),
    ],
)
def test_chinese_is_counted_in_characters(texts, unit):
    assert unit_of(texts) == unit


def test_characters_leave_out_white_space():
    data = Dataset.from_label_sets([{"a"}], texts=["水 泵\n密封圈"])
    assert describe(data)["all"].mean_words == 5
    assert describe(data, unit="words")["all"].mean_words == 3


def test_features_have_no_words():
    data = Dataset.from_label_sets([{"a"}], features=sparse.csr_array(np.eye(1)))
    assert describe(data)["all"].mean_words is None

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from zlpr._errors import UserError
from zlpr.data import (
    Dataset,
    check_parts,
    demo,
    load_split,
    make_split,
    report_split,
    save_split,
)
from zlpr.data.splits import units_of, usual_method

METHODS = ["random", "stratified"]


def _numbered(size, **fields):
    sets = [{f"l{i % 7}"} | ({"odd"} if i % 2 else set()) for i in range(size)]
    return Dataset.from_label_sets(sets, texts=[f"text {i}" for i in range(size)], **fields)


@pytest.mark.parametrize("method", METHODS)
@given(seed=st.integers(-5, 2**70), shuffle=st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_a_split_does_not_depend_on_the_order_of_rows(method, seed, shuffle):
    data = _numbered(150)
    order = np.random.default_rng(shuffle).permutation(len(data))
    straight = make_split(data, method, seed).split
    shuffled = make_split(data.select(order), method, seed).split
    assert (shuffled == straight[order]).all()


def test_a_random_split_does_not_depend_on_the_other_samples():
    data = make_split(_numbered(1000), seed=5)
    few = make_split(_numbered(300), seed=5)
    assert (data.split[:300] == few.split).all()


def test_a_split_of_whole_data_is_what_saved_models_were_trained_on():
    split = make_split(_numbered(1000), seed=5).split
    digest = hashlib.sha256("".join(part[0] for part in split).encode()).hexdigest()
    assert digest[:16] == "2b37f6bd7f446b7f"


@pytest.mark.parametrize("method", ["random", "group"])
@pytest.mark.parametrize("part", ["train", "validation", "test"])
@pytest.mark.parametrize("fractions", [(0.8, 0.1, 0.1), (8 / 9, 1 / 9, 0.0)])
@pytest.mark.parametrize("size", [300, 9000])
def test_a_split_of_a_part_is_fresh(method, part, fractions, size):
    groups = [f"author {i // 2}" for i in range(size)]
    data = _numbered(size, groups=groups)
    first = make_split(data, method, seed=3, fractions=(0.6, 0.2, 0.2)).part(part)
    sizes = report_split(make_split(first, method, seed=3, fractions=fractions)).sizes
    for name, share in zip(("train", "validation", "test"), fractions, strict=True):
        assert share * len(first) / 3 - 2 <= sizes.get(name, 0) <= 3 * share * len(first) + 2
    second = make_split(first, method, seed=3, fractions=fractions).part("train")
    third = report_split(make_split(second, method, seed=3, fractions=fractions)).sizes
    assert third["validation"] >= len(second) / 30


def test_parts_that_are_too_small_to_choose_on():
    data = _numbered(7053)
    assert check_parts(data.select(range(6900)), data.select(range(100))) == ()
    with pytest.raises(UserError, match=r"1 validation sample beside 7,052 training samples"):
        check_parts(data.select(range(7052)), data.select([7052]))
    with pytest.raises(UserError, match="0 validation samples"):
        check_parts(data, data.select([]))
    (note,) = check_parts(data, data.select(range(49)), data.select(range(50)))
    assert "only 49 validation samples" in note
    (note,) = check_parts(data, data.select(range(50)), data.select(range(3)))
    assert "only 3 test samples" in note
    empty = Dataset.from_label_sets([set()] * 9, label_names=["a"], texts=list("abcdefghi"))
    with pytest.raises(UserError, match=r"9 validation samples.*none of them with a label"):
        check_parts(data, empty)


@pytest.mark.parametrize("method", METHODS)
def test_another_seed_gives_another_split(method):
    data = _numbered(200)
    assert (make_split(data, method, 0).split != make_split(data, method, 1).split).any()


def test_random_sizes_are_the_fractions_up_to_chance():
    sizes = report_split(make_split(_numbered(20_000))).sizes
    for name, share in [("train", 0.8), ("validation", 0.1), ("test", 0.1)]:
        assert abs(sizes[name] - 20_000 * share) < 5 * np.sqrt(20_000 * share * (1 - share))


@pytest.mark.parametrize("method", METHODS)
def test_equal_texts_share_a_part(method):
    texts = [f"text {i % 40}" for i in range(400)]
    data = Dataset.from_label_sets([{"a"} if i % 3 else {"b"} for i in range(400)], texts=texts)
    parts = make_split(data, method).split
    assert all(len(set(parts[i::40])) == 1 for i in range(40))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [3, 4, 10])
def test_no_part_is_empty_however_small_the_data(method, size):
    assert set(make_split(_numbered(size), method).split) == {"train", "validation", "test"}


def test_too_few_samples_for_the_parts():
    with pytest.raises(UserError, match="2 distinct samples cannot fill 3 parts"):
        make_split(_numbered(2))


def test_a_share_of_zero_leaves_the_part_out():
    for method in METHODS:
        split = make_split(_numbered(100), method, fractions=(0.8, 0.0, 0.2)).split
        assert set(split) == {"train", "test"}


@pytest.mark.parametrize("fractions", [(0.8, 0.1), (0.8, 0.1, 0.2), (1.2, -0.1, -0.1)])
def test_fractions_must_be_shares(fractions):
    with pytest.raises(UserError, match="three shares that add up to 1"):
        make_split(_numbered(100), fractions=fractions)


def test_stratified_gives_each_label_its_share_to_within_a_sample_or_two():
    data = make_split(demo.make(3000, seed=1), "stratified")
    whole = data.labels.sum(axis=0)
    for name, share in [("train", 0.8), ("validation", 0.1), ("test", 0.1)]:
        part = data.part(name).labels.sum(axis=0)
        assert np.abs(part - whole * share).max() <= 0.02 * whole.max() * share + 2
    rare = np.argmin(whole)
    assert abs(data.part("test").labels.sum(axis=0)[rare] - whole[rare] * 0.1) <= 1


def test_stratified_is_closer_to_the_whole_than_random():
    data = demo.make(3000, seed=1)
    distances = {m: report_split(make_split(data, m)).mean_label_distance for m in METHODS}
    assert distances["stratified"] < distances["random"] / 3


def test_stratified_shares_out_samples_without_labels():
    data = Dataset.from_label_sets([set()] * 90 + [{"a"}] * 10, texts=[str(i) for i in range(100)])
    assert report_split(make_split(data, "stratified")).sizes == {
        "train": 80,
        "validation": 10,
        "test": 10,
    }


def test_report_against_the_formula():
    data = Dataset.from_label_sets(
        [{"a"}, {"a", "b"}, {"b"}, set(), {"a"}],
        texts=list("vwxyz"),
        split=np.array(["train", "train", "train", "train", "test"]),
    )
    report = report_split(data)
    # whole: a 3/2, b 2/3; train: a 2/2, b 2/2; test: a 1 of 1 (counts as 1/1), b 0/1
    assert report.label_distance["train"] == pytest.approx((0.5 + 1 / 3) / 2)
    assert report.label_distance["test"] == pytest.approx((0.5 + 2 / 3) / 2)
    assert report.labels_absent == {"train": 0, "test": 1}


def test_groups_are_never_divided():
    groups = [f"author {i % 30}" for i in range(600)]
    data = make_split(_numbered(600, groups=groups), "group", seed=2)
    assert all(len(set(data.split[i::30])) == 1 for i in range(30))
    assert set(data.split) == {"train", "validation", "test"}


@pytest.mark.parametrize("by", ["content", "id"])
def test_samples_without_a_group_stand_for_themselves(by):
    groups = ["" if i % 2 else f"author {i % 30}" for i in range(600)]
    ids = [f"id {i}" for i in range(600)]
    texts = [f"text {i // 4}" for i in range(600)]
    data = replace(_numbered(600, groups=groups, ids=ids), texts=texts)
    split = make_split(data, "group", seed=2, by=by).split
    alone = split[1::2]
    assert 180 <= (alone == "train").sum() <= 285
    assert {"validation", "test"} <= set(alone)
    assert all(len(set(split[i::30])) == 1 for i in range(0, 30, 2))
    if by == "content":  # one text in two parts would give the answer away
        assert (alone[0::2] == alone[1::2]).all()


@pytest.mark.parametrize("groups", [None, ["", "one", "one", "", "two", ""]])
def test_what_a_split_keeps_together_is_a_unit(groups):
    """Of groups where there are some, else of equal content, across the parts of a data set."""
    texts = ["x", "y", "x", "x", "y", "z"]
    data = Dataset.from_label_sets([{"a"}] * 6, texts=texts)
    data = data if groups is None else replace(data, groups=groups)
    expected = [0, 1, 0, 0, 1, 2] if groups is None else [0, 1, 1, 0, 2, 3]
    assert units_of(data).tolist() == expected
    assert units_of(data.select(range(2)), data.select(range(2, 6))).tolist() == expected
    for seed in range(20):
        split = make_split(data, seed=seed).split
        for unit in set(expected):
            assert len(set(split[np.array(expected) == unit])) == 1


def test_a_part_without_groups_beside_one_that_has_some_stands_for_itself():
    texts = Dataset.from_label_sets([{"a"}] * 3, texts=["x", "x", "y"])
    grouped = replace(texts, groups=["one", "one", ""])
    assert units_of(grouped, texts).tolist() == [0, 0, 1, 2, 2, 1]


def test_a_split_by_group_needs_groups():
    with pytest.raises(UserError, match="needs groups"):
        make_split(_numbered(30), "group")


def test_by_id_follows_the_id_and_not_the_text():
    ids = [f"id{i}" for i in range(200)]
    one = make_split(_numbered(200, ids=ids), by="id")
    edited = Dataset(one.labels, one.label_names, texts=["new"] * 200, ids=ids)
    assert (make_split(edited, by="id").split == one.split).all()


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_features_split_by_their_values(kind):
    values = np.random.default_rng(0).integers(0, 3, (300, 5)).astype(float)
    features = values if kind == "dense" else sparse.csr_array(values)
    data = Dataset.from_label_sets([{"a"}] * 300, features=features)
    parts = make_split(data).split
    by_row = {}
    for row, part in zip(map(tuple, values), parts, strict=True):
        assert by_row.setdefault(row, part) == part


@pytest.mark.parametrize("with_ids", [True, False])
def test_saved_and_reloaded_exactly_in_any_order(tmp_path, with_ids):
    texts = [f"text {i % 90}" for i in range(100)]  # ten repeated texts
    ids = [f"样本{i}" for i in range(100)] if with_ids else None
    split = np.random.default_rng(0).choice(["train", "validation", "test"], 100)
    data = Dataset.from_label_sets([{"a"}] * 100, texts=texts, ids=ids, split=split)
    save_split(data, tmp_path / "split.json")
    bare = Dataset(data.labels, data.label_names, texts=texts, ids=ids)
    assert (load_split(bare, tmp_path / "split.json").split == split).all()
    order = np.random.default_rng(1).permutation(90)  # of the first of each text
    again = load_split(
        bare.select(np.concatenate([order, np.arange(90, 100)])), tmp_path / "split.json"
    )
    assert (again.split[:90] == split[order]).all()


def test_a_split_of_other_data_is_refused(tmp_path):
    save_split(make_split(_numbered(50)), tmp_path / "split.json")
    with pytest.raises(UserError, match="is it the split of this data"):
        load_split(_numbered(60), tmp_path / "split.json")


@pytest.mark.parametrize("content", ["", "[]", "{}", json.dumps({"by": "x"}), "\x00"])
def test_a_file_that_is_no_split_is_refused(tmp_path, content):
    (tmp_path / "split.json").write_text(content)
    with pytest.raises(UserError, match="not a split"):
        load_split(_numbered(60), tmp_path / "split.json")


def test_groups_are_kept_together_unless_another_method_is_named():
    data = replace(_numbered(200), groups=[str(row % 20) for row in range(200)])
    assert (make_split(data).split == make_split(data, "group").split).all()
    assert usual_method(data) == usual_method(data, "group") == "group"
    with pytest.raises(UserError, match="has groups, which a random split does not keep together"):
        usual_method(data, "random")
    bare = replace(data, groups=None)
    assert (make_split(bare).split == make_split(bare, "random").split).all()
    assert usual_method(bare, "stratified") == "stratified"

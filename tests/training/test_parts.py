from dataclasses import replace

import numpy as np
import pytest

from zlpr._errors import UserError
from zlpr.data import demo, load
from zlpr.training import divide
from zlpr.training.parts import (
    combine,
    divide_again,
    hold_out,
    seen_before,
    seen_of_another,
    to_review,
)


@pytest.fixture(scope="module")
def data():
    return demo.make(160, seed=4)


def test_data_without_a_split_is_divided_by_the_seed(data):
    one, same, other = (divide(data, seed=seed) for seed in (1, 1, 2))
    assert one.method == "random"
    assert one.test.texts == same.test.texts
    assert set(one.test.texts) != set(other.test.texts)
    texts = [text for part in (one.train, one.validation, one.test) for text in part.texts]
    assert sorted(texts) == sorted(data.texts)


def test_a_published_split_is_kept_and_its_test_part_never_touched(data):
    split = np.where(np.arange(len(data)) < 120, "train", "test")
    published = replace(data, split=split)
    made, other = (divide(published, seed=seed) for seed in (5, 6))
    assert made.method == "published"
    assert made.test.texts == data.texts[120:]
    assert 5 <= len(made.validation) <= 25
    assert sorted([*made.train.texts, *made.validation.texts]) == sorted(data.texts[:120])
    assert made.validation.texts != other.validation.texts
    whole = replace(data, split=np.where(np.arange(len(data)) < 10, "validation", split))
    assert divide(whole).validation.texts == data.texts[:10]


def test_a_split_that_is_not_there_is_named(data):
    with pytest.raises(UserError, match="no published split"):
        divide(data, "published")
    with pytest.raises(UserError, match="no training part"):
        divide(replace(data, split=np.full(len(data), "test")))


def test_parts_that_came_alone_share_all_labels(data, tmp_path):
    (tmp_path / "a.csv").write_text("text,labels\n" + "red,a\nblue,b\n" * 20)
    (tmp_path / "b.csv").write_text("text,labels\nred,a\nblue,c\n")
    parts = combine(load(tmp_path / "a.csv"), None, load(tmp_path / "b.csv"))
    assert parts.train.label_names == parts.test.label_names == ("a", "b", "c")
    assert parts.validation.label_names == ("a", "b", "c")
    assert len(parts.train) + len(parts.validation) == 40
    assert parts.test.label_sets() == [("a",), ("c",)]
    both = combine(load(tmp_path / "a.csv"), load(tmp_path / "b.csv"), None)
    assert (len(both.train), len(both.validation), both.test) == (40, 2, None)


def test_a_models_record_says_how_its_data_came_apart(data):
    record = divide(data, "stratified", 7).describe()
    assert (record["split_method"], record["split_seed"]) == ("stratified", 7)
    assert record["train_samples"] + record["validation_samples"] + record["test_samples"] == 160
    assert len(record["sha256"]) == 64


def test_a_division_that_cannot_be_made_again_is_refused(data):
    known = divide(data, seed=1).describe()
    divided, said = divide_again(data, known)
    assert "trained on a part of this data" in said
    assert len(divided.part("train")) == known["train_samples"]
    with pytest.raises(UserError, match="divides in another way"):
        divide_again(data, {**known, "train_samples": known["train_samples"] + 1})


def test_other_groups_are_named_where_they_divide_in_another_way(data):
    """The version is not alone to blame, and parts of the same sizes are not the same parts."""
    grouped = replace(data, groups=[str(row // 4) for row in range(160)])
    parts = divide(grouped)
    known, size = parts.describe(), len(parts.train)
    renamed = ([f"{time} {group}" for group in grouped.groups] for time in range(99))
    others = (replace(data, groups=groups) for groups in renamed)
    alike = next(other for other in others if len(divide(other).train) == size)
    other = replace(data, groups=[str(row // 7) for row in range(160)])
    for again in (divide_again, to_review):
        assert again(grouped, known)
        for groups in (alike, other):
            with pytest.raises(UserError, match="which other groups or this version divide in an"):
                again(groups, known)


def test_texts_of_the_training_part_in_another_are_counted(data):
    parts = combine(data, data.select(range(60)), data.select(range(100)))
    notes = parts.check()
    assert any("60 of 60 validation texts are in the training part too" in note for note in notes)
    assert any("100 of 100 test texts are in the training part too" in note for note in notes)
    assert not any("training part too" in note for note in divide(data).check())


@pytest.fixture(scope="module")
def grouped(data):
    return replace(data, groups=[f"user {row % 40}" for row in range(len(data))])


def apart(*parts):
    """Whether no group stands in two parts."""
    groups = [set(part.groups) for part in parts]
    return sum(map(len, groups)) == len(set().union(*groups))


def test_groups_stay_together_unasked(grouped):
    parts = divide(grouped)
    assert parts.method == "group"
    assert apart(parts.train, parts.validation, parts.test)
    for method in ("random", "stratified"):
        with pytest.raises(UserError, match=f"has groups, which a {method} split does not keep"):
            divide(grouped, method)


def test_samples_without_a_group_share_none(data):
    split = np.where(np.arange(len(data)) < 120, "train", "test")
    published = replace(data, split=split, groups=[""] * len(data))
    assert not any("group" in note for note in divide(published).check())


def test_groups_stay_together_where_a_validation_part_is_held_out(grouped, data):
    assert apart(*hold_out(grouped, 0))
    test = grouped.select(range(20))
    for method in (None, "group"):
        parts = combine(grouped, None, test, 0, method)
        assert apart(parts.train, parts.validation)
    with pytest.raises(UserError, match="has groups, which a stratified split"):
        combine(grouped, None, test, 0, "stratified")
    published = replace(grouped, split=np.where(np.arange(len(data)) < 120, "train", "test"))
    parts = divide(published)
    assert apart(parts.train, parts.validation)
    groups = len(set(parts.test.groups))
    assert f"{len(set(parts.test.groups) & set(parts.train.groups))} of {groups} test groups" in (
        " ".join(parts.check())
    )
    with pytest.raises(UserError, match="needs groups"):
        combine(data, None, data, 0, "group")


def test_a_held_out_part_is_drawn_as_asked(data):
    parts = combine(data, None, None, 0, "stratified")
    assert parts.validation.texts == hold_out(data, 0, "stratified")[1].texts
    assert parts.validation.texts != hold_out(data, 0)[1].texts


def test_texts_of_several_groups_are_counted(data):
    twice = replace(data, texts=["same"] * len(data), groups=[str(i) for i in range(len(data))])
    assert any("texts are in the training part too" in note for note in divide(twice).check())


def test_the_parts_of_a_model_are_known_again_however_they_come(data):
    parts = divide(data, seed=1)
    known = parts.describe()
    new = demo.make(160, seed=5)
    assert seen_before(new, known) == seen_before(parts.test, known) == ""
    assert seen_before(data.select(range(20)), known) == ""
    backwards = parts.train.select(np.arange(len(parts.train))[::-1])
    other_labels = replace(parts.train, label_names=parts.train.label_names[::-1])
    for same in (parts.train, backwards, other_labels):
        assert "trained on this very data" in seen_before(same, known)
    assert "chosen on this very data" in seen_before(parts.validation, known)
    assert "trained on a part of this data" in seen_before(data, known)
    assert seen_before(data, {}) == ""


def test_a_file_of_which_the_validation_part_was_held_out_is_known_again(data):
    train, test = data.select(range(120)), data.select(range(120, 160))
    known = combine(train, None, test).describe()
    assert "trained on this very data" in seen_before(train, known)
    assert seen_before(test, known) == ""


def test_labels_of_a_part_that_only_count_those_of_the_others_get_their_names(tmp_path, caplog):
    rows = [f"{label} {label}:1 {10 + i % 5}:1\n" for i in range(20) for label in (1, 3, 7)]
    (tmp_path / "train.svm").write_text("".join(rows))
    (tmp_path / "test.svm").write_text("2 16 3\n1 3:1\n2 7:1\n")
    train, test = load(tmp_path / "train.svm"), load(tmp_path / "test.svm")
    parts = combine(train, None, test)
    assert parts.test.label_names == ("1", "3", "7")
    assert parts.test.label_sets() == [("3",), ("7",)]
    assert "read as positions among the others'" in caplog.text
    # A file without a header has names, whether the training part knows them or not.
    (tmp_path / "test.svm").write_text("1 3:1\n2 7:1\n")
    parts = combine(train, None, load(tmp_path / "test.svm"))
    assert parts.test.label_sets() == [("1",), ("2",)]


def written(path, rows):
    path.write_text("".join(f"{row}\n" for row in rows))
    return load(path)


def test_sparse_parts_without_a_header_become_as_wide_as_the_widest(tmp_path):
    narrow, middle, wide = (
        written(tmp_path / f"w{width}.svm", [f"{i % 2} {i % width}:1" for i in range(40)])
        for width in (3, 5, 9)
    )
    for parts in ((narrow, middle, wide), (wide, narrow, middle), (middle, None, narrow)):
        made = combine(*parts)
        widths = {part.features.shape[1] for part in (made.train, made.validation, made.test)}
        widest = max(part.features.shape[1] for part in parts if part is not None)
        assert widths == {widest}
        assert made.describe()["columns"]["num_features"] == widest
    announced = written(tmp_path / "announced.svm", ["1 4 2", "1 3:1"])
    assert combine(narrow, None, announced).train.features.shape[1] == 4
    with pytest.raises(UserError, match="announced: 4 features, and w9 has 9; all parts need"):
        combine(wide, None, announced)


def test_parts_of_different_kinds_are_refused(data, tmp_path):
    numbers = written(tmp_path / "numbers.svm", ["1 0:1", "2 1:1"])
    for parts in ((data, None, numbers), (data, numbers, None), (numbers, None, data)):
        with pytest.raises(UserError, match="some parts hold texts and others features: "):
            combine(*parts)


def test_names_that_look_wrong_beside_those_of_another_part_are_said(tmp_path, caplog):
    train = written(tmp_path / "a.csv", ["text,labels", *["red,food", "blue,room"] * 20])
    test = written(tmp_path / "b.csv", ["text,labels", "red,Food"])
    assert not caplog.messages
    combine(train, None, test)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("a, b: the labels 'food' and 'Food' differ in case")


def reviewed(data, *, split=None, refit=False):
    """A model's record of the data, and what of it is looked at."""
    known = divide(data, split).describe()
    return to_review(data, known, refit=refit)


def test_a_model_is_looked_at_on_its_validation_part_and_its_test_part_once():
    data = demo.make(300, 0)
    seen = reviewed(data)
    parts = divide(data)
    assert seen.part == "validation"
    assert seen.data.texts == parts.validation.texts
    assert seen.test.texts == parts.test.texts
    assert seen.notes == ()


def test_a_model_that_was_trained_on_its_validation_part_is_looked_at_on_half_of_its_test_part():
    data = demo.make(400, 0)
    seen, parts = reviewed(data, refit=True), divide(data)
    assert sorted([*seen.data.texts, *seen.test.texts]) == sorted(parts.test.texts)
    assert abs(len(seen.data) - len(seen.test)) < len(parts.test) / 2
    assert not {*seen.data.texts} & {*parts.train.texts, *parts.validation.texts}
    assert "--no-refit" in seen.notes[0]
    few = reviewed(demo.make(100, 0), refit=True)
    assert few.part == "validation"
    assert few.test is None
    assert "better than those of new data" in few.notes[0]


def test_a_second_model_of_the_same_data_is_told_what_it_has_seen_of_the_first_ones_parts():
    data = demo.make(300, 0)
    first = reviewed(data)
    shown = [*first.data.texts, *first.test.texts]

    def told(**division):
        parts = divide(data, **division)
        used = {*parts.train.texts, *parts.validation.texts}
        return sum(text in used for text in shown), seen_of_another(first, data, parts.describe())

    for division in ({"seed": 1}, {"method": "stratified"}):
        count, said = told(**division)
        assert count > len(shown) / 2
        assert f"trained or chosen on {count} of these {len(shown)} samples" in said
    assert "on this very data" in told()[1]  # whose validation part is the first one's
    half = reviewed(data, refit=True)
    assert seen_of_another(half, data, divide(data).describe()) == ""
    assert seen_of_another(first, data, divide(demo.make(300, 1)).describe()) == ""
    ranges = range(200), range(200, 250), range(250, 300)
    came = combine(*(data.select(rows) for rows in ranges))
    assert "divided in another way" in seen_of_another(first, data, came.describe())


@pytest.mark.parametrize("refit", [False, True])
def test_training_samples_are_not_shown_as_new_where_the_split_was_edited(refit):
    data = demo.make(300, 0)
    places = ["train"] * 8 + ["validation", "test"]
    then, now = (np.array(order * 30) for order in (places, places[::-1]))
    model = divide(replace(data, split=then))
    known = model.describe()
    seen = to_review(replace(data, split=now), known, refit=refit)
    assert {*seen.test.texts} < {*model.train.texts, *model.validation.texts}
    assert "divided in another way" in seen.notes[0]
    assert seen_of_another(seen, replace(data, split=now), known).startswith("this is the data")
    # of other sizes: nothing is wrong with the version
    few = np.where(np.arange(300) < 10, "train", now)
    assert "divided in another way" in to_review(replace(data, split=few), known).notes[0]


def test_a_validation_part_that_is_shown_as_a_test_part_is_said():
    data, names = demo.make(300, 0), np.array(["train"] * 8 + ["validation", "test"])
    known = divide(replace(data, split=np.tile(names, 30))).describe()
    swapped = replace(data, split=np.tile(names[[*range(8), 9, 8]], 30))
    (note,) = to_review(swapped, known).notes
    assert note.startswith("test part: the model was trained or chosen on this very data")
    backwards = data.select(np.arange(300)[::-1])
    came_so = replace(backwards, split=np.tile(names[::-1], 30))
    assert not any("test part" in note for note in to_review(came_so, known).notes)


def test_other_data_is_looked_at_whole_or_by_its_own_parts():
    known = divide(demo.make(300, 0)).describe()
    other = demo.make(200, 1)
    seen = to_review(other, known)
    assert (seen.part, len(seen.data), seen.test, seen.notes) == ("all samples", 200, None, ())
    halves = np.array(["validation", "test"] * 100)
    seen = to_review(replace(other, split=halves), known)
    assert (seen.part, len(seen.data), len(seen.test)) == ("validation", 100, 100)
    seen = to_review(replace(other, split=np.array(["train", "test"] * 100)), known)
    assert (seen.part, len(seen.data), len(seen.test)) == ("train", 100, 100)
    seen = to_review(replace(other, split=np.array(["test"] * 200)), known)
    assert (seen.part, len(seen.data), seen.test) == ("test", 200, None)
    assert "fit it" in seen.notes[0]

import pytest

from zlpr._errors import UserError
from zlpr.data import Columns, Dataset
from zlpr.data.label_names import (
    counts_labels,
    doubts,
    label_order,
    list_label_names,
    listing,
    numbers,
)


def test_a_list_is_read_back_and_refuses_what_a_line_cannot_hold(tmp_path):
    (tmp_path / "names.txt").write_text(listing(["b", "a c", "7"], "names.txt"))
    assert list_label_names(tmp_path / "names.txt") == ["b", "a c", "7"]
    for name in ("a\nb", " a", ""):
        with pytest.raises(UserError, match=r"cannot stand on a line of names\.txt"):
            listing([name], "names.txt")


def test_numbers_are_sorted_by_size_however_long():
    long = "1" + "0" * 5_000
    assert sorted([long, "10", "9", "0"], key=label_order([long])) == ["0", "9", "10", long]
    assert sorted(["b", "10", "9"], key=label_order(["b", "10"])) == ["10", "9", "b"]


@pytest.mark.parametrize(
    ("own", "numbered", "names", "trained_so", "expected"),
    [
        (numbers(3), True, ("1", "3", "7"), False, True),  # a header of as many labels
        (numbers(3), True, ("a", "b", "c"), False, True),
        (numbers(3), True, numbers(3), False, False),  # nothing to translate
        (numbers(2), True, ("a", "b", "c"), True, False),  # a header of other labels
        (("1", "2"), False, ("a", "b", "c"), True, True),
        (("1", "2"), False, ("a", "b", "c"), False, False),
        (("1", "b"), False, ("a", "b", "c"), True, False),
        (("1", "2"), False, ("1", "3", "7"), True, False),  # names that are numbers
    ],
)
def test_when_numbers_count_the_labels_of_a_model(own, numbered, names, trained_so, expected):
    columns = Columns(numbered=numbered)
    data = Dataset.from_label_sets([own], label_names=own, texts=["x"], columns=columns)
    assert counts_labels(data, names, Columns(numbered=trained_so)) is expected


@pytest.mark.parametrize(
    ("names", "delimiter", "expected"),
    [
        (("a", "b", "a;c"), "|", ["'a;c' holds ';'"]),
        (("a", "b", "a, c"), "|", ["'a, c' holds ','"]),
        (("a", "b", "food, drink"), "|", []),  # a comma of a name
        (("a", "b;c"), ",", ["'b;c' holds ';'"]),
        (("a", "a;c"), None, []),  # one label a cell, as was said or seen
        (("0001", "0101", "1100"), None, ["as '0001': is that 0 or 1 for every label?"]),
        (("100", "101", "2"), None, []),
        (("caf\u00e9", "cafe\u0301"), None, ["differ in what is hardly seen alone"]),
        (("news", "new\u200bs"), None, ["differ in what is hardly seen alone"]),
        (("\u4f53\u80b2", "\u4f53"), None, []),
        (("Spam", "spam", "SPAM"), None, ["'Spam' and 'spam' differ in case or spaces alone"]),
        (("a  b", "a b"), None, ["'a  b' and 'a b' differ"]),
        (("a\nb",), None, ["holds a line break"]),
        (('"room', 'staff"'), ";", ["holds a quote of a cell"]),
        (('"room"', "food"), None, ["holds a quote of a cell"]),
        (('"Heroes" (song)', 'the "best"'), None, []),
        (("nan", "None"), None, ["called 'nan'"]),
        (("ab", "a b"), ",", []),
        (("a", "b", "a b"), None, ["words of the label 'a b' are labels of their own"]),
        (("体育", "体育；财经", "财经"), None, ["parts of the label '体育；财经' are labels"]),
        (("体育", "体育、财经", "财经"), None, ["several, separated by '、'"]),
        (("a", "a / b", "b"), None, ["several, separated by '/'"]),
        (("交通运输、仓储", "仓储业", "TCP/IP", "IP"), None, []),
        (("体育", "体育，财经"), "|", ["'体育，财经' holds '，', where labels are separated"]),
        (("a", "b", "a b"), "|", []),
        (("York", "New York"), None, []),
    ],
)
def test_names_that_look_wrong_are_doubted_once_a_kind(names, delimiter, expected):
    found = list(doubts(names, delimiter))
    assert len(found) == len(expected)
    assert all(part in doubt for part, doubt in zip(expected, found, strict=True))

import pytest

from zlpr._errors import UserError
from zlpr._named_values import named_value, named_values, parse_value, split_outside_brackets


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", 2),
        ("2.5", 2.5),
        ("1e-3", 0.001),
        ("true", True),
        ("False", False),
        ("none", None),
        ("inf", float("inf")),
        ("-inf", float("-inf")),
        ("[1, 2.5]", [1, 2.5]),
        ('"a b"', "a b"),
        ("identity", "identity"),
        ("[1,", "[1,"),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_values(text, value):
    assert parse_value(text) == value


@pytest.mark.parametrize("text", ["gamma", "=2", "gamma=", ""])
def test_what_is_no_named_value_is_said_with_its_flag(text):
    with pytest.raises(UserError, match=f"--set '{text}': expected NAME=VALUE"):
        named_value(text, "--set")


def test_a_name_may_not_come_twice():
    assert named_values(["a=1", "b=[1,2]"]) == {"a": 1, "b": [1, 2]}
    with pytest.raises(UserError, match="--set a: given twice"):
        named_values(["a=1", "a=2"], "--set")


def test_marks_inside_brackets_do_not_split():
    assert split_outside_brackets("a=[1,2],b={1,(2,3)},c", ",") == ["a=[1,2]", "b={1,(2,3)}", "c"]
    assert split_outside_brackets("", ",") == []

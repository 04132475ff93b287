import pytest

from zlpr._errors import UserError
from zlpr.data.problems import SHOWN, Problems, quote


def test_one_bad_row_is_named_with_file_line_and_column():
    problems = Problems("a.csv")
    problems.add(17, "3 columns, expected 2 (text, labels)")
    with pytest.raises(
        UserError, match=r"^a.csv, line 17: 3 columns, expected 2 \(text, labels\)$"
    ):
        problems.finish(rows=5)
    problems = Problems("a.jsonl")
    problems.add(3, "not JSON", column=12)
    with pytest.raises(UserError, match=r"^a.jsonl, line 3, column 12: not JSON$"):
        problems.finish(rows=5)
    problems = Problems("a.parquet", unit="row")
    problems.add(3, "expected a text", column="text")
    with pytest.raises(UserError, match=r"^a.parquet, row 3, column 'text': expected a text$"):
        problems.finish(rows=5)


def test_of_many_bad_rows_the_first_few_are_listed_on_one_line():
    problems = Problems("a.csv")
    for line in range(2, 1202):
        problems.add(line, "bad")
    with pytest.raises(UserError) as caught:
        problems.finish(rows=0)
    message = str(caught.value)
    assert message.startswith("a.csv: 1,200 bad rows: line 2: bad; line 3: bad; ")
    assert message.endswith(f"; and {1200 - SHOWN:,} more")
    assert message.count("bad;") == SHOWN
    assert "\n" not in message


def test_rows_are_listed_in_the_order_of_the_file():
    problems = Problems("a.csv")
    problems.add(9, "found first")
    problems.add(4, "found later")
    assert "line 4: found later; line 9: found first" in str(problems.error())


def test_skipped_rows_are_counted():
    problems = Problems("a.csv", skip=True)
    problems.add(2, "bad")
    assert problems.finish(rows=999) == "a.csv: dropped 1 of 1,000 rows: line 2: bad"
    assert Problems("a.csv", skip=True).finish(rows=9) is None


def test_immediate_problems_raise_at_once():
    with pytest.raises(UserError, match="line 2: bad"):
        Problems("a.csv", immediate=True).add(2, "bad")


def test_quotes_stay_short_and_on_one_line():
    assert quote("a\nb") == "'a\\nb'"
    assert len(quote("x" * 10_000)) <= 60

import json
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from zlpr._typed_json import from_plain, schema_of, to_plain


@dataclass(frozen=True)
class Inner:
    name: str
    share: float = 0.5


@dataclass(frozen=True)
class Outer:
    kind: Literal["a", "b"]
    inner: Inner
    numbers: tuple[int, ...]
    table: dict[str, float]
    maybe: Inner | None = None
    anything: Any = None
    many: tuple[Inner, ...] = field(default=())


VALUE = Outer("a", Inner("x"), (1, 2), {"k": 0.25}, Inner("y", 1.0), {"free": [1]}, (Inner("z"),))


def test_what_is_written_is_read_back():
    assert from_plain(Outer, json.loads(json.dumps(to_plain(VALUE)))) == VALUE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "c"}, "kind: 'c' where a or b was expected"),
        ({"inner": {"name": 3}}, "inner.name: 3 where string was expected"),
        ({"inner": {}}, "inner.name: missing"),
        ({"inner": {"name": "x", "sise": 1}}, "inner.sise: no such entry is known"),
        ({"numbers": [1, "two"]}, r"numbers\[1\]: 'two' where integer was expected"),
        ({"numbers": [True]}, r"numbers\[0\]: True where integer was expected"),
        ({"table": {"k": "high"}}, "table.k: 'high' where number was expected"),
        ({"many": 3}, "many: 3 where a list was expected"),
        ({"maybe": {"name": 1}}, "maybe.name: 1 where string was expected"),
    ],
)
def test_the_first_misfit_is_named_by_its_place(change, message):
    with pytest.raises(ValueError, match=message):
        from_plain(Outer, {**to_plain(VALUE), **change})


def test_whole_numbers_are_numbers():
    assert from_plain(Inner, {"name": "x", "share": 1}).share == 1.0


def test_what_json_cannot_hold_is_refused():
    with pytest.raises(ValueError, match="nan"):
        to_plain({"value": float("nan")})


def test_the_schema_accepts_what_is_written_and_refuses_misfits():
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema checks the schema")
    validator = jsonschema.Draft202012Validator(schema_of(Outer))
    assert validator.is_valid(to_plain(VALUE))
    assert not validator.is_valid({**to_plain(VALUE), "kind": "c"})
    assert not validator.is_valid({**to_plain(VALUE), "extra": 1})

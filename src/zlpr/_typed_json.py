"""Dataclasses to plain JSON values and back, with every mismatch named by its place.

One walk over the type annotations serves three ends, so that they cannot disagree: writing a
record, reading one that somebody else may have edited, and publishing its JSON Schema.
"""

import dataclasses
import math
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number"}


def to_plain(value: Any) -> Any:
    """A dataclass (nested at will) as dictionaries, lists, strings, numbers and None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} has no place in JSON; leave the entry out or use None")
    return value


def from_plain(kind: type[T], value: Any, where: str = "") -> T:
    """Build a `kind` from plain values; a `ValueError` names the first entry that does not fit.

    Examples:
        >>> @dataclasses.dataclass
        ... class Point:
        ...     x: int
        >>> from_plain(Point, {"x": "one"})
        Traceback (most recent call last):
        ValueError: x: 'one' where integer was expected
    """
    built: T = _build(kind, value, where)
    return built


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON Schema of a type that `from_plain` can read."""
    if dataclasses.is_dataclass(kind):
        hints = get_type_hints(kind)
        fields = dataclasses.fields(kind)
        return {
            "type": "object",
            "properties": {f.name: schema_of(hints[f.name]) for f in fields},
            "required": [f.name for f in fields if not _has_default(f)],
            "additionalProperties": False,
        }
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return {}
    if kind is type(None):
        return {"type": "null"}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in {Union, types.UnionType}:
        return {"anyOf": [schema_of(option) for option in arguments]}
    if origin is tuple:
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin in {dict, Mapping}:
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    return {"type": _NAMES[kind]}


def _build(kind: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(kind, value, where)
    if origin in {Union, types.UnionType}:
        return _build_union(arguments, value, where)
    if origin is Literal:
        return value if value in arguments else _refuse(value, " or ".join(arguments), where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            _refuse(value, "a list", where)
        if arguments[-1] is not Ellipsis and len(value) != len(arguments):
            _refuse(value, f"a list of {len(arguments)}", where)
        return tuple(_build(arguments[0], v, f"{where}[{i}]") for i, v in enumerate(value))
    if origin in {dict, Mapping}:
        if not isinstance(value, Mapping):
            _refuse(value, "an object", where)
        return {key: _build(arguments[1], v, _inside(where, key)) for key, v in value.items()}
    if kind is float and type(value) is int:  # JSON writes 1.0 as 1 in many hands
        return float(value)
    return value if type(value) is kind else _refuse(value, _NAMES[kind], where)


def _build_dataclass(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        _refuse(value, "an object", where)
    hints = get_type_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}
    unknown = sorted(set(value) - set(fields))
    if unknown:
        known = ", ".join(fields)
        raise ValueError(f"{_inside(where, unknown[0])}: no such entry is known; there are {known}")
    missing = [name for name, f in fields.items() if name not in value and not _has_default(f)]
    if missing:
        raise ValueError(f"{_inside(where, missing[0])}: missing")
    return kind(**{k: _build(hints[k], v, _inside(where, k)) for k, v in value.items()})


def _build_union(options: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in options:
        return None
    faults = []
    for option in (option for option in options if option is not type(None)):
        try:
            return _build(option, value, where)
        except ValueError as fault:
            faults.append(fault)
    raise faults[0]


def _has_default(field: dataclasses.Field[Any]) -> bool:
    missing = dataclasses.MISSING
    return field.default is not missing or field.default_factory is not missing


def _inside(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _refuse(value: Any, expected: str, where: str) -> Any:
    raise ValueError(f"{where or 'value'}: {value!r} where {expected} was expected")

"""`NAME=VALUE` as users write it on a command line and in the short form of a loss."""

import json
from collections.abc import Iterable
from typing import Any

from zlpr._errors import UserError

_BRACKETS = {"[": 1, "{": 1, "(": 1, "]": -1, "}": -1, ")": -1}
_WORDS = {
    "true": True,
    "false": False,
    "none": None,
    "null": None,
    **{name: float(name) for name in ("inf", "-inf", "nan")},
}


def named_value(text: str, where: str = "") -> tuple[str, Any]:
    """A name and the value behind the sign.

    Args:
        text: as `pos_weight=2.5`.
        where: what an error begins with, as the flag that gave it.

    Examples:
        >>> named_value("pos_weight=[1, 2]")
        ('pos_weight', [1, 2])
    """
    name, value = name_and_text(text, where)
    return name, parse_value(value)


def name_and_text(text: str, where: str = "") -> tuple[str, str]:
    """As `named_value`, the value as it is written.

    Examples:
        >>> name_and_text("pos_weight=1|2.5")
        ('pos_weight', '1|2.5')
    """
    name, sign, value = text.partition("=")
    if not sign or not name.strip() or not value.strip():
        raise UserError(f"{where} {text!r}: expected NAME=VALUE".lstrip())
    return name.strip(), value.strip()


def named_values(texts: Iterable[str], where: str = "") -> dict[str, Any]:
    """Several of them; a name that comes twice is an error."""
    values: dict[str, Any] = {}
    for text in texts:
        name, value = named_value(text, where)
        if name in values:
            raise UserError(f"{where} {name}: given twice".lstrip())
        values[name] = value
    return values


def name_with_values(text: str, where: str = "") -> tuple[str, dict[str, Any]]:
    """A name and the values behind its colon, the short form of a thing with its parameters.

    Examples:
        >>> name_with_values("logit_adjusted:loss=bce,tau=1")
        ('logit_adjusted', {'loss': 'bce', 'tau': 1})
    """
    name, _, rest = text.partition(":")
    return name, named_values(split_outside_brackets(rest, ","), where or repr(text))


def parse_value(text: str) -> Any:
    """A value as JSON has it; true, false and none in any case; and else the text itself.

    Examples:
        >>> [parse_value(text) for text in ("2.5", "1e-3", "False", "[1, 2]", "identity")]
        [2.5, 0.001, False, [1, 2], 'identity']
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def split_outside_brackets(text: str, mark: str) -> list[str]:
    """The pieces between marks that no bracket encloses, without empty ones.

    Examples:
        >>> split_outside_brackets("pos_weight=[1,2],gamma=2", ",")
        ['pos_weight=[1,2]', 'gamma=2']
    """
    pieces, depth = [""], 0
    for character in text:
        depth += _BRACKETS.get(character, 0)
        if character == mark and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += character
    return [piece for piece in pieces if piece]

"""Flags made from the settings of every kind of model, so that they cannot disagree."""

import argparse
import dataclasses
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from zlpr._counted import enumeration
from zlpr._errors import UserError
from zlpr._named_values import name_and_text, parse_value
from zlpr.models import registry

# Given by arguments of their own.
_ELSEWHERE = frozenset({"model", "loss_params", "choose"})


@dataclasses.dataclass(frozen=True)
class Flag:
    """A setting as a flag.

    Attributes:
        path: where it stands in the configuration; two names where that is nested.
        type: what a value is.
        default: where none is given.
        shown: help and metavar.
        kinds: the kinds of models that have it; all of them where empty.
    """

    path: tuple[str, ...]
    type: Any
    default: Any
    shown: dict[str, Any]
    kinds: tuple[str, ...]

    @property
    def spelling(self) -> str:
        """As the command line spells it."""
        return f"--{self.path[-1].replace('_', '-')}"


def settings() -> list[Flag]:
    """Every setting of every kind, each once; those that all kinds share first."""
    from zlpr.training.config import TrainingConfig
    from zlpr.training.registry import config_of_kind

    shared = {setting.path: setting for setting in _fields(TrainingConfig, ())}
    own: dict[tuple[str, ...], Flag] = {}
    for kind in registry.available():
        for setting in _fields(config_of_kind(kind), (kind,)):
            if setting.path not in shared:
                kinds = (*own[setting.path].kinds, kind) if setting.path in own else (kind,)
                own[setting.path] = dataclasses.replace(setting, kinds=kinds)
    return [*shared.values(), *own.values()]


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add a flag per setting, in a group per set of kinds that have it."""
    groups: dict[tuple[str, ...], Any] = {(): parser}
    for setting in settings():
        if setting.kinds not in groups:
            usages = [registry.info(kind).usage for kind in setting.kinds]
            groups[setting.kinds] = parser.add_argument_group(f"for {enumeration(usages)}")
        _add_flag(groups[setting.kinds], setting)


def given_settings(args: argparse.Namespace, *models: str) -> dict[str, Any]:
    """The settings that the command line has, nested as a configuration has them.

    Args:
        args: the parsed flags of `add_settings`.
        models: the model, or those among which the data is to choose.

    Raises:
        UserError: one that no kind of these models has; said of the first.
    """
    kinds = [registry.kind_of(model).name for model in models]
    given: dict[str, Any] = {}
    for setting in settings():
        value = getattr(args, setting.path[-1], None)
        if value is not None:
            if setting.kinds and not set(kinds) & set(setting.kinds):
                others = enumeration([registry.info(name).usage for name in setting.kinds])
                verb = "has" if len(setting.kinds) == 1 else "have"
                raise UserError(
                    f"model {kinds[0]} has no setting {setting.spelling}; {others} {verb}"
                )
            place = given
            for name in setting.path[:-1]:
                place = place.setdefault(name, {})
            place[setting.path[-1]] = value
    return given


def _fields(kind: Any, kinds: tuple[str, ...], path: tuple[str, ...] = ()) -> Iterator[Flag]:
    hints = get_type_hints(kind)
    for entry in dataclasses.fields(kind):
        if entry.name in _ELSEWHERE:
            continue
        if dataclasses.is_dataclass(hints[entry.name]):
            yield from _fields(hints[entry.name], kinds, (*path, entry.name))
        else:
            shown = dict(entry.metadata)
            yield Flag((*path, entry.name), hints[entry.name], entry.default, shown, kinds)


def _add_flag(group: Any, setting: Flag) -> None:
    """Given values are told from defaults by None: which defaults hold, the kind knows."""
    help_ = setting.shown["help"]
    if setting.default is not None and setting.default != ():
        shown = setting.default
        if isinstance(shown, bool):
            shown = "on" if shown else "off"
        elif isinstance(shown, float):
            shown = f"{shown:g}"
        elif isinstance(shown, tuple):
            shown = " ".join(map(str, shown))
        help_ = f"{help_} (default {shown})"
    options = {"help": help_.replace("%", "%%"), "default": None, **_parsing(setting.type)}
    if "metavar" in setting.shown:
        options["metavar"] = setting.shown["metavar"]
    group.add_argument(setting.spelling, **options)


def _parsing(kind: Any) -> dict[str, Any]:
    """How argparse reads a value of a type."""
    if get_origin(kind) in (Union, UnionType):
        options = [option for option in get_args(kind) if option is not NoneType]
        return _parsing(options[0])
    if get_origin(kind) is Literal:
        return {"choices": get_args(kind)}
    if get_origin(kind) is tuple and get_args(kind)[-1] is Ellipsis:
        return {"action": "append"}
    if get_origin(kind) is tuple:
        return {"type": get_args(kind)[0], "nargs": 2, "metavar": ("MIN", "MAX")}
    if kind is bool:
        return {"action": argparse.BooleanOptionalAction}
    return {"type": kind}


def chosen_numbers(texts: list[str]) -> dict[str, list[Any]]:
    """`pos_weight=1,2,4` as a name and its numbers."""
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, values = name_and_text(text, "--choose")
        if name in found:
            raise UserError(f"--choose {name}: given twice")
        found[name] = [parse_value(value.strip()) for value in values.split(",")]
    return found

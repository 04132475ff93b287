"""Things by name: what all registries share, so that a wrong name is one kind of error everywhere.

A registry is a module with a private mapping from names to entries and three functions:

    def available() -> tuple[str, ...]:          # the names, in the order to list them
        return tuple(_RULES)

    def info(name: str) -> type[Rule]:           # what is known of one
        return find("decoding rule", name, _RULES)

    def create(name: str, **params: Any) -> Rule:
        return make("decoding rule", name, info(name), params)
"""

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from zlpr._counted import enumeration
from zlpr._errors import UserError

Entry = TypeVar("Entry")

MOST_LISTED = 100
"""So many names are all told; of more, such as a model's labels, `FEW`."""
FEW = 5


def find(kind: str, name: str, entries: Mapping[str, Entry]) -> Entry:
    """The entry of a name.

    Args:
        kind: what the entries are, in the singular, as "loss" or "file format".
        name: the name asked for.
        entries: by name.

    Raises:
        UserError: there is none; the message has the nearest name and those there are.

    Examples:
        >>> find("loss", "zplr", {"zlpr": 1, "bce": 2})
        Traceback (most recent call last):
        zlpr._errors.UserError: no loss 'zplr'; did you mean 'zlpr'? There are: zlpr, bce
    """
    try:
        return entries[name]
    except (KeyError, TypeError):  # a list, say, has no hash
        raise unknown(kind, name, entries) from None


def unknown(kind: str, name: object, names: Iterable[str]) -> UserError:
    """The error for a name that is not among those there are, to be raised.

    For lookups that `find` does not fit: names with a number in them, or in any case.
    """
    known = list(names)
    near = nearest(str(name), known)
    guess = "; there are" if near is None else f"; did you mean {near!r}? There are"
    listed = f": {', '.join(known)}"
    if len(known) > MOST_LISTED:
        listed = f" {len(known):,}, such as {', '.join(known[:FEW])}"
    return UserError(f"no {kind} {name!r}{guess}{listed}")


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant, whatever its case; None where none is like it.

    Examples:
        >>> nearest("Zplr", ["zlpr", "bce"]), nearest("--feat", ["--features-columns"])
        ('zlpr', '--features-columns')
    """
    folded = {other.casefold(): other for other in names}
    typed = name.casefold()
    close = difflib.get_close_matches(typed, folded, n=1)
    begun = [other for other in folded if len(typed.strip("-")) > 2 and other.startswith(typed)]
    found = sorted(begun, key=len) or close
    return folded[found[0]] if found else None


def make(kind: str, name: str, factory: Callable[..., Entry], params: Mapping[str, Any]) -> Entry:
    """Call a factory that takes keyword arguments, once its signature has been compared with them.

    Args:
        kind: as in `find`.
        name: of the entry, for the message.
        factory: a class or function.
        params: its arguments.

    Raises:
        UserError: it takes no such argument, or needs one that is missing.

    Examples:
        >>> make("rule", "fraction", lambda k: 1 / k, {"n": 2})
        Traceback (most recent call last):
        zlpr._errors.UserError: the rule fraction has no parameter 'n'; there are: k
    """
    allowed = inspect.signature(factory).parameters
    for param in params:
        if param not in allowed:
            raise unknown_parameter(kind, name, param, allowed)
    missing = [
        param
        for param, detail in allowed.items()
        if detail.default is inspect.Parameter.empty and param not in params
    ]
    if missing:
        raise UserError(f"the {kind} {name} needs {enumeration(missing)}")
    return factory(**params)


def unknown_parameter(kind: str, name: str, param: str, allowed: Iterable[str]) -> UserError:
    """The error for a parameter that an entry does not take, to be raised."""
    error = str(unknown("parameter", param, allowed)).removeprefix("no ")
    return UserError(f"the {kind} {name} has no {error}")

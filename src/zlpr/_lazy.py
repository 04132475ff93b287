"""Packages whose names load when they are first used (PEP 562)."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(
    package: str, places: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a package that loads what it offers on first use.

    Args:
        package: its `__name__`.
        places: the module of each name.

    Examples:
        >>> find, names = lazy_names("fractions_and_more", {"Fraction": "fractions"})
        >>> find("Fraction")(1, 2)
        Fraction(1, 2)
        >>> names()
        ['Fraction']
    """

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(places[name]), name)

    return find, lambda: sorted(places)


def load_object(place: str) -> Any:
    """What `"module:name"` names.

    Examples:
        >>> load_object("math:sqrt")(4.0)
        2.0
    """
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)

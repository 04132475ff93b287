"""The attributes of an ARFF file that features were made of, by which other files give the same."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MOST_CHARACTERS = 5_000_000
"""Of all names and values that are kept; a digest stands for more."""


@dataclass(frozen=True)
class FeatureAttributes:
    """Which attributes the features were made of, in their order.

    Where names are repeated or too long in all, a digest is kept instead: other files then need
    the same attributes in the same order.

    Attributes:
        names: a name for each attribute.
        values: those of nominal attributes, by name, in the order of their codes; an attribute
            without any is a number.
        digest: the SHA-256 of what is not kept.

    Examples:
        >>> FeatureAttributes.of([("tempo", None), ("key", ("minor", "major"))])
        FeatureAttributes(names=('tempo', 'key'), values={'key': ('minor', 'major')}, digest=None)
    """

    names: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    digest: str | None = None

    @classmethod
    def of(cls, attributes: Sequence[tuple[str, tuple[str, ...] | None]]) -> "FeatureAttributes":
        """The attributes by their names and values, None for those of a number."""
        names = tuple(name for name, _ in attributes)
        values = {name: held for name, held in attributes if held is not None}
        characters = sum(map(len, names)) + sum(len("".join(held)) for held in values.values())
        if len(set(names)) < len(names) or characters > MOST_CHARACTERS:
            return cls(digest=_digest(attributes))
        return cls(names, values)


def _digest(attributes: Sequence[tuple[str, tuple[str, ...] | None]]) -> str:
    whole = hashlib.sha256()
    for attribute in attributes:
        whole.update(json.dumps(attribute).encode())
    return whole.hexdigest()

"""Which code made a record: the package's version and a digest of what decides an outcome.

The version alone does not tell two states of a checkout apart, and records of both would then be
counted together.
"""

import functools
import hashlib
from pathlib import Path

import zlpr

_DECIDING = (
    "_ancestors.py",
    "losses",
    "metrics",
    "decoding",
    "data",
    "models",
    "training",
    "compare/cell.py",
    "compare/per_metric.py",
)


@functools.cache
def code_version() -> str:
    """The version, a plus sign, and eight hexadecimal digits that change with the code.

    Example:
        >>> code_version().partition("+")[0] == zlpr.__version__
        True
    """
    root = Path(zlpr.__file__).parent
    places = [root / name for name in _DECIDING]
    files = [file for place in places for file in (place, *place.rglob("*.py")) if file.is_file()]
    whole = hashlib.sha256()
    for file in sorted(files):
        whole.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return f"{zlpr.__version__}+{whole.hexdigest()[:8]}"

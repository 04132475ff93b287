import doctest

import pytest

from zlpr.data.sources import _patents
from zlpr.data.sources._patents import ipc_subclasses


def test_examples_in_the_documentation_hold():
    assert doctest.testmod(_patents).failed == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("G06F17/30", ("G06F",)),
        ("g06f 17/30 h04l 29/06", ("G06F", "H04L")),
        ("A61K31/00(2006.01)I;A61P35/00(2006.01)N", ("A61K", "A61P")),
        ("H01L21/02、H01L21/04、C23C16/00", ("H01L", "C23C")),
        ("B01", ()),
        ("06-01(13)", ()),
        ("Z99Z 1/00", ()),
        ("", ()),
        ("G", ("G",)),
        ("A; C; G", ("A", "C", "G")),
    ],
)
def test_subclasses_of_codes_as_offices_write_them(text, expected):
    assert ipc_subclasses(text) == expected

"""Numbers with what they count, in the singular or the plural, and several things in a row."""

from collections.abc import Sequence


def counted(number: int, one: str, many: str = "") -> str:
    """A number with what it counts.

    Args:
        number: how many there are.
        one: what one of them is called.
        many: what several are called, where that is not `one` with an s.

    Examples:
        >>> counted(1, "loss", "losses"), counted(2000, "seed")
        ('1 loss', '2,000 seeds')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def enumeration(things: Sequence[str]) -> str:
    """Things one after the other, as a sentence has them.

    Examples:
        >>> enumeration(["linear"]), enumeration(["linear", "knn"]), enumeration(["a", "b", "c"])
        ('linear', 'linear and knn', 'a, b and c')
    """
    *first, last = things
    return f"{', '.join(first)} and {last}" if first else last

"""Numbers with what they count, in the singular or the plural."""


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

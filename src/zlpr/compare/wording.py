"""Figures, times and lists as the report, the tables and the terminal all word them."""

from collections.abc import Sequence


def percent(fraction: float, decimals: int = 2) -> str:
    """A fraction as a percentage, without its sign.

    Examples:
        >>> percent(0.12345), percent(0.12345, 1)
        ('12.35', '12.3')
    """
    return f"{100 * fraction:.{decimals}f}"


def short(value: object) -> str:
    """A parameter's value with three digits where it is a fraction.

    Examples:
        >>> short(2.718281828), short("identity")
        ('2.72', 'identity')
    """
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def duration(seconds: float) -> str:
    """A time as people say it.

    Examples:
        >>> duration(42), duration(200), duration(9000)
        ('42 s', '3 min 20 s', '2 h 30 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    Examples:
        >>> listed(["zlpr", "bce", "focal"])
        'zlpr, bce and focal'
    """
    if len(names) < 2:
        return "".join(names)
    return ", ".join(names[:-1]) + " and " + names[-1]

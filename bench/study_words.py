"""How the study's pages say numbers and lay out tables."""

from collections.abc import Sequence

from zlpr.compare.practical import ROPE, Effect, Verdict


def points(value: float, digits: int = 2) -> str:
    """A fraction in points, with its sign."""
    text = f"{100 * value:+.{digits}f}"
    return (f"{0:.{digits}f}" if float(text) == 0 else text).replace("-", "−")


def with_interval(size: Effect, digits: int = 2) -> str:
    """Points and their interval over sets."""
    return interval(size.mean, size.half, digits)


def interval(mean: float, half: float | None, digits: int = 2) -> str:
    """Points and half of their interval, where there is one."""
    return points(mean, digits) + ("" if half is None else f" ± {100 * half:.{digits}f}")


def in_words(verdict: Verdict | None) -> str:
    """Probabilities of a verdict, worse / alike / better."""
    if verdict is None:
        return "–"
    return " / ".join(f"{x:.2f}" for x in (verdict.worse, verdict.alike, verdict.better))


def shown_by(size: Effect) -> str:
    """What an interval over sets leaves possible: ahead or behind, alike, or none of these."""
    if size.half is None:
        return "open"
    low, high = size.mean - size.half, size.mean + size.half
    side = "ahead" if low > 0 else "behind" if high < 0 else ""
    if low > -ROPE and high < ROPE:
        return f"{side}, within half a point" if side else "alike"
    return side or "open"


def listed(words: Sequence[str]) -> str:
    """Several things in a sentence."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """In Markdown, the first column left."""
    lines = ["| " + " | ".join(titles) + " |", "|---|" + "--:|" * (len(titles) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def folded(title: str, body: str) -> str:
    """A table that is opened by who wants it."""
    return f'<details markdown="1"><summary>{title}</summary>\n\n{body}\n\n</details>'

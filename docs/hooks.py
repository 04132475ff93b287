"""Render the mathematics when the site is built, so that pages need no script and no network.

`pymdownx.arithmatex` leaves `\\(…\\)` and `\\[…\\]` in marked elements; browsers show MathML
themselves.
"""

import html
import re

from latex2mathml.converter import convert

MARKED = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<open>[(\[])(?P<math>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)


def on_page_content(content: str, **_: object) -> str:
    """Replace every marked formula by MathML; called by mkdocs for each page."""
    return MARKED.sub(_render, content)


def _render(match: re.Match[str]) -> str:
    display = "block" if match["open"] == "[" else "inline"
    mathml = convert(html.unescape(match["math"]), display=display)
    return f'<{match["tag"]} class="math-{display}">{mathml}</{match["tag"]}>'

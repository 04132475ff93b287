r"""Strings of strangers (label names, texts, file names) made safe for where they are written.

A label may be called `\x1b]0;…`, `<script>` or `=HYPERLINK(…)`. Whoever prints or writes such a
string passes it through the function of this file that is named after the place.
"""

import html
import os
import re

# Control characters, line and paragraph separators, what turns the direction of writing, what is
# invisible, and halves of surrogate pairs. The joiners U+200C and U+200D stay: scripts need them.
_OBEYED = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_MARKUP = re.compile(r"[\\`*\[\]|~$]|(?<!\w)_|_(?!\w)|^(?:[-+=]+|#{1,6})(?=\s|$)")
_NUMBERED = re.compile(r"^(\d+)([.)])(?=\s|$)")
_NOT_ASCII = re.compile("[^\x00-\x7f]")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def from_system(text: str) -> str:
    r"""An argument, or a file's name, in words, whatever encoding the system is set to.

    Where the locale's encoding cannot decode them, Python keeps an argument's bytes as halves of
    surrogate pairs. Here they are read as UTF-8; those that are none are spelled out. The result
    can be compared, stored and shown; to open a file, take the name as it came.

    Examples:
        >>> from_system("r\udcc3\udca9sum\udcc3\udca9"), from_system("r\udce9sum")
        ('résumé', 'r\\udce9sum')
    """
    return _joined(text).encode("utf-8", "backslashreplace").decode("utf-8")


def to_system(name: str) -> str:
    r"""A name of our making for a file, in UTF-8 whatever encoding the system is set to.

    Examples:
        >>> to_system("reviews"), os.fsencode(to_system("résumé"))
        ('reviews', b'r\xc3\xa9sum\xc3\xa9')
    """
    return os.fsdecode(name.encode("utf-8", "surrogateescape"))


def for_terminal(text: str, *, keep: str = "") -> str:
    r"""On one line, with every character that a terminal would obey spelled out.

    Args:
        text: any string.
        keep: characters to leave as they are, as a newline in a message of several lines.

    Examples:
        >>> for_terminal("red\x1b[2J\n\u202etxt.exe")
        'red\\x1b[2J\\n\\u202etxt.exe'
    """
    return _OBEYED.sub(
        lambda found: found[0] if found[0] in keep else _spelled(found[0]), _joined(text)
    )


def for_json(text: str, *, ascii_only: bool = False) -> str:
    r"""A JSON text that means the same, with the same characters as JSON's own escapes.

    Args:
        text: JSON in Unicode.
        ascii_only: also every character that ASCII lacks.

    Examples:
        >>> for_json('["\x9b2J"]')
        '["\\u009b2J"]'
    """
    text = _OBEYED.sub(
        lambda found: found[0] if found[0] in "\n\r\t" else _as_json(found[0]), _joined(text)
    )
    return _NOT_ASCII.sub(lambda found: _as_json(found[0]), text) if ascii_only else text


def for_markdown(text: str) -> str:
    r"""As it stands, within a line of Markdown or a cell of its tables: no mark-up, no HTML.

    Examples:
        >>> for_markdown("<b>*loud*</b> | snake_case\n# end")
        '&lt;b&gt;\\*loud\\*&lt;/b&gt; \\| snake_case # end'
    """
    line = _MARKUP.sub(lambda found: "\\" + found[0], for_terminal(" ".join(text.split())))
    return html.escape(_NUMBERED.sub(r"\1\\\2", line), quote=False)


def for_markdown_code(text: str) -> str:
    r"""As a span of code: within it Markdown and HTML mean nothing.

    Examples:
        >>> for_markdown_code("a`b")
        '`` a`b ``'
    """
    line = for_terminal(" ".join(text.split()))
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    space = " " if line.startswith("`") or line.endswith("`") or len(fence) > 1 else ""
    return f"{fence}{space}{line}{space}{fence}"


def for_spreadsheet(cell: str) -> str:
    """As a cell that no spreadsheet takes for a formula: an apostrophe before `=`, `+`, `-`, `@`.

    Spreadsheets show the cell without the apostrophe; programs that read the file see it.

    Examples:
        >>> for_spreadsheet("=1+1"), for_spreadsheet("sum")
        ("'=1+1", 'sum')
    """
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def _joined(text: str) -> str:
    """With UTF-8 where Python kept its bytes one by one; other halves of pairs stay as they are."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a half that stands for no byte
        return text


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _as_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))

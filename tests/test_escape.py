import html
import json
import os
import re
import unicodedata

import pytest
from markdown_it import MarkdownIt

from zlpr._escape import (
    for_json,
    for_markdown,
    for_markdown_code,
    for_spreadsheet,
    for_terminal,
    from_system,
    to_system,
)

ESCAPES = "\x1b]0;title\x07 \x1b[2J \x9b31m \x08\x7f\r\n\t"
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
TURNS = "\u202eexe.txt\u202c \u2066x\u2069 \u200f\u061c"


@pytest.mark.parametrize("text", [ESCAPES, TURNS, "\ud800", "\u2028", "\ufeff", "\U000e0041"])
def test_nothing_that_a_terminal_obeys_is_left(text):
    shown = for_terminal(text)
    assert not {"Cc", "Cf", "Cs", "Zl", "Zp"} & {unicodedata.category(c) for c in shown}
    shown.encode("utf-8")  # a lone surrogate could not be written


@pytest.mark.parametrize("text", ["Straße", "标签", "می‌خواهم", "👩‍🔬", "a b", "naïve", "[bold]"])
def test_names_of_any_script_stay_as_they_are(text):
    assert for_terminal(text) == text


def test_different_names_stay_different():
    names = ["a", "a\n", "a\r", "a\u200b", "a\u202e", "a\x1b"]
    assert len({for_terminal(name) for name in names}) == len(names)


def test_newlines_are_kept_only_where_asked_for():
    assert for_terminal("a\nb\x1b", keep="\n") == "a\nb\\x1b"


@pytest.mark.parametrize("text", [ESCAPES, TURNS, "\ud800", "\U000e0041", "plain 标签"])
def test_json_means_the_same(text):
    written = for_json(json.dumps({"a": text}, ensure_ascii=False, indent=1))
    assert json.loads(written) == {"a": text}
    assert for_terminal(written, keep="\n") == written


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "a | b",
        "**bold** _it_ ~~no~~ `code` [link](http://x) ![image](x)",
        "line\n\n# heading",
        "# heading",
        "- item",
        "1. item",
        "---",
        "&lt;b&gt;",
        "$x$",
        "snake_case",
        "0.7500",
        "-3.5",
    ],
)
def test_markdown_shows_the_text_itself(text):
    page = MARKDOWN.render(
        f"| a | b |\n|---|---|\n| {for_markdown(text)} | 1 |\n\n{for_markdown(text)}\n"
    )
    bare = html.unescape(re.sub("<[^>]*>", "\n", page))
    shown = " ".join(text.split())
    assert bare.count(shown) == 2
    tags = set(re.findall(r"</?(\w+)", page))
    assert tags <= {"table", "thead", "tbody", "tr", "th", "td", "p"}


@pytest.mark.parametrize("text", ["a`b", "``", "<b>", "x\n# y", "plain"])
def test_code_spans_hold_anything(text):
    page = MARKDOWN.render(f"before {for_markdown_code(text)} after")
    found = re.fullmatch(r"<p>before <code>(.*)</code> after</p>\n", page)
    assert found
    assert html.unescape(found[1]).strip() == " ".join(text.split())


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1"])
def test_no_cell_starts_a_formula(text):
    assert for_spreadsheet(text) == "'" + text
    assert for_spreadsheet("a" + text) == "a" + text


def test_bytes_that_python_kept_one_by_one_become_words():
    """As Python decodes arguments and file names in a locale of ASCII."""
    kept = "标签 é".encode().decode("ascii", "surrogateescape")
    assert from_system(kept) == "标签 é"
    assert for_terminal(kept) == "标签 é"
    assert json.loads(for_json(json.dumps([kept], ensure_ascii=False))) == ["标签 é"]


@pytest.mark.parametrize("text", ["caf\udce9", "\ud800", "\udce6\udc96", "a\udce9标\udce7"])
def test_bytes_that_are_no_utf_8_are_spelled_out(text):
    for shown in (from_system(text), for_terminal(text)):
        shown.encode()
        assert "\\ud" in shown


def test_json_can_do_with_ascii():
    written = for_json('["标签 👩 \x9b"]', ascii_only=True)
    assert written.isascii()
    assert json.loads(written) == ["标签 👩 \x9b"]


def test_names_of_our_making_are_utf_8_on_the_disk(tmp_path):
    (tmp_path / to_system("标签")).touch()
    (made,) = tmp_path.iterdir()
    assert os.fsencode(made.name) == "标签".encode()

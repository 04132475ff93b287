import doctest

import pytest

from zlpr.cli import _flags
from zlpr.cli.main import main


def test_examples_in_the_documentation_hold():
    assert doctest.testmod(_flags).failed == 0


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        ("one,two\nhello,there\n", "--labels"),
        ("first row\tx\n", "--no-header with --text 0"),
        ("x\tfirst row\ny\tand the second\n", "--no-header with --text 1 --labels 0"),
        ("文本,标签\n今天 天气 很 好,天气\n明天 天气,天气\n", "--text '文本' --labels '标签'"),
        ("编号,标签,文本\n1,雨,今天 下雨\n2,雨,明天 下雨\n", "--text '文本' --labels '标签'"),
        ("it's,x\nred words here,a\nblue words,a\n", """--text "it's" --labels 'x'"""),
        ("text,labels\n\xe9,a\n".encode("latin-1"), "--encoding 'gb18030'"),
        ("size,a\n1.5,1\n2.5,0\n3.5,1\nlarge,0\n", "say so with --categorical-columns"),
        ("one,labels,two\nx,a,y\n", "to learn from with --features-columns"),
    ],
)
def test_advice_is_in_the_words_of_the_command_line(content, advice, tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert main(["data", "stats", str(path)]) == 2
    assert advice in capsys.readouterr().err


def test_other_words_stay_as_they_are():
    message = "fractions=(1.0, 1.0, 1.0): expected three shares; subtext=1"
    assert _flags.in_flags(message) == message


def test_words_that_are_no_utf_8_are_refused(capsys):
    assert main(["data", "stats", "demo", "--text", "caf\udce9"]) == 2
    assert "argument --text: not UTF-8: 'caf\\udce9'" in capsys.readouterr().err

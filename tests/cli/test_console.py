import io
import json
import subprocess
import sys

import pytest

from zlpr.cli import _console
from zlpr.cli.main import main

SCRIPT = """
import pathlib, sys
from zlpr.cli._console import print_json, say, standard_streams
with standard_streams() as trouble:
    {body}
"""
MANY = "[say('line ' * 50) for _ in range(5000)]"  # far more than a pipe holds


def test_sentences_fold_to_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [["one", "1", "a sentence that is longer than the room for it"], ["two", "2", "short"]]
    monkeypatch.setenv("COLUMNS", "40")
    _console.print_table(["name", "n", "what it is"], rows)
    assert capsys.readouterr().out.splitlines() == [
        "name  n  what it is",
        "----  -  ------------------------------",
        "one   1  a sentence that is longer than",
        "         the room for it",
        "two   2  short",
    ]
    monkeypatch.setenv("COLUMNS", "16")  # no room: the terminal breaks the lines itself
    _console.print_table(["name", "n", "what it is"], rows)
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_headings_of_numbers_fold_first_and_figures_stand_to_the_right(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "27")
    rows = [["one two", "1.25", "61.3±0.4*"], ["three", "-", "7.0±0.2~"]]
    _console.print_table(["set", "labels per sample", "Micro-F1"], rows)
    assert capsys.readouterr().out.splitlines() == [
        "set      labels   Micro-F1",
        "            per",
        "         sample",
        "-------  ------  ---------",
        "one two    1.25  61.3±0.4*",
        "three         -   7.0±0.2~",
    ]


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True),
    ],
)
def test_colour_is_for_terminals_that_want_it(environment, coloured, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    out, err = Screen(), Screen()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    assert main(["cache"]) == 0
    assert main(["no\x1b[2Jsuch"]) == 2
    _console.print_table(["loss", "F1"], [["zlpr", "61.3*"]], strong=lambda cell: "*" in cell)
    assert ("\x1b[1mloss\x1b[0m" in out.getvalue()) == coloured
    assert ("\x1b[1m61.3*\x1b[0m" in out.getvalue()) == coloured
    assert ("\x1b[1;31mzlpr: error:\x1b[0m" in err.getvalue()) == coloured
    assert "\x1b[2J" not in err.getvalue()
    with pytest.raises(SystemExit):
        main(["losses", "--help"])
    assert ("\x1b[36m--json\x1b[0m" in out.getvalue()) == coloured


def test_no_colour_reaches_pipes(capsys):
    assert main(["--help"]) == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", ["models", "data list", "losses"])
def test_the_lists_fit_a_terminal(
    command: str, columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(command.split()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns


def shell(command, **environment):
    """What a shell says of a command line with `python` in it."""
    import os

    return subprocess.run(
        ["bash", "-c", command.replace("python", sys.executable, 1)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
    )


@pytest.fixture
def script(tmp_path):
    def write(body):
        path = tmp_path / "script.py"
        path.write_text(SCRIPT.format(body=body))
        return path

    return write


def test_work_goes_on_after_the_reader_has_left(script, tmp_path):
    written = tmp_path / "model"
    path = script(f"{MANY}; pathlib.Path({str(written)!r}).write_text('whole')")
    done = shell(f"python {path} | head -1")
    assert done.stdout.startswith("line")
    assert done.stderr == ""
    assert written.read_text() == "whole"


def test_notes_to_a_reader_that_left_do_not_end_the_work(script, tmp_path):
    written = tmp_path / "model"
    many = MANY.replace("* 50", "* 50, error=True")
    path = script(f"{many}; pathlib.Path({str(written)!r}).write_text('whole')")
    shell(f"python {path} 2>&1 | head -1")
    assert written.read_text() == "whole"


@pytest.mark.parametrize("command", ["--help", "data list", "data list --json"])
def test_a_command_whose_reader_leaves_is_quiet_and_ends_as_shells_expect(command):
    done = shell(f"python -m zlpr {command} | true; exit ${{PIPESTATUS[0]}}")
    assert done.stderr == ""
    assert done.returncode in (0, 141)  # 0 where it had written all before its reader left


def test_the_exit_code_tells_that_the_reader_left(script):
    path = script(f"{MANY}; sys.exit(0 if trouble() is None else 141)")
    assert shell(f"python {path} | head -1; exit ${{PIPESTATUS[0]}}").returncode == 141


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_descriptors_are_no_trouble(closed, script, tmp_path):
    done = shell(f"python -m zlpr data list --json {closed}")
    assert done.returncode == 0
    assert done.stderr == ""
    written = tmp_path / "model"
    path = script(
        f"file = open({str(written)!r}, 'w'); say('out'); say('note', error=True); file.close()"
    )
    assert shell(f"python {path} {closed}").returncode == 0
    assert written.read_text() == ""  # nothing that was printed ran into the file


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_any_encoding_can_be_printed_to(encoding, script):
    path = script("say('ranking loss ↓ 标签'); print_json({'label': '标签 é'})")
    done = shell(f"python {path}", PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    words, _, data = done.stdout.partition("\n")
    assert words == "ranking loss \\u2193 \\u6807\\u7b7e"
    assert json.loads(data) == {"label": "标签 é"}


def test_a_full_disk_is_named(script):
    done = shell("python -m zlpr data list --json > /dev/full")
    assert done.returncode == 1
    assert done.stderr == "zlpr: error: standard output: No space left on device\n"
    words = shell("python -m zlpr data list > /dev/full")
    assert (words.returncode, words.stderr) == (done.returncode, done.stderr)


def test_names_cannot_move_the_cursor_nor_break_a_table(capsys):
    _console.print_table(["label", "n"], [["evil\x1b[2J\nrow", "1"], ["\u202etxt", "22"]])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[2:] == ["evil\\x1b[2J\\nrow   1", "\\u202etxt         22"]


def test_errors_repeat_what_was_typed_without_obeying_it(capsys):
    assert main(["\x1b[31mtrain"]) == 2
    assert main(["report", "no\x1b[2J\nsuch"]) == 2
    assert main(["losses", "--\x1b[2J"]) == 2
    shown = capsys.readouterr().err
    assert "\x1b" not in shown
    assert shown.count("\\x1b") == 3


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_tables_are_laid_out_as_they_are_printed(encoding, script):
    rows = [["ranking loss ↓", "0.1"], ["标签", "10.5"], ["plain", "2"]]
    path = script(f"from zlpr.cli._console import print_table; print_table(['name', '值'], {rows})")
    done = shell(f"python {path}", PYTHONIOENCODING=encoding)
    lines = done.stdout.splitlines()
    widths = {_console.display_width(line) for line in lines}
    assert len(widths) == 1, done.stdout  # the last column is set to the right
    assert lines[2].startswith("ranking loss " + ("↓" if encoding == "utf-8" else "\\u2193"))


@pytest.mark.parametrize(
    ("text", "width"), [("ไทย", 3), ("ที่", 1), ("हिन्दी", 5), ("می‌خواهم", 7), ("❤️", 1), ("標", 2)]
)
def test_marks_over_other_characters_take_no_room(text, width):
    assert _console.display_width(text) == width

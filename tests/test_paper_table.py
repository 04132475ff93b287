"""Every name of the paper runs by the command that its page gives."""

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from tests import tiny
from tests.compare import toy
from zlpr.cli.main import main

PAGE = Path(__file__).parent.parent / "docs" / "paper.md"
COMMANDS = re.findall(r"^\| ([^|]+) \| `(zlpr [^`]+)` \|$", PAGE.read_text("utf-8"), re.M)


def test_the_table_is_read() -> None:
    assert len(COMMANDS) > 40
    assert len({name for name, _ in COMMANDS}) == len(COMMANDS)


def test_every_equation_has_a_public_function() -> None:
    functions = re.findall(r"^\| [^|]+ \| `(zlpr\.\w+)\.(\w+)` \|$", PAGE.read_text("utf-8"), re.M)
    assert len(functions) == 9
    for room, name in functions:
        assert name in import_module(room).__all__


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data of our own and an encoder of no size, under the names of the page."""
    folder = tmp_path_factory.mktemp("page")
    toy.write_file(folder / "reviews.csv", samples=80)
    (folder / "encoder").mkdir()
    tiny.bert(folder / "encoder")
    return folder


@pytest.mark.parametrize(("name", "command"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_it_runs(name: str, command: str, folder: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(folder)
    words = shlex.split(command)[1:]
    if words[0] == "train":
        words += ["--overwrite"]
        encoder = "hf:encoder" in words
        words += ["--epochs", "1"] if encoder or {"splc", "mmp"} & set(words) else []
        if not encoder:
            words += ["--analyzer", "word"]
            kinds = {"knn", "mmp"} & set(words)
            words += [] if kinds or "--regularisation" in words else ["--regularisation", "1"]
    assert main(words) == 0, capsys.readouterr().err

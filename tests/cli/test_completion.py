"""The completion script, in the shell that it is for."""

import shutil
import subprocess

import pytest

from zlpr import losses
from zlpr.cli.completion import script
from zlpr.cli.main import COMMANDS

TRY = """
source "$1"
tried() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _zlpr; echo "${COMPREPLY[*]}"; }
tried zlpr ''
tried zlpr train --loss ''
tried zlpr train --lo
tried zlpr data st
tried zlpr data split --mi
tried zlpr evaluate --part t
tried zlpr theory re
tried zlpr predict ''
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_commands_flags_and_names(tmp_path):
    file = tmp_path / "zlpr"
    file.write_text(script("bash"))
    done = subprocess.run(
        ["bash", "-c", TRY, "bash", file], capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        " ".join(COMMANDS),
        " ".join(losses.available()),
        "--loss-param --loss",
        "stats",
        "--mix-parts",
        "train test",
        "regret",
        "",  # a file's name, which bash knows itself
    ]


def test_zsh_gets_the_same_through_its_own_emulation():
    head, _, body = script("zsh").partition("_zlpr() {")
    assert head.startswith("#compdef zlpr\nautoload -U +X bashcompinit && bashcompinit\n")
    assert body == script("bash").partition("_zlpr() {")[2]

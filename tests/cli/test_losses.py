"""`zlpr losses` lists every loss, as a table and as JSON."""

import json

import pytest

from zlpr import losses
from zlpr.cli.main import main


def test_the_table_has_a_line_per_loss(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["losses"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2 : 2 + len(losses.available())]] == list(
        losses.available()
    )
    assert max(map(len, lines)) <= 132


def test_json_says_what_the_registry_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["losses", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in listed] == list(losses.available())
    zlpr = listed[0]
    assert zlpr["bound"] == 0.0
    assert zlpr["function"] == "zlpr.losses.zlpr_loss"
    assert zlpr["parameters"]["threshold"] == 0.0
    for entry in listed:
        assert entry["decides"] == losses.info(entry["name"]).decides


def test_an_unknown_argument_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_code:
        main(["losses", "--yaml"])
    assert exit_code.value.code == 2
    assert "--yaml" in capsys.readouterr().err

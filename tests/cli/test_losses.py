"""`zlpr losses` lists every loss, as a table and as JSON."""

import json

import pytest

from zlpr import losses
from zlpr.cli.main import main


def test_the_tables_have_a_line_per_loss(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["losses"]) == 0
    output = capsys.readouterr().out
    assert max(map(len, output.splitlines())) <= 120
    paper, others = (
        [row.split()[0] for row in t.splitlines()[3:]] for t in output.split("\n\n")[:2]
    )
    assert [*paper, *others] == list(losses.available())
    assert all(losses.info(name).in_paper for name in paper)


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
    assert main(["losses", "--yaml"]) == 2
    assert capsys.readouterr().err == (
        "zlpr: error: zlpr losses has no flag --yaml; see zlpr losses --help\n"
    )

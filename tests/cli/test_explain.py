import json

import pytest

from tests.models import fitted
from zlpr.cli.main import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    target = tmp_path_factory.mktemp("explain") / "model"
    fitted.result().model.save(target)
    return str(target)


def test_a_table_of_words_that_adds_up_to_the_score(folder, capsys):
    assert main(["explain", folder, "I want my money back", "--label", "refund"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("refund: ")
    score = float(lines[0].partition("score ")[2].partition(",")[0])
    added = [float(line.split()[-1]) for line in lines[3:-1]]
    assert [line.split()[0] for line in lines[3:]].count("money") == 1
    assert sum(added) == pytest.approx(score, abs=0.005)


def test_json_says_where_words_stand(folder, capsys):
    text = "I want my money back"
    assert main(["explain", folder, text, "--json", "--contributions", "3"]) == 0
    for explanation in json.loads(capsys.readouterr().out):
        assert [word["word"] for word in explanation["words"]] == text.split()
        assert len(explanation["contributions"]) == 3


def test_words_of_strangers_are_not_obeyed_by_the_terminal(folder, capsys):
    assert main(["explain", folder, "money \x1b[31mback"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_fewer_contributions_than_none_are_refused_by_the_flags_name(folder, capsys):
    assert main(["explain", folder, "a text", "--contributions", "-3"]) == 2
    assert "--contributions -3: expected 0 or more" in capsys.readouterr().err


def test_an_unknown_label_is_one_line(folder, capsys):
    assert main(["explain", folder, "a text", "--label", "refunds"]) == 2
    assert "did you mean 'refund'" in capsys.readouterr().err

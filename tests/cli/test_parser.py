"""What the parser makes of mistakes: one line, with what was probably meant."""

import pytest

from zlpr.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["train"], "zlpr train needs DATA and --out; for example: zlpr train reviews.csv --out"),
        (["train", "x.csv"], "zlpr train needs --out; for example: zlpr train reviews.csv --out"),
        (["predict"], "zlpr predict needs DIR; for example: zlpr predict reviews-model"),
        (["data", "split", "x.csv"], "zlpr data split needs --out; for example: zlpr data split"),
        (["train", "x.csv", "--ot", "m"], "zlpr train has no flag --ot; did you mean --out?"),
        (["train", "x", "--feat=a"], "no flag --feat; did you mean --features-columns?"),
        (
            ["predict", "m", "--jsn", "a text"],
            "zlpr predict has no flag --jsn; did you mean --json?",
        ),
        (["data", "stats", "x", "--plto", "f"], "zlpr data stats has no flag --plto; did you mean"),
        (["data", "stat"], "no action 'stat'; did you mean 'stats'? There are: list, stats"),
        (["train", "x", "--split", "randm"], "--split takes one of random, stratified, group, not"),
        (["losses", "more"], "zlpr losses does not take 'more'; see zlpr losses --help"),
        (["train", "x", "--out", "m", "--seed", "one"], "zlpr train: argument --seed: invalid int"),
        (["train", "demo", "--out", "m", "--loss", "zplr"], "no loss 'zplr'; did you mean 'zlpr'?"),
    ],
)
def test_a_mistake_is_one_line_with_what_was_meant(arguments, line, capsys):
    assert main(arguments) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("zlpr: error: ")
    assert shown.count("\n") == 1
    assert line in shown


def test_texts_that_look_like_flags_are_texts(capsys, tmp_path):
    for arguments in (["--what is this", str(tmp_path)], [str(tmp_path), "--", "--what"]):
        assert main(["predict", *arguments]) == 2
        assert "no flag" not in capsys.readouterr().err


def test_a_column_that_is_not_there_is_guessed(capsys, tmp_path):
    (tmp_path / "a.csv").write_text("headline,tags\none two,x\nthree,y\n")
    command = ["data", "stats", str(tmp_path / "a.csv"), "--labels", "tags"]
    assert main([*command, "--text", "headlin"]) == 2
    assert "no column 'headlin' for text; did you mean 'headline'?" in capsys.readouterr().err


def test_a_command_of_several_actions_says_so_by_itself(capsys):
    assert main(["data"]) == 2
    shown = capsys.readouterr()
    assert shown.out.startswith("usage: zlpr data")
    assert "divide data into training, validation and test parts" in shown.out
    assert shown.err == ""

import doctest
import re

import pytest

from zlpr import _counted
from zlpr._counted import counted
from zlpr.cli.main import main

ONE_OF_MANY = re.compile(r"\b1 (?:[a-z]+ )?(?:labels|samples|rows|features|runs|steps|kinds)\b")


def test_examples_in_the_documentation_hold():
    assert doctest.testmod(_counted).failed == 0


@pytest.mark.parametrize(("number", "words"), [(0, "0 rows"), (1, "1 row"), (2000, "2,000 rows")])
def test_one_is_one(number, words):
    assert counted(number, "row") == words


def test_commands_on_data_of_one_label_and_one_feature(tmp_path, capsys, caplog):
    table = tmp_path / "one.svm"
    table.write_text("".join(f"{'0' if i % 2 else ''} 0:{i % 2 + i / 100}\n" for i in range(60)))
    single, strange = tmp_path / "single.svm", tmp_path / "strange.svm"
    single.write_text("0 0:1.5\n")
    strange.write_text("0,7 0:1.5\n")
    model = str(tmp_path / "model")
    settings = ["--out", model, "--regularisation", "0.1"]
    assert main(["train", str(table), "--test", str(single), *settings]) == 0
    assert main(["evaluate", model, str(single)]) == 0
    assert main(["evaluate", model, str(strange), "--unknown-labels", "drop"]) == 0
    assert main(["data", "split", str(single), "--out", str(tmp_path / "parts")]) == 2
    comparison = ["compare", "--data", str(table), "--losses", "zlpr", "--seeds", "1"]
    comparison += ["--workers", "1", "--set", "regularisation=0.1", "--out", str(tmp_path / "c")]
    assert main(comparison) == 0
    assert main(comparison) == 0
    printed = capsys.readouterr()
    said = printed.out + printed.err + caplog.text
    expected = [
        *("1 feature per sample", "and 1 test sample", "1 sample of single, 1 label"),
        *("The 1 worst label\n", "1 distinct sample cannot fill 3 parts"),
        *("1 run in", "1 run asked", "left out 1 label of 1 unknown kind"),
    ]
    assert [words for words in expected if words not in said] == []
    for text in (said, *(p.read_text() for p in tmp_path.rglob("*.md"))):
        assert ONE_OF_MANY.findall(text) == []

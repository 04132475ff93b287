import csv
import io
import json

import numpy as np
import pytest

import zlpr
from tests.models import fitted
from zlpr.cli.main import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("models") / "m"
    fitted.result().model.save(out)
    return str(out)


TEXTS = ["refund my order, the parcel is broken", "", "cannot log in; the app crashes"]


def answers(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_texts_get_label_names_scores_and_probabilities(folder, capsys):
    assert main(["predict", folder, *TEXTS]) == 0
    found = answers(capsys)
    model = zlpr.load(folder)
    scores, shares = model.predict_scores(TEXTS), model.predict_proba(TEXTS)
    for row, (answer, labels) in enumerate(zip(found, model.predict(TEXTS), strict=True)):
        assert answer["text"] == TEXTS[row]
        assert tuple(answer["labels"]) == labels
        for label in labels:
            column = model.label_names.index(label)
            assert answer["scores"][label] == pytest.approx(scores[row, column], abs=1e-4)
            assert answer["probabilities"][label] == pytest.approx(shares[row, column], abs=1e-4)


def test_standard_input_files_and_arguments_say_the_same(folder, tmp_path, capsys, monkeypatch):
    main(["predict", folder, *TEXTS])
    expected = capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{text}\n" for text in TEXTS)))
    main(["predict", folder])
    assert capsys.readouterr().out == expected
    (tmp_path / "some.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    main(["predict", folder, "--file", str(tmp_path / "some.txt")])
    assert capsys.readouterr().out == expected
    rows = [json.dumps({"text": text, "labels": ["unheard of"]}) for text in TEXTS]
    (tmp_path / "some.jsonl").write_text("\n".join(rows))
    main(["predict", folder, "--file", str(tmp_path / "some.jsonl")])
    assert capsys.readouterr().out == expected
    main(["predict", folder, *TEXTS, "--out", str(tmp_path / "out.jsonl")])
    assert (tmp_path / "out.jsonl").read_text() == expected
    assert capsys.readouterr().out == ""


def test_csv_holds_the_same_answers(folder, capsys):
    main(["predict", folder, *TEXTS, "--csv"])
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    model = zlpr.load(folder)
    assert [row["text"] for row in rows] == TEXTS
    assert [tuple(filter(None, row["labels"].split("|"))) for row in rows] == model.predict(TEXTS)
    main(["predict", folder, *TEXTS, "--csv", "--all-labels"])
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    scores = [[float(row[f"{name} score"]) for name in model.label_names] for row in rows]
    np.testing.assert_allclose(scores, model.predict_scores(TEXTS), atol=1e-4)


def test_all_labels_are_shown_when_asked_for(folder, capsys):
    main(["predict", folder, "a text", "--all-labels"])
    (answer,) = answers(capsys)
    assert list(answer["scores"]) == list(zlpr.load(folder).label_names)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "text"], "nowhere: no such model folder"),
        (["MODEL", "text", "--file", "x.txt"], "not both"),
        (["MODEL", "--file", "missing.txt"], "missing.txt: no such file"),
    ],
)
def test_a_mistake_is_one_line(folder, capsys, arguments, message):
    assert main(["predict", *(folder if a == "MODEL" else a for a in arguments)]) == 2
    assert message in capsys.readouterr().err

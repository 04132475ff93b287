import json

import pytest

import zlpr
from tests.models import fitted
from zlpr.cli.main import main
from zlpr.metrics import evaluate, label_report


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model, and a file of the test part it never saw."""
    path = tmp_path_factory.mktemp("evaluate")
    fitted.result().model.save(path / "m")
    test = fitted.parts()[2]
    rows = zip(test.texts, test.label_sets(), strict=True)
    lines = [json.dumps({"text": text, "labels": labels}) for text, labels in rows]
    (path / "test.jsonl").write_text("\n".join(lines))
    return path


def test_the_figures_are_those_of_the_metrics(place, capsys):
    assert main(["evaluate", str(place / "m"), str(place / "test.jsonl"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    test, model = fitted.parts()[2], zlpr.load(place / "m")
    scores = model.predict_scores(test.texts)
    assert found["samples"] == len(test)
    decided = model.decoder(scores)
    assert found["empty"] == "sklearn"
    assert found["metrics"] == evaluate(test.labels, scores, decided, empty="sklearn")
    assert (
        main(
            ["evaluate", str(place / "m"), str(place / "test.jsonl"), "--json", "--empty", "paper"]
        )
        == 0
    )
    as_in_paper = json.loads(capsys.readouterr().out)
    assert as_in_paper["metrics"] == evaluate(test.labels, scores, decided, empty="paper")
    assert as_in_paper["empty"] == "paper"
    report = label_report(test.labels, decided, empty="sklearn")
    by_name = {row["label"]: row for row in found["labels"]}
    for column, name in enumerate(test.label_names):
        if report.support[column]:
            assert by_name[name]["f1"] == report.f1[column]
    f1s = [row["f1"] for row in found["labels"]]
    assert f1s == sorted(f1s)


def test_the_bound_of_the_paper_is_one_flag_away(place, capsys):
    main(["evaluate", str(place / "m"), str(place / "test.jsonl"), "--json", "--zero-bound"])
    found = json.loads(capsys.readouterr().out)
    test, model = fitted.parts()[2], zlpr.load(place / "m")
    scores = model.predict_scores(test.texts)
    assert found["metrics"] == evaluate(test.labels, scores, scores > 0, empty="sklearn")


def test_tables_and_pictures(place, tmp_path, capsys):
    picture = tmp_path / "figures.png"
    command = ["evaluate", str(place / "m"), str(place / "test.jsonl"), "--worst", "3"]
    assert main([*command, "--plot", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "Micro-F1" in printed
    assert "share of empty predictions" in printed
    assert "The 3 worst labels" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main([*command, "--plot", str(tmp_path / "figures.docx")]) == 2
    assert "the ending must be one of" in capsys.readouterr().err
    assert not (tmp_path / "figures.docx").exists()


def test_labels_that_the_model_does_not_know(place, tmp_path, capsys):
    rows = ['{"text": "x", "labels": ["billing", "weather"]}', '{"text": "y", "labels": []}']
    (tmp_path / "more.jsonl").write_text("\n".join(rows))
    command = ["evaluate", str(place / "m"), str(tmp_path / "more.jsonl"), "--json"]
    assert main(command) == 2
    assert "'weather'" in capsys.readouterr().err
    assert main([*command, "--unknown-labels", "drop"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["samples"] == 2
    assert "weather" in output.err


def test_label_numbers_count_the_models_labels(place, tmp_path, capsys):
    test = fitted.parts()[2]
    number = {name: str(i) for i, name in enumerate(test.label_names)}
    rows = zip(test.texts, test.label_sets(), strict=True)
    lines = [json.dumps({"text": t, "labels": [number[x] for x in labels]}) for t, labels in rows]
    (tmp_path / "numbers.jsonl").write_text("\n".join(lines))
    for name in (place / "test.jsonl", tmp_path / "numbers.jsonl"):
        assert main(["evaluate", str(place / "m"), str(name), "--json"]) == 0
    first, second = capsys.readouterr().out.split("}\n{")
    assert (
        first.split('"metrics"')[1].split("labels")[0]
        == second.split('"metrics"')[1].split("labels")[0]
    )


def test_the_data_of_the_training_shows_its_test_part(tmp_path, capsys):
    assert (
        main(["train", "demo", "--out", str(tmp_path / "m"), "--regularisation", "1", "--json"])
        == 0
    )
    trained = json.loads(capsys.readouterr().out)
    assert main(["evaluate", str(tmp_path / "m"), "demo", "--json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["metrics"] == trained["metrics"]["test"]
    assert "test part" in output.err
    assert main(["evaluate", str(tmp_path / "m"), "demo", "--json", "--part", "all"]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 6000


def test_numbers_of_labels_that_the_model_lacks_are_refused_or_dropped(tmp_path, capsys, caplog):
    table, strange = tmp_path / "a.svm", tmp_path / "b.svm"
    table.write_text("".join(f"{i % 2} 0:{i % 2} 1:{1 + i / 1000}\n" for i in range(200)))
    strange.write_text("0 0:0 1:1\n1,7 0:1 1:1\n")
    model = str(tmp_path / "model")
    assert main(["train", str(table), "--out", model, "--regularisation", "0.1"]) == 0
    assert main(["evaluate", model, str(strange)]) == 2
    said = capsys.readouterr().err
    assert "line 2: unknown label '7'" in said
    assert "--unknown-labels drop" in said
    assert main(["evaluate", model, str(strange), "--unknown-labels", "drop", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 2
    assert "left out 1 label of 1 unknown kind: '7'" in caplog.text

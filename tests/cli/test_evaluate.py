import json
from dataclasses import replace

import numpy as np
import pytest

import zlpr
from tests.models import fitted
from zlpr.cli.main import main
from zlpr.data import demo, write
from zlpr.metrics import LabelFrequencies, evaluate, label_report, ps_precision_at_k
from zlpr.metrics.table import in_words
from zlpr.training import judging


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
    assert "empty predictions" in printed
    assert "The 3 worst labels" in printed
    assert in_words("sklearn") in printed
    assert main([*command, "--empty", "paper"]) == 0
    assert in_words("paper") in capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    picture.write_text("mine")
    assert main([*command, "--plot", str(picture)]) == 2
    assert (
        "figures.png: is there already; choose another name, or --overw" in capsys.readouterr().err
    )
    assert picture.read_text() == "mine"
    assert main([*command, "--plot", str(picture), "--overwrite"]) == 0
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


def test_label_numbers_are_positions_only_where_names_are_listed(place, tmp_path, capsys):
    test = fitted.parts()[2]
    number = {name: str(i) for i, name in enumerate(test.label_names)}
    rows = zip(test.texts, test.label_sets(), strict=True)
    lines = [json.dumps({"text": t, "labels": [number[x] for x in labels]}) for t, labels in rows]
    (tmp_path / "numbers.jsonl").write_text("\n".join(lines))
    (tmp_path / "names.txt").write_text("\n".join(test.label_names))
    command = ["evaluate", str(place / "m"), "--json"]
    assert main([*command, str(tmp_path / "numbers.jsonl")]) == 2
    fault = capsys.readouterr().err
    assert "unknown kinds: '0'" in fault
    assert "--label-names" in fault
    assert main([*command, str(place / "test.jsonl")]) == 0
    by_name = json.loads(capsys.readouterr().out)
    listed = ["--label-names", str(tmp_path / "names.txt")]
    assert main([*command, str(tmp_path / "numbers.jsonl"), *listed]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"] == by_name["metrics"]


def _ratings(path, words, count):
    """Rows whose text tells their rating."""
    rows = [(f"{word} thing{i % 7}", label) for i in range(count) for word, label in words.items()]
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    return str(path)


def test_a_number_that_the_model_does_not_know_is_not_another_label(tmp_path, capsys):
    known = {"bad": 1, "meh": 2, "fine": 3, "good": 4}
    model = str(tmp_path / "m")
    train = _ratings(tmp_path / "train.csv", known, 40)
    assert main(["train", train, "--out", model, "--regularisation", "1", "--json"]) == 0
    more = _ratings(tmp_path / "more.csv", {**known, "awful": 0}, 5)
    capsys.readouterr()
    assert main(["evaluate", model, more]) == 2
    shown = capsys.readouterr()
    assert "5 labels of 1 unknown kind: '0'" in shown.err
    assert shown.out.count("read ") == 1
    assert main(["evaluate", model, more, "--unknown-labels", "drop", "--json"]) == 0
    shown = capsys.readouterr()
    supports = {row["label"]: row["support"] for row in json.loads(shown.out)["labels"]}
    assert supports == {"1": 5, "2": 5, "3": 5, "4": 5}
    assert "left out 5 labels" in shown.err


def test_a_model_of_numbers_that_count_names_reads_other_files_alike(tmp_path, capsys):
    model, names = str(tmp_path / "m"), tmp_path / "names.txt"
    names.write_text("bad\nmeh\nfine\n")
    train = _ratings(tmp_path / "train.csv", {"bad": 0, "meh": 1, "fine": 2}, 40)
    command = ["train", train, "--out", model, "--label-names", str(names)]
    assert main([*command, "--regularisation", "1", "--json"]) == 0
    other = _ratings(tmp_path / "other.csv", {"meh": 1, "fine": 2}, 5)
    capsys.readouterr()
    assert main(["evaluate", model, other, "--json"]) == 0
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert found["metrics"]["micro_f1"] == 1
    assert {row["label"]: row["support"] for row in found["labels"]} == {"meh": 5, "fine": 5}
    assert "positions among the model's" in shown.err
    strange = _ratings(tmp_path / "strange.csv", {"meh": 1, "odd": 3}, 5)
    assert main(["evaluate", model, strange, "--json"]) == 2
    assert "unknown kind: '3'" in capsys.readouterr().err
    # The training file itself is known again, though some of its labels are but numbers there.
    assert main(["evaluate", model, train, "--json"]) == 0
    assert "test part" in capsys.readouterr().err


def test_labels_of_svm_files_with_and_without_a_header(tmp_path, capsys):
    def rows(labels, count):
        return "".join(
            f"{name} {column}:1 {10 + i % 5}:0.5\n"
            for i in range(count)
            for name, column in labels.items()
        )

    model = str(tmp_path / "m")
    (tmp_path / "train.svm").write_text(rows({1: 1, 3: 3, 7: 7}, 40))
    command = ["train", str(tmp_path / "train.svm"), "--out", model]
    assert main([*command, "--regularisation", "1", "--json"]) == 0
    (tmp_path / "strange.svm").write_text(rows({1: 1, 2: 2}, 5))
    capsys.readouterr()
    assert main(["evaluate", model, str(tmp_path / "strange.svm")]) == 2
    assert "unknown kind: '2'" in capsys.readouterr().err
    # Under a header of as many labels as the model has, they are positions, whatever their names.
    (tmp_path / "counted.svm").write_text("15 15 3\n" + rows({0: 1, 1: 3, 2: 7}, 5))
    assert main(["evaluate", model, str(tmp_path / "counted.svm"), "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["metrics"]["micro_f1"] == 1
    assert "positions among the model's" in shown.err


def test_numbers_that_count_from_1_are_noticed_beside_a_model_with_a_spare_label(tmp_path, capsys):
    def rows(labels):
        return "".join(
            f"{name} {column}:1 {10 + i % 5}:0.5\n"
            for i in range(40)
            for name, column in labels.items()
        )

    model, names = str(tmp_path / "m"), tmp_path / "names.txt"
    names.write_text("a\nb\nc\nspare\n")
    (tmp_path / "train.svm").write_text(rows({0: 1, 1: 3, 2: 7}))
    command = ["train", str(tmp_path / "train.svm"), "--out", model, "--label-names", str(names)]
    assert main([*command, "--regularisation", "1", "--json"]) == 0
    for header, first, noticed in (("", 0, False), ("", 1, True), ("120 15 4\n", 1, True)):
        file = tmp_path / "other.svm"
        file.write_text(header + rows({first: 1, first + 1: 3, first + 2: 7}))
        capsys.readouterr()
        assert main(["evaluate", model, str(file), "--json", "--part", "all"]) == 0
        said = capsys.readouterr().err
        assert "positions among the model's" in said
        assert ("other: no label is numbered 0" in said) is noticed
        assert ("'1' was read as 'b'" in said) is noticed


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
    output = capsys.readouterr()
    assert json.loads(output.out)["samples"] == 6000
    assert "trained on a part of this data" in output.err


def test_data_that_a_model_was_trained_on_is_known_again_by_its_texts(tmp_path, capsys):
    rows = [f"{word} thing{i % 7} of {i},{word}" for i in range(100) for word in ("red", "blue")]
    (tmp_path / "a.csv").write_text("text,labels\n" + "\n".join(rows))
    folder, model, other = (str(tmp_path / name) for name in ("parts", "m", "other"))
    assert main(["data", "split", str(tmp_path / "a.csv"), "--out", folder]) == 0
    settings = ["--regularisation", "1", "--json"]
    assert main(["train", folder, "--out", model, *settings]) == 0
    assert main(["train", str(tmp_path / "a.csv"), "--out", other, *settings]) == 0
    capsys.readouterr()

    def note(*words):
        assert main(["evaluate", *words, "--json"]) == 0
        return capsys.readouterr().err

    for made in (model, other):  # from the folder, and from the file that is divided so
        assert "trained on this very data" in note(made, f"{folder}/train.jsonl")
        assert "chosen on this very data" in note(made, f"{folder}/validation.jsonl")
        assert "very data" not in note(made, f"{folder}/test.jsonl")
        assert "trained on this very data" in note(made, folder, "--part", "train")
        assert "trained on a part of this data" in note(made, folder, "--part", "all")
        assert "note:" not in note(made, folder)
    assert "trained on a part of this data" in note(model, str(tmp_path / "a.csv"))


def test_numbers_of_labels_that_the_model_lacks_are_refused_or_dropped(tmp_path, capsys):
    table, strange = tmp_path / "a.svm", tmp_path / "b.svm"
    table.write_text("".join(f"{i % 2} 0:{i % 2} 1:{1 + i / 1000}\n" for i in range(200)))
    strange.write_text("0 0:0 1:1\n1,7 0:1 1:1\n")
    model = str(tmp_path / "model")
    assert main(["train", str(table), "--out", model, "--regularisation", "0.1"]) == 0
    assert main(["evaluate", model, str(strange)]) == 2
    said = capsys.readouterr().err
    assert "1 label of 1 unknown kind: '7'" in said
    assert "--unknown-labels drop" in said
    assert main(["evaluate", model, str(strange), "--unknown-labels", "drop", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["samples"] == 2
    assert "left out 1 label of 1 unknown kind: '7'" in captured.err


def test_what_stands_above_a_label_that_is_dropped_is_counted_or_said_to_be_lost(tmp_path, capsys):
    table, strange = tmp_path / "a.csv", tmp_path / "b.csv"
    rows = [("goal", "sport/football"), ("song", "art/music")] * 50
    lines = (f"{text} {number},{label}\n" for number, (text, label) in enumerate(rows))
    table.write_text("text,labels\n" + "".join(lines))
    strange.write_text("text,labels\ngoal,sport/football\nserve,sport/tennis\n")
    model, above = str(tmp_path / "model"), ["--hierarchy-separator", "/"]
    assert main(["train", str(table), "--out", model, "--regularisation", "0.1", *above]) == 0
    capsys.readouterr()

    def support(*told):
        drop = ["--unknown-labels", "drop", "--json", *told]
        assert main(["evaluate", model, str(strange), *drop]) == 0
        captured = capsys.readouterr()
        found = {row["label"]: row["support"] for row in json.loads(captured.out)["labels"]}
        return found["sport"], "what stands above these is left out, too" in captured.err

    assert support() == (1, True)
    assert support(*above) == (2, False)


def test_as_json_the_labels_are_all_unless_a_number_is_asked_for(place, capsys):
    command = ["evaluate", str(place / "m"), str(place / "test.jsonl"), "--json"]

    def listed(*more: str) -> list[str]:
        assert main([*command, *more]) == 0
        return [row["label"] for row in json.loads(capsys.readouterr().out)["labels"]]

    everything = listed()
    assert len(everything) > 2
    assert listed("--worst", "2") == everything[:2]
    assert listed("--worst", "0") == []


def test_a_label_that_is_predicted_but_never_true_is_among_the_worst(place, tmp_path, capsys):
    test, model = fitted.parts()[2], zlpr.load(place / "m")
    predicted = np.asarray(model.decoder(model.predict_scores(test.texts))).sum(axis=0)
    common = model.label_names[int(predicted.argmax())]
    never = tmp_path / "never.jsonl"
    rows = zip(test.texts, test.label_sets(), strict=True)
    lines = [{"text": text, "labels": sorted(set(labels) - {common})} for text, labels in rows]
    never.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["evaluate", str(place / "m"), str(never), "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["labels"]
    found = next(row for row in listed if row["label"] == common)
    assert (found["f1"], found["precision"], found["support"]) == (0.0, 0.0, 0)
    assert found["predicted"] == predicted.max() > 0
    assert all(row["f1"] == 0 for row in listed[: listed.index(found)])


def test_flags_that_could_not_be_followed_are_refused(place, capsys):
    command = ["evaluate", str(place / "m"), str(place / "test.jsonl")]
    assert main([*command, "--propensity", "0.6", "2.6"]) == 2
    assert "--propensity: these metrics are of models" in capsys.readouterr().err
    assert main([*command, "--worst", "-1"]) == 2
    assert "--worst -1: expected 0 or more" in capsys.readouterr().err


def test_many_labels_have_figures_by_frequency_and_propensity(place, capsys, monkeypatch):
    monkeypatch.setattr(judging, "MANY_LABELS", 2)
    command = ["evaluate", str(place / "m"), str(place / "test.jsonl")]
    assert main([*command, "--json", "--propensity", "0.6", "2.6"]) == 0
    found = json.loads(capsys.readouterr().out)
    test, model = fitted.parts()[2], zlpr.load(place / "m")
    seen = LabelFrequencies.of(fitted.parts()[0].labels, a=0.6, b=2.6)
    scores = model.predict_scores(test.texts)
    expected = ps_precision_at_k(test.labels, scores, seen, k=3)
    assert found["metrics"]["ps_precision_at_3"] == pytest.approx(expected)
    assert sum(group["support"] for group in found["by_frequency"]) == test.labels.sum()
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "propensity-scored precision at 5" in printed
    assert "From frequent to rare labels, a third of all training occurrences each" in printed
    assert main([*command, "--propensity", "-1", "1"]) == 2
    assert "--propensity: a must lie within" in capsys.readouterr().err


def test_few_labels_have_none(place, capsys):
    assert main(["evaluate", str(place / "m"), str(place / "test.jsonl"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["by_frequency"] == []
    assert "ps_precision_at_1" not in found["metrics"]


def test_figures_do_not_depend_on_how_many_samples_are_held_at_a_time(place, capsys, monkeypatch):
    command = ["evaluate", str(place / "m"), str(place / "test.jsonl"), "--json"]
    assert main(command) == 0
    whole = json.loads(capsys.readouterr().out)
    monkeypatch.setattr("zlpr.cli.evaluate.CELLS_AT_ONCE", 7 * len(whole["labels"]))
    assert main(command) == 0
    in_blocks = json.loads(capsys.readouterr().out)
    assert in_blocks["labels"] == whole["labels"]
    assert in_blocks["metrics"] == pytest.approx(whole["metrics"], rel=1e-12)
    for error in ("expected_calibration_error", "label_calibration_error"):
        assert in_blocks[error] == pytest.approx(whole[error], rel=1e-6)


@pytest.mark.parametrize("flag", [["--threshold", "1"], ["--top", "2"], ["--min-probability", "0"]])
def test_two_decisions_at_once_are_refused(place, capsys, flag):
    given = ["evaluate", str(place / "m"), str(place / "test.jsonl"), "--zero-bound", *flag]
    assert main(given) == 2
    assert f"--zero-bound and {flag[0]}: give one of them" in capsys.readouterr().err


def test_that_nothing_separates_labels_is_remembered(tmp_path, capsys):
    rows = [f"text {i} {'wet' if i % 2 else 'dry'},\"{'food, drink' if i % 2 else 'hotel'}\"\n"
            for i in range(60)]  # fmt: skip
    (tmp_path / "tags.csv").write_text("text,labels\n" + "".join(rows))
    model, data = str(tmp_path / "m"), str(tmp_path / "tags.csv")
    settings = ["--regularisation", "0.1", "--decode", "zero"]
    assert main(["train", data, "--label-delimiter", "", "--out", model, *settings]) == 0
    assert zlpr.load(model).label_names == ("food, drink", "hotel")
    capsys.readouterr()
    assert main(["evaluate", model, data, "--part", "all", "--json"]) == 0
    assert {label["label"] for label in json.loads(capsys.readouterr().out)["labels"]} == {
        "food, drink",
        "hotel",
    }


def test_the_training_data_divided_in_another_way_is_no_test(tmp_path, capsys):
    data = demo.make(200)
    path, model = str(tmp_path / "all.csv"), str(tmp_path / "m")
    write(data, path)
    settings = ["--regularisation", "0.1", "--decode", "zero"]
    assert main(["train", path, "--out", model, *settings]) == 0
    assert main(["data", "split", path, "--out", str(tmp_path / "other"), "--seed", "5"]) == 0
    capsys.readouterr()
    assert main(["evaluate", model, str(tmp_path / "other")]) == 0
    assert "divided in another way: the figures are also of samples" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--part", "all"]])
def test_data_that_came_divided_then_and_does_not_now(tmp_path, capsys, more):
    data = demo.make(200)
    parts = np.array(["train", "validation", "test"])[np.arange(200) % 3]
    divided, whole, model = (str(tmp_path / name) for name in ("s.jsonl", "w.jsonl", "m"))
    write(replace(data, split=parts), divided)
    write(data, whole)
    settings = ["--regularisation", "0.1", "--decode", "zero"]
    assert main(["train", divided, "--out", model, *settings]) == 0
    assert main(["evaluate", model, divided]) == 0
    assert "another way" not in capsys.readouterr().err
    assert main(["evaluate", model, whole, *more]) == 0
    assert "the model was trained on a part of this data" in capsys.readouterr().err

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import zlpr
from tests.models import fitted
from zlpr._atomic import locked
from zlpr.cli.main import main
from zlpr.decoding import by_hand


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


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "shown"), [(Screen, r"a\x1b[31m b"), (io.StringIO, "a\x1b[31m b")]
)
def test_csv_on_a_terminal_does_not_steer_it(stream, shown, folder, monkeypatch):
    """In a file or a pipe the texts stay what they are."""
    out = stream()
    monkeypatch.setattr("sys.stdout", out)
    assert main(["predict", folder, "--csv", "a\x1b[31m b"]) == 0
    rows = list(csv.reader(io.StringIO(out.getvalue())))
    assert rows[1][0] == shown


LONG = "x" * 5_000


@pytest.mark.parametrize(
    "command",
    [
        ("data", "stats", LONG),
        ("evaluate", LONG, "demo"),
        ("compare", "--data", LONG),
        ("predict", LONG, "a text"),
        ("predict", "FOLDER", "--file", LONG),
        ("train", LONG, "--out", "FOLDER-2"),
    ],
)
def test_a_name_that_is_too_long_is_shortened_in_its_error(command, folder, capsys):
    assert main([word.replace("FOLDER", folder) for word in command]) in (1, 2)
    said = capsys.readouterr().err
    assert said.startswith("zlpr: error: ")
    assert len(said.splitlines()) == 1
    assert "xxx" in said
    assert len(said) < 500


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


def test_texts_may_follow_options(folder, capsys):
    main(["predict", folder, *TEXTS, "--csv"])
    expected = capsys.readouterr().out
    assert main(["predict", folder, "--csv", *TEXTS]) == 0
    assert capsys.readouterr().out == expected


def test_ids_stand_in_the_output(folder, tmp_path, capsys):
    rows = [json.dumps({"key": f"k{i}", "text": text}) for i, text in enumerate(TEXTS)]
    (tmp_path / "some.jsonl").write_text("\n".join(rows))
    command = ["predict", folder, "--file", str(tmp_path / "some.jsonl")]
    main([*command, "--id", "key"])
    assert [answer["id"] for answer in answers(capsys)] == ["k0", "k1", "k2"]
    main([*command, "--id", "key", "--csv"])
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["id"] for row in rows] == ["k0", "k1", "k2"]
    main([*command, "--csv"])
    assert "id" not in next(csv.DictReader(io.StringIO(capsys.readouterr().out)))


TABLE = "id\ttext\tlabels\n7\trefund my order\tbilling\n8\tcannot log in\tlogin\n"


def test_a_table_is_read_as_evaluate_reads_it_whatever_it_is_called(folder, tmp_path, capsys):
    for name in ("some.tsv", "some.txt"):
        (tmp_path / name).write_text(TABLE)
        main(["predict", folder, "--file", str(tmp_path / name)])
        said = capsys.readouterr()
        found = [json.loads(line) for line in said.out.splitlines()]
        assert [row["text"] for row in found] == ["refund my order", "cannot log in"]
        assert f"{name} as tsv: text from 'text', id from 'id'" in said.err
    (tmp_path / "plain.txt").write_text("a line, with a comma\nwith\ta tab\n\n")
    main(["predict", folder, "--file", str(tmp_path / "plain.txt")])
    said = capsys.readouterr()
    texts = [json.loads(line)["text"] for line in said.out.splitlines()]
    assert texts == ["a line, with a comma", "with\ta tab", ""]
    assert "plain.txt as lines" in said.err


def test_a_model_remembers_the_columns_that_it_was_trained_on(tmp_path, capsys):
    rows = [
        f"{'red' if i % 2 else 'blue'} title {i},some long words that say nothing at all,"
        f"{'r' if i % 2 else 'b'}"
        for i in range(600)
    ]
    path = tmp_path / "films.csv"
    path.write_text("\n".join(["title,overview,genres", *rows]))
    model = str(tmp_path / "m")
    assert main(["train", str(path), "--out", model, "--text", "title"]) == 0
    capsys.readouterr()
    assert main(["predict", model, "--file", str(path)]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out.splitlines()[0])["text"] == "blue title 0"
    assert "text from 'title'" in said.err
    assert main(["evaluate", model, str(path), "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["metrics"]["micro_f1"] == 1.0
    assert "trained on a part of this data" in said.err
    (tmp_path / "other.csv").write_text("overview,genres\nsome words,r\n")
    assert main(["predict", model, "--file", str(tmp_path / "other.csv")]) == 2
    assert "no column 'title' for text" in capsys.readouterr().err


def test_features_of_a_file_without_a_header_that_is_narrower_than_the_models(tmp_path, capsys):
    rows = [f"{i % 2} {i % 2}:1 5:{i}e-5" for i in range(300)]
    (tmp_path / "a.svm").write_text("\n".join(rows) + "\n")
    (tmp_path / "b.svm").write_text("0 0:1\n1 1:1\n")
    model = str(tmp_path / "m")
    assert main(["train", str(tmp_path / "a.svm"), "--out", model]) == 0
    capsys.readouterr()
    assert main(["predict", model, "--file", str(tmp_path / "b.svm")]) == 0
    assert [answer["labels"] for answer in answers(capsys)] == [["0"], ["1"]]
    assert main(["evaluate", model, str(tmp_path / "b.svm")]) == 0


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


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "harmless"]


@pytest.mark.parametrize("flag", ["--csv", "--raw-csv"])
def test_no_cell_of_the_csv_is_a_formula_unless_asked_for(flag, folder, tmp_path):
    out = tmp_path / "answers.csv"
    assert main(["predict", folder, flag, "--out", str(out), "--", *FORMULAS]) == 0
    with out.open(encoding="utf-8", newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file)]
    quoted = [text if text == "harmless" else f"'{text}" for text in FORMULAS]
    assert texts == (quoted if flag == "--csv" else FORMULAS)


def test_columns_of_numbers_are_features_though_training_had_no_table(folder, tmp_path, capsys):
    rows = [f"{place % 2} 0:{place % 2} 1:{1 + place / 99:.2f}" for place in range(60)]
    (tmp_path / "a.svm").write_text("\n".join(rows) + "\n")
    (tmp_path / "b.csv").write_text("first,second,labels\n0,1.2,0\n1,1.3,1\n")
    model, table = str(tmp_path / "m"), str(tmp_path / "b.csv")
    assert main(["train", str(tmp_path / "a.svm"), "--out", model]) == 0
    assert main(["evaluate", model, table]) == 0
    capsys.readouterr()
    assert main(["predict", model, "--file", table]) == 0
    assert [row["labels"] for row in answers(capsys)] == [["0"], ["1"]]
    assert main(["predict", folder, "--file", table]) == 2
    assert "this model reads texts, not features" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--csv", "--raw-csv"])
def test_a_carriage_return_in_a_text_begins_no_row_of_the_csv(flag, folder, tmp_path):
    """Behind one, spreadsheets would see a new first cell, which could be a formula."""
    texts = ["cold soup\r=1+1", "plain", "a\nb", "\r"]
    rows = [json.dumps({"id": f"n\r{place}", "text": text}) for place, text in enumerate(texts)]
    (tmp_path / "in.jsonl").write_text("\n".join(rows), "utf-8")
    out = tmp_path / "out.csv"
    arguments = ["predict", folder, flag, "--file", str(tmp_path / "in.jsonl"), "--out", str(out)]
    assert main(arguments) == 0
    with out.open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert [row["id"] for row in found] == [f"n\r{place}" for place in range(4)]
    assert [row["text"].removeprefix("'") for row in found] == texts


def test_answers_mean_the_same_and_move_no_cursor(folder, capsys):
    text = "\x1b[2J \u202e \x9b31m"
    assert main(["predict", folder, text]) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed)["text"] == text
    assert not {"\x1b", "\u202e", "\x9b"} & set(printed)


def test_decisions_by_hand_take_the_place_of_the_models_rule(folder, capsys):
    text = "The printer at the front desk jams and the invoice was wrong."

    def labels(*flags):
        assert main(["predict", str(folder), text, *flags]) == 0
        return answers(capsys)[0]

    assert len(labels("--top", "3")["labels"]) == 3
    assert labels("--threshold", "1000")["labels"] == []
    every = labels("--threshold=-1000", "--min-probability", "0.3")
    shown = labels("--threshold=-1000", "--all-labels")
    assert len(shown["labels"]) == len(shown["scores"])
    assert every["labels"] == [x for x, p in shown["probabilities"].items() if p >= 0.3]
    assert main(["predict", str(folder), text, "--top", "2", "--threshold", "0"]) == 2
    assert "not both" in capsys.readouterr().err


def test_decisions_by_hand_take_the_place_of_the_models_floor(folder, tmp_path, capsys):
    model = zlpr.load(folder)
    model.decoder = by_hand(model.decoder, model.calibrator, min_probability=1.0)
    model.save(tmp_path / "m")

    def labels(*flags):
        assert main(["predict", str(tmp_path / "m"), TEXTS[0], *flags]) == 0
        return answers(capsys)[0]["labels"]

    assert labels() == []
    assert len(labels("--top", "3")) == 3
    assert labels("--top", "3", "--min-probability", "1") == []
    assert len(labels("--threshold=-1000")) == len(model.label_names)


def test_what_a_killed_run_left_beside_its_file_goes(folder, tmp_path):
    for name in (".out.jsonl.killed_1.part", ".out.jsonl.v2.killed_1.part"):
        (tmp_path / name).write_text("half")
    assert main(["predict", folder, "red", "--out", str(tmp_path / "out.jsonl")]) == 0
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [".out.jsonl.v2.killed_1.part", "out.jsonl"]


def test_a_file_is_not_written_over_in_silence(folder, tmp_path, capsys):
    there = tmp_path / "in.csv"
    there.write_text("text,labels\nred,a\n")
    assert main(["predict", str(folder), "red", "--out", str(there)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    command = ["predict", str(folder), "--file", str(there), "--out", str(there), "--overwrite"]
    assert main(command) == 2
    assert "is read from" in capsys.readouterr().err
    assert there.read_text() == "text,labels\nred,a\n"
    for name in ("config.json", "model.safetensors", "README.md"):
        of_model = f"{folder}/{name}"
        assert main(["predict", str(folder), "red", "--out", of_model, "--overwrite"]) == 2
        assert "is read from" in capsys.readouterr().err
    assert main(["predict", str(folder), "red", "--out", str(tmp_path)]) == 2
    assert "a folder" in capsys.readouterr().err
    assert main(["predict", str(folder), "red", "--out", str(there), "--overwrite"]) == 0
    assert there.read_text().startswith("{")


def test_input_of_another_encoding_is_one_line(folder):
    done = subprocess.run(
        [sys.executable, "-m", "zlpr", "predict", str(folder)],
        input=b"abc \xff\xfe parcel\n",
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"standard input: not utf-8" in done.stderr
    assert b"Traceback" not in done.stderr


def test_input_of_two_bytes_a_letter_is_one_line(folder, capsys, monkeypatch):
    given = "refund\nlog in\n".encode("utf-16-le")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
    assert main(["predict", folder]) == 2
    said = capsys.readouterr()
    assert "standard input: this is UTF-16 without its mark" in said.err
    assert "--encoding 'utf-16-le'" in said.err
    assert not said.out


@pytest.mark.parametrize("given", [b"\xef\xbb\xbfrefund\nlog in\n", b"refund\rlog\nin\r\n"])
def test_lines_of_standard_input_are_those_of_a_file(folder, tmp_path, capsys, monkeypatch, given):
    (tmp_path / "some.txt").write_bytes(given)
    main(["predict", folder, "--file", str(tmp_path / "some.txt")])
    expected = capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given)))
    main(["predict", folder])
    assert capsys.readouterr().out == expected
    assert len(expected.splitlines()) == 2


@pytest.mark.parametrize("encoding", ["hex", "utf-9"])
def test_an_encoding_that_is_none_is_one_line(folder, tmp_path, encoding, capsys):
    (tmp_path / "some.txt").write_text("refund\n")
    for source in (["--file", str(tmp_path / "some.txt")], []):
        assert main(["predict", folder, *source, "--encoding", encoding]) == 2
        assert f"no encoding is called '{encoding}'" in capsys.readouterr().err


def test_ids_that_only_a_later_file_has_stand_in_the_csv(folder, tmp_path, capsys):
    (tmp_path / "none.csv").write_text("text\nrefund my order\n")
    (tmp_path / "some.csv").write_text("id,text\nr1,cannot log in\n")
    files = [str(tmp_path / "none.csv"), str(tmp_path / "some.csv")]
    for order in (files, files[::-1]):
        command = [word for name in order for word in ("--file", name)]
        assert main(["predict", folder, "--csv", *command]) == 0
        rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        assert {row["text"]: row["id"] for row in rows} == {
            "refund my order": "",
            "cannot log in": "r1",
        }


def test_blank_lines_of_a_single_column_have_answers_of_their_own(folder, tmp_path, capsys):
    (tmp_path / "blank.csv").write_text("text\nrefund my order\n\ncannot log in\n")
    assert main(["predict", folder, "--file", str(tmp_path / "blank.csv")]) == 0
    assert [answer["text"] for answer in answers(capsys)] == [
        "refund my order",
        "",
        "cannot log in",
    ]


def test_a_text_that_names_a_file_is_doubted(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.csv").write_text("text\nrefund\n")
    assert main(["predict", folder, "s.csv"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["text"] == "s.csv"
    assert "note: s.csv is a file" in shown.err
    assert "--file s.csv" in shown.err
    for texts in (["s.csv", "refund"], ["refund"], ["x" * 5_000], ["a\0b"]):
        assert main(["predict", folder, *texts]) == 0
        assert "is a file" not in capsys.readouterr().err


def test_a_pipe_needs_no_overwriting_and_stays(folder, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert main(["predict", folder, "refund", "--out", str(tmp_path / "pipe")]) == 0
        assert json.loads(os.read(reader, 100_000))["text"] == "refund"
    finally:
        os.close(reader)
    assert (tmp_path / "pipe").is_fifo()


class Terminal(io.StringIO):
    """A stream that somebody looks at, or types into."""

    def isatty(self):
        return True


def test_a_terminal_gets_a_table_and_json_if_asked(folder, monkeypatch, capsys):
    screen = Terminal()
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout", screen)
    assert main(["predict", folder, *TEXTS, "a \x1b[31m very long text " * 9]) == 0
    header, _, *rows = screen.getvalue().splitlines()
    assert header.split("  ")[0] == "text"
    assert "labels and their probabilities" in header
    model = zlpr.load(folder)
    for row, labels in zip(rows, model.predict(TEXTS), strict=False):
        assert all(re.search(rf"{label} \d+\.\d %", row) for label in labels)
    assert rows[-1].split("  ")[0].endswith("…")
    assert "\x1b" not in screen.getvalue()
    screen.truncate(0)
    screen.seek(0)
    assert main(["predict", folder, TEXTS[0], "--json"]) == 0
    assert json.loads(screen.getvalue())["text"] == TEXTS[0]
    screen.truncate(0)
    screen.seek(0)
    assert main(["predict", folder, TEXTS[0], "--all-labels"]) == 0
    assert all(name in screen.getvalue() for name in model.label_names)


def test_typed_texts_are_waited_for_aloud_and_answered_one_by_one(folder, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", Terminal("".join(f"{text}\n" for text in TEXTS)))
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    assert main(["predict", folder]) == 0
    assert "waiting for texts: type one and press Enter" in capsys.readouterr().err
    answers = screen.getvalue().strip().split("\n\n")
    assert len(answers) == len(TEXTS)
    for answer, labels in zip(answers, zlpr.load(folder).predict(TEXTS), strict=True):
        rows = answer.splitlines()[2:]
        assert tuple(row.split("  ")[0] for row in rows) == labels
        assert all(re.search(r"\d+\.\d %$", row) for row in rows)


@pytest.fixture
def parts(tmp_path):
    from pyarrow import parquet, table

    for part in range(2):
        columns = {"id": [part], "text": [TEXTS[part]], "stars": [part + 3]}
        parquet.write_table(table(columns), tmp_path / f"part-{part}.parquet")
    return str(tmp_path / "part-*.parquet")


def test_a_pattern_of_parts_becomes_a_folder_of_parts(folder, parts, tmp_path, capsys):
    from pyarrow import parquet

    out = str(tmp_path / "out")
    assert main(["predict", folder, "--file", parts, "--out", out]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "wrote 2 parts into" in said.err
    assert "text from 'text'" in said.err
    made = parquet.read_table(out)
    assert made["stars"].to_pylist() == [3, 4]
    expected = zlpr.load(folder).predict(TEXTS[:2])
    assert [tuple(names) for names in made["predicted_labels"].to_pylist()] == expected
    assert main(["predict", folder, "--file", parts, "--out", out, "--labels", "stars"]) == 0
    said = capsys.readouterr().err
    assert "wrote 0 parts into" in said
    assert "--labels: for labels, and predict reads none" in said
    assert main(["predict", folder, "--file", parts, "--out", out, "--top", "1"]) == 2
    assert "--overwrite" in capsys.readouterr().err
    main(["predict", folder, "--file", parts])
    assert [answer["text"] for answer in answers(capsys)] == TEXTS[:2]


def test_one_parquet_file_of_texts_lines_or_parts(folder, parts, tmp_path, monkeypatch, capsys):
    from pyarrow import parquet

    expected = zlpr.load(folder).predict(TEXTS[:2])
    out = tmp_path / "out.parquet"
    command = ["predict", folder, "--out", str(out), "--overwrite"]
    for arguments in (TEXTS[:2], ["--file", parts], []):
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{text}\n" for text in TEXTS[:2])))
        assert main([*command, *arguments]) == 0
        made = parquet.read_table(out)
        assert made["text"].to_pylist() == TEXTS[:2]
        assert [tuple(names) for names in made["predicted_labels"].to_pylist()] == expected
        assert ("stars" in made.column_names) == ("--file" in arguments)
        said = capsys.readouterr().err
        assert said.count("text from 'text'") == (2 if "--file" in arguments else 0)
    (tmp_path / "other.csv").write_text("text\nrefund\n")
    before = out.read_bytes()
    assert main([*command, "--file", parts, "--file", str(tmp_path / "other.csv")]) == 2
    assert "different columns" in capsys.readouterr().err
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a text", "--ray", "local"], "--ray predicts files into a folder"),
        (["a text", "--workers", "2"], "--workers is for --ray"),
        (["a text", "--out", "new/"], "new/: a folder, for the parts of files; give --file, or"),
        (["--file", "x.csv", "--out", "TMP", "--csv"], "is written as Parquet"),
        (["--file", "x.csv", "--out", "x.parquet", "--json"], "as Parquet; leave --json out"),
        (["a text", "--top", "13"], "top 13: there are scores of no more than 12 labels"),
        (["--file", "none-*.csv"], "no file has a name like that"),
        (["a text", "--csv", "--json"], "--json and --csv: give one of them"),
        (["a text", "--id", "a"], "--id: for files, and a text is taken as it is"),
        (["--format", "csv", "--text", "b"], "--format, --text: for files, and standard input is"),
        (["--no-header"], "--header: for files, and standard input is"),
    ],
)
def test_what_cannot_go_together_is_one_line(folder, tmp_path, arguments, message, capsys):
    assert main(["predict", folder, *(str(tmp_path) if a == "TMP" else a for a in arguments)]) == 2
    assert message in capsys.readouterr().err


def test_a_cluster_is_asked_for_the_same_parts(folder, parts, tmp_path, monkeypatch, capsys):
    asked = {}

    def on_cluster(request, sources, out, **options):
        asked.update(options, request=request, sources=sources, out=out)
        return 2

    monkeypatch.setattr("zlpr.integrations.ray.predict_parts", on_cluster)
    command = ["predict", folder, "--file", parts, "--ray", "auto", "--out", str(tmp_path / "o.ut")]
    assert main([*command, "--workers", "3", "--top", "2"]) == 0
    assert "wrote 2 parts" in capsys.readouterr().err
    assert (asked["address"], asked["workers"], asked["overwrite"]) == ("auto", 3, False)
    assert [path.name for path in asked["sources"]] == ["part-0.parquet", "part-1.parquet"]
    assert asked["request"].decision["top"] == 2


def test_flags_that_say_nothing_here_are_named(folder, capsys):
    assert main(["predict", str(folder), "a text", "--labels", "tags", "--label-names", "x"]) == 0
    err = capsys.readouterr().err
    assert "--labels, --label-names: for labels, and predict reads none" in err


def test_a_name_that_promises_csv_is_doubted(folder, tmp_path, capsys):
    for flags, doubted in (([], True), (["--csv"], False), (["--json"], False)):
        for name in ("said.csv", "said.csv.gz"):
            out = str(tmp_path / name)
            assert main(["predict", folder, "a text", "--out", out, "--overwrite", *flags]) == 0
            said = capsys.readouterr().err
            assert (f"{name} gets JSON lines; --csv writes CSV" in said) == doubted


@pytest.mark.parametrize(("ending", "opened"), [("gz", gzip), ("bz2", bz2), ("xz", lzma)])
def test_a_name_that_promises_a_compressed_file_gets_one(folder, tmp_path, capsys, ending, opened):
    assert main(["predict", folder, *TEXTS]) == 0
    printed = capsys.readouterr().out
    out = tmp_path / f"said.jsonl.{ending}"
    assert main(["predict", folder, *TEXTS, "--out", str(out)]) == 0
    with opened.open(out, "rt", encoding="utf-8") as stream:
        assert stream.read() == printed


@pytest.mark.parametrize("name", ["said.jsonl", "said.parquet"])
def test_a_file_that_another_run_writes_or_has_written_meanwhile_is_not_lost(
    folder, tmp_path, capsys, monkeypatch, name
):
    out, command = tmp_path / name, ["predict", folder, "red", "--out", str(tmp_path / name)]

    def claim():
        with locked(out):
            held.set()
            free.wait(60)

    held, free = threading.Event(), threading.Event()
    other = threading.Thread(target=claim)
    other.start()
    held.wait(60)
    assert main(command) == 2
    free.set()
    other.join()
    assert "another process is writing to it" in capsys.readouterr().err
    load = zlpr.load
    monkeypatch.setattr(zlpr, "load", lambda model: (out.write_text("theirs"), load(model))[1])
    assert main(command) == 2
    assert "is there already" in capsys.readouterr().err
    assert out.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [out]

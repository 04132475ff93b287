import json
import os
import re
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import sklearn.metrics

import zlpr
from tests import many_labels
from tests.processes import Command
from zlpr.cli.main import main
from zlpr.data import Columns, demo, load
from zlpr.data.splits import small_parts
from zlpr.metrics import evaluate
from zlpr.metrics.table import in_words
from zlpr.training import divide, linear_checkpoint
from zlpr.training.block_workers import InProcess


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """A table of a few hundred texts."""
    path = tmp_path_factory.mktemp("data") / "tickets.jsonl"
    data = demo.make(400)
    rows = zip(data.texts, data.label_sets(), strict=True)
    lines = [json.dumps({"text": text, "labels": labels}) for text, labels in rows]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def folder(file, tmp_path_factory):
    out = tmp_path_factory.mktemp("models") / "tickets"
    assert main(["train", str(file), "--out", str(out)]) == 0
    return out


def test_train_says_what_it_understood_and_ends_with_the_test_table(file, tmp_path, capsys):
    out = tmp_path / "model"
    assert main(["train", str(file), "--out", str(out), "--regularisation", "0.1"]) == 0
    printed = capsys.readouterr().out
    assert "data: tickets, " in printed
    assert "labels: 12, " in printed
    assert "regularisation 0.1, " in printed
    assert re.search(r"validation Micro-F1 \d\d\.\d %", printed)
    lines = printed.strip().splitlines()
    table = next(i for i, line in enumerate(lines) if line.startswith("metric"))
    assert lines[table].split()[1:3] == ["validation", "test"]
    assert any(line.startswith("empty predictions") for line in lines[table:])
    assert lines[-6:] == [
        f"model written to {out}",
        "",
        "next:",
        f'  zlpr predict {out} "a text of yours"',
        f"  zlpr evaluate {out} {file}",
        f"  zlpr serve {out}",
    ]
    assert main(["evaluate", str(out), str(file)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    metrics = json.loads((out / "metrics.json").read_text())
    assert set(metrics) == {"empty", "validation", "test", "test, bound 0"}


def test_many_labels_get_the_model_for_many_unless_another_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("zlpr.training.automatic.MANY_LABELS", 30)
    data = many_labels.make(200, 30)
    rows = zip(data.texts, data.label_sets(), strict=True)
    path = tmp_path / "many.jsonl"
    path.write_text("\n".join(json.dumps({"text": text, "labels": own}) for text, own in rows))
    for flags, kind, line in (
        ([], "zlpr_shortlist", "model: shortlist (--model takes another)"),
        (["--model", "linear"], "zlpr_linear", "regularisation"),
    ):
        out = tmp_path / kind
        command = ["train", str(path), "--out", str(out), "--regularisation", "0.1", *flags]
        assert main([*command, "--decode", "zero"]) == 0
        assert line in capsys.readouterr().out
        assert json.loads((out / "config.json").read_text())["zlpr_model"] == kind
        assert main(["predict", str(out), data.texts[0]]) == 0
        assert capsys.readouterr().out.strip()
    train = ["train", str(path), "--candidates", "3"]
    assert main([*train, "--out", str(tmp_path / "few"), "--regularisation", "0.1"]) == 0
    assert json.loads((tmp_path / "few" / "config.json").read_text())["candidates"] == 3
    capsys.readouterr()
    assert main([*train, "--out", str(tmp_path / "no"), "--neighbours", "3"]) == 2
    assert "model linear has no setting --neighbours; knn has" in capsys.readouterr().err


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_parts_that_are_too_small_are_said_with_their_number(form, file, tmp_path, capsys):
    command = ["train", str(file), "--out", str(tmp_path / "model"), "--regularisation", "0.1"]
    assert main([*command, *form]) == 0
    printed = capsys.readouterr()
    parts = divide(load(str(file)), None, 0)
    notes = small_parts(len(parts.validation), len(parts.test))
    assert len(notes) == 2
    said = printed.err if form else printed.out
    assert all(f"note: {note}\n" in said for note in notes)
    if form:
        about = json.loads(printed.out)["data"]
        assert about["validation_samples"] == len(parts.validation)
        assert about["test_samples"] == len(parts.test)


@pytest.mark.parametrize("empty", ["sklearn", "paper"])
def test_figures_name_how_empty_cases_count_and_count_them_so(empty, file, tmp_path, capsys):
    out = tmp_path / "model"
    command = ["train", str(file), "--out", str(out), "--regularisation", "0.1", "--decode", "zero"]
    assert main([*command, *(["--empty", "paper"] if empty == "paper" else [])]) == 0
    sentence = in_words(empty)
    assert sentence in capsys.readouterr().out
    assert sentence in (out / "README.md").read_text()
    recorded = json.loads((out / "metrics.json").read_text())
    assert recorded["empty"] == empty
    data = divide(load(str(file)), None, 0).test
    scores = zlpr.load(out).predict_scores(data.texts)
    assert recorded["test"] == evaluate(data.labels, scores, scores > 0, empty=empty)
    if empty == "sklearn":
        theirs = sklearn.metrics.f1_score(
            data.labels.toarray(), scores > 0, average="macro", zero_division=0
        )
        assert recorded["test"]["macro_f1"] == pytest.approx(theirs)


def test_a_reader_that_leaves_does_not_throw_the_model_away(file, tmp_path):
    out = tmp_path / "model"
    command = [sys.executable, "-m", "zlpr", "train", str(file), "--out", str(out)]
    with subprocess.Popen(
        [*command, "--regularisation", "0.1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as training:
        assert training.stdout.readline()
        training.stdout.close()  # as head -1 does
        error = training.stderr.read()
    assert training.returncode == 141
    assert b"Traceback" not in error
    assert zlpr.load(out).predict(["late again"])


def test_a_model_that_chooses_nothing_names_its_decision_alone(file, tmp_path, capsys):
    out = str(tmp_path / "model")
    assert main(["train", str(file), "--model", "knn", "--neighbours", "5", "--out", out]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^decoding by \w", printed, re.MULTILINE)
    assert "chosen on validation: ;" not in printed


def test_json_is_all_that_is_printed(file, tmp_path, capsys):
    command = ["train", str(file), "--out", str(tmp_path / "m"), "--json", "--loss", "bce"]
    assert main([*command, "--loss-param", "pos_weight=2", "--decode", "zero"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["decoding"] == {"rule": "zero"}
    assert set(summary["metrics"]) == {"validation", "test"}
    assert zlpr.load(tmp_path / "m").record.loss_params == {"pos_weight": 2}


def test_two_runs_write_the_same_weights(file, tmp_path):
    for name in ("one", "two"):
        assert main(["train", str(file), "--out", str(tmp_path / name)]) == 0
    one, two = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--loss", "zlrp"], "zlrp"),
        (["--loss-param", "gamma"], "expected NAME=VALUE"),
        (["--loss-param", "gamma=2"], "gamma"),
        (["--decode", "half"], "half"),
        (["--metric", "luck"], "luck"),
        (["--regularisation", "-1"], "regularisation"),
        (["--model", "bert"], "hf:NAME_OR_PATH"),
        (["--r-drop", "1"], "model linear has no setting --r-drop; hf:NAME_OR_PATH has"),
        (["--preset", "paper"], "no setting --preset; hf:NAME_OR_PATH has"),
        (["--report-to", "tensorboard"], "no setting --report-to; hf:NAME_OR_PATH has"),
        (
            ["--model", "hf:x", "--analyzer", "char"],
            "model hf has no setting --analyzer; linear, shortlist, embed:NAME_OR_PATH",
        ),
        (["--min-count", "9999"], "min_count"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(file, tmp_path, capsys, arguments, message):
    assert main(["train", str(file), "--out", str(tmp_path / "m"), *arguments]) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("zlpr: error: ")
    assert message in error
    assert "\n" not in error
    assert not (tmp_path / "m").exists()


def test_a_folder_that_is_no_model_is_not_overwritten(file, tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    assert main(["train", str(file), "--out", str(tmp_path)]) == 2
    assert "choose another folder" in capsys.readouterr().err
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_labels_without_a_training_sample_are_named(tmp_path, capsys):
    for part, label in (("train", "a"), ("validation", "a"), ("test", "rare")):
        rows = [f'{{"text": "red blue {i}", "labels": ["{label}"]}}' for i in range(5)]
        rows.append('{"text": "nothing", "labels": []}')
        (tmp_path / f"{part}.jsonl").write_text("\n".join(rows))
    assert main(["train", str(tmp_path), "--out", str(tmp_path / "out" / "m")]) == 0
    assert "no training sample and cannot be learned: rare" in capsys.readouterr().out


@pytest.mark.parametrize("flag", ["--refit", "--no-refit"])
def test_labels_of_the_validation_part_alone_are_learned_by_the_last_fit(tmp_path, capsys, flag):
    train = write_rows(tmp_path / "train.csv", 60)
    held = write_rows(tmp_path / "held.csv", 20, ("a", "c"))
    out = tmp_path / "m"
    assert main(["train", train, "--validation", held, "--out", str(out), flag]) == 0
    printed = capsys.readouterr().out
    later = "but some in the validation part, from which the last fit learns: c" in printed
    assert later == (flag == "--refit")
    assert ("cannot be learned: c" in printed) == (flag == "--no-refit")
    assert (np.ptp(zlpr.load(out).weight[:, 2]) > 0.01) == later


def test_a_disk_that_fills_up_is_one_line_and_leaves_the_previous_model(folder, file, tmp_path):
    """The operating system refuses to write more than 20 kB to a file."""
    before = (folder / "model.safetensors").read_bytes()
    arguments = ["train", str(file), "--out", str(folder), "--loss", "bce", "--overwrite"]
    finished = Command(_train_on_a_full_disk, arguments, log=tmp_path / "log")
    assert finished.wait() == 1
    assert finished.stderr.strip().endswith("File too large")
    assert "\n" not in finished.stderr.strip()
    assert zlpr.load(folder).record.loss == "zlpr"
    assert (folder / "model.safetensors").read_bytes() == before
    leftovers = {path.name for path in folder.parent.iterdir()} - {folder.name}
    assert leftovers <= {f"{folder.name}.checkpoint"}


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_with_the_same_weights(file, tmp_path):
    """SIGKILL in the middle of the epochs, then the same command again."""
    options = ["--loss", "dice2", "--epochs", "20", "--batch-size", "8", "--regularisation", "1"]

    def start(name):
        arguments = ["train", str(file), "--out", str(tmp_path / name), *options]
        return Command(_train_and_save_often, arguments, log=tmp_path / f"{name}-log")

    killed = start("killed")
    state = tmp_path / "killed.checkpoint" / "epoch.safetensors"
    while not state.exists() and killed.process.is_alive():
        time.sleep(0.01)
    killed.process.kill()
    assert killed.wait() == -signal.SIGKILL
    assert state.exists()
    assert not (tmp_path / "killed").exists()
    printed = {}
    for name in ("killed", "unbroken"):
        run = start(name)
        assert run.wait() == 0, run.stderr
        printed[name] = run.stdout
    assert "going on with the unfinished run" in printed["killed"]
    assert "going on" not in printed["unbroken"]
    killed, unbroken = (
        (tmp_path / name / "model.safetensors").read_bytes() for name in ("killed", "unbroken")
    )
    assert killed == unbroken
    assert not (tmp_path / "killed.checkpoint").exists()


def _train_on_a_full_disk(arguments):
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    return main(arguments)


def _train_and_save_often(arguments):
    linear_checkpoint.SECONDS_BETWEEN_SAVES = 0
    return main(arguments)


def write_rows(path, count, labels=("a", "b")):
    rows = [f"row {i} {labels[i % 2]} {labels[i % 2]},{labels[i % 2]}" for i in range(count)]
    path.write_text("text,labels\n" + "\n".join(rows) + "\n")
    return str(path)


def test_validation_and_test_may_be_files_of_their_own(tmp_path, capsys):
    train = write_rows(tmp_path / "train.csv", 60)
    held = write_rows(tmp_path / "held.csv", 20)
    test = write_rows(tmp_path / "test.csv", 10, ("a", "c"))
    out = str(tmp_path / "m")
    assert main(["train", train, "--validation", held, "--test", test, "--out", out]) == 0
    printed = capsys.readouterr().out
    assert "60 training, 20 validation and 10 test samples" in printed
    assert "no training sample and cannot be learned: c" in printed
    assert zlpr.load(out).label_names == ("a", "b", "c")
    assert main(["evaluate", out, train]) == 0
    assert "trained on this very data" in capsys.readouterr().err


def test_a_model_is_not_overwritten_in_silence(tmp_path, capsys):
    data = write_rows(tmp_path / "rows.csv", 120)
    out = str(tmp_path / "m")
    assert main(["train", data, "--out", out]) == 0
    assert main(["train", data, "--out", out, "--loss", "bce"]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert zlpr.load(out).record.loss == "zlpr"
    assert main(["train", data, "--out", out, "--loss", "bce", "--overwrite"]) == 0
    assert zlpr.load(out).record.loss == "bce"


def test_two_trainings_do_not_share_a_folder(tmp_path, capsys):
    data = write_rows(tmp_path / "rows.csv", 120)
    hold = f"""
import sys, time
from pathlib import Path
from zlpr._atomic import locked
with locked(Path({str(tmp_path / "m")!r})):
    print("held", flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"held\n"
        assert main(["train", data, "--out", str(tmp_path / "m")]) == 2
        assert "another process is writing to it" in capsys.readouterr().err
        other.stdin.close()
    assert main(["train", data, "--out", str(tmp_path / "m")]) == 0


def test_a_split_that_would_be_ignored_is_refused(tmp_path, capsys):
    for part in ("train", "test"):
        write_rows(tmp_path / f"{part}.csv", 60)
    assert main(["train", str(tmp_path), "--out", str(tmp_path / "m"), "--split", "random"]) == 2
    assert "comes divided; leave --split out" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        ["--epochs", "3"],
        ["--loss-param", "pos_wieght=2"],
        ["--regularisation", "inf"],
        ["--top", "0"],
        ["--top", "1000"],
    ],
)
def test_a_refused_setting_leaves_nothing_that_blocks_the_next_command(tmp_path, wrong):
    data = write_rows(tmp_path / "rows.csv", 120)
    command = ["train", data, "--out", str(tmp_path / "m")]
    assert main([*command, *wrong]) == 2
    assert main(command) == 0


@pytest.mark.parametrize("group", [{}, {"WORLD_SIZE": "1"}])
def test_a_process_that_is_alone_writes_its_model_whatever_its_rank(
    tmp_path, monkeypatch, capsys, group
):
    for name, value in {"RANK": "3", **group}.items():  # as of a job among many
        monkeypatch.setenv(name, value)
    write_rows(tmp_path / "data.csv", 40)
    out = tmp_path / "model"
    arguments = ["--regularisation", "0.1", "--decode", "zero", "--out", str(out)]
    assert main(["train", str(tmp_path / "data.csv"), *arguments]) == 0
    assert f"model written to {out}" in capsys.readouterr().out
    assert zlpr.load(out).label_names == ("a", "b")


def test_a_folder_without_a_name_is_refused(tmp_path, capsys):
    data = write_rows(tmp_path / "rows.csv", 120)
    assert main(["train", data, "--out", ""]) == 2
    assert "give the folder a name" in capsys.readouterr().err


def test_labels_that_all_samples_have_and_texts_of_numbers_are_noted(tmp_path, capsys):
    rows = [f"0.{i} 1.{i * 7},{'always|odd' if i % 2 else 'always'}" for i in range(120)]
    (tmp_path / "n.csv").write_text("text,labels\n" + "\n".join(rows) + "\n")
    assert main(["train", str(tmp_path / "n.csv"), "--out", str(tmp_path / "m")]) == 0
    said = capsys.readouterr().out
    assert "which leaves nothing to learn: always" in said
    assert "numbers are better given as features" in said


def test_a_setting_of_another_model_is_named_as_a_flag(tmp_path, capsys):
    data = write_rows(tmp_path / "rows.csv", 120)
    assert main(["train", data, "--out", str(tmp_path / "m"), "--max-length", "64"]) == 2
    assert (
        "model linear has no setting --max-length; embed:NAME_OR_PATH, "
        "embed-shortlist:NAME_OR_PATH and hf:NAME_OR_PATH have" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "linear", "--ray", "local"], "model linear is trained by one process; a Ray"),
        (["--ray", "local"], "(--ray) is for the model shortlist"),  # two labels are for linear
        (["--model", "shortlist", "--workers", "2"], "--workers is for --ray, and at least 1"),
        (["--model", "shortlist", "--ray", "local", "--workers", "0"], "and at least 1"),
        (["--model", "shortlist", "--ray", "127.0.0.1:1"], "no Ray cluster at 127.0.0.1:1"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_one_line(
    tmp_path, arguments, message, capsys, monkeypatch
):
    if "local" in arguments:
        monkeypatch.setattr("zlpr.training.ray_block_workers.RayBlockWorkers", FakeCluster)
    else:
        pytest.importorskip("ray", reason="which looks for the cluster")
    data = write_rows(tmp_path / "rows.csv", 120)
    assert main(["train", data, "--out", str(tmp_path / "m"), *arguments]) == 2
    assert message in capsys.readouterr().err.strip().splitlines()[-1]
    assert not (tmp_path / "m").exists()


def test_without_ray_the_extra_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    command = ["train", "demo", "--out", str(tmp_path / "m"), "--model", "shortlist"]
    assert main([*command, "--ray", "local"]) == 2
    assert "zlpr[ray]" in capsys.readouterr().err


class FakeCluster(InProcess):
    """Stands for one of Ray, of two workers."""

    asked = ()

    def __init__(self, address, count=None):
        super().__init__(2)
        FakeCluster.asked = (address, count)

    def __enter__(self):
        return self

    def __exit__(self, *fault):
        FakeCluster.asked += ("left",)


def test_a_cluster_trains_the_same_model(file, tmp_path, monkeypatch):
    monkeypatch.setattr("zlpr.training.ray_block_workers.RayBlockWorkers", FakeCluster)
    here, there = tmp_path / "here", tmp_path / "there"
    settings = ["--model", "shortlist", "--regularisation", "0.1"]
    assert main(["train", str(file), *settings, "--out", str(here)]) == 0
    cluster = ["--ray", "auto", "--workers", "2"]
    assert main(["train", str(file), *settings, *cluster, "--out", str(there)]) == 0
    assert FakeCluster.asked == ("auto", 2, "left")
    saved = "model.safetensors"
    assert (there / saved).read_bytes() == (here / saved).read_bytes()


def test_a_checkpoint_that_is_refused_is_not_gone_on_with(file, tmp_path, capsys):
    out = tmp_path / "model"
    (tmp_path / "model.checkpoint").mkdir()
    (tmp_path / "model.checkpoint" / "run.json").write_text('{"loss": "another"}')
    assert main(["train", str(file), "--out", str(out), "--regularisation", "0.1"]) == 2
    printed = capsys.readouterr()
    assert "holds checkpoints of another run" in printed.err
    assert "discard them (zlpr train --restart)" in printed.err
    assert "going on" not in printed.out + printed.err
    command = ["train", str(file), "--out", str(out), "--regularisation", "0.1", "--restart"]
    assert main(command) == 0
    assert "going on" not in capsys.readouterr().out


def test_a_run_that_was_killed_as_it_began_is_begun_again(file, tmp_path, capsys):
    checkpoint = tmp_path / "model.checkpoint"
    checkpoint.mkdir()
    (checkpoint / ".run.json.abc.part").touch()
    command = ["train", str(file), "--out", str(tmp_path / "model"), "--regularisation", "0.1"]
    assert main(command) == 0
    assert "going on" not in capsys.readouterr().out
    assert not checkpoint.exists()


def test_restart_discards_nothing_that_is_not_a_run(file, tmp_path, capsys):
    thesis = tmp_path / "model.checkpoint" / "thesis.tex"
    thesis.parent.mkdir()
    thesis.write_text("mine")
    assert main(["train", str(file), "--out", str(tmp_path / "model"), "--restart"]) == 2
    fault = capsys.readouterr().err
    assert "no checkpoints of a run are in it" in fault
    assert "another --out" in fault
    assert thesis.read_text() == "mine"


COLOURS = {"rot": "红色", "blau": "蓝色"}


@pytest.fixture
def chinese(tmp_path):
    """A table with a Chinese name, header and labels."""
    rows = [f"{name} 的 东西 {i},{label}" for i in range(100) for name, label in COLOURS.items()]
    (tmp_path / "数据.csv").write_text("\n".join(["文本,标签", *rows]), encoding="utf-8")
    return tmp_path


def in_ascii(folder, *commands):
    """Run commands in a locale of ASCII, where Python keeps the bytes of other characters.

    The arguments are the interpreter's own, a comma between the commands.
    """
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "OMP_NUM_THREADS": "1"}
    code = (
        "import itertools, sys; from zlpr.cli.main import main\n"
        "for ends, command in itertools.groupby(sys.argv[1:], ','.__eq__):\n"
        "    code = 0 if ends else main(list(command))\n"
        "raise SystemExit(code)"
    )
    arguments = [argument for command in commands for argument in (*command, ",")][:-1]
    return subprocess.run(
        [sys.executable, "-c", code, *(argument.encode() for argument in arguments)],
        cwd=folder,
        env={**os.environ, **locale},
        capture_output=True,
        encoding="ascii",
    )


def test_arguments_mean_the_same_in_a_locale_of_ascii(chinese):
    columns = ["--text", "文本", "--labels", "标签"]
    fast = ["--regularisation", "0.1", "--decode", "threshold"]
    done = in_ascii(
        chinese,
        ["train", "数据.csv", *columns, *fast, "--out", "模型"],
        ["predict", "模型", "rot 的 东西"],
        ["evaluate", "模型", "没有.csv"],
    )
    assert "\\u6570\\u636e.csv as csv: text from '\\u6587\\u672c'" in done.stdout
    assert zlpr.load(chinese / "模型").label_names == tuple(sorted(COLOURS.values()))
    config = json.loads((chinese / "模型" / "config.json").read_text(encoding="utf-8"))
    assert config["training"]["data"]["name"] == "数据"
    answer = json.loads(done.stdout.splitlines()[-1])
    assert (answer["text"], answer["labels"]) == ("rot 的 东西", ["红色"])
    assert done.returncode == 2
    assert done.stderr == "zlpr: error: \\u6ca1\\u6709.csv: no such file\n"


def test_a_comparison_runs_in_a_locale_of_ascii(chinese):
    columns = ["--text", "文本", "--labels", "标签"]
    what = ["--data", "数据.csv", *columns, "--losses", "zlpr", "--seeds", "1", "--workers", "1"]
    done = in_ascii(chinese, ["compare", *what, "--set", "regularisation=0.1", "--out", "比较"])
    assert done.returncode == 0, done.stderr
    (record,) = (chinese / "比较" / "runs").iterdir()
    assert record.name.startswith("数据__linear__zlpr__seed0")
    assert "数据.csv" in json.loads(record.read_text(encoding="utf-8"))["made"]["command"]
    assert "数据" in (chinese / "比较" / "report.md").read_text(encoding="utf-8")


def test_a_file_whose_name_is_no_utf_8_can_be_trained_on(file, tmp_path, capsys):
    path = tmp_path / os.fsdecode(b"caf\xe9.jsonl")
    path.write_bytes(file.read_bytes())
    out = str(tmp_path / os.fsdecode(b"mod\xe8le"))
    assert main(["train", str(path), "--out", out, "--regularisation", "0.1"]) == 0
    assert "data: caf\\udce9" in capsys.readouterr().out
    assert zlpr.load(out).record.data["name"] == "caf\\udce9"
    assert main(["evaluate", out, str(path), "--json"]) == 0
    json.loads(capsys.readouterr().out)


def test_groups_that_are_named_are_kept_together(tmp_path, capsys):
    rows = [f"{word} thing{i % 9} {i},{word},u{i % 40}" for i in range(400) for word in ("a", "b")]
    (tmp_path / "g.csv").write_text("text,labels,user\n" + "\n".join(rows))
    (tmp_path / "t.csv").write_text("text,labels,user\n" + "\n".join(rows[:60]))
    train = ["train", str(tmp_path / "g.csv"), "--regularisation", "1", "--json"]
    train += ["--group", "user", "--out"]
    assert main([*train, str(tmp_path / "m")]) == 0
    record = zlpr.load(tmp_path / "m").record.data
    assert record["split_method"] == "group"
    parts = divide(load(tmp_path / "g.csv", group="user"), "group", 0)
    assert record["train_samples"] == len(parts.train)
    capsys.readouterr()
    assert main([*train, str(tmp_path / "n"), "--split", "random"]) == 2
    assert "has groups, which a random split does not keep together" in capsys.readouterr().err
    both = ["--validation", str(tmp_path / "t.csv"), "--split", "group"]
    assert main([*train, str(tmp_path / "n"), *both]) == 2
    assert "nothing is divided where --validation is given" in capsys.readouterr().err
    # The evaluation of the training file finds its groups again.
    assert main(["evaluate", str(tmp_path / "m"), str(tmp_path / "g.csv"), "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["samples"] == len(parts.test)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A table of numbers and categories, the labels following from them."""
    folder = tmp_path_factory.mktemp("measured")
    draw = np.random.default_rng(0)
    for name, rows, colours in (("people", 400, "rgb"), ("new", 40, "rgbx")):
        lines = ["nr,age,colour,month,old,hot"]
        for number in range(rows):
            age, colour = draw.integers(20, 90), draw.choice(list(colours))
            shown = age if draw.random() < 0.9 else "NA"
            month = draw.integers(2, 13)
            lines.append(f"{number},{shown},{colour},{month},{int(age > 60)},{int(colour == 'r')}")
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_a_table_of_numbers_and_categories_from_training_to_prediction(
    measured, tmp_path, capsys, caplog
):
    model, columns = tmp_path / "model", ["--features-columns", "age:month", "--id", "nr"]
    command = ["train", str(measured / "people.csv"), *columns, "--categorical-columns", "month"]
    assert main([*command, "--out", str(model)]) == 0
    printed = capsys.readouterr().out
    assert "numbers from 'age' and categories from 'colour', 'month'" in printed
    assert "inputs: 16 features per sample" in printed
    figures = json.loads((model / "metrics.json").read_text())["test"]
    assert figures["micro_f1"] > 0.9
    card = (model / "README.md").read_text()
    assert "numbers from 'age' and categories from 'colour', 'month'" in card
    assert "tabular-classification" in card
    assert main(["evaluate", str(model), str(measured / "new.csv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["micro_f1"] > 0.9
    out = tmp_path / "predicted.jsonl"
    new = str(measured / "new.csv")
    for command in (["evaluate", str(model), new], ["predict", str(model), "--file", new]):
        assert main([*command, "--text", "colour"]) == 2
        assert "no text is read, but features as before" in capsys.readouterr().err
    assert main(["predict", str(model), "--file", new, "--out", str(out)]) == 0
    said = [record.getMessage() for record in caplog.records]
    unknown = [text for text in said if "a category that training did not have ('x')" in text]
    assert len(unknown) == 2  # once by each command
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    data = load(new, like=Columns.from_json(zlpr.load(model).record.data["columns"]))
    assert [tuple(row["labels"]) for row in rows] == zlpr.load(model).predict(data.features)
    assert [row["id"] for row in rows] == data.ids


def test_files_of_a_table_s_other_parts_have_the_same_features(measured, tmp_path, capsys):
    command = ["train", str(measured / "people.csv"), "--test", str(measured / "new.csv")]
    columns = ["--features-columns", "age", "colour", "--labels", "old", "--labels", "hot"]
    assert main([*command, *columns, "--out", str(tmp_path / "model")]) == 0
    figures = json.loads((tmp_path / "model" / "metrics.json").read_text())
    assert figures["test"]["micro_f1"] > 0.9


def test_a_range_of_columns_means_the_same_in_files_of_other_parts(measured, tmp_path, capsys):
    lines = [line.split(",") for line in (measured / "new.csv").read_text().splitlines()]
    shuffled = "\n".join(",".join([*line[3:], *line[:3]]) for line in lines)
    (tmp_path / "test.csv").write_text(shuffled + "\n")
    command = ["train", str(measured / "people.csv"), "--features-columns", "age:month"]
    others = ["--test", str(tmp_path / "test.csv"), "--out", str(tmp_path / "model")]
    assert main([*command, "--id", "nr", *others]) == 0
    assert capsys.readouterr().out.count("numbers from 'age', 'month' and categories") == 2


def write_news(path, count, story="", columns="headline,story,labels"):
    """A table of headlines, all alike, and of stories that tell the label."""
    rows = [f"a headline of words,{['wine', 'hotel'][i % 2]} {story}{i}" for i in range(count)]
    labels = ['"food, drink|hotel"', "hotel"] if story else ['"food, drink"', "hotel"]
    lines = [f"{row},{labels[i % 2]}" for i, row in enumerate(rows)]
    path.write_text("\n".join([columns, *lines]))
    return str(path)


def test_files_of_other_parts_are_read_as_the_training_part(tmp_path, capsys):
    train = write_news(tmp_path / "news.csv", 80, story="and so on as it was told at length ")
    held, test = (write_news(tmp_path / f"{name}.csv", 40) for name in ("held", "test"))
    command = ["train", train, "--validation", held, "--out", str(tmp_path / "m")]
    assert main([*command, "--test", test]) == 0
    printed = capsys.readouterr().out
    for name in (train, held, test):
        assert f"read {name} as csv: text from 'story'" in printed
    assert printed.count("labels from 'labels' separated by '|'") == 3
    assert zlpr.load(tmp_path / "m").label_names == ("food, drink", "hotel")
    other = write_news(tmp_path / "other.csv", 9, columns="headline,body,labels")
    assert main([*command, "--test", other, "--overwrite"]) == 2
    assert "other.csv: no column 'story' for text" in capsys.readouterr().err
    assert main([*command, "--test", test, "--overwrite", "--text", "headline"]) == 0
    assert capsys.readouterr().out.count("text from 'headline'") == 3


def test_a_position_means_the_column_of_the_training_part(tmp_path, capsys):
    rows = [f"n{i},{['wine', 'bed'][i % 2]} {i % 7},{['food', 'room'][i % 2]}" for i in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["nr,story,kind", *rows]))
    turned = [",".join(row.split(",")[place] for place in (1, 0, 2)) for row in rows]
    (tmp_path / "b.csv").write_text("\n".join(["story,nr,kind", *turned]))
    files = [str(tmp_path / "a.csv"), "--validation", str(tmp_path / "b.csv")]
    files += ["--test", str(tmp_path / "b.csv"), "--out", str(tmp_path / "m")]
    how = ["--text", "1", "--labels", "2", "--header", "--regularisation", "1", "--json"]
    assert main(["train", *files, *how]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["test"]["micro_f1"] == 1


def test_files_of_other_parts_need_no_groups(tmp_path, capsys):
    rows = [f"{['wine', 'bed'][i % 2]} {i},{['food', 'room'][i % 2]}" for i in range(200)]
    grouped = [f"{row},u{i % 40}" for i, row in enumerate(rows)]
    (tmp_path / "a.csv").write_text("\n".join(["text,labels,user", *grouped]))
    (tmp_path / "b.csv").write_text("\n".join(["text,labels", *rows[:60]]))
    files = [str(tmp_path / "a.csv"), "--test", str(tmp_path / "b.csv")]
    how = ["--group", "user", "--regularisation", "1", "--out", str(tmp_path / "m")]
    assert main(["train", *files, *how]) == 0
    assert "labels from 'labels', group from 'user'" in capsys.readouterr().out
    (tmp_path / "c.csv").write_text("\n".join(["text,labels", *rows]))
    files[0] = str(tmp_path / "c.csv")
    assert main(["train", *files, *how, "--overwrite"]) == 2
    assert "c.csv: no column 'user' for group" in capsys.readouterr().err


@pytest.mark.parametrize("part", ["--validation", "--test"])
def test_a_part_of_other_inputs_is_refused_before_anything_is_trained(tmp_path, capsys, part):
    (tmp_path / "a.csv").write_text("text,labels\n" + "red wine,a\nblue bed,b\n" * 60)
    (tmp_path / "b.svm").write_text("1 0:1\n2 1:1\n" * 60)
    (tmp_path / "c.svm").write_text("120 1 3\n" + "1 0:1\n2 0:1\n" * 60)
    for train, other, message in (
        ("a.csv", "b.svm", "a: some parts hold texts and others features: texts here, features"),
        ("b.svm", "a.csv", "b: some parts hold texts and others features: features here, texts"),
        ("b.svm", "c.svm", "c: 1 feature, and b has 2; all parts need the same"),
    ):
        command = ["train", str(tmp_path / train), part, str(tmp_path / other)]
        assert main([*command, "--out", str(tmp_path / "m")]) == 2
        assert message in capsys.readouterr().err
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "b.svm", "c.svm"]


def test_sparse_files_of_other_parts_may_be_narrower_or_wider(tmp_path, capsys):
    for width in (3, 5, 9):
        rows = [f"{i % 2} {i % 2}:1 {i % width}:0.5\n" for i in range(60)]
        (tmp_path / f"w{width}.svm").write_text("".join(rows))
    files = [
        tmp_path / "w5.svm",
        "--validation",
        tmp_path / "w3.svm",
        "--test",
        tmp_path / "w9.svm",
    ]
    out = str(tmp_path / "m")
    command = ["train", *map(str, files), "--regularisation", "1", "--out", out]
    assert main(command) == 0
    for width in (3, 5, 9):
        assert main(["evaluate", out, str(tmp_path / f"w{width}.svm"), "--json"]) == 0
    capsys.readouterr()


def test_a_folder_of_sparse_parts_is_read_by_its_model_again(tmp_path, capsys):
    for name, width in (("train", 5), ("test", 9)):
        rows = [f"{i % 2} {i % 2}:1 {i % width}:0.5\n" for i in range(120)]
        (tmp_path / f"{name}.svm").write_text("".join(rows))
    out = str(tmp_path / "m")
    assert main(["train", str(tmp_path), "--regularisation", "1", "--out", out]) == 0
    assert zlpr.load(out).record.data["columns"]["num_features"] == 9
    assert main(["evaluate", out, str(tmp_path), "--json"]) == 0
    capsys.readouterr()


def test_counts_of_other_parts_that_are_0_and_1_are_no_labels(tmp_path):
    for name, count, most in (("train", 80, 30), ("test", 10, 1)):
        rows = [f"{['wine', 'room'][i % 2]} {i},{min(i, most)},{i % 2}" for i in range(count)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,likes,hotel", *rows]))
    command = ["train", str(tmp_path / "train.csv"), "--test", str(tmp_path / "test.csv")]
    assert main([*command, "--out", str(tmp_path / "m")]) == 0
    assert zlpr.load(tmp_path / "m").label_names == ("hotel",)


@pytest.fixture
def attributed(tmp_path):
    """The same rows under two ARFF headers: attributes and values stand in another order."""
    draw = np.random.default_rng(0)
    rows = [
        (draw.choice(["red", "blue"]), draw.choice(list("sml")), age)
        for age in draw.integers(20, 90, 200).tolist()
    ]
    labels = ["@attribute warm {0,1}", "@attribute large {0,1}", "@data"]
    kinds = ["colour {red,blue}", "size {s,m,l}", "age numeric"]
    turned = ["age numeric", "size {l,s,m}", "colour {blue,red}"]
    for name, header, step in (("x-train", kinds, 1), ("x-test", turned, -1)):
        lines = ["@relation x", *(f"@attribute {attribute}" for attribute in header), *labels]
        for row in rows:
            known = [int(row[0] == "red"), int(row[1] == "l")]
            lines.append(",".join(map(str, [*row[::step], *known])))
        (tmp_path / f"{name}.arff").write_text("\n".join(lines) + "\n")
    (tmp_path / "x.xml").write_text('<labels><label name="warm"/><label name="large"/></labels>')
    return tmp_path


def test_attributes_are_found_by_name_from_training_to_prediction(attributed, capsys):
    model = str(attributed / "model")
    train, test = (str(attributed / f"x-{part}.arff") for part in ("train", "test"))
    assert main(["train", train, "--test", test, "--out", model]) == 0
    figures = json.loads((attributed / "model" / "metrics.json").read_text())
    assert figures["test"]["subset_accuracy"] == 1
    capsys.readouterr()
    assert main(["evaluate", model, test, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["subset_accuracy"] == 1
    assert main(["predict", model, "--file", train]) == 0
    expected = capsys.readouterr().out
    assert main(["predict", model, "--file", test]) == 0
    assert capsys.readouterr().out == expected
    held = (attributed / "x-test.arff").read_text()
    (attributed / "x-test.arff").write_text(held.replace("colour {", "color {"))
    assert main(["evaluate", model, test]) == 2
    assert "x-test.arff: no attribute is called 'colour'" in capsys.readouterr().err


def test_a_model_without_names_of_attributes_takes_them_by_position(attributed, capsys):
    train, old = str(attributed / "x-train.arff"), str(attributed / "old")
    assert main(["train", train, "--out", str(attributed / "model")]) == 0
    model = zlpr.load(attributed / "model")
    assert model.record.data["columns"].pop("attributes")["names"] == ["colour", "size", "age"]
    model.save(old)
    capsys.readouterr()
    assert main(["evaluate", old, train, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["subset_accuracy"] == 1
    assert main(["evaluate", old, str(attributed / "x-test.arff"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["subset_accuracy"] < 1


def test_all_numbers_are_features_where_there_is_no_text(measured, tmp_path, capsys):
    command = ["train", str(measured / "people.csv"), "--id", "nr", "--out", str(tmp_path / "m")]
    assert main(command) == 0
    assert "numbers from 'age', 'month', labels from 2 columns" in capsys.readouterr().out


def test_labels_with_a_hierarchy_are_trained_judged_and_predicted_with_their_ancestors(
    tmp_path, capsys
):
    words = {"Sports/Ball/Football": "goal", "Sports/Chess": "pawn", "Food/Soup": "spoon"}
    rows = [{"text": f"{words[x]} {i}", "labels": [x]} for i in range(20) for x in words]
    data, out = tmp_path / "data.jsonl", tmp_path / "m"
    data.write_text("\n".join(map(json.dumps, rows)))
    command = ["train", str(data), "--out", str(out), "--regularisation", "0.1"]
    assert main([*command, "--hierarchy-separator", "/", "--decode", "zero"]) == 0
    said = capsys.readouterr()
    assert "hierarchy: 4 of 6 labels have parents" in said.out
    assert "Micro-F1 is the hierarchical F1" in said.out
    assert main(["predict", str(out), "a goal", "--json"]) == 0
    labels = json.loads(capsys.readouterr().out)["labels"]
    assert sorted(labels) == ["Sports", "Sports/Ball", "Sports/Ball/Football"]
    assert main(["evaluate", str(out), str(data), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["samples"] == 6  # the test part again, known by its closed labels
    assert found["metrics"]["micro_f1"] == 1.0
    assert found["metrics"]["cardinality_true"] >= 2
    flat = tmp_path / "flat.jsonl"  # of the labels above others alone
    flat.write_text(
        "\n".join(json.dumps({"text": f"goal {i}", "labels": ["Sports"]}) for i in "ab")
    )
    assert main(["evaluate", str(out), str(flat), "--hierarchy-separator", "/", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["cardinality_true"] == 1
    parts = [*command[:3], str(tmp_path / "parts"), "--test", str(flat)]
    assert main([*parts, "--hierarchy-separator", "/", "--decode", "zero"]) == 0
    assert "2 test samples" in capsys.readouterr().out
    (tmp_path / "links.csv").write_text("Sports/Chess,Sports\nSports,Sports/Chess\n")
    again = [*command[:3], str(tmp_path / "other"), "--hierarchy", str(tmp_path / "links.csv")]
    assert main(again) == 2
    assert "links.csv, line 1: 'Sports/Chess' is its own ancestor" in capsys.readouterr().err

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace

import httpx
import numpy as np
import pytest

from tests.models import fitted
from tests.serving.asking import ask
from zlpr.cli.main import main
from zlpr.data import Dataset, demo, load, write
from zlpr.training import TrainingConfig, divide, fit
from zlpr.training.fitting import fit_parts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    target = tmp_path_factory.mktemp("serve") / "model"
    fitted.result().model.save(target)
    return target


def test_it_says_where_it_is_answers_and_stops_when_told(folder):
    command = [sys.executable, "-m", "zlpr", "serve", folder, "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with (
        subprocess.Popen(command, **pipes, env={**os.environ, "PYTHONPATH": "src"}) as process,
        contextlib.ExitStack() as otherwise,
    ):
        otherwise.callback(process.kill)  # a failure here is not to wait for a server
        assert process.stdout.readline() == "serving model: 12 labels, zlpr_linear\n"
        address = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())[0]
        asked = {"texts": ["the secret parcel"]}
        answers = [
            httpx.post(f"{address}/predict{query}", json=asked, timeout=60).status_code
            for query in ("", "?hidden=1")
        ]
        process.send_signal(signal.SIGTERM)
        rest, log = process.communicate(timeout=60)
    assert answers == [200, 400]
    assert process.returncode == 0
    assert rest.splitlines()[-1] == "stopped"
    assert "POST /predict 200" in log
    assert "POST /predict 400" in log
    assert "secret" not in log
    assert "hidden" not in log


def test_data_is_read_and_the_page_can_show_it(folder, monkeypatch, capsys):
    served = {}

    def listen_no_further(server, listening):
        served["app"] = server.config.app

    monkeypatch.setattr("zlpr.serving.server.run", listen_no_further)
    assert main(["serve", str(folder), "demo", "--port", "0"]) == 0
    about = ask(served["app"], "GET", "/review", base="http://127.0.0.1").json()
    assert about["data"] == "demo"
    assert about["part"] == "all samples"
    assert ask(served["app"], "GET", "/models", base="http://evil.example").status_code == 421
    assert "look at it: http://127.0.0.1:" in capsys.readouterr().out


def test_a_second_model_of_other_parts_of_the_data_is_shown_with_what_it_saw(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("zlpr.serving.server.run", lambda server, listening: None)
    data = demo.make(300, 0)
    (tmp_path / "data.jsonl").write_text(
        "".join(
            json.dumps({"text": text, "labels": sorted(labels)}) + "\n"
            for text, labels in zip(data.texts, data.label_sets(), strict=True)
        )
    )
    for seed in (0, 1):
        parts = divide(load(tmp_path / "data.jsonl"), seed=seed)
        config = TrainingConfig(regularisation=0.3, refit=False)
        fit_parts(parts, config).model.save(tmp_path / f"seed{seed}")
    given = [str(tmp_path / name) for name in ("seed0", "seed1", "data.jsonl")]
    assert main(["serve", *given, "--port", "0"]) == 0
    said = capsys.readouterr().err
    assert "note: seed1: the model was trained or chosen on " in said
    assert "note: seed0" not in said


def test_training_samples_that_an_edited_split_calls_a_test_part_are_said(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("zlpr.serving.server.run", lambda server, listening: None)
    data, names = demo.make(100, 0), ["train"] * 8 + ["validation", "test"]
    path = tmp_path / "data.jsonl"
    write(replace(data, split=np.array(names * 10)), path)
    config = TrainingConfig(regularisation=0.3)
    fit_parts(divide(load(path)), config).model.save(tmp_path / "m")
    for split, said in ((names, False), (names[::-1], True)):
        write(replace(data, split=np.array(split * 10)), path)
        assert main(["serve", str(tmp_path / "m"), str(path), "--port", "0"]) == 0
        assert ("divided in another way" in capsys.readouterr().err) == said


def test_data_may_be_given_once(folder, capsys):
    assert main(["serve", str(folder), "demo", "reviews.csv"]) == 2
    assert "demo and reviews.csv: neither is a model folder" in capsys.readouterr().err


def test_several_folders_have_the_names_that_tell_them_apart(folder, capsys):
    assert main(["serve", str(folder), str(folder), "--port", "0"]) == 2
    assert "given twice" in capsys.readouterr().err


def test_what_is_no_model_folder_is_one_line(tmp_path, capsys):
    assert main(["serve", str(tmp_path)]) == 2
    assert "not a model folder" in capsys.readouterr().err


def test_others_are_let_in_only_when_told(folder, capsys):
    assert main(["serve", str(folder), "--host", "192.0.2.1"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "--token-file" in error


def test_a_limit_must_let_something_through(folder, capsys):
    assert main(["serve", str(folder), "--max-texts", "0"]) == 2
    assert "expected more than 0" in capsys.readouterr().err


def test_models_of_different_columns_are_not_shown_on_the_first_ones_column(tmp_path, capsys):
    lines = ["title,overview,labels"]
    lines += [f"{['good', 'bad'][i % 2]} {i},long words {i},{'ab'[i % 2]}" for i in range(40)]
    (tmp_path / "two.csv").write_text("\n".join(lines) + "\n")
    data = Dataset.from_label_sets([["a"], ["b"]] * 20, texts=["good", "bad"] * 20)
    for column in ("title", "overview"):
        model = fit(data, data, TrainingConfig(loss="zlpr", regularisation=0.3)).model
        model.record.data["columns"] = {"format": "csv", "text": [column], "labels": ["labels"]}
        model.save(tmp_path / column)
    given = [str(tmp_path / name) for name in ("overview", "title", "two.csv")]
    assert main(["serve", *given, "--port", "0"]) == 2
    said = "title: was trained on texts from 'title', and gets 'overview' here, as the first model"
    assert said in capsys.readouterr().err


def test_models_of_attributes_in_different_order_are_not_shown_on_the_first_ones(tmp_path, capsys):
    head = "@relation 'x: -C 1'\n@attribute l {0,1}\n@attribute a real\n@attribute b real\n@data\n"
    (tmp_path / "two.arff").write_text(head + "1,0,1\n0,1,0\n" * 20)
    features = np.array([[0.0, 1.0], [1.0, 0.0]] * 20)
    data = Dataset.from_label_sets([["l"], []] * 20, features=features)
    for names in ("ab", "ba"):
        model = fit(data, data, TrainingConfig(loss="zlpr", regularisation=0.3)).model
        held = {"format": "mulan", "num_features": 2, "attributes": {"names": list(names)}}
        model.record.data["columns"] = held
        model.save(tmp_path / names)
    given = [str(tmp_path / name) for name in ("ab", "ba", "two.arff")]
    assert main(["serve", *given, "--port", "0"]) == 2
    assert "ba: was trained on other attributes" in capsys.readouterr().err

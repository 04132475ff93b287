import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from safetensors import numpy as safetensors_numpy

import zlpr
from tests.models import fitted
from zlpr._errors import UserError
from zlpr.models import LinearModel, folder


@pytest.fixture
def saved(tmp_path):
    target = tmp_path / "model"
    fitted.result().model.save(target)
    return target


def texts():
    return [*fitted.parts()[2].texts[:20], "", "something else entirely"]


@pytest.mark.parametrize(
    ("loss", "decode"), [("zlpr", "auto"), ("lsep", "auto"), ("bce", "expected_f1")]
)
def test_a_saved_model_predicts_the_same_bits(tmp_path, loss, decode):
    model = fitted.result(loss, decode).model
    model.save(tmp_path / "model")
    again = zlpr.load(tmp_path / "model")
    assert again.label_names == model.label_names
    assert np.array_equal(again.predict_scores(texts()), model.predict_scores(texts()))
    assert np.array_equal(again.predict_proba(texts()), model.predict_proba(texts()))
    assert again.predict(texts()) == model.predict(texts())


def test_another_process_loads_it_with_nothing_but_the_package(saved):
    code = "import sys, zlpr; print(zlpr.load(sys.argv[1]).predict(['the app crashes']))"
    finished = subprocess.run(
        [sys.executable, "-c", code, str(saved)], capture_output=True, text=True, check=True
    )
    assert finished.stdout.strip() == str(zlpr.load(saved).predict(["the app crashes"]))


def test_the_folder_says_what_it_is(saved):
    config = json.loads((saved / "config.json").read_text())
    model = fitted.result().model
    assert list(config["id2label"].values()) == list(model.label_names)
    assert config["loss"] == "zlpr"
    assert config["loss_params"] == {}
    assert config["decoding"] == model.decoder.to_config()
    assert config["zlpr_version"] == zlpr.__version__
    names = {path.name for path in saved.iterdir()}
    assert names == {
        "config.json",
        "model.safetensors",
        "vocabulary.json",
        "metrics.json",
        "README.md",
    }
    card = (saved / "README.md").read_text()
    assert "billing" in card


@pytest.mark.parametrize("name", ["model.safetensors", "vocabulary.json"])
def test_a_missing_file_is_named(saved, name):
    (saved / name).unlink()
    with pytest.raises(UserError, match=f"{name}: missing"):
        zlpr.load(saved)


@pytest.mark.parametrize("name", ["model.safetensors", "vocabulary.json"])
def test_an_altered_file_is_named(saved, name):
    content = bytearray((saved / name).read_bytes())
    content[len(content) // 2] ^= 1
    (saved / name).write_bytes(content)
    with pytest.raises(UserError, match=f"{name}: altered"):
        zlpr.load(saved)


def edit(saved, **changes):
    path = saved / "config.json"
    config = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id2label": {"0": "a"}}, "disagree on 'a': 0 in the one, none in the other"),
        ({"label2id": []}, "id2label and label2id disagree"),
        ({"files": None}, "lacks 'files'"),
        ({"files": {"../other": "0"}}, "leaves the folder"),
        ({"zlpr_model": "tree"}, "tree"),
        ({"zlpr_model": None}, "lacks 'zlpr_model'"),
        ({"decoding": {"rule": "dice"}}, "dice"),
        ({"calibrator": None}, "calibrator"),
    ],
)
def test_an_altered_config_is_one_clear_line(saved, changes, message):
    edit(saved, **changes)
    with pytest.raises(UserError, match=message) as caught:
        zlpr.load(saved)
    assert "\n" not in str(caught.value)


def test_broken_json_and_foreign_folders_are_one_clear_line(saved, tmp_path):
    (saved / "config.json").write_text("{")
    with pytest.raises(UserError, match="not valid JSON"):
        zlpr.load(saved)
    with pytest.raises(UserError, match="no such model folder"):
        zlpr.load(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"no config\.json"):
        zlpr.load(tmp_path)


def test_a_card_may_be_edited_and_figures_may_not(saved):
    (saved / "README.md").write_text("mine")
    figures = json.loads((saved / "metrics.json").read_text())
    assert zlpr.load(saved).record.metrics == {k: v for k, v in figures.items() if k != "empty"}
    figures["validation"]["micro_f1"] = 1.0
    (saved / "metrics.json").write_text(json.dumps(figures))
    with pytest.raises(UserError, match=r"metrics\.json: altered since the model was saved"):
        zlpr.load(saved)
    (saved / "metrics.json").unlink()
    with pytest.raises(UserError, match=r"metrics\.json: missing"):
        zlpr.load(saved)


def test_a_folder_of_before_figures_were_listed_loads_with_or_without_them(saved):
    config = json.loads((saved / "config.json").read_text())
    del config["files"]["metrics.json"]
    (saved / "config.json").write_text(json.dumps(config))
    assert zlpr.load(saved).record.metrics["validation"]
    (saved / "metrics.json").unlink()
    assert zlpr.load(saved).record.metrics == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('{"test": {"micro_f1": "high"}}', "micro_f1 of test is no number"),
        ('{"test": 0.5}', "not a model this version can read"),
        ("[0.5]", "not a model this version can read"),
    ],
)
def test_figures_that_are_none_are_named_though_their_checksum_matches(saved, content, message):
    (saved / "metrics.json").write_text(content)
    config = json.loads((saved / "config.json").read_text())
    config["files"]["metrics.json"] = hashlib.sha256(content.encode()).hexdigest()
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=message):
        zlpr.load(saved)


def test_saving_again_replaces_the_model_and_keeps_what_is_the_users(saved):
    (saved / "notes.txt").write_text("mine")
    other = fitted.result("bce").model
    with pytest.raises(UserError, match="holds a model already"):
        other.save(saved)
    assert zlpr.load(saved).record.loss == "zlpr"
    other.save(saved, overwrite=True)
    assert zlpr.load(saved).record.loss == "bce"
    assert (saved / "notes.txt").read_text() == "mine"
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


def test_a_failed_save_leaves_the_previous_model(saved, monkeypatch):
    def full_disk(self, beside):
        (beside / "model.safetensors").write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(LinearModel, "save_parts", full_disk)
    with pytest.raises(OSError, match="No space left"):
        fitted.result("bce").model.save(saved, overwrite=True)
    monkeypatch.undo()
    assert zlpr.load(saved).record.loss == "zlpr"
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


def test_a_save_that_was_killed_between_its_renames_is_repaired(saved):
    previous = saved.with_name(".model.previous")
    saved.rename(previous)
    with pytest.raises(UserError, match=r"\.model\.previous"):
        zlpr.load(saved)
    folder.check_writable(saved, overwrite=True)
    assert zlpr.load(saved).record.loss == "zlpr"


@pytest.mark.parametrize("config", ["whole", "without files", "gone"])
def test_a_save_that_was_killed_after_its_renames_is_finished(saved, config):
    previous = saved.with_name(".model.previous")
    shutil.copytree(saved, previous)
    (previous / "notes.txt").write_text("mine")
    if config == "without files":
        entries = json.loads((previous / "config.json").read_text())
        (previous / "config.json").write_text(json.dumps({**entries, "files": None}))
    elif config == "gone":
        (previous / "config.json").unlink()
    fitted.result("bce").model.save(saved, overwrite=True)
    assert zlpr.load(saved).record.loss == "bce"
    assert (saved / "notes.txt").read_text() == "mine"
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


def test_a_folder_of_somebody_else_is_left_alone(tmp_path):
    target = tmp_path / "thesis"
    target.mkdir()
    (target / "chapter.txt").write_text("one")
    with pytest.raises(UserError, match="choose another folder"):
        fitted.result().model.save(target)
    assert (target / "chapter.txt").read_text() == "one"
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="a file"):
        fitted.result().model.save(tmp_path / "file")


def test_an_empty_folder_is_taken(tmp_path):
    (tmp_path / "new").mkdir()
    fitted.result().model.save(tmp_path / "new")
    shutil.copytree(tmp_path / "new", tmp_path / "moved")
    assert zlpr.load(tmp_path / "moved").record.loss == "zlpr"


def _damage(saved, name, change):
    """Change a file and make the checksums match, as somebody who means harm would."""
    (saved / name).write_bytes(change((saved / name).read_bytes()))
    config = json.loads((saved / "config.json").read_text())
    config["files"] = {
        file: hashlib.sha256((saved / file).read_bytes()).hexdigest() for file in config["files"]
    }
    (saved / "config.json").write_text(json.dumps(config))


def _with_nan(content):
    tensors = safetensors_numpy.load(content)
    tensors["weight"][0, 0] = np.nan
    return safetensors_numpy.save(tensors)


def _without_a_term(content):
    held = json.loads(content)
    del held["views"][0]["terms"][-1], held["views"][0]["counts"][-1]
    return json.dumps(held).encode()


def _edited(**entries):
    return lambda content: json.dumps({**json.loads(content), **entries}).encode()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("model.safetensors", lambda content: content[:-50], "not a model this version can read"),
        ("model.safetensors", lambda content: b"\xff" * 20, "not a model this version can read"),
        ("model.safetensors", _with_nan, "a weight is not a finite number"),
        ("vocabulary.json", _without_a_term, "terms, but the weights are for"),
        ("vocabulary.json", lambda content: b"[]", "not a model this version can read"),
        ("vocabulary.json", lambda content: b"[" * 100_000, "not a model this version can read"),
        ("vocabulary.json", _edited(views=[]), "0 terms, but the weights are for"),
    ],
)
def test_damage_under_matching_checksums_is_one_line(saved, name, change, message):
    _damage(saved, name, change)
    with pytest.raises(UserError, match=message) as refused:
        zlpr.load(saved)
    assert "\n" not in str(refused.value)
    assert str(saved) in str(refused.value)


def test_two_labels_of_one_name(saved):
    config = json.loads((saved / "config.json").read_text())
    config["id2label"]["1"] = config["id2label"]["0"]
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="id2label: expected a name of its own for every label"):
        zlpr.load(saved)


@pytest.mark.parametrize("place", ["id2label", "label2id"])
def test_names_that_were_exchanged_in_one_of_their_two_places(saved, place):
    config = json.loads((saved / "config.json").read_text())
    held = config[place]
    one, other, *_ = held
    held[one], held[other] = held[other], held[one]
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"config\.json.*id2label and label2id disagree on '.*both"):
        zlpr.load(saved)


def test_a_name_too_many(saved):
    config = json.loads((saved / "config.json").read_text())
    config["label2id"]["new"] = 99
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="disagree on 'new': none in the one, 99 in the other"):
        zlpr.load(saved)


def test_a_folder_without_label2id_is_read(saved):
    config = json.loads((saved / "config.json").read_text())
    del config["label2id"]
    (saved / "config.json").write_text(json.dumps(config))
    assert zlpr.load(saved).label_names == fitted.result().model.label_names


@pytest.mark.parametrize("name", ["model.safetensors", "vocabulary.json"])
def test_a_list_of_files_that_leaves_one_out(saved, name):
    config = json.loads((saved / "config.json").read_text())
    del config["files"][name]
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=f"{name}: not among the model's files"):
        zlpr.load(saved)


def test_a_configuration_that_is_nested_too_deeply(saved):
    (saved / "config.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match="not valid JSON"):
        zlpr.load(saved)


@pytest.mark.parametrize("entry", ["calibrator", "decoding", "training"])
def test_an_entry_of_another_kind_is_named_with_its_folder(saved, entry):
    edit(saved, **{entry: []})
    with pytest.raises(UserError) as refused:
        zlpr.load(saved)
    assert str(saved) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "metrics.json"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "dangling link"])
def test_what_is_no_file_is_neither_waited_for_nor_read(saved, name, kind):
    path = saved / name
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(saved / "nowhere")
    message = "it has no config.json" if name == "config.json" else f"{name}: missing"
    with pytest.raises(UserError, match=message):
        zlpr.load(saved)


def test_a_file_that_may_not_be_read_is_named(saved, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied", str(saved / "config.json"))

    monkeypatch.setattr("pathlib.Path.read_text", refuse)
    with pytest.raises(PermissionError) as raised:
        zlpr.load(saved)
    assert raised.value.filename == str(saved / "config.json")


def test_a_link_to_a_folder_stays_a_link(tmp_path):
    """As to a larger disk: what is replaced is the folder that it leads to."""
    disk, link = tmp_path / "disk", tmp_path / "model"
    (disk / "model").mkdir(parents=True)
    link.symlink_to(disk / "model")
    model = fitted.result().model
    for overwrite in (False, True):
        model.save(link, overwrite=overwrite)
        assert link.is_symlink()
        assert zlpr.load(link).predict(texts()) == model.predict(texts())
        assert [path.name for path in disk.iterdir()] == ["model"]
    with pytest.raises(UserError, match="holds a model already"), folder.claim_folder(link):
        pass


def test_three_processes_that_save_into_one_folder_lose_nothing(saved, tmp_path):
    code = f"""
import zlpr
model = zlpr.load({str(saved)!r})
try:
    model.save({str(tmp_path / "shared")!r})
    print("saved")
except zlpr.UserError as fault:
    print(fault)
"""
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    answers = sorted(process.communicate()[0].strip() for process in processes)
    assert answers.count("saved") == 1
    assert all("holds a model already" in answer for answer in answers if answer != "saved")
    assert zlpr.load(tmp_path / "shared").label_names == zlpr.load(saved).label_names
    assert not list(tmp_path.glob(".shared*"))


def test_a_folder_that_is_protected_is_refused_before_anything_is_trained(saved, monkeypatch):
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != saved and access(path, mode))
    with pytest.raises(PermissionError) as refused, folder.claim_folder(saved, overwrite=True):
        pass
    assert refused.value.filename == str(saved)
    assert zlpr.load(saved).predict(["the app crashes"])  # still the model that was there


def test_a_mount_point_is_refused_before_anything_is_trained(saved, tmp_path, monkeypatch):
    for target in (saved, tmp_path / "empty"):
        target.mkdir(exist_ok=True)
        monkeypatch.setattr(os.path, "ismount", lambda path, at=target: path == at)
        with (
            pytest.raises(UserError, match="a disk is mounted there, which cannot be replaced"),
            folder.claim_folder(target, overwrite=True),
        ):
            pass
    assert zlpr.load(saved).predict(["the app crashes"])


def test_a_previous_model_that_cannot_be_deleted_is_named(saved, monkeypatch):
    def refuse(path, ignore_errors=False):
        if not ignore_errors:
            raise PermissionError(errno.EACCES, "Permission denied", "metrics.json")

    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(OSError, match=r"Permission denied: '/.*\.model\.previous'"):
        fitted.result().model.save(saved, overwrite=True)

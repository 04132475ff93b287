import json
import os
from dataclasses import replace

import pytest

from tests.compare.synthetic import record, settings
from zlpr._errors import UserError
from zlpr.compare.records import (
    LossSpec,
    read_record,
    read_records,
    record_schema,
    same_result,
    write_record,
)


def test_a_record_survives_the_disk(tmp_path):
    for made in (record(), record(loss="lsep", seed=4), record(fault="ValueError: no")):
        assert read_record(write_record(made, tmp_path)) == made


def test_any_setting_changes_the_hash():
    base = settings()
    others = [
        replace(base, data="other"),
        replace(base, fingerprint="1" * 16),
        replace(base, model_fingerprint="1" * 16),
        replace(base, reading={"text": "body"}),
        replace(base, split="published"),
        replace(base, model="hf:bert"),
        replace(base, loss=LossSpec("zlpr", "zlpr", {"pos_weight": 2.0})),
        replace(base, loss=LossSpec("zlpr", "zlpr", choose={"pos_weight": (1.0, 2.0)})),
        replace(base, seed=1),
        replace(base, training={"metric": "micro_f1"}),
        replace(base, version="0.2.0"),
    ]
    hashes = {entry.hash() for entry in (base, *others)}
    assert len(hashes) == len(others) + 1
    assert len({entry.file_name() for entry in (base, *others)}) == len(others) + 1


def test_the_hash_is_that_of_equal_settings_read_back(tmp_path):
    loss = LossSpec("m", "zlpr", choose={"pos_weight": (1, 2.5)})
    made = record()
    made = replace(made, settings=replace(made.settings, loss=loss))
    assert read_record(write_record(made, tmp_path)).settings.hash() == made.settings.hash()


def test_file_names_cannot_leave_the_folder(tmp_path):
    made = record(data="../../etc/passwd", model="hf:org/name")
    path = write_record(made, tmp_path)
    assert path.parent == tmp_path
    assert "/" not in path.name


def test_file_names_fit_the_file_system_and_stay_different(tmp_path):
    long = [record(data="数" * 80 + last, model="hf:" + "m/" * 90) for last in "ab"]
    paths = {write_record(made, tmp_path) for made in long}
    assert len(paths) == 2
    assert all(len(path.name.encode()) < 240 for path in paths)  # the file beside it is longer
    plain = record(data="Reviews", model="hf:org/name").settings
    assert plain.file_name().startswith(f"Reviews__hf-org-name__{plain.loss.label}__seed")


def test_records_of_another_kind_are_named_and_left(tmp_path):
    good = write_record(record(), tmp_path)
    (tmp_path / "notes.json").write_text("[]")
    (tmp_path / "torn.json").write_text(good.read_text()[:100])
    old = json.loads(good.read_text()) | {"schema": 0}
    (tmp_path / "old.json").write_text(json.dumps(old))
    records, faults = read_records(tmp_path)
    assert records == [record()]
    assert [fault.partition(".json")[0].rpartition("/")[2] for fault in faults] == [
        "notes",
        "old",
        "torn",
    ]
    with pytest.raises(UserError, match=r"old\.json: .*schema: 0, this version reads 1"):
        read_record(tmp_path / "old.json")


def test_a_figure_that_is_no_number_is_named(tmp_path):
    path = write_record(record(), tmp_path)
    path.write_text(path.read_text().replace('"micro_f1": ', '"micro_f1": NaN, "other": ', 1))
    with pytest.raises(UserError, match="NaN is no figure"):
        read_record(path)


def test_equal_results_are_equal_whenever_they_were_made():
    a = record()
    later = replace(
        a, made=replace(a.made, started="2027-01-01"), seconds=replace(a.seconds, fit=9)
    )
    assert same_result(a, later)
    assert not same_result(a, record(seed=1))
    assert not same_result(a, replace(a, outcome=replace(a.done, trainings=5)))


def test_the_published_schema_fits_the_records(tmp_path):
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema checks the schema")
    validator = jsonschema.Draft202012Validator(record_schema())
    for made in (record(), record(loss="lsep"), record(fault="KeyError: 'x'")):
        validator.validate(json.loads(write_record(made, tmp_path).read_text()))
    assert not validator.is_valid({"schema": 1})


def test_a_pipe_among_the_records_is_not_waited_for(tmp_path):
    write_record(record(), tmp_path)
    os.mkfifo(tmp_path / "pipe.json")
    records, faults = read_records(tmp_path)
    assert records == [record()]
    assert faults == [f"{tmp_path / 'pipe.json'}: not a run record, for it is no regular file"]


def test_a_folder_that_cannot_be_read_is_not_taken_for_an_empty_one(tmp_path, monkeypatch):
    def refuse(path, *args):
        raise PermissionError(13, "Permission denied", str(path))

    write_record(record(), tmp_path)
    monkeypatch.setattr(os, "scandir", refuse)
    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(PermissionError, match=str(tmp_path)):
        read_records(tmp_path)

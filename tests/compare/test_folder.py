from dataclasses import replace

import pytest

from tests.compare.synthetic import grid, record
from zlpr._errors import UserError
from zlpr.compare.folder import RunFolder
from zlpr.compare.records import LossSpec, write_record


def fill(path, records):
    for made in records:
        write_record(made, path)


def test_records_come_in_the_grids_order_and_missing_ones_are_counted(tmp_path):
    folder = RunFolder(tmp_path)
    records = grid(losses=("bce", "zlpr"))
    fill(folder.runs, records[1:])
    folder.write_grid([made.settings for made in records], "zlpr compare")
    selection = folder.select()
    assert list(selection.records) == records[1:]
    assert selection.missing == 1
    assert selection.left_out == ()


def test_a_folder_may_be_named_by_a_text(tmp_path):
    fill(RunFolder(tmp_path).runs, [record()])
    assert RunFolder(str(tmp_path)) == RunFolder(tmp_path)
    assert RunFolder(str(tmp_path)).select().records == (record(),)


def test_records_of_other_settings_or_versions_are_left_out_and_said(tmp_path):
    folder = RunFolder(tmp_path)
    now = record()
    fill(folder.runs, [now, record(version="0.0.9"), record(training={"metric": "micro_f1"})])
    (folder.runs / "torn.json").write_text("{")
    folder.write_grid([now.settings], "zlpr compare")
    selection = folder.select()
    assert selection.records == (now,)
    assert len(selection.left_out) == 3
    text = " ".join(selection.left_out)
    assert "torn.json" in text
    assert "1 record made by zlpr 0.0.9 not counted" in text
    assert "1 record made with other settings not counted" in text


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (record(seed=1, version="0.0.9"), r"several versions of zlpr \(0\.0\.9, 0\.1\.0\)"),
        (record(training={"metric": "micro_f1"}), "two records of toy / linear / zlpr / seed 0"),
        (record(seed=1, training={}), "the records of linear differ in their training settings"),
        (
            record(seed=1, model_fingerprint="1" * 16),
            "the records of linear differ in their model's",
        ),
        (record(seed=1, fingerprint="1" * 16), "the records of toy differ in their split or data"),
        (record(seed=1, split="published"), "the records of toy differ in their split or data"),
        (record(seed=1, reading={"labels": "b"}), "the records of toy differ in their way to read"),
        (record(seed=1, max_samples=50), "the records of toy differ in their number of samples"),
        (record(seed=1, per_metric=True), "the records of linear differ in their way to choose"),
    ],
)
def test_a_bare_folder_of_records_must_fit_together(tmp_path, other, message):
    fill(tmp_path, [record(), other])
    with pytest.raises(UserError, match=message):
        RunFolder(tmp_path).select()


def test_a_loss_of_a_bare_folder_has_the_same_parameters_for_all_seeds(tmp_path):
    one = record(seed=1)
    weighed = LossSpec("zlpr", "zlpr", params={"pos_weight": 2.0})
    fill(tmp_path, [record(), replace(one, settings=replace(one.settings, loss=weighed))])
    with pytest.raises(UserError, match="the records of zlpr differ in their parameters"):
        RunFolder(tmp_path).select()


def test_a_damaged_record_of_a_bare_folder_is_said(tmp_path):
    fill(tmp_path, [record()])
    (tmp_path / "torn.json").write_text("{")
    RunFolder(tmp_path).write_grid([record().settings], "zlpr compare")
    (line,) = RunFolder(tmp_path).select().left_out
    assert "torn.json: not a run record" in line


def test_a_bare_folder_of_records_is_enough(tmp_path):
    fill(tmp_path, grid())
    assert len(RunFolder(tmp_path).select().records) == 27


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(UserError, match="no such folder"):
        RunFolder(tmp_path / "nowhere").select()
    with pytest.raises(UserError, match="no run records there"):
        RunFolder(tmp_path).select()


def test_a_comparison_on_other_data_is_not_replaced_in_silence(tmp_path):
    folder = RunFolder(tmp_path)
    mine = record().settings
    folder.write_grid([mine], "zlpr compare")
    folder.check_data([mine, replace(mine, seed=9), replace(mine, data="more")])
    with pytest.raises(UserError, match=r"which this one lacks.*--overwrite"):
        folder.check_data([replace(mine, data="other")])
    with pytest.raises(UserError, match="with other content"):
        folder.check_data([replace(mine, fingerprint="changed")])


def test_a_grid_file_of_the_users_own_is_not_replaced(tmp_path):
    (tmp_path / "grid.json").write_text('{"columns": 12}')
    with pytest.raises(UserError, match=r"grid\.json: not a list of cells"):
        RunFolder(tmp_path).check_data([record().settings])

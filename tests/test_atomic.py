import os
import stat

import pytest

from zlpr._atomic import replacing, write_text


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "figures.json"
    target.write_text("old")
    with pytest.raises(IsADirectoryError), replacing(target) as beside:
        (beside.write_text("ne"), beside.parent.read_text())
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_successful_write_replaces_the_file_and_makes_its_folder(tmp_path):
    target = tmp_path / "new folder" / "notes.txt"
    write_text(target, "多标签")
    write_text(target, "second")
    assert target.read_text() == "second"
    assert list(target.parent.iterdir()) == [target]


def test_written_files_have_the_permissions_of_ordinary_ones(tmp_path):
    previous = os.umask(0o022)
    try:
        write_text(tmp_path / "shared.txt", "x")
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "shared.txt").stat().st_mode) == 0o644

import errno
import json
import os
import stat
import subprocess
import sys
import threading
import time

import pytest

from zlpr._atomic import folder_beside, is_special, locked, replacing, write_text
from zlpr._errors import UserError


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


def test_a_folder_beside_goes_whatever_happens_and_so_do_leftovers(tmp_path):
    leftover = tmp_path / ".model.killed_1.part"
    leftover.mkdir()
    (tmp_path / ".models.another1.part").mkdir()

    def fail():
        with folder_beside(tmp_path / "model") as beside:
            assert not leftover.exists()
            (beside / "half").write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == [".models.another1.part"]


def test_a_folder_beside_stays_where_another_name_begins_like_its_own(tmp_path):
    with folder_beside(tmp_path / "model.v2") as beside, folder_beside(tmp_path / "model"):
        assert beside.is_dir()


def test_a_full_disk_names_the_folder(tmp_path):
    with pytest.raises(OSError, match="No space left") as raised, folder_beside(tmp_path / "model"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert raised.value.filename == str(tmp_path / "model")


def test_a_file_that_cannot_be_written_has_the_name_that_it_would_have_had(tmp_path):
    model = tmp_path / "model"

    def save():
        with folder_beside(model) as beside:
            config = beside / "deep" / "config.json"
            config.mkdir(parents=True)
            config.write_text("{}")

    with pytest.raises(IsADirectoryError) as raised:
        save()
    assert raised.value.filename == str(model / "deep" / "config.json")


def test_an_error_of_another_file_keeps_its_name(tmp_path):
    with pytest.raises(FileNotFoundError) as raised, folder_beside(tmp_path / "model"):
        (tmp_path / "elsewhere").read_text()
    assert raised.value.filename == str(tmp_path / "elsewhere")


def test_a_lock_may_be_taken_twice_by_one_process_and_not_by_two(tmp_path):
    target = tmp_path / "model"
    code = f"""
from pathlib import Path
from zlpr._atomic import locked
with locked(Path({str(target)!r})):
    print("taken")
"""

    def other():
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )

    with locked(target), locked(target):
        refused = other()
        assert refused.returncode == 1
        assert "another process is writing to it" in refused.stderr
    assert other().stdout == "taken\n"
    assert list(tmp_path.iterdir()) == []


def test_who_waits_for_a_lock_gets_it(tmp_path):
    """Eight processes add one to a file's number, each reading it first and writing it after."""
    (tmp_path / "number").write_text("0")
    code = f"""
import time
from pathlib import Path
from zlpr._atomic import locked
number = Path({str(tmp_path / "number")!r})
with locked(number, patience=60):
    value = int(number.read_text())
    time.sleep(0.05)
    number.write_text(str(value + 1))
"""
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(8)]
    assert [process.wait() for process in processes] == [0] * 8
    assert (tmp_path / "number").read_text() == "8"
    assert [path.name for path in tmp_path.iterdir()] == ["number"]


def test_a_full_disk_names_the_file(tmp_path):
    with pytest.raises(OSError, match="No space left") as raised, replacing(tmp_path / "report"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert raised.value.filename == str(tmp_path / "report")
    assert list(tmp_path.iterdir()) == []


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path):
    (tmp_path / "real").mkdir()
    for name in ("old.txt", "new.txt"):  # there, and not yet
        (tmp_path / name).symlink_to(tmp_path / "real" / name)
    (tmp_path / "real" / "old.txt").write_text("old")
    for name in ("old.txt", "new.txt"):
        write_text(tmp_path / name, "x")
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "real" / name).read_text() == "x"
    (tmp_path / "link").symlink_to(tmp_path / "real" / "model")
    with folder_beside(tmp_path / "link") as beside:
        assert beside.parent == tmp_path / "real"
        assert (tmp_path / "real" / ".model.lock").exists()


def test_pipes_and_devices_are_written_to_and_stay(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_text(pipe, "through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]
    # Nothing is written to a device here: were this wrong, root's tests would replace it.
    assert all(is_special(path) for path in (os.devnull, "/dev/stdout", "/dev/fd/1"))
    (tmp_path / "file").write_text("x")
    assert not any(is_special(tmp_path / name) for name in ("file", "none", "."))


def test_a_descriptor_of_a_file_is_added_to(tmp_path):
    log = tmp_path / "log"
    log.write_text("before\n")
    with log.open("a") as descriptor:  # as in --out /dev/stdout >> log
        write_text(f"/dev/fd/{descriptor.fileno()}", "after\n")
    assert log.read_text() == "before\nafter\n"


def test_a_name_that_is_no_utf_8_comes_back_from_json(tmp_path):
    held = {"path": "caf\udce9.csv"}
    write_text(tmp_path / "a.json", json.dumps(held, ensure_ascii=False))
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == held


def test_a_folder_is_not_replaced_by_a_file(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match="folder: a folder; choose another name"):
        write_text(tmp_path / "folder", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("error", [PermissionError, OSError])
@pytest.mark.parametrize("step", ["tempfile.mkstemp", "pathlib.Path.replace"])
def test_where_nothing_can_be_written_the_target_is_named(tmp_path, monkeypatch, error, step):
    """Not the file beside it, which nobody knows; as in a folder that is read-only."""
    target = tmp_path / "figures.json"
    number = errno.EACCES if error is PermissionError else errno.EROFS

    def refuse(*_, **__):
        raise OSError(number, os.strerror(number), str(tmp_path / ".figures.json.abc.part"))

    monkeypatch.setattr(step, refuse)
    with pytest.raises(error) as raised:
        write_text(target, "{}")
    assert raised.value.filename == str(target)
    monkeypatch.undo()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system", str(tmp_path / ".model.abc.part"))

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    with pytest.raises(OSError, match="Read-only") as raised, folder_beside(tmp_path / "model"):
        pass
    assert raised.value.filename == str(tmp_path / "model")


def test_of_many_threads_one_writes_at_a_time(tmp_path):
    target, held, seen = tmp_path / "model", [], []

    def write(number):
        with folder_beside(target) as beside:
            held.append(number)
            (beside / "file").write_text(str(number))
            time.sleep(0.02)
            seen.append((len(held), (beside / "file").read_text() == str(number)))
            held.remove(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [(1, True)] * 5
    assert list(tmp_path.iterdir()) == []


def test_a_thread_may_lock_what_it_has_and_another_may_not(tmp_path):
    refused = []

    def lock():
        try:
            with locked(tmp_path / "model"):
                pass
        except UserError as fault:
            refused.append(str(fault))

    with locked(tmp_path / "model"):
        lock()
        other = threading.Thread(target=lock)
        other.start()
        other.join()
    assert len(refused) == 1
    assert "another process is writing to it" in refused[0]

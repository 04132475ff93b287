import pytest

from zlpr import _memory
from zlpr._errors import UserError
from zlpr._memory import available_memory, require_memory


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine of files: 8 GB free, and no control group."""
    monkeypatch.setattr(_memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(_memory, "_OWN_GROUP", tmp_path / "cgroup")
    monkeypatch.setattr(_memory, "_GROUPS", tmp_path / "groups")
    (tmp_path / "meminfo").write_text("MemTotal: 16000000 kB\nMemAvailable: 8000000 kB\nOdd\n")
    return tmp_path


def write_group(folder, names, limit, used, remembered):
    folder.mkdir(parents=True)
    for name, value in zip(names, (limit, used), strict=True):
        (folder / name).write_text(f"{value}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {remembered}\n")


def test_it_is_what_the_machine_has_free(machine):
    assert available_memory() == 8_000_000 * 1024


@pytest.mark.parametrize(
    ("own", "folder", "names"),
    [
        ("0::/job/7", "groups/job/7", ("memory.max", "memory.current")),
        ("0::/", "groups", ("memory.max", "memory.current")),
        ("0::/elsewhere", "groups", ("memory.max", "memory.current")),
        (
            "4:memory:/job\n0::/",
            "groups/memory/job",
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ),
    ],
)
def test_a_control_groups_limit_holds_too(machine, own, folder, names):
    (machine / "cgroup").write_text(f"9:name=systemd:/\n{own}\n")
    write_group(machine / folder, names, 3_000_000_000, 2_500_000_000, 400_000_000)
    assert available_memory() == 900_000_000


def test_the_limit_of_a_group_above_holds_as_well(machine):
    (machine / "cgroup").write_text("0::/job/7/shell\n")
    names = ("memory.max", "memory.current")
    write_group(machine / "groups/job/7/shell", names, "max", 5, 0)
    write_group(machine / "groups/other", names, 100, 5, 0)
    for folder, limit in (("job/7", 4_000_000_000), ("job", 3_000_000_000)):
        for name, value in zip(names, (limit, 2_500_000_000), strict=True):
            (machine / "groups" / folder / name).write_text(f"{value}\n")
    assert available_memory() == 500_000_000


def test_no_limit_is_none(machine):
    write_group(machine / "groups", ("memory.max", "memory.current"), "max", 5, 0)
    assert available_memory() == 8_000_000 * 1024


def test_what_does_not_fit_is_refused_with_numbers_and_a_way_out(machine, monkeypatch):
    require_memory("it", 8_000_000 * 1024, "rest")
    with pytest.raises(UserError) as raised:
        require_memory("it", 31_000_000_000, "take less")
    assert str(raised.value) == (
        "it would take about 31.0 GB of memory, and 8.2 GB are free; take less; "
        "ZLPR_MEMORY_CHECK=off tries it all the same"
    )
    monkeypatch.setenv("ZLPR_MEMORY_CHECK", "off")
    require_memory("it", 31_000_000_000, "take less")


def test_nothing_is_refused_where_nobody_knows(machine, monkeypatch):
    (machine / "meminfo").unlink()
    monkeypatch.setattr("os.sysconf", lambda name: (_ for _ in ()).throw(ValueError(name)))
    assert available_memory() is None
    require_memory("it", 10**18, "rest")

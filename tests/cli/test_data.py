import hashlib
import json
import shutil
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from tests.data.sources.test_sources import FILES
from zlpr.cli.main import main
from zlpr.data import load, load_split, published
from zlpr.data.sources import SOURCES, RemoteFile, goemotions, prepare

ACTIONS = ("list", "stats", "prepare", "download", "split")
SETS = [name for source in SOURCES for name in source.sets]


def zlpr(capsys, *arguments):
    """Run a command; return exit code, standard output and standard error."""
    code = main(["data", *map(str, arguments)])
    output = capsys.readouterr()
    return code, output.out, output.err


def as_json(capsys, *arguments):
    code, out, _ = zlpr(capsys, *arguments, "--json")
    assert code == 0
    return json.loads(out)


@pytest.mark.parametrize("action", ACTIONS)
def test_help_has_an_example(action, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["data", action, "--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert "example:\n  zlpr data " + action in out


def test_help_loads_nothing_heavy(monkeypatch, capsys):
    before = set(sys.modules)
    for name in [name for name in before if name.startswith("zlpr.data")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(SystemExit):
        main(["data", "--help"])
    assert not {name for name in sys.modules if name.startswith("zlpr.data")}


def test_list_shows_the_eleven_sets_with_the_papers_figures(capsys):
    entries = as_json(capsys, "list")
    assert [entry["name"] for entry in entries] == SETS
    figures = {entry["name"]: entry["published"] for entry in entries}
    assert figures["Toutiao"]["instances"] == 659870
    assert figures["GoEmotions-Simplified"] is None
    code, out, _ = zlpr(capsys, "list")
    assert code == 0
    assert all(name in out for name in published.SETS)


def test_stats_of_a_file_equal_its_rows(tmp_path, capsys):
    (tmp_path / "notes.csv").write_text("text,labels\none two,a|b\nthree,\nfour five six,b\n")
    row = as_json(capsys, "stats", tmp_path / "notes.csv")["parts"]["all"]
    assert row["instances"] == 3
    assert row["mean_words"] == 2
    assert row["categories"] == 2
    assert row["cardinality"] == 1
    assert row["density"] == 0.5
    code, out, _ = zlpr(capsys, "stats", tmp_path / "notes.csv")
    assert code == 0
    assert "mean words" in out
    assert "paper" not in out


def test_stats_of_prepared_data_stand_beside_the_papers(tmp_path, capsys):
    zlpr(capsys, "prepare", "Toxic", "--raw", FILES / "toxic", "--out", tmp_path / "Toxic")
    found = as_json(capsys, "stats", tmp_path / "Toxic")
    assert found["parts"]["all"]["instances"] == 4
    assert found["published"]["all"]["instances"] == 159571
    _, out, _ = zlpr(capsys, "stats", tmp_path / "Toxic")
    assert [line.split()[:3] for line in out.splitlines()[4:6]] == [
        ["all", "here", "4"],
        ["all", "paper", "159,571"],
    ]


def test_stats_by_name_alone_are_the_papers(capsys):
    _, out, _ = zlpr(capsys, "stats", "cnipa-title")
    assert "CNIPA-Title" in out
    assert "mean characters" in out
    assert "212,095" in out
    assert as_json(capsys, "stats", "Toxic")["parts"] == {}


def test_stats_count_what_they_are_told_to(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("text,labels\n水泵 密封圈,a\n", "utf-8")
    characters = as_json(capsys, "stats", tmp_path / "a.csv")["parts"]["all"]
    words = as_json(capsys, "stats", tmp_path / "a.csv", "--unit", "words")["parts"]["all"]
    assert (characters["mean_words"], characters["unit"]) == (5, "characters")
    assert (words["mean_words"], words["unit"]) == (2, "words")


def test_stats_read_as_they_are_told_to(tmp_path, capsys):
    (tmp_path / "a.tsv").write_text("first text\t3,1\nsecond\t1\n")
    (tmp_path / "names.txt").write_text("zero\none\ntwo\nthree\n")
    how = ("--no-header", "--text", "0", "--labels", "1", "--label-names", tmp_path / "names.txt")
    assert as_json(capsys, "stats", tmp_path / "a.tsv", *how)["parts"]["all"]["cardinality"] == 1.5


def test_bad_rows_are_dropped_where_asked_and_told(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("text,labels\none,a\ntwo,b,c\n")
    code, _, err = zlpr(capsys, "stats", tmp_path / "a.csv")
    assert code == 2
    assert "a.csv, line 3: 3 columns, expected 2" in err
    told = as_json(capsys, "stats", tmp_path / "a.csv", "--skip-bad-rows")
    assert told["parts"]["all"]["instances"] == 1
    assert "dropped 1 of 2 rows" in told["notes"][0]


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_plot_writes_a_picture(kind, tmp_path, capsys):
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    code, _, err = zlpr(
        capsys, "stats", FILES / "archive" / "train.csv", "--plot", tmp_path / f"a.{kind}"
    )
    assert code == 0
    assert (tmp_path / f"a.{kind}").read_bytes().startswith(starts[kind])
    assert f"a.{kind}" in err
    assert len(list(tmp_path.iterdir())) == 1


def test_plot_replaces_a_picture_only_when_told(tmp_path, capsys):
    picture = tmp_path / "a.svg"
    picture.write_text("mine")
    command = ("stats", FILES / "archive" / "train.csv", "--plot", picture)
    code, _, err = zlpr(capsys, *command)
    assert (code, picture.read_text()) == (2, "mine")
    assert "a.svg: is there already; choose another name, or --overwrite" in err
    code, _, _ = zlpr(capsys, *command, "--overwrite")
    assert code == 0
    assert picture.read_bytes().startswith(b"<?xml")


def test_plot_refuses_other_kinds_of_file(tmp_path, capsys):
    code, _, err = zlpr(
        capsys, "stats", FILES / "archive" / "train.csv", "--plot", tmp_path / "a.xls"
    )
    assert (code, list(tmp_path.iterdir())) == (2, [])
    assert ".png, .svg or .pdf" in err


@pytest.mark.parametrize("name", SETS)
def test_prepared_sets_load_as_they_were_read(name, tmp_path, capsys):
    source = next(source for source in SOURCES if name in source.sets)
    raw = FILES / source.name.lower()
    if name in {"Toutiao", "USPTO-Title", "USPTO-Abstract", "CNIPA-Title", "CNIPA-Abstract"}:
        raw = more_rows(raw, tmp_path / "raw")
    told = as_json(capsys, "prepare", name, "--raw", raw, "--out", tmp_path / "out")
    read = prepare(name, raw).datasets[name]
    again = load(tmp_path / "out")
    assert told["sets"][0]["sizes"] == {p: int((again.split == p).sum()) for p in set(again.split)}
    assert again.label_names == read.label_names
    assert sorted(zip(again.ids, again.texts, again.label_sets(), strict=True)) == sorted(
        zip(read.ids, read.texts, read.label_sets(), strict=True)
    )
    if read.split is not None:
        assert dict(zip(again.ids, again.split, strict=True)) == dict(
            zip(read.ids, read.split, strict=True)
        )


def more_rows(folder, target):
    """Copy a source's files with its rows four times over, each time with other ids and texts."""
    target.mkdir()
    for path in folder.iterdir():
        header, rows = "", path.read_text("utf-8")
        if path.suffix == ".csv":
            header, rows = rows.split("\n", 1)
            header += "\n"
        copies = [varied(rows, number) for number in range(4)]
        (target / path.name).write_text(header + "".join(copies), "utf-8")
    return target


def varied(rows, number):
    for word in ("一", "折叠", "eal", "heat", "CN10", "70", "118568", "069000"):
        rows = rows.replace(word, f"{word}{number}")
    return rows


def test_a_source_with_two_sets_gives_both_in_one_reading(tmp_path, capsys):
    code, out, _ = zlpr(
        capsys, "prepare", "cmu-movie", "--raw", FILES / "cmu-movie", "--out", tmp_path
    )
    assert code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Movie-Name", "Movie-Summary"]
    assert "Movie-Name: 4 samples" in out
    assert "left out: 1 x plot of a film without metadata" in out
    names, plots = load(tmp_path / "Movie-Name"), load(tmp_path / "Movie-Summary")
    part_of = dict(zip(names.ids, names.split, strict=True))
    assert part_of == dict(zip(plots.ids, plots.split, strict=True))


def test_prepare_is_decided_by_its_seed(tmp_path, capsys):
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        zlpr(
            *(capsys, "prepare", "GoEmotions", "--raw", FILES / "goemotions"),
            *("--out", tmp_path / folder, "--seed", seed),
        )
    parts = [dict(zip(d.ids, d.split, strict=True)) for d in (load(tmp_path / f) for f in "abc")]
    assert parts[0] == parts[1]
    assert parts[0] != parts[2]


def test_prepare_takes_named_columns(tmp_path, capsys):
    (tmp_path / "t.csv").write_text(
        "题名,内容,类\n" + "".join(f"梯子{n},可折叠{n}。,E06C1/38\n" for n in range(9)), "utf-8"
    )
    command = ("prepare", "CNIPA-Title", "--raw", tmp_path / "t.csv", "--out", tmp_path / "o")
    named = ("--column", "title=题名", "--column", "abstract=内容", "--column", "ipc=类")
    assert zlpr(capsys, *command, *named)[0] == 0
    assert load(tmp_path / "o").label_names == ("E06C",)
    code, _, err = zlpr(capsys, *command, "--column", "colour=red")
    assert code == 2
    assert "expected one of title, abstract, ipc, id before the sign" in err


def test_prepare_overwrites_only_where_asked(tmp_path, capsys):
    command = ("prepare", "Toxic", "--raw", FILES / "toxic", "--out", tmp_path / "out")
    assert zlpr(capsys, *command)[0] == 0
    code, _, err = zlpr(capsys, *command)
    assert code == 2
    assert "already has" in err
    assert zlpr(capsys, *command, "--overwrite")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("prepare", "Reuters", "--raw", "."), "no data set 'Reuters'"),
        (("prepare", "Toxic", "--raw", "absent"), "absent: no such file or folder"),
        (("download", "Reuters"), "no data set 'Reuters'"),
        (("stats", "demo", "--published", "Reuters"), "no data set 'Reuters'"),
        (("stats", "Toxic", "--plot", "a.png"), "nothing to plot"),
        (("split", "absent.csv", "--out", "x"), "absent.csv: no such file"),
        (("split", "demo", "--out", "x", "--fractions", "1", "1", "1"), "add up to 1"),
        (("split", "demo", "--out", "x", "--method", "group"), "needs groups"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments, problem, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, out, err = zlpr(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert problem in err
    assert err.startswith("zlpr: error: ")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [s.name for s in SOURCES if not s.files])
def test_download_says_where_the_others_are(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    source = next(source for source in SOURCES if source.name == name)
    code, out, _ = zlpr(capsys, "download", name)
    assert code == 1
    assert source.address in out
    assert source.terms in out
    assert source.not_known in out
    assert f"zlpr data prepare {name} --raw" in out
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def mirror(tmp_path):
    """A server on this machine with the GoEmotions fixtures."""
    shutil.copytree(FILES / "goemotions", tmp_path / "served")
    handler = partial(Quiet, directory=str(tmp_path / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format, *args):  # noqa: A002
        pass


def test_download_then_prepare(mirror, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    served = sorted((FILES / "goemotions").iterdir())
    sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in served]
    files = (RemoteFile(f"https://x.invalid/{served[0].name}", sums[0]),)
    files += (RemoteFile(f"https://x.invalid/{served[1].name}"),)
    monkeypatch.setitem(vars(goemotions.RAW), "files", files)
    code, out, _ = zlpr(capsys, "download", "GoEmotions", "--mirror", mirror)
    assert code == 0
    assert "goemotions_1.csv: fetched, verified against its known checksum" in out
    assert "goemotions_2.csv: fetched, no known checksum" in out
    assert "next: zlpr data prepare GoEmotions --raw raw/GoEmotions" in out
    again = as_json(capsys, "download", "GoEmotions", "--mirror", mirror)
    assert [file["sha256"] for file in again["files"]] == sums
    assert all(file["note"].startswith("already here, verified") for file in again["files"])
    assert zlpr(capsys, "prepare", "GoEmotions", "--raw", "raw/GoEmotions")[0] == 0
    assert len(load("data/GoEmotions")) == 5


def test_a_wrong_checksum_fails_in_one_line(mirror, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, _, err = zlpr(capsys, "download", "GoEmotions", "--mirror", mirror)
    assert code == 1
    assert "has not the SHA-256 cac04903" in err
    assert err.count("\n") == 1
    assert not list((tmp_path / "raw" / "GoEmotions").iterdir())


@pytest.mark.parametrize("method", ["random", "stratified"])
def test_split_writes_parts_that_load(method, tmp_path, capsys):
    told = as_json(
        capsys, "split", "demo", "--out", tmp_path / "o", "--method", method, "--seed", "3"
    )
    data = load(tmp_path / "o")
    assert {part: int((data.split == part).sum()) for part in told["sizes"]} == told["sizes"]
    assert sum(told["sizes"].values()) == 6000
    assert set(told["label_distance"]) == {"train", "validation", "test"}
    restored = load_split(load(tmp_path / "o"), tmp_path / "o" / "split.json")
    assert restored.split.tolist() == data.split.tolist()


def test_split_says_which_part_is_too_small_to_rely_on(tmp_path, capsys):
    rows = "".join(f"text number {number},a\n" for number in range(12))
    (tmp_path / "few.csv").write_text(f"text,labels\n{rows}")
    how = (
        "split",
        tmp_path / "few.csv",
        "--fractions",
        "0.8",
        "0",
        "0.2",
        "--method",
        "stratified",
    )
    code, out, err = zlpr(capsys, *how, "--out", tmp_path / "o")
    assert code == 0
    size = next(line.split()[1] for line in out.splitlines() if line.startswith("test"))
    assert f"note: only {size} test samples: figures on fewer than 50 tell little\n" in err
    assert "validation" not in err  # none was wanted
    (tmp_path / "three.csv").write_text("text,labels\none,a\ntwo,a\nthree,a\n")
    _, _, err = zlpr(capsys, "split", tmp_path / "three.csv", "--out", tmp_path / "p")
    assert "note: only 1 validation sample: what is chosen on fewer than 50" in err
    assert "note: only 1 test sample: figures on" in err
    _, _, err = zlpr(capsys, "split", "demo", "--out", tmp_path / "q")
    assert "note" not in err


def test_a_published_test_part_is_not_mixed_in_without_a_word(tmp_path, capsys):
    as_json(capsys, "split", "demo", "--out", tmp_path / "first")
    code, _, err = zlpr(capsys, "split", tmp_path / "first", "--out", tmp_path / "second")
    assert code == 2
    assert "has a split of its own, 6,000 samples" in err
    assert "--mix-parts" in err
    assert not (tmp_path / "second").exists()
    how = ("--out", tmp_path / "second", "--mix-parts", "--seed", "1")
    told = as_json(capsys, "split", tmp_path / "first", *how)
    assert sum(told["sizes"].values()) == 6000


def test_parts_that_are_mixed_keep_what_only_the_later_ones_have(tmp_path, capsys):
    folder = tmp_path / "parts"
    folder.mkdir()
    rows = {"train": "{row},1,Rome,a", "test": "{row},{row},Oslo,b"}
    for part, form in rows.items():
        lines = [form.format(row=row) for row in range(40)]
        (folder / f"{part}.csv").write_text("\n".join(["nr,age,city,labels", *lines]) + "\n")
    with (folder / "test.csv").open("a") as file:
        file.write("40,,Bern,b\n")
    asked = ["data", "split", str(folder), "--mix-parts", "--features-columns", "age:city"]
    out = tmp_path / "out"
    assert main([*asked, "--id", "nr", "--out", str(out)]) == 0
    assert "did not have" not in capsys.readouterr().err
    written = [line for file in out.glob("*.csv") for line in file.read_text().splitlines()]
    assert sum("Oslo" in line for line in written) == sum("Rome" in line for line in written) == 40
    assert [line for line in written if line.startswith("40,")] == ["40,,Bern,b"]


def test_a_column_that_is_blank_in_one_part_is_mixed_as_the_numbers_of_the_others(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    for part, age in {"train": "{row}", "test": ""}.items():
        lines = [f"{row},{age.format(row=row)},{'ab'[row % 2]}" for row in range(40)]
        (folder / f"{part}.csv").write_text("\n".join(["size,age,labels", *lines]) + "\n")
    assert main(["data", "split", str(folder), "--mix-parts", "--out", str(tmp_path / "out")]) == 0
    data = load(tmp_path / "out")
    assert data.columns.features.numbers == ("size", "age")
    assert np.isnan(data.features[:, 1]).sum() == 40


def test_parts_of_other_kinds_are_not_mixed(tmp_path, capsys):
    (tmp_path / "train.csv").write_text("age,city,labels\n1,Rome,a\n2,Bern,b\n")
    (tmp_path / "test.csv").write_text("age,city,labels\nold,Rome,a\nyoung,Bern,b\n")
    asked = ["data", "split", str(tmp_path), "--mix-parts", "--features-columns", "age", "city"]
    assert main([*asked, "--out", str(tmp_path / "out")]) == 2
    assert "'age' holds numbers in one part and categories" in capsys.readouterr().err


def test_a_part_that_was_split_off_can_be_split_again_with_the_same_seed(tmp_path, capsys):
    as_json(capsys, "split", "demo", "--out", tmp_path / "first")
    path = tmp_path / "first" / "train.jsonl"
    sizes = as_json(capsys, "split", path, "--out", tmp_path / "second")["sizes"]
    assert min(sizes.values()) > 300


def test_what_was_read_is_printed(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("title,plot,tags,year\nThe Thing,It hides in the ice,a,1982\n")
    said = (
        "read {} as csv: text from 'plot' (not from 'title'), labels from 'tags'; not read: 'year'"
    )
    for command in (("stats",), ("split", "--out", tmp_path / "o")):
        _, out, _ = zlpr(capsys, command[0], tmp_path / "a.csv", *command[1:])
        assert out.startswith(said.format(tmp_path / "a.csv"))
    _, out, err = zlpr(capsys, "stats", tmp_path / "a.csv", "--json")
    assert "text from" not in out
    assert err.startswith("read ")


def test_data_without_any_label_is_refused(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("text,labels\nx,\ny,\n")
    code, _, err = zlpr(capsys, "stats", tmp_path / "a.csv")
    assert code == 2
    assert "none of 2 samples has a label (csv: text from 'text', labels from 'labels')" in err
    assert "--labels …" in err


def test_split_keeps_groups_together(tmp_path, capsys):
    rows = "".join(f"text {n},a,g{n % 20}\n" for n in range(200))
    (tmp_path / "a.csv").write_text("text,labels,who\n" + rows)
    how = ("--group", "who", "--out", tmp_path / "o")
    code, _, err = zlpr(capsys, "split", tmp_path / "a.csv", *how, "--method", "stratified")
    assert code == 2
    assert "has groups, which a stratified split does not keep together" in err
    code, out, _ = zlpr(capsys, "split", tmp_path / "a.csv", *how)
    assert code == 0
    assert "mean label distance" in out
    data = load(tmp_path / "o", group="group")
    homes = {group: set() for group in data.groups}
    for group, part in zip(data.groups, data.split, strict=True):
        homes[group].add(part)
    assert all(len(parts) == 1 for parts in homes.values())


def test_split_takes_rows_without_a_group_one_by_one_and_says_so(tmp_path, capsys, caplog):
    rows = "".join(f"text {n},a,{'' if n < 100 else f'g{n % 20}'}\n" for n in range(300))
    (tmp_path / "a.csv").write_text("text,labels,who\n" + rows)
    how = ("--group", "who", "--out", tmp_path / "o")
    code, _, _ = zlpr(capsys, "split", tmp_path / "a.csv", *how)
    assert code == 0
    assert "100 of 300 rows have no group" in caplog.text
    data = load(tmp_path / "o", group="group")
    parts = {part for group, part in zip(data.groups, data.split, strict=True) if not group}
    assert parts == {"train", "validation", "test"}

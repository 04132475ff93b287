import argparse
import json
import re
import subprocess
import sys

import pytest

from tests.compare import toy
from zlpr._errors import UserError
from zlpr.cli import compare
from zlpr.cli.main import main
from zlpr.compare.faults import check_data
from zlpr.compare.grid import cells, settings_for
from zlpr.metrics.table import in_words

pytestmark = pytest.mark.usefixtures("quick_workers")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return toy.write_file(tmp_path_factory.mktemp("data") / "toy.csv")


@pytest.fixture(scope="module")
def compared(data, tmp_path_factory):
    """A folder with a comparison that the command made."""
    out = tmp_path_factory.mktemp("compared")
    assert main(arguments(data, out)) == 0
    return out


def arguments(data, out, *more):
    losses = ["--losses", "zlpr:pos_weight=1|2.7", "bce", "lsep"]
    return [
        *("compare", "--data", str(data), "--out", str(out), *losses, "--seeds", "2"),
        *("--set", "regularisation=1.0", *more),
    ]


def test_data_of_the_command_line_starts_from_the_root_too(data, capsys):
    command = ["compare", "--data", data.name, "demo", "--data-root", str(data.parent), "--dry-run"]
    assert main([*command, "--json"]) == 0
    assert [entry["found"] for entry in json.loads(capsys.readouterr().out)["data"]] == [True, True]


def test_started_again_it_ends_with_the_tables_and_the_reports_path(data, compared, capsys):
    assert main(arguments(data, compared)) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0] == "toy, linear: at each loss's own bound, %"
    assert lines[-1] == f"report: {compared / 'report.html'}"
    assert in_words("sklearn") in lines
    assert "6 runs asked for, with a record of each already" in captured.err
    assert (compared / "report.html").is_file()


def test_json_is_the_only_thing_on_standard_output(data, compared, capsys):
    assert main(arguments(data, compared, "--json")) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["report"] == str(compared / "report.html")
    figures = {(f["loss"], f["metric"], f["decoding"]): f for f in printed["figures"]}
    assert ("lsep", "subset_accuracy", "own") not in figures
    entry = figures["bce", "average_precision", None]
    assert entry["seeds"] == 2
    assert 0 < entry["mean"] <= 1


def test_every_mode_of_the_papers_introduction_is_planned_by_one_command(data, capsys):
    models = ["--models", "linear", "powerset", "chain", "knn", "mmp"]
    losses = ["--losses", "zlpr", "bce", "ranking", "bp_mll", "lsep"]
    command = ["compare", "--data", str(data), *models, *losses, "--seeds", "1"]
    assert main([*command, "--dry-run", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["missing"] == []
    assert plan["runs"] == 5 + 4  # the linear model with each loss, the others without one


def test_a_changed_grid_counts_only_its_own_records_and_says_so(data, compared, capsys):
    code = main(arguments(data, compared, "--minutes", "0", "--split", "stratified"))
    assert code == 2
    assert "--minutes 0: no run was started, and there are none yet" in capsys.readouterr().err
    assert main([*arguments(data, compared), "--seeds", "1"]) == 0
    assert "3 records made with other settings not counted" in capsys.readouterr().err


@pytest.mark.parametrize("minutes", ["-1", "nan"])
def test_a_time_that_is_none_is_refused(data, tmp_path, capsys, minutes):
    assert main(arguments(data, tmp_path / "out", "--minutes", minutes)) == 2
    assert f"--minutes {minutes}: expected a number of at least 0" in capsys.readouterr().err


def test_a_file_of_the_users_where_the_report_goes_is_found_before_the_runs(data, tmp_path, capsys):
    (tmp_path / "report.md").write_text("my own words")
    assert main(arguments(data, tmp_path)) == 2
    assert "report.md: is there already" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_two_comparisons_do_not_share_a_folder(data, compared, capsys):
    grid = (compared / "grid.json").read_text()
    hold = "import sys; from pathlib import Path; from zlpr._atomic import locked\n"
    hold += "with locked(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    other = subprocess.Popen(
        [sys.executable, "-c", hold, str(compared)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with other:
        other.stdout.readline()
        assert main([*arguments(data, compared), "--losses", "focal"]) == 2
        assert f"{compared}: another process is writing to it" in capsys.readouterr().err
        other.stdin.close()
    assert (compared / "grid.json").read_text() == grid


def test_changed_label_names_are_not_reported_by_old_records(data, tmp_path, capsys):
    names = tmp_path / "names.txt"
    names.write_text("birds\nboats\nbread\nclocks\n")
    asked = [*arguments(data, tmp_path / "out", "--label-names", str(names)), "--losses", "zlpr"]
    assert main(asked) == 0
    names.write_text("birds\nboats\nbread\nclocks\nspoons\n")
    assert main(asked) == 2
    assert "holds a comparison on toy with other content" in capsys.readouterr().err


def test_report_makes_every_form_from_the_records_alone(compared, tmp_path, capsys):
    for record in (compared / "runs").glob("*.json"):
        (tmp_path / record.name).write_bytes(record.read_bytes())
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "page")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"report: {tmp_path / 'page/report.html'}"
    assert {path.suffix for path in (tmp_path / "page").iterdir()} == {
        ".html",
        ".md",
        ".tex",
        ".csv",
    }
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "page"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"]["csv"].endswith("report.csv")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--losses", "zlpt", "bce:gama=1"], "2 faults in the grid:"),
        (["--data", "nowhere.csv"], "nowhere.csv: no such file or folder"),
        (["--grid", "nowhere.toml"], "nowhere.toml: no such grid file"),
        (["--grid", "a.toml", "--preset", "demo"], "give --grid or --preset, not both"),
        (
            ["--models", "tree"],
            "no model 'tree'; there are: linear, shortlist, embed:NAME_OR_PATH, embed-shortlist:",
        ),
        (["--seeds", "0"], "--seeds 0: expected a number above 0"),
        (["--workers", "0"], "--workers 0: expected a number above 0"),
        (["--set", "epochs"], "--set 'epochs': expected NAME=VALUE"),
        (
            ["--set", "linear=3"],
            "--set linear: a kind of model; its settings are linear.NAME=VALUE",
        ),
        (["--set", "epochs=3", "--set", "epochs=4"], "--set epochs: given twice"),
        (["--choose", "beta=1,2"], "--choose beta: no loss of the comparison has such a parameter"),
        (["--max-samples", "5"], "--max-samples 5: expected at least 10"),
    ],
)
def test_mistakes_get_clear_words_and_run_nothing(tmp_path, monkeypatch, capsys, flags, message):
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "--out", "out", *flags]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
    assert not (tmp_path / "out").exists()


def test_the_papers_data_is_looked_for_under_its_names(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(  # they are on a hub
        "zlpr.training.transformer.TransformerTrainer.faults", lambda self, model: []
    )
    assert main(["compare", "--preset", "paper"]) == 2
    errors = capsys.readouterr().err
    assert "11 faults in the grid:" in errors
    assert "data CNIPA-Title: data/CNIPA-Title: no such file or folder" in errors


def asked(monkeypatch, tmp_path, *flags):
    """The grid that the flags come to, of the paper's preset."""
    made = []

    def stop(grid, folder, command, **options):
        made.append(grid)
        raise UserError("far enough")

    monkeypatch.setattr("zlpr.compare.plan", stop)
    assert main(["compare", "--preset", "paper", "--out", str(tmp_path), *flags]) == 2
    return made[0]


def test_losses_asked_for_narrow_those_of_each_data_set(monkeypatch, tmp_path, capsys):
    grid = asked(monkeypatch, tmp_path, "--losses", "zlpr", "bce")
    tried = {entry.losses or tuple(x.label for x in grid.losses) for entry in grid.data}
    assert tried == {("zlpr", "bce")}
    assert len(grid.data) == 11
    assert "left out" not in capsys.readouterr().err

    grid = asked(monkeypatch, tmp_path, "--losses", "lsep")
    assert [entry.title for entry in grid.data] == ["CNIPA-Title", "CNIPA-Abstract", "Toutiao"]
    assert "none of these losses there: USPTO-Title, USPTO-Abst" in capsys.readouterr().err

    grid = asked(monkeypatch, tmp_path, "--losses", "lsep", "asymmetric")
    assert {entry.losses for entry in grid.data} == {(), ("asymmetric",)}


def test_models_and_split_asked_for_hold_for_every_data_set(monkeypatch, tmp_path):
    grid = asked(monkeypatch, tmp_path, "--models", "linear", "--split", "stratified")
    assert {entry.models or grid.models for entry in grid.data} == {("linear",)}
    assert {entry.split or grid.split for entry in grid.data} == {"stratified"}


def test_a_flag_that_comes_twice_adds_to_what_it_said_before(monkeypatch, tmp_path):
    losses = ["--losses", "zlpr", "--losses", "dice2", "--choose", "pos_weight=1,2"]
    data = ["--data", "a.csv", "--data", "b.csv", "--models", "linear", "--models", "knn"]
    chosen = [
        "--choose",
        "smoothing=1,2",
        "--set",
        "metric=micro_f1",
        "--set",
        "linear.refit=false",
    ]
    grid = asked(monkeypatch, tmp_path, *losses, *data, *chosen)
    labels = ["zlpr", "zlpr:pos_weight=1|2", "dice2", "dice2:smoothing=1|2"]
    assert [loss.label for loss in grid.losses] == labels
    assert [entry.path for entry in grid.data] == ["a.csv", "b.csv"]
    assert grid.models == ("linear", "knn")
    assert {**grid.training, "preset": 0} == {
        "empty": "paper",
        "preset": 0,
        "metric": "micro_f1",
        "linear": {"refit": False},
    }


def test_settings_asked_for_hold_over_the_grids_and_leave_its_others(monkeypatch, tmp_path):
    grid = tmp_path / "grid.toml"
    grid.write_text(
        'data = ["demo"]\nlosses = ["zlpr"]\n'
        '[training]\nmetric = "macro_f1"\n'
        '[training.linear]\nregularisation = 0.3\nrefit = false\nempty = "paper"\n'
    )
    made = []

    def stop(grid, folder, command, **options):
        made.append(grid)
        raise UserError("far enough")

    monkeypatch.setattr("zlpr.compare.plan", stop)
    flags = ["--set", "linear.refit=true", "metric=micro_f1", "--empty", "sklearn"]
    assert main(["compare", "--grid", str(grid), "--out", str(tmp_path), *flags]) == 2
    assert settings_for(made[0].training, "linear") == {
        "metric": "micro_f1",
        "empty": "sklearn",
        "regularisation": 0.3,
        "refit": True,
    }


def test_what_is_chosen_and_how_much_is_drawn_may_be_asked_for(monkeypatch, tmp_path):
    flags = ["--losses", "zlpr", "dice2", "--choose", "pos_weight=1,2", "--per-metric"]
    grid = asked(monkeypatch, tmp_path, *flags, "--max-samples", "50")
    assert [loss.label for loss in grid.losses] == ["zlpr", "zlpr:pos_weight=1|2", "dice2"]
    assert grid.losses[1].choose == {"pos_weight": (1, 2)}
    assert (grid.per_metric, grid.max_samples) == (True, 50)


def test_losses_that_no_data_set_tries_are_said(tmp_path, capsys):
    (tmp_path / "grid.toml").write_text(
        'losses = ["zlpr", "bce"]\ndata = [{ path = "demo", losses = ["bce"] }]\n'
    )
    flags = ["--grid", str(tmp_path / "grid.toml"), "--losses", "zlpr"]
    assert main(["compare", "--out", str(tmp_path / "out"), *flags]) == 2
    assert "no data set of the grid tries any of them" in capsys.readouterr().err


def test_report_of_nothing_is_a_mistake(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert "no run records there; make some with zlpr compare" in capsys.readouterr().err


def test_data_is_read_as_the_flags_say(tmp_path, monkeypatch, capsys):
    made = []

    def stop(grid, folder, command, **options):
        made.append(grid)
        raise UserError("far enough")

    monkeypatch.setattr("zlpr.compare.plan", stop)
    flags = ["--text", "body", "--labels", "0", "--labels", "1", "--no-header"]
    assert main(["compare", "--data", "a.csv", "b.csv", *flags]) == 2
    expected = {"text": "body", "labels": ["0", "1"], "header": False}  # names or positions
    assert [entry.read for entry in made[0].data] == [expected, expected]
    assert main(["compare", "--text", "body"]) == 2
    assert "--text goes with --data" in capsys.readouterr().err


def test_what_was_read_is_said_and_a_split_that_is_redrawn_too(tmp_path, capsys):
    for part in ("train", "test"):
        rows = [
            f"{part} {i} {'red' if i % 2 else 'blue'},{'a' if i % 2 else 'b'}" for i in range(60)
        ]
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / f"{part}.csv").write_text("body,tags\n" + "\n".join(rows) + "\n")
    command = ["compare", "--data", str(tmp_path / "data"), "--losses", "zlpr", "--seeds", "1"]
    assert main([*command, "--out", str(tmp_path / "out"), "--workers", "1"]) == 0
    said = capsys.readouterr().err
    assert "text from 'body', labels from 'tags'" in said
    assert re.search(r"only \d+ validation samples: what is chosen on fewer than 50", said)
    assert re.search(r"only \d+ test samples: figures on fewer than 50 tell little", said)
    assert "comes divided, and each seed divides all of it anew" in said
    assert main([*command, "--out", str(tmp_path / "kept"), "--split", "published"]) == 0
    assert "comes divided" not in capsys.readouterr().err


def test_groups_that_are_named_are_kept_together_unless_a_split_is_named(tmp_path):
    parser = argparse.ArgumentParser()
    compare.add_arguments(parser)
    rows = [f"{word} thing {i},{word},u{i % 40}" for i in range(200) for word in ("a", "b")]
    (tmp_path / "g.csv").write_text("text,labels,user\n" + "\n".join(rows))

    def check(*words):
        args = parser.parse_args(["--data", str(tmp_path / "g.csv"), *words])
        grid = compare._grid(args)
        return {cell.settings.split for cell in cells(grid)}, check_data(grid, grid.data).faults

    assert check("--group", "user") == ({"group"}, ())
    assert check() == ({"random"}, ())
    splits, faults = check("--group", "user", "--split", "stratified")
    assert splits == {"stratified"}
    assert "has groups, which a stratified split does not keep together" in faults[0]


def test_a_table_is_compared_on_by_its_named_columns(tmp_path, capsys):
    rows = [f"{i % 50},{'rg'[i % 2]},{int(i % 50 > 25)},{i % 2}" for i in range(300)]
    (tmp_path / "a.csv").write_text("\n".join(["size,colour,large,green", *rows]) + "\n")
    command = ["compare", "--data", str(tmp_path / "a.csv"), "--out", str(tmp_path / "out")]
    columns = ["--features-columns", "size", "colour", "--losses", "zlpr", "--seeds", "1"]
    assert main([*command, *columns, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    values = [f["mean"] for f in figures if f["metric"] == "micro_f1" and f["decoding"] == "own"]
    assert values[0] > 0.9


def test_dry_run_names_flags_as_the_command_spells_them(tmp_path, capsys):
    data = tmp_path / "notes.csv"
    data.write_text("text,l1,l2\na,9,0\nb,1,0\nc,0,1\nd,1,1\n", encoding="utf-8")
    assert main(["compare", "--data", str(data), "--losses", "zlpr", "--dry-run"]) == 1
    assert "list those that are with --labels …" in capsys.readouterr().out

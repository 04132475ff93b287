import tomllib
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from zlpr._errors import UserError
from zlpr.compare.grid import (
    DataSpec,
    Grid,
    cells,
    fingerprint,
    parse_grid,
    parse_loss,
    preset,
    read_grid,
    with_choice,
    with_seeds,
)
from zlpr.compare.records import LossSpec
from zlpr.data import load, published
from zlpr.losses import registry

FILE = """
seeds = [4, 7]
split = "stratified"
losses = [
  "bce",
  { name = "zlpr", label = "margin", choose = { pos_weight = [1.0, 2.7] } },
  { name = "focal", params = { gamma = 1.0 } },
]
data = ["demo", { path = "reviews.csv", name = "R", read = { text = "body" }, split = "published" }]

[training]
metric = "micro_f1"
"""


def toy(**changes) -> Grid:
    made = {"data": (DataSpec("demo"),), "models": ("linear",), "seeds": (0,)}
    return Grid(**{**made, "losses": (LossSpec("zlpr", "zlpr"),), **changes})


def test_a_file_says_what_the_flags_say(tmp_path):
    (tmp_path / "grid.toml").write_text(FILE)
    grid = read_grid(tmp_path / "grid.toml")
    assert grid.seeds == (4, 7)
    assert grid.models == ("linear",)
    assert [loss.label for loss in grid.losses] == ["bce", "margin", "focal"]
    assert grid.losses[1].choose == {"pos_weight": (1.0, 2.7)}
    assert grid.data[1].path == str(tmp_path / "reviews.csv")
    assert grid.data[1].split == "published"
    assert (
        read_grid(tmp_path / "grid.toml", tmp_path / "else")
        .data[1]
        .path.endswith("else/reviews.csv")
    )
    assert grid.training == {"metric": "micro_f1"}


def test_files_that_reading_names_stand_beside_the_grid_too(tmp_path, monkeypatch):
    place = tmp_path / "grids"
    place.mkdir()
    (place / "data.csv").write_text("text,labels\nx,0\ny,1\n")
    (place / "names.txt").write_text("red\nblue\n")
    entry = '{ path = "data.csv", read = { label_names = "names.txt" } }'
    (place / "grid.toml").write_text(f'losses = ["zlpr"]\ndata = [{entry}]\n')
    (made,) = cells(read_grid(place / "grid.toml"))
    assert load(made.path, **made.read).label_names == ("red", "blue")
    monkeypatch.chdir(place)
    (here,) = cells(read_grid(Path("grid.toml")))
    assert load(here.path, **here.read).label_names == ("red", "blue")
    assert here.settings.hash() == made.settings.hash()  # wherever the files are
    (place / "names.txt").write_text("red\ngreen\n")
    (other,) = cells(read_grid(Path("grid.toml")))
    assert other.settings.hash() != made.settings.hash()


def test_every_misfit_of_a_file_is_named_at_once():
    plain = {"sedes": 3, "seeds": 0, "losses": [{"nome": "zlpr"}], "split": "halves"}
    with pytest.raises(UserError) as raised:
        parse_grid(plain, "grid.toml")
    message = str(raised.value)
    for part in ("sedes: no such entry", "data: missing", "seeds: 0", "losses.nome", "'halves'"):
        assert part in message


@pytest.mark.parametrize("seeds", [[-1], [2**32], [], 0, True])
def test_seeds_that_cannot_be_drawn_by_are_refused(seeds):
    with pytest.raises(UserError, match="a list of seeds from 0 to 4294967295 was expected"):
        parse_grid({"seeds": seeds, "data": ["demo"], "losses": ["zlpr"]})


@pytest.mark.parametrize("text", ["losses = [", "\xff\xfe"])
def test_what_is_not_toml_is_said(tmp_path, text):
    (tmp_path / "grid.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(UserError, match=r"grid\.toml: not a TOML file"):
        read_grid(tmp_path / "grid.toml")
    with pytest.raises(UserError, match="no such grid file"):
        read_grid(tmp_path / "other.toml")


def test_losses_on_the_command_line():
    assert parse_loss("zlpr") == LossSpec("zlpr", "zlpr")
    made = parse_loss("focal:gamma=1.5,label_weight=none")
    assert made.params == {"gamma": 1.5, "label_weight": None}
    assert parse_loss("zlpr:pos_weight=[1,2],threshold=0.5").params == {
        "pos_weight": [1, 2],
        "threshold": 0.5,
    }
    assert parse_loss("warp:log=False").params == {"log": False}
    assert parse_loss("zlpr:pos_weight=1|1.5|2").choose == {"pos_weight": (1, 1.5, 2)}
    with pytest.raises(UserError, match="loss 'focal:gamma': 'gamma': expected NAME=VALUE"):
        parse_loss("focal:gamma")
    with pytest.raises(UserError, match="gamma given twice"):
        parse_loss("focal:gamma=1,gamma=2|3")


def test_a_parameter_to_choose_stands_beside_every_loss_that_has_it():
    grid = with_choice(
        toy(losses=(parse_loss("zlpr"), parse_loss("dice2"))), {"pos_weight": (1, 2)}
    )
    assert [loss.label for loss in grid.losses] == ["zlpr", "zlpr:pos_weight=1|2", "dice2"]
    assert grid.losses[1].choose == {"pos_weight": (1, 2)}
    with pytest.raises(UserError, match="--choose beta: no loss of the comparison has such a"):
        with_choice(toy(), {"beta": (1, 2)})
    given = toy(losses=(parse_loss("zlpr:pos_weight=3"),))
    with pytest.raises(UserError, match="a parameter that zlpr:pos_weight=3 gives as well"):
        with_choice(given, {"pos_weight": (1, 2)})


def test_data_with_losses_of_its_own_gets_their_chosen_versions_and_no_others():
    data = (DataSpec("demo", losses=("bce", "dice2")), DataSpec("demo", name="all"))
    losses = tuple(map(parse_loss, ("zlpr", "bce", "dice2")))
    grid = with_choice(toy(losses=losses, data=data), {"pos_weight": (1, 2)})
    assert grid.data[0].losses == ("bce", "bce:pos_weight=1|2", "dice2")
    assert grid.data[1].losses == ()


def test_a_grid_says_how_figures_are_chosen_and_how_much_data_is_taken():
    plain = {"data": ["demo"], "losses": ["zlpr"]}
    made = cells(parse_grid({**plain, "per_metric": True, "max_samples": 50}))[0].settings
    assert (made.per_metric, made.max_samples) == (True, 50)
    usual = cells(parse_grid(plain))[0].settings
    assert (usual.per_metric, usual.max_samples) == (False, 0)
    with pytest.raises(UserError, match="max_samples: 9 where at least 10 was expected"):
        parse_grid({**plain, "max_samples": 9})


def test_data_may_have_seeds_of_its_own():
    grid = parse_grid({"data": [{"path": "demo", "seeds": 2}], "losses": ["zlpr"], "seeds": 3})
    assert [cell.settings.seed for cell in cells(grid)] == [0, 1]
    assert [cell.settings.seed for cell in cells(with_seeds(grid, range(4)))] == [0, 1, 2, 3]


def test_cells_of_one_split_stand_together():
    grid = toy(
        losses=(LossSpec("zlpr", "zlpr"), LossSpec("bce", "bce")), seeds=(0, 1), models=("linear",)
    )
    made = cells(grid)
    assert [(cell.settings.seed, cell.settings.loss.label) for cell in made] == [
        (0, "zlpr"),
        (0, "bce"),
        (1, "zlpr"),
        (1, "bce"),
    ]
    assert len({cell.settings.hash() for cell in made}) == 4


def test_data_may_have_models_and_a_split_of_its_own():
    data = (DataSpec("demo", models=("hf:x", "hf:y"), split="published"),)
    assert [(c.settings.model, c.settings.split) for c in cells(toy(data=data))] == [
        ("hf:x", "published"),
        ("hf:y", "published"),
    ]
    two = (LossSpec("zlpr", "zlpr"), LossSpec("bce", "bce"))
    made = cells(toy(data=(DataSpec("demo", losses=("bce",)),), losses=two))
    assert [cell.settings.loss.label for cell in made] == ["bce"]


def test_edited_data_is_new_data_and_moved_data_is_not(tmp_path):
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_text("text,labels\nx,y\n")
    second.write_text("text,labels\nx,z\n")
    assert fingerprint(str(first)) != fingerprint(str(second))
    before = fingerprint(str(first))
    moved = first.rename(tmp_path / "c.csv")
    assert fingerprint(str(moved)) == before
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "train.csv").write_text("x")
    once = fingerprint(str(folder))
    (folder / "test.csv").write_text("x")
    assert fingerprint(str(folder)) != once


@pytest.mark.parametrize("named", ["beside", "labels", "label_names"])
def test_other_labels_of_the_same_samples_are_other_data(tmp_path, named):
    data, names = tmp_path / "toy.arff", tmp_path / ("toy.xml" if named == "beside" else "its.xml")
    data.write_text("@relation toy\n")
    read = {} if named == "beside" else {named: str(names)}
    names.write_text("red\nblue\n")
    before = fingerprint(str(data), read)
    assert fingerprint(str(data), read) == before
    names.write_text("red\n")
    assert fingerprint(str(data), read) != before
    names.unlink()
    assert fingerprint(str(data), read) != before


def test_an_encoder_with_other_weights_is_another_model(tmp_path):
    folder = tmp_path / "encoder"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"first")
    grid = toy(models=("linear", f"hf:{folder}"))
    before = {cell.settings.model: cell.settings.hash() for cell in cells(grid)}
    assert before == {cell.settings.model: cell.settings.hash() for cell in cells(grid)}
    (folder / "model.safetensors").write_bytes(b"other")
    after = {cell.settings.model: cell.settings.hash() for cell in cells(grid)}
    assert after["linear"] == before["linear"]
    assert after[f"hf:{folder}"] != before[f"hf:{folder}"]


def test_a_demo_corpus_of_other_sentences_is_other_data(tmp_path, monkeypatch):
    before = fingerprint("demo")
    assert before == fingerprint("demo")
    for name in ("demo.py", "demo.txt"):
        (tmp_path / name).write_bytes(resources.files("zlpr.data").joinpath(name).read_bytes())
    monkeypatch.setattr("zlpr.compare.grid.resources.files", lambda package: tmp_path)
    assert fingerprint("demo") == before
    with (tmp_path / "demo.txt").open("a") as stream:
        stream.write("One more sentence.\n")
    assert fingerprint("demo") != before


def test_the_demo_preset_has_every_loss_of_the_paper_and_five_seeds():
    grid = preset("demo")
    in_paper = {name for name in registry.available() if registry.info(name).in_paper}
    assert {loss.name for loss in grid.losses} == in_paper - {"cross_entropy"}
    assert {loss.name for loss in grid.losses} == {
        *published.DECIDING_LOSSES,
        *published.RANKING_LOSSES,
    }
    assert grid.seeds == (0, 1, 2, 3, 4)
    assert [entry.path for entry in grid.data] == ["demo"]


def test_the_paper_preset_is_its_22_settings():
    grid = preset("paper")
    assert {published.set_name(entry.title) for entry in grid.data} == set(published.SETS)
    assert sum(len(entry.models or grid.models) for entry in grid.data) == 22
    for entry in grid.data:
        tried = published.losses(entry.title, "bert")
        assert set(entry.losses or [loss.label for loss in grid.losses]) == set(tried)
    assert grid.seeds == (0,)
    assert grid.training["preset"] == "paper"
    chinese = {entry.title for entry in grid.data if any("chinese" in m for m in entry.models)}
    assert chinese == {"CNIPA-Title", "CNIPA-Abstract", "Toutiao"}


def test_an_unknown_preset_is_said():
    with pytest.raises(UserError, match="no preset 'papers'; there are demo, paper"):
        preset("papers")


def test_the_documented_grid_is_a_grid():
    from zlpr.compare import grid as module

    lines = module.__doc__.partition("A grid is a TOML file:")[2]
    assert parse_grid(tomllib.loads(lines)).seeds == (0, 1, 2)


def test_empty_cases_count_as_in_scikit_learn_but_for_the_papers_grid():
    demo = preset("demo")
    assert {cell.settings.empty for cell in cells(demo)} == {"sklearn"}
    asked = replace(demo, training={"empty": "paper"})
    assert {cell.settings.empty for cell in cells(asked)} == {"paper"}
    assert preset("paper").training["empty"] == "paper"


def test_the_demo_has_seeds_enough_to_show_a_lead():
    """Of three seeds the smallest lead that shows is several points wide."""
    assert len(preset("demo").seeds) >= 5

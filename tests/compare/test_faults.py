import logging
import shutil

import numpy as np
import pytest

from tests import tiny
from tests.compare import toy
from zlpr._errors import UserError
from zlpr.compare.experiment import plan
from zlpr.compare.faults import check_data, find_faults
from zlpr.compare.folder import RunFolder
from zlpr.compare.grid import DataSpec, Grid, parse_loss
from zlpr.compare.records import LossSpec


def small(**changes) -> Grid:
    made = {"data": (DataSpec("demo"),), "models": ("linear",), "seeds": (0,)}
    return Grid(**{**made, "losses": (LossSpec("zlpr", "zlpr"),), **changes})


def test_all_faults_are_named_at_once(tmp_path):
    grid = small(
        data=(
            DataSpec(str(tmp_path / "none.csv")),
            DataSpec("demo", read={"colour": 1}),
            DataSpec("demo", losses=("bze",)),
            DataSpec("demo", "twice", models=("linear", "linear"), seeds=(3, 3)),
        ),
        models=("linear", "tree", "tree", f"hf:{tmp_path}"),
        losses=(
            LossSpec("a", "zlpt"),
            LossSpec("b", "focal", {"gama": 1}),
            LossSpec("c", "warp", choose={"rank_weight": ("identity", "harmonic")}),
            LossSpec("d", "zlpr", choose={"pos_weight": (2.0,)}, choose_by="beauty"),
        ),
        seeds=(1, 1),
        training={"epochs": -1, "epocs": 3, "metric": "speed", "seed": 3},
    )
    faults = "\n".join(find_faults(grid))
    for part in (
        "two data sets are called 'demo'",
        "two seeds are called '1'",
        "two models are called 'tree'",
        "data twice: two models are called 'linear'",
        "data twice: two seeds are called '3'",
        f"{tmp_path}/none.csv: no such file or folder",
        "data demo: no reading option 'colour'",
        "data demo: the grid has no loss 'bze'",
        "loss a: no loss 'zlpt'; did you mean 'zlpr'? There are: zlpr, ",
        "loss b: focal has no parameter 'gama'",
        "loss c: choose.rank_weight takes numbers",
        "loss d: choose.pos_weight needs at least two candidates",
        "loss d: choose_by names no metric: 'beauty'",
        "no model 'tree'; there are: linear, shortlist, embed:NAME_OR_PATH, embed-shortlist:",
        f"model 'hf:{tmp_path}': cannot load the model '{tmp_path}': ",
        "training: model linear has no setting 'epocs'; did you mean 'epochs'? There are: model, ",
        "training: 'seed' belongs to the grid itself",
        "training: metric: no metric 'speed'; there are: subset_accuracy, ",
        "training: epochs -1: expected a number above 0",
    ):
        assert part in faults
    assert find_faults(small()) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("zlpr:pos_weight=abc", "pos_weight = 'abc': pos_weight must be a number, got str"),
        ("zlpr:pos_weight=-1", "pos_weight = -1: pos_weight must be at least 0, got -1"),
        ("zlpr:pos_weight=1|-2", "pos_weight = -2: pos_weight must be at least 0, got -2"),
        ("focal:gamma=-3", "gamma = -3: gamma must be at least 0, got -3"),
        ("class_balanced:beta=2", "beta = 2: beta must be below 1, got 2"),
        ("zlpr:reduction=sum", "zlpr has no parameter 'reduction'"),
    ],
)
def test_values_that_a_loss_does_not_take_are_faults(text, expected):
    assert find_faults(small(losses=(parse_loss(text),))) == [f"loss {text}: {expected}"]


def test_values_that_a_loss_takes_are_none():
    losses = (
        parse_loss("zlpr:pos_weight=1|2.7"),
        LossSpec("weights", "bce", {"label_weight": [1.0, 2.0, 3.0]}),
        LossSpec("balanced", "distribution_balanced"),
    )
    assert find_faults(small(losses=losses)) == []


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("epochs", 2.5, "epochs: 2.5 where integer was expected"),
        ("epochs", "three", "epochs: 'three' where integer was expected"),
        ("learning_rate", "fast", "learning_rate: 'fast' where number was expected"),
        ("metric", ["micro_f1"], "metric: ['micro_f1'] where string was expected"),
        ("features", {"colour": 1}, "features.colour: no such entry is known; there are analyzer,"),
        ("features", {"min_count": 0}, "min_count 0: expected at least 1"),
        ("features", {"word_ngrams": [1]}, "features.word_ngrams: [1] where a list of 2 was"),
    ],
)
def test_training_settings_of_the_wrong_kind_are_faults(name, value, expected):
    [fault] = find_faults(small(training={name: value}))
    assert fault.startswith(f"training: {expected}")


def test_training_settings_of_the_right_kind_are_none(tmp_path):
    settings = {"features": {"word_ngrams": [1, 2]}, "epochs": 3, "learning_rate": 1}
    assert find_faults(small(training=settings)) == []
    models = ("linear", f"hf:{tiny.bert(tmp_path / 'encoder')}")
    own = {"linear": {"regularisation": 1}, "hf": {"report_to": "tensorboard", "epochs": 2}}
    assert find_faults(small(models=models, training={"seed": 0, **own})) == [
        "training: 'seed' belongs to the grid itself"
    ]
    assert find_faults(small(models=models, training={"label_smoothing": 0.1, **own})) == []


def test_a_floor_that_one_rule_alone_would_have_is_refused():
    [fault] = find_faults(small(training={"min_probability": 0.9}))
    expected = "training: 'min_probability': a comparison has a rule for each metric, and none has"
    assert fault.startswith(expected)
    assert find_faults(small(training={"min_probability": None})) == []


def test_decisions_that_need_more_labels_than_there_are_are_faults():
    grid = small(training={"top": 50})
    [fault] = check_data(grid, grid.data).faults
    assert fault.startswith("data demo: linear: top 50: there are scores of no more than ")
    grid = small(models=("linear", "shortlist"), training={"decode": "label_sets"})
    [fault] = check_data(grid, grid.data).faults
    assert fault.startswith("data demo: shortlist: decode 'label_sets' reads the scores of all")
    assert check_data(small(training={"top": 2}), grid.data).faults == ()


def test_a_setting_of_one_kind_is_refused_for_another(tmp_path):
    models = ("linear", f"hf:{tiny.bert(tmp_path / 'encoder')}")
    [fault] = find_faults(small(models=models, training={"max_length": 8}))
    refused = "training: model linear has no setting 'max_length' (embed, embed-shortlist, hf have)"
    assert fault.startswith(refused)
    [fault] = find_faults(small(training={"hf": {"max_length": 8}}))
    assert fault == "training.hf: the grid has no such model"
    [fault] = find_faults(small(models=models, training={"hf": {"mixed_precision": "fp7"}}))
    assert "mixed_precision: 'fp7' where auto or no or fp16 or bf16 was" in fault


def test_an_encoder_without_weights_is_a_fault(tmp_path):
    whole = tiny.bert(tmp_path / "whole")
    bare = shutil.copytree(whole, tmp_path / "bare")
    (bare / "model.safetensors").unlink()
    assert find_faults(small(models=(f"hf:{whole}",))) == []
    [fault] = find_faults(small(models=(f"hf:{bare}",)))
    assert fault == f"model 'hf:{bare}': no weights in {bare}, such as model.safetensors"


def test_the_hub_client_is_quiet_about_its_retries(monkeypatch):
    from transformers import AutoConfig

    heard = []

    def unreachable(name, **options):
        logger = logging.getLogger("huggingface_hub.utils._http")
        heard.append(logger.isEnabledFor(logging.WARNING))
        raise OSError(f"cannot reach the hub for {name}")

    monkeypatch.setattr(AutoConfig, "from_pretrained", unreachable)
    faults = find_faults(small(models=("hf:some/encoder",)))
    assert faults == [
        "model 'hf:some/encoder': cannot load the model 'some/encoder': "
        "cannot reach the hub for some/encoder"
    ]
    assert heard == [False]
    assert logging.getLogger("huggingface_hub").isEnabledFor(logging.WARNING)


def test_unreadable_data_is_named_together_with_the_other_faults(tmp_path):
    (tmp_path / "bad.csv").write_text("colour\nred\n")
    good = toy.write_file(tmp_path / "good.csv")
    data = (DataSpec(str(tmp_path / "bad.csv")), DataSpec(str(good)))
    grid = toy.grid(good, data=data, losses=(LossSpec("zlpt", "zlpt"),), training={"speed": 1})
    with pytest.raises(UserError) as raised:
        plan(grid, RunFolder(tmp_path / "out"))
    message = str(raised.value)
    assert message.startswith("3 faults in the grid:")
    assert "data bad: " in message


def test_an_encoder_on_features_is_a_fault(tmp_path):
    whole = tiny.bert(tmp_path / "whole")
    rows = np.random.default_rng(0).random((40, 2))
    lines = [f"{a:.3f},{b:.3f},{int(a > 0.5)},{int(b > 0.5)}" for a, b in rows]
    header = ["@relation 'numbers: -C -2'", "@attribute a numeric", "@attribute b numeric"]
    header += ["@attribute high {0,1}", "@attribute wide {0,1}", "@data"]
    (tmp_path / "numbers.arff").write_text("\n".join([*header, *lines]) + "\n")
    grid = toy.grid(
        tmp_path / "numbers.arff",
        models=("linear", f"hf:{whole}"),
        training={"linear": {"regularisation": 1.0}},
    )
    with pytest.raises(UserError) as raised:
        plan(grid, RunFolder(tmp_path / "out"))
    assert str(raised.value) == f"data toy: holds features, and model 'hf:{whole}' reads texts"


def test_settings_for_texts_that_do_nothing_are_told(tmp_path):
    rows = [f"{row + 0.5},{40.5 - row},{row % 2}" for row in range(40)]
    (tmp_path / "numbers.csv").write_text("\n".join(["x,y,red", *rows]) + "\n")
    grid = toy.grid(
        tmp_path / "numbers.csv",
        training={"linear": {"features": {"analyzer": "char"}}},
    )
    checked = check_data(grid, grid.data)
    assert "toy holds features: analyzer of linear do nothing" in checked.notes


def test_runs_of_what_texts_are_not_read_by_are_told():
    training = {"linear": {"features": {"analyzer": "char", "word_ngrams": (1, 3)}}}
    checked = check_data(grid := small(training=training), grid.data)
    said = "demo is read by the analyzer char: word_ngrams of linear do nothing"
    assert said in checked.notes


def test_a_hierarchy_is_read_with_the_data():
    assert not find_faults(small(data=(DataSpec("demo", read={"hierarchy": "links.csv"}),)))
    assert not find_faults(small(data=(DataSpec("demo", read={"hierarchy_separator": "/"}),)))

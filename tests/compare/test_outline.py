"""What a comparison is said to take, before it runs."""

from dataclasses import replace

import numpy as np
import pytest
from transformers import AutoTokenizer

from tests import tiny
from tests.compare import toy
from zlpr.compare import outline as module
from zlpr.compare.grid import DataSpec
from zlpr.compare.outline import outline
from zlpr.compare.records import LossSpec
from zlpr.data import published

CHINESE = ["一种泵的密封装置", "该密封装置包括壳体，和一个弹簧。"]
ENGLISH = ["Seal of a pump", "The seal has a housing and one spring, and a ring of cork."]


@pytest.fixture
def encoder(tmp_path, monkeypatch):
    """A folder with an encoder, and a machine whose speed is known."""
    monkeypatch.setattr(module, "_speed", lambda: 1e6)
    (tmp_path / "encoder").mkdir()
    tiny.bert(tmp_path / "encoder")
    return tmp_path / "encoder"


def hours(encoder, texts, name="data", **training):
    """What a comparison on a hundred copies of these texts is said to take."""
    path = encoder.parent / "data.csv"
    rows = [f'"{text}",{"ab"[i % 2]}' for i, text in enumerate(texts)] * 100
    path.write_text("\n".join(["text,labels", *rows]) + "\n", encoding="utf-8")
    grid = toy.grid(
        path,
        data=(DataSpec(str(path), name),),
        models=(f"hf:{encoder}",),
        seeds=(0,),
        training={"epochs": 2, **training},
    )
    return outline(grid).hours


def by_hand(tokens, samples=200, epochs=2, losses=3):
    """Six operations for each parameter and token in training, two in judging."""
    parameters = 12 * 1 * 16**2
    judged = 0.1 * samples * (epochs + 1) + 0.1 * samples
    return losses * parameters * tokens * (6 * 0.8 * samples * epochs + 2 * judged) / 1e6 / 3600


def test_chinese_is_read_character_by_character(encoder):
    tokenizer = AutoTokenizer.from_pretrained(encoder)
    counted = np.mean([len(tokenizer(text)["input_ids"]) for text in CHINESE])
    assert hours(encoder, CHINESE) == pytest.approx(by_hand(counted))


def test_words_are_somewhat_more_tokens(encoder):
    words = np.mean([len(text.split()) for text in ENGLISH])
    assert hours(encoder, ENGLISH) == pytest.approx(by_hand(1.3 * words + 2))


def test_what_is_cut_off_costs_nothing(encoder):
    short, long = (len(text) + 2 for text in CHINESE)
    assert short < 12 < long
    assert hours(encoder, CHINESE, max_length=12) == pytest.approx(by_hand((short + 12) / 2))


def test_the_papers_chinese_sets_are_counted_alike_whether_they_are_there_or_not(encoder):
    stated = published.statistics("CNIPA-Title")
    assert stated.unit == "characters"
    text = "泵" * round(stated.mean_words)
    sizes = [published.statistics("CNIPA-Title", part).instances for part in published.PARTS[1:]]
    there = hours(encoder, [text, text])
    missing = toy.grid(
        encoder.parent / "nothing.csv",
        data=(DataSpec(str(encoder.parent / "nothing.csv"), "CNIPA-Title"),),
        models=(f"hf:{encoder}",),
        seeds=(0,),
        training={"epochs": 2},
    )
    made = outline(missing)
    assert made.missing
    share = (12 * sizes[0] + 2 * (3 * sizes[1] + sizes[2])) / (12 * 160 + 2 * (3 * 20 + 20))
    assert made.hours == pytest.approx(there * share)


def test_other_kinds_have_no_estimate(tmp_path):
    made = outline(toy.grid(toy.write_file(tmp_path / "toy.csv", samples=20)))
    assert made.hours is None
    assert made.runs == 6


def test_sizes_and_runs_are_those_of_what_the_grid_takes(tmp_path):
    path = toy.write_file(tmp_path / "toy.csv", samples=200)
    data = DataSpec(str(path), seeds=(3, 4))
    made = outline(toy.grid(path, data=(data,), seeds=(0,), max_samples=50))
    assert made.data[0].sizes == (40, 5, 5)
    assert made.runs == 2 * 3


def test_parts_of_its_own_count_where_they_are_kept(tmp_path):
    (tmp_path / "toy").mkdir()
    for name, samples in (("train", 60), ("validation", 20), ("test", 20)):
        toy.write_file(tmp_path / "toy" / f"{name}.csv", samples=samples)
    grid = toy.grid(tmp_path / "toy")
    assert outline(grid).data[0].sizes == (80, 10, 10)
    assert outline(replace(grid, split="published")).data[0].sizes == (60, 20, 20)
    assert outline(replace(grid, split="published", max_samples=50)).data[0].sizes == (30, 10, 10)


def test_what_the_comparison_would_be_refused_for_is_said(tmp_path):
    path = toy.write_file(tmp_path / "toy.csv", samples=40)
    grid = toy.grid(path, losses=(LossSpec("zlpt", "zlpt"),), training={"speed": 1})
    made = outline(replace(grid, split="published", models=(*grid.models, "knn")))
    assert not made.missing
    assert [fault.partition(":")[0] for fault in made.faults] == [
        "loss zlpt", "training", "training", "data toy",
    ]  # fmt: skip
    assert "refused: loss zlpt: " in "\n".join(module.lines(made))
    assert "1 data set;" in "\n".join(module.lines(made))

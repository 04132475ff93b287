import dataclasses
import json
import pickle

import pytest

from zlpr._errors import UserError
from zlpr.models import FeatureConfig
from zlpr.training import LinearConfig, TrainingConfig, TransformerConfig
from zlpr.training.chain import ChainConfig


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": "bert"},
        {"decode": "half"},
        {"metric": "accuracy"},
        {"decode_metric": "ranking_loss"},
        {"loss": "zlrp"},
        {"regularisation": 0},
        {"epochs": -1},
        {"label_smoothing": 1.0},
        {"mixup": -0.1},
    ],
)
def test_a_wrong_setting_is_named(wrong):
    (name,) = wrong
    with pytest.raises(UserError, match=name):
        TrainingConfig(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [{"preset": "best"}, {"mixed_precision": "half"}, {"max_length": 0}, {"r_drop": -1.0}],
)
def test_a_wrong_setting_of_an_encoder_is_named(wrong):
    (name,) = wrong
    with pytest.raises(UserError, match=name):
        TrainingConfig(model="hf:encoder", **wrong)


def test_the_model_decides_which_settings_there_are():
    assert type(TrainingConfig(regularisation=2.0)) is LinearConfig
    assert type(TrainingConfig(model="hf:encoder", epochs=1)) is TransformerConfig
    for make in (lambda given: TrainingConfig(**given), TrainingConfig.of):
        with pytest.raises(
            UserError, match=r"linear has no setting 'max_length' \(embed, embed-shortlist, hf have"
        ):
            make({"model": "linear", "max_length": 64})


def test_a_misspelt_setting_gets_the_nearest_name():
    with pytest.raises(UserError, match="no setting 'regularization'; did you mean 'regularis"):
        TrainingConfig(regularization=1.0)


def test_plain_values_get_the_types_of_the_settings():
    config = TrainingConfig.of(
        {"model": "hf:encoder", "report_to": "tensorboard", "learning_rate": 1}
    )
    assert config.report_to == ("tensorboard",)
    assert isinstance(config.learning_rate, float)
    linear = TrainingConfig.of({"features": {"analyzer": "char", "char_ngrams": [1, 2]}})
    assert linear.features == FeatureConfig(analyzer="char", char_ngrams=(1, 2))
    with pytest.raises(UserError, match="epochs: 'three' where integer was expected"):
        TrainingConfig.of({"epochs": "three"})


@pytest.mark.parametrize("model", ["linear", "hf:encoder"])
def test_configurations_survive_copies_and_processes(model):
    config = TrainingConfig(model=model, seed=3)
    assert dataclasses.replace(config, seed=4).seed == 4
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301 (our own, as workers get it)


def test_settings_are_plain_json():
    config = TrainingConfig(loss_params={"pos_weight": 2.7})
    assert json.loads(json.dumps(config.to_dict()))["loss_params"] == {"pos_weight": 2.7}


def test_the_papers_preset_counts_empty_cases_as_the_paper_unless_told_otherwise():
    assert TrainingConfig().convention == "sklearn"
    assert TrainingConfig(model="hf:x", preset="paper").convention == "paper"
    assert TrainingConfig(model="hf:x", preset="paper", empty="sklearn").convention == "sklearn"
    with pytest.raises(UserError, match=r"empty: .*'zero'"):
        TrainingConfig(empty="zero")


def test_the_papers_preset_decides_at_zero_unless_told_otherwise():
    def decode(**settings):
        return TrainingConfig(model="hf:x", **settings).decode

    assert decode() == "auto"
    assert decode(preset="paper") == "zero"
    assert decode(preset="paper", loss="dice2") == "zero"
    assert decode(preset="paper", decode="label_sets") == "label_sets"
    assert decode(preset="paper", top=2) == "auto"
    assert decode(preset="paper", loss="lsep") == "auto"  # has no bound to keep


def test_what_describes_rather_than_judges_cannot_choose():
    with pytest.raises(UserError, match="metric: no metric 'cardinality_predicted'"):
        TrainingConfig(metric="cardinality_predicted")


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_that_not_every_library_takes_is_refused(seed):
    with pytest.raises(UserError, match=f"seed {seed}: expected a number from 0 to 4294967295"):
        TrainingConfig(seed=seed)


@pytest.mark.parametrize(
    ("given", "chosen", "decided"),
    [
        ({}, "micro_f1", "micro_f1"),
        ({"metric": "subset_accuracy"}, "subset_accuracy", "subset_accuracy"),
        ({"decode_metric": "example_f1"}, "example_f1", "example_f1"),
        ({"metric": "average_precision"}, "average_precision", "micro_f1"),
        ({"metric": "macro_f1", "decode_metric": "example_f1"}, "macro_f1", "example_f1"),
    ],
)
def test_one_metric_that_is_asked_for_is_chosen_by_and_decided_for(given, chosen, decided):
    config = TrainingConfig(**given)
    assert (config.choice_metric, config.decision_metric) == (chosen, decided)
    assert TrainingConfig.of(config.to_dict()) == config


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({}, "ChainConfig is for model chain, and model 'linear' takes LinearConfig"),
        ({"model": "knn"}, "ChainConfig is for model chain, and model 'knn' takes Neighbours"),
    ],
)
def test_settings_of_one_kind_do_not_train_another(settings, fault):
    with pytest.raises(UserError, match=fault):
        ChainConfig(**settings)
    assert type(ChainConfig(model="chain")) is ChainConfig

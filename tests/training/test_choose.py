"""A parameter of the loss that validation chooses."""

import json

import numpy as np
import pytest

import zlpr
from zlpr import UserError
from zlpr.cli.main import main
from zlpr.data import demo
from zlpr.training import TrainingConfig, fit, linear_checkpoint
from zlpr.training.checkpoints import run_of
from zlpr.training.linear_checkpoint import SavedAttempts
from zlpr.training.loss import create_loss
from zlpr.training.selection import validation_metric
from zlpr.training.shortlist_checkpoint import SavedSolutions

WEIGHTS = (1.0, 0.1, 4.0)


@pytest.fixture(scope="module")
def parts():
    data = demo.make(320)
    return data.select(range(200)), data.select(range(200, 320))


def alone(parts, **settings):
    """A fit with one value, and its figure on validation."""
    config = TrainingConfig(**settings)
    result = fit(*parts, config)
    return result, validation_metric(config, parts[1].labels, result.validation.scores)


def test_the_value_that_is_best_at_a_given_regularisation_is_chosen(parts):
    given = {"regularisation": 0.3, "loss": "bce"}
    chosen = fit(*parts, TrainingConfig(**given, choose={"pos_weight": WEIGHTS}))
    by_value = {
        value: alone(parts, **given, loss_params={"pos_weight": value}) for value in WEIGHTS
    }
    value = chosen.chosen["pos_weight"]
    ranked = sorted(metric for _, metric in by_value.values())
    assert by_value[value][1] > ranked[-1] - 0.02 > ranked[0]
    assert chosen.model.record.loss_params == {"pos_weight": value}
    assert chosen.model.record.settings["choose"] == {"pos_weight": WEIGHTS}
    texts = demo.make(50, seed=9).texts
    scores = chosen.model.predict_scores(texts)
    away = {
        one: np.abs(result.model.predict_scores(texts) - scores).mean()
        for one, (result, _) in by_value.items()
    }
    own = away.pop(value)  # near the same minimum, from another start
    assert own < 0.1 * min(away.values())


@pytest.mark.parametrize(("model", "on_both"), [("linear", 1), ("shortlist", 3)])
def test_each_value_at_a_given_regularisation_takes_a_training(parts, model, on_both):
    """Going on with the best one to its end is none; several choose in one search, or each."""
    settings = {"model": model, "regularisation": 1.0, "choose": {"pos_weight": WEIGHTS}}
    alone = fit(*parts, TrainingConfig(**settings, refit=False))
    again = fit(*parts, TrainingConfig(**settings))
    assert (alone.trainings, again.trainings) == (3, 3 + on_both)


def test_a_fit_in_epochs_does_not_go_on_from_that_of_another_value(parts, tmp_path, monkeypatch):
    monkeypatch.setattr(linear_checkpoint, "SECONDS_BETWEEN_SAVES", 0)
    config = TrainingConfig(
        loss="bce", choose={"pos_weight": (0.01, 4.0)}, regularisation=0.3, mixup=0.2, epochs=3
    )
    whole, kept = (fit(*parts, config, checkpoint=folder) for folder in (None, tmp_path / "state"))
    assert [line.loss for line in kept.history] == [line.loss for line in whole.history]
    texts = parts[1].texts
    np.testing.assert_array_equal(
        kept.model.predict_scores(texts), whole.model.predict_scores(texts)
    )


@pytest.mark.parametrize("model", ["linear", "shortlist"])
def test_what_decides_in_the_end_decides_while_validation_chooses(parts, model):
    settings = {"model": model, "refit": False}
    by_threshold, by_zero, generous = (
        fit(*parts, TrainingConfig(**settings, **decision))
        for decision in ({"threshold": 0.0}, {"decode": "zero"}, {"threshold": -1.0})
    )
    assert by_threshold.chosen == by_zero.chosen  # one decision by two names
    assert by_zero.chosen["regularisation"] < generous.chosen["regularisation"]
    reached = max(line.metric for line in generous.history)
    assert generous.figures["validation"]["micro_f1"] == pytest.approx(reached, abs=0.01)


@pytest.mark.parametrize("model", ["linear", "shortlist"])
@pytest.mark.parametrize(
    ("threshold", "said"), [(50.0, "no score is above it"), (-1e6, "all scores are above it")]
)
def test_a_threshold_that_parts_no_scores_is_doubted(parts, model, threshold, said, caplog):
    settings = {"model": model, "regularisation": 1.0, "refit": False}
    fit(*parts, TrainingConfig(**settings, threshold=0.0))
    assert "threshold" not in caplog.text
    fit(*parts, TrainingConfig(**settings, threshold=threshold))
    assert f"threshold {threshold:g}: on the validation part {said}" in caplog.text


def test_five_values_cost_less_than_two_and_a_half_trainings(parts):
    one = fit(*parts, TrainingConfig())
    five = fit(*parts, TrainingConfig(choose={"pos_weight": (1.0, 0.5, 2.0, 4.0, 8.0)}))
    steps = [sum(line.step for line in result.history) for result in (one, five)]
    assert steps[1] < 2.5 * steps[0]
    assert {line.stage.rpartition(" ")[2] for line in five.history[:-2]} == {
        "1",
        "0.5",
        "2",
        "4",
        "8",
    }


def test_regularisation_goes_on_from_another_value(parts):
    """A weight that spoils the first fits is left, and the path is climbed for the one taken."""
    result = fit(*parts, TrainingConfig(choose={"pos_weight": (1e-3, 1.0)}))
    assert result.chosen["pos_weight"] == 1.0
    assert sum("pos_weight 1" in line.stage for line in result.history) > 1


def test_a_kind_without_a_shorter_way_trains_each_value(parts):
    def of(**given):
        return fit(*parts, TrainingConfig(model="shortlist", **given))

    weights = (0.01, 1.0)
    result = of(choose={"pos_weight": weights})
    alone = [of(loss_params={"pos_weight": weight}) for weight in weights]
    assert len(result.history) == sum(len(one.history) for one in alone)
    value = result.chosen["pos_weight"]
    assert result.model.record.loss_params == {"pos_weight": value}
    texts = demo.make(20, seed=9).texts
    expected = alone[weights.index(value)].model.predict_scores(texts)
    np.testing.assert_array_equal(result.model.predict_scores(texts).scores, expected.scores)


def test_whole_numbers_stay_whole_for_a_parameter_that_takes_no_others():
    config = TrainingConfig.of({"loss": "lsep", "choose": {"pairs": [2, 30]}})
    for one in config.alternatives():  # which refuses 2.0
        create_loss(one, np.eye(3, dtype=bool))


@pytest.mark.parametrize(
    ("choose", "message"),
    [
        ({"pos_weight": (1.0,)}, "choose pos_weight: expected at least two values"),
        ({"pos_weight": (2.0, 2.0)}, "choose pos_weight: expected at least two values"),
        ({"pos_weight": (1.0, True)}, "choose pos_weight: expected numbers"),
        ({"pos_weight": (1.0, "2")}, "choose pos_weight: expected numbers"),
        ({"pos_weigt": (1.0, 2.0)}, "did you mean 'pos_weight'"),
        ({"pos_weight": (1.0, -2.0)}, "pos_weight"),
    ],
)
def test_what_cannot_be_chosen_is_said_before_training(parts, choose, message):
    with pytest.raises(UserError, match=message):
        fit(*parts, TrainingConfig(choose=choose))


def test_a_parameter_is_given_or_chosen():
    with pytest.raises(UserError, match="choose pos_weight: a parameter that is given as well"):
        TrainingConfig(loss="zlpr:pos_weight=2", choose={"pos_weight": (1.0, 2.0)})
    with pytest.raises(UserError, match="model knn is not trained with a loss"):
        TrainingConfig(model="knn", choose={"pos_weight": (1.0, 2.0)})


def test_a_killed_run_goes_on_to_the_same_choice(parts, tmp_path, monkeypatch):
    config = TrainingConfig(choose={"pos_weight": (1.0, 2.0)}, refit=False)
    unbroken = fit(*parts, config)
    add = SavedAttempts.add

    def add_and_stop(self, *arguments, **options):
        add(self, *arguments, **options)
        if len(self.attempts) == len(unbroken.history) - 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(SavedAttempts, "add", add_and_stop)
    with pytest.raises(KeyboardInterrupt):
        fit(*parts, config, checkpoint=tmp_path / "state")
    monkeypatch.undo()
    resumed = fit(*parts, config, checkpoint=tmp_path / "state")
    assert resumed.chosen == unbroken.chosen
    np.testing.assert_array_equal(resumed.model.weight, unbroken.model.weight)


def test_a_killed_run_with_a_folder_for_each_value_is_known_again(parts, tmp_path, monkeypatch):
    config = TrainingConfig(model="shortlist", choose={"pos_weight": (1.0, 2.0)}, refit=False)

    def stop(self, *arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(SavedSolutions, "save", stop)
    with pytest.raises(KeyboardInterrupt):
        fit(*parts, config, checkpoint=tmp_path / "state")
    assert run_of(tmp_path / "state")["model"] == "shortlist"


def test_the_command_says_what_was_chosen(tmp_path, capsys):
    file, out = tmp_path / "data.jsonl", tmp_path / "model"
    data = demo.make(300)
    rows = zip(data.texts, data.label_sets(), strict=True)
    file.write_text("\n".join(json.dumps({"text": text, "labels": names}) for text, names in rows))
    train = ["train", str(file), "--out", str(out)]
    assert main([*train, "--regularisation", "0.3", "--choose", "pos_weight=1, 2.5"]) == 0
    value = zlpr.load(out).record.loss_params["pos_weight"]
    assert f"pos_weight {value:.3g}" in capsys.readouterr().out
    for wrong in (["pos_weight"], ["pos_weight=1,2", "--choose", "pos_weight=3,4"]):
        assert main([*train, "--overwrite", "--choose", *wrong]) == 2
    assert "--choose pos_weight: given twice" in capsys.readouterr().err

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from tests.models import fitted
from zlpr import load, metrics
from zlpr._ancestors import Ancestors
from zlpr._errors import UserError
from zlpr.data import Columns, Dataset, demo
from zlpr.decoding import (
    Threshold,
    TopK,
    by_preference,
    choose_probabilities,
    create,
    rules_of_scores,
    weigh,
)
from zlpr.decoding.with_ancestors import close
from zlpr.training import TrainingConfig, fit
from zlpr.training.judging import ScoredPart
from zlpr.training.selection import choose_rule
from zlpr.training.solvers import memory_of_fit


def test_the_decoder_and_the_calibrator_are_fitted_on_validation():
    train, validation, _ = fitted.parts()
    result = fitted.result()
    assert result.validation.scores.shape == validation.labels.shape
    expected = weigh(
        validation.labels,
        result.validation.scores,
        rules=by_preference(rules_of_scores()),
        train_labels=train.labels,
    )
    assert result.model.decoder == expected.rule
    assert result.choice == expected
    shown = choose_probabilities(
        validation.labels, result.validation.scores, train_labels=train.labels
    )
    assert result.model.calibrator == shown.probabilities
    assert result.probabilities == shown
    record = {**expected.to_dict(), "probabilities": shown.to_dict()}
    assert result.model.record.decision == record


def test_a_sample_that_is_there_three_times_is_chosen_on_as_once():
    """What is judged by has never been fitted to a copy: the figures do not rise with copies."""
    train, validation = fitted.parts()[0], demo.make(120, 5)
    config = TrainingConfig(regularisation=0.3, refit=False)
    thrice = fit(train, validation.select(np.tile(np.arange(120), 3)), config)
    judged = {each.name: each for each in thrice.choice.judged}
    once = {each.name: each for each in fit(train, validation, config).choice.judged}
    for name in ("zero", "threshold", "top_k"):  # what else is fitted has a prior, or priors
        assert judged[name].value == pytest.approx(once[name].value)
    assert judged["label_sets"].value < once["label_sets"].value + 0.01
    few = fit(train, validation.select(np.repeat(np.arange(8), 20)), config)
    assert "160 samples of 8 groups are too few to choose on" in few.choice.describe()
    assert "160 samples of 8 groups are too few to compare" in few.probabilities.describe()


@pytest.mark.parametrize("by", ["group", "content"])
def test_rule_and_probabilities_are_chosen_in_folds_that_tear_nothing_apart(by):
    train, validation, units = fitted.parts()[0], demo.make(150, 5), np.arange(150) // 3
    if by == "content":
        validation = validation.select(3 * units)
    else:
        validation = replace(validation, groups=[f"case {unit}" for unit in units])
    result = fit(train, validation, TrainingConfig(regularisation=0.3))
    scored = result.validation.truth, result.validation.scores
    rules = by_preference(rules_of_scores())
    for groups in (units, None):
        given = {"train_labels": train.labels, "groups": groups}
        weighed = weigh(*scored, rules=rules, empty="sklearn", **given)
        assert (weighed.judged == result.choice.judged) == (groups is units)
        shown = choose_probabilities(*scored, **given)
        assert (shown.log_loss == result.probabilities.log_loss) == (groups is units)


def test_data_without_copies_and_groups_is_chosen_on_sample_by_sample():
    train, validation = fitted.parts()[0], fitted.parts()[1]
    config = TrainingConfig(regularisation=0.3)
    alone = replace(validation, groups=[""] * len(validation))
    for part in (validation, alone, replace(alone, groups=list(validation.texts))):
        result = fit(train, part, config)
        assert result.validation.groups is None
        assert result.choice == fitted.result().choice


def rows_of(width):
    """A file's samples, as wide as its rows show."""
    features = sparse.csr_array(np.tile(np.eye(width), (30, 1)))
    sets = [{"a"} if row % width else {"b"} for row in range(30 * width)]
    columns = Columns("svm", num_features=width, seen_width=True)
    return Dataset.from_label_sets(sets, features=features, columns=columns)


@pytest.mark.parametrize("widths", [(4, 3, 6), (6, 4, 3), (3, 6, 4)])
def test_sparse_parts_are_as_wide_as_the_widest(widths):
    train, validation, test = map(rows_of, widths)
    config = TrainingConfig(regularisation=1.0)
    model = fit(train, validation, config, test=test).model
    assert model.record.data["columns"]["num_features"] == 6
    assert model.predict_scores(np.eye(6)).shape == (6, 2)


@pytest.mark.parametrize("part", ["validation", "test"])
def test_parts_that_do_not_go_together_are_refused_before_training(part, monkeypatch):
    monkeypatch.setattr("zlpr.training.fitting.fit_parts", None)
    train = Dataset.from_label_sets([{"a"}] * 60, features=np.eye(60))
    wide = Dataset.from_label_sets([{"a"}] * 60, features=np.eye(60, 61), name="wide")
    texts = Dataset.from_label_sets([{"a"}] * 60, texts=["x"] * 60)
    other = Dataset.from_label_sets([{"b"}] * 60, features=np.eye(60))
    for wrong, message in (
        (wide, "60 features, and wide has 61; all parts need the same"),
        (texts, "some parts hold texts and others features"),
        (other, f"training has 1 label, {part} 1; not in training: b"),
    ):
        given = {"validation": train, part: wrong}
        with pytest.raises(UserError, match=message):
            fit(train, config=TrainingConfig(), **given)


@pytest.mark.parametrize(
    ("loss", "decode", "rule"),
    [
        ("lsep", "label_count", "label_count"),
        ("zlpr", "label_sets", "label_sets"),
        ("zlpr", "zero", "zero"),
        ("bce", "per_label_threshold", "per_label_threshold"),
    ],
)
def test_the_rule_is_the_one_asked_for(loss, decode, rule):
    assert fitted.result(loss, decode).model.decoder.to_config()["rule"] == rule


def test_a_loss_that_only_ranks_is_not_cut_at_zero():
    names = [judged.name for judged in fitted.result("lsep").choice.judged]
    assert names
    assert "zero" not in names


def test_decisions_by_hand_are_not_fitted():
    train, validation, _ = fitted.parts()

    def decoder(**settings):
        config = TrainingConfig(regularisation=1.0, **settings)
        return fit(train, validation, config).model.decoder

    assert decoder(threshold=0.7) == Threshold(0.7)
    assert decoder(top=2) == TopK(2)
    floored = decoder(top=2, min_probability=0.4)
    assert floored.rule == TopK(2)
    assert floored.min_probability == 0.4


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"threshold": 1.0, "top": 2}, "not both"),
        ({"decode": "zero", "top": 2}, "give one of them"),
        ({"min_probability": 2.0}, r"must lie in \[0, 1\]"),
        ({"top": -1}, "top -1: expected at least 1"),
        (
            {"model": "hf:somewhere", "decode": "feature_count"},
            "reads features, and model hf has none to give; its rules are: auto, zero",
        ),
    ],
)
def test_wrong_decisions_are_refused_before_training(settings, words):
    with pytest.raises(UserError, match=words):
        TrainingConfig(**settings)


def one_of_four(samples=700, seed=0):
    """Texts with exactly one of four labels, and words that are likelier with one of them."""
    generator = np.random.default_rng(seed)
    which = generator.integers(4, size=samples)
    words = np.array(["up", "down", "left", "right"])
    chances = np.where(np.eye(4, dtype=bool)[which], 0.7, 0.3)[:, :, None]
    seen = generator.random((samples, 4, 2)) < chances
    texts = [" ".join(np.repeat(words, row)) for row in seen.sum(axis=2)]
    return Dataset.from_label_sets([{"abcd"[i]} for i in which], texts=texts)


def test_marginals_of_label_sets_are_the_probabilities_where_they_fit_better(tmp_path):
    data = one_of_four()
    train, validation, test = (
        data.select(rows) for rows in (range(400), range(400, 600), range(600, 700))
    )
    config = TrainingConfig(regularisation=0.3, min_probability=0.4)
    result = fit(train, validation, config, test=test)
    record = result.model.record.decision["probabilities"]
    assert record["by"] == "label_sets"
    assert record["log_loss"]["label_sets"] < record["log_loss"]["calibrator"]
    result.model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    chances = loaded.predict_proba(test.inputs)
    np.testing.assert_array_equal(chances, result.model.predict_proba(test.inputs))
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, atol=0.05)
    likely = [{"abcd"[i] for i in np.flatnonzero(row >= 0.4)} for row in chances]
    assert all(set(names) <= likely[i] for i, names in enumerate(loaded.predict(test.inputs)))
    card = (tmp_path / "model" / "README.md").read_text()
    assert "the marginals of a posterior over label sets" in card
    assert f"`label_sets` {record['log_loss']['label_sets']:.3f}" in card


@pytest.mark.parametrize("name", ["feature_count", "feature_threshold"])
def test_a_rule_may_read_the_models_features(name, tmp_path):
    train, validation, test = fitted.parts()
    config = TrainingConfig(regularisation=0.3, decode=name, min_probability=0.05)
    result = fit(train, validation, config, test=test)
    model = result.model
    features = model.read(test.inputs)
    rule = create(name).fit(
        validation.labels,
        result.validation.scores,
        empty="sklearn",
        features=model.read(validation.inputs),
    )
    assert model.decoder.rule == rule
    decided = model.decoder(model.score(features), features=features)
    assert result.figures["test"]["micro_f1"] == pytest.approx(
        metrics.micro_f1(test.labels, decided, empty="sklearn")
    )
    model.save(tmp_path / "model")
    names = [tuple(np.array(train.label_names)[row]) for row in decided]
    assert load(tmp_path / "model").predict(test.inputs) == model.predict(test.inputs) == names


def test_given_features_reach_a_rule_as_the_model_will_read_them():
    generator = np.random.default_rng(0)
    features = 100 + 30 * generator.normal(size=(300, 4)).astype(np.float32)
    truth = sparse.csr_array(features[:, :3] > 100)
    data = Dataset(truth, ("a", "b", "c"), features=features)
    train, validation = data.select(range(200)), data.select(range(200, 300))
    result = fit(train, validation, TrainingConfig(regularisation=0.3, decode="feature_count"))
    np.testing.assert_array_equal(result.validation.features, validation.features)


def test_the_record_says_where_the_model_comes_from():
    train, validation, _ = fitted.parts()
    record = fitted.result().model.record
    assert record.loss == "zlpr"
    assert record.settings["regularisation"] == 0.3
    assert record.data["train_samples"] == len(train)
    assert record.data["validation_samples"] == len(validation)


def test_data_that_cannot_be_fitted_is_refused():
    train, validation, _ = fitted.parts()
    with pytest.raises(UserError, match="training part has no samples"):
        fit(train.select([]), validation, TrainingConfig())
    fewer = validation.with_label_names([*train.label_names, "more"])
    with pytest.raises(UserError, match="not in training: more"):
        fit(train, fewer, TrainingConfig())


@pytest.mark.parametrize(
    ("params", "message"),
    [({"gamma": 1}, "gamma"), ({"pos_weight": -1.0}, "pos_weight"), ({"pos_weight": [1.0]}, "12")],
)
def test_wrong_parameters_of_a_loss_are_named(params, message):
    train, validation, _ = fitted.parts()
    with pytest.raises(UserError, match=message):
        fit(train, validation, TrainingConfig(loss_params=params, regularisation=1.0))


def test_what_only_a_network_can_do_is_refused_for_the_linear_model():
    train, validation, _ = fitted.parts()
    with pytest.raises(UserError, match="r_drop"):
        fit(train, validation, TrainingConfig(r_drop=1.0))


def test_a_model_fitted_from_python_is_saved_with_its_figures_and_card(tmp_path):
    train, validation, test = fitted.parts()
    result = fit(train, validation, TrainingConfig(regularisation=1.0), test=test)
    result.model.save(tmp_path / "model")
    figures = json.loads((tmp_path / "model" / "metrics.json").read_text())
    assert figures.pop("empty") == "sklearn"
    assert set(figures) == {"validation", "test", "test, bound 0"}
    decided = result.model.decoder(result.model.predict_scores(test.inputs))
    expected = metrics.evaluate(test.labels, y_pred=decided)["micro_f1"]
    assert figures["test"]["micro_f1"] == pytest.approx(expected)
    card = (tmp_path / "model" / "README.md").read_text()
    assert f"test samples: {len(test)}" in card
    assert "Micro-F1" in card


def test_rules_are_weighed_by_sets_with_ancestors_where_labels_have_some():
    generator = np.random.default_rng(3)
    above = Ancestors.of([[], [0], [1], []])
    truth = close(generator.random((60, 4)) < 0.3, above)
    part = ScoredPart(truth, truth + generator.normal(size=truth.shape), ancestors=above)
    found = choose_rule(TrainingConfig(), truth, part).judged
    given = {"rules": by_preference(rules_of_scores()), "train_labels": truth, "empty": "sklearn"}
    assert found == weigh(truth, part.scores, **given, ancestors=above).judged
    assert found != weigh(truth, part.scores, **given).judged


def test_settings_for_texts_are_refused_where_there_are_none():
    features = np.eye(8, dtype=np.float32)
    data = Dataset.from_label_sets([{"a"}, {"b"}] * 4, features=features)
    config = TrainingConfig.of({"features": {"analyzer": "char", "min_count": 1}})
    with pytest.raises(UserError, match="analyzer, min_count: for texts, and this data holds feat"):
        fit(data, data, config)


@pytest.mark.parametrize(
    ("texts", "analyzer", "idle", "read"),
    [
        (["red wine here"] * 8, "char", "word_ngrams", "char"),
        (["红酒在这里"] * 8, "auto", "word_ngrams", "char"),
        (["red wine here"] * 8, "auto", "char_ngrams", r"word\+subword"),
        (["red wine here"] * 8, "word", "subword_ngrams", "word"),
    ],
)
def test_runs_of_what_texts_are_not_read_by_are_refused(texts, analyzer, idle, read):
    data = Dataset.from_label_sets([{"a"}, {"b"}] * 4, texts=texts)
    config = TrainingConfig.of({"features": {"analyzer": analyzer, idle: (1, 5)}})
    said = f"{idle}: does nothing where texts are read by the analyzer {read};"
    with pytest.raises(UserError, match=said):
        fit(data, data, config)


@pytest.mark.parametrize("model", ["linear", "powerset", "mmp", "chain", "knn"])
def test_a_training_that_would_not_fit_is_refused_before_it_starts(model, monkeypatch):
    train, validation, _ = fitted.parts()
    monkeypatch.setattr("zlpr._memory.available_memory", lambda: 1_000)
    said = rf"training {model} on .* samples with 12 labels would take about .* or the model short"
    with pytest.raises(UserError, match=said):
        fit(train, validation, TrainingConfig.of({"model": model}))


def test_memory_grows_with_features_times_labels():
    small, wide = (memory_of_fit(np.empty((100, features)), 1_000) for features in (10_000, 30_000))
    assert 2.5 < wide / small < 3.5
    thesaurus = sparse.csr_array((5_600, 400_000))
    assert memory_of_fit(thesaurus, 9_021) > 50e9  # not even 50 GB are enough

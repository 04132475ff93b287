from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from tests import many_labels
from zlpr import load
from zlpr._errors import UserError
from zlpr.cli.main import main
from zlpr.data import Dataset, Hierarchy
from zlpr.models.answers import answer
from zlpr.training import TrainingConfig, fit, shortlist_fit
from zlpr.training.naming import recall_of
from zlpr.training.shortlist_fit import REGULARISATION, STRONGER, WEAKER
from zlpr.training.span_lbfgs import minimise_in_span

TEST = many_labels.make(80, seed=1)


def fit_many(*, named=False, **settings):
    data = many_labels.make(named=named)
    train, validation = data.select(np.arange(200)), data.select(np.arange(200, 240))
    test = many_labels.make(80, seed=1, named=named)
    return fit(train, validation, TrainingConfig(model="shortlist", **settings), test=test)


@pytest.mark.parametrize("loss", ["zlpr", "bce", "lsep", "decoupled_softmax"])
def test_it_learns_many_labels_with_each_of_its_losses(loss):
    result = fit_many(loss=loss)
    assert result.figures["test"]["micro_f1"] > 0.9
    assert result.figures["test"]["precision_at_1"] > 0.95
    assert result.chosen["recall_of_candidates"] > 0.95
    assert result.chosen["regularisation"] in (REGULARISATION, *WEAKER, *STRONGER)
    assert [line.stage for line in result.history][-1] == "training and validation part"


def test_scores_at_zero_decide():
    assert fit_many(decode="zero").figures["test"]["micro_f1"] > 0.85


def test_the_scores_that_validation_saw_are_the_models_own():
    """Weights and centroids are blended into one layer, and nothing is lost by that."""
    data = many_labels.make()
    train, validation = data.select(np.arange(200)), data.select(np.arange(200, 240))
    result = fit(train, validation, TrainingConfig(model="shortlist", refit=False))
    seen, again = result.validation.scores, result.model.predict_scores(validation.texts)
    np.testing.assert_array_equal(seen.labels, again.labels)
    np.testing.assert_allclose(seen.scores, again.scores, rtol=1e-4, atol=1e-4)
    assert np.isfinite(result.chosen["share_of_centroids"])


def lengthened(data, rows):
    """Every other text twice as long: with the labels of the text before it as well."""
    data = data.select(rows)
    texts, labels = list(data.texts), data.labels.tolil()
    for row in range(1, len(texts), 2):
        texts[row] = f"{texts[row]} {texts[row - 1]}"
        labels[row] = (labels[[row]] + labels[[row - 1]]).toarray()
    return Dataset(labels=labels.tocsr(), label_names=data.label_names, texts=texts)


def test_longer_texts_have_more_labels_where_training_shows_it():
    data = many_labels.make(400)
    train, validation = (lengthened(data, np.arange(*rows)) for rows in ((0, 300), (300, 400)))
    model = fit(train, validation, TrainingConfig(model="shortlist")).model
    assert model.length_weight > 0.1
    alike = fit_many().model  # one or two labels, and hardly a difference in length
    assert abs(alike.length_weight) < model.length_weight


def test_a_fit_is_the_same_each_time():
    first, second = (fit_many(regularisation=0.1, refit=False) for _ in range(2))
    np.testing.assert_array_equal(first.test.scores.scores, second.test.scores.scores)


def test_a_killed_run_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    data = many_labels.make()
    train, validation = data.select(np.arange(200)), data.select(np.arange(200, 240))
    config = TrainingConfig(model="shortlist")
    solved = []

    def solve(*problem, **settings):
        solved.append(problem[3])
        return minimise_in_span(*problem, **settings)

    monkeypatch.setattr(shortlist_fit, "minimise_in_span", solve)
    whole = fit(train, validation, config)
    all_of_them = solved.copy()

    def die_after_the_second(line):
        if line.metric is not None and len(solved) == len(all_of_them) + 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(train, validation, config, checkpoint=tmp_path, progress=die_after_the_second)
    solved.clear()
    resumed = fit(train, validation, config, checkpoint=tmp_path)
    assert solved == all_of_them[2:]
    assert [line.loss for line in resumed.history] == [line.loss for line in whole.history]
    np.testing.assert_array_equal(
        resumed.model.predict_scores(TEST.texts).scores,
        whole.model.predict_scores(TEST.texts).scores,
    )


def test_names_that_are_words_are_training_texts_and_numbers_are_not():
    by_itself = fit_many(named=True, regularisation=0.1)
    told = fit_many(named=True, regularisation=0.1, label_texts="yes")
    without = fit_many(named=True, regularisation=0.1, label_texts="no")
    np.testing.assert_array_equal(by_itself.test.scores.scores, told.test.scores.scores)
    assert not np.array_equal(by_itself.test.scores.scores, without.test.scores.scores)
    numbers, none = fit_many(regularisation=0.1), fit_many(regularisation=0.1, label_texts="no")
    np.testing.assert_array_equal(numbers.test.scores.scores, none.test.scores.scores)


def test_sparse_features_are_read_and_dense_ones_refused():
    rng = np.random.default_rng(0)
    labels = sparse.csr_array(rng.random((150, 20)) < 0.1)
    features = sparse.csr_array(labels.toarray() * 7.0 + (rng.random((150, 20)) < 0.05))
    names = tuple(map(str, range(20)))
    data = Dataset(labels=labels, label_names=names, features=features)
    result = fit(data, data, TrainingConfig(model="shortlist"), test=data)
    assert result.figures["test"]["micro_f1"] > 0.9
    predicted = result.model.predict(features)
    assert predicted == [
        tuple(names[i] for i in row)
        for row in np.split(
            result.test.decided(result.model.decoder).indices,
            result.test.decided(result.model.decoder).indptr[1:-1],
        )
    ]
    dense = Dataset(labels=labels, label_names=names, features=features.toarray())
    with pytest.raises(UserError, match="these are dense; take the model linear"):
        fit(dense, dense, TrainingConfig(model="shortlist"))


def test_labels_and_samples_without_each_other():
    data = many_labels.make()
    names = (*data.label_names, "never")
    lonely = data.with_label_names(names).select(np.arange(240))
    texts = ["", *lonely.texts[1:]]
    empty = sparse.csr_array(np.zeros((1, 41), dtype=bool))
    labels = sparse.csr_array(sparse.vstack([empty, lonely.labels[1:]]))
    train = Dataset(labels=labels, label_names=names, texts=texts)
    result = fit(train, train, TrainingConfig(model="shortlist", regularisation=0.1))
    assert "never" not in {name for row in result.model.predict(texts) for name in row}
    assert result.model.predict([""]) == [()]


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"loss": "focal"}, "smooth and convex, which focal is not; there are: zlpr"),
        ({"loss_params": {"pos_weight": [1.0, 2.0]}}, "pos_weight: model shortlist takes numbers"),
        ({"loss": "lsep", "loss_params": {"pairs": 10}}, "pairs: model shortlist takes numbers"),
        ({"candidates": 0}, "candidates 0: expected a number above 0"),
        ({"negatives": -1}, "negatives -1: expected a number above 0"),
        ({"epochs": 3}, r"model shortlist has no setting 'epochs' \(linear"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, fault):
    with pytest.raises(UserError, match=fault):
        TrainingConfig(model="shortlist", **settings)


def test_the_recall_is_the_share_of_labels_that_are_candidates():
    labels = sparse.csr_array(np.array([[1, 1, 0], [0, 0, 1]], dtype=bool))
    assert recall_of(np.array([[0, -1], [2, 1]]), labels) == pytest.approx(2 / 3)
    assert recall_of(np.array([[0, -1], [2, 1]]), sparse.csr_array((2, 3), dtype=bool)) == 1.0


def test_names_of_labels_are_texts_and_one_of_three_words():
    with pytest.raises(UserError, match="label_texts 'maybe': expected one of auto, yes, no"):
        TrainingConfig(model="shortlist", label_texts="maybe")
    data = many_labels.make()
    features = sparse.csr_array(np.eye(len(data), dtype=np.float32))
    data = Dataset(labels=data.labels, label_names=data.label_names, features=features)
    config = TrainingConfig(model="shortlist", label_texts="yes")
    with pytest.raises(UserError, match="label_texts: for texts, and this data holds features"):
        fit(data.select(np.arange(200)), data.select(np.arange(200, 240)), config)


def test_labels_of_a_hierarchy_come_with_their_ancestors_candidates_or_not(tmp_path):
    """Forty labels in eight groups, two of them one more level up; ancestors are new labels."""
    data = many_labels.make()
    links = {name: (f"group {int(name) % 8}",) for name in data.label_names}
    hierarchy = Hierarchy(links | {f"group {i}": ("top",) for i in range(2)})
    closed = data.with_ancestors(hierarchy)
    assert closed.label_names[40:] == (*(f"group {i}" for i in range(8)), "top")
    train, validation = closed.select(np.arange(200)), closed.select(np.arange(200, 240))
    settings = TrainingConfig(model="shortlist", candidates=4, regularisation=0.1)
    result = fit(train, validation, settings)
    assert result.figures["validation"]["micro_f1"] > 0.8
    result.model.save(tmp_path / "m")
    model = load(tmp_path / "m")
    assert model.hierarchy == Hierarchy.of_numbers(
        closed.label_names, hierarchy.numbered(closed.label_names)
    )
    outside = 0
    scores = model.predict_scores(TEST.texts)
    for one, candidates in zip(answer(model, TEST.texts), scores.labels, strict=True):
        names = [model.label_names[label] for label in one.chosen]
        assert set(hierarchy.with_ancestors(names)) == set(names)
        outside += len(set(one.chosen) - set(candidates.tolist()))
        for label in one.chosen:  # a label is at most as likely as those above it
            for above in model.decoder.ancestors[label].tolist():
                if above not in candidates:
                    assert one.probabilities[above] >= one.probabilities[label]
    assert outside


def of_many_features():
    """Samples of 300 large features that say nothing, and one small one for each label."""
    rng = np.random.default_rng(0)
    labels = np.eye(10, dtype=bool)[rng.integers(0, 10, 120)]
    noise = 1000 * rng.random((120, 300)) ** 20 + 2
    features = sparse.csr_array(np.hstack([labels, noise]).astype(np.float32))
    return Dataset(
        labels=sparse.csr_array(labels), label_names=tuple("abcdefghij"), features=features
    )


def test_candidates_of_features_as_given_are_those_that_validation_saw_scaled(tmp_path):
    """Of 301 features of a sample 256 are looked at: the same ones in any unit."""
    data = of_many_features()
    train, validation = data.select(np.arange(90)), data.select(np.arange(90, 120))
    settings = TrainingConfig(model="shortlist", candidates=3, regularisation=0.1, refit=False)
    result = fit(train, validation, settings)
    assert result.chosen["recall_of_candidates"] == 1.0
    result.model.save(tmp_path / "m")
    for model in (result.model, load(tmp_path / "m")):
        again = model.predict_scores(validation.features)
        np.testing.assert_array_equal(result.validation.scores.labels, again.labels)
        assert recall_of(again.labels, validation.labels) == 1.0


def test_a_rule_that_needs_all_labels_is_refused_before_training(monkeypatch):
    monkeypatch.setattr(shortlist_fit, "train_shortlist", lambda *given, **more: 1 / 0)
    data = many_labels.make()
    said = r"decode 'label_sets' reads the scores of all labels.* its rules are: auto, zero, "
    with pytest.raises(UserError, match=said):
        fit(data, data, TrainingConfig(model="shortlist", decode="label_sets"))


def test_features_too_small_for_single_precision_are_refused_before_training():
    data = of_many_features()
    tiny = sparse.csr_array(data.features * np.float32(1e-41))
    data = Dataset(labels=data.labels, label_names=data.label_names, features=tiny)
    with pytest.raises(UserError, match=r"feature 0 .* is nowhere above .*, too small to score"):
        fit(data, data, TrainingConfig(model="shortlist"))


@pytest.mark.parametrize("model", ["shortlist", "linear", "powerset"])
def test_a_validation_sample_out_of_all_proportion_is_refused_before_training(model):
    data = of_many_features()
    small = sparse.csr_array(data.features * np.float32(1e-20))
    train = Dataset(labels=data.labels, label_names=data.label_names, features=small)
    far = small.tolil()
    far[3, 0] = 1e30
    validation = replace(train, features=sparse.csr_array(far))
    with pytest.raises(
        UserError, match=r"feature 0 .* is up to 1e\+30 in the validation part, out"
    ):
        fit(train, validation, TrainingConfig(model=model))


def one_far_off(size, seed, far=0.0):
    """Features of which three decide on each label, and in the first sample one of them is far."""
    rng = np.random.default_rng(seed)
    labels = np.eye(20, dtype=bool)[rng.integers(0, 20, size)]
    features = np.repeat(labels, 3, axis=1) * (rng.random((size, 60)) < 0.6)
    features = features + (rng.random((size, 60)) < 0.08) * rng.random((size, 60))
    features[0, 0] = max(far, features[0, 0])
    return Dataset(
        labels=sparse.csr_array(labels),
        label_names=tuple(f"l{number}" for number in range(20)),
        features=sparse.csr_array(features.astype(np.float32)),
    )


@pytest.mark.parametrize("far", [1e3, 1e6, 1e12])
def test_one_sample_far_from_all_others_does_not_decide_on_the_rest(far):
    """Not on the blend, for which validation's loss is unbounded, and not on the fit to both."""
    train, test = one_far_off(300, seed=0), one_far_off(200, seed=1)
    settings = TrainingConfig(model="shortlist")
    expected = fit(train, one_far_off(80, seed=2), settings, test=test)
    result = fit(train, one_far_off(80, seed=2, far=far), settings, test=test)
    figures = [one.figures["test"]["micro_f1"] for one in (expected, result)]
    assert figures[1] > figures[0] - 0.03
    assert result.history[-1].step < 3 * expected.history[-1].step


def test_more_labels_than_there_are_candidates_are_refused(tmp_path):
    data = many_labels.make()
    with pytest.raises(UserError, match="top 9: there are scores of no more than 8 labels"):
        fit(data, data, TrainingConfig(model="shortlist", candidates=8, top=9))
    fit_many(candidates=8, regularisation=1.0, top=8).model.save(tmp_path / "m")
    assert main(["predict", str(tmp_path / "m"), "a text", "--top", "8"]) == 0
    assert main(["predict", str(tmp_path / "m"), "a text", "--top", "9"]) == 2

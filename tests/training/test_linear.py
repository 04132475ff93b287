import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import sparse

import zlpr
from tests.models import fitted
from zlpr._errors import UserError
from zlpr.data import Dataset, read
from zlpr.decoding import create
from zlpr.metrics import average_precision, micro_f1
from zlpr.training import Parts, TrainingConfig, fit, linear_checkpoint
from zlpr.training.fitting import fit_parts
from zlpr.training.linear_features import Scaling, _check_offsets, extract_features
from zlpr.training.objective import LinearObjective
from zlpr.training.regularisation import MOST_VALUES, TO_ITS_END, Search
from zlpr.training.solvers import Solution, WholeData, choose_solver


def same(one, other):
    assert one.chosen == other.chosen
    assert np.array_equal(one.model.weight, other.model.weight)
    assert np.array_equal(one.validation.scores, other.validation.scores)
    assert one.model.decoder.to_config() == other.model.decoder.to_config()
    assert [(h.stage, h.step, h.metric) for h in one.history] == [
        (h.stage, h.step, h.metric) for h in other.history
    ]


def short(loss):
    """Few epochs for a loss that trains in batches."""
    return {"epochs": 3} if loss == "dice2" else {}


@pytest.mark.parametrize("setting", [{"epochs": 3}, {"batch_size": 8}, {"learning_rate": 0.1}])
def test_what_a_fit_on_the_whole_data_has_no_use_for_is_refused(setting):
    (name,) = setting
    train, validation, _ = fitted.parts()
    with pytest.raises(UserError, match=f"{name}: zlpr is trained on the whole data at once"):
        fit(train, validation, TrainingConfig(**setting))


@pytest.mark.parametrize("loss", ["zlpr", "dice2"])
def test_the_same_seed_gives_the_same_bits_and_shared_features_the_same_model(loss):
    train, validation, _ = fitted.parts()
    config = TrainingConfig(loss=loss, **short(loss))
    parts = Parts(train, validation, None, {}, "published", 0)
    shared = fit_parts(parts, config, inputs=extract_features(train, validation))
    same(fit(train, validation, config), shared)


def test_validation_chooses_the_regularisation():
    train, validation, _ = fitted.parts()
    result = fit(train, validation, TrainingConfig(refit=False))
    *tried, last = result.history
    assert 2 <= len(tried) <= MOST_VALUES + 1
    best = max(tried, key=lambda line: line.metric)
    assert best.stage == f"regularisation {result.chosen['regularisation']:.3g}"
    assert last.stage == best.stage + TO_ITS_END
    assert last.metric == pytest.approx(_at_the_best_threshold(result.validation))
    fixed = fit(train, validation, TrainingConfig(regularisation=0.5, refit=False))
    assert fixed.chosen == {"regularisation": 0.5}
    assert len(fixed.history) == 1


def _at_the_best_threshold(part):
    rule = create("threshold").fit(part.truth, part.scores, "micro_f1")
    return micro_f1(part.truth, rule(part.scores))


def test_validation_may_choose_by_another_metric():
    train, validation, _ = fitted.parts()
    result = fit(train, validation, TrainingConfig(metric="average_precision", refit=False))
    *tried, last = result.history
    assert last.stage == max(tried, key=lambda line: line.metric).stage + TO_ITS_END
    precision = average_precision(validation.labels, result.validation.scores, empty="sklearn")
    assert last.metric == pytest.approx(precision)


def test_rough_fits_on_the_way_save_steps_and_the_chosen_one_goes_to_its_end(monkeypatch):
    train, validation, _ = fitted.parts()
    rough = fit(train, validation, TrainingConfig(refit=False))
    strength = rough.chosen["regularisation"]
    alone = fit(train, validation, TrainingConfig(regularisation=strength, refit=False))
    before = next(line for line in rough.history if f"{strength:.3g}" in line.stage)
    assert before.loss > 1.001 * alone.history[0].loss
    assert rough.history[-1].loss == pytest.approx(alone.history[0].loss, rel=1e-3)
    monkeypatch.setattr(Search, "fits_roughly", False)
    whole = fit(train, validation, TrainingConfig(refit=False))
    steps = [sum(line.step for line in result.history) for result in (rough, whole)]
    assert steps[0] < 0.9 * steps[1]


def test_a_loss_that_is_not_convex_starts_anew_at_every_regularisation(monkeypatch):
    """From an earlier fit it may be caught in a poor minimum, which cold it does not end in."""
    starts = []
    solve = WholeData.solve

    def watched(self, start, *rest, **options):
        starts.append(float(start[:-1].abs().max()))
        return solve(self, start, *rest, **options)

    monkeypatch.setattr(WholeData, "solve", watched)
    train, validation, _ = fitted.parts()
    for loss, is_cold in (("self_adjusting_dice", True), ("zlpr", False)):
        starts.clear()
        fit(train, validation, TrainingConfig(loss=loss, refit=False))
        assert len(starts) > 1
        assert all(largest == 0 for largest in starts[1:]) == is_cold


@pytest.mark.parametrize("loss", ["zlpr", "dice2"])
def test_at_last_the_weights_are_fitted_to_both_parts(loss):
    train, validation, _ = fitted.parts()
    settings = {"loss": loss, "regularisation": 0.5}
    once = fit(train, validation, TrainingConfig(**settings, refit=False))
    twice = fit(train, validation, TrainingConfig(**settings))
    assert twice.history[-1].stage == "training and validation part"
    # Everything that is chosen and shown is of the model that has not seen the validation part.
    np.testing.assert_array_equal(once.validation.scores, twice.validation.scores)
    assert once.model.decoder == twice.model.decoder
    assert once.figures["validation"] == twice.figures["validation"]
    texts = (*train.texts, *validation.texts)
    features = once.model.text_features.transform(texts)
    labels = sparse.csr_array(sparse.vstack([train.labels, validation.labels]))
    solver = choose_solver(features, labels, TrainingConfig(**settings))
    objective = LinearObjective(features, labels, solver.objective.loss)
    expected = objective(solver.solve(solver.start(), 0.5).parameters, 0.5)[0]
    fitted_, before = (
        objective(torch.from_numpy(np.vstack([model.weight, model.bias])), 0.5)[0]
        for model in (twice.model, once.model)
    )
    assert fitted_ == pytest.approx(expected, rel=5e-3)
    assert before > 1.02 * fitted_


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_the_scale_of_a_feature_makes_no_difference(make):
    generator = np.random.default_rng(0)
    features = sparse.random_array((200, 30), density=0.2, rng=generator).toarray()
    labels = sparse.csr_array(features[:, :4] > 0.3)
    scales = 10.0 ** generator.integers(-2, 3, 30)
    results = []
    for scaled in (features, features * scales):
        data = Dataset(labels=labels, label_names=tuple("abcd"), features=make(scaled))
        results.append(fit(data, data, TrainingConfig(refit=False)))
        np.testing.assert_allclose(
            results[-1].model.predict_scores(make(scaled)), results[-1].validation.scores, atol=1e-3
        )
    first, second = (result.chosen["regularisation"] for result in results)
    assert first == pytest.approx(second, rel=1e-3)
    np.testing.assert_allclose(*(result.validation.scores for result in results), atol=0.02)


def test_a_multiple_of_the_rows_scales_the_regularisation():
    """The solver itself, without the scaling of features: r grows with the squared length."""
    features = sparse.random_array((200, 30), density=0.2, rng=np.random.default_rng(0)).tocsr()
    labels = sparse.csr_array((features[:, :4] > 0.3).toarray())
    for loss in ("zlpr", "ranking"):
        one, ten = (
            choose_solver((features * scale).astype("f4"), labels, TrainingConfig(loss=loss))
            for scale in (1.0, 10.0)
        )
        assert ten.balance() == pytest.approx(100 * one.balance(), rel=1e-4)


def test_a_multiple_of_a_loss_gives_the_same_model():
    train, validation, _ = fitted.parts()
    one, ten = (
        fit(train, validation, TrainingConfig(loss="bce", loss_params={"label_weight": weight}))
        for weight in (1.0, 10.0)
    )
    assert ten.chosen["regularisation"] == pytest.approx(
        10 * one.chosen["regularisation"], rel=1e-3
    )
    np.testing.assert_allclose(ten.model.weight, one.model.weight, atol=0.05)


class KilledError(Exception):
    pass


@pytest.mark.parametrize(("loss", "kill_at"), [("zlpr", 2), ("zlpr", 3), ("dice2", 2)])
def test_a_killed_run_resumes_to_the_same_result(tmp_path, monkeypatch, loss, kill_at):
    monkeypatch.setattr(linear_checkpoint, "SECONDS_BETWEEN_SAVES", 0.0)
    train, validation, _ = fitted.parts()
    config = TrainingConfig(loss=loss, **short(loss))
    unbroken = fit(train, validation, config)
    seen = []

    def kill(line):
        seen.append(line.stage)
        if len(set(seen)) == kill_at and line.step >= 1 and line.metric is None:
            raise KilledError

    with pytest.raises(KilledError):
        fit(train, validation, config, checkpoint=tmp_path, progress=kill)
    steps = []
    resumed = fit(
        train,
        validation,
        config,
        checkpoint=tmp_path,
        progress=lambda line: steps.append(line) if line.metric is None else None,
    )
    same(resumed, unbroken)
    assert {line.stage for line in steps}.isdisjoint(
        sorted(set(seen), key=seen.index)[: kill_at - 1]
    )


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    train, validation, _ = fitted.parts()
    fit(train, validation, TrainingConfig(regularisation=1.0), checkpoint=tmp_path)
    with pytest.raises(UserError, match=r"another run .*loss"):
        fit(train, validation, TrainingConfig(loss="bce", regularisation=1.0), checkpoint=tmp_path)
    with pytest.raises(UserError, match=r"another run .*data"):
        fit(validation, validation, TrainingConfig(regularisation=1.0), checkpoint=tmp_path)


@pytest.mark.parametrize(
    "settings",
    [
        {"loss_params": {"pos_weight": 1e40}},
        {"loss": "ranking", "epochs": 3, "learning_rate": 1e38},
    ],
)
def test_an_objective_that_is_no_number_ends_the_run_and_blocks_no_other(tmp_path, settings):
    train, validation, _ = fitted.parts()
    told = []
    with pytest.raises(
        UserError, match=r"^the loss (zlpr \(pos_weight=1e\+40\)|ranking) is \w+ on"
    ):
        fit(
            train,
            validation,
            TrainingConfig(**settings),
            checkpoint=tmp_path / "state",
            progress=told.append,
        )
    assert all(np.isfinite(line.loss) for line in told)
    assert not (tmp_path / "state").exists()


def test_an_unreadable_checkpoint_is_named(tmp_path):
    train, validation, _ = fitted.parts()
    config = TrainingConfig(regularisation=1.0)
    fit(train, validation, config, checkpoint=tmp_path)
    (tmp_path / "path.safetensors").write_bytes(b"half a file")
    with pytest.raises(UserError, match=r"path\.safetensors: unreadable checkpoint"):
        fit(train, validation, config, checkpoint=tmp_path)


def test_a_label_that_training_never_saw_is_never_predicted():
    train, validation, _ = fitted.parts()
    names = (*train.label_names, "unseen")

    def widen(data, positives):
        column = sparse.csr_array(np.arange(len(data))[:, None] < positives)
        return Dataset(
            labels=sparse.csr_array(sparse.hstack([data.labels, column])),
            label_names=names,
            texts=data.texts,
        )

    for loss in ("zlpr", "bce", "lsep"):
        config = TrainingConfig(loss=loss, refit=False)
        result = fit(widen(train, 0), widen(validation, 5), config)
        assert np.isfinite(result.validation.scores).all()
        assert not any("unseen" in labels for labels in result.model.predict(validation.texts))


def test_dense_features_are_standardised_and_the_scores_are_those_of_the_raw_ones():
    generator = np.random.default_rng(0)
    features = (generator.normal(size=(90, 4)) * [1, 100, 1e-3, 1] + [0, 1000, 0, 5]).astype("f4")
    features[:, 3] = 5.0  # constant
    labels = sparse.csr_array(generator.random((90, 3)) < 0.4)
    data = Dataset(labels=labels, label_names=tuple("abc"), features=features)
    config = TrainingConfig(refit=False)
    result = fit(data.select(range(60)), data.select(range(60, 90)), config)
    np.testing.assert_allclose(
        result.model.predict_scores(features[60:]), result.validation.scores, atol=1e-3
    )
    scaled = Scaling.of(features).apply(features)
    np.testing.assert_allclose(scaled[:, :3].std(0), 1.0, rtol=1e-3)
    np.testing.assert_allclose(scaled.mean(0), 0.0, atol=1e-3)
    thin = sparse.csr_array([[0.0, -4.0], [0.0, 2.0]])
    assert Scaling.of(thin).apply(thin).toarray().tolist() == [[0.0, -1.0], [0.0, 0.5]]


def test_a_feature_that_training_lacks_is_scaled_as_validation_has_it():
    for kind in (np.asarray, sparse.csr_array):
        train, later = kind([[1.0, 0.0, 0.0], [3.0, 0.0, 0.0]]), kind([[9.0, 500.0, 0.0]])
        scaling = Scaling.of(train, later)
        assert (scaling.shift[1:] == 0).all()
        assert scaling.scale[1:].tolist() == [500.0, 1.0]
        assert scaling.scale[0] == Scaling.of(train).scale[0]


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_units_of_features_do_not_matter_though_training_lacks_some(kind):
    generator = np.random.default_rng(0)
    features = generator.random((160, 12)) * (generator.random((160, 12)) < 0.4)
    features[:100, 8:] = 0.0  # only the other parts have these
    labels = sparse.csr_array(features @ generator.normal(size=(12, 4)) > 0.2)
    units = np.array([1.0, 30.0, 0.1, 5.0] * 2 + [100.0, 1000.0, 1e-3, 1e4])
    scores = []
    for unit in (1.0, units):
        data = Dataset(labels=labels, label_names=tuple("abcd"), features=kind(features * unit))
        parts = (data.select(range(100)), data.select(range(100, 140)))
        model = fit(*parts, TrainingConfig(regularisation=0.3)).model
        scores.append(model.predict_scores(data.select(range(140, 160)).features))
    np.testing.assert_allclose(scores[1], scores[0], atol=0.05)


def test_features_that_cannot_be_used_are_named():
    labels = sparse.csr_array(np.eye(3, dtype=bool))

    def data(**inputs):
        return Dataset(labels=labels, label_names=tuple("abc"), **inputs)

    good = data(features=np.ones((3, 2)))
    with pytest.raises(UserError, match="NaN or infinite"):
        fit(data(features=np.full((3, 2), np.nan)), good, TrainingConfig())
    with pytest.raises(UserError, match=r"^train: 2 features, and validation has 4"):
        fit(good, data(features=np.ones((3, 4))), TrainingConfig())
    with pytest.raises(UserError, match=r"^train: some parts hold texts.*features in validation"):
        fit(data(texts=["x"] * 3), good, TrainingConfig())


@pytest.mark.parametrize("kind", ["linear", "powerset", "chain", "knn"])
@pytest.mark.parametrize("is_sparse", [(False, True), (True, False)])
def test_parts_may_be_dense_and_sparse(kind, is_sparse):
    """What is scaled by the training part is scaled alike, however its zeros are kept."""
    generator = np.random.default_rng(7)
    features = generator.poisson(3, (220, 4)).astype(np.float32) + np.float32([0, 50, 3, 100])
    labels = sparse.csr_array(np.stack([features[:, 0] > 3, features[:, 2] > 6], axis=1))

    def part(rows, as_sparse):
        given = sparse.csr_array(features[rows]) if as_sparse else features[rows]
        return Dataset(labels=labels[rows], label_names=("a", "b"), features=given)

    config = TrainingConfig.of({"model": kind, "decode": "zero"})
    rows = slice(0, 150), slice(150, 220)
    mixed = fit(*map(part, rows, is_sparse), config)
    alike = fit(*(part(each, is_sparse[0]) for each in rows), config)
    assert mixed.chosen == alike.chosen
    assert mixed.figures["validation"] == alike.figures["validation"]


def test_features_that_single_precision_cannot_tell_apart_are_refused():
    """Their figures would be of other features than the model is given later."""
    generator = np.random.default_rng(0)
    labels = sparse.csr_array(np.eye(3, dtype=bool)[generator.integers(3, size=60)])
    near = generator.normal(size=(60, 300))
    far = near.copy()
    far[:, 290] += 1e7
    with pytest.raises(UserError, match=r"feature 290 .* is about 1e\+07, give or take [01]"):
        extract_features(*_parts_of(labels, far))
    far[:, 290] = 1e7 / 3  # a constant is only that
    extract_features(*_parts_of(labels, far))
    _check_offsets(np.full((100_000, 2), 0.1))  # whose mean is rounded
    near[:, 290] += 1e4
    extract_features(*_parts_of(labels, near))


def _parts_of(labels, features):
    names = ("a", "b", "c")
    data = Dataset(labels=labels, label_names=names, features=features)
    return data.select(range(40)), data.select(range(40, 60))


def test_threads_and_the_global_generator_are_left_alone():
    train, validation, _ = fitted.parts()
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    fit(train, validation, TrainingConfig(loss="warp", epochs=1, regularisation=1.0))
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("params", [{"threshold": 3.0}, {"threshold": [3.0, -2.0, 1.0, 0.0, 2.0]}])
def test_scores_are_cut_at_zero_whatever_the_bound_of_the_loss(params):
    train, validation, test = fitted.parts()
    params = {
        name: (value * train.num_labels)[: train.num_labels] if isinstance(value, list) else value
        for name, value in params.items()
    }
    plain = fit(train, validation, TrainingConfig(regularisation=1.0))
    moved = fit(train, validation, TrainingConfig(regularisation=1.0, loss_params=params))
    scores = [result.model.predict_scores(test.inputs) for result in (plain, moved)]
    assert np.abs(scores[0] - scores[1]).max() < 0.1  # the biases take the bound
    assert np.abs(plain.validation.scores - moved.validation.scores).max() < 0.1


def table(rows, columns, **options):
    """A table of named columns, read as a file of it would be."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_text("\n".join([columns, *rows]) + "\n")
        return read(path, **options)


def test_a_missing_number_of_a_table_is_the_mean_of_training(tmp_path):
    generator = np.random.default_rng(0)
    ages = generator.normal(50, 10, 300).round(1)
    rows = [f"{age if i % 7 else ''},{int(age > 55)},{i % 2}" for i, age in enumerate(ages)]
    whole = table(rows, "age,old,odd", features="age")
    train, validation = whole.select(range(200)), whole.select(range(200, 300))
    model = fit(train, validation, TrainingConfig(regularisation=0.1, refit=False)).model
    there = [age for i, age in enumerate(ages[:200]) if i % 7]
    np.testing.assert_allclose(model.means[0], np.mean(there), rtol=1e-6)
    at_mean = model.predict_scores([[model.means[0], 1.0]])
    np.testing.assert_array_equal(model.predict_scores([[np.nan, 1.0]]), at_mean)
    model.save(tmp_path / "model")
    again = zlpr.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_scores([[np.nan, 1.0]]), at_mean)


def test_scores_of_a_table_do_not_depend_on_its_units():
    generator = np.random.default_rng(1)
    values = generator.normal(size=(300, 2)).round(3)
    rows = {
        scale: [f"{a * scale + 3 * scale},{b},{int(a > 0)},{int(b > 0.5)}" for a, b in values]
        for scale in (1.0, 1000.0)
    }
    scores = []
    for scaled in rows.values():
        whole = table(scaled, "a,b,first,second", labels=["first", "second"])
        config = TrainingConfig(regularisation=0.1)
        parts = (whole.select(range(200)), whole.select(range(200, 300)))
        scores.append(fit(*parts, config).model.predict_scores(whole.features))
    np.testing.assert_allclose(*scores, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("refit", [False, True])
def test_a_fit_that_goes_nowhere_is_said(refit, caplog, monkeypatch):
    """A loss whose gradient is not quite that of its value may show no way down."""

    def nowhere(self, start, regularisation, *rest, **options):
        return Solution(start.clone(), 1.0, 0, 0.0)

    train, validation, _ = fitted.parts()
    fit(train, validation, TrainingConfig(regularisation=1.0, refit=refit))
    assert not caplog.messages
    monkeypatch.setattr(WholeData, "solve", nowhere)
    result = fit(train, validation, TrainingConfig(loss="circle", refit=refit))
    assert not result.model.weight.any()
    assert "scores every sample alike" in caplog.messages[0]
    said = ["the weights are those of the training part alone" in line for line in caplog.messages]
    assert any(said) == refit

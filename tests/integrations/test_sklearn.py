import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from tests.models import fitted
from zlpr.decoding import SetPosterior
from zlpr.integrations.sklearn import MultiLabelClassifier
from zlpr.models.feature_config import FeatureConfig
from zlpr.models.features import TextFeatures
from zlpr.training.selection import choose_rule


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("loss", ["zlpr", "bce"])
def test_scikit_learns_own_checks_pass(loss):
    results = check_estimator(MultiLabelClassifier(loss), on_fail=None, on_skip=None)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert failed == {}
    passed = {r["check_name"] for r in results if r["status"] == "passed"}
    assert "check_classifiers_multilabel_representation_invariance" in passed
    assert "check_classifiers_multilabel_output_format_predict_proba" in passed


@pytest.fixture(scope="module")
def data():
    train, _, test = fitted.parts()
    vectorizer = TfidfVectorizer()
    return vectorizer.fit_transform(train.texts), train, vectorizer.transform(test.texts), test


def test_it_is_one_vs_rest_logistic_regression_for_binary_cross_entropy(data):
    X, train, Z, _ = data
    ours = MultiLabelClassifier(
        "bce", regularisation=1.0, decode="zero", tol=1e-9, max_iter=500
    ).fit(X, train.labels.toarray())
    theirs = OneVsRestClassifier(LogisticRegression(tol=1e-8)).fit(X, train.labels.toarray())
    np.testing.assert_allclose(ours.decision_function(Z), theirs.decision_function(Z), atol=2e-2)
    np.testing.assert_allclose(ours.predict_proba(Z), theirs.predict_proba(Z), atol=5e-3)


def test_labels_come_back_in_the_form_they_were_given(data):
    X, train, Z, _ = data
    indicator = train.labels.toarray()
    dense = MultiLabelClassifier(random_state=0).fit(X, indicator).predict(Z)
    from_sparse = MultiLabelClassifier(random_state=0).fit(X, train.labels).predict(Z)
    assert sparse.issparse(from_sparse)
    assert np.array_equal(from_sparse.toarray(), dense)
    for form in (set, frozenset, tuple, list):
        sets = [form(s) for s in train.label_sets()]
        classifier = MultiLabelClassifier(random_state=0).fit(X, sets)
        assert list(classifier.classes_) == list(train.label_names)
        names = np.array(train.label_names)
        assert classifier.predict(Z) == [set(names[row.astype(bool)]) for row in dense]
    assert (
        MultiLabelClassifier().fit(X.toarray(), indicator).predict(Z.toarray()).shape == dense.shape
    )


def test_the_score_is_subset_accuracy_for_every_form(data):
    X, train, Z, test = data
    by_matrix = MultiLabelClassifier(random_state=0).fit(X, train.labels.toarray())
    by_sets = MultiLabelClassifier(random_state=0).fit(X, [set(s) for s in train.label_sets()])
    expected = (by_matrix.predict(Z) == test.labels.toarray()).all(axis=1).mean()
    assert by_matrix.score(Z, test.labels.toarray()) == pytest.approx(expected)
    assert by_sets.score(Z, [set(s) for s in test.label_sets()]) == pytest.approx(expected)


def test_it_works_in_pipelines_searches_and_cross_validation(data):
    _, train, _, test = data
    pipeline = make_pipeline(TfidfVectorizer(), MultiLabelClassifier(regularisation=0.01))
    labels = train.labels.toarray()
    values = cross_val_score(pipeline, train.texts, labels, cv=3, scoring="f1_micro")
    assert (values > 0.4).all()
    grid = {"multilabelclassifier__regularisation": [100.0, 0.1]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(train.texts, labels)
    assert search.best_params_ == {"multilabelclassifier__regularisation": 0.1}
    assert search.predict(test.texts).shape == test.labels.shape
    sets = [set(s) for s in train.label_sets()]
    assert cross_val_score(clone(pipeline), train.texts, sets, cv=3).shape == (3,)


@pytest.mark.parametrize("decode", ["threshold", "expected_f1", "feature_count"])
def test_a_rule_may_be_fitted_on_a_part_held_out(data, decode):
    X, train, Z, test = data
    classifier = MultiLabelClassifier(decode=decode, random_state=0).fit(X, train.labels)
    assert classifier.decoder_.to_config()["rule"] == decode
    assert classifier.predict(Z).shape == test.labels.shape


def test_probabilities_are_fitted_on_the_part_held_out():
    generator = np.random.default_rng(0)
    y = np.eye(4, dtype=int)[generator.integers(4, size=1000)]  # one of four labels
    X = y + generator.normal(size=y.shape)
    classifier = MultiLabelClassifier(random_state=0).fit(X, y)
    assert isinstance(classifier.calibrator_, SetPosterior)
    chances = classifier.predict_proba(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, atol=0.05)
    bare = MultiLabelClassifier(random_state=0, decode="zero").fit(X, y)
    link = 1 / (1 + np.exp(-2 * bare.decision_function(X)))
    np.testing.assert_allclose(bare.predict_proba(X), link)


def test_a_seed_makes_fits_repeatable_and_the_bound_at_zero_needs_none(data):
    X, train, Z, _ = data
    for options in ({"random_state": 3}, {"decode": "zero"}):
        one, two = (MultiLabelClassifier(**options).fit(X, train.labels) for _ in range(2))
        np.testing.assert_array_equal(one.coef_, two.coef_)
        assert one.decoder_ == two.decoder_
        np.testing.assert_array_equal(one.predict_proba(Z), two.predict_proba(Z))


def test_a_loss_that_ranks_is_not_cut_at_zero(data):
    X, train, Z, _ = data
    classifier = MultiLabelClassifier("lsep", random_state=0).fit(X, train.labels.toarray())
    assert classifier.decoder_.to_config()["rule"] != "zero"
    assert 0 < classifier.predict(Z).sum(axis=1).mean() < 5


@pytest.mark.parametrize("decode", ["auto", "zero"])
def test_a_loss_may_be_given_in_its_short_form(data, decode):
    X, train, Z, _ = data
    short = clone(MultiLabelClassifier("zlpr:pos_weight=2", decode=decode, random_state=0))
    assert short.get_params()["loss"] == "zlpr:pos_weight=2"
    options = {"loss_params": {"pos_weight": 2}, "decode": decode, "random_state": 0}
    long = MultiLabelClassifier("zlpr", **options).fit(X, train.labels)
    np.testing.assert_array_equal(short.fit(X, train.labels).coef_, long.coef_)
    assert short.decoder_ == long.decoder_
    np.testing.assert_array_equal(short.predict_proba(Z), long.predict_proba(Z))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"regularisation": -1}, "regularisation -1: expected a number of at least 0"),
        ({"regularisation": float("inf")}, "regularisation inf"),
        ({"loss": "zlrp"}, "zlrp"),
        ({"loss": "zlpr:pos_weight=2", "loss_params": {"pos_weight": 2}}, "pos_weight given twice"),
        ({"decode": "threshold", "validation_fraction": 2}, "validation_fraction"),
        ({"loss_params": {"gamma": 1}}, "gamma"),
        ({"max_iter": 0}, "max_iter 0: expected a whole number of at least 1, or None"),
        ({"max_iter": 2.5}, "max_iter 2.5"),
        ({"tol": float("nan")}, "tol nan: expected a number of at least 0"),
        ({"loss_params": {"pos_weight": 1e40}}, r"the loss zlpr \(pos_weight=1e\+40\) is \w+ on"),
    ],
)
def test_wrong_options_are_named(data, options, message):
    X, train, _, _ = data
    with pytest.raises(ValueError, match=message):
        MultiLabelClassifier(**options).fit(X, train.labels)


@pytest.mark.parametrize("loss", ["zlpr", "hbm"])
def test_predictions_are_cut_at_the_bound_of_the_loss(data, loss):
    X, y = data[0], data[1].labels.toarray()
    at_zero = MultiLabelClassifier(loss, decode="zero").fit(X, y)
    at_three = MultiLabelClassifier(loss, loss_params={"threshold": 3.0}, decode="zero").fit(X, y)
    # The biases are not regularised, so that another bound only moves them.
    assert np.allclose(at_three.decision_function(X), at_zero.decision_function(X), atol=0.05)
    assert abs(at_three.score(X, y) - at_zero.score(X, y)) < 0.02


def test_a_column_of_zeros_needs_no_regularisation(data):
    X, y = data[0], data[1].labels.toarray()
    padded = np.hstack([X.toarray(), np.zeros((X.shape[0], 1))])
    fitted_model = MultiLabelClassifier(regularisation=0, max_iter=5).fit(padded, y)
    assert np.abs(fitted_model.coef_[:, :-1]).max() > 0.1
    assert not fitted_model.coef_[:, -1].any()


def test_a_label_that_fit_never_saw_counts_as_missed():
    X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]] * 10)
    sets = [{"a"}, {"b"}, {"a", "b"}, set()] * 10
    classifier = MultiLabelClassifier(regularisation=0.01).fit(X, sets)
    assert classifier.score(X[:4], sets[:4]) == 1.0
    assert classifier.score(X[:4], [{"a", "c"}, *sets[1:4]]) == 0.75
    assert classifier.score(X[:4], [{"c"}, *sets[1:4]], sample_weight=[1, 0, 0, 1]) == 0.5


@pytest.fixture
def numbers():
    """Features around 0 and an indicator that hangs on them."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(300, 6))
    noise = generator.normal(size=(300, 4))
    return X, (X @ generator.normal(size=(6, 4)) + noise > 0.5).astype(int)


@pytest.mark.parametrize("loss", ["lsep", "asymmetric"])
def test_a_stored_zero_is_no_label(loss):
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 6))
    y = (X[:, :4] + random.normal(size=(200, 4)) > 0.5).astype(int)
    stored = sparse.csr_array(np.ones_like(y))
    stored.data[:] = y.ravel()
    plain, same = (
        MultiLabelClassifier(loss, random_state=0).fit(X, labels) for labels in (y, stored)
    )
    assert np.array_equal(same.coef_, plain.coef_)
    assert np.array_equal(same.predict(X).toarray(), plain.predict(X))
    assert stored.nnz == y.size


@pytest.mark.parametrize("make", [sparse.coo_matrix, sparse.coo_array, sparse.csc_matrix])
def test_samples_of_no_weight_are_left_out_of_every_kind_of_matrix(make):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(60, 3))
    y = (X > 0).astype(int)
    weight = np.append(0.0, np.ones(59))
    weighted = MultiLabelClassifier(decode="zero").fit(X, make(y), sample_weight=weight)
    without = MultiLabelClassifier(decode="zero").fit(X[1:], make(y[1:]))
    np.testing.assert_allclose(weighted.coef_, without.coef_)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, lambda y: y.astype(float)])
def test_an_indicator_of_other_numbers_than_0_and_1_is_refused(numbers, make):
    X, y = numbers
    for wrong in (2 * y - 1, 2 * y):
        with pytest.raises(ValueError, match="an indicator has 0 where a sample lacks a label"):
            MultiLabelClassifier().fit(X, make(wrong))
    fitted_model = MultiLabelClassifier(decode="zero").fit(X, make(y))
    with pytest.raises(ValueError, match="y holds -1"):
        fitted_model.score(X, make(2 * y - 1))


@pytest.mark.parametrize("shift", [1e2, 1e4, -1e6])
@pytest.mark.parametrize("loss", ["zlpr", "focal"])
def test_where_features_lie_makes_no_difference(numbers, shift, loss):
    X, y = numbers
    plain = MultiLabelClassifier(loss, decode="zero").fit(X, y)
    moved = MultiLabelClassifier(loss, decode="zero").fit(X + shift, y)
    assert np.allclose(moved.coef_, plain.coef_, atol=2e-3)
    assert np.allclose(
        moved.decision_function(X + shift), plain.decision_function(X), rtol=1e-3, atol=1e-2
    )


def test_a_fit_that_is_not_at_its_end_warns(numbers):
    X, y = numbers
    with pytest.warns(ConvergenceWarning, match="not at its end after 2 iterations"):
        MultiLabelClassifier(max_iter=2, decode="zero").fit(X, y)
    with pytest.warns(ConvergenceWarning, match="sparse features far from 0"):
        MultiLabelClassifier(decode="zero").fit(sparse.csr_array(X + 1e4), y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MultiLabelClassifier(decode="zero").fit(X, y)
        MultiLabelClassifier(decode="zero").fit(sparse.csr_array(X * (X > 1)), y)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_features_beyond_single_precision_are_refused(numbers, make):
    X, y = numbers
    with pytest.raises(ValueError, match="too much to compute with in single precision"):
        MultiLabelClassifier().fit(make(1e19 * X), y)


@pytest.mark.parametrize("make", [list, pd.Series, lambda sets: np.array(sets, dtype=object)])
def test_sets_may_come_in_a_column(numbers, make):
    X, y = numbers
    sets = [{"abcd"[i] for i in np.flatnonzero(row)} for row in y]
    fitted_model = MultiLabelClassifier(decode="zero").fit(X, make(sets))
    assert fitted_model.classes_.tolist() == ["a", "b", "c", "d"]
    assert fitted_model.score(X, make(sets)) > 0.4


@pytest.mark.parametrize(
    ("one", "other"),
    [(("x", "y"), ("y", "z")), ("a", "a\0"), (2**63 + 1, -1), (("x",), ("y", 2)), (2.5, 1)],
)
def test_a_label_may_be_anything_that_has_an_order(numbers, one, other):
    X, y = numbers
    sets = [{one} if row[0] else {other} for row in y]
    fitted_model = MultiLabelClassifier(decode="zero", regularisation=0.01).fit(X, sets)
    kept = {(type(label), label) for label in fitted_model.classes_.tolist()}
    assert kept == {(type(label), label) for label in (one, other)}
    assert fitted_model.score(X, sets) > 0.7


@pytest.mark.parametrize(
    ("label", "message"), [(None, r"\(NoneType, int\)"), ("a", r"\(int, str\)")]
)
def test_labels_without_an_order_are_refused(numbers, label, message):
    X, y = numbers
    with pytest.raises(ValueError, match=message):
        MultiLabelClassifier().fit(X, [{label, 1} for _ in y])
    with pytest.raises(ValueError, match="NaN as a label"):
        MultiLabelClassifier().fit(X, [{float("nan")} for _ in y])
    with pytest.raises(ValueError, match="the set of every sample is empty"):
        MultiLabelClassifier().fit(X, [set() for _ in y])


def test_a_single_sample_is_fitted(numbers):
    X, y = numbers
    for row in range(20):
        fitted_model = MultiLabelClassifier().fit(X[row : row + 1], y[row : row + 1])
        assert np.isfinite(fitted_model.decision_function(X)).all()


# Losses that differ in how weights reach them: a sum over samples, one over the batch, one that
# counts labels first, one that is not convex and starts from the labels' odds.
WEIGHED = ["zlpr", "bce", "dice2", "distribution_balanced", "asymmetric"]


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("loss", WEIGHED)
def test_a_weight_is_as_many_samples(numbers, loss, make):
    X, y = numbers
    weight = np.arange(len(X)) % 4  # some count for nothing
    order = np.random.default_rng(1).permutation(len(X))
    options = {"loss": loss, "decode": "zero", "max_iter": 30}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        weighted = MultiLabelClassifier(**options).fit(
            make(X[order]), y[order], sample_weight=weight[order]
        )
        repeated = MultiLabelClassifier(**options).fit(
            make(X.repeat(weight, axis=0)), y.repeat(weight, axis=0)
        )
        plain = MultiLabelClassifier(**options).fit(make(X), y)
    np.testing.assert_array_equal(weighted.coef_, repeated.coef_)
    np.testing.assert_array_equal(weighted.intercept_, repeated.intercept_)
    assert np.abs(weighted.coef_ - plain.coef_).max() > 1e-3


def test_a_weight_is_as_many_texts(data):
    _, train, _, test = data
    sets = [set(labels) for labels in train.label_sets()]
    weight = np.arange(len(sets)) % 3
    copies = np.repeat(np.arange(len(sets)), weight)
    weighted = MultiLabelClassifier(decode="zero").fit(train.texts, sets, sample_weight=weight)
    repeated = MultiLabelClassifier(decode="zero").fit(
        [train.texts[copy] for copy in copies], [sets[copy] for copy in copies]
    )
    np.testing.assert_array_equal(
        weighted.decision_function(test.texts), repeated.decision_function(test.texts)
    )


def test_weights_count_in_the_rule_that_is_fitted():
    generator = np.random.default_rng(0)
    y = (generator.random((2000, 1)) < 0.5).astype(int)
    X = y + generator.normal(size=(2000, 1))
    y = np.hstack([y, 1 - y])
    options = {"decode": "per_label_threshold", "decode_metric": "macro_f1", "random_state": 0}
    rare = np.where(y[:, 0] == 1, 0.05, 1.0)  # no whole numbers: rows are drawn in proportion
    plain = MultiLabelClassifier(**options).fit(X, y)
    weighted = MultiLabelClassifier(**options).fit(X, y, sample_weight=rare)
    assert weighted.predict(X)[:, 0].mean() < 0.5 * plain.predict(X)[:, 0].mean()


def test_weights_do_not_make_believe_that_there_are_more_samples():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(400, 10))
    y = (X @ generator.normal(size=(10, 8)) + 3 * generator.normal(size=(400, 8)) > 3).astype(int)
    plain = MultiLabelClassifier(random_state=0, regularisation=1.0).fit(X, y)
    alike = MultiLabelClassifier(random_state=0, regularisation=5.0)  # of five times the losses
    alike.fit(X, y, sample_weight=np.full(400, 5))
    assert alike.decoder_.to_config()["rule"] == plain.decoder_.to_config()["rule"]
    np.testing.assert_array_equal(alike.predict(X), plain.predict(X))
    np.testing.assert_allclose(alike.predict_proba(X), plain.predict_proba(X), atol=1e-3)


def test_copies_of_a_held_out_sample_are_judged_together(monkeypatch, numbers):
    X, y = numbers
    given = []

    def choose(config, labels, part):
        given.append(part)
        return choose_rule(config, labels, part)

    monkeypatch.setattr("zlpr.integrations.sklearn.choose_rule", choose)
    weight = np.where(np.arange(len(X)) % 10, 1.0, 10.0)
    MultiLabelClassifier(random_state=0).fit(X, y, sample_weight=weight)
    groups, rows = given[0].groups, given[0].features
    assert len(groups) == round(0.2 * len(X)) > len(set(groups))
    np.testing.assert_array_equal(rows, X[groups])


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1.0], "inconsistent|shape"),
        (-1.0, "[Nn]egative"),
        (np.nan, "NaN"),
        (0.0, "zero"),
    ],
)
def test_wrong_weights_are_refused(numbers, weight, message):
    X, y = numbers
    given = np.full(len(X), weight) if np.isscalar(weight) else weight
    with pytest.raises(ValueError, match=message):
        MultiLabelClassifier().fit(X, y, sample_weight=given)


@pytest.mark.parametrize("make", [list, tuple, np.array, pd.Series, lambda x: np.array(x, object)])
def test_raw_texts_are_read_as_training_reads_them(data, make):
    _, train, _, test = data
    features = TextFeatures()
    X = features.fit_transform(sorted(set(train.texts)))
    classifier = MultiLabelClassifier(random_state=0, decode="zero")
    classifier.fit(make(train.texts), train.labels)
    assert classifier.text_features_.terms == features.terms
    assert classifier.coef_.shape == (train.num_labels, X.shape[1])
    by_hand = MultiLabelClassifier(random_state=0, decode="zero").fit(
        features.transform(train.texts), train.labels
    )
    np.testing.assert_array_equal(
        classifier.decision_function(make(test.texts)),
        by_hand.decision_function(features.transform(test.texts)),
    )


def test_a_rule_for_raw_texts_is_fitted_on_texts_that_the_features_have_not_seen(data):
    _, train, _, test = data
    config = FeatureConfig(analyzer="word", word_ngrams=(1, 1))
    classifier = MultiLabelClassifier(random_state=0, features=config).fit(
        train.texts, train.labels
    )
    assert classifier.text_features_.config == config
    truth = test.labels.toarray()
    assert f1_score(truth, classifier.predict(test.texts).toarray(), average="micro") > 0.4
    dense = train.labels.toarray()
    assert cross_val_score(clone(classifier), train.texts, dense, cv=3).shape == (3,)


@pytest.mark.parametrize("most", [None, 30])  # with as many columns nothing would be refused
def test_a_rule_that_reads_features_is_fitted_on_those_it_decides_by(data, monkeypatch, most):
    _, train, _, test = data
    given = []

    def choose(config, labels, part):
        given.append(part.features.toarray())
        return choose_rule(config, labels, part)

    monkeypatch.setattr("zlpr.integrations.sklearn.choose_rule", choose)
    config = FeatureConfig(analyzer="word", max_features=most)
    classifier = MultiLabelClassifier(decode="feature_count", features=config, random_state=0)
    classifier.fit(train.texts, train.labels)
    assert classifier.predict(test.texts).shape == test.labels.shape
    known = {row.tobytes() for row in classifier.text_features_.transform(train.texts).toarray()}
    assert known.issuperset(row.tobytes() for row in given[0])


def test_texts_and_numbers_are_told_apart(data):
    X, train, _, _ = data
    by_text = MultiLabelClassifier().fit(train.texts, train.labels)
    with pytest.raises(ValueError, match="X holds no texts, and this classifier was fitted to"):
        by_text.predict(X)
    with pytest.raises(ValueError, match="X is one text"):
        by_text.predict("a text")
    assert not hasattr(by_text, "n_features_in_")
    named = MultiLabelClassifier().fit(pd.DataFrame(X.toarray()).add_prefix("f"), train.labels)
    assert not hasattr(named.fit(train.texts, train.labels), "feature_names_in_")
    by_numbers = by_text.fit(X, train.labels)
    assert by_numbers.n_features_in_ == X.shape[1]
    with pytest.raises(ValueError, match="X holds texts, and this classifier was fitted to"):
        by_numbers.predict(train.texts)
    with pytest.raises(ValueError, match="X holds texts, but nan at place 1 is none"):
        MultiLabelClassifier().fit(pd.Series(["one", np.nan], dtype=object), [{"a"}, {"b"}])

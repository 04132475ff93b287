"""Rules around any classifier decide as the rules do, and scorers score as the metrics do."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import f1_score, label_ranking_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from zlpr import UserError, decoding
from zlpr.integrations._sklearn_decoding import scores_of
from zlpr.integrations.sklearn import DecodedClassifier, MultiLabelClassifier, Scorer
from zlpr.metrics import precision_at_k

X, Y = make_multilabel_classification(160, n_features=10, n_classes=4, random_state=0)
LINEAR = OneVsRestClassifier(LogisticRegression())


@pytest.mark.parametrize(
    "base",
    [
        LINEAR,
        OneVsRestClassifier(GaussianNB()),
        KNeighborsClassifier(),
        RandomForestClassifier(5),
        ClassifierChain(LogisticRegression()),
    ],
    ids=["decision_function", "predict_proba", "neighbours", "forest", "chain"],
)
def test_it_wraps_whatever_has_scores(base):
    model = DecodedClassifier(base, rule="threshold", cv=3).fit(X, Y)
    predicted = model.predict(X)
    assert predicted.shape == Y.shape
    assert np.array_equal(predicted, scores_of(model, X) > model.rule_.threshold)
    plain = DecodedClassifier(base, rule="zero", cv=3).fit(X, Y)
    if not isinstance(base, RandomForestClassifier):  # which is drawn anew; a tie is no label
        assert np.array_equal(plain.predict(X), plain.estimator_.predict(X))


@pytest.mark.parametrize("labels", [1, 4])
def test_sparse_labels_are_those_of_the_dense_ones_whatever_the_classifier_takes(labels):
    base = DecodedClassifier(KNeighborsClassifier(), "threshold", cv=3)
    dense = base.fit(X, Y[:, :labels]).predict(X)
    assert np.array_equal(base.fit(X, csr_array(Y[:, :labels])).predict(X), dense)


def test_a_label_that_a_fold_does_not_have_costs_nothing():
    rare = Y.copy()
    rare[:, 0], rare[:, 1] = np.arange(len(Y)) == 3, 1
    model = DecodedClassifier(KNeighborsClassifier(1), "threshold", cv=4).fit(X, rare)
    assert np.array_equal(model.predict(X), rare)
    assert (scores_of(model, X)[:, 1] == np.inf).all()


def test_a_decoded_classifier_within_a_pipeline_is_scored_as_by_itself():
    """Also where a label is always 1, for which its forest has one class."""
    rare = Y.copy()
    rare[:, 1] = 1
    decoded = DecodedClassifier(RandomForestClassifier(5, random_state=0), "threshold", cv=3)
    scaled = StandardScaler().fit(X)
    within = make_pipeline(scaled, decoded).fit(X, rare)
    alone = decoded.fit(scaled.transform(X), rare)
    for metric in ("average_precision", "micro_f1"):
        scorer = Scorer(metric)
        assert scorer(within, X, rare) == scorer(alone, scaled.transform(X), rare)


def test_the_rule_is_fitted_on_scores_of_samples_unseen():
    model = DecodedClassifier(LINEAR, rule="per_label_threshold", metric="macro_f1", cv=4).fit(X, Y)
    scores = cross_val_predict(LINEAR, X, Y, cv=4, method="decision_function")
    expected = decoding.create("per_label_threshold").fit(Y, scores, "macro_f1", empty="sklearn")
    assert model.rule_ == expected


def test_auto_takes_the_rule_that_choose_takes():
    model = DecodedClassifier(LINEAR, metric="subset_accuracy", cv=3).fit(X, Y)
    scores = cross_val_predict(LINEAR, X, Y, cv=3, method="decision_function")
    rules = decoding.by_preference(decoding.rules_of_scores())
    expected = decoding.choose(Y, scores, "subset_accuracy", rules=rules, empty="sklearn")
    assert model.rule_ == expected


def test_scorers_by_name_are_scikit_learns_where_it_has_them():
    found = cross_val_score(LINEAR, X, Y, cv=3, scoring=Scorer("macro_f1"))
    theirs = cross_val_score(LINEAR, X, Y, cv=3, scoring="f1_macro")
    np.testing.assert_allclose(found, theirs)
    model = LINEAR.fit(X, Y)
    samples = f1_score(Y, model.predict(X), average="samples", zero_division=0)
    assert Scorer("example_f1")(model, X, Y) == pytest.approx(samples)
    loss = label_ranking_loss(Y, model.decision_function(X))
    assert Scorer("ranking_loss")(model, X, Y) == pytest.approx(-loss)


def test_a_grid_search_goes_through_base_and_rule():
    grid = {"estimator__estimator__C": [0.1, 1.0], "rule": ["zero", "threshold"]}
    search = GridSearchCV(
        DecodedClassifier(LINEAR, cv=3), grid, scoring=Scorer("micro_f1"), cv=2
    ).fit(X, Y)
    assert search.best_params_.keys() == grid.keys()


def test_sample_weights_reach_the_classifier():
    weight = np.where(np.arange(len(X)) < 100, 1.0, 0.0)
    forest = RandomForestClassifier(5, random_state=0)
    model = DecodedClassifier(forest, rule="zero", cv=2).fit(X, Y, sample_weight=weight)
    alone = RandomForestClassifier(5, random_state=0).fit(X, Y, sample_weight=weight)
    assert np.array_equal(model.estimator_.predict(X), alone.predict(X))


def test_mistakes_say_what_to_do():
    with pytest.raises(ValueError, match="neither decision_function nor predict_proba"):
        DecodedClassifier(RidgeCV()).fit(X, Y)
    with pytest.raises(UserError, match="no decoding rule 'treshold'"):
        DecodedClassifier(LINEAR, rule="treshold").fit(X, Y)
    sets = [set(np.flatnonzero(row)) for row in Y]
    with pytest.raises(ValueError, match="MultiLabelBinarizer makes an"):
        DecodedClassifier(MultiLabelClassifier(), rule="threshold").fit(X, sets)
    with pytest.raises(ValueError, match="y holds more than 0 and 1"):
        DecodedClassifier(RandomForestClassifier(5), rule="threshold").fit(X, Y - Y[:, :1])
    with pytest.raises(ValueError, match="describes and does not judge"):
        Scorer("cardinality_true")
    with pytest.raises(UserError, match="macro"):
        Scorer("macro")


def test_one_label_per_sample_is_left_to_the_classifier():
    model = DecodedClassifier(LogisticRegression()).fit(X, Y[:, 0])
    alone = LogisticRegression().fit(X, Y[:, 0])
    assert model.rule_ is None
    assert np.array_equal(model.predict(X), alone.predict(X))


@parametrize_with_checks([DecodedClassifier(KNeighborsClassifier(), rule="threshold", cv=2)])
def test_it_is_an_estimator_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("metric", ["ps_precision_at_1", "macro_f1_tail"])
def test_a_scorer_does_not_know_the_frequencies_in_training(metric):
    with pytest.raises(ValueError, match="frequencies in training"):
        Scorer(metric)


def test_a_scorer_takes_any_k_and_no_other_convention():
    fitted = LINEAR.fit(X, Y)
    expected = precision_at_k(Y, fitted.decision_function(X), k=2)
    assert Scorer("precision_at_2")(fitted, X, Y) == pytest.approx(expected)
    with pytest.raises(ValueError, match="empty must be"):
        Scorer("micro_f1", empty="none")


def test_sparse_labels_are_decoded_as_dense_ones():
    dense = DecodedClassifier(LINEAR, "threshold", cv=3).fit(X, Y)
    thin = DecodedClassifier(LINEAR, "threshold", cv=3).fit(X, csr_array(Y))
    assert thin.rule_.to_config() == dense.rule_.to_config()

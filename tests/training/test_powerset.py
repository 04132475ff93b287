"""Label powerset: classes are the label sets seen, and only these can be predicted."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from tests.models import modes
from zlpr._errors import UserError
from zlpr.training import TrainingConfig, fit, solvers
from zlpr.training.linear_features import Scaling
from zlpr.training.powerset import draw_subsets, label_sets, unseen_share
from zlpr.training.sample_basis import SampleBasis


def test_it_predicts_as_a_softmax_regression_over_the_sets_does() -> None:
    train, _, test = modes.parts()
    scaling = Scaling.of(train.features)
    sets, which = label_sets(train.labels, np.arange(4))
    other = LogisticRegression(C=1.0, max_iter=500, tol=1e-6)
    other.fit(scaling.apply(train.features), which)
    expected = sets[other.predict(scaling.apply(test.features))]
    model = modes.result("powerset").model
    predicted = model.predict_scores(test.features) > 0
    assert (predicted == expected).all(axis=1).mean() > 0.97  # solvers stop elsewhere


def test_it_predicts_as_scikit_multilearn_does() -> None:
    predicted = modes.result("powerset").model.predict_scores(modes.parts()[2].features) > 0
    same = (predicted == modes.peer("powerset")).all(axis=1)
    assert same.mean() > 0.97  # solvers stop elsewhere


def test_it_learns_sets_that_labels_one_by_one_cannot() -> None:
    train, validation, test = modes.parts()  # with an exclusive or among the labels
    config = TrainingConfig(loss="bce", decode="zero", regularisation=1.0, refit=False)
    alone = fit(train, validation, config, test=test).figures["test"]["subset_accuracy"]
    assert modes.result("powerset").figures["test"]["subset_accuracy"] > alone + 0.1


def test_subsets_of_the_labels_share_a_basis_of_the_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(solvers, "pays", lambda *shape: True)
    made, make = [], SampleBasis.of
    monkeypatch.setattr(SampleBasis, "of", lambda rows: made.append(rows) or make(rows))
    train, validation, _ = (
        replace(part, features=sparse.csr_array(part.features)) for part in modes.parts()
    )
    config = TrainingConfig(model="powerset", subset_size=2, regularisation=1.0)
    fit(train.select(np.arange(40)), validation, config)
    assert len(made) == 1


def test_a_set_that_was_not_seen_is_counted_and_not_predicted() -> None:
    train = sparse.csr_array(np.array([[1, 0], [0, 1], [1, 0]], dtype=bool))
    other = sparse.csr_array(np.array([[1, 1], [0, 1], [0, 0], [1, 0]], dtype=bool))
    assert unseen_share(train, other) == 0.5
    result = modes.result("powerset")
    rows, _, test = modes.parts()
    assert result.chosen["label_sets"] == len(label_sets(rows.labels, np.arange(4))[0])
    assert result.chosen["unseen_share"] == unseen_share(rows.labels, modes.parts()[1].labels)
    seen = {tuple(row) for row in rows.labels.toarray()}
    predicted = result.model.predict_scores(test.features) > 0
    assert {tuple(row) for row in predicted} <= seen


def test_random_subsets_have_every_label() -> None:
    config = TrainingConfig(model="powerset", subset_size=3)
    subsets = draw_subsets(7, config)
    assert len(subsets) == 6
    assert all(len(set(one.tolist())) == 3 for one in subsets)
    assert {label for one in subsets for label in one.tolist()} == set(range(7))
    with pytest.raises(UserError, match="subsets 2: 7 labels, 3 at a time, need at least 3"):
        draw_subsets(7, TrainingConfig(model="powerset", subset_size=3, subsets=2))


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UserError, match="subsets: of how many labels"):
        TrainingConfig(model="powerset", subsets=3)
    with pytest.raises(UserError, match="set_scores 'mean': expected one of mode, marginal"):
        TrainingConfig(model="powerset", set_scores="mean")
    with pytest.raises(UserError, match="powerset is not trained with a loss"):
        TrainingConfig(model="powerset", loss="bce")


def test_the_regularisation_is_chosen_on_validation() -> None:
    result = modes.result("powerset", regularisation=None)
    tried = [line.metric for line in result.history]
    assert len(tried) > 1
    assert f"regularisation {result.chosen['regularisation']:.3g}" in {
        line.stage for line in result.history if line.metric == max(tried)
    }

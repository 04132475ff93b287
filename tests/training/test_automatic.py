import numpy as np
import pytest
from scipy import sparse

from tests import many_labels
from zlpr._errors import UserError
from zlpr.data import Dataset
from zlpr.training.automatic import MANY_LABELS, settle
from zlpr.training.parts import divide


def parts(labels):
    return divide(many_labels.make(60, labels))


@pytest.mark.parametrize(
    ("labels", "values", "model"),
    [
        (MANY_LABELS - 1, {}, "linear"),
        (MANY_LABELS, {}, "shortlist"),
        (MANY_LABELS, {"model": "linear"}, "linear"),
        (20, {"model": "shortlist"}, "shortlist"),
        (MANY_LABELS, {"loss": "focal"}, "linear"),
        (MANY_LABELS, {"loss": "bce", "regularisation": 1.0}, "shortlist"),
        (MANY_LABELS, {"mixup": 0.2}, "linear"),
        (MANY_LABELS, {"candidates": 20}, "shortlist"),
    ],
)
def test_many_labels_are_for_the_shortlist_unless_only_another_can(labels, values, model):
    assert settle({"model": "auto", **values}, parts(labels)).model == model


def test_dense_features_are_for_the_linear_model():
    data = many_labels.make(60, MANY_LABELS)
    features = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    dense = Dataset(labels=data.labels, label_names=data.label_names, features=features)
    assert settle({"model": "auto"}, divide(dense)).model == "linear"


@pytest.mark.parametrize(("columns", "model"), [(500, "linear"), (40_000, "shortlist")])
def test_given_features_are_for_the_shortlist_where_a_dense_layer_would_be_large(columns, model):
    data = many_labels.make(60, MANY_LABELS)
    features = sparse.random_array((60, columns), density=0.01, rng=0, dtype=np.float32).tocsr()
    given = Dataset(labels=data.labels, label_names=data.label_names, features=features)
    assert settle({"model": "auto"}, divide(given)).model == model


def test_settings_of_the_shortlist_are_not_for_few_labels_unless_it_is_named():
    said = "candidates: for shortlist, which auto takes .* from 500 labels on, and there are 20"
    with pytest.raises(UserError, match=said):
        settle({"model": "auto", "candidates": 20}, parts(20))
    with pytest.raises(UserError, match="model linear has no setting 'candidates'"):
        settle({"model": "auto", "candidates": 20, "mixup": 0.2}, parts(20))

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from tests.models import fitted
from zlpr._errors import UserError
from zlpr.models.inputs import feature_matrix, list_texts

TEXTS = ["good value", "bad smell", ""]


@pytest.mark.parametrize(
    "given",
    [tuple, np.array, pd.Series, iter, lambda texts: pd.Series(texts, index=[7, 3, 5])],
)
def test_texts_come_in_anything_that_has_an_order(given):
    assert list_texts(given(TEXTS)) == TEXTS
    model = fitted.result().model
    assert model.predict(given(TEXTS)) == model.predict(TEXTS)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (pd.DataFrame({"text": TEXTS}), "one column of the table"),
        (np.array([TEXTS]), "one column of the table"),
        ({"text": TEXTS}, "not a dict"),
        (set(TEXTS), "not a set"),
        ("good value", "not a str"),
        (b"good value", "not a bytes"),
        (None, "not a NoneType"),
        (np.array("good value"), "not a ndarray"),
        (["good value", float("nan")], "entry 1 is a float"),
        ([["good value"]], "entry 0 is a list"),
    ],
)
def test_what_would_be_read_wrongly_is_refused(given, message):
    with pytest.raises(UserError, match=message):
        list_texts(given)
    with pytest.raises(UserError, match="list of strings"):
        fitted.result().model.predict(given)


@pytest.mark.parametrize(
    "make", [np.asarray, sparse.csr_array, sparse.lil_array, sparse.dok_array, pd.DataFrame, list]
)
def test_features_come_as_any_matrix(make):
    rows = [[0.0, 1.5], [2.0, 0.0]]
    given = feature_matrix(make(rows), 2)
    assert np.array_equal(given.toarray() if sparse.issparse(given) else given, rows)
    assert feature_matrix(np.array(rows, dtype=object), 2).dtype == np.float64


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["one", "two"], "features, not texts"),
        (pd.DataFrame({"a": ["one"], "b": ["two"]}), "features, not texts"),
        ({"a": 1}, "features, not texts"),
        ([[0.0, float("nan")]], "NaN or infinite"),
        (sparse.csr_array([[0.0, float("inf")]]), "NaN or infinite"),
        ([[0.0, -1e39]], "hold -1e[+]39, too large to score"),
        (sparse.csr_array([[0.0, 3e38]]), "hold 3e[+]38, too large to score"),
        ([[1.0]], r"2 features a sample, got a matrix of shape \(1, 1\)"),
        (pd.Series([1.0, 2.0]), r"got a matrix of shape \(2,\)"),
    ],
)
def test_what_is_no_matrix_of_numbers_is_refused(given, message):
    with pytest.raises(UserError, match=message):
        feature_matrix(given, 2)

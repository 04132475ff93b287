import numpy as np
import pytest
from scipy import sparse

from zlpr._errors import UserError
from zlpr.decoding._feature_columns import MOST_COLUMNS, condense


def test_few_columns_stay_as_they_are():
    features = np.random.default_rng(0).normal(size=(5, 7))
    np.testing.assert_array_equal(condense(features), features)
    np.testing.assert_array_equal(condense(sparse.csr_array(features)), features)


def test_many_columns_keep_inner_products_on_average_dense_and_sparse_alike():
    generator = np.random.default_rng(1)
    features = np.where(generator.random((200, 5000)) < 0.01, generator.normal(size=(200, 5000)), 0)
    small = condense(sparse.csr_array(features))
    assert small.shape == (200, MOST_COLUMNS)
    np.testing.assert_allclose(condense(features), small, atol=1e-12)
    gram, kept = features @ features.T, small @ small.T
    assert np.diag(kept).mean() == pytest.approx(np.diag(gram).mean(), rel=0.05)
    off = ~np.eye(200, dtype=bool)
    assert abs((kept - gram)[off].mean()) < 0.1


def test_other_columns_than_in_fitting_are_refused():
    with pytest.raises(UserError, match="features has 3 columns, the rule was fitted on 4"):
        condense(np.zeros((1, 3)), columns=4)

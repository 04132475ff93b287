import numpy as np
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from zlpr.decoding._logistic import conditional_regression, logistic_regression


def test_regression_is_sklearns():
    generator = np.random.default_rng(4)
    features = generator.normal(size=(300, 3))
    targets = features @ [1.0, -2.0, 0.5] + generator.normal(size=300) > 0.3
    # scikit-learn leaves the intercept free, so it is given as a feature
    design = np.concatenate([features, np.ones((300, 1))], axis=1)
    theirs = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000)
    theirs.fit(design, targets)
    ours = logistic_regression(features, targets)
    np.testing.assert_allclose(ours, theirs.coef_[0], atol=1e-6)


def test_conditional_regression_is_the_minimum_that_scipy_finds():
    generator = np.random.default_rng(0)
    terms = generator.normal(size=(80, 5, 3)) * [1.0, 10.0, 0.1]
    valid = generator.random((80, 5)) < 0.8
    valid[:, 0] = True
    pull = terms @ [1.0, 0.05, -3.0] + generator.gumbel(size=(80, 5))
    hit = np.eye(5, dtype=bool)[np.where(valid, pull, -np.inf).argmax(axis=1)]
    scale = terms[valid].std(axis=0)

    def penalised(weights):
        values = np.where(valid, terms @ (weights / scale), -np.inf)
        likelihood = (values[hit] - np.log(np.exp(values).sum(axis=1))).sum()
        return 0.5 * (weights**2).sum() - likelihood

    theirs = minimize(penalised, np.zeros(3), method="BFGS", options={"gtol": 1e-8}).x / scale
    np.testing.assert_allclose(conditional_regression(terms, valid, hit), theirs, rtol=1e-4)


def test_terms_that_never_vary_and_no_samples_weigh_nothing():
    terms = np.zeros((4, 3, 2))
    hit = np.eye(3, dtype=bool)[[0, 1, 2, 0]]
    assert conditional_regression(terms, np.ones((4, 3), bool), hit).tolist() == [0.0, 0.0]
    nothing = conditional_regression(terms[:0], np.ones((0, 3), bool), hit[:0])
    assert nothing.tolist() == [0.0, 0.0]

import numpy as np
import scipy.optimize

from zlpr.training.span_lbfgs import InSpan, minimise_in_span


def logistic_regression(features, signs, regularisation, **options):
    """Its minimum by its weights, as scipy finds it, and by its coefficients."""

    def of_weights(weights):
        margins = signs * (features @ weights)
        value = np.logaddexp(0, -margins).sum() + regularisation / 2 * weights @ weights
        slopes = -signs / (1 + np.exp(margins))
        return value, features.T @ slopes + regularisation * weights

    start = np.zeros(features.shape[1])
    expected = scipy.optimize.minimize(of_weights, start, jac=True, tol=1e-10)
    kernel = (features @ features.T).astype(np.float32)
    zero = np.zeros(len(features), dtype=np.float32)
    found = minimise_in_span(
        lambda scores: (
            float(np.logaddexp(0, -signs * scores).sum()),
            (-signs / (1 + np.exp(signs * scores))).astype(np.float32),
        ),
        lambda vector: kernel @ vector,
        InSpan(zero, zero),
        regularisation,
        **options,
    )
    return expected, found


def test_the_minimum_is_that_of_the_weights_themselves():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(30, 8))
    signs = np.sign(features[:, 0] + 0.5 * rng.normal(size=30))
    values = []
    expected, found = logistic_regression(
        features,
        signs,
        0.5,
        tolerance=1e-8,
        max_iterations=200,
        callback=lambda _, value: values.append(value),
    )
    assert abs(found.value - expected.fun) < 1e-4
    weights = features.T @ found.weights.coefficients
    np.testing.assert_allclose(weights, expected.x, atol=2e-2)
    assert values == sorted(values, reverse=True)
    assert len(values) <= found.iterations


def test_a_start_at_the_minimum_stays_there():
    zero = np.zeros(3, dtype=np.float32)
    start = InSpan(zero, zero)
    found = minimise_in_span(
        lambda scores: (float((scores**2).sum()), 2 * scores), lambda v: v, start, 1.0
    )
    assert found.value == 0.0
    assert not found.weights.scores.any()


def test_one_short_step_does_not_end_a_fit():
    """A label of thousands of cells bends the objective a thousand times as much as the others."""
    rng = np.random.default_rng(3)
    features = rng.normal(size=(60, 20))
    features[:, 0] = 30.0
    signs = np.sign(rng.normal(size=60) + 0.3)
    expected, found = logistic_regression(features, signs, 0.01, max_iterations=400)
    start = 60 * np.log(2)
    assert found.value - expected.fun < 0.02 * (start - expected.fun)


def test_changes_too_small_to_be_squared_are_not_divided_by():
    zero, target = np.zeros(2, dtype=np.float32), np.array([1e-20, 2e-20])
    found = minimise_in_span(
        lambda scores: (
            float(5e-4 * ((scores - target) ** 2).sum()),
            (1e-3 * (scores - target)).astype(np.float32),
        ),
        lambda vector: vector,
        InSpan(zero, zero),
        1e-6,
    )
    assert found.value < 0.2 * 5e-4 * (target**2).sum()

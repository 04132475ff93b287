import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from zlpr.training.lbfgs import last_tenth, minimise


def quadratic(seed: int, size: int, condition: float):
    """A convex quadratic with its minimum, and the diagonal of its Hessian."""
    generator = torch.Generator().manual_seed(seed)
    scales = torch.logspace(0, math.log10(condition), size, dtype=torch.float64)
    mix = torch.eye(size, dtype=torch.float64)
    mix += 0.1 * torch.randn(size, size, generator=generator, dtype=torch.float64) / size**0.5
    hessian = scales.sqrt()[:, None] * (mix @ mix.T) * scales.sqrt()
    lowest = torch.randn(size, generator=generator, dtype=torch.float64)

    def objective(x):
        return float((x - lowest) @ hessian @ (x - lowest)) / 2, hessian @ (x - lowest)

    return objective, lowest, hessian.diagonal()


@given(st.integers(0, 1000), st.integers(1, 30))
@settings(max_examples=25, deadline=None)
def test_the_minimum_of_a_quadratic_is_found(seed, size):
    objective, lowest, _ = quadratic(seed, size, 100.0)
    found = minimise(objective, torch.zeros_like(lowest), tolerance=0.0, max_iterations=300)
    torch.testing.assert_close(found.parameters, lowest, rtol=1e-3, atol=1e-3)


def test_the_diagonal_of_the_hessian_makes_a_badly_scaled_problem_easy():
    objective, lowest, diagonal = quadratic(0, 200, 1e6)
    start = torch.zeros_like(lowest)
    plain = minimise(objective, start, tolerance=1e-9, max_iterations=500)
    scaled = minimise(
        objective, start, preconditioner=1 / diagonal, tolerance=1e-9, max_iterations=500
    )
    assert scaled.converged
    assert scaled.value < 1e-4
    assert scaled.iterations * 3 < plain.iterations


def test_it_agrees_with_scipy_on_a_function_that_is_not_convex():
    def objective(x):
        value, gradient = optimize.rosen(x.numpy()), optimize.rosen_der(x.numpy())
        return float(value), torch.from_numpy(gradient)

    start = torch.tensor([-1.2, 1.0, 0.7], dtype=torch.float64)
    ours = minimise(objective, start, tolerance=0.0, max_iterations=500)
    assert np.allclose(ours.parameters, 1.0, atol=1e-3)
    assert start.tolist() == [-1.2, 1.0, 0.7]


def test_the_value_never_rises_and_the_callback_sees_it():
    objective, lowest, _ = quadratic(3, 20, 1e4)
    seen = []
    found = minimise(objective, torch.zeros_like(lowest), callback=seen.append)
    assert len(seen) == found.iterations
    assert all(step.decrease >= 0 for step in seen)
    assert seen[-1].value == found.value


def test_values_that_overflow_make_the_step_shorter():
    def objective(x):
        value = torch.exp(-x) + torch.exp(50 * (x - 1))
        return float(value), -torch.exp(-x) + 50 * torch.exp(50 * (x - 1))

    found = minimise(objective, torch.tensor([-20.0]), tolerance=0.0, max_iterations=400)
    assert math.isfinite(found.value)
    assert found.value < 0.5


def test_a_start_at_the_minimum_ends_at_once():
    found = minimise(lambda x: (0.0, torch.zeros_like(x)), torch.ones(3))
    assert found.converged
    assert found.evaluations == 1


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_stopping_depends_on_neither_scale_nor_offset(scale, offset):
    objective, lowest, diagonal = quadratic(1, 50, 1e3)

    def changed(x):
        value, gradient = objective(x)
        return scale * (value + offset), scale * gradient

    start = torch.zeros_like(lowest)
    expected = minimise(objective, start, preconditioner=1 / diagonal, tolerance=1e-3)
    found = minimise(changed, start, preconditioner=1 / diagonal / scale, tolerance=1e-3)
    assert found.iterations == expected.iterations


def test_what_is_left_above_the_floor_counts_where_it_is_less_than_the_gain():
    objective, lowest, diagonal = quadratic(1, 50, 1e3)

    def run(floor):
        start = torch.full_like(lowest, 1000.0)  # far away, so that nearly all is gained at once
        return minimise(objective, start, preconditioner=1 / diagonal, floor=floor, tolerance=1e-3)

    loose, strict = run(None), run(0.0)
    assert strict.iterations > loose.iterations
    assert strict.value < 1e-3 * loose.value


def test_the_last_tenth_is_a_share_of_the_gain():
    values = [100.0, *(50.0 - i for i in range(20))]
    assert last_tenth(values, 100.0) == pytest.approx(2 / 69)
    assert last_tenth([3.0], 3.0) == 0.0
    assert last_tenth([3.0, 2.0], 7.0) == pytest.approx(0.2)


def test_a_sum_of_hinges_is_minimised():
    generator = torch.Generator().manual_seed(0)
    directions = torch.randn(400, 8, generator=generator, dtype=torch.float64)

    def hinges(x):
        margins = 1 - directions @ x + directions[:, 0]
        active = (margins > 0).double()
        return float((margins * active).sum() + x @ x / 2), x - directions.T @ active

    found = minimise(
        hinges, torch.zeros(8, dtype=torch.float64), tolerance=1e-6, max_iterations=500
    )
    theirs = optimize.minimize(
        lambda x: hinges(torch.from_numpy(x))[0],
        np.zeros(8),
        method="Nelder-Mead",
        options={"maxfev": 40_000, "maxiter": 40_000, "xatol": 1e-6, "fatol": 1e-8},
    )
    assert found.value <= theirs.fun * (1 + 1e-4)


def test_the_first_step_is_no_longer_than_allowed():
    seen = []

    def bowl(x):
        seen.append(x.clone())
        return float((x - 30).square().sum()), 2 * (x - 30)

    found = minimise(bowl, torch.zeros(2), preconditioner=torch.ones(2), first_step=0.5)
    assert (seen[1] - seen[0]).abs().max() == 0.5
    torch.testing.assert_close(found.parameters, torch.full((2,), 30.0))

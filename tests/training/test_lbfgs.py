import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from zlpr.training.lbfgs import minimise


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
    assert [step.iteration for step in seen] == list(range(1, found.iterations + 1))
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

import numpy as np
import pytest
import torch
from scipy import sparse

from zlpr.losses import registry
from zlpr.models.mixed_matrix import MixedMatrix
from zlpr.training import objective as module
from zlpr.training.objective import LinearObjective


def problem(samples=60, features=15, labels=5, seed=0):
    generator = np.random.default_rng(seed)
    X = sparse.random_array(
        (samples, features), density=0.3, rng=generator, dtype=np.float32
    ).tocsr()
    Y = sparse.csr_array(generator.random((samples, labels)) < [0.6, 0.3, 0.2, 0.1, 0.0][:labels])
    parameters = torch.from_numpy(generator.normal(size=(features + 1, labels)).astype(np.float32))
    return X, Y, parameters


def naive(X, Y, parameters, name, regularisation):
    """Value and gradient in float64 by autograd over dense matrices."""
    parameters = parameters.double().requires_grad_()
    scores = torch.from_numpy(X.toarray()).double() @ parameters[:-1] + parameters[-1]
    loss = registry.create(name, reduction="sum")(scores, torch.from_numpy(Y.toarray()))
    value = loss + regularisation / 2 * parameters[:-1].square().sum()
    value.backward()
    return float(value.detach()), parameters.grad


@pytest.mark.parametrize("name", ["zlpr", "bce", "focal", "lsep"])
@pytest.mark.parametrize("dense", [False, True])
def test_value_and_gradient_are_those_of_the_formula(name, dense, monkeypatch):
    X, Y, parameters = problem()
    loss = registry.create(name, reduction="none")
    expected, gradient = naive(X, Y, parameters, name, 0.7)
    for cells in (2**24, 60):  # in one block, and in blocks of twelve samples
        monkeypatch.setattr(module, "BLOCK_CELLS", cells)
        ours = LinearObjective(X.toarray() if dense else X, Y, loss)
        value, found = ours(parameters, 0.7)
        assert value == pytest.approx(expected, rel=1e-5)
        torch.testing.assert_close(found.double(), gradient, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [4, 7, 256])
def test_rows_of_a_triangle_are_multiplied_up_to_their_end(rows, monkeypatch):
    """The dense columns beside it are whole, and so is the one sample without a feature."""
    monkeypatch.setattr(module, "ROWS_OF_A_PIECE", rows)
    X, Y, parameters = problem(samples=20, features=15)
    triangle = np.tril(np.random.default_rng(1).normal(size=(20, 11))).astype(np.float32)
    triangle[3] = 0.0
    beside = X.toarray()[:, :4]
    loss = registry.create("zlpr", reduction="none")
    ours = LinearObjective(MixedMatrix(triangle, beside), Y, loss)
    value, found = ours(parameters, 0.7)
    dense = sparse.csr_array(np.concatenate([triangle, beside], axis=1))
    expected, gradient = naive(dense, Y, parameters, "zlpr", 0.7)
    assert value == pytest.approx(expected, rel=1e-5)
    torch.testing.assert_close(found.double(), gradient, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["zlpr", "hbm", "asymmetric", "warp"])
def test_lines_have_the_objective_and_its_gradient_from_end_to_end(name):
    X, Y, parameters = problem()
    ours = LinearObjective(X, Y, registry.create(name, reduction="none"), torch.zeros(5))
    along = ours.on_lines(0.7)
    generator = torch.Generator().manual_seed(0)
    for accepted in (0.5, 0.1, 1.0):  # the second and third go on from what the first one knows
        direction = torch.randn(parameters.shape, generator=generator)
        trial = along(parameters, direction)
        for length in (1.0, 0.3):  # looked at and left
            expected, _ = ours(parameters - length * direction, 0.7)
            assert trial(length)[0] == pytest.approx(expected, rel=1e-5)
        value, gradient_at = trial(accepted)
        parameters = parameters - accepted * direction
        expected, gradient = ours(parameters, 0.7)
        assert value == pytest.approx(expected, rel=1e-5)
        torch.testing.assert_close(gradient_at(parameters), gradient, rtol=1e-4, atol=1e-4)


def test_a_line_back_to_no_weights_ends_at_no_penalty_and_not_below():
    X, Y, parameters = problem()
    ours = LinearObjective(X, Y, registry.create("zlpr", reduction="none"), torch.zeros(5))
    nothing = ours.start()
    nothing[-1] = parameters[-1]
    expected, _ = ours(nothing, 1e12)
    direction = parameters.clone()
    direction[-1] = 0.0
    for scale in (0.1, 0.3, 0.7, 1.1, 1.9, 3.3):
        away = parameters.clone()
        away[:-1] *= scale
        value, _ = ours.on_lines(1e12)(away, direction)(float(np.float32(scale)))
        assert value >= expected * (1 - 1e-5)


def test_scores_of_many_cells_are_not_held_for_lines(monkeypatch):
    monkeypatch.setattr(module, "BLOCK_CELLS", 60)
    X, Y, _ = problem()
    assert LinearObjective(X, Y, registry.create("zlpr", reduction="none")).on_lines(1.0) is None


def test_the_start_has_the_best_biases_without_weights():
    X, Y, _ = problem()
    ours = LinearObjective(X, Y, registry.create("bce", reduction="none"))
    start = ours.start()
    assert not start[:-1].any()
    shares = torch.sigmoid(start[-1])
    torch.testing.assert_close(
        shares[:-1].numpy(), Y.toarray().mean(0)[:-1], rtol=0.02, atol=0.002, check_dtype=False
    )
    assert shares[-1] < 0.02  # a label that no sample has
    assert ours.reference == pytest.approx(ours(start, 5.0)[0], rel=1e-5)


def test_the_preconditioner_lies_between_the_start_and_equal_labels():
    X, Y, _ = problem(samples=4000, labels=3)
    ours = LinearObjective(X, Y, registry.create("bce", reduction="none"))
    shares = Y.toarray().mean(0)
    curvature = shares * (1 - shares)  # of binary cross entropy at its best bias
    squares = X.multiply(X).sum(0)
    expected = 1 / (np.outer(squares, np.sqrt(curvature * curvature.mean())) + 2.0)
    found = ours.preconditioner(2.0)
    np.testing.assert_allclose(found[:-1], expected, rtol=0.05)
    own = 1 / (4000 * np.sqrt(curvature * curvature.mean()))
    assert (own < found[-1].numpy()).all()
    assert (found[-1].numpy() < 1 / (1 / expected).mean(0)).all()
    length = squares.sum() / 4000
    assert ours.balance() == pytest.approx(length * curvature.sum(), rel=0.02)


@pytest.mark.parametrize("name", ["dice2", "sigmoid_f1", "two_way"])
def test_a_loss_over_the_batch_sees_all_samples_as_one(name, monkeypatch):
    monkeypatch.setattr(module, "BLOCK_CELLS", 60)
    X, Y, parameters = problem()
    ours = LinearObjective(X, Y, registry.create(name), torch.zeros(5), over_batch=True)
    value, found = ours(parameters, 0.7)
    exact = parameters.double().requires_grad_()
    scores = torch.from_numpy(X.toarray()).double() @ exact[:-1] + exact[-1]
    loss = registry.create(name)(scores, torch.from_numpy(Y.toarray()))
    expected = 60 * loss + 0.35 * exact[:-1].square().sum()
    expected.backward()
    assert value == pytest.approx(float(expected.detach()), rel=1e-5)
    torch.testing.assert_close(found.double(), exact.grad, rtol=1e-4, atol=1e-4)
    assert ours.reference == pytest.approx(ours(ours.start(), 3.0)[0], rel=1e-5)


def test_equal_label_sets_are_found():
    labels = sparse.csr_array(np.array([[1, 0, 1], [0, 0, 0], [1, 0, 1], [0, 1, 0]], dtype=bool))
    first, counts = module._distinct_rows(labels)
    found = {
        tuple(labels[[row]].toarray()[0]): count for row, count in zip(first, counts, strict=True)
    }
    assert found == {(True, False, True): 2, (False, False, False): 1, (False, True, False): 1}

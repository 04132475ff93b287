import gc

import numpy as np
import pytest
import torch
from scipy import sparse

from zlpr.models.mixed_matrix import MixedMatrix
from zlpr.training import LinearConfig, solvers
from zlpr.training.sample_basis import SampleBases, SampleBasis, pays
from zlpr.training.solvers import Earlier, WholeData, choose_solver, features_of_fit, memory_of_fit


def rows_of(samples, features, seed=0):
    random = np.random.default_rng(seed)
    dense = random.random((samples, features)) * (random.random((samples, features)) < 0.1)
    return sparse.csr_array(dense.astype(np.float32))


def labels_of(X, labels, seed=1):
    random = np.random.default_rng(seed)
    scores = X @ random.standard_normal((X.shape[1], labels))
    return sparse.csr_array(scores > np.quantile(scores, 0.7, axis=0))


def test_coordinates_have_the_products_of_the_rows():
    rows = rows_of(40, 300)
    basis = SampleBasis.of(rows)
    assert basis.coordinates.shape == (40, 40)
    assert sorted(basis.order) == list(range(40))
    assert not np.triu(basis.coordinates, 1).any()
    ordered = rows[basis.order]
    products = (ordered @ ordered.T).toarray()
    np.testing.assert_allclose(basis.coordinates @ basis.coordinates.T, products, atol=1e-5)


def test_the_penalty_of_coordinates_is_that_of_weights():
    basis = SampleBasis.of(rows_of(40, 300))
    inside = np.random.default_rng(2).standard_normal((40, 5))
    outside = basis.leave(inside)
    np.testing.assert_allclose((outside**2).sum(0), (inside**2).sum(0), rtol=1e-4)
    np.testing.assert_allclose(basis.enter(outside), inside, atol=1e-4)


def test_what_leaves_the_basis_scores_every_row_as_within():
    rows = rows_of(40, 300)
    repeated = sparse.csr_array(sparse.vstack([rows, rows[:7], sparse.csr_array((2, 300))]))
    basis = SampleBasis.of(repeated)
    assert basis.coordinates.shape == (49, 40)
    inside = np.random.default_rng(2).standard_normal((40, 5)).astype(np.float32)
    scores = repeated @ basis.leave(inside)
    np.testing.assert_allclose(scores[basis.order], basis.coordinates @ inside, atol=1e-4)


def test_rows_without_a_feature_have_an_empty_basis():
    basis = SampleBasis.of(sparse.csr_array((3, 20), dtype=np.float32))
    assert basis.coordinates.shape == (3, 0)
    assert basis.leave(np.zeros((0, 2))).tolist() == np.zeros((20, 2)).tolist()
    assert basis.enter(np.ones((20, 2))).shape == (0, 2)


@pytest.mark.parametrize("loss", ["zlpr", "focal", "asymmetric"])
def test_samples_of_zeros_have_the_biases_that_fit_best(loss, monkeypatch):
    X = sparse.csr_array((60, 6000), dtype=np.float32)
    Y = labels_of(rows_of(60, 6000), 40)
    solver = WholeData(X, Y, LinearConfig(loss=loss), tolerance=1e-6)
    assert solver.basis is not None
    found = solver.solve(solver.start(), 1.0)
    monkeypatch.setattr(solvers, "pays", lambda *shape: False)
    plain = WholeData(X, Y, LinearConfig(loss=loss), tolerance=1e-6)
    assert found.steps > 0
    assert found.loss == pytest.approx(plain.solve(plain.start(), 1.0).loss, rel=1e-3)


def test_bases_are_shared_by_matrix_and_forgotten_with_it():
    bases, first, second = SampleBases(), rows_of(10, 50), rows_of(10, 50)
    assert bases.of(first) is bases.of(first)
    assert bases.of(second) is not bases.of(first)
    del first
    gc.collect()
    third = rows_of(12, 50)
    assert bases.of(third).coordinates.shape == (12, 12)
    assert len(bases._known) == 2


@pytest.mark.parametrize("loss", ["zlpr", "bce", "dice2", "lsep"])
def test_a_fit_in_the_basis_is_the_fit_without_it(loss, monkeypatch):
    X = rows_of(60, 6000)
    X = sparse.csr_array(sparse.vstack([X, X[:5]]))  # two samples of the same text
    Y = labels_of(X, 40)
    found = {}
    for inside in (True, False):
        monkeypatch.setattr(solvers, "pays", lambda *shape, inside=inside: inside)
        solver = WholeData(X, Y, LinearConfig(loss=loss), tolerance=1e-8)
        assert (solver.basis is not None) == inside
        found[inside] = solver.balance(), solver.solve(solver.start(), 0.1 * solver.balance())
    assert found[True][0] == pytest.approx(found[False][0], rel=1e-5)
    (_, within), (_, without) = found[True], found[False]
    assert within.loss == pytest.approx(without.loss, rel=1e-4)
    assert within.parameters.shape == without.parameters.shape == (6001, 40)
    scores = [X @ solution.parameters[:-1].numpy() for solution in (within, without)]
    np.testing.assert_allclose(scores[0], scores[1], atol=0.03 * np.abs(scores[1]).max())


@pytest.mark.parametrize(("longer", "inside"), [(50.0, True), (1e5, False)])
def test_one_long_sample_takes_nothing_from_the_others(longer, inside, monkeypatch):
    X = rows_of(60, 6000)
    X.data[X.indptr[0] : X.indptr[1]] *= longer
    X.data[X.indptr[1] : X.indptr[2]] = 0.0  # without a length, which rules nothing out
    Y = labels_of(rows_of(60, 6000), 40)
    solver = WholeData(X, Y, LinearConfig(), tolerance=1e-6)
    assert (solver.basis is not None) == inside
    found = solver.solve(solver.start(), 1.0)
    monkeypatch.setattr(solvers, "pays", lambda *shape: False)
    plain = WholeData(X, Y, LinearConfig(), tolerance=1e-6)
    assert found.loss == pytest.approx(plain.solve(plain.start(), 1.0).loss, rel=1e-3)


def test_embeddings_stay_beside_the_basis(monkeypatch):
    X, random = rows_of(60, 6000), np.random.default_rng(3)
    embeddings = random.standard_normal((60, 8)).astype(np.float32)
    mixed, Y = MixedMatrix(X, embeddings), labels_of(X, 40)
    assert features_of_fit(mixed, 40) == 68
    found = []
    for inside in (True, False):
        monkeypatch.setattr(solvers, "pays", lambda *shape, inside=inside: inside)
        solver = WholeData(mixed, Y, LinearConfig(), tolerance=1e-8)
        solution = solver.solve(solver.start(), 0.1 * solver.balance())
        found.append(mixed @ solution.parameters[:-1].numpy() + solution.parameters[-1].numpy())
    np.testing.assert_allclose(found[0], found[1], atol=0.03 * np.abs(found[1]).max())


def test_a_warm_start_is_where_the_last_fit_ended():
    X = rows_of(60, 6000)
    solver = WholeData(X, labels_of(X, 40), LinearConfig(), tolerance=1e-7)
    assert solver.basis is not None
    earlier = Earlier()
    cold = solver.solve(solver.start(), 1.0, earlier=earlier)
    assert earlier.parameters is not None
    assert earlier.parameters.shape == (6001, 40)
    warm = solver.solve(cold.parameters, 1.0)
    assert warm.steps <= 4 < cold.steps
    torch.testing.assert_close(warm.parameters, cold.parameters, atol=0.02, rtol=0.02)


def test_few_samples_make_a_fit_possible_that_many_weights_forbid():
    """500 samples, 60,000 features, 2,000 labels: too many weights for L-BFGS, not in the basis."""
    X = sparse.random_array((500, 60_000), density=1e-3, format="csr", dtype=np.float32, rng=0)
    labels = sparse.random_array((500, 2_000), density=2e-3, format="csr", rng=1).astype(bool)
    assert pays(500, 60_000, 2_000)
    assert isinstance(choose_solver(X, labels, LinearConfig()), WholeData)
    dense = np.empty((500, 60_000), dtype=np.float32)
    assert memory_of_fit(X, 2_000) < 0.6 * memory_of_fit(dense, 2_000)

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from tests.models import fitted
from zlpr.losses import registry
from zlpr.metrics import average_precision
from zlpr.training import TrainingConfig, saved_path, solvers
from zlpr.training.linear_features import extract_features
from zlpr.training.solvers import Batches, WholeData, choose_solver, memory_of_past_steps


@pytest.fixture(scope="module")
def data():
    train, validation, _ = fitted.parts()
    return extract_features(train, validation).train, train.labels


def test_binary_cross_entropy_is_logistic_regression(data):
    X, Y = data
    solver = WholeData(X, Y, TrainingConfig(loss="bce"), tolerance=1e-9, max_iterations=500)
    found = solver.solve(solver.start(), 0.5).parameters.numpy()
    for label in range(3):
        theirs = LogisticRegression(C=2.0, tol=1e-8, max_iter=1000).fit(X, Y.toarray()[:, label])
        np.testing.assert_allclose(found[:-1, label], theirs.coef_[0], atol=2e-3)
        np.testing.assert_allclose(found[-1, label], theirs.intercept_[0], atol=2e-3)


def test_the_gradient_vanishes_at_the_solution_and_a_warm_start_finds_it_again(data):
    X, Y = data
    solver = WholeData(X, Y, TrainingConfig(loss="zlpr"), tolerance=1e-9, max_iterations=500)
    cold = solver.solve(solver.start(), 0.5)
    _, gradient = solver.objective(cold.parameters, 0.5)
    assert gradient.abs().max() < 1e-2
    neighbour = solver.solve(solver.start(), 1.5).parameters
    warm = solver.solve(neighbour, 0.5)
    assert warm.loss == pytest.approx(cold.loss, rel=1e-5)
    torch.testing.assert_close(warm.parameters, cold.parameters, atol=5e-3, rtol=0)


@pytest.mark.parametrize("name", registry.available())
def test_every_loss_learns_to_rank_better_than_by_frequency(data, name):
    X, Y = data
    solver = choose_solver(X, Y, TrainingConfig(loss=name))
    start = solver.start()
    found = solver.solve(start, 0.1 * solver.balance()).parameters
    assert torch.isfinite(found).all()

    def quality(parameters):
        scores = X @ parameters[:-1].numpy() + parameters[-1].numpy()
        return average_precision(Y, scores.astype(np.float32))

    assert quality(found) > quality(start) + 0.05


@pytest.mark.parametrize(
    ("name", "kind"),
    [("zlpr", WholeData), ("focal", WholeData), ("ranking", Batches), ("dice2", Batches)],
)
def test_smooth_losses_see_the_whole_data(data, name, kind):
    assert type(choose_solver(*data, TrainingConfig(loss=name))) is kind


def test_weights_that_do_not_fit_go_in_batches(data, monkeypatch):
    assert memory_of_past_steps(1000, 10) == 6
    assert memory_of_past_steps(10**7, 10**4) < 3
    monkeypatch.setattr(solvers, "MEMORY", 10_000)
    assert type(choose_solver(*data, TrainingConfig(loss="zlpr"))) is Batches


class KilledError(Exception):
    pass


@pytest.mark.parametrize("settings", [{"loss": "dice2"}, {"loss": "zlpr", "mixup": 0.4}])
def test_epochs_resume_to_the_same_bits(data, tmp_path, monkeypatch, settings):
    monkeypatch.setattr(saved_path, "SECONDS_BETWEEN_SAVES", 0.0)
    solver = Batches(*data, TrainingConfig(epochs=4, **settings))
    whole = solver.solve(solver.start(), 0.5)

    def kill(epoch, total, loss):
        if epoch == 3:
            raise KilledError

    with pytest.raises(KilledError):
        solver.solve(solver.start(), 0.5, kill, tmp_path)
    seen = []
    resumed = solver.solve(solver.start(), 0.5, lambda epoch, *_: seen.append(epoch), tmp_path)
    assert seen == [3, 4]
    assert torch.equal(resumed.parameters, whole.parameters)
    assert resumed.loss == whole.loss


def test_a_seed_decides_the_bits(data):
    def run(seed):
        solver = Batches(*data, TrainingConfig(loss="ranking", epochs=2, batch_size=50, seed=seed))
        return solver.solve(solver.start(), 0.5).parameters

    assert torch.equal(run(1), run(1))
    assert not torch.equal(run(1), run(2))


def test_targets_that_do_not_fit_go_in_batches(data, monkeypatch):
    features, labels = data
    cells = labels.shape[0] * labels.shape[1]
    monkeypatch.setattr(solvers, "memory_of_past_steps", lambda *shape: 6)
    monkeypatch.setattr(solvers, "MEMORY", cells)
    assert isinstance(choose_solver(features, labels, TrainingConfig()), WholeData)
    monkeypatch.setattr(solvers, "MEMORY", cells - 1)
    assert isinstance(choose_solver(features, labels, TrainingConfig()), Batches)

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from tests.models import fitted
from zlpr.losses import SPLCLoss, registry
from zlpr.metrics import average_precision
from zlpr.models.feature_config import FeatureConfig
from zlpr.training import LinearConfig, linear_checkpoint, solvers
from zlpr.training.linear_checkpoint import SavedEpoch
from zlpr.training.linear_features import extract_features
from zlpr.training.objective import LinearObjective
from zlpr.training.solvers import Batches, WholeData, choose_solver, memory_of_past_steps


@pytest.fixture(scope="module")
def data():
    train, validation, _ = fitted.parts()
    words = FeatureConfig(analyzer="word")
    return extract_features(train, validation, words).train, train.labels


def test_binary_cross_entropy_is_logistic_regression(data):
    X, Y = data
    solver = WholeData(X, Y, LinearConfig(loss="bce"), tolerance=1e-9, max_iterations=500)
    found = solver.solve(solver.start(), 0.5).parameters.numpy()
    for label in range(3):
        theirs = LogisticRegression(C=2.0, tol=1e-8, max_iter=1000).fit(X, Y.toarray()[:, label])
        np.testing.assert_allclose(found[:-1, label], theirs.coef_[0], atol=2e-3)
        np.testing.assert_allclose(found[-1, label], theirs.intercept_[0], atol=2e-3)


def test_the_ranking_loss_with_l2_is_a_support_vector_machine():
    """Of two labels, one of which applies, Rank-SVM is the SVM of their difference."""
    random = np.random.default_rng(0)
    X = random.standard_normal((120, 3)).astype(np.float32)
    first = X @ [2.0, -1.0, 0.0] + random.standard_normal(120) > 0.5
    labels = sparse.csr_array(np.stack([first, ~first], axis=1))
    # r/2 (|w|^2 + |v|^2) is lowest at v = -w, and r/4 |w - v|^2 then: 1/2 |w - v|^2 at C = 2/r.
    theirs = SVC(kernel="linear", C=2 / 0.5, tol=1e-6).fit(X, first)
    solver = WholeData(X, labels, LinearConfig(loss="ranking"), tolerance=1e-9, max_iterations=500)
    found = solver.solve(solver.start(), 0.5).parameters.numpy()

    def objective(weight, bias):
        margins = np.where(first, 1, -1) * (X @ weight + bias)
        return 0.5 / 4 * (weight**2).sum() + np.maximum(0, 1 - margins).sum()

    ours = objective(found[:-1, 0] - found[:-1, 1], found[-1, 0] - found[-1, 1])
    assert ours == pytest.approx(objective(theirs.coef_[0], theirs.intercept_[0]), rel=1e-2)
    np.testing.assert_allclose(found[:-1, 0], -found[:-1, 1], atol=1e-3)
    np.testing.assert_allclose(found[:-1, 0], theirs.coef_[0] / 2, atol=0.05)


def test_the_gradient_vanishes_at_the_solution_and_a_warm_start_finds_it_again(data):
    X, Y = data
    solver = WholeData(X, Y, LinearConfig(loss="zlpr"), tolerance=1e-9, max_iterations=500)
    objective = LinearObjective(X, Y, solver.objective.loss)  # of weights, in no basis
    _, at_start = objective(solver.start(), 0.5)
    cold = solver.solve(solver.start(), 0.5)
    _, gradient = objective(cold.parameters, 0.5)
    # Where it ends depends on how a processor rounds: 2e-4 to 1.2e-3 of the start's were seen.
    assert gradient.norm() < 2e-3 * at_start.norm()
    neighbour = solver.solve(solver.start(), 1.5).parameters
    warm = solver.solve(neighbour, 0.5)
    assert warm.loss == pytest.approx(cold.loss, rel=1e-5)
    torch.testing.assert_close(warm.parameters, cold.parameters, atol=5e-3, rtol=0)


@pytest.mark.parametrize("name", registry.available())
def test_every_loss_learns_to_rank_better_than_by_frequency(data, name):
    X, Y = data
    solver = choose_solver(X, Y, LinearConfig(loss=name))
    start = solver.start()
    found = solver.solve(start, 0.1 * solver.balance()).parameters
    assert torch.isfinite(found).all()

    def quality(parameters):
        scores = X @ parameters[:-1].numpy() + parameters[-1].numpy()
        return average_precision(Y, scores.astype(np.float32))

    assert quality(found) > quality(start) + 0.05


@pytest.mark.parametrize(
    "name", [name for name in registry.available() if not registry.info(name).by_epoch]
)
def test_every_loss_sees_the_whole_data(data, name):
    assert type(choose_solver(*data, LinearConfig(loss=name))) is WholeData


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"loss": "dice2", "batch_size": 64}, Batches),
        ({"loss": "ranking", "epochs": 3}, Batches),
        ({"loss": "zlpr", "mixup": 0.4}, Batches),
        ({"loss": "zlpr", "epochs": 3}, WholeData),
    ],
)
def test_batches_are_for_mixup_and_for_those_who_ask(data, settings, kind):
    assert type(choose_solver(*data, LinearConfig(**settings))) is kind


@pytest.mark.parametrize("name", registry.available())
def test_training_ends_where_more_of_it_would_change_little(data, name):
    solver = WholeData(*data, LinearConfig(loss=name))
    regularisation = 0.1 * solver.balance()
    usual = solver.solve(solver.start(), regularisation)
    assert usual.steps < solvers.MAX_ITERATIONS
    assert usual.last_tenth < 0.01
    solver.tolerance, solver.max_iterations = 1e-6, 1000
    more = solver.solve(usual.parameters, regularisation)
    gain = solver.objective.reference / solver.objective.num_samples - more.loss
    assert usual.loss - more.loss < 0.01 * gain


@pytest.mark.parametrize("name", ["dice2", "sigmoid_f1", "two_way", "ranking", "warp", "hbm"])
def test_the_whole_data_gets_further_than_many_epochs(data, name):
    solver = WholeData(*data, LinearConfig(loss=name))
    adam = Batches(*data, LinearConfig(loss=name, epochs=150))
    regularisation = 0.1 * solver.balance()
    found = solver.solve(solver.start(), regularisation)
    objective = LinearObjective(*data, solver.objective.loss)
    theirs, _ = objective(adam.solve(adam.start(), regularisation).parameters, regularisation)
    assert found.loss <= 1.02 * theirs / solver.objective.num_samples


def test_batches_go_on_until_a_round_gains_little(data):
    solver = Batches(*data, LinearConfig(loss="zlpr", mixup=0.4))
    found = solver.solve(solver.start(), 0.5)
    rounds, rest = divmod(found.steps, solvers.EPOCHS)
    assert rest == 0
    assert 2 <= rounds < solvers.MOST_ROUNDS
    assert 0 <= found.last_tenth < 0.02
    given = Batches(*data, LinearConfig(loss="zlpr", mixup=0.4, epochs=4))
    assert given.solve(given.start(), 0.5).steps == 4


def test_scores_that_do_not_fit_at_once_go_in_batches(data, monkeypatch):
    monkeypatch.setattr(solvers, "MOST_CELLS_AT_ONCE", 100)
    assert type(choose_solver(*data, LinearConfig(loss="dice2"))) is Batches
    assert type(choose_solver(*data, LinearConfig(loss="zlpr"))) is WholeData


def test_weights_that_do_not_fit_go_in_batches(data, monkeypatch):
    assert memory_of_past_steps(1000, 10) == 6
    assert memory_of_past_steps(10**7, 10**4) < 3
    monkeypatch.setattr(solvers, "MEMORY", 10_000)
    assert type(choose_solver(*data, LinearConfig(loss="zlpr"))) is Batches


class KilledError(Exception):
    pass


SAMPLED = {"loss": "lsep", "loss_params": {"pairs": 2}}


@pytest.mark.parametrize("settings", [{"loss": "dice2"}, {"loss": "zlpr", "mixup": 0.4}, SAMPLED])
def test_epochs_resume_to_the_same_bits(data, tmp_path, monkeypatch, settings):
    monkeypatch.setattr(linear_checkpoint, "SECONDS_BETWEEN_SAVES", 0.0)
    solver = Batches(*data, LinearConfig(epochs=4, **settings))
    whole = solver.solve(solver.start(), 0.5)

    def kill(epoch, total, loss):
        if epoch == 3:
            raise KilledError

    with pytest.raises(KilledError):
        solver.solve(solver.start(), 0.5, kill, SavedEpoch(tmp_path, "first"))
    seen = []
    saved = SavedEpoch(tmp_path, "first")
    resumed = solver.solve(solver.start(), 0.5, lambda epoch, *_: seen.append(epoch), saved)
    assert seen == [3, 4]
    assert torch.equal(resumed.parameters, whole.parameters)
    assert resumed.loss == whole.loss


def test_a_loss_that_draws_at_random_is_none_for_lbfgs(data):
    assert type(choose_solver(*data, LinearConfig(**SAMPLED))) is Batches
    assert type(choose_solver(*data, LinearConfig(loss="lsep"))) is WholeData


def test_a_loss_that_changes_by_epoch_goes_in_batches_and_is_told_of_them(data, monkeypatch):
    told = []
    monkeypatch.setattr(SPLCLoss, "begin_epoch", lambda self, epoch: told.append(epoch))
    solver = choose_solver(*data, LinearConfig(loss="splc", epochs=3))
    assert type(solver) is Batches
    solver.solve(solver.start(), 0.5)
    assert told == [1, 2, 3]


def test_a_loss_around_another_is_fitted_as_that(data):
    config = LinearConfig(loss="logit_adjusted:loss=zlpr,tau=0.5")
    assert (config.loss, config.scored_as) == ("logit_adjusted", "zlpr")
    solver = choose_solver(*data, config)
    assert solver.convex
    flat = choose_solver(*data, LinearConfig(loss="logit_adjusted", loss_params={"loss": "hill"}))
    assert not flat.convex


@pytest.mark.parametrize("settings", [{"loss": "ranking"}, SAMPLED])
def test_a_seed_decides_the_bits(data, settings):
    def run(seed):
        solver = Batches(*data, LinearConfig(epochs=2, batch_size=50, seed=seed, **settings))
        return solver.solve(solver.start(), 0.5).parameters

    assert torch.equal(run(1), run(1))
    assert not torch.equal(run(1), run(2))


def test_targets_that_do_not_fit_go_in_batches(data, monkeypatch):
    features, labels = data
    cells = labels.shape[0] * labels.shape[1]
    monkeypatch.setattr(solvers, "memory_of_past_steps", lambda *shape: 6)
    monkeypatch.setattr(solvers, "MEMORY", cells)
    assert isinstance(choose_solver(features, labels, LinearConfig()), WholeData)
    monkeypatch.setattr(solvers, "MEMORY", cells - 1)
    assert isinstance(choose_solver(features, labels, LinearConfig()), Batches)

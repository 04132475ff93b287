import numpy as np
import pytest
import torch
from scipy import sparse

from zlpr.losses import BCELoss, ZLPRLoss, zlpr_loss
from zlpr.models import candidates
from zlpr.models.mixed_candidates import label_sums
from zlpr.models.mixed_matrix import MixedMatrix
from zlpr.training.candidate_cells import (
    CONSTANT,
    CandidateKernel,
    CandidateLoss,
    Cells,
    MixedKernel,
    fit_mix,
    prior_products,
)


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    features = sparse.random_array((12, 25), density=0.3, rng=rng, dtype=np.float32).tocsr()
    labels = sparse.csr_array(rng.random((12, 6)) < 0.3)
    nearest = np.stack([rng.permutation(6)[:3] for _ in range(12)])
    nearest[3, 1:] = -1
    return features, labels, Cells.of(nearest, labels), nearest


def test_cells_are_the_positives_and_the_nearest(problem):
    _, labels, cells, nearest = problem
    there = {(row, label) for row in range(12) for label in nearest[row] if label >= 0}
    own = set(zip(*labels.nonzero(), strict=True))
    assert set(zip(cells.rows, cells.labels, strict=True)) == there | own
    positive = set(zip(cells.rows[cells.positive], cells.labels[cells.positive], strict=True))
    assert positive == own
    assert (np.diff(cells.labels) >= 0).all()
    spread = cells.spread(np.ones(len(cells.rows), dtype=bool))
    assert spread.sum(1).tolist() == [len([c for c in there | own if c[0] == r]) for r in range(12)]


@pytest.mark.parametrize("table", [1, 60, 2**22])
def test_the_kernel_is_that_of_samples_with_the_same_label(problem, table, monkeypatch):
    monkeypatch.setattr(candidates, "TABLE", table)
    monkeypatch.setattr(candidates, "LARGEST_TABLE", table)
    features, _, cells, _ = problem
    products = (features @ features.T).toarray() + CONSTANT**2
    same = cells.labels[:, None] == cells.labels[None, :]
    whole = np.where(same, products[np.ix_(cells.rows, cells.rows)], 0.0)
    vector = np.random.default_rng(1).normal(size=len(cells.rows)).astype(np.float32)
    kernel = CandidateKernel(features, cells)
    np.testing.assert_allclose(kernel(vector), whole @ vector, rtol=1e-4, atol=1e-4)


@pytest.fixture
def embeddings():
    return np.random.default_rng(5).normal(size=(12, 3)).astype(np.float32)


def test_a_kernel_beside_embeddings_is_that_of_both_as_one_matrix(problem, embeddings):
    features, _, cells, _ = problem
    mixed = MixedMatrix(features, embeddings)
    vector = np.random.default_rng(1).normal(size=len(cells.rows)).astype(np.float32)
    whole = CandidateKernel(sparse.csr_array(mixed.tocsr()), cells)
    np.testing.assert_allclose(MixedKernel(mixed, cells)(vector), whole(vector), atol=1e-4)


def test_a_prior_beside_embeddings_is_that_of_both_as_one_matrix(problem, embeddings):
    features, labels, cells, _ = problem
    mixed = MixedMatrix(features, embeddings)
    one = sparse.csr_array(mixed.tocsr())
    found = prior_products(mixed, label_sums(mixed, labels, 25), cells, labels)
    expected = prior_products(one, candidates.label_sums(one, labels, 28), cells, labels)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert found.min() < 0  # embeddings point away from each other, too


def test_cells_of_some_labels_are_those_of_all_together(problem):
    _, _, cells, _ = problem
    parts = [cells.of_labels(0, 2), cells.of_labels(2, 2), cells.of_labels(2, 6)]
    assert [part.num_labels for part in parts] == [2, 0, 4]
    for name in ("rows", "positive", "places"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(joined, getattr(cells, name))
    np.testing.assert_array_equal(parts[0].labels, cells.labels[: len(parts[0].labels)])
    np.testing.assert_array_equal(parts[2].labels + 2, cells.labels[len(parts[0].labels) :])


def test_the_prior_leaves_a_sample_out_of_its_own_centroid(problem):
    features, labels, cells, _ = problem
    sums = candidates.label_sums(features, labels, 25)
    found = prior_products(features, sums, cells, labels)
    dense, truth = features.toarray(), labels.toarray()
    for row, label, product in zip(cells.rows, cells.labels, found, strict=True):
        others = truth[:, label].copy()
        others[row] = False
        if truth[row, label] and not others.any():
            continue
        centroid = dense[others].sum(0)
        length = np.linalg.norm(centroid)
        expected = dense[row] @ centroid / length if length > 0 else 0.0
        assert product == pytest.approx(expected, abs=1e-4)


def test_the_loss_is_that_of_the_candidates_alone(problem):
    _, labels, cells, _ = problem
    rng = np.random.default_rng(3)
    scores, offset = (rng.normal(size=len(cells.rows)).astype(np.float32) for _ in range(2))
    loss = CandidateLoss(ZLPRLoss(reduction="none"), cells, offset)
    dense = torch.full((12, 6), -torch.inf, dtype=torch.float64)
    dense[cells.rows, cells.labels] = torch.from_numpy((scores + offset).astype(np.float64))
    targets = torch.from_numpy(labels.toarray())
    mask = torch.isfinite(dense)
    expected = zlpr_loss(dense.nan_to_num(neginf=0.0), targets, label_mask=mask, reduction="sum")
    value, slopes = loss(scores)
    assert value == pytest.approx(float(expected), rel=1e-5)
    step = np.zeros_like(scores)
    step[5] = 1e-2
    slope = (loss(scores + step)[0] - loss(scores - step)[0]) / 2e-2
    assert slopes[5] == pytest.approx(slope, abs=1e-3)


@pytest.mark.parametrize("loss", [ZLPRLoss(reduction="none"), BCELoss(reduction="none")])
def test_the_prior_is_where_the_loss_is_lowest(problem, loss):
    _, _, cells, _ = problem
    products = np.where(cells.positive, 0.6, 0.3).astype(np.float32)
    products += np.random.default_rng(0).normal(size=len(products)).astype(np.float32) / 5
    slope, bias = fit_mix(loss, cells, [products], (0.0, 0.0))
    values = CandidateLoss(loss, cells, np.zeros_like(products))
    best = values((slope * products + bias).astype(np.float32))[0]
    for other in ((slope + 0.5, bias), (slope - 0.5, bias), (slope, bias + 0.5), (slope, bias - 1)):
        assert best <= values((other[0] * products + other[1]).astype(np.float32))[0] + 1e-3
    assert slope > 0


def test_candidates_alone_are_cells_of_candidates(problem):
    _, labels, _, nearest = problem
    cells = Cells.of_candidates(nearest, labels)
    there = {(row, label) for row in range(12) for label in nearest[row] if label >= 0}
    assert set(zip(cells.rows, cells.labels, strict=True)) == there
    own = set(zip(*labels.nonzero(), strict=True))
    positive = set(zip(cells.rows[cells.positive], cells.labels[cells.positive], strict=True))
    assert positive == there & own


def test_a_mix_of_parts_keeps_to_its_start_where_a_penalty_says_so(problem):
    _, _, cells, _ = problem
    loss = ZLPRLoss(reduction="none")
    rng = np.random.default_rng(1)
    parts = [rng.normal(size=len(cells.rows)).astype(np.float32) for _ in range(2)]
    parts[1] += cells.positive
    start = (1.0, 0.0, 0.0)
    free = fit_mix(loss, cells, parts, start)
    assert free[1] > 1.0
    assert abs(free[0]) < 0.5
    held = fit_mix(loss, cells, parts, start, penalty=1e6)
    np.testing.assert_allclose(held, start, atol=1e-3)
    # An offset that the loss sees is taken back by the bias.
    shifted = fit_mix(loss, cells, parts, start, offset=2.0)
    np.testing.assert_allclose(shifted, [*free[:2], free[2] - 2.0], atol=0.02)

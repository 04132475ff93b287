"""The losses in JAX are those in torch: values, gradients, masks, weights and hard cases."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch

from tests.losses.samples import scores_and_targets
from zlpr import losses
from zlpr.integrations import jax as ours

jax.config.update("jax_disable_most_optimizations", True)  # to compile takes most of the time

NAMES = [
    "zlpr",
    "bce",
    "focal",
    "dice1",
    "dice2",
    "ranking",
    "warp",
    "bp_mll",
    "lsep",
    "cross_entropy",
]
WITHOUT_POSITIVE_WEIGHT = ["cross_entropy", "dice2"]
TOLERANCE = {"float32": 2e-6, "float64": 1e-13}


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    with jax.enable_x64(request.param == "float64"):
        yield request.param


def in_jax(name):
    return getattr(ours, f"{name}_loss")


def torch_and_gradient(name, scores, labels, **options):
    """Values and the gradient of their sum, by `zlpr.losses`."""
    scores = torch.tensor(scores, requires_grad=True)
    options = {
        option: torch.tensor(value) if isinstance(value, np.ndarray) else value
        for option, value in options.items()
    }
    function = losses.info(name).function
    values = function(scores, torch.tensor(labels), reduction="none", **options)
    values.sum().backward()
    return values.detach().numpy(), scores.grad.numpy()


def jax_and_gradient(name, scores, labels, **options):
    options = {{"label_mask": "where"}.get(key, key): value for key, value in options.items()}

    def total(s):
        values = in_jax(name)(s, labels, **options)
        return values.sum(), values

    gradient, values = jax.jit(jax.grad(total, has_aux=True))(scores)
    return np.asarray(values), np.asarray(gradient)


def assert_same(name, scores, labels, tolerance, **options):
    expected = torch_and_gradient(name, scores, labels, **options)
    found = jax_and_gradient(name, scores, labels, **options)
    for theirs, mine in zip(expected, found, strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)


def sample(dtype, seed=0, shape=(6, 7)):
    scores, labels = scores_and_targets(seed, shape)
    return scores.numpy().astype(dtype), labels.numpy()


@pytest.mark.parametrize("name", NAMES)
def test_values_gradients_masks_and_weights_are_those_in_torch(name, dtype):
    scores, labels = sample(dtype, 2, (2, 3, 7))
    generator = np.random.default_rng(0)
    options = {
        "label_mask": generator.random(scores.shape) < 0.7,
        "label_weight": generator.random(7).astype(dtype) * 3,
    }
    options["label_weight"][2] = 0.0
    if name not in WITHOUT_POSITIVE_WEIGHT:
        options["pos_weight"] = generator.random(7).astype(dtype) * 5
    scores[~options["label_mask"]] = np.nan  # what is unknown reaches nothing
    assert_same(name, scores, labels, TOLERANCE[dtype], **options)


@pytest.mark.parametrize("name", ["zlpr", "lsep", "bp_mll"])
@pytest.mark.parametrize("weight", ["label_weight", "pos_weight"])
@pytest.mark.parametrize("start", [[0.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
def test_slopes_in_weights_that_leave_nothing_are_those_in_torch(name, weight, start):
    """Of a whole side without weight, and of a sample without positive labels."""
    scores = np.array([[1.0, -1.0, 0.5], [2.0, -0.5, 0.0]], dtype=np.float32)
    labels = np.array([[1, 1, 0], [0, 0, 0]])
    options = {"log": False} if name == "bp_mll" else {}
    given = torch.tensor(start, requires_grad=True)
    values = losses.info(name).function(
        torch.from_numpy(scores), torch.from_numpy(labels), **{weight: given}, **options
    )
    (expected,) = torch.autograd.grad(2 * values, given)

    def total(weights):
        return in_jax(name)(scores, labels, **{weight: weights}, **options).sum()

    np.testing.assert_allclose(jax.grad(total)(jnp.array(start)), expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["zlpr", "lsep", "bp_mll"])
@pytest.mark.parametrize("truth", [0.0, 1.0])
def test_slopes_in_scores_without_a_pair_are_numbers_at_any_scale_of_the_loss(name, truth):
    scores = jnp.array([[300.0, -163.0, jnp.inf, -jnp.inf]])
    loss = in_jax(name)

    def scaled(scores):
        return 1e15 * loss(scores, jnp.full((1, 4), truth), label_weight=1.0).sum()

    assert not jnp.isnan(jax.grad(scaled)(scores)).any()


@pytest.mark.parametrize("name", ["zlpr", "bce", "focal", "dice1", "dice2", "cross_entropy"])
def test_soft_labels_are_those_in_torch(name):
    scores, _ = sample("float32", 3)
    soft = np.random.default_rng(1).random(scores.shape, np.float32)
    assert_same(name, scores, soft, 2e-6)


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("zlpr", "threshold", 0.7),
        ("focal", "gamma", 0.5),
        ("focal", "gamma", 0.0),
        ("dice1", "smoothing", 0.3),
        ("dice2", "smoothing", 0.3),
        ("ranking", "margin", 2.5),
        ("warp", "margin", 0.0),
        ("bp_mll", "log", False),
    ],
)
def test_parameters_are_those_in_torch(name, option, value):
    assert_same(name, *sample("float32", 4), 1e-5, **{option: value})


@pytest.mark.parametrize("name", NAMES)
def test_hard_cases_are_those_in_torch(name):
    """No positive label, none but positive ones, ties, and scores as large as can be or beyond."""
    inf = np.inf
    scores = np.array(
        [
            [1, -2, 0.5],
            [1, -2, 0.5],
            [1, 1, 1],
            [1e4, -1e4, 3],
            [-1e4, 1e4, 3],
            [1e30, -1e30, 0],
            [-1e30, 1e30, 0],
            [2, -inf, -inf],
            [inf, -inf, 0],
            [-inf, 1, 2],
        ],
        np.float32,
    )
    labels = np.tile(np.array([True, False, False]), (len(scores), 1))
    labels[0], labels[1] = False, True
    if name in ("ranking", "warp"):  # at a tie, or between infinities, a hinge has no one slope
        scores, labels = scores[[0, 1, 3, 4, 5, 6]], labels[[0, 1, 3, 4, 5, 6]]
    assert_same(name, scores, labels, 2e-6)


def test_a_sample_that_is_wrong_without_bound_on_both_sides_has_a_finite_loss():
    scores, labels = np.array([[-np.inf, np.inf]], np.float32), np.array([[True, False]])
    assert_same("zlpr", scores, labels, 1e-6)
    assert_same("bp_mll", scores, labels, 1e-6, log=False)


@pytest.mark.parametrize("name", ["ranking", "warp"])
def test_infinite_scores_that_are_right_cost_nothing(name):
    scores = np.array([[*[5.0] * 20, np.inf, -np.inf]], np.float32)
    assert_same(name, scores, np.arange(22)[None] < 21, 1e-6)


@pytest.mark.parametrize("name", ["ranking", "warp"])
def test_infinite_scores_that_are_wrong_count_by_small_weights(name):
    scores = np.array([[*[-np.inf] * 20, *[np.inf] * 20]], np.float32)
    weight = np.full(40, 1e-4, np.float32)
    assert_same(name, scores, np.arange(40)[None] < 20, 1e-6, label_weight=weight)


def test_huge_scores_have_a_hinge_with_their_equals():
    scores = np.array([[1e9, 1e9, 1e9]], np.float32)
    assert_same("ranking", scores, np.array([[True, False, False]]), 1e-6)
    assert_same("warp", scores, np.array([[True, False, False]]), 1e-6)


@pytest.mark.parametrize("symmetric", [False, True])
def test_the_divergence_is_that_in_torch(symmetric, dtype):
    one, _ = sample(dtype, 5)
    two = one + np.random.default_rng(2).normal(size=one.shape).astype(dtype) * 2
    two[0] = one[0]
    one[1, 0], two[1, 0] = -np.inf, -np.inf
    one[2, 1] = two[2, 1] + 1e-3
    mask = np.random.default_rng(3).random(7) < 0.8
    s = torch.tensor(one, requires_grad=True)
    expected = losses.zlpr_divergence(
        s, torch.tensor(two), symmetric=symmetric, label_mask=torch.tensor(mask), reduction="none"
    )
    expected.sum().backward()

    def total(scores):
        values = ours.zlpr_divergence(scores, two, symmetric=symmetric, where=mask)
        return values.sum(), values

    gradient, values = jax.jit(jax.grad(total, has_aux=True))(jnp.asarray(one))
    tolerance = 20 * TOLERANCE[dtype]
    np.testing.assert_allclose(values, expected.detach(), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(gradient, s.grad, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("weight", [0.0, 1.0, 3e38])
@pytest.mark.parametrize("symmetric", [False, True])
def test_the_divergence_of_extreme_scores_is_that_in_torch(symmetric, weight):
    extremes = np.float32([np.inf, 3e38, 100, 20, 1, 0])
    one, two = (axis.reshape(-1, 1) for axis in np.meshgrid(*2 * [np.append(extremes, -extremes)]))
    s, t = (torch.tensor(values, requires_grad=True) for values in (one, two))
    expected = losses.zlpr_divergence(
        s, t, symmetric=symmetric, label_weight=weight, reduction="none"
    )
    expected.sum().backward()

    def total(s, t):
        values = ours.zlpr_divergence(s, t, symmetric=symmetric, label_weight=weight)
        return values.sum(), values

    (of_s, of_t), values = jax.grad(total, (0, 1), has_aux=True)(one, two)
    near = {"rtol": 1e-5, "atol": 1e-6 * max(1.0, min(weight, 2e19))}
    np.testing.assert_allclose(values, expected.detach(), **near)
    np.testing.assert_allclose(of_s, s.grad, **near)
    np.testing.assert_allclose(of_t, t.grad, **near)
    assert not np.isnan(values).any()


@pytest.mark.parametrize("name", ["zlpr", "lsep", "warp"])
def test_vmap_over_samples_is_the_batch(name):
    scores, labels = sample("float32", 6)
    mapped = jax.jit(jax.vmap(in_jax(name)))(scores, labels)
    expected, _ = torch_and_gradient(name, scores, labels)
    np.testing.assert_allclose(mapped, expected, rtol=1e-6)


def test_half_precision_is_summed_in_single():
    scores = jnp.full((1, 4000), -2.0, jnp.bfloat16)
    value = ours.zlpr_loss(scores, jnp.zeros((1, 4000)))
    assert value.dtype == jnp.float32
    np.testing.assert_allclose(value, np.log1p(4000 * np.exp(-2.0)), rtol=1e-6)


def test_sample_weights_of_the_batch_loss_are_those_in_torch():
    scores, labels = sample("float32", 7)
    weight = np.linspace(0, 2, 6, dtype=np.float32)
    assert_same("dice2", scores, labels, 2e-6, sample_weight=weight)


def test_labels_that_are_none_are_an_error_or_nan():
    scores = jnp.zeros((2, 2))
    wrong = jnp.array([[1.0, 0.0], [1.0, 3.0]])
    with pytest.raises(ValueError, match=r"labels must lie in \[0, 1\], got 3"):
        ours.zlpr_loss(scores, wrong)
    with pytest.raises(ValueError, match=r"be 0 or 1 in this loss, got 0.5"):
        ours.lsep_loss(scores, jnp.full((2, 2), 0.5))
    inside = jax.jit(ours.zlpr_loss)(scores, wrong)
    assert np.isnan(inside).tolist() == [False, True]
    with pytest.raises(
        ValueError, match=r"labels must have the scores' shape \(2, 2\), got \(2,\)"
    ):
        ours.zlpr_loss(scores, jnp.zeros(2))
    with pytest.raises(TypeError, match="scores must be floating-point"):
        ours.zlpr_loss(jnp.zeros((2, 2), int), scores)
    with pytest.raises(ValueError, match="pos_weight must be finite and not negative"):
        ours.zlpr_loss(scores, jnp.zeros((2, 2)), pos_weight=-1.0)
    for name in ("where", "label_weight", "pos_weight"):
        with pytest.raises(ValueError, match=rf"{name} must have the shape .*, got \(2, 1\)"):
            ours.zlpr_loss(scores, jnp.zeros((2, 2)), **{name: jnp.ones((2, 1))})
    with pytest.raises(ValueError, match=r"threshold must have the shape .*, got \(3,\)"):
        ours.zlpr_loss(scores, jnp.zeros((2, 2)), threshold=jnp.zeros(3))
    with pytest.raises(ValueError, match=r"sample_weight must have the shape \(2,\), got \(\)"):
        ours.dice2_loss(scores, jnp.zeros((2, 2)), sample_weight=2.0)
    with pytest.raises(ValueError, match="gamma must be at least 0"):
        ours.focal_loss(scores, jnp.zeros((2, 2)), gamma=-1.0)
    with pytest.raises(ValueError, match="smoothing must be above 0"):
        ours.dice1_loss(scores, jnp.zeros((2, 2)), smoothing=0.0)


def test_bce_is_optax_summed_over_labels():
    scores, labels = sample("float32", 8)
    theirs = optax.sigmoid_binary_cross_entropy(jnp.asarray(scores), jnp.asarray(labels))
    np.testing.assert_allclose(ours.bce_loss(scores, labels), theirs.sum(axis=-1), rtol=2e-6)


@pytest.mark.parametrize(
    ("name", "options", "fault"),
    [
        ("ranking", {"margin": float("nan")}, "margin must be a finite number"),
        ("warp", {"margin": float("inf")}, "margin must be a finite number"),
        ("dice2", {"sample_weight": jnp.array([-1.0])}, "sample_weight must be finite and not neg"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(name, options, fault):
    with pytest.raises(ValueError, match=fault):
        in_jax(name)(jnp.zeros((1, 2)), jnp.array([[1.0, 0.0]]), **options)


def test_a_mask_may_be_a_list():
    scores, labels = jnp.array([[2.0, -1.0]]), jnp.array([[1, 0]])
    found = ours.zlpr_loss(scores, labels, where=[True, False])
    assert found == ours.zlpr_loss(scores, labels, where=jnp.array([True, False]))
    with pytest.raises(ValueError, match="where must have the shape"):
        ours.zlpr_loss(scores, labels, where=[True])

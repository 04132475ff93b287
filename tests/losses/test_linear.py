"""Head and loss in one: the dense loss's value and gradients, without the dense scores."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from zlpr.losses import (
    LinearZLPRLoss,
    RowAdagradStep,
    SGDStep,
    _label_sweep,
    _linear_head,
    bce_loss,
    linear_bce_loss,
    linear_lsep_loss,
    linear_zlpr_loss,
    lsep_loss,
    sparse_zlpr_loss,
    zlpr_loss,
)

LINEAR = {"zlpr": linear_zlpr_loss, "lsep": linear_lsep_loss, "bce": linear_bce_loss}
DENSE = {"zlpr": zlpr_loss, "lsep": lsep_loss, "bce": bce_loss}
SAMPLES, FEATURES, LABELS = 6, 5, 300


@pytest.fixture(autouse=True)
def narrow_tiles(monkeypatch):
    """Three tiles for 300 labels."""
    monkeypatch.setitem(_label_sweep.TILE_BYTES, "cpu", 0)


class Problem:
    """A layer and a batch: a sample without positives, one with repeats, one with all labels."""

    def __init__(self, dtype=torch.float64, seed=0, labels=LABELS, full=True):
        generator = torch.Generator().manual_seed(seed)
        draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
        self.features = draw(SAMPLES, FEATURES).to(dtype).requires_grad_()
        self.weight = draw(labels, FEATURES).to(dtype).requires_grad_()
        self.bias = draw(labels).to(dtype).requires_grad_()
        self.upstream = draw(SAMPLES)
        self.indices = torch.full((SAMPLES, labels), -1)
        self.indices[:, :7] = torch.randint(-1, labels, (SAMPLES, 7), generator=generator)
        self.indices[0] = -1
        self.indices[1, :3] = 4
        if full:
            self.indices[2] = torch.arange(labels)
        self.mask = torch.rand(SAMPLES, labels, generator=generator) > 0.3
        self.label_weight = draw(labels).exp()
        self.pos_weight = draw(SAMPLES, labels).exp()

    @property
    def inputs(self):
        return [self.features, self.weight, self.bias]

    def targets(self):
        targets = torch.zeros(SAMPLES, self.weight.shape[0] + 1, dtype=torch.bool)
        return targets.scatter(1, self.indices % targets.shape[1], True)[:, :-1]

    def scores(self):
        return self.features.double() @ self.weight.double().T + self.bias.double()

    def options(self, which):
        return {
            "plain": {},
            "masked": {"label_mask": self.mask},
            "impossible labels": {"label_mask": self.mask[3]},
            "weighted": {"label_weight": self.label_weight, "pos_weight": self.pos_weight},
            "all": {
                "label_mask": self.mask,
                "label_weight": self.label_weight,
                "pos_weight": 2.5,
                "sample_weight": self.upstream.abs(),
            },
        }[which]


def assert_same(losses, expected, inputs, upstream, tolerance=1e-10, of_gradients=None):
    assert_close(losses, expected.to(losses), rtol=tolerance, atol=tolerance)
    ours = torch.autograd.grad(losses, inputs, upstream.to(losses), retain_graph=True)
    theirs = torch.autograd.grad(expected, inputs, upstream.to(expected))
    for gradient, wanted in zip(ours, theirs, strict=True):
        assert (gradient - wanted).norm() <= (of_gradients or tolerance) * wanted.norm()


# Stored exponentials are rounded to 11 bits.
GRADIENTS = {"recompute": 1e-10, "store": 2**-11, "dense": 1e-10}


@pytest.mark.parametrize("impl", GRADIENTS)
@pytest.mark.parametrize("which", ["plain", "masked", "impossible labels", "weighted", "all"])
@pytest.mark.parametrize("name", LINEAR)
def test_equals_the_dense_loss(name, which, impl):
    problem = Problem()
    options = problem.options(which) | {"reduction": "none"}
    losses = LINEAR[name](*problem.inputs, problem.indices, impl=impl, **options)
    expected = DENSE[name](problem.scores(), problem.targets(), **options)
    assert_same(losses, expected, problem.inputs, problem.upstream, of_gradients=GRADIENTS[impl])


def test_equals_the_formula():
    problem = Problem(full=False)
    scores, targets = problem.scores(), problem.targets()
    naive = torch.log(1 + (targets * (-scores).exp()).sum(1)) + torch.log(
        1 + (~targets * scores.exp()).sum(1)
    )
    losses = linear_zlpr_loss(*problem.inputs, problem.indices, impl="recompute", reduction="none")
    assert_same(losses, naive, problem.inputs, problem.upstream)


@pytest.mark.parametrize("impl", GRADIENTS)
@pytest.mark.parametrize("shape", [(), (LABELS,), (SAMPLES, 1)])
def test_threshold_and_its_gradient(shape, impl):
    problem = Problem()
    threshold = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    options = {"threshold": threshold, "reduction": "none"}
    losses = linear_zlpr_loss(*problem.inputs, problem.indices, impl=impl, **options)
    expected = zlpr_loss(problem.scores(), problem.targets(), **options)
    inputs = [*problem.inputs, threshold]
    assert_same(losses, expected, inputs, problem.upstream, of_gradients=GRADIENTS[impl])


@pytest.mark.parametrize("which", ["label_weight", "label_mask"])
@pytest.mark.parametrize("name", LINEAR)
def test_a_weight_changed_in_place_before_the_gradient_is_refused(name, which):
    problem = Problem(torch.float32)
    kept = torch.ones(LABELS, dtype=torch.bool if which == "label_mask" else torch.float32)
    options = {"impl": "recompute", which: kept}
    loss = LINEAR[name](*problem.inputs, problem.indices, **options)
    kept.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_threshold_per_label_without_a_bias():
    problem = Problem()
    threshold = problem.bias.detach().neg().requires_grad_()
    loss = linear_zlpr_loss(
        problem.features, problem.weight, None, problem.indices, threshold=threshold
    )
    expected = linear_zlpr_loss(*problem.inputs, problem.indices)
    assert_close(loss, expected)
    (gradient,) = torch.autograd.grad(loss, threshold)
    assert_close(gradient, -torch.autograd.grad(expected, problem.bias)[0])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_reductions(reduction):
    problem = Problem()
    options = {"reduction": reduction, "sample_weight": problem.upstream.abs()}
    loss = linear_zlpr_loss(*problem.inputs, problem.indices, impl="recompute", **options)
    assert_close(loss, zlpr_loss(problem.scores(), problem.targets(), **options))


@settings(max_examples=25, deadline=None)
@given(
    samples=st.integers(0, 4),
    labels=st.integers(1, 400),
    slots=st.integers(0, 5),
    impl=st.sampled_from(["recompute", "store"]),
    name=st.sampled_from(sorted(LINEAR)),
    seed=st.integers(0, 100),
)
def test_any_shape(samples, labels, slots, impl, name, seed):
    torch.manual_seed(seed)
    features = torch.randn(samples, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(labels, 3, dtype=torch.float64, requires_grad=True)
    indices = torch.randint(-1, labels, (samples, slots))
    losses = LINEAR[name](features, weight, None, indices, impl=impl, reduction="none")
    targets = torch.zeros(samples, labels + 1, dtype=torch.bool)
    targets = targets.scatter(1, indices % (labels + 1), True)[:, :-1]
    scores = F.linear(features, weight)
    expected = DENSE[name](scores, targets, reduction="none")
    assert_close(losses, expected)
    upstream = torch.randn(samples, dtype=torch.float64)
    ours = torch.autograd.grad(losses, [features, weight], upstream)
    *theirs, slopes = torch.autograd.grad(expected, [features, weight, scores], upstream)
    rounding = 1e-10 if impl == "recompute" else 2**-11  # of each slope, before they are summed
    for gradient, wanted, factor in zip(ours, theirs, [weight, features], strict=True):
        assert (gradient - wanted).norm() <= rounding * slopes.norm() * factor.norm()


def test_gradients_by_finite_differences():
    problem = Problem(labels=150, full=False)
    threshold = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)

    def losses(features, weight, bias, bound):
        options = {"threshold": bound, "impl": "recompute", "reduction": "none"}
        return linear_zlpr_loss(features, weight, bias, problem.indices, **options)

    assert torch.autograd.gradcheck(losses, (*problem.inputs, threshold), fast_mode=True)


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("impl", GRADIENTS)
def test_half_inputs_are_summed_in_float32(name, dtype, impl):
    problem = Problem(dtype)
    losses = LINEAR[name](*problem.inputs, problem.indices, impl=impl, reduction="none")
    expected = DENSE[name](problem.scores(), problem.targets(), reduction="none")
    assert losses.dtype == torch.float32
    assert_close(losses, expected.float(), rtol=2e-6, atol=1e-6)
    ours = torch.autograd.grad(losses, problem.inputs, problem.upstream.float())
    theirs = torch.autograd.grad(expected, problem.inputs, problem.upstream)
    rounding = 2 * torch.finfo(dtype).eps  # of the gradients to the inputs' dtype, and by "store"
    for gradient, wanted in zip(ours, theirs, strict=True):
        assert gradient.dtype == dtype
        assert (gradient.double() - wanted.double()).norm() <= rounding * wanted.double().norm()


@pytest.mark.parametrize("impl", GRADIENTS)
def test_autocast_does_not_reach_the_sums(impl):
    problem = Problem(torch.float32)
    expected = linear_zlpr_loss(*problem.inputs, problem.indices, impl=impl)
    wanted = torch.autograd.grad(expected, problem.inputs)
    with torch.autocast("cpu", torch.bfloat16):
        loss = linear_zlpr_loss(*problem.inputs, problem.indices, impl=impl)
    gradients = torch.autograd.grad(loss, problem.inputs)
    assert_close(loss, expected, rtol=0, atol=0)
    assert_close(gradients, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("impl", ["recompute", "store"])
@pytest.mark.parametrize("size", [1e4, 1e30])
def test_large_scores_stay_exact(size, impl):
    problem = Problem(torch.float32)
    features = (problem.features.detach() * size).requires_grad_()
    inputs = [features, problem.weight, problem.bias]
    losses = linear_zlpr_loss(*inputs, problem.indices, impl=impl, reduction="none")
    expected = zlpr_loss(
        F.linear(*(each.double() for each in inputs)), problem.targets(), reduction="none"
    )
    assert_close(losses, expected.float(), rtol=1e-6, atol=0)
    gradients = torch.autograd.grad(losses.sum(), inputs)
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize(("impl", "tolerance"), [("recompute", 2e-6), ("store", 2**-11)])
def test_large_scores_share_their_gradient_exactly(impl, tolerance):
    """Scores near 1e4 are 1e-3 apart in float32, and so are their logarithms; shares are not."""
    bias = torch.full((LABELS,), 1e4)
    bias[::3] += torch.linspace(-4, 0, 100).round(decimals=2)
    bias.requires_grad_()
    zeros = torch.zeros(1, 1), torch.zeros(LABELS, 1)
    linear_zlpr_loss(*zeros, bias, torch.tensor([[-1]]), impl=impl).backward()
    assert_close(bias.grad, bias.detach().softmax(0), rtol=tolerance, atol=0)


def test_confident_samples_keep_their_digits():
    """Losses of 1e-12 are not lost beside the bound."""
    weight = torch.full((LABELS, 1), -30.0)
    weight[3] = 30.0
    loss = linear_zlpr_loss(torch.ones(1, 1), weight, None, torch.tensor([[3]]), impl="recompute")
    assert_close(loss.double(), torch.tensor(LABELS * math.exp(-30.0)).double(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("impl", ["recompute", "store"])
@pytest.mark.parametrize("name", LINEAR)
def test_impossible_labels_by_minus_infinity_in_the_bias(name, impl):
    problem = Problem(full=False)
    possible = torch.ones(LABELS, dtype=torch.bool)
    possible[100:160] = False
    indices = torch.where((problem.indices >= 100) & (problem.indices < 160), -1, problem.indices)
    bias = problem.bias.detach().masked_fill(~possible, -torch.inf)
    loss = LINEAR[name](problem.features, problem.weight, bias, indices, impl=impl)
    expected = LINEAR[name](*problem.inputs, indices, label_mask=possible, impl=impl)
    assert_close(loss, expected)
    inputs = [problem.features, problem.weight]
    gradients = torch.autograd.grad(loss, inputs)
    assert_close(gradients, torch.autograd.grad(expected, inputs))
    assert (gradients[1][~possible] == 0).all()


@pytest.mark.parametrize("impl", ["recompute", "store"])
@pytest.mark.parametrize("name", LINEAR)
def test_no_known_label_gives_no_loss_and_no_gradient(name, impl):
    problem = Problem()
    nothing = torch.zeros(LABELS, dtype=torch.bool)
    loss = LINEAR[name](*problem.inputs, problem.indices, label_mask=nothing, impl=impl)
    assert loss == 0
    gradients = torch.autograd.grad(loss, problem.inputs)
    assert all((gradient == 0).all() for gradient in gradients)


def test_leading_dimensions_and_strides():
    problem = Problem(full=False)
    shape = (2, 3)
    features = problem.features.detach().view(*shape, FEATURES).transpose(0, 1)
    indices = problem.indices.view(*shape, -1).transpose(0, 1)
    weight = problem.weight.detach().T.contiguous().T
    assert not weight.is_contiguous()
    losses = linear_zlpr_loss(
        features, weight, problem.bias, indices, impl="recompute", reduction="none"
    )
    expected = sparse_zlpr_loss(problem.scores(), problem.indices, reduction="none")
    assert_close(losses, expected.view(shape).T)


def test_makes_only_the_gradients_that_are_wanted():
    problem = Problem()
    frozen = problem.weight.detach()
    loss = linear_zlpr_loss(problem.features, frozen, None, problem.indices, impl="recompute")
    loss.backward()
    assert problem.features.grad is not None
    assert frozen.grad is None
    with torch.no_grad():
        assert not linear_zlpr_loss(*problem.inputs, problem.indices, impl="store").requires_grad


class LargestTensor(TorchDispatchMode):
    """Remembers the size of the largest tensor with memory of its own, but for one shape."""

    def __init__(self, excepted=None):
        super().__init__()
        self.excepted = excepted
        self.elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        own = isinstance(result, torch.Tensor) and not (result.is_meta or function.is_view)
        if own and result.shape != self.excepted:
            self.elements = max(self.elements, result.numel())
        return result


@pytest.mark.parametrize("name", LINEAR)
def test_never_holds_the_scores(name):
    samples, labels = 64, 5000
    head = nn.Linear(2, labels)
    features = torch.randn(samples, 2, requires_grad=True)
    with LargestTensor(excepted=head.weight.shape) as largest:
        indices = torch.randint(-1, labels, (samples, 3))
        LINEAR[name](features, head.weight, head.bias, indices).backward()
    assert largest.elements <= samples * 128


class TestChoice:
    def choose(self, samples, features, labels, weight_step=None):
        weight = torch.empty(labels, features, device="meta")
        head = _linear_head.LinearHead(torch.empty(samples, features, device="meta"), weight, None)
        return _linear_head.choose(head, weight_step)

    def test_one_tile_is_dense(self):
        assert self.choose(4, 8, 100) == "dense"

    def test_a_step_inside_the_sweep_needs_a_sweep(self):
        assert self.choose(400, 8, 100, SGDStep(0.1)) == "recompute"

    def test_stores_where_that_hardly_adds_to_the_weight(self):
        assert self.choose(64, 768, 10**6) == "store"

    def test_makes_tiles_again_where_kernels_do_so(self, monkeypatch):
        monkeypatch.setattr(_linear_head, "has_kernels", lambda head: True)
        assert self.choose(64, 768, 10**6) == "recompute"

    def test_makes_tiles_again_where_scores_outweigh_the_weight(self):
        assert self.choose(256, 256, 10**6) == "recompute"


class TestWeightStep:
    def steps(self, weight_step, optimiser, impl="recompute"):
        """Train the same head with the step inside the sweep and with a plain optimiser."""
        problem = Problem(torch.float32, full=False)
        inside = nn.Parameter(problem.weight.detach().clone())
        plain = nn.Parameter(problem.weight.detach().clone())
        for seed in range(4):
            batch = Problem(torch.float32, seed=seed, full=False)
            arguments = (batch.bias, batch.indices)
            loss = linear_zlpr_loss(
                batch.features, inside, *arguments, impl=impl, weight_step=weight_step
            )
            expected = linear_zlpr_loss(batch.features, plain, *arguments, impl="recompute")
            loss.backward()
            of_features, plain.grad = torch.autograd.grad(expected, [batch.features, plain])
            assert inside.grad is None
            assert_close(batch.features.grad, of_features)
            optimiser(plain)
            assert_close(inside, plain)

    @pytest.mark.parametrize("decay", [0.0, 0.1])
    def test_sgd_equals_torch(self, decay):
        def optimiser(weight):
            torch.optim.SGD([weight], lr=0.3, weight_decay=decay).step()

        self.steps(SGDStep(0.3, weight_decay=decay), optimiser)

    def test_row_adagrad_equals_its_formula(self):
        sums = torch.zeros(LABELS, 1)

        def optimiser(weight):
            sums.add_(weight.grad.square().mean(dim=1, keepdim=True))
            weight.data -= 0.3 * weight.grad / (sums.sqrt() + 1e-10)

        self.steps(RowAdagradStep(LABELS, 0.3), optimiser)

    def test_row_adagrad_of_one_feature_is_torch_adagrad(self):
        torch.manual_seed(0)
        weight, gradient = torch.randn(5, 1), torch.randn(5, 1)
        plain = nn.Parameter(weight.clone())
        adagrad, step = torch.optim.Adagrad([plain], lr=0.1), RowAdagradStep(5, 0.1)
        plain.grad = gradient
        for _ in range(3):
            adagrad.step()
            step(slice(0, 5), weight, gradient)
        assert_close(weight, plain.detach())

    def test_the_full_gradient_never_exists(self):
        weight = nn.Parameter(torch.randn(5000, 16))
        features = torch.randn(4, 16, requires_grad=True)
        indices = torch.randint(0, 5000, (4, 3))
        with LargestTensor() as largest:
            linear_zlpr_loss(features, weight, None, indices, weight_step=SGDStep(0.1)).backward()
        assert largest.elements < weight.numel() / 4

    def test_a_second_backward_is_refused(self):
        weight = nn.Parameter(torch.randn(LABELS, FEATURES))
        features, indices = torch.randn(2, FEATURES), torch.tensor([[0], [1]])
        loss = linear_zlpr_loss(features, weight, None, indices, weight_step=SGDStep(0.1))
        loss.backward(retain_graph=True)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()

    def test_needs_a_weight_in_training_and_a_sweep(self):
        features, indices = torch.randn(2, FEATURES), torch.tensor([[0], [1]])
        weight = torch.randn(LABELS, FEATURES)
        with pytest.raises(ValueError, match="requires a gradient"):
            linear_zlpr_loss(features, weight, None, indices, weight_step=SGDStep(0.1))
        weight.requires_grad_()
        with pytest.raises(ValueError, match="needs a sweep"):
            linear_zlpr_loss(
                features, weight, None, indices, weight_step=SGDStep(0.1), impl="dense"
            )

    def test_rates_are_checked(self):
        with pytest.raises(ValueError, match="lr=-1"):
            SGDStep(-1)
        with pytest.raises(ValueError, match="eps=0"):
            RowAdagradStep(3, 0.1, eps=0)


class TestModule:
    def test_trains_like_the_dense_head(self):
        """A small embedding model, step by step, loss falling."""
        torch.manual_seed(0)
        ours = nn.Sequential(nn.EmbeddingBag(50, FEATURES), nn.ReLU())
        theirs = nn.Sequential(nn.EmbeddingBag(50, FEATURES), nn.ReLU())
        theirs.load_state_dict(ours.state_dict())
        head, layer = LinearZLPRLoss(FEATURES, LABELS), nn.Linear(FEATURES, LABELS)
        layer.load_state_dict(head.state_dict())
        words, indices = torch.randint(50, (32, 4)), torch.randint(-1, LABELS, (32, 3))
        fused = torch.optim.Adam([*ours.parameters(), *head.parameters()], lr=0.05)
        dense = torch.optim.Adam([*theirs.parameters(), *layer.parameters()], lr=0.05)
        losses = []
        for _ in range(30):
            loss, expected = (
                head(ours(words), indices),
                sparse_zlpr_loss(layer(theirs(words)), indices),
            )
            assert_close(loss, expected, rtol=1e-4, atol=0)
            for optimiser, value in ((fused, loss), (dense, expected)):
                optimiser.zero_grad()
                value.backward()
                optimiser.step()
            losses.append(loss.item())
        assert losses[-1] < 0.7 * losses[0]

    def test_options_reach_the_function(self):
        problem = Problem(torch.float32)
        options = {"label_weight": problem.label_weight.float(), "pos_weight": 2.0}
        head = LinearZLPRLoss(
            FEATURES, LABELS, threshold=0.5, learn_threshold=True, reduction="sum", **options
        )
        loss = head(problem.features, problem.indices, problem.mask, problem.upstream.abs())
        expected = zlpr_loss(
            head.scores(problem.features),
            problem.targets(),
            label_mask=problem.mask,
            sample_weight=problem.upstream.abs(),
            reduction="sum",
            **options,
        )
        assert_close(loss, expected)
        loss.backward()
        assert head.threshold.grad != 0
        # What is learned is state; what is given is not, here as in the other loss modules.
        assert set(head.state_dict()) == {"weight", "bias", "threshold"}
        assert head.to(torch.float64).label_weight.dtype is torch.float64

    def test_step_inside_keeps_its_state_with_the_module(self):
        head = LinearZLPRLoss(FEATURES, LABELS, bias=False, weight_step=RowAdagradStep(LABELS, 0.1))
        before = head.weight.detach().clone()
        head(torch.randn(2, FEATURES), torch.tensor([[0], [-1]])).backward()
        assert head.weight.grad is None
        assert not torch.equal(head.weight, before)
        assert head.state_dict()["weight_step.accumulators"].min() > 0


def test_second_derivatives_need_the_dense_form():
    problem = Problem(labels=10, full=False)

    def losses(features, impl):
        return linear_zlpr_loss(features, problem.weight.detach(), None, problem.indices, impl=impl)

    assert torch.autograd.gradgradcheck(lambda x: losses(x, "dense"), problem.features)
    with pytest.raises(RuntimeError, match="impl='dense'"):
        torch.autograd.grad(
            losses(problem.features, "recompute"), problem.features, create_graph=True
        )


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"features": torch.zeros(2, 9)}, ValueError, r"features must have the shape \(..., 3\)"),
        ({"features": torch.zeros(2, 3).int()}, TypeError, "features must be floating-point"),
        ({"weight": torch.zeros(3)}, ValueError, "weight must have the shape"),
        ({"bias": torch.zeros(3)}, ValueError, r"bias must have the shape \(4,\)"),
        ({"indices": torch.zeros(2, 1)}, TypeError, "indices must be an integer tensor"),
        ({"indices": torch.tensor([0, 1])}, ValueError, r"indices must have the shape"),
        (
            {"indices": torch.tensor([[0], [4]])},
            ValueError,
            r"in \[0, 4\) or be -1 for padding, got values from 0 to 4",
        ),
        ({"indices": torch.tensor([[0], [-2]])}, ValueError, "got values from -2 to 0"),
        ({"threshold": torch.zeros(2, 4)}, ValueError, r"threshold must be a number or"),
        ({"label_mask": torch.ones(3).bool()}, ValueError, "label_mask must have the shape"),
        ({"label_weight": -torch.ones(4)}, ValueError, "label_weight must not be negative"),
        ({"pos_weight": -1.0}, ValueError, "pos_weight must be at least 0"),
        ({"sample_weight": torch.ones(3)}, ValueError, "sample_weight must have the shape"),
        ({"reduction": "avg"}, ValueError, "reduction must be"),
        ({"impl": "fast"}, ValueError, "impl must be one of auto, recompute, store, dense"),
    ],
)
def test_wrong_arguments_are_named(change, error, message):
    arguments = {
        "features": torch.zeros(2, 3),
        "weight": torch.zeros(4, 3),
        "bias": None,
        "indices": torch.tensor([[0], [1]]),
    }
    with pytest.raises(error, match=message):
        linear_zlpr_loss(**(arguments | change))


def test_learned_weights_are_refused_rather_than_ignored():
    problem = Problem()
    weight = torch.ones(LABELS, requires_grad=True)
    options = {"label_weight": weight, "impl": "recompute"}
    with pytest.raises(ValueError, match="label_weight gets no gradient"):
        linear_zlpr_loss(*problem.inputs, problem.indices, **options)


@pytest.mark.parametrize("impl", ["recompute", "store", "dense"])
@pytest.mark.parametrize("size", [0.0, 1e4, 1e9, torch.inf])
def test_weights_of_any_size_beside_scores_of_any_size(size, impl):
    # The bias makes the scores: two labels share the first place by their weights.
    bias = torch.full((LABELS,), -torch.inf)
    bias[:2] = size
    bias.requires_grad_()
    weight, features = torch.zeros(LABELS, FEATURES), torch.zeros(1, FEATURES)
    label_weight = torch.full((LABELS,), 1e-8)
    label_weight[1], label_weight[2] = 3e-8, 0.0
    options = {"label_weight": label_weight, "impl": impl}
    loss = linear_zlpr_loss(features, weight, bias, torch.tensor([[2]]), **options)
    loss.backward()
    expected = torch.finfo(torch.float32).max if size == torch.inf else size
    if size == 0:
        assert_close(loss.item(), 4e-8, rtol=1e-5, atol=0)
        assert_close(bias.grad[:2], torch.tensor([1e-8, 3e-8]), rtol=1e-3, atol=1e-11)
    else:
        assert_close(loss.item(), expected, rtol=2e-3, atol=0)
        assert_close(bias.grad[:2], torch.tensor([0.25, 0.75]), rtol=1e-3, atol=0)
    assert (bias.grad[2:] == 0).all()


@pytest.mark.parametrize("impl", ["recompute", "store"])
def test_infinite_scores_in_binary_cross_entropy_are_numbers_that_weights_multiply(impl):
    features, indices = torch.ones(2, 1), torch.tensor([[1, 2], [2, -1]])
    weight, bias = torch.zeros(4, 1), torch.tensor([math.inf, 0.0, -math.inf, 1.0])
    targets = torch.tensor([[0, 1, 1, 0], [0, 0, 1, 0]])
    for label_weight in (None, 1e-8):
        for pos_weight in (0.0, torch.tensor([1.0, 1.0, 0.0, 1.0]), 2.0):
            options = {"label_weight": label_weight, "pos_weight": pos_weight, "reduction": "none"}
            shift = bias.clone().requires_grad_()
            values = linear_bce_loss(features, weight, shift, indices, impl=impl, **options)
            assert_close(values, bce_loss(bias.expand(2, 4), targets, **options))
            values.sum().backward()
            assert shift.grad.isfinite().all()


@pytest.mark.parametrize(
    "bias",
    [
        (math.inf, 0.0, -math.inf, 1.0),
        (math.inf, math.inf, 0.0, math.inf),
        (-math.inf,) * 4,
        (3e38, 3e38, 0.0, -3e38),
    ],
    ids=str,
)
@pytest.mark.parametrize("impl", ["recompute", "store"])
def test_infinite_scores_in_lsep_are_the_numbers_that_they_are_in_its_dense_form(impl, bias):
    features, indices = torch.ones(3, 1), torch.tensor([[1, 2], [2, -1], [0, -1]])
    weight, bias = torch.zeros(4, 1), torch.tensor(bias)
    targets = torch.tensor([[0, 1, 1, 0], [0, 0, 1, 0], [1, 0, 0, 0]])
    for pos_weight in (None, 2.0):
        options = {"pos_weight": pos_weight, "reduction": "none"}
        found = []
        for form in ("tiled", "dense"):
            shift = bias.clone().requires_grad_()
            if form == "tiled":
                values = linear_lsep_loss(features, weight, shift, indices, impl=impl, **options)
            else:
                values = lsep_loss(shift.expand(3, 4), targets, **options)
            found.append((values, torch.autograd.grad(values.clamp(max=1e30).sum(), shift)))
        assert_close(found[0], found[1])


@pytest.mark.parametrize("impl", ["recompute", "dense"])
def test_a_positive_label_without_weight_is_no_negative_one(impl):
    features, weight = torch.zeros(1, FEATURES), torch.zeros(32, FEATURES)
    bias = torch.zeros(32)
    bias[0] = 2.0
    bias.requires_grad_()
    loss = linear_zlpr_loss(features, weight, bias, torch.tensor([[0]]), pos_weight=0.0, impl=impl)
    loss.backward()
    assert_close(loss.item(), math.log(32), rtol=1e-6, atol=0)
    assert bias.grad[0] == 0


def test_a_threshold_keeps_the_digits_of_float64():
    problem = Problem(torch.float64)
    expected = linear_zlpr_loss(*problem.inputs, problem.indices, threshold=0.1, impl="dense")
    actual = linear_zlpr_loss(*problem.inputs, problem.indices, threshold=0.1, impl="recompute")
    assert_close(actual, expected, rtol=1e-14, atol=0)

"""The fast way for few positive labels equals the formula, block by block and in every corner."""

import math

import pytest
import torch
from torch.autograd import forward_ad
from torch.testing import assert_close

from zlpr.losses import _sides, sparse_zlpr_loss, zlpr_loss
from zlpr.losses._arguments import Weighting

LABELS = 40


@pytest.fixture(params=[16, 1 << 18], ids=["many blocks", "one block"])
def _blocks(request, monkeypatch):
    """Rows in blocks of one, or all in one."""
    monkeypatch.setattr(_sides, "_BLOCK", request.param)


def few(shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    """Targets with at most two of forty labels a sample; some samples have none."""
    generator = torch.Generator().manual_seed(seed)
    targets = torch.zeros(*shape, LABELS, dtype=torch.bool)
    indices = torch.randint(LABELS, (*shape, 2), generator=generator)
    targets.scatter_(-1, indices, torch.rand(*shape, 2, generator=generator) < 0.7)
    return targets


def draw(shape: tuple[int, ...], spread: float, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return spread * torch.randn(*shape, LABELS, generator=generator)


def formula(scores, targets, sample_weight=None, reduction="mean", **options):
    """The loss in differentiable operations, in double precision."""
    options = {k: v.double() if v.is_floating_point() else v for k, v in options.items()}
    weighting = Weighting(**options)
    values = _sides.two_sides(weighting.cells(scores.double(), targets))
    if sample_weight is not None:
        values = values * sample_weight.double()
    if reduction == "none":
        return values
    return values.sum() / (values.numel() if reduction == "mean" else 1)


def weighted(kind: str, shape: tuple[int, ...]) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    per_label = torch.rand(LABELS, generator=generator) + 0.1
    per_cell = torch.rand(*shape, LABELS, generator=generator) + 0.1
    mask = torch.rand(*shape, LABELS, generator=generator) < 0.7
    some = torch.where(torch.arange(LABELS) % 3 == 0, 0.0, per_label)
    return {
        "nothing": {},
        "a number": {"pos_weight": torch.tensor(2.5), "label_weight": torch.tensor(0.3)},
        "per label": {"pos_weight": per_label, "label_weight": 2 * per_label},
        "per cell": {"pos_weight": per_cell, "label_weight": 2 * per_cell, "label_mask": mask},
        "zeros": {"pos_weight": some.flip(0), "label_weight": some, "label_mask": mask[..., 0, :]}
        if len(shape) == 1
        else {"pos_weight": some.flip(0), "label_weight": some},
    }[kind]


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("spread", [1.0, 30.0], ids=["gentle", "shifted"])
@pytest.mark.parametrize("kind", ["nothing", "a number", "per label", "per cell", "zeros"])
@pytest.mark.parametrize("shape", [(9,), (3, 4)], ids=str)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_value_and_gradient_are_the_formulas(shape, kind, spread, reduction):
    targets, options = few(shape), weighted(kind, shape)
    scores = draw(shape, spread).requires_grad_()
    exact = scores.detach().double().requires_grad_()
    sample_weight = (
        None if reduction == "sum" else torch.linspace(0.5, 2, math.prod(shape)).view(shape)
    )
    loss = zlpr_loss(scores, targets, sample_weight=sample_weight, reduction=reduction, **options)
    expected = formula(exact, targets, sample_weight, reduction, **options)
    assert_close(loss.double(), expected, rtol=1e-5, atol=1e-6)
    upstream = torch.linspace(-1, 2, loss.numel()).view(loss.shape)
    loss.backward(upstream, retain_graph=True)
    expected.backward(upstream.double())
    assert_close(scores.grad.double(), exact.grad, rtol=1e-5, atol=1e-6)
    first, scores.grad = scores.grad, None
    loss.backward(upstream)  # the second pass computes again what the first handed out
    assert_close(scores.grad, first, rtol=1e-6, atol=1e-7)


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes(dtype):
    targets = few((9,))
    scores = draw((9,), 3.0).to(dtype).requires_grad_()
    exact = scores.detach().double().requires_grad_()
    zlpr_loss(scores, targets).backward()
    formula(exact, targets).backward()
    assert scores.grad.dtype == dtype
    tolerance = torch.finfo(dtype).eps
    assert_close(scores.grad.double(), exact.grad, rtol=4 * tolerance, atol=tolerance)


@pytest.mark.usefixtures("_blocks")
def test_scores_that_do_not_lie_in_a_row():
    targets, scores = few((9,)), draw((9,), 2.0)
    apart = scores.t().contiguous().t().requires_grad_()
    together = scores.clone().requires_grad_()
    zlpr_loss(apart, targets).backward()
    zlpr_loss(together, targets).backward()
    assert torch.equal(apart.grad, together.grad)


@pytest.mark.parametrize("loss", [zlpr_loss, sparse_zlpr_loss])
def test_no_positive_label_at_all(loss):
    scores = draw((5,), 1.0).requires_grad_()
    truth = few((5,)) & False if loss is zlpr_loss else torch.full((5, 2), -1)
    loss(scores, truth).backward()
    expected = torch.softmax(torch.cat([torch.zeros(5, 1), scores], 1), 1)[:, 1:] / 5
    assert_close(scores.grad, expected.detach())


@pytest.mark.parametrize("size", [1e4, 1e6, 1e9])
def test_weights_are_not_lost_beside_large_scores(size):
    scores = torch.full((1, LABELS), -torch.inf)
    scores[0, :2] = size
    weight = torch.ones(LABELS)
    weight[1] = 3.0
    scores.requires_grad_()
    zlpr_loss(scores, torch.zeros(1, LABELS, dtype=torch.bool), label_weight=weight).backward()
    assert_close(scores.grad[0, :2], torch.tensor([0.25, 0.75]))
    positive = torch.zeros(1, LABELS)
    positive[0, :2] = -size
    positive.requires_grad_()
    sparse_zlpr_loss(positive, torch.tensor([[0, 1]]), pos_weight=weight).backward()
    assert_close(positive.grad[0, :2], torch.tensor([-0.25, -0.75]))


@pytest.mark.parametrize("name", ["label_weight", "pos_weight"])
def test_a_label_without_weight_may_have_any_score(name):
    scores = torch.zeros(2, LABELS)
    scores[0, 3] = -torch.inf
    scores.requires_grad_()
    weight = torch.ones(LABELS)
    weight[3] = 0.0
    loss = sparse_zlpr_loss(scores, torch.tensor([[3], [2]]), reduction="none", **{name: weight})
    loss.sum().backward()
    assert_close(loss[0].item(), math.log(LABELS), rtol=1e-6, atol=0)
    assert torch.isfinite(scores.grad).all()
    above = torch.zeros(1, LABELS)
    above[0, 3] = torch.inf
    value = sparse_zlpr_loss(above, torch.tensor([[-1]]), label_weight=weight)
    assert_close(value.item(), math.log(LABELS), rtol=1e-6, atol=0)


def test_nan_and_infinite_scores_show():
    scores, indices = torch.zeros(3, LABELS), torch.tensor([[0], [0], [0]])
    scores[0, 5], scores[1, 5], scores[2, 0] = torch.nan, torch.inf, -torch.inf
    loss = sparse_zlpr_loss(scores, indices, reduction="none")
    assert loss[0].isnan()
    assert_close(loss[1:], torch.full((2,), torch.finfo(torch.float32).max))


def test_the_default_device_is_not_that_of_the_scores():
    scores, targets = draw((3,), 1.0).requires_grad_(), few((3,))
    with torch.device("meta"):
        loss = zlpr_loss(scores, targets, label_weight=2.0)
    assert loss.device == scores.device
    loss.backward()


@pytest.mark.parametrize("soft", [False, True])
def test_many_upstream_gradients_at_once(soft):
    targets = few((3,)).double() * (0.7 if soft else 1.0)
    scores = draw((3,), 1.0).double()

    def values(x):
        return zlpr_loss(x, targets, reduction="none")

    slow = torch.autograd.functional.jacobian(values, scores)
    assert_close(torch.autograd.functional.jacobian(values, scores, vectorize=True), slow)
    single = torch.autograd.functional.jacobian(lambda x: zlpr_loss(x, targets), scores)
    assert_close(single, slow.sum(0) / 3)


@pytest.mark.parametrize("name", ["label_weight", "pos_weight"])
def test_tangents_of_weights_reach_the_loss(name):
    scores, targets = draw((3,), 1.0), few((3,))
    weight = torch.rand(LABELS, generator=torch.Generator().manual_seed(3)) + 0.5
    direction = torch.ones(LABELS)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(weight, direction)
        tangent = forward_ad.unpack_dual(zlpr_loss(scores, targets, **{name: dual})).tangent
    weight.requires_grad_()
    (gradient,) = torch.autograd.grad(zlpr_loss(scores, targets, **{name: weight}), weight)
    assert_close(tangent, gradient.sum())


@pytest.mark.parametrize("outside", [LABELS, -2])
def test_an_index_outside_the_labels_shows_where_it_cannot_be_refused(outside):
    scores, indices = draw((2,), 1.0), torch.tensor([[1], [outside]])
    with pytest.raises(ValueError, match=r"indices must lie in \[0, 40\)"):
        sparse_zlpr_loss(scores, indices)
    losses = torch.vmap(sparse_zlpr_loss)(scores, indices)
    assert_close(losses[0], sparse_zlpr_loss(scores[0], indices[0]))
    assert losses[1].isnan()


@pytest.mark.parametrize("soft", [False, True])
def test_a_weight_changed_in_place_before_the_gradient_is_refused(soft):
    scores = draw((3,), 1.0).half().requires_grad_()  # whose gradient is made in the backward pass
    targets = few((3,)) * (0.5 if soft else 1.0)
    weight = torch.ones(LABELS)
    loss = zlpr_loss(scores, targets, label_weight=weight)
    weight.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("name", ["label_weight", "pos_weight"])
def test_weights_are_finite(name):
    weight = torch.ones(LABELS)
    weight[0] = torch.inf
    with pytest.raises(ValueError, match=f"{name} must be finite, got inf"):
        zlpr_loss(draw((2,), 1.0), few((2,)), **{name: weight})


def test_few_positives_go_the_fast_way():
    scores = draw((3,), 1.0).requires_grad_()
    assert "HardSides" in zlpr_loss(scores, few((3,))).grad_fn.name()
    assert "HardSides" not in zlpr_loss(scores, few((3,)) * 0.5).grad_fn.name()

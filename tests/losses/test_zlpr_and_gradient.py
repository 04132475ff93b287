"""Values and gradients made together equal the formula's, block by block and in every corner."""

import math
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch._inductor.utils import run_and_get_code
from torch.autograd import forward_ad
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from zlpr.losses import _arguments as arguments
from zlpr.losses import _zlpr_and_gradient as core
from zlpr.losses import sparse_zlpr_loss, zlpr_loss
from zlpr.losses._arguments import MODERATE, Weighting
from zlpr.losses._zlpr_and_gradient import BLOCK, LEAST_KEPT

LABELS = 40


@pytest.fixture(params=[16, 1 << 18], ids=["many blocks", "one block"])
def _blocks(request, monkeypatch):
    """Rows in blocks of one, or all in one."""
    monkeypatch.setattr(core, "BLOCK", request.param)


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
    values = core.two_sides(scores.double(), targets, weighting)
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


# --- both sides of every switch -----------------------------------------------------------------


@pytest.fixture
def ways(monkeypatch):
    """The names of the ways that blocks went."""
    taken = []

    def counted(name):
        original = getattr(core, name)

        def call(*arguments):
            sides = original(*arguments)
            taken.append(name if sides is not None else f"not {name}")
            return sides

        return call

    for name in ("bare_sides", "shifted_sides"):
        monkeypatch.setattr(core, name, counted(name))
    return taken


KINDS = ["bool", "integer", "float", "soft", "indices"]


def loss_of(kind, scores, targets, **options):
    """The loss by one kind of targets, and what the formula takes."""
    if kind == "indices":
        indices = torch.where(targets, torch.arange(targets.shape[-1]), -1)
        return sparse_zlpr_loss(scores, indices, **options), targets
    kinds = {"bool": targets, "integer": targets.long(), "float": targets.to(scores.dtype)}
    truth = kinds.get(kind, torch.where(targets, 0.9, 0.05))
    return zlpr_loss(scores, truth, **options), truth


def assert_like_the_formula(kind, scores, targets, tolerance=2e-6, **options):
    ours = scores.clone().requires_grad_()
    loss, truth = loss_of(kind, ours, targets, reduction="none", **options)
    (gradient,) = torch.autograd.grad(loss, ours, torch.ones_like(loss))
    largest = torch.finfo(scores.dtype).max
    exact = scores.double().clamp(-largest, largest).requires_grad_()
    expected = formula(exact, truth, reduction="none", **options)
    (slope,) = torch.autograd.grad(expected, exact, torch.ones_like(expected))
    assert_close(loss.double(), expected.clamp(max=largest), rtol=tolerance, atol=1e-30)
    # The two sides of a soft target may all but cancel in the gradient.
    floor = 1e-8 if kind == "soft" else 1e-30
    assert_close(gradient.double(), slope, rtol=5 * tolerance, atol=floor)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("size", "way"), [(29.0, "bare_sides"), (31.0, "shifted_sides")])
@pytest.mark.parametrize("sign", [1, -1], ids=["negative side", "positive side"])
def test_large_sums_are_taken_relative_to_the_largest_term(kind, size, way, sign, ways):
    scores = draw((3,), 1.0)
    targets = few((3,))
    targets[1, :2] = torch.tensor([False, True])
    scores[1, 0 if sign > 0 else 1] = sign * size
    assert_like_the_formula(kind, scores, targets)
    assert ways[-1] == way


@pytest.mark.parametrize("kind", ["float", "soft"])
@pytest.mark.parametrize(("score", "way"), [(-87.0, "bare_sides"), (-95.0, "shifted_sides")])
def test_small_targets_beside_low_scores(kind, score, way, ways):
    # e^score is below the normal numbers where the second goes; a sum would not tell.
    scores, targets = torch.zeros(2, LABELS), torch.zeros(2, LABELS)
    scores[0, 3], targets[0, 3] = score, 1e-30
    ours = scores.clone().requires_grad_()
    truth = targets if kind == "float" else targets.clamp(min=1e-32)
    loss = zlpr_loss(ours, truth, reduction="none")
    assert_close(
        loss.double(), formula(scores, truth.double(), reduction="none"), rtol=1e-6, atol=0
    )
    assert ways[-1] == way


SIZES = [3, LEAST_KEPT // LABELS + 1, BLOCK // LABELS + 1]  # rows: small, kept, two blocks


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("kind", ["bool", "integer", "indices"])
@pytest.mark.parametrize("low", [-torch.inf, -200.0, -90.0])
def test_impossible_labels_stay_on_the_fast_way(kind, rows, low, ways):
    scores, targets = draw((rows,), 1.0), few((rows,))
    scores[1, 5], targets[1, 5] = low, False
    assert_like_the_formula(kind, scores, targets)
    assert set(ways) == {"bare_sides"}


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("score", [-torch.inf, -200.0, -90.0, 90.0, 200.0, torch.inf])
@pytest.mark.parametrize("is_positive", [True, False])
def test_a_cell_beyond_the_bare_exponentials(kind, rows, score, is_positive):
    # What the fast way has written into the gradient until it gave up must not stay there.
    scores, targets = draw((rows,), 1.0), few((rows,))
    scores[1, 5], targets[1, 5] = score, is_positive
    scores[1, 6], targets[1, 6] = -torch.inf, False
    assert_like_the_formula(kind, scores, targets)


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("kind", ["bool", "soft"])
def test_nan_shows_in_every_size(kind, rows):
    scores, targets = draw((rows,), 1.0), few((rows,))
    scores[1, 5], scores[1, 6], targets[1] = torch.nan, -torch.inf, False
    loss, _ = loss_of(kind, scores, targets, reduction="none")
    assert loss.isnan().tolist() == [row == 1 for row in range(rows)]


@pytest.mark.parametrize("cells", [2 * LABELS, 3 * LABELS], ids=["blocks", "one block"])
def test_a_matrix_larger_than_a_block_goes_block_by_block(cells, ways, monkeypatch):
    monkeypatch.setattr(core, "BLOCK", cells)
    assert_like_the_formula("bool", draw((3,), 1.0), few((3,)))
    assert len(ways) == (1 if cells == 3 * LABELS else 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weights", ["nothing", "a number", "per label", "per cell", "zeros"])
@pytest.mark.parametrize("spread", [1.0, 60.0])
def test_the_way_of_other_devices(kind, weights, spread, monkeypatch):
    monkeypatch.setattr(core, "_is_on_cpu", lambda tensor: False)
    scores, targets = draw((9,), spread), few((9,))
    scores[0, 0], targets[0, 0] = torch.inf, False
    scores[1, 0], targets[1, 0] = -torch.inf, False
    scores[2, 1], targets[2, 1] = -2e38, True
    assert_like_the_formula(kind, scores, targets, 5e-6, **weighted(weights, (9,)))


@pytest.mark.parametrize("name", ["label_weight", "pos_weight"])
@pytest.mark.parametrize("bound", MODERATE, ids=["small", "large"])
@pytest.mark.parametrize("is_within", [True, False])
def test_weights_that_can_decide_which_term_is_the_largest(name, bound, is_within, monkeypatch):
    monkeypatch.setattr(core, "_is_on_cpu", lambda tensor: False)
    general = []
    original = core._coefficients
    monkeypatch.setattr(core, "_coefficients", lambda *a: general.append(1) or original(*a))
    scores, targets = draw((9,), 60.0), few((9,))
    weight = torch.ones(LABELS)
    weight[::3] = bound if is_within else 4 * bound if bound > 1 else bound / 4
    assert_like_the_formula("bool", scores, targets, 1e-5, **{name: weight})
    assert len(general) == (0 if is_within else 1)


def test_a_tiny_weight_of_a_high_score_leaves_the_other_terms(monkeypatch):
    monkeypatch.setattr(core, "_is_on_cpu", lambda tensor: False)
    scores, targets = torch.zeros(1, LABELS), torch.zeros(1, LABELS, dtype=torch.bool)
    scores[0, 0], scores[0, 1] = 120.0, 10.0
    weight = torch.ones(LABELS)
    weight[0] = 1e-38
    for given in (weight, weight * (weight == 1)):
        assert_like_the_formula("bool", scores, targets, label_weight=given)


# --- the kernels that a device has to start -----------------------------------------------------

NO_KERNELS = {
    "alias", "as_strided", "detach", "empty", "empty_like", "expand", "new_empty", "select",
    "slice", "squeeze", "t", "transpose", "unbind", "unsqueeze", "view", "_local_scalar_dense",
    "_reshape_alias",
}  # fmt: skip


class Kernels(TorchDispatchMode):
    """Counts operations, views, allocations and the reading of single numbers left out."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.overloadpacket.__name__ not in NO_KERNELS:
            self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def kernels_of(kind, **options):
    scores, targets = draw((3,), 1.0).requires_grad_(), few((3,))
    indices = torch.where(targets, torch.arange(LABELS), -1)
    truth = {"bool": targets, "soft": torch.where(targets, 0.9, 0.05), "indices": indices}[kind]
    loss = sparse_zlpr_loss if kind == "indices" else zlpr_loss
    loss(scores.detach(), truth, **options)  # makes what is made once
    with Kernels() as kernels:
        loss(scores, truth, **options).backward()
    return len(kernels.names)


BARS = {"bool": 20, "soft": 24, "indices": 24}
MASK, WEIGHT = torch.arange(LABELS) % 5 > 0, torch.linspace(0.1, 1.1, LABELS)
SOME = torch.where(MASK, WEIGHT, 0.0)


@pytest.mark.parametrize("kind", BARS)
def test_few_kernels_are_started(kind, monkeypatch):
    monkeypatch.setattr(core, "_is_on_cpu", lambda tensor: False)
    assert kernels_of(kind) <= BARS[kind]


@pytest.mark.parametrize("kind", BARS)
@pytest.mark.parametrize(
    "options",
    [
        {"label_mask": MASK},
        {"label_weight": 2.0},
        {"label_weight": WEIGHT},
        {"label_weight": SOME},
        {"pos_weight": WEIGHT},
        {"label_mask": MASK, "label_weight": WEIGHT},
        {"label_weight": WEIGHT, "pos_weight": WEIGHT},
        {"label_mask": MASK, "label_weight": WEIGHT, "pos_weight": WEIGHT},
    ],
    ids=lambda options: "_and_".join(options),
)
def test_mask_and_weights_start_at_most_four_kernels_more(kind, options, monkeypatch):
    monkeypatch.setattr(core, "_is_on_cpu", lambda tensor: False)
    monkeypatch.setattr(arguments, "_waits_for_device", lambda tensor: True)
    assert kernels_of(kind, **options) <= kernels_of(kind) + 4


@pytest.mark.slow
def test_the_compiled_formula_is_one_pass_over_the_rows_each_way():
    # Forward, each row in turn: its largest terms, then its two sums, which wait for them. The mean
    # waits for all rows, and the gradient for what is upstream; its cells share two numbers a row
    # and side.
    scores, targets = draw((64,), 1.0).requires_grad_(), few((64,))
    torch._dynamo.reset()

    def step():
        loss = torch.compile(zlpr_loss, fullgraph=True)(scores, targets)
        loss.backward()
        return loss

    loss, (forward, backward) = run_and_get_code(step)
    for code, over_rows, over_cells in ((forward, 2, 3), (backward, 3, 1)):
        assert code.count("cpp_pybinding(") == 1  # so many functions
        assert len(re.findall(r"for\(int64_t x0=", code)) <= over_rows
        assert len(re.findall(r"for\(int64_t x1=", code)) <= over_cells
    assert_close(loss.double(), formula(scores.detach(), targets), rtol=1e-6, atol=0)
    eager = scores.detach().requires_grad_()
    zlpr_loss(eager, targets).backward()
    assert_close(scores.grad, eager.grad)


# --- memory that is kept for the next call ------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.float64, torch.uint8])
@pytest.mark.parametrize("rows", [LEAST_KEPT // 64 - 1, LEAST_KEPT // 64, BLOCK // 64 + 1])
def test_kept_memory_makes_no_difference(rows, dtype):
    scores = torch.randn(rows, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    targets = (scores > 1.5).to(dtype)
    expected = formula(scores, targets.double())
    with torch.inference_mode():  # the first to ask for the memory
        zlpr_loss(scores.float(), targets)
    first = scores.float().requires_grad_()
    loss = zlpr_loss(first, targets)
    zlpr_loss(-scores.float(), targets)  # writes to the same memory
    loss.backward()
    assert_close(loss.double(), expected, rtol=1e-5, atol=0)
    wide = scores.clone().requires_grad_()
    zlpr_loss(wide, targets).backward()
    assert_close(first.grad.double(), wide.grad, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_kept_memory_serves_one_shape_after_the_other(dtype):
    generator = torch.Generator().manual_seed(3)
    shapes = [(LEAST_KEPT // 64, 64), (64, LEAST_KEPT // 64), (300, 100), (100, 300)]
    for shape in 2 * shapes:
        scores = torch.randn(shape, generator=generator).to(dtype).requires_grad_()
        targets = torch.rand(shape, generator=generator) < 0.1
        exact = scores.detach().double().requires_grad_()
        without = zlpr_loss(scores.detach(), targets)
        loss = zlpr_loss(scores, targets)
        loss.backward()
        expected = formula(exact, targets)
        expected.backward()
        assert_close(loss.double(), expected, rtol=1e-6, atol=0)
        assert_close(without, loss, rtol=1e-6, atol=0)
        tolerance = max(torch.finfo(dtype).eps, 1e-6)
        assert_close(scores.grad.double(), exact.grad, rtol=2 * tolerance, atol=tolerance / 10)


def test_threads_do_not_share_kept_memory():
    generator = torch.Generator().manual_seed(0)
    batches = [torch.randn(400, 64, generator=generator) * k for k in (1, 2, 3, 4)]
    expected = [zlpr_loss(scores, scores > 1).item() for scores in batches]

    def losses(scores):
        return {zlpr_loss(scores, scores > 1).item() for _ in range(50)}

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(losses, batches)) == [{value} for value in expected]


# --- what was wrong once ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", ["data", "numpy"])
def test_a_weight_changed_behind_torchs_back_is_looked_at_again(kind, change):
    scores = torch.tensor([[300.0, 1.0, 2.0]])
    targets = torch.tensor([[False, True, False]])
    weight = torch.ones(3)
    loss_of(kind, scores, targets, label_weight=weight)
    if change == "data":
        weight.data[0] = 0
    else:
        weight.numpy()[0] = 0
    scores.requires_grad_()
    stale, _ = loss_of(kind, scores, targets, label_weight=weight)
    (gradient,) = torch.autograd.grad(stale, scores)
    fresh, _ = loss_of(kind, scores, targets, label_weight=weight.clone())
    assert_close(stale, fresh, rtol=0, atol=0)
    assert torch.isfinite(gradient).all()
    weight.data.fill_(-1.0)
    with pytest.raises(ValueError, match="label_weight"):
        loss_of(kind, scores, targets, label_weight=weight)


@pytest.mark.parametrize("loss", [zlpr_loss, sparse_zlpr_loss])
@pytest.mark.parametrize("as_tensor", [False, True])
def test_a_positive_label_without_weight_is_no_negative_one(loss, as_tensor):
    scores, targets = torch.zeros(1, 32), torch.zeros(1, 32)
    scores[0, 0], targets[0, 0] = 2.0, 1.0
    scores.requires_grad_()
    weight = torch.zeros(32) if as_tensor else 0.0
    value = loss(scores, targets if loss is zlpr_loss else torch.tensor([[0]]), pos_weight=weight)
    value.backward()
    assert_close(value.item(), math.log(32), rtol=1e-6, atol=0)
    assert scores.grad[0, 0] == 0


@pytest.mark.parametrize("weight", [1e-8, 1e-38, 1e30])
@pytest.mark.parametrize("kind", KINDS)
def test_an_infinite_score_with_any_weight(kind, weight):
    scores = torch.tensor([[torch.inf, 0.0]], requires_grad=True)
    targets = torch.tensor([[False, True]])
    loss, _ = loss_of(kind, scores, targets, label_weight=weight)
    loss.backward()
    assert loss.item() == torch.finfo(torch.float32).max
    assert_close(scores.grad[0, 0].item(), 1.0, rtol=1e-6, atol=0)
    assert scores.grad.isfinite().all()


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_no_labels_at_all(kind):
    scores = torch.zeros(3, 0, requires_grad=True)
    targets = torch.zeros(3, 0, dtype=torch.bool if kind == "bool" else torch.float32)
    for loss in (
        zlpr_loss(scores, targets),
        sparse_zlpr_loss(scores, torch.full((3, 2), -1)),
        sparse_zlpr_loss(scores, torch.zeros(3, 0, dtype=torch.long)),
    ):
        loss.backward()
        assert loss == 0
    assert scores.grad.shape == (3, 0)

"""The losses work with the tools people use: gradient checks, torch.func, compile, export."""

import copy

import pytest
import torch
from torch import Tensor

from tests.losses.samples import ALL, PER_SAMPLE, Case, scores_and_targets
from zlpr.losses import ZLPRLoss, linear_zlpr_loss, sparse_zlpr_loss, zlpr_loss

# Weights within these losses carry no gradient, so that theirs is not that of their value.
WITHOUT_GRADIENT = {"asymmetric", "asymmetric_polynomial", "hbm", "circle"}
CHECKABLE = [case for case in ALL if case.name not in WITHOUT_GRADIENT]


def by_name(cases: list[Case]):  # type: ignore[no-untyped-def]
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


def sparse_problem() -> tuple[Tensor, Tensor, Tensor]:
    """Scores, boolean targets with few positive labels, and the same as indices."""
    generator = torch.Generator().manual_seed(5)
    scores = torch.randn(3, 20, generator=generator, dtype=torch.float64)
    indices = torch.tensor([[1, 7], [3, -1], [-1, -1]])
    targets = torch.zeros(3, 20, dtype=torch.bool)
    targets[0, 1] = targets[0, 7] = targets[1, 3] = True
    return scores, targets, indices


@by_name(CHECKABLE)
def test_gradcheck_and_gradgradcheck(case: Case) -> None:
    scores, targets = scores_and_targets(shape=(2, 7))
    scores.requires_grad_()
    assert torch.autograd.gradcheck(lambda s: case.loss(s, targets), scores)
    assert torch.autograd.gradgradcheck(lambda s: case.loss(s, targets), scores)


@pytest.mark.parametrize("weighted", [False, True])
def test_gradcheck_of_every_path_of_zlpr(weighted: bool) -> None:
    scores, targets, indices = sparse_problem()
    scores.requires_grad_()
    generator = torch.Generator().manual_seed(0)
    options = {"reduction": "none"}
    if weighted:
        options |= {
            "label_weight": torch.rand(20, generator=generator, dtype=torch.float64),
            "pos_weight": 2.5,
            "label_mask": torch.rand(3, 20, generator=generator) < 0.8,
        }
    soft = torch.rand(3, 20, generator=generator, dtype=torch.float64)
    for path in (
        lambda s: zlpr_loss(s, targets, **options),
        lambda s: zlpr_loss(s, soft, **options),
        lambda s: sparse_zlpr_loss(s, indices, **options),
    ):
        assert torch.autograd.gradcheck(path, scores, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(path, scores)


def test_gradients_into_targets_and_weights() -> None:
    scores, _, _ = sparse_problem()
    soft = torch.rand(3, 20, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(20, dtype=torch.float64, requires_grad=True)

    def loss(soft: Tensor, weight: Tensor) -> Tensor:
        return zlpr_loss(scores, soft, label_weight=weight, pos_weight=weight)

    assert torch.autograd.gradcheck(loss, (soft, weight))


def test_sample_weights_are_learned_from_a_start_at_0() -> None:
    """As in Ren et al., "Learning to Reweight Examples", 2018: by a step that they weigh."""
    generator = torch.Generator().manual_seed(2)
    features = torch.randn(6, 5, generator=generator, dtype=torch.float64)
    weight = torch.randn(4, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    targets = torch.rand(6, 4, generator=generator) < 0.4

    def loss(weight: Tensor, of_samples: Tensor | None = None) -> Tensor:
        return zlpr_loss(features @ weight.T, targets, sample_weight=of_samples, reduction="sum")

    def after_a_step(of_samples: Tensor) -> Tensor:
        (slope,) = torch.autograd.grad(loss(weight, of_samples), weight, create_graph=True)
        return loss(weight - 0.1 * slope)

    start = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(after_a_step(start), start)
    steps = 1e-6 * torch.eye(6, dtype=torch.float64)
    expected = [(after_a_step(step) - after_a_step(-step)).item() / 2e-6 for step in steps]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("impl", ["dense", "recompute", "store"])
def test_the_slope_in_a_sample_weight_of_0_of_a_linear_form(impl: str) -> None:
    scores, _, indices = sparse_problem()
    weight = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    labels = torch.eye(20, dtype=torch.float64)
    options = {"sample_weight": weight, "reduction": "sum", "impl": impl}
    (found,) = torch.autograd.grad(
        linear_zlpr_loss(scores, labels, None, indices, **options), weight
    )
    expected = sparse_zlpr_loss(scores, indices, reduction="none")
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=0)


def test_backward_twice_over_a_kept_graph() -> None:
    scores, targets, indices = sparse_problem()
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        s = scores.to(dtype).requires_grad_()
        for loss in (zlpr_loss(s, targets), sparse_zlpr_loss(s, indices)):
            (first,) = torch.autograd.grad(loss, s, retain_graph=True)
            first = first.clone()
            (second,) = torch.autograd.grad(loss, s, retain_graph=True)
            assert torch.equal(first, second)
            (third,) = torch.autograd.grad(loss, s, create_graph=True)
            torch.testing.assert_close(third, first)


def test_the_scores_are_left_alone() -> None:
    scores, targets, indices = sparse_problem()
    before = scores.clone()
    s = scores.requires_grad_()
    (zlpr_loss(s, targets) + sparse_zlpr_loss(s, indices)).backward()
    assert torch.equal(s.detach(), before)


@by_name(PER_SAMPLE)
def test_vmap_and_grad(case: Case) -> None:
    scores, targets = scores_and_targets()

    def loss(s: Tensor, y: Tensor) -> Tensor:
        return case.loss(s, y)

    each = torch.vmap(loss)(scores, targets)
    torch.testing.assert_close(each, case.loss(scores, targets, reduction="none"))
    slopes = torch.vmap(torch.func.grad(loss))(scores, targets)
    s = scores.clone().requires_grad_()
    (expected,) = torch.autograd.grad(case.loss(s, targets, reduction="sum"), s)
    torch.testing.assert_close(slopes, expected)


def test_func_of_zlpr() -> None:
    scores, targets, indices = sparse_problem()

    def dense(s: Tensor) -> Tensor:
        return zlpr_loss(s, targets)

    def sparse(s: Tensor) -> Tensor:
        return sparse_zlpr_loss(s, indices)

    s = scores.clone().requires_grad_()
    (expected,) = torch.autograd.grad(dense(s), s)
    for loss in (dense, sparse):
        torch.testing.assert_close(torch.func.grad(loss)(scores), expected)
        _, tangent = torch.func.jvp(loss, (scores,), (torch.ones_like(scores),))
        torch.testing.assert_close(tangent, expected.sum())
    hessian = torch.func.hessian(dense)(scores)
    torch.testing.assert_close(hessian, torch.autograd.functional.hessian(dense, scores))
    each = torch.vmap(lambda s, i: sparse_zlpr_loss(s, i))(scores, indices)
    torch.testing.assert_close(each, sparse_zlpr_loss(scores, indices, reduction="none"))


@by_name(ALL)
def test_compiles_in_one_graph(case: Case) -> None:
    scores, targets = scores_and_targets(dtype=torch.float32)
    torch.compiler.reset()
    compiled = torch.compile(
        lambda s, y: case.loss(s, y), fullgraph=True, backend="aot_eager", dynamic=False
    )
    one, two = (scores.clone().requires_grad_() for _ in range(2))
    value, expected = compiled(one, targets), case.loss(two, targets)
    torch.testing.assert_close(value, expected)
    value.backward()
    expected.backward()
    torch.testing.assert_close(one.grad, two.grad)


def test_zlpr_compiles_with_every_kind_of_target() -> None:
    scores, targets, indices = sparse_problem()
    torch.compiler.reset()
    compiled = torch.compile(zlpr_loss, fullgraph=True, backend="aot_eager")
    sparse = torch.compile(sparse_zlpr_loss, fullgraph=True, backend="aot_eager")
    for truth in (targets, targets.long(), 0.9 * targets):
        torch.testing.assert_close(compiled(scores, truth), zlpr_loss(scores, truth))
    torch.testing.assert_close(sparse(scores, indices), sparse_zlpr_loss(scores, indices))


def test_exports() -> None:
    class Trained(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 20)
            self.loss = ZLPRLoss(pos_weight=2.0)

        def forward(self, features: Tensor, targets: Tensor) -> Tensor:
            return self.loss(self.layer(features), targets)

    model, features = Trained(), torch.randn(3, 4)
    _, targets, _ = sparse_problem()
    for truth in (targets, targets.float()):
        program = torch.export.export(model, (features, truth))
        torch.testing.assert_close(program.module()(features, truth), model(features, truth))


@by_name(ALL)
def test_every_loss_exports(case: Case) -> None:
    class Loss(torch.nn.Module):
        def forward(self, scores: Tensor, targets: Tensor) -> Tensor:
            return case.loss(scores, targets)

    scores, targets = scores_and_targets(dtype=torch.float32)
    program = torch.export.export(Loss(), (scores, targets))
    torch.testing.assert_close(program.module()(scores, targets), case.loss(scores, targets))


@by_name(ALL)
def test_meta_tensors_give_a_shape(case: Case) -> None:
    if case.info.needs_label_counts:
        return
    scores = torch.empty(6, 7, device="meta")
    targets = torch.empty(6, 7, device="meta", dtype=torch.float32)
    assert case.loss(scores, targets).shape == ()


def test_modules_copy_and_move() -> None:
    loss = ZLPRLoss(threshold=torch.zeros(3), learn_threshold=True, label_weight=torch.ones(3))
    twin = copy.deepcopy(loss).double()
    assert twin.threshold.dtype is torch.float64
    assert twin.label_weight.dtype is torch.float64
    assert list(loss.state_dict()) == ["threshold"]
    assert "label_weight=(3,)" in repr(loss)

"""The Triton kernels of the dense loss, run by Triton's interpreter on CPU, against the formula."""

import torch
import torch.multiprocessing as mp
from torch.testing import assert_close

from zlpr.losses import _arguments, sparse_zlpr_loss, zlpr_loss
from zlpr.losses import _zlpr_and_gradient as core
from zlpr.losses._arguments import Weighting

ROWS, LABELS = 5, 1300  # more than one part of a row


def check_against_the_formula(kind: str, dtype: torch.dtype, options: dict) -> None:
    scores = (3 * torch.randn(ROWS, LABELS)).to(dtype)
    scores[0, :3] = torch.tensor([torch.inf, -torch.inf, 200.0])
    targets = torch.rand(ROWS, LABELS) < 0.02
    targets[0, 0], targets[1] = False, False
    soft = torch.where(targets, 0.7, 0.1)
    indices = torch.where(targets, torch.arange(LABELS), -1)
    given = {"bool": targets, "float": targets.float(), "soft": soft, "indices": indices}[kind]
    loss = sparse_zlpr_loss if kind == "indices" else zlpr_loss
    ours = scores.clone().requires_grad_()
    losses = loss(ours, given, reduction="none", **options)
    upstream = torch.linspace(-1.0, 2.0, ROWS)
    (gradient,) = torch.autograd.grad(losses, ours, upstream)
    largest = torch.finfo(losses.dtype).max
    exact = scores.double().clamp(-largest, largest).requires_grad_()
    weighting = Weighting(
        **{k: v.double() if v.is_floating_point() else v for k, v in options.items()}
    )
    expected = core.two_sides(exact, soft if kind == "soft" else targets, weighting)
    (slope,) = torch.autograd.grad(expected, exact, upstream.double())
    expected = expected.clamp(max=largest)  # two sides at once
    assert_close(losses.double(), expected, rtol=1e-5, atol=1e-6)
    tolerance = max(torch.finfo(dtype).eps, 1e-5)
    assert_close(gradient.double(), slope, rtol=tolerance, atol=1e-6)


def check_all(_: int) -> None:
    torch.manual_seed(0)
    from zlpr.losses import _zlpr_triton

    calls = 0
    original = _zlpr_triton.triton_sides

    def counted(*arguments):  # so that a silent way round the kernels cannot pass
        nonlocal calls
        calls += 1
        return original(*arguments)

    _zlpr_triton.triton_sides = counted
    weights = {
        "label_weight": torch.where(torch.arange(LABELS) % 7 == 0, 0.0, 2.0),
        "pos_weight": torch.rand(ROWS, LABELS),
        "label_mask": torch.rand(LABELS) < 0.8,
    }
    for kind in ("bool", "float", "soft", "indices"):
        check_against_the_formula(kind, torch.float32, {})
        check_against_the_formula(kind, torch.float32, weights)
    check_against_the_formula("bool", torch.bfloat16, {})
    check_against_the_formula("soft", torch.float16, {"pos_weight": torch.tensor(2.0)})
    check_against_the_formula("bool", torch.float32, {"label_mask": torch.rand(ROWS, LABELS) < 0.5})
    assert calls == 11 + 2  # half precision makes its gradient in the backward pass
    check_against_the_formula("bool", torch.float64, {})  # the kernels compute in float32
    _arguments.ASKS_FOR_TRITON = False
    check_against_the_formula("bool", torch.float32, {})
    assert calls == 11 + 2


def test_kernels_equal_the_formula(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # read where triton is first imported
    monkeypatch.setenv("ZLPR_TRITON", "1")
    mp.spawn(check_all, nprocs=1)

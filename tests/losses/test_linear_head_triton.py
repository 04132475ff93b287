"""The Triton kernels, run by Triton's interpreter on CPU, against the sweep of single tiles."""

import itertools

import torch
import torch.multiprocessing as mp
from torch.testing import assert_close

from zlpr.losses import _arguments, linear_lsep_loss, linear_zlpr_loss

SAMPLES, FEATURES, LABELS = 70, 40, 333  # whole blocks and parts in every dimension


def losses_and_gradients(loss, inputs, indices, options):
    wanted = [each for each in inputs if each is not None]
    losses = loss(*inputs, indices, impl="recompute", reduction="none", **options)
    return losses, torch.autograd.grad(losses, wanted, torch.linspace(-1, 2, SAMPLES))


def check_equal_to_tiles(loss, options, dtype, bias, infinite=False):
    inputs = [
        torch.randn(SAMPLES, FEATURES).to(dtype).requires_grad_(),
        (0.5 * torch.randn(LABELS, FEATURES)).to(dtype).requires_grad_(),
        torch.randn(LABELS).requires_grad_() if bias else None,
    ]
    if infinite:
        inputs[2].data[[3, 200]] = torch.inf
        inputs[2].data[[7, 100]] = -torch.inf
    indices = torch.randint(-1, LABELS, (SAMPLES, 5))
    indices[0], indices[1] = -1, torch.tensor([7, 7, 7, 332, -1])
    _arguments.ASKS_FOR_TRITON = True
    losses, gradients = losses_and_gradients(loss, inputs, indices, options)
    _arguments.ASKS_FOR_TRITON = False
    expected, wanted = losses_and_gradients(loss, inputs, indices, options)
    assert_close(losses, expected, rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(gradients, wanted, strict=True):
        tolerance = 1e-5 if ours.dtype == torch.float32 else 1e-2
        assert (ours - theirs).norm() <= tolerance * theirs.norm()


def count_kernel_calls():
    """Count the calls, so that a silent way round the kernels cannot pass."""
    from zlpr.losses._linear_head_triton import TritonKernels

    calls = {"add": 0, "slopes": 0}

    def counted(name, original):
        def call(*arguments):
            calls[name] += 1
            return original(*arguments)

        return call

    for name in calls:
        setattr(TritonKernels, name, counted(name, getattr(TritonKernels, name)))
    return calls


def check_all(_):
    assert not _arguments.wants_triton()  # unless asked for
    torch.manual_seed(0)
    calls = count_kernel_calls()
    weights = {"label_weight": torch.rand(LABELS), "label_mask": torch.rand(LABELS) > 0.3}
    # float16 stands for half precision: the interpreter multiplies the bits of bfloat16
    dtypes, biases = (torch.float32, torch.float16), (True, False)
    for dtype, bias in itertools.product(dtypes, biases):
        check_equal_to_tiles(linear_zlpr_loss, {}, dtype, bias)
    check_equal_to_tiles(linear_zlpr_loss, weights, torch.float32, True)
    check_equal_to_tiles(
        linear_zlpr_loss, {"threshold": torch.randn(SAMPLES, 1)}, torch.float32, True
    )
    check_equal_to_tiles(linear_lsep_loss, weights, torch.float32, True)
    for loss in (linear_zlpr_loss, linear_lsep_loss):
        check_equal_to_tiles(loss, {}, torch.float32, True, infinite=True)
    assert calls["add"] == 9
    assert calls["slopes"] >= 9
    mask = torch.rand(SAMPLES, LABELS) > 0.3  # per sample: the kernels leave that to the tiles
    check_equal_to_tiles(linear_zlpr_loss, {"label_mask": mask}, torch.float32, True)
    assert calls["add"] == 9


def test_kernels_equal_the_sweep_of_tiles(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # read where triton is first imported
    monkeypatch.delenv("ZLPR_TRITON", raising=False)
    mp.spawn(check_all, nprocs=1)

"""A loss over a batch that is spread over processes is the loss of the whole batch."""

import pytest
import torch
import torch.distributed as dist

from tests import processes
from zlpr.distributed import BatchOverProcesses
from zlpr.losses import dice2_loss, sigmoid_f1_loss, two_way_loss

SAMPLES, LABELS = 12, 5


def check_batch_losses() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = 3 * torch.randn(SAMPLES, LABELS, generator=generator, dtype=torch.float64)
    targets = torch.rand(SAMPLES, LABELS, generator=generator) < 0.4
    rank, size = dist.get_rank(), dist.get_world_size()
    mine = slice(rank * SAMPLES // size, (rank + 1) * SAMPLES // size)
    for loss in (dice2_loss, sigmoid_f1_loss, two_way_loss):
        whole = scores.clone().requires_grad_()
        expected = loss(whole, targets, reduction="sum")
        (gradient,) = torch.autograd.grad(expected, whole)
        part = scores[mine].clone().requires_grad_()
        value = loss(part, targets[mine], batch=BatchOverProcesses(), reduction="sum")
        torch.testing.assert_close(value, expected)
        value.backward()
        torch.testing.assert_close(part.grad, size * gradient[mine])


def check_sum_and_max() -> None:
    batch, rank, size = BatchOverProcesses(), dist.get_rank(), dist.get_world_size()
    values = torch.tensor([float(rank), -float(rank)], requires_grad=True)
    total = batch.sum(values)
    assert total.tolist() == [sum(range(size)), -sum(range(size))]
    total.sum().backward()
    assert values.grad.tolist() == [size, size]
    assert batch.max(values).tolist() == [size - 1, 0]


def check_all() -> None:
    check_sum_and_max()
    check_batch_losses()


@pytest.mark.parametrize("size", [2, 3])
def test_batch_losses_span_the_processes(size, tmp_path):
    processes.run(check_all, size, tmp_path)

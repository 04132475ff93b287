"""The recipes of `docs/guides/several-gpus.md` take the steps of one process, on four of them."""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.testing import assert_close

from tests.processes import run
from zlpr.distributed import ShardedLinearZLPRLoss, gather_samples, sharded_zlpr_loss
from zlpr.losses import sparse_zlpr_loss

FEATURES, LABELS, STEPS = 5, 13, 3  # labels that do not divide evenly


def batch(step: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    inputs = torch.randn(8, FEATURES, generator=generator)
    return inputs, torch.randint(-1, LABELS, (8, 3), generator=generator)


def parts() -> tuple[nn.Module, nn.Linear]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh()), nn.Linear(8, LABELS)


def whole(tensor: Tensor) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def one_process() -> tuple[list[float], list[Tensor]]:
    """Losses and parameters of steps on the whole batch."""
    encoder, head = parts()
    parameters = [*encoder.parameters(), *head.parameters()]
    optimiser = torch.optim.SGD(parameters, lr=0.5)
    losses = []
    for step in range(STEPS):
        inputs, indices = batch(step)
        loss = sparse_zlpr_loss(head(encoder(inputs)), indices)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses, [parameter.detach() for parameter in parameters]


def check_steps(modules: list[nn.Module], loss_of, samples: slice) -> None:
    """The same steps with `loss_of(inputs, indices)`, on this process's samples."""
    expected_losses, expected = one_process()
    parameters = [parameter for module in modules for parameter in module.parameters()]
    optimiser = torch.optim.SGD(parameters, lr=0.5)
    for step in range(STEPS):
        inputs, indices = batch(step)
        loss = loss_of(inputs[samples], indices[samples])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if samples == slice(None):
            assert_close(loss.item(), expected_losses[step], rtol=1e-5, atol=1e-5)
    for found, wanted in zip(parameters, expected, strict=True):
        assert_close(whole(found.detach()), wanted, rtol=1e-5, atol=1e-5)


def check_colwise_parallel() -> None:
    """Labels over four processes: the head is cut by torch, its scores stay where they are."""
    mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("labels",))
    encoder, head = parts()
    parallelize_module(head, mesh, ColwiseParallel(use_local_output=False))
    check_steps(
        [encoder, head],
        lambda inputs, indices: sharded_zlpr_loss(head(encoder(inputs)), indices),
        slice(None),
    )


def check_data_and_labels() -> None:
    """Samples over one dimension of the mesh, labels over the other; FSDP2 over the first."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "labels"))
    encoder, head = parts()
    parallelize_module(head, mesh["labels"], ColwiseParallel(use_local_output=False))
    for module in (encoder, head):
        fully_shard(module, mesh=mesh["data"])
    half = 4 * mesh.get_local_rank("data")
    check_steps(
        [encoder, head],
        lambda inputs, indices: sharded_zlpr_loss(head(encoder(inputs)), indices),
        slice(half, half + 4),
    )


def check_fsdp_beside_a_sharded_head() -> None:
    """Every process encodes its own samples with FSDP2, and holds a slice of the labels."""
    mesh = init_device_mesh("cpu", (4,))
    encoder, plain = parts()
    head = ShardedLinearZLPRLoss(8, LABELS, mesh=mesh)
    width = -(-LABELS // 4)
    rows = slice(mesh.get_local_rank() * width, (mesh.get_local_rank() + 1) * width)
    with torch.no_grad():
        head.weight.to_local().copy_(plain.weight[rows])
        head.bias.to_local().copy_(plain.bias[rows])
    fully_shard(encoder, mesh=mesh)
    first = 2 * dist.get_rank()
    check_steps(
        [encoder, head],
        lambda inputs, indices: head(gather_samples(encoder(inputs)), gather_samples(indices)),
        slice(first, first + 2),
    )


def check_all() -> None:
    check_colwise_parallel()
    check_data_and_labels()
    check_fsdp_beside_a_sharded_head()


def test_four_processes_take_the_steps_of_one(tmp_path):
    run(check_all, 4, tmp_path)

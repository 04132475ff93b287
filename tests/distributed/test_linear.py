"""A linear head spread over processes trains like the whole head."""

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close

from tests.processes import run
from zlpr.distributed import ShardedLinearZLPRLoss, gather_samples, sharded_linear_zlpr_loss
from zlpr.losses import sparse_zlpr_loss

FEATURES, LABELS = 6, 301


def batch(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Features, and indices: none for the first sample, all in the first slice for the second."""
    generator = torch.Generator().manual_seed(seed)
    indices = torch.randint(-1, LABELS, (8, 4), generator=generator)
    indices[0] = -1
    indices[1] = torch.tensor([0, 1, 2, 0])
    return torch.randn(8, FEATURES, generator=generator), indices


def check_gradients() -> None:
    rank = dist.get_rank()
    edges = [0, 5, 5, 200, LABELS]  # uneven, and one slice is empty
    rows = slice(edges[rank], edges[rank + 1])
    torch.manual_seed(0)
    head, upstream = nn.Linear(FEATURES, LABELS), torch.linspace(-1, 2, 8)
    features, indices = batch(0)
    whole, shared = features.clone().requires_grad_(), features.clone().requires_grad_()
    weight = head.weight.detach()[rows].clone().requires_grad_()
    bias = head.bias.detach()[rows].clone().requires_grad_()
    expected = sparse_zlpr_loss(head(whole), indices, threshold=0.5, reduction="none")
    losses = sharded_linear_zlpr_loss(
        shared, weight, bias, indices, first_label=rows.start, threshold=0.5, reduction="none"
    )
    expected.backward(upstream)
    losses.backward(upstream)
    assert_close(losses, expected, rtol=1e-6, atol=1e-6)
    assert_close(weight.grad, head.weight.grad[rows], rtol=1e-6, atol=1e-6)
    assert_close(bias.grad, head.bias.grad[rows], rtol=1e-6, atol=1e-6)
    assert_close(shared.grad, whole.grad, rtol=1e-6, atol=1e-6)


def check_training(folder: str) -> None:
    """Encoder and head step together as one process would, and resume from a checkpoint."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    encoder, twin = nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, FEATURES)
    twin.load_state_dict(encoder.state_dict())
    head, whole = ShardedLinearZLPRLoss(FEATURES, LABELS, mesh=mesh), nn.Linear(FEATURES, LABELS)
    with torch.no_grad():
        whole.weight.copy_(head.weight.full_tensor())
        whole.bias.copy_(head.bias.full_tensor())
    assert not torch.equal(whole.weight[0], whole.weight[-(-LABELS // mesh.size())])
    ours = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=0.05)
    theirs = torch.optim.Adam([*twin.parameters(), *whole.parameters()], lr=0.05)
    for step in range(5):
        features, indices = batch(step)
        loss = head(encoder(features).relu(), indices)
        expected = sparse_zlpr_loss(whole(twin(features).relu()), indices)
        assert_close(loss, expected, rtol=1e-5, atol=1e-6)
        for optimiser, value in ((ours, loss), (theirs, expected)):
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
    assert_close(head.weight.full_tensor(), whole.weight, rtol=1e-4, atol=1e-5)
    assert_close(head.local_scores(features), whole(features)[:, _rows(mesh)], rtol=1e-4, atol=1e-4)
    checkpoint.save({"head": head.state_dict()}, checkpoint_id=folder)
    again = ShardedLinearZLPRLoss(FEATURES, LABELS, mesh=mesh)
    state = {"head": again.state_dict()}
    checkpoint.load(state, checkpoint_id=folder)
    again.load_state_dict(state["head"])
    assert torch.equal(again.weight.to_local(), head.weight.to_local())


def check_batches_over_processes_too() -> None:
    """Every process encodes its own samples; the step is that of the whole batch in one process."""
    rank, size = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(0)
    encoder, twin = nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, FEATURES)
    twin.load_state_dict(encoder.state_dict())
    head = ShardedLinearZLPRLoss(FEATURES, LABELS, mesh=mesh)
    inputs, indices = batch(3)
    parallel = DistributedDataParallel(encoder)
    features = gather_samples(parallel(inputs.chunk(size)[rank]))
    gathered = gather_samples(indices.chunk(size)[rank])
    assert torch.equal(gathered, indices)
    loss = head(features, gathered)
    loss.backward()
    weight, bias = head.weight.full_tensor().detach(), head.bias.full_tensor().detach()
    expected = sparse_zlpr_loss(nn.functional.linear(twin(inputs), weight, bias), indices)
    expected.backward()
    assert_close(loss, expected, rtol=1e-6, atol=1e-6)
    assert_close(encoder.weight.grad, twin.weight.grad, rtol=1e-5, atol=1e-6)


def check_features_that_differ_are_refused() -> None:
    """The parts of a batch are no batch, and terms of a sum no features."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    head = ShardedLinearZLPRLoss(FEATURES, LABELS, mesh=mesh)
    features, indices = batch(0)
    expected = head(features, indices)
    assert_close(head(distribute_tensor(features, mesh, [Replicate()]), indices), expected)
    for how in (Shard(0), Shard(1), Partial()):
        local = features if how == Partial() else distribute_tensor(features, mesh, [how])
        if how == Partial():
            local = DTensor.from_local(local, mesh, [how])
        with pytest.raises(ValueError, match="features must be the same on all processes"):
            head(local, indices)
    halves = init_device_mesh("cpu", (2, 2), mesh_dim_names=("batch", "labels"))
    head = ShardedLinearZLPRLoss(FEATURES, LABELS, mesh=halves["labels"])
    part = slice(4 * halves.get_local_rank("batch"), 4 * halves.get_local_rank("batch") + 4)
    assert_close(
        head(distribute_tensor(features, halves, [Shard(0), Replicate()]), indices[part]),
        head(features[part], indices[part]),
    )
    with pytest.raises(ValueError, match="features must be the same on all processes"):
        head(distribute_tensor(features, halves, [Replicate(), Shard(0)]), indices[part])


def _rows(mesh) -> slice:
    width = -(-LABELS // mesh.size())
    return slice(mesh.get_local_rank() * width, (mesh.get_local_rank() + 1) * width)


def check_all(folder: str) -> None:
    check_gradients()
    check_training(folder)
    check_batches_over_processes_too()
    check_features_that_differ_are_refused()


def test_slices_train_like_the_whole(tmp_path):
    run(check_all, 4, tmp_path, str(tmp_path / "checkpoint"))

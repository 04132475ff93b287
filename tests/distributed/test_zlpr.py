"""Scores spread over processes give the loss and the gradients of the whole."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.testing import assert_close

from tests.processes import run
from zlpr.distributed import (
    ShardedZLPRLoss,
    sharded_linear_zlpr_loss,
    sharded_zlpr_loss,
)
from zlpr.losses import sparse_zlpr_loss

LABELS = 23
# Sample 0 has no positive; those of sample 1 are all on the first process, those of sample 2 on
# the last; sample 3 has one on each of several; sample 4 names one label three times.
INDICES = torch.tensor(
    [[-1, -1, -1, -1], [0, 1, -1, -1], [-1, 22, 21, -1], [0, 9, 15, 22], [7, 7, -1, 7]]
)
UPSTREAM = torch.tensor([0.3, -1.0, 2.0, 0.0, 0.7])


def uneven(size: int) -> list[int]:
    """First labels of slices of different sizes, the second of them empty where there are four."""
    return [0, 9, LABELS] if size == 2 else [0, 2, 2, 16, LABELS]


def make_scores(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return (3 * torch.randn(5, LABELS, generator=generator)).to(dtype)


def options(rows: slice = slice(0, LABELS)) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    mask = torch.rand(5, LABELS, generator=generator) > 0.3
    label_weight = 2 * torch.rand(LABELS, generator=generator)
    pos_weight = 3 * torch.rand(5, LABELS, generator=generator)
    return {
        "label_mask": mask[:, rows],
        "label_weight": label_weight[rows],
        "pos_weight": pos_weight[:, rows],
    }


def same_as_whole(scores: torch.Tensor, tolerance: float, **threshold: torch.Tensor) -> None:
    """Losses and gradients of this process's slice, by scores and threshold, equal the whole's."""
    edges = uneven(dist.get_world_size())
    rows = slice(edges[dist.get_rank()], edges[dist.get_rank() + 1])
    for weighted in (False, True):
        whole, part = scores.clone().requires_grad_(), scores[:, rows].clone().requires_grad_()
        thresholds = [value.clone().requires_grad_() for value in threshold.values() for _ in "ab"]
        named = [dict.fromkeys(threshold, value) for value in thresholds] or [{}, {}]
        expected = sparse_zlpr_loss(
            whole, INDICES, reduction="none", **named[0], **(options() if weighted else {})
        )
        losses = sharded_zlpr_loss(
            part,
            INDICES,
            first_label=rows.start,
            reduction="none",
            **named[1],
            **(options(rows) if weighted else {}),
        )
        assert_close(losses, expected, rtol=tolerance, atol=tolerance)
        expected.backward(UPSTREAM.to(expected))
        losses.backward(UPSTREAM.to(losses))
        assert_close(part.grad, whole.grad[:, rows], rtol=tolerance, atol=tolerance)
        if thresholds:
            assert_close(thresholds[1].grad, thresholds[0].grad, rtol=tolerance, atol=tolerance)


def check_values() -> None:
    same_as_whole(make_scores(), 1e-6)
    same_as_whole(make_scores(torch.float64), 1e-12)
    same_as_whole(make_scores(torch.bfloat16), 1e-2)  # gradients are rounded to bfloat16
    same_as_whole(1e4 * make_scores(), 1e-6)
    per_sample = torch.linspace(-3, 3, 5, dtype=torch.float64)[:, None]
    for threshold in (torch.tensor(1.5, dtype=torch.float64), per_sample):
        same_as_whole(make_scores(torch.float64), 1e-12, threshold=threshold)


def check_one_sample_in_one_dimension() -> None:
    """The threshold of a slice of one label is that label's, not the sample's."""
    edges = [*range(dist.get_world_size()), LABELS]
    rows = slice(edges[dist.get_rank()], edges[dist.get_rank() + 1])
    scores, threshold = make_scores()[3], torch.linspace(-3, 3, LABELS)
    loss = sharded_zlpr_loss(
        scores[rows], INDICES[3], first_label=rows.start, threshold=threshold[rows]
    )
    assert_close(loss, sparse_zlpr_loss(scores, INDICES[3], threshold=threshold))
    swept = sharded_linear_zlpr_loss(
        scores,
        torch.eye(LABELS)[rows],
        None,
        INDICES[3],
        first_label=rows.start,
        threshold=threshold[rows],
    )
    assert_close(swept, loss)


def check_impossible_labels() -> None:
    scores = make_scores()
    scores[:, 3:7] = -torch.inf
    same_as_whole(scores, 1e-6)


def check_reductions() -> None:
    edges = uneven(dist.get_world_size())
    first, stop = edges[dist.get_rank()], edges[dist.get_rank() + 1]
    scores, weight = make_scores(), torch.arange(5.0)
    loss = sharded_zlpr_loss(
        scores[:, first:stop], INDICES, first_label=first, sample_weight=weight
    )
    assert_close(loss, sparse_zlpr_loss(scores, INDICES, sample_weight=weight))
    module = ShardedZLPRLoss(first_label=first, reduction="sum", threshold=0.5)
    expected = sparse_zlpr_loss(scores, INDICES, reduction="sum", threshold=0.5)
    assert_close(module(scores[:, first:stop], INDICES), expected)
    leading = sharded_zlpr_loss(
        scores[None, :, first:stop], INDICES[None], first_label=first, reduction="none"
    )
    assert leading.shape == (1, 5)


def check_dtensor() -> None:
    """A DTensor knows its slice, and gets its gradient as a DTensor."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("labels",))
    whole = make_scores().requires_grad_()
    cut = distribute_tensor(make_scores(), mesh, [Shard(1)]).requires_grad_()
    loss = sharded_zlpr_loss(cut, INDICES)
    expected = sparse_zlpr_loss(whole, INDICES)
    loss.backward()
    expected.backward()
    assert_close(loss, expected, rtol=1e-6, atol=1e-6)
    assert cut.grad.placements == (Shard(1),)
    assert_close(cut.grad.full_tensor(), whole.grad, rtol=1e-6, atol=1e-6)
    local, first = cut.detach().to_local(), mesh.get_local_rank() * -(-LABELS // mesh.size())
    assert_close(sharded_zlpr_loss(local, INDICES, first_label=first, group=mesh), loss.detach())
    with pytest.raises(ValueError, match="leave them out"):
        sharded_zlpr_loss(cut, INDICES, first_label=0)
    with pytest.raises(ValueError, match=r"must be Shard\(1\)"):
        sharded_zlpr_loss(distribute_tensor(make_scores(), mesh, [Shard(0)]), INDICES)


def check_groups_inside_a_mesh() -> None:
    """Half the processes hold one batch, half another; labels are cut within each half."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("batch", "labels"))
    scores = make_scores() + mesh.get_local_rank("batch")
    first = 11 * mesh.get_local_rank("labels")
    part = scores[:, first : 11 if first == 0 else LABELS]
    loss = sharded_zlpr_loss(part, INDICES, first_label=first, group=mesh["labels"])
    assert_close(loss, sparse_zlpr_loss(scores, INDICES))
    with pytest.raises(ValueError, match="one dimension"):
        sharded_zlpr_loss(part, INDICES, first_label=first, group=mesh)


def check_mistakes() -> None:
    """An index no slice holds, or two hold, is an error on every process, not a number."""
    rank, size = dist.get_rank(), dist.get_world_size()
    scores = torch.zeros(1, 4)
    with pytest.raises(ValueError, match="names 1 label, of which the slices hold 0"):
        sharded_zlpr_loss(scores, torch.tensor([[4 * size]]), first_label=4 * rank)
    with pytest.raises(ValueError, match=f"of which the slices hold {size}"):
        sharded_zlpr_loss(scores, torch.tensor([[2]]), first_label=0)
    with pytest.raises(ValueError, match="first_label is needed"):
        sharded_zlpr_loss(scores, torch.tensor([[2]]))
    with pytest.raises(ValueError, match="got values from -2 to -2"):
        sharded_zlpr_loss(scores, torch.tensor([[-2]]), first_label=4 * rank)


def check_all() -> None:
    check_values()
    check_one_sample_in_one_dimension()
    check_impossible_labels()
    check_reductions()
    check_dtensor()
    check_mistakes()
    if dist.get_world_size() == 4:
        check_groups_inside_a_mesh()


@pytest.mark.parametrize("size", [2, 4])
def test_slices_give_the_loss_of_the_whole(size, tmp_path):
    run(check_all, size, tmp_path)


def test_needs_a_process_group():
    with pytest.raises(RuntimeError, match="torchrun"):
        sharded_zlpr_loss(torch.zeros(1, 2), torch.tensor([[0]]), first_label=0)

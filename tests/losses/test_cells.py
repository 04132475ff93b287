"""What every loss computes with: scores and weights within limits, targets as they are."""

import pytest
import torch

from zlpr.losses._cells import held, largest_score, limited_weight, prepare

SCORES = torch.tensor([[1.0, -2.0, 3.0]])
TARGETS = torch.tensor([[True, False, True]])


def test_what_is_held_has_the_gradient_of_what_is_not() -> None:
    values = torch.tensor([-torch.inf, -2.0, 0.5, 3.0, torch.inf], requires_grad=True)
    result = held(values, -1.0, 2.0)
    assert result.tolist() == [-1.0, -1.0, 0.5, 2.0, 2.0]
    (slope,) = torch.autograd.grad(result.sum(), values)
    assert slope.tolist() == [1.0] * 5
    _, tangent = torch.func.jvp(lambda v: held(v, -1.0, 2.0), (values,), (torch.ones(5),))
    assert tangent.tolist() == [1.0] * 5
    rows = torch.vmap(lambda v: held(v, -1.0, 2.0))(values.detach().repeat(2, 1))
    assert torch.equal(rows, result.detach().repeat(2, 1))


def test_what_need_not_be_held_is_left_as_it_is() -> None:
    assert held(SCORES, -5.0, 5.0) is SCORES
    assert held(torch.tensor([torch.nan]), -5.0, 5.0).isnan()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_sums_and_multiples_of_scores_are_numbers(dtype: torch.dtype) -> None:
    cells = prepare(torch.tensor([[torch.inf, -torch.inf]], dtype=dtype), TARGETS[:, :2])
    assert cells.scores.tolist()[0] == [largest_score(cells.scores.dtype) * x for x in (1, -1)]
    assert (3 * (cells.scores[..., 0] - cells.scores[..., 1])).isfinite()


def test_a_masked_score_may_be_nan() -> None:
    scores = torch.tensor([[torch.nan, 1.0, 2.0]], requires_grad=True)
    cells = prepare(scores, TARGETS, torch.tensor([False, True, True]))
    assert cells.scores.tolist() == [[0.0, 1.0, 2.0]]
    assert torch.autograd.grad(cells.scores.sum(), scores)[0].tolist() == [[0.0, 1.0, 1.0]]


def test_hard_targets_without_weights_count_as_booleans() -> None:
    mask = torch.tensor([True, True, False])
    for targets in (TARGETS, TARGETS.long(), TARGETS.float(), TARGETS.double()):
        cells = prepare(SCORES, targets, mask)
        assert torch.equal(cells.positive, TARGETS & mask)
        assert torch.equal(cells.negative, ~TARGETS & mask)
    soft = prepare(SCORES, torch.tensor([[0.25, 0.0, 1.0]]), mask)
    assert soft.positive.tolist() == [[0.25, 0.0, 0.0]]
    assert soft.negative.tolist() == [[0.75, 1.0, 0.0]]


def test_weights_multiply_and_their_product_is_a_number() -> None:
    cells = prepare(SCORES, TARGETS, None, torch.tensor([2.0, 3.0, 1e30]), 1e30)
    largest = limited_weight(torch.inf, torch.float32)
    assert cells.positive[0, 0].item() == pytest.approx(largest)
    assert cells.positive.isfinite().all()
    assert cells.negative.tolist() == [[0.0, 3.0, 0.0]]
    assert cells.weight is not None
    assert cells.weight.tolist()[0][1] == 3.0
    assert prepare(SCORES, TARGETS).weight is None


def test_weights_of_any_size_in_double_precision() -> None:
    cells = prepare(SCORES.double(), TARGETS, None, 1e200)
    assert cells.positive[0, 0].item() == 1e200

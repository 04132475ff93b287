import pytest
import torch
from torch import Tensor

from zlpr import losses


@pytest.mark.parametrize("given", [False, True])
def test_making_a_module_draws_nothing(given: bool) -> None:
    generator = torch.Generator().manual_seed(3) if given else torch.default_generator
    before = generator.get_state()
    weight = torch.rand(2, 5, generator=torch.Generator())
    losses.LSEPLoss(pairs=4, generator=generator if given else None)
    losses.LSEPLoss(pairs=4, label_weight=weight, generator=generator if given else None)
    assert torch.equal(generator.get_state(), before)


class Elsewhere:
    """A batch that spans processes which are not there to answer."""

    def sum(self, values: Tensor) -> Tensor:
        raise InterruptedError("asked the other processes")

    def max(self, values: Tensor) -> Tensor:
        return self.sum(values)


@pytest.mark.parametrize("name", ["dice2", "sigmoid_f1", "two_way"])
def test_making_a_module_asks_no_other_process(name: str) -> None:
    module = losses.create(name, batch=Elsewhere())
    with pytest.raises(InterruptedError):
        module(torch.zeros(2, 3), torch.eye(2, 3, dtype=torch.bool))


def test_a_wrong_option_is_an_error_when_the_module_is_made() -> None:
    with pytest.raises(ValueError, match="label_weight must not be negative, got -1"):
        losses.ZLPRLoss(label_weight=torch.tensor([1.0, -1.0]))
    with pytest.raises(ValueError, match="pairs must be"):
        losses.LSEPLoss(pairs=0)
    with pytest.raises(ValueError, match="reduction must be 'mean', 'sum' or 'none'"):
        losses.BCELoss(reduction="average")


@pytest.mark.parametrize("name", ["pos_weight", "threshold", "temperature"])
def test_an_option_set_later_counts(name: str) -> None:
    scores, targets = torch.tensor([[2.0, -1.0, -3.0]]), torch.tensor([[True, False, True]])
    loss = losses.ZLPRLoss()
    for value in (torch.tensor(3.0), 2.0) if name != "temperature" else (3.0, 2.0):
        setattr(loss, name, value)
        expected = losses.ZLPRLoss(**{name: value})(scores, targets)
        assert torch.equal(loss(scores, targets), expected)
        assert getattr(loss, name) is value

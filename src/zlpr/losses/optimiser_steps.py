"""Optimiser steps that the linear losses apply to the weight inside their backward sweep."""

from typing import Protocol

import torch
from torch import Tensor, nn


class WeightStep(Protocol):
    """Updates some rows of the weight from their gradient, inside the backward sweep."""

    def __call__(self, labels: slice, weight: Tensor, gradient: Tensor) -> None:
        """Change `weight` (the rows `labels` of the whole weight) in place."""


class SGDStep:
    """Plain gradient descent: `weight -= lr (gradient + weight_decay weight)`.

    Equal to `torch.optim.SGD` without momentum, one tile of labels at a time, so that the
    gradient of the whole weight never exists.

    Args:
        lr: Learning rate; change the attribute to follow a schedule.
        weight_decay: Factor of the quadratic penalty.

    Examples:
        >>> import torch
        >>> from zlpr.losses import SGDStep, linear_zlpr_loss
        >>> weight = torch.nn.Parameter(torch.zeros(3, 2))
        >>> features, indices = torch.ones(1, 2), torch.tensor([[0]])
        >>> loss = linear_zlpr_loss(features, weight, None, indices, weight_step=SGDStep(lr=1.0))
        >>> loss.backward()
        >>> weight.grad is None, weight[0].tolist()
        (True, [0.5, 0.5])
    """

    def __init__(self, lr: float, *, weight_decay: float = 0.0) -> None:
        if lr < 0 or weight_decay < 0:
            raise ValueError(f"lr={lr} and weight_decay={weight_decay} must not be negative")
        self.lr = lr
        self.weight_decay = weight_decay

    def __call__(self, labels: slice, weight: Tensor, gradient: Tensor) -> None:
        """Update the rows `labels` of the weight in place."""
        if self.weight_decay:
            gradient = gradient.add(weight, alpha=self.weight_decay)
        weight.add_(gradient, alpha=-self.lr)


class RowAdagradStep(nn.Module):
    """Adagrad with one accumulator per label instead of one per weight.

    `a_l += mean(gradient_l^2)`, `weight_l -= lr gradient_l / (sqrt(a_l) + eps)`: labels that are
    rarely positive keep a large step, at the cost of one number a label. As a module its
    accumulators travel with `state_dict` and `to`.

    Args:
        num_labels: Rows of the weight.
        lr: Learning rate; change the attribute to follow a schedule.
        eps: Keeps the first steps finite.

    Examples:
        >>> import torch
        >>> from zlpr.losses import RowAdagradStep
        >>> step, weight = RowAdagradStep(2, lr=0.1), torch.zeros(2, 2)
        >>> step(slice(0, 2), weight, torch.tensor([[3.0, 3.0], [0.0, 0.0]]))
        >>> [round(value, 6) for value in weight[0].tolist()]
        [-0.1, -0.1]
    """

    accumulators: Tensor

    def __init__(self, num_labels: int, lr: float, *, eps: float = 1e-10) -> None:
        super().__init__()
        if lr < 0 or eps <= 0:
            raise ValueError(f"lr={lr} must not be negative and eps={eps} must be positive")
        self.lr = lr
        self.eps = eps
        self.register_buffer("accumulators", torch.zeros(num_labels))

    def forward(self, labels: slice, weight: Tensor, gradient: Tensor) -> None:
        """Update the rows `labels` of the weight in place."""
        accumulators = self.accumulators[labels]
        accumulators += gradient.float().square().mean(dim=1)
        steps = self.lr / (accumulators.sqrt() + self.eps)
        weight.sub_((gradient.float() * steps[:, None]).to(weight.dtype))

"""The loss module that a training run's settings name."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from zlpr._errors import UserError
from zlpr.losses import registry
from zlpr.training.config import TrainingConfig


def create_loss(config: TrainingConfig, labels: Any, reduction: str = "mean") -> nn.Module:
    """Make the loss of the settings, with the label counts of the data where it needs them.

    Args:
        config: names the loss and its parameters; a list, as JSON has them, becomes a tensor.
        labels: the training labels, CSR of shape (samples, labels).
        reduction: of the module.

    Raises:
        UserError: there is no such loss, or it does not take these parameters.
    """
    params: dict[str, Any] = {
        name: torch.tensor(value, dtype=torch.float32) if isinstance(value, list) else value
        for name, value in config.loss_params.items()
    }
    try:
        if registry.info(config.loss).needs_label_counts:
            counts = torch.from_numpy(np.asarray(labels.sum(axis=0), dtype=np.float32))
            params = {"label_counts": counts, "num_samples": labels.shape[0], **params}
        loss = registry.create(config.loss, reduction=reduction, **params)
        nothing = torch.zeros(1, labels.shape[1])
        loss(nothing, nothing.bool())  # weights of another number of labels show here
    except (TypeError, ValueError) as fault:
        raise UserError(str(fault)) from fault
    return loss


def bound_of(loss: nn.Module) -> Tensor:
    """What a loss compares its scores with: its own bound, or 0.

    A trained model takes it off its scores, so that every model's scores are cut at 0.
    """
    return torch.as_tensor(getattr(loss, "bound", 0.0)).detach()

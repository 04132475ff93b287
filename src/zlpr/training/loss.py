"""The loss module that a training run's settings name."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from zlpr._errors import UserError
from zlpr.losses import registry
from zlpr.losses._reduce import ONE_PROCESS, OneProcess
from zlpr.training.config import TrainingConfig


def create_loss(
    config: TrainingConfig,
    labels: Any,
    reduction: str = "mean",
    generator: torch.Generator | None = None,
    sample_weight: NDArray[np.float64] | None = None,
) -> nn.Module:
    """Make the loss of the settings, with the label counts of the data where it needs them.

    Args:
        config: names the loss and its parameters; a list, as JSON has them, becomes a tensor.
        labels: the training labels, CSR of shape (samples, labels).
        reduction: of the module.
        generator: for a loss that draws at random; torch's default generator if None.
        sample_weight: of shape (samples,), by which the labels are counted; None counts each once.

    Raises:
        UserError: there is no such loss, or it does not take these parameters.
    """
    params: dict[str, Any] = {
        name: torch.tensor(value, dtype=torch.float32) if isinstance(value, list) else value
        for name, value in config.loss_params.items()
    }
    if "reduction" in params:
        raise UserError("reduction is not for a training to choose; leave it out")
    try:
        info = registry.info(config.loss)
        if info.is_random(params):
            params = {"generator": generator, **params}
        if info.needs_label_counts:
            weight = np.ones(labels.shape[0]) if sample_weight is None else sample_weight
            counts = torch.from_numpy(np.asarray(weight @ labels, dtype=np.float32))
            samples = math.ceil(weight.sum())  # which no count may exceed
            params = {"label_counts": counts, "num_samples": samples, **params}
        loss = registry.create(config.loss, reduction=reduction, **params)
    except (TypeError, ValueError) as fault:
        raise UserError(str(fault)) from fault
    for name, value in params.items():
        if isinstance(value, Tensor) and value.shape not in ((), labels.shape[1:]):
            raise UserError(
                f"{name} of the loss {config.loss} must be a number or a list of "
                f"{labels.shape[1]}, one for each label, got the shape {tuple(value.shape)}"
            )
    return loss


def check_mean(loss: nn.Module) -> None:
    """Refuse a loss that is no mean over samples, where the means of batches are weighed.

    Examples:
        >>> from zlpr.losses import ZLPRLoss
        >>> check_mean(ZLPRLoss(reduction="sum"))
        Traceback (most recent call last):
        zlpr._errors.UserError: reduction 'sum': the means of batches are weighed here; leave it out
    """
    inner = getattr(loss, "loss", None)
    reduction = getattr(loss, "reduction", "mean")
    if isinstance(inner, nn.Module):
        check_mean(inner)
    elif reduction != "mean":
        raise UserError(
            f"reduction {reduction!r}: the means of batches are weighed here; leave it out"
        )


def looks_at_batch(loss: nn.Module) -> bool:
    """Whether a module is a loss of this package over the batch, of what its own process has.

    Examples:
        >>> from zlpr.losses import Dice2Loss, ZLPRLoss
        >>> looks_at_batch(Dice2Loss()), looks_at_batch(ZLPRLoss())
        (True, False)
    """
    inner = getattr(loss, "loss", None)
    if isinstance(inner, nn.Module):
        return looks_at_batch(inner)
    if not isinstance(getattr(loss, "batch", ONE_PROCESS), OneProcess):
        return False
    kinds = (registry.info(name) for name in registry.available())
    return any(kind.over_batch and kind.module in type(loss).__mro__ for kind in kinds)


def begin_epoch(loss: nn.Module, epoch: int) -> None:
    """Tell a loss that is another from some epoch on which one begins, the first of which is 1."""
    tell = getattr(loss, "begin_epoch", None)
    if callable(tell):
        tell(epoch)


class NotFiniteError(UserError):
    """Training cannot go on: the objective is no number, and neither will the weights be."""


def check_finite(objective: float, config: TrainingConfig) -> None:
    """Refuse an objective that is NaN or infinite, as soon as it is."""
    if not math.isfinite(objective):
        params = ", ".join(f"{name}={value}" for name, value in config.loss_params.items())
        raise NotFiniteError(
            f"the loss {config.loss}{f' ({params})' if params else ''} is {objective} on "
            "this data, which leads nowhere: its parameters, the features or the learning rate are "
            "too large"
        )


def only_ranks(loss: nn.Module) -> bool:
    """Whether a loss of this package has no bound, and so decides nothing; alone or within another.

    Examples:
        >>> from zlpr.losses import LogitAdjustedLoss, LSEPLoss, ZLPRLoss
        >>> counts = torch.tensor([9, 1])
        >>> wrapped = LogitAdjustedLoss(LSEPLoss(), label_counts=counts, num_samples=10)
        >>> only_ranks(ZLPRLoss()), only_ranks(LSEPLoss()), only_ranks(wrapped)
        (False, True, True)
    """
    inner = getattr(loss, "loss", None)
    if isinstance(inner, nn.Module):
        return only_ranks(inner)
    decides = {kind.module: kind.decides for kind in map(registry.info, registry.available())}
    # A user's own class is what it was made from, and decides where that is none of this package.
    return not next((decides[kind] for kind in type(loss).__mro__ if kind in decides), True)


def bound_of(loss: nn.Module) -> Tensor:
    """What a loss compares its scores with: its threshold, or 0.

    A trained model takes it off its scores, so that every model's scores are cut at 0. A loss
    around another one (`LogitAdjustedLoss`) decides where the inner one does.

    Examples:
        >>> from zlpr.losses import ZLPRLoss
        >>> bound_of(ZLPRLoss(threshold=1.5))
        tensor(1.5000)
    """
    inner = getattr(loss, "loss", None)
    if isinstance(inner, nn.Module):
        return bound_of(inner)
    bound = getattr(loss, "threshold", None)  # of a stranger's module it may be anything
    return torch.as_tensor(bound if isinstance(bound, float | int | Tensor) else 0.0).detach()

"""The threshold between positive and negative labels: given or learned, for all or for each."""

import torch
from torch import Tensor, nn

from zlpr.losses._arguments import Weight, check_number, check_scores, working_dtype


def subtract_threshold(scores: Tensor, threshold: Weight) -> Tensor:
    """`scores - threshold`, in the dtype to compute in; the scores themselves for 0."""
    if isinstance(threshold, float) and threshold == 0.0:
        return scores
    check_scores(scores)
    if not isinstance(threshold, Tensor):
        number = check_number("threshold", threshold)
        return scores if number == 0.0 else scores.to(working_dtype(scores)) - number
    allowed = ((), scores.shape[-1:], (*scores.shape[:-1], 1), scores.shape)
    if threshold.shape not in allowed:
        raise ValueError(
            f"threshold must be a number or have the shape {tuple(scores.shape[-1:])} (per label), "
            f"{(*scores.shape[:-1], 1)} (per sample) or {tuple(scores.shape)} (of both), got "
            f"{tuple(threshold.shape)}"
        )
    return scores.to(working_dtype(scores)) - threshold


def as_tensor(threshold: Weight, *, learn: bool) -> Tensor:
    """A threshold as a tensor, or as a parameter that starts at the given value."""
    tensor = torch.as_tensor(threshold, dtype=torch.get_default_dtype()).detach().clone()
    return nn.Parameter(tensor) if learn else tensor

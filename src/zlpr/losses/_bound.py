"""The bound between positive and negative labels: fixed or learned, for all labels or for each."""

import torch
from torch import Tensor, nn

from zlpr.losses._arguments import Weight, check_number, check_scores, working_dtype


def subtract_bound(scores: Tensor, bound: Weight, name: str) -> Tensor:
    """`scores - bound`, in the dtype to compute in; the scores themselves for a bound of 0."""
    if isinstance(bound, float) and bound == 0.0:
        return scores
    check_scores(scores)
    if not isinstance(bound, Tensor):
        number = check_number(name, bound)
        return scores if number == 0.0 else scores.to(working_dtype(scores)) - number
    allowed = ((), scores.shape[-1:], (*scores.shape[:-1], 1), scores.shape)
    if bound.shape not in allowed:
        raise ValueError(
            f"{name} must be a number or have the shape {tuple(scores.shape[-1:])} (per label) or "
            f"{(*scores.shape[:-1], 1)} (per sample), got {tuple(bound.shape)}"
        )
    return scores.to(working_dtype(scores)) - bound


def as_tensor(bound: Weight, *, learn: bool) -> Tensor:
    """A bound as a tensor, or as a parameter that starts at the given value."""
    tensor = torch.as_tensor(bound, dtype=torch.get_default_dtype()).detach().clone()
    return nn.Parameter(tensor) if learn else tensor

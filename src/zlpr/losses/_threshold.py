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


def kept_threshold(threshold: Weight, *, learn: bool, dtype: torch.dtype | None = None) -> Weight:
    """A threshold as a module keeps it: a number that is not learned as it is, else a tensor.

    Args:
        threshold: A number or a tensor, of which no digit is lost.
        learn: Make it a parameter that starts there, that of a number in torch's default dtype.
        dtype: Of the module's other parameters, where it has any, in place of a narrower default.
    """
    if not learn and isinstance(threshold, int | float):
        return threshold
    default = torch.get_default_dtype()
    least = torch.promote_types(default, dtype or default)
    given = threshold if isinstance(threshold, Tensor) else torch.as_tensor(threshold, dtype=least)
    tensor = given.detach().to(torch.promote_types(given.dtype, least)).clone()
    return nn.Parameter(tensor) if learn else tensor

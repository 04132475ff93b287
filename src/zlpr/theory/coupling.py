r"""The conditions that tie the risk minimisers of ZLPR to the joint distribution."""

import torch
from torch import Tensor

from zlpr.theory.joint import check_joint, label_vectors


def coupled_scores(scores: Tensor, joint: Tensor) -> Tensor:
    r"""The right-hand side of ZLPR's coupling equation; a minimiser is its fixed point.

    $$s_t = \tfrac12 \log\frac{P(y_t=1)}{P(y_t=0)}
    + \tfrac12 \log\frac{E[\varphi_1 \mid y_t=1]}{E[\varphi_0 \mid y_t=0]}, \qquad
    \varphi_1 = \frac{1}{1 + \sum_{r \in P} e^{-s_r}},\quad
    \varphi_0 = \frac{1}{1 + \sum_{r \in N} e^{s_r}}$$

    The first term is what independent treatment would give; the second, which a loss that sums
    over labels does not have, carries the other labels' part.

    Args:
        scores: shape (L,).
        joint: shape (2,) * L.

    Returns:
        Scores of shape (L,): infinite for a label that always or never applies.

    Examples:
        >>> from zlpr.theory import independent, risk_minimiser
        >>> joint = independent([0.3, 0.6])
        >>> scores = risk_minimiser("zlpr", joint)
        >>> torch.allclose(coupled_scores(scores, joint), scores)
        True
    """
    joint = check_joint(joint)
    if scores.shape != (joint.ndim,):
        raise ValueError(f"scores have shape {tuple(scores.shape)}, expected ({joint.ndim},)")
    scores = scores.detach().to(torch.float64)
    probability, present = joint.flatten()[:, None], label_vectors(joint.ndim)
    absent = 1 - present
    phi_one = 1 / (1 + torch.where(present > 0, (-scores).exp(), 0.0).sum(1, keepdim=True))
    phi_zero = 1 / (1 + torch.where(absent > 0, scores.exp(), 0.0).sum(1, keepdim=True))
    with_label = (probability * present * phi_one).sum(0)
    without = (probability * absent * phi_zero).sum(0)
    return (with_label / without).log() / 2


def equal_marginals(
    dependence: float, *, probabilities: tuple[float, float, float] = (0.5, 0.3, 0.2)
) -> Tensor:
    """A joint of three labels whose marginals stay fixed while the first two draw together.

    At 0 the labels are independent, at 1 the rarer of the first two comes only with the other, at
    -1 they exclude each other as far as their marginals allow. The third stays independent.

    Examples:
        >>> from zlpr.theory import marginals
        >>> marginals(equal_marginals(0.8))
        tensor([0.5000, 0.3000, 0.2000], dtype=torch.float64)
    """
    if not -1 <= dependence <= 1:
        raise ValueError(f"dependence is {dependence!r}, expected a number from -1 to 1")
    first, second, third = probabilities
    both = first * second
    room = min(first, second) - both if dependence > 0 else both - max(0.0, first + second - 1)
    both += dependence * room
    pair = torch.tensor(
        [[1 - first - second + both, second - both], [first - both, both]], dtype=torch.float64
    )
    return pair[..., None] * torch.tensor([1 - third, third], dtype=torch.float64)

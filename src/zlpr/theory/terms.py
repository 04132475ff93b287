r"""BCE against ZLPR term by term: what share of the loss and of the gradient is the negatives'.

BCE is the log of ``prod_P (1 + e^-s) prod_N (1 + e^s)``. Expanding the products gives ZLPR's sums
plus all terms of higher order; with many negatives those terms are nearly all of the loss.
"""

from dataclasses import dataclass

import torch

from zlpr.losses import bce_loss, zlpr_loss


@dataclass(frozen=True)
class Shares:
    """What the negatives contribute for one sample.

    Attributes:
        loss: the loss's name.
        negatives: how many negative labels there are.
        of_loss: share of the loss that comes from the negatives, 0 to 1.
        of_gradient: share of the absolute gradient that falls on the negatives, 0 to 1.
        on_positive: absolute gradient on each positive label.
    """

    loss: str
    negatives: int
    of_loss: float
    of_gradient: float
    on_positive: float


def negative_shares(
    negatives: int, *, positives: int = 2, positive_score: float = 0.0, negative_score: float = 0.0
) -> tuple[Shares, Shares]:
    """The shares under BCE and under ZLPR, from the losses themselves.

    Args:
        negatives: number of negative labels.
        positives: number of positive labels.
        positive_score: score of every positive label; 0 is an untrained model.
        negative_score: score of every negative label.

    Examples:
        >>> bce, zlpr = negative_shares(998)
        >>> round(bce.of_gradient, 3), round(zlpr.of_gradient, 3)
        (0.998, 0.6)
    """
    targets = torch.cat([torch.ones(positives), torch.zeros(negatives)]).bool()
    values = torch.where(targets, positive_score, negative_score).double()
    shares = []
    for name, function in (("bce", bce_loss), ("zlpr", zlpr_loss)):
        scores = values.clone().requires_grad_()
        total = function(scores, targets)
        # Taking the positives out of the problem leaves the negatives' part of either loss.
        alone = function(values, targets, label_mask=~targets)
        (gradient,) = torch.autograd.grad(total, scores)
        on_negatives = gradient[~targets].abs().sum()
        shares.append(
            Shares(
                name,
                negatives,
                of_loss=float(alone / total.detach()),
                of_gradient=float(on_negatives / gradient.abs().sum()),
                on_positive=float(gradient[targets].abs().mean()),
            )
        )
    return shares[0], shares[1]

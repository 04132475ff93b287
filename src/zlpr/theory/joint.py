r"""Joint distributions over label sets: tensors of shape (2,) * L that sum to one.

Entry ``joint[y_1, ..., y_L]`` is the probability that exactly the labels with ``y_l = 1`` apply.
Row ``k`` of `label_vectors` is the label set of entry ``k`` of ``joint.flatten()``.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

MAX_LABELS = 12


def check_joint(joint: Tensor) -> Tensor:
    """Return the joint in float64, or say what is wrong with it."""
    if not isinstance(joint, Tensor):
        raise TypeError(f"joint is a {type(joint).__name__}, expected a tensor of shape (2,) * L")
    if joint.ndim == 0 or joint.ndim > MAX_LABELS or any(size != 2 for size in joint.shape):
        raise ValueError(
            f"joint has shape {tuple(joint.shape)}, expected (2,) * L with L from 1 to {MAX_LABELS}"
        )
    joint = joint.detach().to(torch.float64)
    if not bool((joint >= 0).all()):
        raise ValueError("joint has entries that are negative or not numbers")
    total = joint.sum().item()
    if abs(total - 1) > 1e-6:
        raise ValueError(f"joint sums to {total:.9g}, expected 1")
    return joint / total


def label_vectors(num_labels: int) -> Tensor:
    """All label sets as rows of zeros and ones, shape (2**L, L), in the order of a flat joint.

    Examples:
        >>> label_vectors(2).tolist()
        [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    """
    bits = torch.arange(2**num_labels)[:, None] >> torch.arange(num_labels - 1, -1, -1)
    return (bits & 1).to(torch.float64)


def marginals(joint: Tensor) -> Tensor:
    """The probability of each label, shape (L,)."""
    return joint.flatten() @ label_vectors(joint.ndim)


def independent(probabilities: Sequence[float]) -> Tensor:
    """The joint of independent labels with these marginals.

    Examples:
        >>> independent([0.5, 0.25])[1, 0].item()
        0.375
    """
    joint = torch.ones((), dtype=torch.float64)
    for probability in probabilities:
        if not 0 <= probability <= 1:
            raise ValueError(f"probability is {probability!r}, expected one from 0 to 1")
        pair = torch.tensor([1 - probability, probability], dtype=torch.float64)
        joint = joint[..., None] * pair
    return joint


def random_joint(num_labels: int, dependence: float, generator: torch.Generator) -> Tensor:
    r"""A random joint whose marginals do not depend on `dependence`, from 0 to 1.

    At 1, six typical label sets hold 90 % of the probability and the rest is spread at random over
    all sets. At 0 the labels are independent, with the same marginals. Between, the two are mixed.

    Args:
        num_labels: L.
        dependence: from 0, independent labels, to 1.
        generator: where the randomness comes from; equal states give equal marginals.
    """
    if not 0 <= dependence <= 1:
        raise ValueError(f"dependence is {dependence!r}, expected a number from 0 to 1")
    typical = torch.rand(6, num_labels, generator=generator) < 0.35
    weights = -torch.rand(6, generator=generator, dtype=torch.float64).log()
    places = typical.long() @ (2 ** torch.arange(num_labels - 1, -1, -1))
    rest = -torch.rand(2**num_labels, generator=generator, dtype=torch.float64).log()
    tied = 0.1 * rest / rest.sum()
    tied = tied.index_add(0, places, 0.9 * weights / weights.sum()).reshape((2,) * num_labels)
    free = independent(marginals(tied).tolist())
    return dependence * tied + (1 - dependence) * free

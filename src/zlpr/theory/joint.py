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

    Example:
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

    Example:
        >>> independent([0.5, 0.25])[1, 0].item()
        0.375
    """
    joint = torch.ones((), dtype=torch.float64)
    for probability in probabilities:
        pair = torch.tensor([1 - probability, probability], dtype=torch.float64)
        joint = joint[..., None] * pair
    return joint


def random_joint(num_labels: int, dependence: float, generator: torch.Generator) -> Tensor:
    r"""A random Ising model, ``P(y) ~ exp(<b, y> + dependence * sum_{i<j} J_ij y_i y_j)``.

    The biases put the marginals mostly between 5 % and 60 %; ``J`` is standard normal, so
    ``dependence = 0`` gives independent labels and 2 or more gives strong ties and exclusions.
    """
    labels = label_vectors(num_labels)
    bias = torch.randn(num_labels, generator=generator, dtype=torch.float64) - 1
    coupling = torch.randn(num_labels, num_labels, generator=generator, dtype=torch.float64).triu(1)
    energy = labels @ bias + dependence * ((labels @ coupling) * labels).sum(1)
    return energy.softmax(0).reshape((2,) * num_labels)

"""What every loss module shares: options as arguments, tensors among them as buffers."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from zlpr.losses._reduce import Reduction


class LossModule(nn.Module):
    """A loss with its options, called as `module(scores, targets)`.

    A subclass names its function and passes the function's options to this constructor, which makes
    attributes of them: one that is set later counts from the next call on. Options that are tensors
    become buffers, so that they follow the module to another device. A wrong option is an error
    when the module is made, not in the first step of training.
    """

    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, *, reduction: Reduction = "mean", **options: Any) -> None:
        super().__init__()
        self.reduction = reduction
        for name, option in options.items():
            if isinstance(option, Tensor) and not isinstance(option, nn.Parameter):
                self.register_buffer(name, option, persistent=False)
            else:
                setattr(self, name, option)
        self._names = tuple(options)
        self._try_options()

    @property
    def options(self) -> dict[str, Any]:
        """The options that the function gets, by name."""
        return {name: getattr(self, name) for name in self._names}

    def forward(
        self,
        scores: Tensor,
        targets: Tensor,
        label_mask: Tensor | None = None,
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        """The loss of a batch.

        Args:
            scores: Shape (..., L), one score per sample and label.
            targets: Shape (..., L), bool, integer, or float in [0, 1].
            label_mask: Shape (L,) or (..., L); False = unknown or impossible label.
            sample_weight: Shape (...), multiplies the samples' losses.

        Returns:
            A number, or one value per sample for `reduction="none"`.
        """
        return type(self).function(
            scores,
            targets,
            label_mask=label_mask,
            sample_weight=sample_weight,
            reduction=self.reduction,
            **self.options,
        )

    def extra_repr(self) -> str:
        """The options, as the constructor takes them."""
        parts = [
            f"{name}={tuple(option.shape)}" if isinstance(option, Tensor) else f"{name}={option!r}"
            for name, option in self.options.items()
            if option is not None
        ]
        return ", ".join([*parts, f"reduction={self.reduction!r}"])

    def _try_options(self) -> None:
        """Run the function once on a small input, for its checks of the options.

        It takes a fifth of a millisecond, and checks of its own for each loss would say everything
        twice. It draws from a generator of its own and asks no other process for its part of the
        batch: making a module changes nothing but the module.
        """
        tensors = [option for option in self.options.values() if isinstance(option, Tensor)]
        try:
            # torch's own would load half a second of symbolic algebra
            shape = np.broadcast_shapes(*(tuple(tensor.shape) for tensor in tensors))
        except ValueError:  # they do not fit together, which the function says better
            shape = max((tuple(tensor.shape) for tensor in tensors), key=len)
        device = tensors[0].device if tensors else torch.device("cpu")
        scores = torch.zeros(shape if len(shape) > 1 else (1, *(shape or (1,))), device=device)
        options = {name: option for name, option in self.options.items() if name != "batch"}
        if isinstance(options.get("generator", 0), torch.Generator | None):
            options["generator"] = torch.Generator(device)
        with torch.no_grad():
            type(self).function(scores, self._example(scores), reduction=self.reduction, **options)

    def _example(self, scores: Tensor) -> Tensor:
        """Any valid second argument for these scores."""
        return torch.zeros_like(scores, dtype=torch.bool)

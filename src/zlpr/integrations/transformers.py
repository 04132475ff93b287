"""The losses and metrics in a Hugging Face `Trainer` script of one's own.

A plain `Trainer` takes both as functions:

    from transformers import Trainer
    from zlpr.integrations.transformers import compute_loss_func, compute_metrics

    trainer = Trainer(
        model=model,  # AutoModelForSequenceClassification, any problem_type
        args=args,
        train_dataset=train,
        eval_dataset=dev,
        processing_class=tokenizer,
        compute_loss_func=compute_loss_func("zlpr"),
        compute_metrics=compute_metrics(),
    )

That is exact for losses that are means over samples, also under gradient accumulation and data
parallelism. For losses over the batch (`zlpr.losses.info(name).over_batch`), for a bound that the
loss learns and for the training extras use `MultiLabelTrainer` in place of `Trainer`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import EvalPrediction

from zlpr.decoding import Rule, ZeroBound
from zlpr.losses import registry
from zlpr.metrics import Empty, MetricSet
from zlpr.training.extras import Extras
from zlpr.training.loss import bound_of, check_mean, only_ranks
from zlpr.training.trainer import MultiLabelTrainer

__all__ = ["Extras", "MultiLabelTrainer", "compute_loss_func", "compute_metrics"]

LossFunction = Callable[..., Tensor]


def compute_loss_func(loss: str = "zlpr", **params: Any) -> LossFunction:
    """A loss of the registry as a `Trainer`'s `compute_loss_func`.

    Given such a function, a Trainer no longer divides by the accumulation steps: it hands over
    `num_items_in_batch`, the number of label cells in all passes and processes of the optimiser
    step, and expects a share of the step's loss. A function that returns the mean of its pass
    instead trains with a loss that is too large by the number of accumulation steps.

    Args:
        loss: a name of the registry, of a loss that is a mean over samples.
        **params: the loss's parameters.

    Raises:
        ValueError: the loss looks at the whole batch, is another from some epoch on, is no mean, or
            has a bound to learn.

    Examples:
        >>> function = compute_loss_func("bce")
        >>> outputs = {"logits": torch.zeros(2, 3)}
        >>> function(outputs, torch.zeros(2, 3), num_items_in_batch=torch.tensor(12))  # half of 4
        tensor(1.0397)
    """
    module = registry.create(loss, **params)
    check_mean(module)
    if registry.info(loss).over_batch:
        raise ValueError(f"{loss} looks at the whole batch at once: use MultiLabelTrainer")
    if registry.info(loss).by_epoch:
        raise ValueError(f"{loss} must be told each epoch: use MultiLabelTrainer")
    if any(True for _ in module.parameters()):
        raise ValueError(f"{loss} has a bound to learn: use MultiLabelTrainer")

    def function(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
        value: Tensor = module.to(logits.device)(logits.float(), labels)
        if num_items_in_batch is None:
            return value
        share: Tensor = value * (labels.numel() / num_items_in_batch)
        return share

    return function


def compute_metrics(
    decode: Rule | None = None,
    *,
    empty: Empty = "sklearn",
    loss: str | nn.Module | None = None,
    **params: Any,
) -> Callable[[EvalPrediction], dict[str, float]]:
    """The metrics as a `Trainer`'s `compute_metrics`.

    Args:
        decode: what turns scores into label sets; unless given, they are cut at the loss's bound,
            and at 0 where no loss is named. A loss that only ranks has no bound, and gets the
            metrics of scores alone.
        empty: how empty cases count, as in `zlpr.metrics`.
        loss: what is trained with, by its name or as a module; the loss of all samples at once is
            then among the figures. One whose bound is learned must be the module itself.
        **params: the parameters of a loss that is named.

    Raises:
        ValueError: the loss that is named has a bound to learn, which only its module knows; or
            there are parameters, and no loss is named.

    Examples:
        >>> figures = compute_metrics()(
        ...     EvalPrediction(np.array([[1.0, -1.0]]), np.array([[1.0, 0.0]]))
        ... )
        >>> figures["micro_f1"]
        1.0
    """
    if params and not isinstance(loss, str):
        raise ValueError(f"{', '.join(params)}: of a loss by name, and none is named here")
    module = registry.create(loss, **params) if isinstance(loss, str) else loss
    if isinstance(loss, str) and module is not None and any(True for _ in module.parameters()):
        raise ValueError(f"{loss} has a bound to learn: give the module that is trained with")
    return _Figures(decode, empty, module)


@dataclass(frozen=True)
class _Figures:
    """The function that `compute_metrics` gives; its fields are that function's arguments."""

    decode: Rule | None
    empty: Empty
    loss: nn.Module | None

    @property
    def cuts_at_zero(self) -> bool:
        """Whether label sets are taken at 0, whatever the loss is."""
        return self.decode is None and self.loss is None

    def __call__(self, prediction: EvalPrediction) -> dict[str, float]:
        """Figures by name."""
        given = prediction.predictions  # of some networks hidden states come behind the scores
        scores = np.asarray(given[0] if isinstance(given, tuple) else given)
        targets = np.asarray(prediction.label_ids)
        metrics = MetricSet(scores.shape[1], empty=self.empty)
        metrics.update(targets > 0.5, scores, self._label_sets(scores))
        values = metrics.compute()
        if self.loss is not None:
            device = next(chain(self.loss.parameters(), self.loss.buffers()), torch.empty(0)).device
            tensors = (torch.from_numpy(array).to(device) for array in (scores, targets))
            with torch.no_grad():
                values["loss"] = float(self.loss(*tensors))
        return values

    def _label_sets(self, scores: NDArray[Any]) -> Any:
        if self.decode is not None:
            return self.decode(scores)
        if self.loss is None:
            return ZeroBound()(scores)
        if only_ranks(self.loss):
            return None
        return ZeroBound()(scores - bound_of(self.loss).cpu().numpy())

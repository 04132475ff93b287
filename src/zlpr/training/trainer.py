"""transformers' Trainer, minimising the loss of each optimiser step's whole batch."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from accelerate.data_loader import prepare_data_loader
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset
from transformers import EvalPrediction, Trainer, TrainerCallback
from transformers.utils.import_utils import is_datasets_available

from zlpr._errors import UserError
from zlpr.losses import registry
from zlpr.training.batches import FILLER, FilledCollator, FilledRows, GlobalBatches
from zlpr.training.extras import BatchPass, Extras, pass_over_batch
from zlpr.training.loss import begin_epoch, bound_of, check_mean, looks_at_batch

LOSS_WEIGHTS = "loss.safetensors"  # what a loss learns, beside a checkpoint's model


class MultiLabelTrainer(Trainer):
    """A Trainer whose objective is the loss over all samples of an optimiser step.

    However a step's samples are spread over accumulation steps and processes, gradient and logged
    loss are those of one process with one large batch:

    - a loss that is a mean over samples is divided by the step's samples, once;
    - a loss over the batch (dice 2, two-way, sigmoidF1) is computed from all of the step's scores.
      Under accumulation a first pass without gradient collects them, then each accumulation
      step runs again under the same dropout with its share of the scores' gradient: exact, for
      one more forward pass;
    - rows that even out the last batch of an epoch count nowhere.

    Evaluation scores all samples first and takes loss and metrics from them at once. Metrics that
    `compute_metrics` takes at 0 are refused for a loss that decides elsewhere: name it to them.

    Args:
        loss: a name of the losses' registry, or a module called as `loss(scores, targets)`.
        loss_params: parameters for a loss that is given by name.
        over_batch: whether a loss given as a module looks at more than one sample at a time; of
            this package's losses that is known.
        extras: label smoothing, mixup, R-Drop, virtual adversarial training.
        batch_size: samples of an optimiser step; None takes the Trainer's arguments' product.
        *arguments: as `transformers.Trainer` takes them by position, the model first.
        **options: everything that `transformers.Trainer` takes.

    Examples:
        >>> trainer = MultiLabelTrainer(  # doctest: +SKIP
        ...     model=model, args=args, loss="zlpr", train_dataset=train, eval_dataset=dev,
        ...     data_collator=collator, compute_metrics=compute_metrics(loss="zlpr"),
        ... )
    """

    loss_is_scaled_for_ga = True  # tells Trainer not to divide by the accumulation steps again

    def __init__(
        self,
        *arguments: Any,
        loss: str | nn.Module = "zlpr",
        loss_params: Mapping[str, Any] | None = None,
        over_batch: bool = False,
        extras: Extras | None = None,
        batch_size: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._refuse_ignored()
        extras = extras or Extras()
        if isinstance(loss, str):
            extras = extras.linked(loss)
        elif loss_params:
            raise UserError("loss_params are of a loss by name; give them to the module itself")
        elif (extras.r_drop or extras.vat) and extras.link_scale is None:
            raise UserError("r_drop and vat need the loss's link: give Extras(link_scale=…)")
        module = registry.create(loss, **(loss_params or {})) if isinstance(loss, str) else loss
        check_mean(module)
        self.loss: nn.Module = module.to(self.args.device)
        if hasattr(self.loss, "begin_epoch"):
            self.add_callback(_EpochTeller(self.loss))
        self.add_callback(_FreshGradients(self.loss))
        self._check_metrics()
        if not self.args.batch_eval_metrics:
            self.compute_metrics = _LossBeside(self.compute_metrics, self.loss, self.args.device)
        self.over_batch = over_batch or looks_at_batch(module)
        self.extras = extras
        self.batch_size = batch_size
        self._step: _Step | None = None

    def get_train_dataloader(self) -> DataLoader[Any]:
        """This process's share of batches that do not depend on the number of processes."""
        data: Any = self.train_dataset
        if data is None or isinstance(data, IterableDataset):
            loader: DataLoader[Any] = super().get_train_dataloader()
            return loader
        args = self.args
        data, collator = self._without_unused_columns(data)
        sampler = GlobalBatches(
            len(data),
            self.batch_size or self.get_total_train_batch_size(args),
            accumulation_steps=args.gradient_accumulation_steps,
            num_processes=args.world_size,
            process_index=args.process_index,
            seed=args.seed if args.data_seed is None else args.data_seed,
            lengths=_lengths(data) if args.train_sampling_strategy == "group_by_length" else None,
            shuffle=args.train_sampling_strategy != "sequential",
        )
        loader = DataLoader(
            FilledRows(data),
            batch_sampler=sampler,
            collate_fn=FilledCollator(collator),  # type: ignore[arg-type]
            num_workers=args.dataloader_num_workers,
            pin_memory=args.dataloader_pin_memory,
            persistent_workers=args.dataloader_persistent_workers,
        )
        # Of accelerate's preparation only the move to the device: the sharding is done above.
        prepared: DataLoader[Any] = prepare_data_loader(
            loader, args.device, num_processes=1, process_index=0, put_on_device=True
        )
        return prepared

    def _without_unused_columns(self, data: Any) -> tuple[Any, Any]:
        """Data and collator that leave out what the model does not take, as every Trainer's do."""
        if is_datasets_available():
            import datasets

            if isinstance(data, datasets.Dataset):
                return self._remove_unused_columns(data, "training"), self.data_collator
        collate: Any = self.data_collator
        return data, self._get_collator_with_removed_columns(collate, "training")

    def _refuse_ignored(self) -> None:
        """A Trainer's settings that this one would not look at are misunderstandings."""
        instead = {
            "compute_loss_func": (self.compute_loss_func, "give the loss as loss=…"),
            "label_smoothing_factor": (
                self.args.label_smoothing_factor,
                "it is of single-label losses; say extras=Extras(label_smoothing=…)",
            ),
            "dataloader_drop_last": (self.args.dataloader_drop_last, "no sample is left out here"),
        }
        for name, (given, advice) in instead.items():
            if given:
                raise UserError(f"{name}: MultiLabelTrainer would not use it; {advice}")

    def _check_metrics(self) -> None:
        has_bound = bool(bound_of(self.loss).any()) or any(True for _ in self.loss.parameters())
        if has_bound and getattr(self.compute_metrics, "cuts_at_zero", False):
            raise UserError(
                "the metrics cut scores at 0, and this loss decides at a bound of its own: give "
                "the loss to compute_metrics(loss=…) too"
            )

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        """The Trainer's optimiser, with what the loss itself learns."""
        fresh = self.optimizer is None
        optimizer = super().create_optimizer(model)
        learned = list(self.loss.parameters())
        if fresh and learned:
            optimizer.add_param_group({"params": learned, "weight_decay": 0.0})
        return optimizer

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], Tensor]:
        """One optimiser step's batches, and how many samples they hold over all processes.

        The Trainer steps after so many batches, or after the last one where it knows which that is.
        A stream that ends in between is filled up: else the gradients of what was left would stay
        and be added to those of the next epoch's first step.
        """
        batches = [batch for _, batch in zip(range(num_batches), epoch_iterator, strict=False)]
        if batches:
            batches += [_without_samples(batches[-1])] * (num_batches - len(batches))
        own = sum(_count(batch) for batch in batches)
        total: Any = self.accelerator.reduce(torch.tensor(own, device=device), reduction="sum")
        self._step = _Step(batches)
        return batches, total

    def training_step(
        self, model: nn.Module, inputs: Any, num_items_in_batch: Any = None
    ) -> Tensor:
        """Forward and backward; what the loss learns is averaged over the processes here."""
        value = super().training_step(model, inputs, num_items_in_batch)
        if self.accelerator.num_processes > 1 and self.accelerator.sync_gradients:
            for parameter in self.loss.parameters():
                if parameter.grad is not None:
                    parameter.grad = self.accelerator.reduce(parameter.grad, reduction="mean")
        return value

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """One forward pass's share of the step's loss: value for the log, gradient for the step.

        Values add up to the loss over the accumulation steps and average to it over the processes;
        gradients do too, which is what the Trainer and its data parallelism make of them.
        """
        if return_outputs or num_items_in_batch is None or self._step is None:
            return self._plain_loss(model, inputs, return_outputs)
        if self.over_batch:
            return self._share_of_batch_loss(self._step, model, inputs, num_items_in_batch)
        passed = self._pass(model, inputs)
        rows = len(passed.targets)
        losses = [self.loss(view, passed.targets) for view in passed.views] if rows else []
        nothing = sum((view.sum() for view in passed.views), start=passed.penalty) * 0.0
        mean = sum(losses, start=nothing) / len(passed.views)
        own_share = self.accelerator.num_processes / num_items_in_batch
        return (mean * rows + passed.penalty) * own_share

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Scores and targets; the loss is taken from all of them together."""
        inputs = dict(self._prepare_inputs(inputs))
        labels = inputs.pop("labels", None)
        with torch.no_grad(), self.compute_loss_context_manager():
            scores = model(**inputs).logits.float()
            if prediction_loss_only:
                return self.loss(scores, labels), None, None
        return None, scores, labels

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Write the model and, beside it, what the loss learned."""
        super().save_model(output_dir, _internal_call)
        weights = self.loss.state_dict()
        if weights and self.args.should_save:
            save_file(weights, f"{output_dir or self.args.output_dir}/{LOSS_WEIGHTS}")

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        super()._load_from_checkpoint(resume_from_checkpoint, model)
        self._load_loss(resume_from_checkpoint)

    def _load_best_model(self) -> None:
        super()._load_best_model()
        self._load_loss(self.state.best_model_checkpoint)

    def _load_loss(self, checkpoint: Any) -> None:
        if self.loss.state_dict():
            self.loss.load_state_dict(load_file(f"{checkpoint}/{LOSS_WEIGHTS}"))

    def _pass(self, model: nn.Module, inputs: Mapping[str, Any]) -> BatchPass:
        """Scores and penalty of one forward pass."""
        inputs = dict(self._prepare_inputs(dict(inputs)))
        targets, filler = inputs.pop("labels"), inputs.pop(FILLER, None)
        network = self.accelerator.unwrap_model(model)
        real = None if filler is None else ~filler
        bound = bound_of(self.loss)
        return pass_over_batch(model, network, inputs, targets, real, self.extras, bound)

    def _plain_loss(self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool) -> Any:
        """The loss of one batch by itself, for callers other than the training loop."""
        inputs = dict(inputs)
        targets = inputs.pop("labels")
        outputs = model(**inputs)
        loss = self.loss(outputs.logits.float(), targets)
        return (loss, outputs) if return_outputs else loss

    def _share_of_batch_loss(
        self, step: "_Step", model: nn.Module, inputs: Any, num_items_in_batch: Any
    ) -> Tensor:
        """A loss over the batch: this pass's scores times the whole batch's gradient for them."""
        if step.whole is None and len(step.batches) > 1:
            step.whole = self._look_ahead(model, step)
        if step.random:
            step.random[step.position].restore()
        passed = self._pass(model, inputs)
        if step.whole is None:
            step.whole = self._whole_batch([passed])
        whole, processes = step.whole, self.accelerator.num_processes
        slopes = whole.gradients[step.position]
        step.position += 1
        linear: Tensor = passed.penalty.new_zeros(())
        for view, slope in zip(passed.views, slopes, strict=True):
            linear = linear + (view * slope).sum() * processes
        for parameter, slope in zip(self.loss.parameters(), whole.learned, strict=True):
            linear = linear + (parameter * slope).sum() / len(step.batches)
        penalty: Tensor = passed.penalty * (processes / num_items_in_batch)
        return whole.value / len(step.batches) + (linear - linear.detach()) + penalty

    def _look_ahead(self, model: nn.Module, step: "_Step") -> "_WholeBatch":
        """Score all of a step's passes without gradient, remembering each one's randomness."""
        passes = []
        with torch.no_grad():
            for batch in step.batches:
                step.random.append(_RandomState.now(self.args.device))
                passes.append(self._pass(model, batch))
        return self._whole_batch(passes)

    def _whole_batch(self, passes: Sequence[BatchPass]) -> "_WholeBatch":
        """The loss over all samples of all passes and processes, and its gradient for our own."""
        sizes = [len(passed.targets) for passed in passes]
        targets, first = self._gather_rows(torch.cat([passed.targets for passed in passes]))
        views = [
            self._gather_rows(torch.cat([scores.detach() for scores in view]))[0].requires_grad_()
            for view in zip(*(passed.views for passed in passes), strict=True)
        ]
        learned = list(self.loss.parameters())
        with torch.enable_grad():
            value = torch.stack([self.loss(view, targets) for view in views]).mean()
        slopes = torch.autograd.grad(value, [*views, *learned])
        rows = slice(first, first + sum(sizes))
        own = [torch.split(slope[rows], sizes) for slope in slopes[: len(views)]]
        return _WholeBatch(value.detach(), list(zip(*own, strict=True)), slopes[len(views) :])

    def _gather_rows(self, rows: Tensor) -> tuple[Tensor, int]:
        """The rows of all processes, and where this one's begin."""
        if self.accelerator.num_processes == 1:
            return rows, 0
        if rows.dtype == torch.bool:  # which not every backend can send
            whole, first = self._gather_rows(rows.to(torch.uint8))
            return whole.bool(), first
        size = torch.tensor([len(rows)], device=rows.device)
        sizes: list[int] = self.accelerator.gather(size).tolist()
        most = max(sizes)
        filled = torch.cat([rows, rows.new_zeros(most - len(rows), *rows.shape[1:])])
        blocks = self.accelerator.gather(filled).split(most)
        whole = torch.cat([block[:count] for block, count in zip(blocks, sizes, strict=True)])
        return whole, sum(sizes[: self.accelerator.process_index])


class _FreshGradients(TrainerCallback):
    """Lets go of the gradients of what a loss learns, as a Trainer does of the model's alone."""

    def __init__(self, loss: nn.Module) -> None:
        self.loss = loss

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.loss.zero_grad()

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.loss.zero_grad()


class _EpochTeller(TrainerCallback):
    """Tells a loss which epoch begins."""

    def __init__(self, loss: nn.Module) -> None:
        self.loss = loss

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # A run that is taken up within an epoch begins with that one.
        begin_epoch(self.loss, math.floor((state.epoch or 0.0) + 1e-6) + 1)


@dataclass(frozen=True)
class _LossBeside:
    """Figures as the user has them, and beside them the loss of all samples at once.

    Attributes:
        figures: the user's function, if there is one; a loss that it gives is kept.
        loss: the module that is trained with.
        device: where that is.
    """

    figures: Callable[[EvalPrediction], Mapping[str, float]] | None
    loss: nn.Module
    device: torch.device

    def __call__(self, prediction: EvalPrediction) -> dict[str, float]:
        """Figures by name."""
        values = dict(self.figures(prediction)) if self.figures is not None else {}
        if "loss" not in values:
            scores, targets = map(np.asarray, (prediction.predictions, prediction.label_ids))
            both = (torch.from_numpy(array).to(self.device) for array in (scores, targets))
            with torch.no_grad():
                values["loss"] = float(self.loss(*both))
        return values


@dataclass(frozen=True)
class _WholeBatch:
    """A loss over all samples of an optimiser step, linear around their scores.

    Attributes:
        value: the loss.
        gradients: per pass of this process and per view, of the scores' shape.
        learned: for the loss's own parameters.
    """

    value: Tensor
    gradients: list[tuple[Tensor, ...]]
    learned: tuple[Tensor, ...]


@dataclass
class _Step:
    """What the passes of one optimiser step share."""

    batches: list[Any]
    position: int = 0
    whole: _WholeBatch | None = None
    random: list["_RandomState"] = field(default_factory=list)


@dataclass(frozen=True)
class _RandomState:
    """Where torch's generators stand: the same state gives the same dropout."""

    device: torch.device
    cpu: Tensor
    cuda: Tensor | None

    @classmethod
    def now(cls, device: torch.device) -> "_RandomState":
        """The present state."""
        cuda = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
        return cls(device, torch.get_rng_state(), cuda)

    def restore(self) -> None:
        """Go back to it."""
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda, self.device)


def _count(batch: Mapping[str, Any]) -> int:
    """Samples of a batch that are not there to fill it up."""
    filler = batch.get(FILLER)
    return len(batch["labels"]) - (0 if filler is None else int(filler.sum()))


def _without_samples(batch: Mapping[str, Any]) -> dict[str, Any]:
    """A batch of one row that counts nowhere."""
    first = {
        name: value[:1] if isinstance(value, Tensor) and value.ndim else value
        for name, value in batch.items()
    }
    return {**first, FILLER: torch.ones(1, dtype=torch.bool, device=batch["labels"].device)}


def _lengths(data: Any) -> Sequence[int]:
    """Tokens per item."""
    lengths = getattr(data, "lengths", None)
    if lengths is None:
        lengths = [len(item["input_ids"]) for item in data]
    return list(lengths)

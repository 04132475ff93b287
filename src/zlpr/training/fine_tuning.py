"""Fine-tuning of a transformers encoder: from data and settings to a fitted model."""

import contextlib
import functools
import itertools
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import transformers
from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from safetensors import SafetensorError
from torch import nn
from torch.utils.data import SequentialSampler
from transformers import EarlyStoppingCallback, PrinterCallback, TrainerCallback, TrainingArguments
from transformers.trainer_callback import TrainerState
from transformers.trainer_utils import rotate_checkpoints

from zlpr._ancestors import Ancestors
from zlpr._errors import UserError
from zlpr.data import Dataset
from zlpr.losses import registry
from zlpr.models.base import TrainingRecord
from zlpr.models.products import quick_products
from zlpr.models.registry import argument_of
from zlpr.models.tokens import Padding, TokenizedTexts, readable_length, tokenize
from zlpr.models.transformer import (
    TransformerModel,
    last_layer,
    load_encoder_config,
    load_network,
    load_network_with_report,
    load_tokenizer,
    quiet,
)
from zlpr.training import checkpoints
from zlpr.training.base import ProgressCallback, Trained, TrainingProgress
from zlpr.training.batches import LabelledTexts, PaddedBatches
from zlpr.training.extras import Extras, check_soft_targets
from zlpr.training.head_start import HeadInputs, read_for_start, start_head
from zlpr.training.judging import ancestors_of
from zlpr.training.loss import bound_of, check_finite, create_loss
from zlpr.training.selection import is_better, validation_metric
from zlpr.training.trainer import MultiLabelTrainer
from zlpr.training.transformer import RECIPES, TransformerConfig

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


_BOARD = "TENSORBOARD_LOGGING_DIR"  # where Trainer's TensorBoard logs go if it is set


def train_transformer(
    train: Dataset,
    validation: Dataset,
    config: TransformerConfig,
    inputs: "TokenizedParts",
    *,
    run: Mapping[str, Any],
    checkpoint: Path | None = None,
    progress: ProgressCallback | None = None,
) -> Trained:
    """Fine-tune the encoder that `config.model` names, and keep its best epoch.

    Under `torchrun` every process calls this with the same arguments and gets the same model back.

    Args:
        train: texts that the weights are fitted to.
        validation: texts that the best epoch is chosen on.
        config: the settings; what they leave at None comes from `RECIPES`.
        inputs: the tokens of both parts.
        run: what decides the result, by which a checkpoint knows its run.
        checkpoint: folder for the state after each epoch, on a disk that all processes see; a run
            finds its own state there and goes on from it to the same result. None keeps none.
        progress: called on the main process as the run goes.
    """
    if "tensorboard" in config.report_to and checkpoint is None and not os.environ.get(_BOARD):
        raise UserError(
            f"tensorboard's logs go to the checkpoint folder: give one, or set {_BOARD}"
        )
    with _repeatable(config.seed), quiet():
        loss = _checked_loss(config, train)
        network, has_new_head = _network(train, config, inputs)
        check_bound(network, loss)
        arguments = _arguments(config, int(getattr(network.config, "hidden_size", 0)))
        with _run_folder(checkpoint) as folder:
            arguments.output_dir = str(folder)
            resumed = None if checkpoint is None else _resumed(checkpoint, run)
            if resumed is not None:  # it may have a layer more than the encoder it began with
                network = load_network(str(resumed), use_safetensors=True, local_files_only=True)
            elif has_new_head and RECIPES[config.preset].head_first:
                start_head(network, inputs, train, validation, config)
            data = inputs.labelled(train, validation)
            trainer = _Trainer.of(
                network,
                data,
                loss,
                arguments,
                config,
                checkpoint is not None,
                ancestors_of(train),
            )
            trainer.add_callback(_Reporter(config, progress))
            with quick_products():
                trainer.run(resumed)
        network = trainer.finished_network()
    return _trained(network, inputs, train, trainer.state, config)


@dataclass(frozen=True)
class TokenizedParts:
    """The texts of both parts as an encoder reads them.

    Attributes:
        tokenizer: what made the tokens.
        max_length: tokens read of a text.
        train: of the training part.
        validation: of the validation part.
        given_to_head: what the last layer of an encoder was given of them before training.
    """

    tokenizer: "PreTrainedTokenizerBase"
    max_length: int
    train: TokenizedTexts
    validation: TokenizedTexts
    given_to_head: dict[bytes, HeadInputs] = field(default_factory=dict, repr=False, compare=False)

    def read(self, inputs: Any) -> TokenizedTexts:
        """The tokens of other texts."""
        return tokenize(self.tokenizer, inputs, self.max_length)

    @property
    def padding(self) -> Padding:
        """How batches for training are filled up."""
        return Padding.of(self.tokenizer, multiple=8 if torch.cuda.is_available() else 1)

    def labelled(
        self, train: Dataset, validation: Dataset
    ) -> tuple[LabelledTexts, LabelledTexts, Padding]:
        """What the Trainer goes through: tokens with their labels, and how to pad them."""
        return (
            LabelledTexts(self.train, train.labels),
            LabelledTexts(self.validation, validation.labels),
            self.padding,
        )


def read_tokens(train: Dataset, validation: Dataset, config: TransformerConfig) -> TokenizedParts:
    """Tokenize both parts for the encoder that `config.model` names."""
    name = argument_of(config.model)
    with quiet():
        tokenizer = load_tokenizer(name)
        length = readable_length(tokenizer, load_encoder_config(name), config.max_length)
        return TokenizedParts(
            tokenizer,
            length,
            tokenize(tokenizer, train.inputs, length),
            tokenize(tokenizer, validation.inputs, length),
        )


def read_for_head(train: Dataset, config: TransformerConfig, inputs: TokenizedParts) -> None:
    """Read what the head of a training with these settings would start from, once for all losses.

    Args:
        train: the training part.
        config: the settings.
        inputs: the tokens of both parts, which keep what is read.
    """
    if inputs.given_to_head or not RECIPES[config.preset].head_first:
        return
    with _repeatable(config.seed), quiet():
        network, has_new_head = _network(train, config, inputs)
        if has_new_head:
            read_for_start(network, inputs, train, config)


def _network(
    train: Dataset, config: TransformerConfig, inputs: TokenizedParts
) -> tuple["PreTrainedModel", bool]:
    """The encoder with a head for the data's labels, and whether that is a new one.

    A folder's own head is kept where it was made for these very labels, in this order.
    """
    network, loading = load_network_with_report(
        argument_of(config.model),
        id2label=dict(enumerate(train.label_names)),
        label2id={label: index for index, label in enumerate(train.label_names)},
        num_labels=train.num_labels,
        problem_type="multi_label_classification",
        ignore_mismatched_sizes=True,  # a head for other labels is replaced by a new one
    )
    if network.config.pad_token_id is None:
        network.config.pad_token_id = inputs.tokenizer.pad_token_id
    layer = last_layer(network)
    name = next(name for name, weight in network.named_parameters() if weight is layer.weight)
    if name in loading["missing_keys"] or name in {key for key, *_ in loading["mismatched_keys"]}:
        return network, True
    made_for = load_encoder_config(argument_of(config.model)).id2label
    if tuple(made_for[index] for index in sorted(made_for)) == train.label_names:
        return network, False
    layer.reset_parameters()
    return network, True


def _checked_loss(config: TransformerConfig, train: Dataset) -> nn.Module:
    """The loss that the settings name, checked against the extras they ask for."""
    loss = create_loss(config, train.labels)
    Extras.of(config)  # raises where they do not suit the loss
    if config.label_smoothing or config.mixup:
        check_soft_targets(loss, train.num_labels)
    return loss


def _arguments(config: TransformerConfig, width: int) -> TrainingArguments:
    """What transformers' Trainer is told, for an encoder of this width; processes meet here."""
    timeout = timedelta(seconds=config.process_timeout)
    on_cpu = not torch.accelerator.is_available()
    PartialState(cpu=on_cpu, timeout=timeout)  # Trainer itself forgets the time-out on CPUs
    recipe = RECIPES[config.preset]
    precision: dict[str, Any] = _precision(config.mixed_precision)
    arguments = TrainingArguments(
        num_train_epochs=config.epochs or recipe.epochs,
        learning_rate=config.learning_rate or recipe.rate_for(width),
        per_device_train_batch_size=1,  # batches are cut by MultiLabelTrainer
        per_device_eval_batch_size=64,
        gradient_accumulation_steps=config.accumulation_steps,
        lr_scheduler_type=recipe.schedule,
        warmup_steps=recipe.warmup,
        weight_decay=recipe.weight_decay,
        max_grad_norm=recipe.max_gradient_norm,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model=config.choice_metric,
        greater_is_better=is_better(config.choice_metric, 1.0, 0.0),
        restore_callback_states_from_checkpoint=True,
        seed=config.seed,
        full_determinism=torch.cuda.is_available(),
        train_sampling_strategy="group_by_length",
        remove_unused_columns=False,
        label_names=["labels"],
        report_to=list(config.report_to) or "none",
        disable_tqdm=True,
        dataloader_pin_memory=torch.cuda.is_available(),
        ddp_timeout=math.ceil(config.process_timeout),
        use_cpu=on_cpu,
        **precision,
    )
    arguments._n_gpu = min(arguments.n_gpu, 1)  # several GPUs work as processes, under torchrun
    return arguments


def _precision(wanted: str) -> dict[str, bool]:
    """Half precision where the hardware gains by it; a CPU is many times slower in bfloat16."""
    if wanted == "auto":
        if not torch.cuda.is_available():
            wanted = "no"
        else:
            wanted = "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    if wanted == "fp16" and not torch.cuda.is_available():
        raise UserError("mixed_precision 'fp16': needs a GPU; 'no' runs anywhere")
    if wanted == "bf16" and not torch.cuda.is_available() and not computes_in_bfloat16():
        raise UserError(
            "mixed_precision 'bf16': this processor stops the program at its first product in "
            "bfloat16; say 'no', or set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 before the start"
        )
    return {"bf16": wanted == "bf16", "fp16": wanted == "fp16"}


@functools.cache
def computes_in_bfloat16() -> bool:
    """Whether a process survives a product in bfloat16 on this processor.

    A virtual machine may promise instructions (AMX) that it does not grant; the first use then
    ends the process, which cannot be caught in it.
    """
    product = (
        "import torch; layer = torch.nn.Linear(16, 64)\n"
        "with torch.autocast('cpu', dtype=torch.bfloat16): layer(torch.ones(32, 16))"
    )
    tried = subprocess.run([sys.executable, "-c", product], capture_output=True, check=False)  # noqa: S603
    return tried.returncode == 0


@contextlib.contextmanager
def _run_folder(checkpoint: Path | None) -> Iterator[Path]:
    """Where a run keeps its epochs: the user's folder, or one that goes when the run ends."""
    state = PartialState()
    if checkpoint is not None:
        yield checkpoint
        state.wait_for_everyone()  # the caller may remove it
        return
    name = [tempfile.mkdtemp(prefix="zlpr-") if state.is_main_process else ""]
    folder = Path(broadcast_object_list(name)[0])
    try:
        yield folder
        state.wait_for_everyone()
    finally:
        if state.is_main_process:
            shutil.rmtree(folder, ignore_errors=True)


def _resumed(folder: Path, run: Mapping[str, Any]) -> Path | None:
    """The run's newest whole checkpoint as its main process finds it; None where it begins.

    What cannot be used is cleared away.

    Raises:
        UserError: the folder is another run's.
    """
    state = PartialState()
    with state.main_process_first():
        checkpoints.claim(folder, {**run, "transformers": transformers.__version__})
    found: list[Path | None] = [None]
    if state.is_main_process:
        found = [checkpoints.latest(folder)]
        checkpoints.remove_newer(folder, found[0])
    checkpoint: Path | None = broadcast_object_list(found)[0]
    return checkpoint


@contextlib.contextmanager
def _repeatable(seed: int) -> Iterator[None]:
    """Seed every generator, and leave the caller's as they were."""
    python = random.getstate()
    numpy = np.random.get_state()  # noqa: NPY002 (transformers seeds the legacy generator)
    exact = torch.are_deterministic_algorithms_enabled()
    devices = range(torch.cuda.device_count())
    with torch.random.fork_rng(devices=devices):
        transformers.set_seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002
            torch.use_deterministic_algorithms(exact)


class _Trainer(MultiLabelTrainer):
    """The Trainer of a run: checkpoints that are whole or unused, and a best epoch at the end."""

    @classmethod
    def of(
        cls,
        network: "PreTrainedModel",
        data: tuple[LabelledTexts, LabelledTexts, Padding],
        loss: nn.Module,
        arguments: TrainingArguments,
        config: TransformerConfig,
        resumable: bool,
        ancestors: Ancestors | None,
    ) -> "_Trainer":
        """A trainer for labelled data; without `resumable` only the epochs' weights are kept."""
        arguments.save_only_model = not resumable
        batch_size = config.batch_size or RECIPES[config.preset].batch_size
        train, validation, padding = data
        steps = -(-len(train) // batch_size)
        arguments.logging_steps = max(1, steps // 20)
        trainer = cls(
            model=network,
            args=arguments,
            loss=loss,
            over_batch=registry.info(config.loss).over_batch,
            extras=Extras.of(config),
            batch_size=batch_size,
            train_dataset=train,
            eval_dataset=validation.longest_first(),
            data_collator=PaddedBatches(padding),
            compute_metrics=_Validation(config, loss, ancestors),
        )
        trainer.remove_callback(PrinterCallback)
        if config.patience is not None:
            trainer.add_callback(EarlyStoppingCallback(config.patience))
        return trainer

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Note how long the run has taken, an earlier process's part of it included."""
        logs["seconds"] = self.earlier_seconds + time.perf_counter() - self.started
        super().log(logs, start_time)

    def run(self, checkpoint: Path | None) -> None:
        """Train, from a checkpoint where there is one, to the best epoch's weights."""
        self.started, self.earlier_seconds = time.perf_counter(), 0.0
        if checkpoint is not None:
            self.earlier_seconds = checkpoints.seconds(checkpoint)
        try:
            if checkpoint is not None and checkpoints.is_final(checkpoint):
                self.state = TrainerState.load_from_json(str(checkpoint / checkpoints.STATE))
                self._load_from_checkpoint(str(checkpoints.best(checkpoint)))
            else:
                self.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        except RuntimeError as error:
            if not _is_lost_process(error):
                raise
            raise UserError(
                "another process of this run died or did not answer for "
                f"{self.args.ddp_timeout} s ({_first_line(error)}); "
                "the same command goes on from the last checkpoint"
            ) from error

    def finished_network(self) -> "PreTrainedModel":
        """The network, out of what training wrapped around it, with its scores cut at 0."""
        network: PreTrainedModel = self.accelerator.unwrap_model(
            self.model_wrapped, keep_fp32_wrapper=False
        )
        fold_bound(network, self.loss)
        self.accelerator.free_memory()
        return network

    @property
    def _folder(self) -> Path:
        return Path(str(self.args.output_dir))

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        folder = self._folder / f"checkpoint-{self.state.global_step}"
        try:
            super()._save_checkpoint(model, trial)
        except (OSError, RuntimeError, SafetensorError) as error:
            if isinstance(error, RuntimeError) and _is_lost_process(error):
                raise
            shutil.rmtree(folder, ignore_errors=True)
            raise UserError(
                f"cannot write {folder}: {_first_line(error)}; earlier checkpoints are untouched"
            ) from error
        self.accelerator.wait_for_everyone()  # each process writes its own random state
        if self.args.should_save:
            (folder / "training_args.bin").unlink(missing_ok=True)  # a pickle, and nobody reads it
            checkpoints.seal(folder)
            rotate_checkpoints(
                output_dir=str(self._folder),
                save_total_limit=2,
                best_model_checkpoint=self.state.best_model_checkpoint,
            )

    def _get_eval_sampler(self, eval_dataset: Any) -> Any:
        return SequentialSampler(eval_dataset)  # it is sorted by length already


def _is_lost_process(error: RuntimeError) -> bool:
    """Whether an error comes from the talk between processes; gloo's have no type of their own."""
    return isinstance(error, torch.distributed.DistError) or "gloo" in str(error)


def _first_line(error: Exception) -> str:
    """What an error says, without the place in a library's source that it comes from."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return re.sub(r"^\[[^\]]*\]\s*", "", line)


@dataclass(frozen=True)
class _Validation:
    """Loss and metric of all validation scores at once."""

    config: TransformerConfig
    loss: nn.Module
    ancestors: Ancestors | None

    def __call__(self, prediction: transformers.EvalPrediction) -> dict[str, float]:
        """Figures by name."""
        scores, targets = np.asarray(prediction.predictions), np.asarray(prediction.label_ids)
        tensors = itertools.chain(self.loss.parameters(), self.loss.buffers())
        device = next(tensors, torch.empty(0)).device
        with torch.no_grad():
            loss = self.loss(
                torch.from_numpy(scores).to(device), torch.from_numpy(targets).to(device)
            )
        check_finite(float(loss), self.config)
        metric = validation_metric(self.config, targets, scores, self.ancestors)
        return {"loss": float(loss), self.config.choice_metric: metric}


class _Reporter(TrainerCallback):
    """Tells the caller how a run goes, and keeps processes' dropout apart."""

    def __init__(self, config: TransformerConfig, progress: ProgressCallback | None) -> None:
        self.config = config
        self.progress = progress

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if args.process_index > 0:
            torch.manual_seed(args.seed + args.process_index)
        if state.best_model_checkpoint is None and state.best_global_step:
            # The run's folder was moved since the state was written.
            best = Path(args.output_dir) / f"checkpoint-{state.best_global_step}"
            state.best_model_checkpoint = str(best)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_log = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if self.progress is None or not state.is_world_process_zero or not logs:
            return
        if "loss" in logs:
            stage = f"epoch {math.ceil(state.epoch)} of {int(state.num_train_epochs)}"
            at = (state.global_step, state.max_steps)
            self.progress(TrainingProgress(stage, *at, loss=logs["loss"], seconds=logs["seconds"]))
        elif f"eval_{self.config.choice_metric}" in logs:
            self.progress(history(state, self.config)[-1])


def history(state: Any, config: TransformerConfig) -> list[TrainingProgress]:
    """A line per epoch from the Trainer's log, which outlives a killed process."""
    lines: list[TrainingProgress] = []
    total, steps, last = 0.0, 0, 0
    for entry in state.log_history:
        if "loss" in entry:
            total += entry["loss"] * (entry["step"] - last)
            steps, last = steps + entry["step"] - last, entry["step"]
        elif f"eval_{config.choice_metric}" in entry:
            metric, loss = entry[f"eval_{config.choice_metric}"], total / max(steps, 1)
            stage = f"epoch {round(entry['epoch'])} of {int(state.num_train_epochs)}"
            at = (entry["step"], state.max_steps)
            lines.append(
                TrainingProgress(stage, *at, loss=loss, metric=metric, seconds=entry["seconds"])
            )
            total, steps = 0.0, 0
    return lines


def _trained(
    network: "PreTrainedModel",
    inputs: TokenizedParts,
    train: Dataset,
    state: Any,
    config: TransformerConfig,
) -> Trained:
    """What `fit` goes on with."""
    model = TransformerModel(
        train.label_names,
        network,
        inputs.tokenizer,
        max_length=inputs.max_length,
        record=TrainingRecord(loss=config.loss),
    )
    best = [e["epoch"] for e in state.log_history if e["step"] == state.best_global_step]
    return Trained(
        model=model,
        history=tuple(history(state, config)),
        chosen={"epoch": round(best[-1]) if best else 0},
        validation_scores=model.score(inputs.validation),
        num_features=int(getattr(network.config, "hidden_size", 0)),
    )


def check_bound(network: nn.Module, loss: nn.Module) -> None:
    """Refuse, before training, a loss whose bound the network's last layer could not take.

    Raises:
        UserError: the last layer has no bias, and the loss has a bound or learns one.
    """
    has_bound = bool(bound_of(loss).any()) or any(True for _ in loss.parameters())
    if has_bound and last_layer(network).bias is None:
        raise UserError("this model's last layer has no bias that could take the loss's bound")


def fold_bound(network: nn.Module, loss: nn.Module) -> None:
    """Subtract a loss's bound from the last layer's bias, so that scores are cut at 0."""
    bound = bound_of(loss)
    if not bound.any():
        return
    check_bound(network, loss)
    bias = last_layer(network).bias
    with torch.no_grad():
        bias.sub_(bound.to(bias))

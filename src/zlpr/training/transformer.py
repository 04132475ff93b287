"""Settings of a fine-tuned encoder, and its trainer; the fine-tuning is in `fine_tuning.py`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from zlpr._digest import tree_digest
from zlpr._errors import UserError
from zlpr.models.registry import argument_of
from zlpr.training.base import ModelTrainer, ProgressCallback, Trained, TriedCallback
from zlpr.training.config import (
    AUTO,
    TrainingConfig,
    check_above_zero,
    check_at_least_zero,
    check_share,
    setting,
)

if TYPE_CHECKING:
    from zlpr.data import Dataset
    from zlpr.training.fine_tuning import TokenizedParts

RADIUS = 1.0
"""Length of the adversarial step over a text's token embeddings, each of which is about as long."""

MOST_RATE = 3e-4
"""What BERT's authors try at most, for encoders however small."""

ENOUGH_SAMPLES = 1_000
"""Training samples with which fine-tuning has been measured to gain (docs/guides/embeddings.md)."""

Preset = Literal["default", "paper"]
Precision = Literal["auto", "no", "fp16", "bf16"]


@dataclass(frozen=True)
class Recipe:
    """How a network is optimised, where the settings leave it open.

    Attributes:
        learning_rate: its peak, for an encoder whose vectors are as wide as `width`.
        width: narrower encoders take a larger rate, wider ones a smaller, by the square; 0 gives
            all the same.
        epochs: passes over the training data.
        batch_size: samples per optimiser step.
        warmup: share of the steps over which the rate rises from 0.
        schedule: transformers' name of what the rate does then.
        weight_decay: AdamW's; without it AdamW is Adam.
        max_gradient_norm: where gradients are clipped; 0 does not clip.
        head_first: whether a new head is fitted to the encoder as it is before both are trained.
    """

    learning_rate: float
    width: int
    epochs: int
    batch_size: int
    warmup: float
    schedule: str
    weight_decay: float
    max_gradient_norm: float
    head_first: bool

    def rate_for(self, width: int) -> float:
        """The peak of the learning rate for an encoder with vectors of this width.

        Examples:
            >>> [RECIPES["default"].rate_for(width) for width in (1024, 768, 384, 128)]
            [2.8125e-05, 5e-05, 0.0002, 0.0003]
        """
        if not self.width or not width:
            return self.learning_rate
        return min(self.learning_rate * (self.width / width) ** 2, MOST_RATE)


RECIPES: Mapping[str, Recipe] = {
    # What BERT's authors recommend (2e-5 to 5e-5, batches of 16 or 32, warm-up, decay of rate and
    # weights; up to 3e-4 for their small models), with an epoch more than their 2 to 4: rare labels
    # need it, and the best is kept.
    "default": Recipe(
        learning_rate=5e-5,
        width=768,
        epochs=5,
        batch_size=32,
        warmup=0.1,
        schedule="linear",
        weight_decay=0.01,
        max_gradient_norm=1.0,
        head_first=True,
    ),
    # The paper: Adam at 2e-4, 20 epochs. It is silent on the rest: a constant rate, no decay.
    "paper": Recipe(
        learning_rate=2e-4,
        width=0,
        epochs=20,
        batch_size=32,
        warmup=0.0,
        schedule="constant",
        weight_decay=0.0,
        max_gradient_norm=0.0,
        head_first=False,
    ),
}


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(TrainingConfig):
    """Settings of a fine-tuned transformers encoder.

    Attributes:
        preset: "paper" is the paper's optimiser, at its learning rate and for its epochs; it also
            keeps the paper's bound, zero, where no rule is asked for.
        learning_rate: of Adam; None takes 5e-5 for vectors of 768, more for narrower encoders and
            less for wider ones.
        epochs: passes over the training data.
        batch_size: samples per optimiser step, over all processes and accumulation steps.
        max_length: tokens read of a text; None reads up to 512, or what the model can. Batches
            are padded to their own longest text, so short texts cost no more.
        accumulation_steps: forward passes per optimiser step.
        mixed_precision: "no", "fp16", "bf16", or "auto" for bf16 where the hardware is fast at it.
        patience: evaluations without improvement before stopping early; None never stops early.
        label_smoothing: mass moved from the hard targets, in [0, 1).
        r_drop: weight of the divergence between two dropout passes.
        vat: weight of the divergence under a virtual adversarial step on the embeddings.
        vat_radius: length of that step.
        vat_iterations: power iterations of its search.
        mixup: the Beta distribution's parameter; 0 is off.
        report_to: the Trainer's reporters, such as "tensorboard"; one, or several.
        process_timeout: seconds that one of several processes waits for the others before it
            gives up with an error.
    """

    preset: Preset = setting(
        "default", "paper: Adam at 2e-4 for 20 epochs, and labels with scores above 0"
    )
    learning_rate: float | None = setting(
        None,
        "learning rate of the Adam optimiser (default: 5e-5 for an encoder of width 768, more for "
        "narrower ones, up to 3e-4, less for wider ones)",
        metavar="RATE",
    )
    epochs: int | None = setting(None, "passes over the training data", metavar="N")
    batch_size: int | None = setting(None, "samples per step, over all processes", metavar="N")
    max_length: int | None = setting(
        None, "tokens to read of each text (default: at most 512)", metavar="TOKENS"
    )
    accumulation_steps: int = setting(1, "forward passes per step", metavar="N")
    mixed_precision: Precision = setting(
        "auto", "number format of the forward pass; auto is bf16 where the hardware is fast at it"
    )
    patience: int | None = setting(None, "stop after N evaluations without a gain", metavar="N")
    label_smoothing: float = setting(
        0.0, "how much hard targets are softened, from 0 to below 1", metavar="MASS"
    )
    r_drop: float = setting(
        0.0,
        "weight a of R-Drop, which adds a/4 of the symmetric divergence of two dropout passes",
        metavar="WEIGHT",
    )
    vat: float = setting(
        0.0,
        "weight of virtual adversarial training, the divergence under an adversarial step",
        metavar="WEIGHT",
    )
    vat_radius: float = setting(
        RADIUS, "length of the adversarial step on the embeddings", metavar="LENGTH"
    )
    vat_iterations: int = setting(1, "power iterations that find the adversarial step", metavar="N")
    mixup: float = setting(
        0.0, "alpha of mixup's Beta distribution; 0 turns it off", metavar="ALPHA"
    )
    report_to: tuple[str, ...] | str = setting(
        (),
        "report to a service that transformers' Trainer knows; tensorboard writes to DIR.runs",
        metavar="NAME",
    )
    process_timeout: float = setting(
        600.0,
        "how long a process waits for the others under torchrun -m zlpr train …",
        metavar="SECONDS",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._keep_the_papers_bound()
        if isinstance(self.report_to, str):
            object.__setattr__(self, "report_to", (self.report_to,))
        for name, allowed in (("preset", Preset), ("mixed_precision", Precision)):
            if getattr(self, name) not in get_args(allowed):
                listed = ", ".join(get_args(allowed))
                raise UserError(f"{name} {getattr(self, name)!r}: expected one of {listed}")
        numbers = ("learning_rate", "epochs", "batch_size", "max_length", "accumulation_steps")
        check_above_zero(self, (*numbers, "patience", "process_timeout"))
        check_above_zero(self, ("vat_radius", "vat_iterations"))
        if not self.vat and (self.vat_radius, self.vat_iterations) != (RADIUS, 1):
            raise UserError("vat_radius and vat_iterations go with vat, which is 0; give it too")
        check_share(self, "label_smoothing")
        check_at_least_zero(self, ("r_drop", "vat", "mixup"))

    def _keep_the_papers_bound(self) -> None:
        """The paper decides at zero, so its preset does unless another rule is asked for."""
        from zlpr.losses import registry

        by_hand = (self.threshold, self.top) != (None, None)
        if self.preset != "paper" or self.decode != AUTO or by_hand:
            return
        if registry.info(self.scored_as).decides:
            object.__setattr__(self, "decode", "zero")


class TransformerTrainer(ModelTrainer):
    """Fine-tunes an encoder by transformers' Trainer and keeps its best epoch."""

    packages = ("transformers", "accelerate")
    on_accelerator = True
    resumes = True
    takes_less = (
        "fewer tokens of each text (max_length, --max-length)",
        "fewer samples at a time (accumulation_steps, --accumulation-steps)",
    )

    def faults(self, model: str) -> list[str]:
        """Whether configuration, weights and tokenizer are there; the hub is asked if need be."""
        from zlpr.models.transformer import encoder_faults

        return [f"model {model!r}: {fault}" for fault in encoder_faults(argument_of(model))]

    def advice(self, train: "Dataset", config: TransformerConfig) -> list[str]:
        """Where fine-tuning was not found better than the frozen encoder, that there is that."""
        if len(train) >= ENOUGH_SAMPLES:
            return []
        return [
            f"with fewer than {ENOUGH_SAMPLES:,} training samples fine-tuning was not found better "
            f"than a frozen encoder; try --model embed:{argument_of(config.model)} as well, which "
            "takes seconds"
        ]

    def fingerprint(self, model: str) -> str:
        """Hash of the encoder's files where it is a folder."""
        folder = Path(argument_of(model))
        return tree_digest(folder)[:16] if folder.is_dir() else ""

    def reading(self, config: TransformerConfig) -> str:
        """Texts become the tokens of this encoder, up to a length."""
        return repr((config.model, config.max_length))

    def read(
        self, train: "Dataset", validation: "Dataset", config: TransformerConfig
    ) -> "TokenizedParts":
        """The tokens of both parts."""
        from zlpr.training.fine_tuning import read_tokens

        return read_tokens(train, validation, config)

    def memory(self, train: "Dataset", config: TransformerConfig, inputs: "TokenizedParts") -> int:
        """Weights, gradients, Adam's means, and what the backward pass of a batch needs."""
        from zlpr.training.network_memory import memory_of_fine_tuning

        return memory_of_fine_tuning(train.num_labels, config, inputs)

    def read_ahead(
        self, train: "Dataset", config: TransformerConfig, inputs: "TokenizedParts"
    ) -> None:
        """What the head starts from, which is the same whatever the loss."""
        from zlpr.training.fine_tuning import read_for_head

        read_for_head(train, config, inputs)

    def train(
        self,
        train: "Dataset",
        validation: "Dataset",
        config: TransformerConfig,
        inputs: "TokenizedParts",
        *,
        run: Mapping[str, Any],
        checkpoint: Path | None = None,
        progress: ProgressCallback | None = None,
        tried: TriedCallback | None = None,
    ) -> Trained:
        """Fine-tune, from the run's last checkpoint where there is one."""
        from zlpr.training.fine_tuning import train_transformer

        if checkpoint is not None:
            run = {**run, "encoder": self.fingerprint(config.model)}
        return train_transformer(
            train, validation, config, inputs, run=run, checkpoint=checkpoint, progress=progress
        )

"""A Lightning module for any torch encoder and any loss of the registry.

    module = MultiLabelModule(nn.Sequential(nn.Linear(300, 64), nn.ReLU(), nn.Linear(64, 20)))
    Trainer(max_epochs=5).fit(module, train_loader, validation_loader)

Batches are pairs (inputs, targets), or triples (inputs, targets, label_mask) in training, where a
mask tells which labels are known. Metrics are streamed, and are those of all samples, each once,
however many processes there are: what a `DistributedSampler` repeats to give every process as many
is left out. After each validation a decoding rule is fitted on its scores and saved in the
checkpoint.

In a module of one's own the loss is one line, `loss = ZLPRLoss()(scores, targets)`, and
`zlpr.integrations.torchmetrics` has the metrics.
"""

from collections.abc import Mapping
from typing import Any

import torch
from lightning import LightningModule
from torch import Tensor, nn
from torch.utils.data.distributed import DistributedSampler

from zlpr import decoding
from zlpr._errors import UserError
from zlpr._names import find
from zlpr.distributed import BatchOverProcesses, gather_samples
from zlpr.losses import registry
from zlpr.metrics import PAPER_METRICS, Empty, MetricSet
from zlpr.metrics._inputs import check_empty
from zlpr.training.loss import begin_epoch, bound_of, check_mean
from zlpr.training.selection import rules_of

__all__ = ["MultiLabelModule"]


class MultiLabelModule(LightningModule):  # type: ignore[misc]
    """Trains an encoder with a multi-label loss, judges it, and fits what decides.

    Args:
        encoder: gives scores of shape (samples, labels), or an output with `logits`. It is called
            with the inputs, by keyword where these are a mapping.
        loss: a name of `zlpr.losses.available()`.
        loss_params: the loss's parameters; a list becomes a tensor.
        learning_rate: of AdamW; override `configure_optimizers` for another optimiser.
        decode: the rule that is fitted after each validation; "auto" takes the one that
            cross-validation finds best, None keeps the bound at 0 and no scores.
        decode_metric: what the rule is chosen and fitted for.
        empty: what empty cases count, see `zlpr.metrics`.

    Attributes:
        decoder: the fitted rule; it decides in `test` and `predict`.

    Logs `train_loss`, `val_loss` and the paper's metrics as `val_…` at the loss's own bound (for a
    loss that only ranks, those of scores), and as `test_…` by the fitted rule. The loss of a part
    is the mean over its samples; of a loss that looks at the batch, over batches by their sizes.

    Examples:
        >>> module = MultiLabelModule(nn.Linear(4, 3), loss="focal", loss_params={"gamma": 1.0})
        >>> module.loss
        FocalLoss(gamma=1.0, reduction='mean')
    """

    def __init__(
        self,
        encoder: nn.Module,
        *,
        loss: str = "zlpr",
        loss_params: Mapping[str, Any] | None = None,
        learning_rate: float = 1e-3,
        decode: str | None = "auto",
        decode_metric: str = "micro_f1",
        empty: Empty = "paper",
    ) -> None:
        super().__init__()
        check_empty(empty)
        find(
            "rule", decode or "auto", {name: name for name in ("auto", *decoding.rules_of_scores())}
        )
        find("metric of label sets", decode_metric, {m: m for m in decoding.DECISION_METRICS})
        self.save_hyperparameters(ignore=["encoder"])
        self.encoder = encoder
        self.loss = self._make_loss()
        check_mean(self.loss)
        self.decoder: decoding.Rule = decoding.create("zero")
        self._seen: _Judged | None = None

    def _make_loss(self, **options: Any) -> nn.Module:
        params = {
            name: torch.tensor(value, dtype=torch.float32) if isinstance(value, list) else value
            for name, value in (self.hparams["loss_params"] or {}).items()
        }
        return registry.create(self.hparams["loss"], **params, **options)

    def setup(self, stage: str) -> None:
        """A loss over the batch sees the samples of all processes."""
        info = registry.info(self.hparams["loss"])
        if info.over_batch and self.trainer.world_size > 1:
            self.loss = self._make_loss(batch=BatchOverProcesses())

    def on_train_epoch_start(self) -> None:
        """A loss that is another from some epoch on is told which begins."""
        begin_epoch(self.loss, self.current_epoch + 1)

    def forward(self, inputs: Any) -> Any:
        """Scores of shape (samples, labels); a label is predicted above 0."""
        scores = self._raw_scores(inputs)
        return scores - bound_of(self.loss).to(scores.device)

    def _raw_scores(self, inputs: Any) -> Tensor:
        """The encoder's scores, of which the loss's bound is not yet taken off."""
        outputs = self.encoder(**inputs) if isinstance(inputs, Mapping) else self.encoder(inputs)
        scores: Tensor = getattr(outputs, "logits", outputs)
        return scores

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """The loss of a batch."""
        inputs, targets, mask = _parts(batch)
        value: Tensor = self.loss(self._raw_scores(inputs), targets, mask)
        self.log("train_loss", value, batch_size=len(targets))
        return value

    def on_validation_epoch_start(self) -> None:
        """Forget the last validation."""
        self._seen = None

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        """Add a batch to the figures."""
        decides = registry.info(self.hparams["loss"]).decides
        rule = decoding.create("zero") if decides else None
        keep = self.hparams["decode"] is not None
        self._judge(batch, rule, self.trainer.val_dataloaders, keep=keep)

    def on_validation_epoch_end(self) -> None:
        """Log the figures and fit the rule: before `on_validation_end`, in which it is saved."""
        seen = self._log_figures("val")
        if self.hparams["decode"] is not None and not self.trainer.sanity_checking:
            self.decoder = self._fit_rule(*seen.all_samples(self.trainer.world_size, self.device))

    def on_test_epoch_start(self) -> None:
        """Forget what was judged before."""
        self._seen = None

    def test_step(self, batch: Any, batch_idx: int) -> None:
        """Add a batch to the figures, as decided by the fitted rule."""
        self._judge(batch, self.decoder, self.trainer.test_dataloaders, keep=False)

    def on_test_epoch_end(self) -> None:
        """Log the figures."""
        self._log_figures("test")

    def predict_step(self, batch: Any, batch_idx: int) -> Any:
        """The predicted label sets, booleans of shape (samples, labels)."""
        inputs = batch[0] if isinstance(batch, list | tuple) else batch
        return self.decoder(self(inputs).float())

    def configure_optimizers(self) -> Any:
        """AdamW over all parameters, those of the loss among them."""
        return torch.optim.AdamW(self.parameters(), lr=self.hparams["learning_rate"])

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """The fitted rule goes with the weights, as plain values."""
        checkpoint["zlpr_decoder"] = self.decoder.to_config()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """The rule that was saved decides again."""
        if "zlpr_decoder" not in checkpoint:
            raise UserError("this checkpoint holds no decoding rule: it is of another module")
        self.decoder = decoding.from_config(checkpoint["zlpr_decoder"])

    def _judge(self, batch: Any, rule: decoding.Rule | None, loader: Any, *, keep: bool) -> None:
        inputs, targets, mask = _parts(batch)
        if mask is not None:
            raise UserError("a label mask is for training; judge on samples with all labels known")
        scores = self._raw_scores(inputs).detach().float()
        if self._seen is None:
            self._seen = _Judged(scores.shape[1], self.hparams["empty"], _own_samples(loader))
        own = self._seen.remaining(len(targets))
        scores, targets = scores[:own], targets[:own]
        value = float(self.loss(scores, targets))
        scores = scores - bound_of(self.loss).to(scores.device)
        self._seen.add(scores, targets > 0.5, rule, value, keep=keep)

    def _log_figures(self, part: str) -> "_Judged":
        seen = self._seen
        if seen is None:
            raise UserError(f"there was no {part} batch to judge on")
        figures = seen.figures(self.trainer.world_size, self.device)
        self.log_dict({f"{part}_{name}": value for name, value in figures.items()})
        return seen

    def _fit_rule(self, scores: Tensor, targets: Tensor) -> decoding.Rule:
        name = self.hparams["decode"]
        rules = rules_of(self.hparams["loss"]) if name == "auto" else (name,)
        options = {"rules": rules, "empty": self.hparams["empty"]}
        return decoding.choose(targets, scores, self.hparams["decode_metric"], **options)


class _Judged:
    """What a pass over validation or test samples adds up."""

    def __init__(self, num_labels: int, empty: Empty, own_samples: int | None) -> None:
        self.metrics = MetricSet(num_labels, empty=empty, ks=())
        self.own_samples = own_samples
        self.loss = torch.zeros(2, dtype=torch.float64)  # sum over samples, and their number
        self.kept: list[tuple[Tensor, Tensor]] = []

    def remaining(self, samples: int) -> int:
        """How many of the next samples are this process's own, not a sampler's repetition."""
        if self.own_samples is None:
            return samples
        return min(samples, self.own_samples - self.metrics.samples)

    def add(
        self,
        scores: Tensor,
        targets: Tensor,
        rule: decoding.Rule | None,
        loss: float,
        *,
        keep: bool,
    ) -> None:
        """Add a batch, its label sets decided by the rule; keep its scores to fit another."""
        scores, targets = scores.cpu(), targets.cpu()
        self.loss += torch.tensor([loss * len(scores), len(scores)], dtype=torch.float64)
        if len(scores):
            self.metrics.update(targets, scores, None if rule is None else rule(scores))
        if keep:
            self.kept.append((scores, targets))

    def figures(self, processes: int, device: torch.device) -> dict[str, float]:
        """The mean loss and the paper's metrics over the samples of all processes."""
        metrics, loss = self.metrics, self.loss
        if processes > 1:
            metrics = metrics.all_reduce(device=device)
            loss = gather_samples(loss[None].to(device)).sum(dim=0).cpu()
        values = metrics.compute()
        figures = {name: values[name] for name in PAPER_METRICS if name in values}
        return {"loss": (loss[0] / loss[1]).item(), **figures}

    def all_samples(self, processes: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Scores and targets of all processes, in the order in which a sampler dealt them out."""
        scores, targets = (torch.cat(parts) for parts in zip(*self.kept, strict=True))
        if processes == 1:
            return scores, targets
        counts = gather_samples(torch.tensor([len(scores)], device=device)).tolist()
        missing = max(counts) - len(scores)
        padded = [
            nn.functional.pad(part.float(), (0, 0, 0, missing)).to(device)
            for part in (scores, targets)
        ]
        parts = [torch.stack(gather_samples(part).cpu().chunk(processes)) for part in padded]
        turns = torch.arange(max(counts))
        is_there = turns[:, None] < torch.tensor(counts)[None, :]
        scores, truth = (part.transpose(0, 1)[is_there] for part in parts)
        return scores, truth > 0.5


def _parts(batch: Any) -> tuple[Any, Tensor, Tensor | None]:
    """Inputs, targets and, where there is one, the mask."""
    if not isinstance(batch, list | tuple) or len(batch) not in (2, 3):
        raise UserError("a batch must be (inputs, targets) or (inputs, targets, label_mask)")
    return batch[0], batch[1], batch[2] if len(batch) == 3 else None


def _own_samples(loader: Any) -> int | None:
    """How many samples a `DistributedSampler` deals to this process once, None without one."""
    sampler = getattr(loader, "sampler", None)
    if not isinstance(sampler, DistributedSampler) or sampler.shuffle or sampler.drop_last:
        return None
    return len(range(sampler.rank, len(sampler.dataset), sampler.num_replicas))  # type: ignore[arg-type]

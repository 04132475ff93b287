"""The objective of an optimiser step does not depend on how the step is spread."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import IterableDataset
from transformers import TrainerCallback, TrainingArguments

from tests import tiny
from tests.training import worker
from zlpr._errors import UserError
from zlpr.losses import registry
from zlpr.models.tokens import Padding, tokenize
from zlpr.models.transformer import load_network, load_tokenizer
from zlpr.training.batches import GlobalBatches, LabelledTexts, PaddedBatches
from zlpr.training.trainer import MultiLabelTrainer

# Means over samples, and the three whose sums run over the batch.
LOSSES = ["zlpr", "bce", "lsep", "dice2", "two_way", "sigmoid_f1"]


class Logs(TrainerCallback):
    """Keeps what is logged, and seeds dropout when training begins."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == 0:
            torch.manual_seed(7)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any, **_: Any) -> None:
        if "loss" in logs:
            self.losses.append(logs["loss"])


def prepare(folder: Any, size: int = 61) -> tuple[Any, LabelledTexts, PaddedBatches]:
    tokenizer = load_tokenizer(str(folder))
    torch.manual_seed(0)
    network = load_network(str(folder), num_labels=5, ignore_mismatched_sizes=True)
    texts = worker.TRAIN.select(range(size))
    data = LabelledTexts(tokenize(tokenizer, texts.inputs, 32), texts.labels)
    return network, data, PaddedBatches(Padding.of(tokenizer))


def train(folder: Any, tmp_path: Any, loss: str, **options: Any) -> tuple[list[float], Any]:
    """A step of plain gradient descent per batch; the losses, and the network after it."""
    network, data, collate = prepare(folder, options.pop("size", 61))
    streamed, logs = options.pop("streamed", False), Logs()
    args = TrainingArguments(
        output_dir=str(tmp_path),
        num_train_epochs=1,
        max_steps=options.pop("max_steps", -1),
        per_device_train_batch_size=options.pop("batch", 8),
        optim="sgd",
        learning_rate=0.5,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        gradient_accumulation_steps=options.pop("accumulation_steps", 1),
        train_sampling_strategy="group_by_length",
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = MultiLabelTrainer(
        model=network, args=args, train_dataset=Stream(data) if streamed else data,
        data_collator=collate, loss=loss,
        callbacks=[logs], batch_size=16, **options,
    )  # fmt: skip
    trainer.train()
    return logs.losses, network


def by_hand(
    folder: Any, loss_name: str, size: int = 61, passes: int = 1, **loss_params: Any
) -> tuple[list[float], Any]:
    """The same by a plain loop: all scores of a batch, one loss, one backward pass."""
    network, data, collate = prepare(folder, size)
    loss = registry.create(loss_name, **loss_params)
    batches = list(GlobalBatches(len(data), 16, seed=42, lengths=data.lengths))
    network.train()
    torch.manual_seed(7)
    values = []
    for batch in batches:
        width = -(-len(batch) // passes)
        pieces = [batch[start : start + width] for start in range(0, len(batch), width)]
        inputs = [collate([data[i] for i in piece]) for piece in pieces]
        targets = torch.cat([piece.pop("labels") for piece in inputs])
        value = loss(torch.cat([network(**piece).logits for piece in inputs]), targets)
        for part in (network, loss):
            part.zero_grad()
        value.backward()
        values.append(value.item())
        with torch.no_grad():
            for parameter in [*network.parameters(), *loss.parameters()]:
                if parameter.grad is not None:
                    parameter -= 0.5 * parameter.grad
    return values, network


def difference(network: Any, other: Any) -> float:
    pairs = zip(network.parameters(), other.parameters(), strict=True)
    return max(float((a - b).detach().abs().max()) for a, b in pairs)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("accumulation_steps", [1, 3])
def test_training_takes_the_steps_of_a_plain_loop(
    still_bert: Any, tmp_path: Any, loss: str, accumulation_steps: int
) -> None:
    values, network = train(still_bert, tmp_path, loss, accumulation_steps=accumulation_steps)
    expected, reference = by_hand(still_bert, loss)
    assert values == pytest.approx(expected, rel=2e-5)
    assert difference(network, reference) < 2e-5


def test_a_module_over_the_batch_is_known_as_such(still_bert: Any, tmp_path: Any) -> None:
    module: Any = registry.create("dice2", smoothing=2.0)
    values, network = train(still_bert, tmp_path, module, accumulation_steps=3)
    expected, reference = by_hand(still_bert, "dice2", smoothing=2.0)
    assert values == pytest.approx(expected, rel=2e-5)
    assert difference(network, reference) < 2e-5


@pytest.mark.parametrize("loss", ["zlpr", "dice2"])
def test_accumulation_uses_one_dropout_mask_for_scores_and_gradient(
    bert: Any, tmp_path: Any, loss: str
) -> None:
    # 48 samples are three whole batches of 16: no row fills up and changes the mask's shape.
    values, network = train(bert, tmp_path, loss, size=48, accumulation_steps=2)
    expected, reference = by_hand(bert, loss, size=48, passes=2)
    assert values == pytest.approx(expected, rel=2e-5)
    assert difference(network, reference) < 2e-5


@pytest.mark.parametrize("loss", ["zlpr", "hbm"])
@pytest.mark.parametrize("accumulation_steps", [1, 2])
def test_a_bound_that_the_loss_learns_takes_the_steps_of_a_plain_loop(
    still_bert: Any, tmp_path: Any, loss: str, accumulation_steps: int
) -> None:
    learns = {"learn_threshold": True}
    values, network = train(
        still_bert, tmp_path, loss, loss_params=learns, accumulation_steps=accumulation_steps
    )
    expected, reference = by_hand(still_bert, loss, **learns)
    fixed, _ = by_hand(still_bert, loss, learn_threshold=False)
    assert values == pytest.approx(expected, rel=2e-5)
    assert difference(network, reference) < 2e-5
    assert values[1] != pytest.approx(fixed[1], rel=1e-5)


class Stream(IterableDataset[Any]):
    """Data in its order, of a length that nobody knows."""

    def __init__(self, data: LabelledTexts) -> None:
        self.data = data

    def __iter__(self) -> Iterator[Any]:
        return (self.data[row] for row in range(len(self.data)))


@pytest.mark.parametrize("loss", ["zlpr", "dice2", "hbm"])
def test_a_stream_that_ends_within_a_step_leaves_nothing_to_the_next(
    still_bert: Any, tmp_path: Any, loss: str
) -> None:
    made = {"size": 20, "streamed": True, "batch": 4, "max_steps": 4}
    losses, network = train(still_bert, tmp_path, loss, accumulation_steps=4, **made)
    made["batch"] = 16  # of 16 and of 4 samples, twice
    expected, other = train(still_bert, tmp_path, loss, **made)
    assert losses == pytest.approx(expected, rel=1e-4)
    assert difference(network, other) < 1e-5


def test_evaluation_takes_the_loss_of_all_samples_at_once(still_bert: Any, tmp_path: Any) -> None:
    network, data, collate = prepare(still_bert)
    args = TrainingArguments(
        output_dir=str(tmp_path), per_device_eval_batch_size=7, report_to="none", use_cpu=True
    )
    loss = registry.create("sigmoid_f1")

    def metrics(prediction: Any) -> dict[str, float]:
        scores, targets = torch.from_numpy(prediction.predictions), prediction.label_ids
        return {"loss": float(loss(scores, torch.from_numpy(targets)))}

    trainer = MultiLabelTrainer(
        model=network, args=args, eval_dataset=data, data_collator=collate, loss="sigmoid_f1",
        compute_metrics=metrics,
    )  # fmt: skip
    inputs = collate([data[i] for i in range(len(data))])
    targets = inputs.pop("labels")
    with torch.no_grad():
        expected = loss(network.eval()(**inputs).logits, targets)
    assert trainer.evaluate()["eval_loss"] == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize(
    ("options", "settings", "message"),
    [
        ({"compute_loss_func": sum}, {}, "compute_loss_func: .* give the loss as loss="),
        ({}, {"label_smoothing_factor": 0.1}, r"say extras=Extras\(label_smoothing="),
        ({}, {"dataloader_drop_last": True}, "no sample is left out"),
    ],
)
def test_a_setting_that_would_not_be_used_is_refused(
    still_bert: Any, tmp_path: Any, options: Any, settings: Any, message: str
) -> None:
    args = TrainingArguments(output_dir=str(tmp_path), report_to="none", use_cpu=True, **settings)
    with pytest.raises(UserError, match=message):
        MultiLabelTrainer(model=prepare(still_bert)[0], args=args, **options)


def test_a_run_that_is_taken_up_within_an_epoch_tells_the_loss_that_epoch(
    still_bert: Any, tmp_path: Any
) -> None:
    def told(**state: Any) -> list[int]:
        network, data, collate = prepare(still_bert, 48)
        args = TrainingArguments(
            output_dir=str(tmp_path), num_train_epochs=2, save_steps=2, logging_strategy="no",
            report_to="none", disable_tqdm=True, use_cpu=True,
        )  # fmt: skip
        trainer = MultiLabelTrainer(
            model=network, args=args, train_dataset=data, data_collator=collate, loss="splc",
            batch_size=16,
        )  # fmt: skip
        epochs: list[int] = []
        trainer.loss.begin_epoch = epochs.append
        trainer.train(**state)
        return epochs

    assert told() == [1, 2]
    assert told(resume_from_checkpoint=str(tmp_path / "checkpoint-2")) == [1, 2]


def test_tiny_texts_are_of_uneven_length() -> None:
    lengths = {len(text.split()) for text in tiny.texts(50).inputs}
    assert np.ptp(list(lengths)) > 5

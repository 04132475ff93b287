"""The losses and metrics in a plain Trainer, and in ours."""

from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from transformers import EvalPrediction, Trainer, TrainingArguments

import zlpr
from tests import tiny
from zlpr._errors import UserError
from zlpr.integrations.transformers import (
    Extras,
    MultiLabelTrainer,
    compute_loss_func,
    compute_metrics,
)
from zlpr.models.transformer import load_network, load_tokenizer

DATA = tiny.texts(24, seed=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.bert(tmp_path_factory.mktemp("bert"), dropout=0.0)


def trained(
    folder: Path, tmp_path: Path, trainer: Any, batch: int, steps: int, **options: Any
) -> Any:
    """A network after an epoch in the data's order, and the losses on the way."""
    tokenizer = load_tokenizer(str(folder))
    torch.manual_seed(0)
    network = load_network(str(folder), num_labels=5, ignore_mismatched_sizes=True)
    labels = DATA.labels.toarray().astype(np.float32)
    items = [
        {**tokenizer(text), "labels": row} for text, row in zip(DATA.inputs, labels, strict=True)
    ]
    args = TrainingArguments(
        output_dir=str(tmp_path), per_device_train_batch_size=batch, num_train_epochs=1,
        gradient_accumulation_steps=steps, train_sampling_strategy="sequential", optim="sgd",
        learning_rate=0.5, lr_scheduler_type="constant", logging_steps=1, save_strategy="no",
        report_to="none", disable_tqdm=True, use_cpu=True,
    )  # fmt: skip
    run = trainer(
        model=network, args=args, train_dataset=items, eval_dataset=items,
        processing_class=tokenizer, **options,
    )  # fmt: skip
    run.train()
    losses = [entry["loss"] for entry in run.state.log_history if "loss" in entry]
    return run, losses


@pytest.mark.parametrize("loss", ["zlpr", "bce"])
def test_accumulation_does_not_rescale_the_loss_of_a_plain_trainer(
    folder: Path, tmp_path: Path, loss: str
) -> None:
    function = compute_loss_func(loss)
    one, expected = trained(folder, tmp_path, Trainer, 12, 1, compute_loss_func=function)
    two, losses = trained(folder, tmp_path, Trainer, 4, 3, compute_loss_func=function)
    assert losses == pytest.approx(expected, rel=1e-4)
    scores, targets = one.predict(one.eval_dataset)[:2]
    value = zlpr.losses.create(loss)(torch.from_numpy(scores), torch.from_numpy(targets))
    np.testing.assert_allclose(two.predict(two.eval_dataset)[0], scores, atol=1e-4)
    assert 0 < float(value) < 10


@pytest.mark.parametrize("loss", ["zlpr", "dice2", "two_way"])
def test_our_trainer_takes_ordinary_datasets_and_sees_the_whole_batch(
    folder: Path, tmp_path: Path, loss: str
) -> None:
    _, expected = trained(folder, tmp_path, MultiLabelTrainer, 12, 1, loss=loss)
    _, losses = trained(folder, tmp_path, MultiLabelTrainer, 4, 3, loss=loss)
    assert losses == pytest.approx(expected, rel=1e-4)


def test_metrics_are_those_of_the_metrics_room(folder: Path, tmp_path: Path) -> None:
    run, _ = trained(
        folder, tmp_path, MultiLabelTrainer, 12, 1, compute_metrics=compute_metrics(loss="zlpr")
    )
    figures = run.evaluate()
    scores, targets = run.predict(run.eval_dataset)[:2]
    assert figures["eval_micro_f1"] == zlpr.metrics.micro_f1(targets > 0.5, scores > 0)
    assert figures["eval_average_precision"] == pytest.approx(
        zlpr.metrics.average_precision(targets > 0.5, scores, empty="sklearn")
    )
    expected = zlpr.losses.zlpr_loss(torch.from_numpy(scores), torch.from_numpy(targets))
    assert figures["eval_loss"] == pytest.approx(float(expected), rel=1e-5)


def test_a_loss_over_the_batch_is_refused_where_it_would_be_wrong() -> None:
    with pytest.raises(ValueError, match="dice2 looks at the whole batch at once"):
        compute_loss_func("dice2")
    with pytest.raises(ValueError, match="zlpr has a bound to learn"):
        compute_loss_func("zlpr", learn_threshold=True)


def test_our_trainer_takes_the_model_and_its_arguments_by_position(
    folder: Path, tmp_path: Path
) -> None:
    network = load_network(str(folder), num_labels=5, ignore_mismatched_sizes=True)
    args = TrainingArguments(output_dir=str(tmp_path), report_to="none", use_cpu=True)
    trainer = MultiLabelTrainer(network, args, loss="bce", extras=Extras(r_drop=1.0))
    assert trainer.model is network
    assert trainer.args is args
    assert trainer.extras.link_scale == 1.0


def test_a_divergence_without_a_link_is_refused(folder: Path, tmp_path: Path) -> None:
    network = load_network(str(folder), num_labels=5, ignore_mismatched_sizes=True)
    args = TrainingArguments(output_dir=str(tmp_path), report_to="none", use_cpu=True)
    with pytest.raises(UserError, match="lsep has none: it only ranks"):
        MultiLabelTrainer(network, args, loss="lsep", extras=Extras(r_drop=1.0))
    with pytest.raises(UserError, match="need the loss's link"):
        MultiLabelTrainer(network, args, loss=torch.nn.BCEWithLogitsLoss(), extras=Extras(vat=1.0))


@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_a_loss_that_is_no_mean_is_refused(folder: Path, tmp_path: Path, reduction: str) -> None:
    # Each pass counts by its share of the step, of which the share of a sum would be too little.
    with pytest.raises(ValueError, match=f"reduction '{reduction}'"):
        compute_loss_func("zlpr", reduction=reduction)
    network = load_network(str(folder), num_labels=5, ignore_mismatched_sizes=True)
    args = TrainingArguments(output_dir=str(tmp_path), report_to="none", use_cpu=True)
    with pytest.raises(ValueError, match=f"reduction '{reduction}'"):
        MultiLabelTrainer(network, args, loss=torch.nn.BCEWithLogitsLoss(reduction=reduction))


def test_columns_that_the_model_does_not_take_are_left_out(folder: Path, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(str(folder))
    rows = {"text": list(DATA.inputs), "labels": DATA.labels.toarray().astype(float).tolist()}
    data = datasets.Dataset.from_dict(rows).map(lambda row: tokenizer(row["text"]))
    args = TrainingArguments(
        output_dir=str(tmp_path), report_to="none", use_cpu=True, max_steps=1, disable_tqdm=True
    )
    for train in (data, list(data)):
        network = load_network(str(folder), num_labels=5, ignore_mismatched_sizes=True)
        run = MultiLabelTrainer(
            model=network, args=args, train_dataset=train, processing_class=tokenizer
        )
        assert run.train().global_step == 1


@pytest.mark.parametrize("loss", ["zlpr", "dice2"])
def test_evaluation_has_a_loss_without_being_told(folder: Path, tmp_path: Path, loss: str) -> None:
    run, _ = trained(folder, tmp_path, MultiLabelTrainer, 12, 1, loss=loss)
    assert "eval_micro_f1" not in run.evaluate()
    with_metrics, _ = trained(
        folder, tmp_path, MultiLabelTrainer, 12, 1, loss=loss, compute_metrics=compute_metrics()
    )
    scores, targets = run.predict(run.eval_dataset)[:2]
    expected = zlpr.losses.create(loss)(torch.from_numpy(scores), torch.from_numpy(targets))
    for figures in (run.evaluate(), with_metrics.evaluate()):
        assert figures["eval_loss"] == pytest.approx(float(expected), rel=1e-5)


def test_label_sets_are_taken_at_the_bound_of_the_loss(folder: Path, tmp_path: Path) -> None:
    scores = np.array([[1.2, -1.0, 0.3]], dtype=np.float32)
    prediction = EvalPrediction(scores, np.array([[1.0, 0.0, 0.0]]))
    assert compute_metrics(loss="zlpr")(prediction)["subset_accuracy"] == 0.0
    assert compute_metrics(loss="zlpr", threshold=1.0)(prediction)["subset_accuracy"] == 1.0
    with pytest.raises(ValueError, match="a bound to learn: give the module"):
        compute_metrics(loss="zlpr", learn_threshold=True)
    module = zlpr.losses.ZLPRLoss(learn_threshold=True)
    figures = compute_metrics(loss=module)
    with torch.no_grad():
        module.threshold.fill_(1.0)
    assert figures(prediction)["subset_accuracy"] == 1.0
    network = load_network(str(folder), num_labels=5, ignore_mismatched_sizes=True)
    args = TrainingArguments(output_dir=str(tmp_path), report_to="none", use_cpu=True)
    for options in ({"loss": module}, {"loss": "zlpr", "loss_params": {"threshold": 1.0}}):
        with pytest.raises(UserError, match=r"decides at a bound of its own: give the loss to"):
            MultiLabelTrainer(network, args, compute_metrics=compute_metrics(), **options)
    MultiLabelTrainer(network, args, compute_metrics=figures, loss=module)


@pytest.mark.parametrize(
    "loss",
    [
        "lsep",
        zlpr.losses.LSEPLoss(),
        zlpr.losses.LogitAdjustedLoss(
            zlpr.losses.LSEPLoss(), label_counts=torch.tensor([9, 1]), num_samples=10
        ),
        type("Mine", (zlpr.losses.LSEPLoss,), {})(),
    ],
)
def test_a_loss_that_only_ranks_gets_no_label_sets_without_a_rule(loss: Any) -> None:
    prediction = EvalPrediction(np.array([[2.0, 1.0]]), np.array([[1.0, 0.0]]))
    figures = compute_metrics(loss=loss)(prediction)
    assert figures["average_precision"] == 1.0
    assert "micro_f1" not in figures
    assert compute_metrics(zlpr.decoding.TopK(k=1), loss=loss)(prediction)["micro_f1"] == 1.0


def test_a_loss_by_epochs_wants_our_trainer() -> None:
    with pytest.raises(ValueError, match="splc must be told each epoch: use MultiLabelTrainer"):
        compute_loss_func("splc")


def test_hidden_states_behind_the_scores_are_left_alone() -> None:
    scores, targets = np.array([[1.0, -1.0], [2.0, 1.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])
    alone = compute_metrics(loss="zlpr")(EvalPrediction(scores, targets))
    behind = EvalPrediction((scores, np.zeros((2, 7, 3))), targets)
    assert compute_metrics(loss="zlpr")(behind) == alone


def test_parameters_without_a_named_loss_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="emtpy: of a loss by name, and none is named"):
        compute_metrics(emtpy="paper")
    network = load_network(str(folder), num_labels=5, ignore_mismatched_sizes=True)
    args = TrainingArguments(output_dir=str(tmp_path), report_to="none", use_cpu=True)
    with pytest.raises(ValueError, match="loss_params are of a loss by name"):
        MultiLabelTrainer(
            network, args, loss=zlpr.losses.ZLPRLoss(), loss_params={"pos_weight": 2.0}
        )

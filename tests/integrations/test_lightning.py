"""The Lightning module trains, judges and decides as the package does, in one process or two."""

import os
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from lightning import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.processes import run
from zlpr import UserError, decoding, metrics
from zlpr.integrations.lightning import MultiLabelModule
from zlpr.losses import info

PAPER = metrics.PAPER_METRICS


def data(samples: int = 45) -> TensorDataset:
    """An odd number of samples, whose labels a linear encoder can learn."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(samples, 6, generator=generator)
    targets = (inputs[:, :3] + 0.5 * inputs[:, 3:] > 0.4).float()
    return TensorDataset(inputs, targets)


def trainer(folder: Path, **settings) -> Trainer:
    quiet = {
        "accelerator": "cpu",
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "logger": False,
        "default_root_dir": folder,
        "num_sanity_val_steps": 0,
    }
    return Trainer(**{**quiet, "max_epochs": 1, "enable_checkpointing": False, **settings})


def module(**settings) -> MultiLabelModule:
    torch.manual_seed(0)
    return MultiLabelModule(nn.Linear(6, 3), learning_rate=0.05, **settings)


def figures_of(made: MultiLabelModule, rule) -> dict[str, float]:
    """The figures as the package has them, of the whole data at once."""
    inputs, targets = data().tensors
    with torch.no_grad():
        scores = made.encoder(inputs)
        values = metrics.evaluate(targets, scores, None if rule is None else rule(scores), ks=())
        loss = made.loss(scores, targets).item()
    return {"loss": loss, **{name: values[name] for name in PAPER if name in values}}


def prefixed(part: str, figures: dict[str, float]) -> dict[str, float]:
    return {f"{part}_{name}": pytest.approx(value, rel=1e-5) for name, value in figures.items()}


def test_it_learns_and_its_figures_and_rule_are_those_of_the_package(tmp_path):
    made = module()
    before = figures_of(made, decoding.ZeroBound())["loss"]
    keeper = ModelCheckpoint(tmp_path)
    running = trainer(tmp_path, max_epochs=6, enable_checkpointing=True, callbacks=[keeper])
    loaders = DataLoader(data(), batch_size=8, shuffle=True), DataLoader(data(), batch_size=8)
    running.fit(made, *loaders)
    assert figures_of(made, decoding.ZeroBound())["loss"] < 0.7 * before
    (logged,) = running.validate(made, loaders[1], verbose=False)
    assert logged == prefixed("val", figures_of(made, decoding.ZeroBound()))

    inputs, targets = data().tensors
    with torch.no_grad():
        expected = decoding.choose(targets, made.encoder(inputs), "micro_f1")
    assert made.decoder.to_config() == expected.to_config()
    (logged,) = running.test(made, loaders[1], verbose=False)
    assert logged == prefixed("test", figures_of(made, made.decoder))

    # What was fitted in the last validation is in the checkpoint that was saved after it.
    again = MultiLabelModule.load_from_checkpoint(
        keeper.best_model_path, encoder=nn.Linear(6, 3), weights_only=True
    )
    assert again.decoder.to_config() == made.decoder.to_config()
    assert again.hparams == made.hparams
    predicted = torch.cat(trainer(tmp_path).predict(again, loaders[1]))
    assert torch.equal(predicted, made.decoder(made.encoder(inputs).detach()))


def test_a_loss_that_only_ranks_is_judged_by_scores_and_gets_a_rule(tmp_path):
    made = module(loss="lsep", decode="label_count")
    running = trainer(tmp_path)
    running.fit(made, DataLoader(data(), batch_size=9), DataLoader(data(), batch_size=9))
    (logged,) = running.validate(made, DataLoader(data(), batch_size=9), verbose=False)
    assert set(logged) == {"val_loss", "val_average_precision", "val_ranking_loss"}
    assert made.decoder.name == "label_count"


def test_unknown_labels_have_no_gradient():
    made = module()
    inputs, targets = data().tensors
    mask = torch.ones(45, 3, dtype=torch.bool)
    mask[:, 1] = False
    made.log = lambda *_, **__: None  # outside a trainer there is nowhere to log to
    made.training_step((inputs, targets, mask), 0).backward()
    assert made.encoder.weight.grad[1].abs().sum() == 0
    assert made.encoder.weight.grad[0].abs().sum() > 0


def test_a_learned_bound_is_trained_and_taken_off(tmp_path):
    made = module(loss_params={"threshold": 1.0, "learn_threshold": True}, decode=None)
    trainer(tmp_path).fit(made, DataLoader(data(), batch_size=9), DataLoader(data(), batch_size=9))
    bound = made.loss.threshold
    assert bound.item() != 1.0
    inputs = data().tensors[0]
    torch.testing.assert_close(made(inputs), made.encoder(inputs) - bound)


def test_mistakes_are_one_line(tmp_path):
    with pytest.raises(UserError, match=r"a batch must be \(inputs, targets\)"):
        module().training_step(torch.zeros(2, 6), 0)
    with pytest.raises(UserError, match="a label mask is for training"):
        module()._judge([*data().tensors, torch.ones(45, 3).bool()], None, None, keep=False)


def check_two_processes(folder: str) -> None:
    """Training steps, figures and rule are those of one process; no sample counts twice."""
    rank = str(dist.get_rank())
    os.environ |= {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "MASTER_PORT": "0"}
    os.environ |= {"TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "localhost"}  # as torchrun does
    for loss in ("zlpr", "dice2"):
        made = module(loss=loss)
        running = trainer(Path(folder), devices=2, strategy="ddp", max_epochs=2)
        running.fit(made, DataLoader(data(44), batch_size=22), DataLoader(data(), batch_size=8))
        alone = module(loss=loss)
        optimiser = alone.configure_optimizers()
        inputs, targets = data(44).tensors
        for _ in range(2):
            optimiser.zero_grad()
            alone.loss(alone.encoder(inputs), targets).backward()
            optimiser.step()
        torch.testing.assert_close(made.encoder.weight, alone.encoder.weight, rtol=1e-4, atol=1e-5)
        logged = {name: value.item() for name, value in running.callback_metrics.items()}
        if not info(loss).over_batch:
            expected = prefixed("val", figures_of(alone, decoding.ZeroBound()))
            assert {name: logged[name] for name in expected} == expected
        with torch.no_grad():
            rule = decoding.choose(data().tensors[1], alone.encoder(data().tensors[0]), "micro_f1")
        assert made.decoder.to_config()["rule"] == rule.name
    dist.barrier()


def test_two_processes_train_judge_and_decide_as_one(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    run(check_two_processes, 2, tmp_path, str(tmp_path))


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"decode": "thresold"}, "no rule 'thresold'"),
        ({"decode": "feature_count"}, "no rule 'feature_count'"),
        ({"decode_metric": "average_precision"}, "no metric of label sets 'average_precision'"),
        ({"empty": "none"}, "empty must be"),
        ({"loss_params": {"reduction": "sum"}}, "reduction 'sum'"),
    ],
)
def test_wrong_settings_are_refused_before_any_training(settings, fault):
    with pytest.raises(ValueError, match=fault):
        module(**settings)


def test_a_loss_by_epochs_is_told_each(tmp_path):
    splc = module(loss="splc", loss_params={"first_epoch": 3}, decode=None)
    told = []
    splc.loss.begin_epoch = told.append
    trainer(tmp_path, max_epochs=2).fit(splc, DataLoader(data(8), batch_size=8))
    assert told == [1, 2]


def test_a_checkpoint_of_another_module_is_refused():
    with pytest.raises(UserError, match="no decoding rule"):
        module().on_load_checkpoint({})

"""Fine-tuning by name: from texts to a model folder that transformers also reads."""

import dataclasses
import json
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from transformers.trainer_pt_utils import safe_globals

import zlpr
from tests import tiny
from tests.processes import Command
from tests.training import worker
from zlpr._errors import UserError
from zlpr.cli.main import main
from zlpr.data import make_split, save
from zlpr.losses import ZLPRLoss
from zlpr.models.transformer import fixed_bounds, load_network
from zlpr.training import TrainingConfig, TrainingProgress, fine_tuning, fit
from zlpr.training.fine_tuning import fold_bound
from zlpr.training.pooling_layer import add_pooling_layer
from zlpr.training.transformer import ENOUGH_SAMPLES, MOST_RATE, TransformerTrainer

TRAIN, VALIDATION, TEST = tiny.texts(240, seed=3), tiny.texts(60, seed=4), tiny.texts(40, seed=5)


def settings(folder: Path, **options: Any) -> dict[str, Any]:
    return {
        "model": f"hf:{folder}",
        "learning_rate": 0.01,
        "epochs": 2,
        "batch_size": 16,
        **options,
    }


@pytest.fixture(scope="module", params=["bert", "roberta"])
def fitted(request: pytest.FixtureRequest) -> Any:
    folder = request.getfixturevalue(request.param)
    lines: list[TrainingProgress] = []
    config = TrainingConfig(**settings(folder, epochs=8, learning_rate=0.02))
    return fit(TRAIN, VALIDATION, config, progress=lines.append), lines


def test_fine_tuning_learns_which_words_make_a_label(fitted: Any) -> None:
    result, _ = fitted
    targets = TEST.labels.toarray()
    shares = TRAIN.labels.toarray().mean(axis=0, keepdims=True).repeat(len(targets), axis=0)
    baseline = zlpr.metrics.average_precision(targets, shares)
    scores = result.model.predict_scores(TEST.inputs)
    assert zlpr.metrics.average_precision(targets, scores) > baseline + 0.1


def test_the_best_epoch_is_kept(fitted: Any) -> None:
    result, _ = fitted
    metrics = [line.metric for line in result.history]
    assert result.chosen["epoch"] == 1 + int(np.argmax(metrics))
    scores = result.model.predict_scores(VALIDATION.inputs)
    np.testing.assert_array_equal(scores, result.validation.scores)
    rule = zlpr.decoding.create("threshold").fit(VALIDATION.labels, scores, "micro_f1")
    assert zlpr.metrics.micro_f1(VALIDATION.labels, rule(scores)) == pytest.approx(max(metrics))


def test_progress_tells_of_steps_and_epochs(fitted: Any) -> None:
    result, lines = fitted
    epochs = [line for line in lines if line.metric is not None]
    assert tuple(epochs) == result.history
    assert [line.stage for line in epochs] == [f"epoch {epoch} of 8" for epoch in range(1, 9)]
    assert [line.step for line in epochs] == [15 * epoch for epoch in range(1, 9)]
    steps = [line for line in lines if line.metric is None]
    assert steps[-1].step == steps[-1].total == 8 * 15
    assert steps[-1].loss < steps[0].loss
    seconds = [line.seconds for line in lines]
    assert seconds == sorted(seconds)


def test_the_folder_gives_the_same_scores_in_plain_transformers(
    fitted: Any, tmp_path: Path
) -> None:
    result, _ = fitted
    result.model.save(tmp_path / "model")
    network = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    with torch.no_grad():
        inputs = tokenizer(list(TEST.inputs), padding=True, return_tensors="pt")
        scores = network(**inputs).logits.numpy()
    bounds = fixed_bounds(result.model.decoder) or 0.0
    expected = result.model.predict_scores(TEST.inputs) - np.asarray(bounds, dtype=np.float32)
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert network.config.id2label == dict(enumerate(tiny.LABELS))
    assert network.config.problem_type == "multi_label_classification"
    assert not list((tmp_path / "model").glob("*.bin"))


def test_the_folder_gives_the_same_scores_when_it_is_loaded(fitted: Any, tmp_path: Path) -> None:
    result, _ = fitted
    result.model.save(tmp_path / "model")
    model = zlpr.load(tmp_path / "model")
    scores = result.model.predict_scores(TEST.inputs)
    np.testing.assert_array_equal(model.predict_scores(TEST.inputs), scores)
    assert model.predict(TEST.inputs) == result.model.predict(TEST.inputs)
    model.save(tmp_path / "again")
    np.testing.assert_array_equal(zlpr.load(tmp_path / "again").predict_scores(TEST.inputs), scores)


def test_the_folder_loads_in_another_process(bert: Path, tmp_path: Path) -> None:
    result = fit(TRAIN, VALIDATION, TrainingConfig(**settings(bert, epochs=1)))
    result.model.save(tmp_path / "model")
    answers = Command(_answer, tmp_path / "model", list(TEST.inputs), log=tmp_path / "answers")
    assert answers.wait() == 0, answers.stderr
    scores, labels = json.loads(answers.stdout)
    np.testing.assert_array_equal(np.float32(scores), result.model.predict_scores(TEST.inputs))
    assert [tuple(row) for row in labels] == result.model.predict(TEST.inputs)


def _answer(folder: Path, texts: list[str]) -> None:
    model = zlpr.load(folder)
    print(json.dumps([model.predict_scores(texts).tolist(), model.predict(texts)]))


def test_the_same_seed_gives_the_same_bits_and_another_does_not(bert: Path) -> None:
    first, second = (worker.run(settings(bert)) for _ in range(2))
    assert first == second
    assert worker.run(settings(bert, seed=1)) != first


def test_a_run_leaves_the_callers_random_numbers_alone(bert: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    worker.run(settings(bert, epochs=1))
    assert torch.equal(torch.rand(3), expected)


def test_a_killed_run_resumes_to_the_result_of_an_unbroken_one(bert: Path, tmp_path: Path) -> None:
    run = settings(bert, epochs=4, patience=3)
    spec = {"runs": [run], "out": str(tmp_path / "out.json"), "checkpoint": str(tmp_path / "state")}
    die = {"rank": 0, "step": 10}  # in epoch 3 of 4
    killed = Command(worker.carry_out, {**spec, "die": die}, log=tmp_path / "killed")
    assert killed.wait() == -signal.SIGKILL, killed.stderr
    assert len(list((tmp_path / "state").glob("checkpoint-*"))) == 2
    resumed = Command(worker.carry_out, spec, log=tmp_path / "resumed")
    assert resumed.wait() == 0, resumed.stderr
    (result,) = json.loads((tmp_path / "out.json").read_text())
    assert result == worker.run(run)


@pytest.fixture
def state(bert: Path, tmp_path: Path) -> tuple[dict[str, Any], Path, dict[str, Any]]:
    """A finished run's settings, checkpoints and result."""
    run, folder = settings(bert), tmp_path / "state"
    return run, folder, worker.run(run, folder)


def test_a_finished_run_is_not_trained_again(state: Any) -> None:
    run, folder, expected = state
    lines: list[TrainingProgress] = []
    assert worker.run(run, folder, progress=lines.append) == expected
    assert not lines


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.pt", "trainer_state.json"])
def test_an_unreadable_checkpoint_is_passed_over(state: Any, name: str) -> None:
    run, folder, expected = state
    newest = max(folder.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
    (newest / name).write_bytes(b"no such thing")
    assert worker.run(run, folder) == expected


def test_checkpoints_of_another_run_are_refused(state: Any) -> None:
    run, folder, _ = state
    with pytest.raises(UserError, match=r"another run \(different: loss, seed\)"):
        worker.run({**run, "loss": "bce", "seed": 3}, folder)


def test_checkpoints_of_a_run_from_other_weights_are_refused(tmp_path: Path) -> None:
    encoder = tmp_path / "encoder"
    encoder.mkdir()
    tiny.bert(encoder)
    worker.run(settings(encoder), tmp_path / "state")
    tiny.bert(encoder, seed=1)
    with pytest.raises(UserError, match=r"another run \(different: encoder\)"):
        worker.run(settings(encoder), tmp_path / "state")


@pytest.mark.parametrize("pools", [True, False])
def test_a_resumed_run_has_the_layers_that_it_began_with(
    pools: bool, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(layers: int) -> Any:
        return lambda network, *_: layers and add_pooling_layer(network)

    run = settings(bert)
    monkeypatch.setattr(fine_tuning, "start_head", start(pools))
    expected = worker.run(run, tmp_path / "state")
    newest = tmp_path / "state" / "checkpoint-8"
    (newest / "seal.json").unlink()  # as a kill leaves it
    monkeypatch.setattr(fine_tuning, "start_head", start(not pools))
    assert worker.run(run, tmp_path / "state") == expected


def test_checkpoints_hold_nothing_that_runs_when_it_is_read(state: Any) -> None:
    _, folder, _ = state
    assert not list(folder.rglob("training_args.bin"))
    for path in folder.rglob("*.pt*"):
        with safe_globals():
            torch.load(path, weights_only=True)


def test_a_full_disk_stops_the_run_and_leaves_earlier_checkpoints_whole(
    bert: Path, tmp_path: Path
) -> None:
    run, state = settings(bert, epochs=3), tmp_path / "state"
    spec = {"runs": [run], "out": str(tmp_path / "out.json"), "checkpoint": str(state)}
    spec["full"] = {"step": 6}  # in the second epoch of four steps
    stopped = Command(worker.carry_out, spec, log=tmp_path / "stopped")
    assert stopped.wait() != 0
    assert f"cannot write {state / 'checkpoint-8'}" in stopped.stderr
    assert [path.name for path in state.glob("checkpoint-*")] == ["checkpoint-4"]
    assert worker.run(run, state) == worker.run(run)


def test_training_stops_early_by_the_metric_of_the_users_choice(bert: Path) -> None:
    # With a vanishing rate nothing improves after the first epoch.
    run = settings(bert, epochs=6, patience=2, learning_rate=1e-12, metric="ranking_loss")
    result = worker.run(run)
    assert len(result["metrics"]) == 3
    assert result["epoch"] == 1


def test_a_run_that_stopped_early_is_finished(bert: Path, tmp_path: Path) -> None:
    run = settings(bert, epochs=6, patience=2, learning_rate=1e-12)
    assert worker.run(run, tmp_path / "state") == worker.run(run, tmp_path / "state")


def test_the_papers_preset_is_adam_at_its_rate_for_its_epochs(
    bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}
    run = fine_tuning._Trainer.run

    def watch(self: Any, *resumed: Any) -> None:
        run(self, *resumed)
        group = self.optimizer.param_groups[0]
        seen.update(rate=group["lr"], decay=group["weight_decay"], epochs=self.state.epoch)

    monkeypatch.setattr(fine_tuning._Trainer, "run", watch)
    worker.run({"model": f"hf:{bert}", "preset": "paper"})
    assert seen == {"rate": 2e-4, "decay": 0.0, "epochs": 20}


@pytest.mark.parametrize(("given", "used"), [(None, MOST_RATE), (0.01, 0.01)])
def test_a_narrow_encoder_takes_a_larger_learning_rate_unless_told(
    given: float | None, used: float, bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float] = []
    run = fine_tuning._Trainer.run

    def watch(self: Any, *resumed: Any) -> None:
        seen.append(self.args.learning_rate)
        run(self, *resumed)

    monkeypatch.setattr(fine_tuning._Trainer, "run", watch)
    worker.run({"model": f"hf:{bert}", "epochs": 1, "learning_rate": given})
    assert seen == [used]


def test_with_few_samples_the_command_names_the_frozen_encoder(
    bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, model = tmp_path / "few", f"hf:{bert}"
    save(make_split(TRAIN), data)
    run = ["train", str(data), "--model", model, "--epochs", "1", "--out", str(tmp_path / "out")]
    assert main(run) == 0
    said = capsys.readouterr().out
    assert f"with fewer than {ENOUGH_SAMPLES:,} training samples fine-tuning" in said
    assert f"try --model embed:{bert} as well" in said
    config: Any = TrainingConfig(model=model)
    assert TransformerTrainer().advice(tiny.texts(ENOUGH_SAMPLES), config) == []


def test_a_learned_bound_is_folded_into_the_bias(bert: Path) -> None:
    network = load_network(str(bert), num_labels=5, ignore_mismatched_sizes=True).eval()
    inputs = {"input_ids": torch.tensor([[2, 6, 7, 3]])}
    before = network(**inputs).logits
    fold_bound(network, ZLPRLoss(threshold=0.75))
    assert torch.allclose(network(**inputs).logits, before - 0.75, atol=1e-6)
    headless = torch.nn.Sequential(torch.nn.Linear(2, 5, bias=False))
    with pytest.raises(UserError, match="no bias that could take the loss's bound"):
        fold_bound(headless, ZLPRLoss(threshold=0.75))


def test_a_head_that_cannot_take_the_bound_is_refused_before_training(
    bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = fine_tuning._network

    def without_bias(*arguments: Any) -> Any:
        network, has_new_head = make(*arguments)
        network.classifier.bias = None
        return network, has_new_head

    monkeypatch.setattr(fine_tuning, "_network", without_bias)
    steps: list[Any] = []
    config = TrainingConfig(**settings(bert, loss_params={"threshold": 0.75}, epochs=1))
    with pytest.raises(UserError, match="no bias that could take the loss's bound"):
        fit(TRAIN, VALIDATION, config, progress=steps.append)
    assert steps == []


def test_a_model_with_a_learned_bound_is_cut_at_zero(bert: Path) -> None:
    run = settings(bert, loss_params={"threshold": 3.0, "learn_threshold": True}, decode="zero")
    shifted = worker.run(run)
    plain = worker.run(settings(bert, decode="zero"))
    # A bound that starts at 3 is folded away: what is cut at 0 is not 3 above what it was.
    assert abs(np.mean(shifted["scores"]) - np.mean(plain["scores"])) < 1.5


@pytest.mark.parametrize("loss", zlpr.losses.available())
def test_every_loss_trains(bert: Path, loss: str) -> None:
    result = worker.run(settings(bert, loss=loss, epochs=1, batch_size=32))
    assert np.isfinite(result["losses"]).all()
    assert np.isfinite(result["scores"]).all()


def test_texts_that_are_empty_or_huge_are_trained_on_and_predicted(bert: Path) -> None:
    texts = ["", "the horse " * 1_000_000, *TRAIN.inputs[2:]]
    data = dataclasses.replace(TRAIN, texts=texts)
    config = TrainingConfig(**settings(bert, epochs=1, batch_size=64))
    model = fit(data, VALIDATION, config).model
    scores = model.predict_scores(["", texts[1]])
    assert scores.shape == (2, 5)
    assert np.isfinite(scores).all()
    assert model.predict_scores([]).shape == (0, 5)


def test_scores_do_not_depend_on_the_company_a_text_is_in(fitted: Any) -> None:
    model = fitted[0].model
    together = model.predict_scores(TEST.inputs)
    alone = np.concatenate([model.predict_scores([text]) for text in TEST.inputs])
    np.testing.assert_allclose(together, alone, atol=1e-6 * np.abs(together).max() + 1e-5)


def test_logs_go_where_the_user_reports_to(bert: Path, tmp_path: Path) -> None:
    worker.run(settings(bert, report_to=["tensorboard"]), tmp_path / "state")
    assert list((tmp_path / "state" / "runs").rglob("events.out.tfevents.*"))
    with pytest.raises(UserError, match="tensorboard's logs go to the checkpoint folder"):
        worker.run(settings(bert, report_to=["tensorboard"]))


def test_an_objective_that_is_no_number_ends_the_run(bert: Path, tmp_path: Path) -> None:
    run = settings(bert, loss_params={"pos_weight": 1e40})
    with pytest.raises(
        UserError, match=r"^the loss zlpr \(pos_weight=1e\+40\) is \w+ on this data"
    ):
        worker.run(run, tmp_path / "state")
    assert not (tmp_path / "state").exists()


def test_a_users_mistake_is_one_clear_line(bert: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(UserError, match=f"cannot load the tokenizer '{missing}': no such folder"):
        worker.run({"model": f"hf:{missing}"})
    with pytest.raises(UserError, match="max_length 65: this model reads at most 64"):
        worker.run(settings(bert, max_length=65))
    features = dataclasses.replace(TRAIN, texts=None, features=np.zeros((len(TRAIN), 2)))
    with pytest.raises(UserError, match="reads texts, and this data holds features"):
        fit(features, features, TrainingConfig(**settings(bert)))
    shutil.copytree(bert, tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"cut short")
    with pytest.raises(UserError, match="cannot load the model"):
        worker.run(settings(tmp_path / "broken"))


def test_mixed_precision_trains_in_half_and_leaves_a_model_in_single(
    bert: Path, tmp_path: Path
) -> None:
    config = TrainingConfig(**settings(bert, mixed_precision="bf16", epochs=1))
    if not fine_tuning.computes_in_bfloat16():  # the interpreter would end here
        with pytest.raises(UserError, match="stops the program at its first product in bfloat16"):
            fit(TRAIN, VALIDATION, config)
        return
    result = fit(TRAIN, VALIDATION, config)
    exact = fit(TRAIN, VALIDATION, dataclasses.replace(config, mixed_precision="auto"))
    assert result.model.network.dtype == torch.float32
    assert result.history[0].loss == pytest.approx(exact.history[0].loss, rel=0.05)
    assert (result.validation.scores != exact.validation.scores).any()
    result.model.save(tmp_path / "model")
    np.testing.assert_array_equal(
        zlpr.load(tmp_path / "model").predict_scores(VALIDATION.inputs), result.validation.scores
    )


def test_half_precision_is_not_chosen_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert fine_tuning._precision("auto") == {"bf16": False, "fp16": False}
    with pytest.raises(UserError, match="mixed_precision 'fp16': needs a GPU"):
        fine_tuning._precision("fp16")

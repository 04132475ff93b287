from dataclasses import replace

import numpy as np
import pytest

from tests import tiny
from tests.compare import toy
from zlpr import decoding, metrics, training
from zlpr._errors import UserError
from zlpr.compare import cell as module
from zlpr.compare.cell import (
    Place,
    curves,
    divide_with_test,
    run_cell,
    share_inputs,
)
from zlpr.compare.grid import Cell, cells, parse_grid
from zlpr.compare.records import LossSpec, same_result
from zlpr.data import Dataset, load, write
from zlpr.training import TrainingProgress
from zlpr.training.linear import LinearTrainer

PLACE = Place("zlpr compare", 1)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return toy.write_file(tmp_path_factory.mktemp("data") / "toy.csv")


def run(path, loss: LossSpec, **changes):
    return run_cell(cells(toy.grid(path, losses=(loss,), seeds=(3,), **changes))[0], PLACE)


@pytest.fixture(scope="module")
def zlpr_record(path):
    return run(path, LossSpec("zlpr", "zlpr"))


@pytest.fixture(scope="module")
def lsep_record(path):
    return run(path, LossSpec("lsep", "lsep"))


def test_the_figures_are_those_of_a_training_by_hand(path, zlpr_record):
    parts = training.divide(load(str(path)), "random", 3)
    config = training.TrainingConfig(seed=3, regularisation=1.0)
    fitted = training.fit(parts.train, parts.validation, config)
    test = parts.test
    scores = fitted.model.predict_scores(test.inputs)
    assert zlpr_record.settings.empty == "sklearn"
    own = metrics.evaluate(test.labels, scores, scores > 0, empty="sklearn")
    decoded = zlpr_record.done.evaluation.test
    assert decoded.own == pytest.approx(own)
    validation = parts.validation.labels
    for name in ("subset_accuracy", "example_f1", "micro_f1", "macro_f1"):
        rule = decoding.Threshold().fit(
            validation, fitted.validation.scores, metric=name, empty="sklearn"
        )
        expected = metrics.evaluate(test.labels, y_pred=rule(scores), empty="sklearn")[name]
        assert decoded.threshold[name] == pytest.approx(expected)
        chosen = decoding.choose(
            validation,
            fitted.validation.scores,
            name,
            rules=decoding.by_preference(decoding.rules_of_scores()),
            train_labels=parts.train.labels,
            empty="sklearn",
        )
        expected = metrics.evaluate(test.labels, y_pred=chosen(scores), empty="sklearn")[name]
        assert decoded.fitted[name] == pytest.approx(expected)
    assert decoded.fitted["average_precision"] == decoded.own["average_precision"]


def test_a_loss_that_only_ranks_decides_by_its_second_stage(lsep_record):
    outcome = lsep_record.done
    assert "subset_accuracy" not in outcome.evaluation.test.own
    assert {"average_precision", "ranking_loss"} <= set(outcome.evaluation.test.own)
    assert 0 < outcome.evaluation.test.fitted["micro_f1"] <= 1
    assert outcome.decoding.own is None
    assert outcome.decoding.fitted["micro_f1"]["rule"] != "zero"
    assert outcome.evaluation.test.threshold.keys() == outcome.decoding.fitted.keys()
    assert outcome.per_label.own_f1 is None
    assert outcome.reliability.raw is None


def test_the_same_settings_give_the_same_record(path, zlpr_record):
    module._last_data = module._last_shared = None
    again = run(path, LossSpec("zlpr", "zlpr"))
    assert same_result(again, zlpr_record)
    data = load(str(path))
    cell = Cell(again.settings, "nowhere.csv")
    assert same_result(run_cell(cell, PLACE, data), zlpr_record)


def test_data_and_features_are_read_once_for_cells_that_share_them(path, monkeypatch):
    module._last_data = module._last_shared = None
    read = []
    monkeypatch.setattr(module, "load", lambda *a, **k: read.append(a) or load(*a, **k))
    for cell in cells(toy.grid(path)):
        assert run_cell(cell, PLACE).status == "done"
    assert len(read) == 1


def test_a_seed_redraws_the_split(path):
    first, second = (share_inputs(cell).parts for cell in cells(toy.grid(path))[::3])
    assert set(first.test.texts) != set(second.test.texts)
    for parts in (first, second):
        texts = [*parts.train.texts, *parts.validation.texts, *parts.test.texts]
        assert len(texts) == len(set(texts)) == 160


def test_candidates_are_chosen_on_validation_at_the_own_bound(path):
    weights = (0.2, 1.0, 5.0)
    made = run(path, LossSpec("m", "zlpr", choose={"pos_weight": weights}, choose_by="micro_f1"))
    values = {}
    for weight in weights:
        alone = run(path, LossSpec("m", "zlpr", {"pos_weight": weight}))
        values[weight] = alone.done.evaluation.validation.own["micro_f1"]
        if weight == made.done.chosen["pos_weight"]:
            assert alone.done.evaluation == made.done.evaluation
    assert values[made.done.chosen["pos_weight"]] == max(values.values())
    assert made.done.trainings == 2 * 3  # each of them at last on both parts as well


def test_candidates_may_be_chosen_by_a_metric_that_should_be_small(path):
    spec = LossSpec("m", "zlpr", choose={"pos_weight": (0.02, 1.0)}, choose_by="hamming_loss")
    made = run(path, spec)
    alone = [run(path, LossSpec("m", "zlpr", {"pos_weight": weight})) for weight in (0.02, 1.0)]
    losses = [one.done.evaluation.validation.own["hamming_loss"] for one in alone]
    assert made.done.evaluation.validation.own["hamming_loss"] == min(losses) < max(losses)


def test_a_failure_becomes_a_record(path, monkeypatch):
    def broken(*arguments, **options):
        raise ValueError("scores hold\nNaN")

    monkeypatch.setattr(module, "fit_parts", broken)
    made = run(path, LossSpec("zlpr", "zlpr"))
    assert made.status == "failed"
    assert made.error.startswith("ValueError: scores hold NaN (test_cell.py:")
    assert made.outcome is None


def test_a_users_mistake_is_told_without_a_place_in_the_code(path):
    cell = cells(toy.grid(path, split="published"))[0]
    made = run_cell(cell, PLACE)
    assert made.error == "toy: no published split; give files or a column with one"


def test_a_published_split_without_a_test_part_is_refused(path):
    data = load(str(path))
    with pytest.raises(UserError, match="its split has no test part"):
        divide_with_test(replace(data, split=np.full(len(data), "train")), "published", 0)


def test_features_need_no_texts():
    chance = np.random.default_rng(0)
    features = chance.normal(size=(60, 5))
    labels = [{"a"} if row[0] > 0 else {"b"} for row in features]
    data = Dataset.from_label_sets(labels, features=features, name="numbers")
    cell = cells(toy.grid("demo"))[0]
    assert run_cell(cell, PLACE, data).status == "done"


def test_reliability_counts_every_cell_of_the_test_part(zlpr_record):
    outcome = zlpr_record.done
    reliability = outcome.reliability
    cells_of_test = outcome.data.test * outcome.data.labels
    for bins in (reliability.raw, reliability.calibrated):
        assert sum(entry.count for entry in bins) == cells_of_test
        assert all(0 <= entry.predicted <= 1 and 0 <= entry.observed <= 1 for entry in bins)
    gaps = [e.count * abs(e.predicted - e.observed) for e in reliability.calibrated]
    assert reliability.calibrated_error == pytest.approx(sum(gaps) / cells_of_test)


def test_curves_show_the_first_fit_and_validation_by_candidate():
    tried = [TrainingProgress(f"regularisation {r}", 1, 2, 1.0 / r, 0.5 + r / 10) for r in (1, 2)]
    steps = [
        *(TrainingProgress("regularisation 1", i, 0, 1.0 / i) for i in range(1, 301)),
        tried[0],
        *(TrainingProgress("regularisation 2", i, 0, 9.0) for i in range(1, 4)),
        tried[1],
    ]
    lines = {curve.name: curve for curve in curves(steps, tried)}
    assert lines["validation: candidate"].values == (0.6, 0.7)
    training_loss = lines["training loss: step"]
    assert training_loss.steps[0] == 1
    assert training_loss.steps[-1] == 300
    assert len(training_loss.steps) == 100
    assert max(training_loss.values) == 1.0


def test_curves_of_epochs():
    epochs = [TrainingProgress("epoch", i, 3, 1.0 / i, 0.1 * i) for i in (1, 2, 3)]
    steps = [TrainingProgress("step", i, 6, 1.0 / i) for i in range(1, 7)]
    lines = {curve.name: curve for curve in curves(steps, epochs)}
    assert lines["validation: epoch"].steps == (1.0, 2.0, 3.0)
    assert lines["training loss: step"].steps == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    assert curves([], []) == ()


def test_a_transformer_is_a_cell_like_any_other(tmp_path):
    model = tmp_path / "bert"
    model.mkdir()
    tiny.bert(model)
    write(tiny.texts(100), tmp_path / "texts.jsonl")
    grid = toy.grid(
        tmp_path / "texts.jsonl",
        models=(f"hf:{model}",),
        seeds=(3,),
        training={"epochs": 4, "batch_size": 16, "learning_rate": 0.01},
    )
    zlpr, dice, lsep = (run_cell(cell, PLACE) for cell in cells(grid))
    assert [record.error for record in (zlpr, dice, lsep)] == [None] * 3
    own = zlpr.done.evaluation.test.own
    assert own["average_precision"] > 0.6  # five labels; 0.46 by their frequencies alone
    assert set(lsep.done.evaluation.test.own) < set(own)  # it only ranks
    assert set(lsep.done.evaluation.test.fitted) == set(zlpr.done.evaluation.test.fitted)
    assert zlpr.done.trainings == dice.done.trainings == lsep.done.trainings
    assert same_result(zlpr, run_cell(cells(grid)[0], PLACE))


def test_the_first_training_of_a_process_does_not_pay_for_loading(path, monkeypatch):
    """A few samples are trained on once per loss, before the clock of the fit starts."""
    sizes = []
    train = LinearTrainer.train

    def watch(self, part, *arguments, **options):
        sizes.append(len(part))
        return train(self, part, *arguments, **options)

    monkeypatch.setattr(LinearTrainer, "train", watch)
    monkeypatch.setattr(module, "_warm", set())
    for _ in range(2):
        run(path, LossSpec("zlpr", "zlpr"))
    run(path, LossSpec("bce", "bce"))
    few, many = module.WARM_UP_SAMPLES, max(sizes)
    assert many > few
    assert sizes == [few, many, many, few, many]


def test_data_that_changes_under_a_comparison_is_not_recorded_as_what_it_was(tmp_path):
    path = toy.write_file(tmp_path / "toy.csv")
    cell = cells(toy.grid(path))[0]
    with path.open("a") as stream:
        stream.write("an old sail,boats\n")
    record = run_cell(cell, PLACE)
    assert record.status == "failed"
    assert record.error == f"{path}: changed while it was being compared on; start again"


def test_cells_share_embeddings_across_losses_and_seeds(tmp_path, monkeypatch):
    from zlpr.models.encoder import Encoder

    monkeypatch.setenv("ZLPR_CACHE", str(tmp_path / "cache"))
    asked = []
    plain = Encoder.embed

    def counting(self, texts, watch=None):
        asked.extend(texts)
        return plain(self, texts, watch)

    monkeypatch.setattr(Encoder, "embed", counting)
    monkeypatch.setattr("zlpr.models.embedding_cache.FEWEST", 1)
    (tmp_path / "encoder").mkdir()
    model = f"embed:{tiny.bert(tmp_path / 'encoder')}"
    data = tiny.texts(150)
    grid = parse_grid(
        {
            "data": ["demo"],
            "models": [model],
            "losses": ["zlpr", "bce"],
            "seeds": [0, 1],
            "training": {"embed": {"regularisation": 1.0, "embedding_scale": 1.0}},
        }
    )
    for cell in cells(grid):
        assert run_cell(cell, PLACE, data).error is None
    assert sorted(asked) == sorted(set(data.texts))

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
    end_of_training,
    run_cell,
    share_inputs,
)
from zlpr.compare.grid import Cell, cells, parse_grid
from zlpr.compare.records import MOST_OF_OBJECTIVE, LossSpec, same_result
from zlpr.data import Dataset, demo, load, write
from zlpr.decoding._folds import FEW_SAMPLES
from zlpr.training import TrainingProgress, fine_tuning, head_start
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


def test_a_parameter_is_chosen_as_a_training_chooses_it(path):
    weights = (1.0, 0.2, 5.0)
    made = run(path, LossSpec("m", "zlpr", choose={"pos_weight": weights})).done
    parts = training.divide(load(str(path)), "random", 3)
    config = training.TrainingConfig(
        seed=3, regularisation=1.0, choose={"pos_weight": weights}, empty="sklearn"
    )
    fitted = training.fit(parts.train, parts.validation, config, test=parts.test)
    assert made.chosen == fitted.chosen
    assert made.evaluation.test.fitted["micro_f1"] == fitted.figures["test"]["micro_f1"]
    assert made.trainings == 3 + 1  # at last on both parts
    assert made.first is None
    assert made.chosen_for == {}


def test_the_metric_that_chooses_may_be_a_losss_own(path):
    spec = LossSpec("m", "zlpr", choose={"pos_weight": (0.02, 1.0)}, choose_by="hamming_loss")
    assert run(path, spec).done.chosen["pos_weight"] in (0.02, 1.0)


def per_metric(path, loss, **changes):
    return run(path, loss, per_metric=True, training={}, **changes)


@pytest.fixture(scope="module")
def chosen_record(path):
    return per_metric(path, LossSpec("m", "zlpr", choose={"pos_weight": (0.02, 1.0, 8.0)}))


def test_each_figure_is_of_the_fit_that_is_best_by_it_on_validation(path, chosen_record):
    """As a training at what was chosen says, to a sample of sixteen: one starts warm."""
    made = chosen_record.done
    for decided, name in (("own", "subset_accuracy"), ("threshold", "macro_f1")):
        at = made.chosen_for[decided][name]
        assert set(at) == {"regularisation", "pos_weight"}
        alone = run(
            path,
            LossSpec("m", "zlpr", {"pos_weight": at["pos_weight"]}),
            per_metric=True,
            training={"regularisation": at["regularisation"]},
        )
        expected = getattr(alone.done.evaluation.test, decided)[name]
        assert getattr(made.evaluation.test, decided)[name] == pytest.approx(expected, abs=0.07)
    values = made.evaluation.validation
    first = made.first.validation
    for name in ("subset_accuracy", "micro_f1", "macro_f1", "example_f1", "average_precision"):
        assert values.own[name] >= first.own[name]
    assert values.own["ranking_loss"] <= first.own["ranking_loss"]
    assert values.own != first.own


def test_the_first_value_alone_is_the_loss_without_a_choice(path, chosen_record):
    plain = per_metric(path, LossSpec("zlpr", "zlpr", {"pos_weight": 0.02})).done
    assert plain.first is None
    for part in ("validation", "test"):
        for decided in ("own", "threshold", "fitted"):
            alone = getattr(getattr(plain.evaluation, part), decided)
            of_choice = getattr(getattr(chosen_record.done.first, part), decided)
            for name in metrics.PAPER_METRICS:
                assert of_choice.get(name) == alone.get(name)


@pytest.mark.parametrize("per_metric", [False, True])
def test_copies_are_no_samples_more_to_choose_a_rule_on(tmp_path, per_metric):
    """Of few distinct samples only simple rules are weighed, however often each is there."""
    data = demo.make(160, 2)
    path = str(tmp_path / "copies.csv")
    write(data.select(np.repeat(np.arange(160), 4)), path)
    made = run(path, LossSpec("zlpr", "zlpr"), per_metric=per_metric)
    assert made.done.data.validation > FEW_SAMPLES
    rules = {rule["rule"] for rule in made.done.decoding.fitted.values()}
    assert rules <= {"zero", "threshold", "top_k", "label_count"}


def test_a_loss_that_only_ranks_may_choose_a_parameter(path):
    made = per_metric(path, LossSpec("m", "lsep", choose={"pos_weight": (1.0, 4.0)})).done
    assert set(made.chosen_for["own"]) == {"average_precision", "ranking_loss"}
    assert set(made.chosen_for["fitted"]) == set(made.chosen_for["threshold"])
    assert len(made.chosen_for["threshold"]) == 4


def test_a_record_says_how_far_training_had_settled(zlpr_record, chosen_record):
    for made in (zlpr_record.done, chosen_record.done):
        assert 0 <= made.end.objective < 0.05
        assert 0 <= made.end.metric < 0.2
        grain = 2 / made.data.validation
        within = made.end.objective <= MOST_OF_OBJECTIVE and made.end.metric <= grain
        assert made.end.settled is within


def test_the_end_of_a_training_in_epochs_is_its_last_epoch():
    lines = [
        TrainingProgress("epoch", step, 3, loss, metric)
        for step, (loss, metric) in enumerate([(9.0, 0.4), (3.0, 0.5), (1.0, 0.48)], start=1)
    ]
    end = end_of_training([lines], 1000)
    assert (end.objective, end.settled) == (0.25, False)
    assert end.metric == pytest.approx(0.02)
    assert end_of_training([[lines[0], lines[0]]], 1000).settled is True
    assert end_of_training([lines], 10).metric <= 2 / 10
    assert end_of_training([], 9) is end_of_training([lines[:1]], 9) is None


@pytest.mark.parametrize(
    ("model", "settings", "trainings", "says_its_end"),
    [
        ("mmp", {"epochs": 4}, 1, True),  # epochs of one training
        ("knn", {"neighbours": 3}, 1, False),
        ("chain", {"regularisation": 1.0}, 1, False),
        ("powerset", {"regularisation": 1.0, "subset_size": 2, "subsets": 3}, 3, False),
        ("shortlist", {"regularisation": 1.0}, 2, False),  # at last on both parts
        ("shortlist", {"regularisation": 1.0, "refit": False}, 1, False),
    ],
)
def test_epochs_are_no_trainings_and_trainings_no_epochs(
    path, model, settings, trainings, says_its_end
):
    loss = LossSpec("zlpr", "zlpr") if model == "shortlist" else LossSpec("none", "none")
    made = run(path, loss, models=(model,), training=settings).done
    assert made.trainings == trainings
    assert (made.end is not None) is says_its_end


@pytest.mark.parametrize("model", ["chain", "powerset", "shortlist"])
def test_a_search_is_a_training_for_each_value_and_not_one_in_epochs(path, model):
    loss = LossSpec("zlpr", "zlpr") if model == "shortlist" else LossSpec("none", "none")
    made = run(path, loss, models=(model,), training={}).done
    (tried,) = (curve for curve in made.curves if curve.name.startswith("validation"))
    assert made.trainings == len(tried.steps) + (model == "shortlist")
    assert tried.name == "validation: candidate"
    assert made.end is None


def test_of_a_large_set_some_samples_are_drawn_by_the_seed(path):
    several = cells(toy.grid(path, max_samples=40))
    parts = [share_inputs(cell).parts for cell in (several[0], several[3])]
    sizes = [len(part.train) + len(part.validation) + len(part.test) for part in parts]
    assert sizes == [40, 40]
    assert set(parts[0].train.texts) != set(parts[1].train.texts)


@pytest.mark.parametrize(("most", "drawn"), [(0, False), (159, True), (160, False)])
def test_a_record_says_whether_samples_were_left_out(path, most, drawn):
    assert len(load(str(path))) == 160
    made = run(path, LossSpec("zlpr", "zlpr"), max_samples=most)
    assert made.done.data.drawn is drawn


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
    lines = {curve.name: curve for curve in curves(steps, tried, 2)}
    assert lines["validation: candidate"].values == (0.6, 0.7)
    training_loss = lines["training loss: step"]
    assert training_loss.steps[0] == 1
    assert training_loss.steps[-1] == 300
    assert len(training_loss.steps) == 100
    assert max(training_loss.values) == 1.0


def test_curves_of_epochs():
    epochs = [TrainingProgress(f"epoch {i} of 3", i, 3, 1.0 / i, 0.1 * i) for i in (1, 2, 3)]
    steps = [TrainingProgress("step", i, 6, 1.0 / i) for i in range(1, 7)]
    lines = {curve.name: curve for curve in curves(steps, epochs, 1)}
    assert lines["validation: epoch"].steps == (1.0, 2.0, 3.0)
    assert lines["training loss: step"].steps == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    assert curves([], [], 1) == ()


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
    assert zlpr.done.trainings == dice.done.trainings == lsep.done.trainings == 1
    assert "validation: epoch" in {curve.name for curve in zlpr.done.curves}
    assert same_result(zlpr, run_cell(cells(grid)[0], PLACE))


def test_no_loss_pays_for_reading_the_encoder(tmp_path, monkeypatch):
    """It is read before the clock of the first fit starts, and never again."""
    (tmp_path / "bert").mkdir()
    tiny.bert(tmp_path / "bert")
    write(tiny.texts(60), tmp_path / "texts.jsonl")
    happened, read, fit = [], head_start.head_inputs, module.fit_parts

    def counted(*arguments):
        happened.append("read")
        return read(*arguments)

    def watched(*arguments, **options):
        happened.append("fit")
        return fit(*arguments, **options)

    def enough(*_):
        raise UserError("the head is there")

    monkeypatch.setattr(head_start, "head_inputs", counted)
    monkeypatch.setattr(module, "fit_parts", watched)
    monkeypatch.setattr(fine_tuning.TokenizedParts, "labelled", enough)
    losses = tuple(LossSpec(name, name) for name in ("bce", "zlpr"))
    made = {"models": (f"hf:{tmp_path / 'bert'}",), "seeds": (3,), "losses": losses}
    for cell in cells(toy.grid(tmp_path / "texts.jsonl", **made, training={})):
        assert run_cell(cell, PLACE).error == "the head is there"
    # Training and validation part, by the first token and by the mean of all.
    assert happened == [*["read"] * 4, "fit", "fit"]
    module._last_shared = None
    for cell in cells(toy.grid(tmp_path / "texts.jsonl", **made, training={"preset": "paper"})):
        run_cell(cell, PLACE)
    assert happened[6:] == ["fit", "fit"]  # that head starts at random


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

"""A kind of model that scores candidates alone, through everything that a model passes."""

import json

import numpy as np
import pytest

from tests import frequency_kind
from tests.compare import toy
from zlpr import load
from zlpr._errors import UserError
from zlpr.cli.main import main
from zlpr.compare.cell import Place, run_cell
from zlpr.compare.grid import cells
from zlpr.compare.records import LossSpec
from zlpr.metrics import TopScores, evaluate

CANDIDATES = 3


@pytest.fixture(autouse=True)
def candidates_alone(monkeypatch):
    """The frequency model, with the scores of each sample's three most frequent labels."""
    frequency_kind.register(monkeypatch)
    everything = frequency_kind.FrequencyModel.score

    def score(self, read):
        noise = np.random.default_rng(read).normal(size=(read, len(self.log_odds)))
        return TopScores.of((everything(self, read) + noise).astype(np.float32), CANDIDATES)

    monkeypatch.setattr(frequency_kind.FrequencyModel, "score", score)


def test_a_model_is_trained_saved_and_asked(tmp_path, capsys):
    data, folder = toy.write_file(tmp_path / "toy.csv", 400), tmp_path / "m"
    command = ["train", str(data), "--model", "frequency", "--out", str(folder), "--json"]
    assert main(command) == 0
    summary = json.loads(capsys.readouterr().out)
    judged = {judged["name"] for judged in summary["decision"]["judged"]}
    assert "threshold" in judged
    assert "label_sets" not in judged
    texts = ["bread and boats", "a clock"]
    assert main(["predict", str(folder), *texts, "--all-labels"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    model = load(folder)
    scores = model.predict_scores(texts)
    assert isinstance(scores, TopScores)
    assert isinstance(model.predict_proba(texts), TopScores)
    for line, labels, names in zip(lines, scores.labels, model.predict(texts), strict=True):
        assert set(line["scores"]) == {model.label_names[i] for i in labels}
        assert tuple(line["labels"]) == names
        assert set(names) <= set(line["scores"])
    explained = model.explain(texts[0])
    assert {each.label for each in explained} <= {
        model.label_names[i] for i in scores_of_one(model)
    }
    scored = {model.label_names[i] for i in scores_of_one(model)}
    absent = next(name for name in model.label_names if name not in scored)
    with pytest.raises(UserError, match="is no candidate of this sample"):
        model.explain(texts[0], absent)
    assert main(["predict", str(folder), *texts, "--all-labels", "--csv"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert all(row.count(",") == rows[0].count(",") for row in rows)
    assert rows[1].endswith(",") or ",," in rows[1]  # a label that was not scored has no figure


def scores_of_one(model):
    """Candidates of a sample that is asked about alone."""
    return model.score(1).labels[0].tolist()


def test_figures_of_candidates_are_those_of_the_metrics(tmp_path, capsys):
    data, folder = toy.write_file(tmp_path / "toy.csv", 400), tmp_path / "m"
    assert main(["train", str(data), "--model", "frequency", "--out", str(folder), "--json"]) == 0
    capsys.readouterr()
    assert main(["evaluate", str(folder), str(data), "--part", "all", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    from zlpr.data import load as read

    whole, model = read(data), load(folder)
    scores = model.score(len(whole))
    truth = whole.with_label_names(model.label_names).labels
    expected = evaluate(truth, scores.to_dense(), model.decoder(scores), empty="sklearn")
    for name, value in expected.items():
        assert found["metrics"][name] == pytest.approx(value), name


def test_a_cell_of_a_comparison_judges_candidates(tmp_path):
    path = toy.write_file(tmp_path / "toy.csv", 400)
    losses = (LossSpec("zlpr", "zlpr"),)
    grid = toy.grid(path, models=("frequency",), losses=losses, seeds=(0,), training={})
    record = run_cell(next(iter(cells(grid))), Place("test", threads=1))
    assert record.error is None
    assert record.outcome.reliability.by == "calibrator"

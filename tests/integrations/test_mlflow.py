"""A model folder goes into MLflow and comes back the same, as data alone."""

import mlflow
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import zlpr
from zlpr import UserError
from zlpr.data import Dataset, demo
from zlpr.integrations import mlflow as ours
from zlpr.metrics import TopScores
from zlpr.training import TrainingConfig, fit

TEXTS = list(demo.make(12).texts)


def test_what_is_saved_is_the_folder_and_no_code(demo_folder, tmp_path):
    ours.save_model(demo_folder, tmp_path / "saved")
    names = {path.suffix for path in (tmp_path / "saved").rglob("*") if path.is_file()}
    assert names.isdisjoint({".pkl", ".pickle", ".py", ".pt"})
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    model = zlpr.load(demo_folder)
    labels = [list(names) for names in model.predict(TEXTS)]
    table = pd.DataFrame({"text": TEXTS})
    assert loaded.predict(table)["labels"].tolist() == labels
    scores = loaded.predict(table, params={"output": "scores"})
    assert scores.columns.tolist() == list(model.label_names)
    np.testing.assert_array_equal(scores.to_numpy(), model.predict_scores(TEXTS))
    chances = loaded.predict(table, params={"output": "probabilities"})
    np.testing.assert_array_equal(chances.to_numpy(), model.predict_proba(TEXTS))


def test_what_is_predicted_lines_up_with_a_table_in_another_order(demo_folder, tmp_path):
    ours.save_model(demo_folder, tmp_path / "saved")
    loaded, model = mlflow.pyfunc.load_model(str(tmp_path / "saved")), zlpr.load(demo_folder)
    table = pd.DataFrame({"text": TEXTS}).iloc[::-2]
    table["labels"] = loaded.predict(table[["text"]])["labels"]  # pandas goes by the index
    assert list(map(tuple, table["labels"])) == model.predict(table["text"])
    scores = loaded.predict(table[["text"]], params={"output": "scores"})
    assert scores.index.equals(table.index)
    assert ours.TextModel(model).predict({"text": []})["labels"].tolist() == []


def test_a_run_logs_it_and_gives_the_model_back(demo_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run():
        logged = ours.log_model(demo_folder, "demo")
    model = ours.load_model(logged.model_uri)
    assert model.predict(TEXTS) == zlpr.load(demo_folder).predict(TEXTS)


def test_mistakes_are_one_line(demo_folder, tmp_path):
    with pytest.raises(UserError):
        ours.save_model(tmp_path, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()
    model = ours.TextModel(zlpr.load(demo_folder))
    with pytest.raises(UserError, match="no column 'text'; there are: a, b"):
        model.predict(pd.DataFrame({"a": ["x"], "b": ["y"]}))
    with pytest.raises(UserError, match="output 'sets': expected one of labels"):
        model.predict(pd.DataFrame({"text": TEXTS}), {"output": "sets"})


@pytest.mark.parametrize("cell", [None, float("nan"), 3.5, b"text"])
def test_a_cell_that_is_no_text_is_not_read_as_one(demo_folder, cell):
    model = ours.TextModel(zlpr.load(demo_folder))
    with pytest.raises(UserError, match="entry 1 is a"):
        model.predict(pd.DataFrame({"text": pd.Series(["a text", cell], dtype=object)}))


def test_labels_that_are_no_candidates_have_no_chance():
    candidates = TopScores(np.array([[2, -1]]), np.array([[0.5, -np.inf]], dtype=np.float32), 3)

    class Few:
        label_names = ("a", "b", "c")
        predict_scores = predict_proba = staticmethod(lambda texts: candidates)

    model, table = ours.TextModel(Few()), pd.DataFrame({"text": ["x"]})
    chances = model.predict(table, {"output": "probabilities"})
    assert chances.to_dict("list") == {"a": [0.0], "b": [0.0], "c": [0.5]}
    scores = model.predict(table, {"output": "scores"})
    assert scores.to_dict("list") == {"a": [-np.inf], "b": [-np.inf], "c": [0.5]}


def test_a_model_of_features_is_refused_before_anything_is_written(tmp_path):
    labels = np.arange(120).reshape(60, 2) % 3 == 0
    data = Dataset(
        labels=csr_array(labels),
        label_names=("a", "b"),
        features=np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32),
    )
    train, validation = data.select(np.arange(40)), data.select(np.arange(40, 60))
    fit(train, validation, TrainingConfig(model="mmp", epochs=1)).model.save(tmp_path / "model")
    with pytest.raises(UserError, match="this model reads features"):
        ours.save_model(tmp_path / "model", tmp_path / "saved")
    assert not (tmp_path / "saved").exists()

"""A model folder goes into MLflow and comes back the same, as data alone."""

import mlflow
import numpy as np
import pandas as pd
import pytest

import zlpr
from zlpr import UserError
from zlpr.data import demo
from zlpr.integrations import mlflow as ours

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

"""A model folder predicts inside a Ray Data set as it does outside."""

import numpy as np
import pytest
import ray

import zlpr
from zlpr import UserError
from zlpr.data import demo
from zlpr.integrations.ray import Predictor

TEXTS = list(demo.make(24).texts)


def test_batches_get_labels_scores_or_probabilities(demo_folder):
    model = zlpr.load(demo_folder)
    batch = {"text": np.array(TEXTS, dtype=object), "id": np.arange(len(TEXTS))}
    labels = Predictor(demo_folder)(batch)
    assert labels.keys() == {"text", "id", "labels"}
    assert labels["labels"].tolist() == [list(names) for names in model.predict(TEXTS)]
    scores = Predictor(demo_folder, output="scores")(batch)["scores"]
    np.testing.assert_array_equal(scores, model.predict_scores(TEXTS))
    chances = Predictor(demo_folder, output="probabilities")(batch)["probabilities"]
    np.testing.assert_array_equal(chances, model.predict_proba(TEXTS))


def test_a_ray_data_set_is_predicted_by_its_workers(demo_folder):
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        rows = ray.data.from_items([{"text": text} for text in TEXTS])
        predicted = rows.map_batches(
            Predictor, fn_constructor_args=[str(demo_folder)], batch_size=10, concurrency=1
        ).take_all()
    finally:
        ray.shutdown()
    found = {row["text"]: list(row["labels"]) for row in predicted}
    expected = zlpr.load(demo_folder).predict(TEXTS)
    assert found == {text: list(names) for text, names in zip(TEXTS, expected, strict=True)}


def test_mistakes_are_one_line(demo_folder):
    with pytest.raises(UserError, match="no column 'text'; there are: review"):
        Predictor(demo_folder)({"review": np.array(TEXTS, dtype=object)})
    with pytest.raises(UserError, match="output 'sets': expected labels"):
        Predictor(demo_folder, output="sets")

"""A model folder predicts batches of a Ray Data set as it does texts.

The workers of Ray itself run the example of `docs/guides/frameworks/ray.md`, which compares them
with the model; to start them takes longer than all of this.
"""

import numpy as np
import pytest

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


def test_mistakes_are_one_line(demo_folder):
    with pytest.raises(UserError, match="no column 'text'; there are: review"):
        Predictor(demo_folder)({"review": np.array(TEXTS, dtype=object)})
    with pytest.raises(UserError, match="output 'sets': expected labels"):
        Predictor(demo_folder, output="sets")


def test_a_column_that_is_there_is_not_replaced(demo_folder):
    batch = {"text": np.array(["money back"], dtype=object), "labels": np.array([["truth"]])}
    with pytest.raises(UserError, match="there is a column 'labels' already"):
        Predictor(demo_folder)(batch)

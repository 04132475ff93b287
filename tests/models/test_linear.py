import numpy as np
import pytest
from scipy import sparse

from tests.models import fitted
from zlpr._errors import UserError
from zlpr.data import Dataset
from zlpr.training import TrainingConfig, fit


def test_scores_are_features_times_weights_plus_bias():
    model = fitted.result().model
    texts = fitted.parts()[2].texts[:5]
    features = model.text_features.transform(texts).toarray().astype(np.float64)
    expected = features @ model.weight.astype(np.float64) + model.bias
    np.testing.assert_allclose(model.predict_scores(texts), expected, atol=1e-5)


def test_an_empty_text_gets_the_biases():
    model = fitted.result().model
    assert np.array_equal(model.predict_scores([""])[0], model.bias)


def test_labels_are_those_that_the_decoder_picks():
    model = fitted.result().model
    texts = fitted.parts()[2].texts[:20]
    chosen = model.decoder(model.predict_scores(texts))
    names = np.array(model.label_names)
    assert model.predict(texts) == [tuple(names[row]) for row in chosen]
    assert model.predict([]) == []


@pytest.mark.parametrize("wrong", ["one text", [1, 2], [b"bytes"]])
def test_a_model_of_texts_asks_for_texts(wrong):
    with pytest.raises(UserError, match="list of strings"):
        fitted.result().model.predict(wrong)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_a_model_of_features_takes_features(make):
    generator = np.random.default_rng(0)
    features = generator.normal(size=(80, 6)) * [1, 10, 100, 1, 1, 1] + 5
    labels = features[:, :2] > [5, 5]
    data = Dataset(labels=sparse.csr_array(labels), label_names=("a", "b"), features=make(features))
    model = fit(data, data, TrainingConfig()).model
    predicted = model.decoder(model.predict_scores(make(features)))
    assert (predicted == labels).mean() > 0.9
    with pytest.raises(UserError, match=r"6 features a sample, got a matrix of shape \(2, 5\)"):
        model.predict(np.zeros((2, 5)))

"""The transformer gives the features of the linear model, alone and in a pipeline."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

from zlpr.data import demo
from zlpr.integrations.sklearn import TextVectoriser
from zlpr.models import FeatureConfig, TextFeatures

DATA = demo.make(60)


def test_features_are_those_of_the_linear_model():
    vectoriser = TextVectoriser(analyzer="word", max_features=50)
    found = vectoriser.fit_transform(DATA.texts)
    features = TextFeatures(FeatureConfig(analyzer="word", max_features=50))
    expected = features.fit_transform(DATA.texts)
    assert (found != expected).nnz == 0
    assert (vectoriser.transform(DATA.texts[:5]) != expected[:5]).nnz == 0
    assert vectoriser.get_feature_names_out().tolist() == features.terms
    assert clone(vectoriser).get_params() == vectoriser.get_params()


def test_a_pipeline_learns_from_texts():
    labels = DATA.labels.toarray().astype(int)
    model = make_pipeline(TextVectoriser(), OneVsRestClassifier(LogisticRegression(C=100)))
    assert (model.fit(DATA.texts, labels).predict(DATA.texts) == labels).mean() > 0.9


def test_one_text_is_no_list_of_texts():
    with pytest.raises(ValueError, match="give a list of strings"):
        TextVectoriser().fit("a text")
    with pytest.raises(ValueError, match="give a list of strings"):
        TextVectoriser().fit(np.zeros((2, 2)))


@pytest.mark.parametrize("table", [{"text": ["a b"]}, pd.DataFrame({"text": ["a b"]}), {"a b"}, 5])
def test_a_table_is_no_row_of_texts(table):
    with pytest.raises(ValueError, match="give a list of strings"):
        TextVectoriser().fit(table)

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tests.models import fitted
from zlpr._errors import UserError
from zlpr.data import Dataset
from zlpr.models import FeatureConfig, FittedModel, TextFeatures, TrainingRecord
from zlpr.models.explanation import Contribution, spread
from zlpr.training import TrainingConfig, fit

ANALYZERS = ["word", "subword", "char", "word+subword+char"]
TEXTS = ["My İstanbul order, my ORDER!", "a  b\tc\n d", "ΟΔΟΣ ςσ ὈΔΥΣΣΕΎΣ", "标签 和 文本", ""]


def counts(features, text):
    """How often each column's n-gram stands in a text, from TF-IDF without its weights."""
    return {column: len(ngram.places) for column, ngram in features.places(text).items()}


@pytest.mark.parametrize("analyzer", ANALYZERS)
@settings(max_examples=40, deadline=None)
@given(text=st.text(alphabet="aAbBİΣς 标\t\n.\x1e", max_size=20))
def test_places_are_of_the_n_grams_that_have_features(analyzer, text):
    config = FeatureConfig(analyzer=analyzer, subword_ngrams=(1, 3), min_count=1)
    features = TextFeatures(config)
    features.fit_transform([*TEXTS, text, "ab"])
    row = features.transform([text]).toarray()[0]
    assert set(features.places(text)) == set(np.flatnonzero(row))


def test_occurrences_are_those_that_are_counted():
    from sklearn.feature_extraction.text import CountVectorizer

    texts = ["my order, my order came", "no order came to me"]
    features = TextFeatures(FeatureConfig(analyzer="word"))
    features.fit_transform(texts)
    peer = CountVectorizer(ngram_range=(1, 2)).fit(texts)
    expected = dict(
        zip(peer.get_feature_names_out(), peer.transform(texts).toarray()[0], strict=True)
    )
    found = {ngram.term: len(ngram.places) for ngram in features.places(texts[0]).values()}
    assert found == {term: count for term, count in expected.items() if count}


def test_places_are_in_the_text_as_it_was_written():
    text = "İ said: My ORDER"
    features = TextFeatures(FeatureConfig(analyzer="word", word_ngrams=(2, 2)))
    features.fit_transform([text])
    stretches = {n.term: [text[a:b] for a, b in n.places] for n in features.places(text).values()}
    assert stretches["my order"] == ["My ORDER"]


def test_contributions_and_words_add_up_to_the_score():
    model = fitted.result().model
    for text in fitted.parts()[2].texts[:10]:
        for label in model.label_names[:3]:
            (found,) = model.explain(text, label, top=5)
            score = model.predict_scores([text])[0][model.label_names.index(label)]
            assert found.score == pytest.approx(score)
            listed = sum(part.value for part in found.contributions)
            assert len(found.contributions) == 5
            assert found.bias + listed + found.rest == pytest.approx(score, abs=1e-9)
            words = sum(place.value for place in found.words)
            assert found.bias + words == pytest.approx(score, abs=1e-4)


def test_leaving_out_a_word_of_an_unscaled_model_takes_its_contribution():
    """Contributions are features times weights, whatever the scaling of rows does to the rest."""
    model = fitted.result().model
    text = fitted.parts()[2].texts[0]
    row, terms = model.text_features.transform([text]), model.text_features.terms
    number = model.label_names.index("refund")
    expected = {terms[c]: row[0, c] * model.weight[c, number] for c in row.indices}
    (found,) = model.explain(text, "refund", top=10_000)
    names = [part.part for part in found.contributions]
    assert len(names) == len(row.indices)
    for part in found.contributions:
        if terms.count(part.part) == 1:
            assert part.value == pytest.approx(expected[part.part], rel=1e-5)


def test_without_a_label_the_predicted_ones_are_explained_highest_first():
    model = fitted.result().model
    texts = fitted.parts()[2].texts[:20]
    for text, labels in zip(texts, model.predict(texts), strict=True):
        found = model.explain(text)
        if labels:
            assert {one.label for one in found} == set(labels)
            assert [one.score for one in found] == sorted([one.score for one in found])[::-1]
            assert all(one.predicted for one in found)
        else:
            best = model.label_names[int(model.predict_scores([text])[0].argmax())]
            assert [one.label for one in found] == [best]


def test_a_text_without_spaces_is_explained_by_its_letters():
    words = spread("不错不错不错不错不错不错不错不错不错不错不错", [[(0, 2)]], np.array([1.0]))
    assert [place.value for place in words[:3]] == [0.5, 0.5, 0.0]


def test_features_are_explained_by_name():
    generator = np.random.default_rng(0)
    features = generator.normal(size=(80, 3)) + 5
    labels = sparse.csr_array(features[:, :1] > 5)
    data = Dataset(labels=labels, label_names=("a",), features=features)
    model = fit(data, data, TrainingConfig()).model
    (found,) = model.explain(features[0], "a")
    assert {part.part for part in found.contributions} == {"feature 0", "feature 1", "feature 2"}
    total = found.bias + sum(part.value for part in found.contributions) + found.rest
    assert total == pytest.approx(model.predict_scores(features[:1])[0, 0], abs=1e-5)
    assert found.words == ()
    rows = sparse.csr_array(features)
    assert model.explain(rows[[0]], "a") == model.explain(rows[0], "a")  # of two axes, and of one
    (of_sparse,) = model.explain(rows[[0]], "a")
    assert of_sparse.score == pytest.approx(found.score, abs=1e-5)


def test_an_unknown_label_and_several_samples_are_refused():
    model = fitted.result().model
    with pytest.raises(UserError, match="no label 'refunds'; did you mean 'refund'"):
        model.explain("a text", "refunds")
    with pytest.raises(UserError, match="at least 0"):
        model.explain("a text", top=-1)


class CountingModel(FittedModel):
    """Scores a text by how often it says yes and no, as a network would: nothing is added up."""

    kind = "counting"

    def read(self, inputs):
        return list(inputs)

    def score(self, read):
        return np.array([[t.split().count("yes"), -t.split().count("no")] for t in read], "f4")

    def save_parts(self, folder):
        raise AssertionError

    @classmethod
    def load_parts(cls, folder, config, shared):
        raise AssertionError


def test_a_model_that_cannot_take_its_scores_apart_leaves_out_words():
    model = CountingModel(("a", "b"), record=TrainingRecord(loss="zlpr"))
    (found,) = model.explain("yes and no yes", "a", top=2)
    assert [(part.part, part.value) for part in found.contributions] == [("yes", 1), ("yes", 1)]
    assert [place.value for place in found.words] == pytest.approx([1, 0, 0, 1])
    assert found.bias == 0
    assert found.rest == 0
    assert "left out" in found.approximates
    (found,) = model.explain("yes and no yes", "b", top=1)
    assert found.contributions == (Contribution("no", -1.0),)


def test_long_texts_are_left_out_in_groups_of_words():
    model = CountingModel(("a", "b"), record=TrainingRecord(loss="zlpr"))
    (found,) = model.explain("yes " * 250, "a", top=1_000)
    assert {part.value for part in found.contributions} == {3.0, 1.0}
    assert sum(place.value for place in found.words) == pytest.approx(250)


def test_a_model_that_reads_texts_only_does_not_explain_features():
    model = CountingModel(("a", "b"), record=TrainingRecord(loss="zlpr"))
    with pytest.raises(UserError, match="explains texts"):
        model.parts(np.zeros(3), None, [0])

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer

from zlpr._errors import UserError
from zlpr.models import features as module
from zlpr.models.features import FeatureConfig, TextFeatures, guess_analyzer

WORDS = [
    "red",
    "Red",
    "blue",
    "a",
    "x1",
    "naïve",
    "ΟΔΟΣ",
    "İx",
    "你好",
    "ab_c",
    "-",
    "\t",
    "\n",
    "  ",
    "\x1e",
    "☀",
    "so🙂",
    "🇪🇸👍🏽",
]
EMOJI_TOO = r"(?u)\b\w\w+\b|[\u2600-\u27bf\U0001f1e6-\U0001faff]"
TEXTS = st.lists(
    st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), min_size=2, max_size=12
)
RUNS = ("word_ngrams", "subword_ngrams", "char_ngrams")
NGRAMS = st.sampled_from([(1, 1), (1, 2), (1, 3), (2, 2), (2, 3)])


def test_a_vocabulary_from_before_emoji_were_words_reads_as_it_did():
    ours = TextFeatures(FeatureConfig(analyzer="word", word_ngrams=(2, 2)))
    ours.fit_transform(["good day", "good 🙂 day", "bad day"])
    assert sorted(ours.terms) == ["bad day", "good day", "good 🙂", "🙂 day"]
    content = ours.to_json()
    content["views"][0] |= {"symbols": "word", "terms": ["bad day", "good day"], "counts": [1, 2]}
    before = TextFeatures.from_json(content)
    np.testing.assert_array_equal(before.transform(["good 🙂 day"]).toarray(), [[0.0, 1.0]])
    assert before.to_json() == content


def subwords(shortest, longest):
    """scikit-learn's "char_wb", but for words shorter than a run, which it counts whole."""

    def read(text):
        words = [f" {word} " for word in text.lower().split()]
        return [
            word[first : first + length]
            for word in words
            for length in range(shortest, longest + 1)
            for first in range(len(word) - length + 1)
        ]

    return read


def theirs(texts, analyzer, ngrams, min_count):
    vectorizer = TfidfVectorizer(
        sublinear_tf=True,
        analyzer=subwords(*ngrams) if analyzer == "subword" else analyzer,
        ngram_range=(1, 1) if analyzer == "subword" else ngrams,
        min_df=min_count,
        dtype=np.float32,
        token_pattern=EMOJI_TOO if analyzer == "word" else None,
    )
    return vectorizer, vectorizer.fit_transform(texts).toarray()


@given(TEXTS, TEXTS, NGRAMS, st.sampled_from(["word", "subword", "char"]), st.sampled_from([1, 2]))
@settings(max_examples=80, deadline=None)
def test_features_are_those_of_scikit_learn(texts, others, ngrams, analyzer, min_count):
    config = FeatureConfig(analyzer=analyzer, min_count=min_count, **dict.fromkeys(RUNS, ngrams))
    ours = TextFeatures(config)
    try:
        vectorizer, expected = theirs(texts, analyzer, ngrams, min_count)
    except ValueError:  # nothing is left of the vocabulary
        with pytest.raises(UserError, match="n-gram appears in"):
            ours.fit_transform(texts)
        return
    found = ours.fit_transform(texts).toarray()
    assert sorted(ours.terms) == sorted(vectorizer.vocabulary_)
    order = [vectorizer.vocabulary_[term] for term in ours.terms]
    np.testing.assert_allclose(found, expected[:, order], rtol=0, atol=2e-7)
    new = vectorizer.transform(others).toarray()[:, order]
    np.testing.assert_allclose(ours.transform(others).toarray(), new, rtol=0, atol=2e-7)


@given(
    TEXTS,
    NGRAMS,
    st.sampled_from(["word", "word+char", "word+subword"]),
    st.sampled_from([None, 3]),
)
@settings(max_examples=60, deadline=None)
def test_a_vocabulary_survives_json(texts, ngrams, analyzer, limit):
    config = FeatureConfig(
        analyzer=analyzer, min_count=1, max_features=limit, **dict.fromkeys(RUNS, ngrams)
    )
    ours = TextFeatures(config)
    try:
        found = ours.fit_transform(texts)
    except UserError:
        return
    again = TextFeatures.from_json(json.loads(json.dumps(ours.to_json())))
    assert again.terms == ours.terms
    assert (again.transform(texts) != found).nnz == 0
    assert again.num_features == found.shape[1]


def test_the_most_frequent_features_are_kept():
    features = TextFeatures(FeatureConfig(analyzer="word", word_ngrams=(1, 1), max_features=2))
    features.fit_transform(["red blue green", "red blue", "red"])
    assert sorted(features.terms) == ["blue", "red"]


def test_keys_too_large_for_one_number_are_counted_all_the_same():
    keys = np.array([2**61, 5, 2**61, 5, 7])
    owners = np.array([0, 0, 0, 1, 1])
    counted = module._count(keys, owners, 1_000)
    assert counted.keys.tolist() == [5, 7, 2**61]
    assert counted.num_texts.tolist() == [2, 1, 1]
    assert counted.occurrences.tolist() == [1, 1, 1, 2]


def test_batches_of_texts_make_no_difference(monkeypatch):
    texts = [f"text {i} of {i % 7}" for i in range(50)]
    whole = TextFeatures().fit_transform(texts)
    monkeypatch.setattr(module, "_BATCH", 3)
    assert (TextFeatures().fit_transform(texts) != whole).nnz == 0


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["快递太慢了，还不回复", "东西坏了要求退款"], "char"),
        (["the parcel is late", "a short one"], "word+subword"),
        (["", ""], "word+subword"),
        (["ร้านนี้อร่อยมาก"], "char"),
    ],
)
def test_text_without_spaces_is_read_by_characters(texts, expected):
    assert guess_analyzer(texts) == expected


def test_a_text_without_known_words_has_no_features():
    features = TextFeatures()
    features.fit_transform(["red wine", "white wine"])
    assert features.transform(["", "beer", "a"]).nnz == 0


def test_a_word_in_another_form_shares_its_subwords():
    features = TextFeatures(FeatureConfig(analyzer="subword"))
    features.fit_transform(["talossa on tilaa", "auto on pihalla"])
    assert features.transform(["talosta"]).nnz == 3  # " tal", "talo", "alos"


def test_a_text_of_ten_megabytes_is_read():
    features = TextFeatures()
    features.fit_transform(["red wine", "white wine"])
    assert features.transform(["red wine " * 1_200_000]).nnz == 3 + 5


@pytest.mark.parametrize(
    "wrong", [{"analyzer": "words"}, {"word_ngrams": (2, 1)}, {"min_count": 0}, {"max_features": 0}]
)
def test_settings_are_checked(wrong):
    with pytest.raises(UserError, match=next(iter(wrong))):
        FeatureConfig(**wrong)


@pytest.mark.parametrize("ngrams", [[1, 10_000_000], [0, 2], [3, 2], [-1, 1]])
def test_a_vocabulary_with_runs_of_any_length_is_refused(ngrams):
    features = TextFeatures(FeatureConfig(analyzer="word"))
    features.fit_transform(["one two three", "two three four"])
    held = features.to_json()
    held["views"][0]["ngrams"] = ngrams
    with pytest.raises(ValueError, match="ngrams"):
        TextFeatures.from_json(held)
    with pytest.raises(UserError, match="word_ngrams"):
        FeatureConfig(word_ngrams=tuple(ngrams))


def test_the_most_frequent_n_grams_come_first():
    features = TextFeatures(FeatureConfig(analyzer="word", word_ngrams=(1, 1)))
    features.fit_transform(["blue red", "red green", "green red"])
    assert features.terms == ["red", "green", "blue"]

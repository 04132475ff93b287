import tracemalloc
from types import SimpleNamespace

import numpy as np

from tests.models import fitted
from zlpr.decoding import Calibrator, TopK, WithAncestors
from zlpr.metrics import TopScores
from zlpr.models.answers import answer, answer_scores, by_label

TEXTS = ["I want my money back", ""]


def test_an_answer_is_what_the_model_predicts():
    model = fitted.result().model
    said = answer(model, TEXTS)
    names = [tuple(model.label_names[i] for i in one.chosen) for one in said]
    assert names == model.predict(TEXTS)
    scores = np.array([list(one.scores.values()) for one in said])
    np.testing.assert_allclose(scores, model.predict_scores(TEXTS), rtol=1e-6)
    shares = np.array([list(one.probabilities.values()) for one in said])
    np.testing.assert_allclose(shares, model.predict_proba(TEXTS), rtol=1e-5)


def test_json_has_the_chosen_labels_or_all():
    model = fitted.result().model
    (said,) = answer(model, TEXTS[:1])
    few, whole = said.to_json(model.label_names), said.to_json(model.label_names, all_labels=True)
    assert few["labels"] == whole["labels"] == list(few["scores"])
    assert list(whole["probabilities"]) == list(model.label_names)


def test_of_candidates_only_these_have_figures():
    few = TopScores(np.array([[2, 0], [1, -1]]), np.array([[3.0, 0.5], [2.0, -np.inf]]), 4)
    assert list(by_label(few)) == [{0: 0.5, 2: 3.0}, {1: 2.0}]


def test_figures_of_many_labels_take_the_room_of_their_arrays():
    scores = np.linspace(-1, 1, 200_000, dtype=np.float32).reshape(2, -1)
    tracemalloc.start()
    first, second = by_label(scores)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken < 10_000
    assert first[0] == -1.0
    assert list(second)[-1] == 99_999
    assert (99_999 in second, 100_000 in second, -1 in second) == (True, False, False)
    assert dict(second) == dict(enumerate(scores[1].tolist()))


def test_no_samples_have_no_answers():
    assert answer(fitted.result().model, []) == []


def test_scores_alone_have_the_ancestors_that_are_no_candidates():
    """As whole answers do: label 3, above label 2, was not scored, and has the score of 2."""
    few = TopScores(np.array([[2, 0]]), np.array([[3.0, 0.5]], dtype=np.float32), 4)
    model = SimpleNamespace(
        read=list,
        score=lambda read: few,
        features=lambda read: None,
        decoder=WithAncestors(TopK(1), [[], [], [3], []]),
        calibrator=Calibrator(),
    )
    assert answer_scores(model, [""])[0].scores == {0: 0.5, 2: 3.0, 3: 3.0}
    assert answer(model, [""])[0].scores == {0: 0.5, 2: 3.0, 3: 3.0}

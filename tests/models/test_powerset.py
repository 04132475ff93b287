"""Scores of labels from those of label sets."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.models import modes
from zlpr import UserError, load
from zlpr.models.powerset import SetSoftmax, mean_scores, scores_of_labels

LOGITS = np.random.default_rng(0).standard_normal((40, 6)).astype(np.float32)
SETS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 1, 1], [1, 1, 1]], dtype=bool)


def test_the_mode_cut_at_zero_is_the_most_probable_set() -> None:
    scores = scores_of_labels(LOGITS, SETS, "mode")
    assert np.array_equal(scores > 0, SETS[LOGITS.argmax(axis=1)])


def test_marginals_are_sums_over_the_sets() -> None:
    chances = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
    marginal = chances @ SETS
    expected = np.log(marginal / (1 - marginal))
    np.testing.assert_allclose(scores_of_labels(LOGITS, SETS, "marginal"), expected, rtol=1e-4)


def test_labels_of_no_set_and_of_all_sets_are_finite_and_on_their_side() -> None:
    sets = np.array([[0, 1, 0], [0, 1, 1]], dtype=bool)
    for kind in ("mode", "marginal"):
        scores = scores_of_labels(LOGITS[:, :2], sets, kind)
        assert np.isfinite(scores).all()
        assert (scores[:, 0] < 0).all()
        assert (scores[:, 1] > 0).all()


def test_several_softmaxes_share_a_label_by_their_mean() -> None:
    weight = np.zeros((1, 2), dtype=np.float32)
    sets = np.array([[0], [1]], dtype=bool)
    one, two = (
        SetSoftmax(np.array([1]), sets, weight, np.array([0.0, odds], dtype=np.float32))
        for odds in (2.0, -1.0)
    )
    scores = mean_scores([one, two], np.ones((3, 1), dtype=np.float32), "mode", 2)
    np.testing.assert_allclose(scores, [[0.0, 0.5]] * 3)


@pytest.mark.parametrize("wrong", [0, -1, 2, "1"])
def test_another_number_of_softmaxes_than_there_are_is_refused(
    tmp_path: Path, wrong: object
) -> None:
    modes.result("powerset").model.save(tmp_path / "m")
    path = tmp_path / "m" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "softmaxes": wrong}))
    with pytest.raises(UserError, match=r"softmaxes: .* and the weights are of 1"):
        load(tmp_path / "m")

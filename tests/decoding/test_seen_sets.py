import math

import numpy as np
import torch

from zlpr.decoding import _seen_sets
from zlpr.decoding._seen_sets import SeenSets
from zlpr.metrics._inputs import as_labels

ROWS = np.array([[1, 0, 1], [0, 0, 0], [1, 0, 1], [0, 1, 0], [1, 0, 0], [1, 0, 1]])


def seen(rows=ROWS):
    labels = as_labels("labels", rows)
    return SeenSets.of(labels.block(0, len(rows)))


def test_sets_are_counted_most_frequent_and_smallest_first():
    assert seen().sets == ((0, 2), (), (0,), (1,))
    assert seen().counts == (3, 1, 1, 1)
    assert seen().total == 6
    assert seen().largest == 2


def test_one_training_part_is_counted_once_and_an_equal_one_anew():
    labels = as_labels("labels", ROWS).block(0, len(ROWS))
    first = SeenSets.of(labels)
    assert SeenSets.of(labels) is first
    assert seen() is not first
    assert seen() == first


def test_frequencies_written_out():
    found = seen()
    assert found.label_counts.tolist() == [4, 1, 3]
    expected = [math.log((n + 0.5) / 7) for n in (1, 2, 3, 0)]
    np.testing.assert_allclose(found.size_log_chances, expected)
    chance = [(n + 0.5) / 7 for n in (4, 1, 3)]
    np.testing.assert_allclose(found.label_log_odds, [math.log(p / (1 - p)) for p in chance])
    pair = math.log((3 + 1) / (chance[0] * chance[2] * 6 + 1))
    never = math.log(1 / (chance[0] * chance[1] * 6 + 1))
    np.testing.assert_allclose(found.attraction[0], [0, never, pair], rtol=1e-6)
    np.testing.assert_allclose(found.set_attraction, [pair, 0, 0, 0], rtol=1e-6)


def test_sets_are_looked_up_by_their_keys():
    found = seen()
    keys = torch.stack([found.keys[list(labels)].sum() for labels in ([0, 2], [], [1, 2], [1])])
    assert found.find(keys).tolist() == [0, 1, -1, 3]
    assert found.how_often_or_never[found.find(keys)].tolist() == [3, 1, 0, 1]


def test_no_more_is_kept_than_fits(monkeypatch):
    monkeypatch.setattr(_seen_sets, "MOST_SETS", 2)
    assert seen().sets == ((0, 2), ())
    monkeypatch.setattr(_seen_sets, "MOST_CELLS", 3)
    assert seen().sets == ((0, 2),)
    monkeypatch.setattr(_seen_sets, "MOST_TABULATED", 2)
    assert seen().attraction is None

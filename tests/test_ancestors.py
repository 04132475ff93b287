import numpy as np
import pytest

from zlpr._ancestors import Ancestors, parents_first


def random_parents(labels, seed):
    """A graph without cycles whose labels have up to three parents and share ancestors."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(labels)
    parents = [[] for _ in range(labels)]
    for place in range(1, labels):
        count = min(place, int(generator.integers(0, 4)))
        above = generator.choice(order[:place], size=count, replace=False)
        parents[order[place]] = [int(label) for label in above]
    return parents


def naive(parents, label):
    """All labels that can be reached upwards."""
    found, waiting = set(), [label]
    while waiting:
        for parent in parents[waiting.pop()]:
            if parent not in found:
                found.add(parent)
                waiting.append(parent)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_ancestors_are_what_can_be_reached_upwards(seed):
    parents = random_parents(30, seed)
    above = Ancestors.of(parents)
    for label in range(30):
        own = above[label].tolist()
        assert len(own) == len(set(own))
        assert set(own) == naive(parents, label)


@pytest.mark.parametrize("seed", range(5))
def test_closed_sets_hold_all_ancestors_and_nothing_else_and_stay_closed(seed):
    parents = random_parents(20, seed)
    above = Ancestors.of(parents)
    sets = np.random.default_rng(seed).random((15, 20)) < 0.1
    closed = above.close(np.flatnonzero(sets))
    expected = {
        row * 20 + label
        for row, own in zip(*np.nonzero(sets), strict=True)
        for label in {int(own), *naive(parents, int(own))}
    }
    assert closed.tolist() == sorted(expected)
    np.testing.assert_array_equal(above.close(closed), closed)


def test_a_chain_of_ten_thousand_labels_needs_no_recursion():
    above = Ancestors.of([[], *([label] for label in range(9_999))])
    assert above[9_999].tolist() == list(range(9_998, -1, -1))
    assert len(above.close(np.array([9_999]))) == 10_000


def test_parents_come_first_and_a_cycle_is_told_from_what_stands_below_it():
    parents = random_parents(40, 7)
    order, cycle = parents_first(parents)
    place = {label: i for i, label in enumerate(order)}
    assert sorted(order) == list(range(40))
    assert not cycle
    assert all(place[p] < place[label] for label in range(40) for p in parents[label])
    order, cycle = parents_first([[1], [2], [3], [2], []])  # 2 and 3 above each other
    assert order == [4]
    assert sorted(cycle) == [2, 3]


@pytest.mark.parametrize(
    ("parents", "words"),
    [([[1], [0]], "label 0 is its own ancestor"), ([[2], []], "parent 2, but labels run from 0")],
)
def test_what_is_no_hierarchy_is_refused(parents, words):
    with pytest.raises(ValueError, match=words):
        Ancestors.of(parents)


def test_too_many_pairs_are_refused(monkeypatch):
    monkeypatch.setattr("zlpr._ancestors.MOST_PAIRS", 3)
    assert len(Ancestors.of([[], [0], [1]]).indices) == 3
    with pytest.raises(ValueError, match="more than 3 pairs"):
        Ancestors.of([[], [0], [1], [2]])


def test_no_labels_and_no_samples():
    assert Ancestors.of([]).num_labels == 0
    assert Ancestors.of([[], [0]]).close(np.zeros(0, dtype=np.int64)).tolist() == []

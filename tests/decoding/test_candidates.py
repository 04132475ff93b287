import itertools

import numpy as np
import torch

from zlpr.decoding._candidates import _most_probable, propose
from zlpr.decoding._seen_sets import SeenSets


def as_sets(candidates, row):
    """Valid candidates of a sample as tuples of labels."""
    labels = candidates.labels[row].numpy()
    return [
        tuple(sorted(labels[members.numpy() > 0].tolist()))
        for members, valid in zip(candidates.sets[row], candidates.valid[row], strict=True)
        if valid
    ]


def test_the_most_probable_sets_of_independent_labels_are_those_of_trying_all():
    logits = torch.randn(20, 8, generator=torch.Generator().manual_seed(0)).double()
    found = _most_probable(logits)
    every = torch.tensor(list(itertools.product([0, 1], repeat=8)))
    bits = (every << torch.arange(8)).sum(1)
    for row in range(20):
        order = (every.double() @ logits[row]).argsort(descending=True)
        assert set(found[row].tolist()) == set(bits[order[:16]].tolist())


def test_with_few_labels_every_set_is_a_candidate():
    assert _most_probable(torch.randn(3, 6).double()).sort().values.tolist() == 3 * [[*range(64)]]


def test_prefixes_and_seen_sets_are_proposed_once_each():
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(30, 40, generator=generator).double()
    seen = SeenSets(40, ((3,), (1, 2), (5, 20, 39)), (9, 5, 1))
    candidates = propose(scores, 2 * scores, seen)
    for row in range(30):
        found = as_sets(candidates, row)
        assert len(found) == len(set(found))
        ranked = scores[row].argsort(descending=True).tolist()
        for size in range(4):
            assert tuple(sorted(ranked[:size])) in found
        in_play = set(candidates.labels[row].tolist())
        for labels in seen.sets:
            assert (labels in found) == (set(labels) <= in_play)


def test_keys_counts_and_attractions_are_those_of_the_members():
    scores = torch.randn(5, 9, generator=torch.Generator().manual_seed(2)).double()
    seen = SeenSets(9, ((0, 4), ()), (2, 1))
    candidates = propose(scores, scores, seen)
    sums = [
        [seen.keys[candidates.labels[row][members > 0]].sum() for members in candidates.sets[row]]
        for row in range(5)
    ]
    np.testing.assert_array_equal(candidates.keys, sums)
    counts = {tuple(labels): count for labels, count in zip(seen.sets, seen.counts, strict=True)}
    for row in range(5):
        for members, count, attraction in zip(
            candidates.sets[row], candidates.counts[row], candidates.attraction[row], strict=True
        ):
            inside = sorted(candidates.labels[row][members > 0].tolist())
            pairs = sum(float(seen.attraction[i, j]) for i in inside for j in inside if i < j)
            assert count == counts.get(tuple(inside), 0)
            assert abs(attraction - pairs / max(len(inside) - 1, 1)) < 1e-9


def test_impossible_labels_are_in_no_candidate():
    scores = torch.zeros(1, 3).double()
    scores[0, 1] = -torch.inf
    seen = SeenSets(3, ((1,), (0, 1), (2,)), (5, 5, 1))
    found = as_sets(propose(scores, scores.clamp(min=-30), seen), 0)
    assert not any(1 in labels for labels in found)
    assert {(), (0,), (2,), (0, 2)} <= set(found)

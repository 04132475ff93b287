"""The search for the most probable label set of a chain."""

import itertools

import numpy as np

from zlpr.models.chain import search_sets

RANDOM = np.random.default_rng(1)
BY_FEATURES = RANDOM.standard_normal((30, 5))
BEFORE = np.triu(2 * RANDOM.standard_normal((5, 5)), 1)


def chance_of(set_: tuple[int, ...], row: int) -> float:
    """The log chance of a label set, link by link."""
    total = 0.0
    for place, value in enumerate(set_):
        odds = BY_FEATURES[row, place]
        odds += sum(BEFORE[u, place] for u in range(place) if set_[u])
        total -= np.logaddexp(0, -odds if value else odds)
    return total


def test_a_wide_beam_finds_the_most_probable_set() -> None:
    found = search_sets(BY_FEATURES, BEFORE, 32)
    for row in range(30):
        sets = list(itertools.product((0, 1), repeat=5))
        best = max(sets, key=lambda one: chance_of(one, row))
        assert tuple(found.sets[row, 0]) == best
        assert np.isclose(found.log_chances[row, 0], chance_of(best, row))
    assert np.allclose(np.exp(found.log_chances).sum(axis=1), 1)


def test_scores_cut_at_zero_are_the_set_that_was_found() -> None:
    for beam in (1, 2, 3, 32):
        found = search_sets(BY_FEATURES, BEFORE, beam)
        scores = found.scores()
        assert np.isfinite(scores).all()
        assert np.array_equal(scores > 0, found.sets[:, 0])


def test_a_beam_of_one_follows_the_links() -> None:
    found = search_sets(BY_FEATURES, BEFORE, 1)
    for row in range(30):
        taken = []
        for place in range(5):
            odds = BY_FEATURES[row, place] + sum(BEFORE[u, place] for u in taken)
            assert np.isclose(found.links[row, place], odds)
            taken += [place] if odds > 0 else []

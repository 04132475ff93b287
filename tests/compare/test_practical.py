import math

import numpy as np
import pytest

from zlpr.compare.practical import effect, on_one_set, over_sets
from zlpr.compare.statistics import paired_p_value


def seeds(*values):
    return dict(enumerate(values))


def test_without_a_rope_a_set_says_what_the_one_sided_test_says():
    a, b = seeds(0.61, 0.58, 0.63, 0.60), seeds(0.59, 0.59, 0.60, 0.58)
    found = on_one_set(a, b, 0.125, rope=0.0)
    assert found.worse == pytest.approx(paired_p_value(a, b, 0.125) / 2)
    assert found.alike == pytest.approx(0.0, abs=1e-12)
    mirrored = on_one_set(b, a, 0.125, rope=0.0)
    assert mirrored.better == pytest.approx(found.worse)


def test_one_set_agrees_with_draws_from_its_posterior():
    a, b, share, rope = seeds(0.61, 0.58, 0.63), seeds(0.60, 0.59, 0.60), 0.2, 0.01
    d = np.array([0.01, -0.01, 0.03])
    draws = np.random.default_rng(1).standard_t(2, size=200_000)
    mean = d.mean() + draws * math.sqrt(d.var(ddof=1) * (1 / 3 + share))
    found = on_one_set(a, b, share, rope=rope)
    assert found.better == pytest.approx((mean > rope).mean(), abs=0.005)
    assert found.worse == pytest.approx((mean < -rope).mean(), abs=0.005)
    assert found.worse + found.alike + found.better == pytest.approx(1.0)


def test_a_metric_that_should_be_small_is_turned_round():
    a, b = seeds(0.1, 0.12, 0.11), seeds(0.2, 0.25, 0.21)
    assert on_one_set(a, b, None, sign=-1).better > 0.9


@pytest.mark.parametrize("same", [seeds(0.5), seeds(0.5, 0.6)])
def test_nothing_is_said_where_chance_cannot_be_measured(same):
    assert on_one_set(same, same, None) is None


@pytest.mark.parametrize(("difference", "place"), [(0.03, "better"), (-0.03, "worse")])
def test_one_set_over_sets_is_a_beta_distribution(difference, place):
    """Its weight on 0 is Beta(1/2, 1), and all but the square of that is the set's own side."""
    found = over_sets([difference], draws=200_000)
    assert getattr(found, place) == pytest.approx(0.5**0.25, abs=0.004)
    assert found.alike == pytest.approx(1 - 0.5**0.25, abs=0.004)


def test_over_sets_agrees_with_the_test_written_out():
    """Sums over pairs of sets, draw by draw, as the tutorial prints them."""
    differences, rope = [0.02, -0.01, 0.004, 0.013, 0.0], 0.005
    random = np.random.default_rng(5)
    won = [0, 0, 0]
    for _ in range(4000):
        gamma = random.gamma([0.5] + [1.0] * 5)
        w, z = gamma / gamma.sum(), [0.0, *differences]
        shares = [0.0, 0.0, 0.0]
        for i in range(6):
            for j in range(6):
                total = z[i] + z[j]
                side = 2 if total > 2 * rope else 0 if total < -2 * rope else 1
                shares[side] += w[i] * w[j]
        won[shares.index(max(shares))] += 1
    found = over_sets(differences, rope=rope, draws=100_000)
    assert found.better == pytest.approx(won[2] / 4000, abs=0.03)
    assert found.worse == pytest.approx(won[0] / 4000, abs=0.03)
    mirrored = over_sets([-d for d in differences], rope=rope, draws=100_000)
    assert mirrored.worse == pytest.approx(found.better, abs=0.01)


def test_small_differences_on_many_sets_are_none_in_practice():
    found = over_sets([0.001, 0.002, 0.0015, 0.0005] * 5)
    assert found.alike > 0.999


def test_an_effect_is_told_in_points_in_deviations_and_in_ranks():
    found = effect([0.01, 0.03, -0.01, 0.05])
    values = np.array([0.01, 0.03, -0.01, 0.05])
    assert found.standardised == pytest.approx(values.mean() / values.std(ddof=1))
    # Ranks 1.5, 3, 1.5, 4: for it 8.5, against it 1.5, of 10.
    assert found.rank_biserial == pytest.approx(0.7)
    assert found.half == pytest.approx(3.182446 * values.std(ddof=1) / 2, rel=1e-6)
    assert effect([0.02]).half is None
    assert effect([0.0, 0.0]).rank_biserial == 0.0

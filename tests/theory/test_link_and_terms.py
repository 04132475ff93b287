import math

import pytest
import torch

from zlpr.theory import independent, link, negative_shares, risk_minimiser


@pytest.mark.parametrize("labels", [1, 2, 5, 9])
@pytest.mark.parametrize("probability", [0.05, 0.3, 0.7])
def test_the_link_is_the_minimiser_over_independent_labels(labels, probability):
    scores = risk_minimiser("zlpr", independent([probability] * labels))
    expected = torch.full_like(scores, link(labels, probability).score)
    torch.testing.assert_close(scores, expected, rtol=0, atol=1e-8)


def test_the_link_slides_from_one_to_two():
    slopes = [link(labels, 0.1).slope for labels in (1, 3, 10, 100, 1000, 100_000)]
    assert slopes == sorted(slopes)
    assert slopes[0] == pytest.approx(1, abs=1e-9)
    assert slopes[-1] == pytest.approx(2, abs=1e-3)


@pytest.mark.parametrize("labels", [1, 5, 100])
def test_the_slope_at_one_half_is_the_one_nearby_ones_approach(labels):
    point = link(labels, 0.5)
    assert point.score == 0
    assert point.slope == pytest.approx(link(labels, 0.499).slope, abs=1e-4)
    assert link(labels, 0.5 - 1e-15).slope == pytest.approx(point.slope, abs=1e-6)


def test_of_one_label_the_slope_is_one_however_rare_it_is():
    for probability in (1e-300, 1e-20, 1e-5, 1 - 1e-15):
        point = link(1, probability)
        assert point.slope == pytest.approx(1)
        assert point.score == pytest.approx(math.log(probability) - math.log1p(-probability))


@pytest.mark.parametrize(
    ("labels", "probability", "message"),
    [
        (10, 0.0, "probability is 0.0"),
        (10, 1.0, "probability is 1.0"),
        (10, 1.2, "probability is 1.2"),
        (10, math.nan, "probability is nan"),
        (0, 0.3, "labels is 0"),
        (2.5, 0.3, "labels is 2.5"),
    ],
)
def test_the_link_of_what_is_no_probability_is_refused(labels, probability, message):
    with pytest.raises(ValueError, match=message):
        link(labels, probability)


def test_the_shares_at_zero_scores_are_those_of_the_formulas():
    bce, zlpr = negative_shares(98, positives=2)
    assert bce.of_loss == pytest.approx(0.98)
    assert bce.of_gradient == pytest.approx(0.98)
    assert zlpr.of_loss == pytest.approx(math.log(99) / (math.log(99) + math.log(3)))
    assert zlpr.of_gradient == pytest.approx((98 / 99) / (98 / 99 + 2 / 3))
    assert zlpr.on_positive == pytest.approx(1 / 3)

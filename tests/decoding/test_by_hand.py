import pytest

from zlpr._errors import UserError
from zlpr.decoding import Calibrator, ProbabilityFloor, Threshold, TopK, ZeroBound, by_hand


def test_what_is_not_asked_for_stays():
    rule, calibrator = TopK(3), Calibrator(1.0)
    assert by_hand(rule, calibrator) is rule
    assert by_hand(rule, calibrator, threshold=0.5) == Threshold(0.5)
    assert by_hand(rule, calibrator, top=1) == TopK(1)
    floored = by_hand(rule, calibrator, min_probability=0.2)
    assert floored == ProbabilityFloor(rule, calibrator, 0.2)
    assert by_hand(floored, calibrator) is floored
    assert by_hand(floored, calibrator, top=1) == TopK(1)
    assert by_hand(floored, calibrator, threshold=0.5) == Threshold(0.5)
    both = by_hand(floored, calibrator, top=1, min_probability=0.3)
    assert both == ProbabilityFloor(TopK(1), calibrator, 0.3)
    assert by_hand(floored, calibrator, min_probability=0.3).min_probability == 0.3
    assert by_hand(floored, calibrator, min_probability=0.0) is rule


def test_what_contradicts_itself_is_refused():
    with pytest.raises(UserError, match="not both"):
        by_hand(ZeroBound(), Calibrator(), threshold=1.0, top=1)


@pytest.mark.parametrize("threshold", [1e39, -1e39, float("inf"), float("nan")])
def test_a_threshold_that_no_score_can_be_is_refused(threshold):
    with pytest.raises(UserError, match="expected a number that a score can be"):
        by_hand(ZeroBound(), Calibrator(), threshold=threshold)

"""Decisions that a user takes over from what was fitted."""

import numpy as np

from zlpr._counted import counted
from zlpr._errors import UserError
from zlpr.decoding._rule import Rule
from zlpr.decoding.floor import ProbabilityFloor
from zlpr.decoding.probabilities import Probabilities
from zlpr.decoding.threshold import Threshold
from zlpr.decoding.top_k import TopK
from zlpr.decoding.with_ancestors import bare, like

__all__ = ["by_hand"]

LARGEST_SCORE = float(np.finfo(np.float32).max)


def by_hand(
    rule: Rule,
    calibrator: Probabilities,
    *,
    threshold: float | None = None,
    top: int | None = None,
    min_probability: float | None = None,
    num_labels: int | None = None,
) -> Rule:
    """A rule with what a user asks for in its place: a threshold, a number of labels, a floor.

    Args:
        rule: as it was fitted.
        calibrator: makes the probabilities that the floor is held against.
        threshold: predict the labels with a score above it, whatever was fitted; the floor of a
            rule that has one goes with it.
        top: predict so many labels for every sample, in place of a rule and its floor, too.
        min_probability: leave out labels below it; replaces the floor of a rule that has one, and 0
            takes it away.
        num_labels: how many labels of a sample have a score, where it is known, so that no more
            are asked for.

    Returns:
        The rule itself where nothing is asked for. Where the rule adds ancestors, so does this, at
        the end: to the labels above a threshold, to the top ones, and to those above a floor.

    Examples:
        >>> from zlpr.decoding import Calibrator, ZeroBound
        >>> by_hand(ZeroBound(), Calibrator(), top=3)
        TopK(k=3)
    """
    if threshold is not None and top is not None:
        raise UserError("give a threshold or a number of top labels, not both")
    given, rule = rule, bare(rule)
    if threshold is not None:
        if not abs(threshold) <= LARGEST_SCORE:
            raise UserError(f"threshold {threshold}: expected a number that a score can be")
        rule = Threshold(threshold)
    if top is not None:
        if top < 1:
            raise UserError(f"top {top}: expected at least 1")
        if num_labels is not None and top > num_labels:
            raise UserError(
                f"top {top}: there are scores of no more than {counted(num_labels, 'label')}"
            )
        rule = TopK(top)
    if min_probability is not None:
        rule = rule.rule if isinstance(rule, ProbabilityFloor) else rule
        rule = ProbabilityFloor(rule, calibrator, min_probability) if min_probability else rule
    return like(given, rule)

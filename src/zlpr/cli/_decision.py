"""Flags by which a user decides instead of a model's fitted rule."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zlpr.models import FittedModel


def add_decision_arguments(parser: argparse.ArgumentParser) -> None:
    """A threshold, a number of labels, a floor; `zlpr train` has them among its settings."""
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="T",
        help="predict the labels with a score above T, instead of by the model's own rule",
    )
    parser.add_argument(
        "--top",
        type=int,
        metavar="K",
        help="predict K labels for every sample, instead of by the model's own rule",
    )
    parser.add_argument(
        "--min-probability",
        type=float,
        metavar="P",
        help="never predict a label with a probability below P, unless another label that is "
        "predicted stands below it; 0 lifts the limit that the model was trained with",
    )


def decide_by_hand(model: "FittedModel", args: argparse.Namespace) -> None:
    """Put what the flags ask for in the place of the model's own rule."""
    from zlpr.decoding import by_hand

    model.decoder = by_hand(
        model.decoder,
        model.calibrator,
        threshold=args.threshold,
        top=args.top,
        min_probability=args.min_probability,
        num_labels=model.num_scored,
    )

"""`zlpr evaluate`: a trained model's figures on labelled data, and the labels it does worst on."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zlpr._errors import UserError
from zlpr.cli._console import print_json, print_table
from zlpr.cli._figures import figure_rows
from zlpr.cli._reading import add_reading_arguments, load_data

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from zlpr.data import Dataset
    from zlpr.metrics.classification import LabelReport
    from zlpr.models import FittedModel

EXAMPLE = "zlpr evaluate reviews-model reviews.csv --plot reviews.png"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the data and what to show."""
    parser.add_argument("model", metavar="DIR", help="a folder that 'zlpr train' wrote")
    parser.add_argument("data", metavar="DATA", help="a file, a folder of parts, or 'demo'")
    parser.add_argument(
        "--part",
        choices=("train", "validation", "test", "all"),
        help="which part of data that has a split (default test); without one, all samples",
    )
    parser.add_argument(
        "--zero-bound", action="store_true", help="cut scores at 0, as the paper does"
    )
    parser.add_argument(
        "--unknown-labels",
        choices=("error", "drop"),
        default="error",
        help="what to do with labels that the model does not know (default error)",
    )
    parser.add_argument(
        "--worst", type=int, default=10, metavar="N", help="how many of the worst labels to list"
    )
    parser.add_argument("--plot", metavar="FILE", help="draw reliability and F1 per label (PNG, SVG)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    add_reading_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Read, predict, measure."""
    from zlpr import load

    model = load(args.model)
    data = _part(_read(model, args), args.part)
    scores = model.predict_scores(data.inputs)
    evaluation = _Evaluation.of(model, data, scores, zero_bound=args.zero_bound)
    if args.plot:
        from zlpr.cli._plots import plot_evaluation

        plot_evaluation(evaluation.curve, evaluation.report, data.label_names, Path(args.plot))
    if args.json:
        print_json(evaluation.to_json())
    else:
        evaluation.print(args.worst)
        if args.plot:
            print(f"\nfigures drawn in {args.plot}")

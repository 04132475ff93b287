"""`zlpr export`: a model folder as one ONNX file."""

import argparse
from pathlib import Path

from zlpr._escape import for_terminal
from zlpr.cli._console import say
from zlpr.cli._decision import add_decision_arguments, decide_by_hand
from zlpr.cli._progress import progress
from zlpr.cli._reading import columns_of

EXAMPLE = "zlpr export reviews-model --out reviews.onnx"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, the file and what the file reads."""
    parser.add_argument("model", metavar="DIR", help="a folder that 'zlpr train' wrote")
    parser.add_argument("--out", metavar="FILE.onnx", required=True, help="the file to write")
    parser.add_argument("--overwrite", action="store_true", help="replace a file that is there")
    parser.add_argument(
        "--sparse",
        action=argparse.BooleanOptionalAction,
        help="read features by their columns ('indices' and 'values'), or (--no-sparse) as a "
        "number for each; by default the former for texts and the latter for given features",
    )
    add_decision_arguments(parser)


def run(args: argparse.Namespace) -> None:
    """Load, export, say what the file holds."""
    import onnx  # noqa: F401 - a missing package is said before anything is loaded

    from zlpr import load
    from zlpr.models.folder import check_not_of_model
    from zlpr.serving.export import describe, export

    target = Path(args.out)
    check_not_of_model(target, Path(args.model))
    model = load(args.model)
    columns = columns_of(model)
    decide_by_hand(model, args)
    with progress(f"exporting {args.model}"):
        export(model, args.out, overwrite=args.overwrite, sparse=args.sparse)
    say(f"wrote {for_terminal(str(target))}: {describe(model)}")
    if columns is None or columns.num_features is None:
        say(f'try it: python -m zlpr.serving.onnx {for_terminal(str(target))} "a text"')

"""`zlpr losses`: the losses and what each can do."""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from zlpr.cli._console import print_json, print_table, say

if TYPE_CHECKING:
    from zlpr.losses import LossInfo

EXAMPLE = "zlpr losses --json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(args: argparse.Namespace) -> None:
    """Print the table."""
    from zlpr.losses import available, info

    losses = [info(name) for name in available()]
    if args.json:
        print_json([describe(loss) for loss in losses])
        return
    headers = ["name", "labels", "over", "convex", "smooth", "needs", "paper", "summary"]
    print_table(headers, [_row(loss) for loss in losses], last_folds=True)
    say()
    say("labels: where predicted; 'by rank' losses need a threshold or a count chosen afterwards")
    say("use one as zlpr.losses.create(NAME)(scores, targets), or zlpr train DATA --loss NAME")


def describe(loss: "LossInfo") -> dict[str, Any]:
    """What `--json` prints of a loss, with its options and their defaults."""
    import inspect

    details = asdict(loss)
    parameters = inspect.signature(loss.module).parameters
    details["function"] = f"zlpr.losses.{loss.function.__name__}"
    details["module"] = f"zlpr.losses.{getattr(loss.module, '__name__', loss.module)}"
    details["parameters"] = {
        name: None
        if parameter.default is inspect.Parameter.empty
        else _json_default(parameter.default)
        for name, parameter in parameters.items()
    }
    return details


def _row(loss: "LossInfo") -> list[str]:
    return [
        loss.name,
        "by rank" if loss.bound is None else f"above {loss.bound:g}",
        "batch" if loss.over_batch else "sample",
        _mark(loss.convex),
        _mark(loss.smooth),
        "label counts" if loss.needs_label_counts else "",
        _mark(loss.in_paper),
        loss.summary,
    ]


def _mark(holds: bool) -> str:
    return "yes" if holds else ""


def _json_default(value: object) -> object:
    return value if isinstance(value, bool | int | float | str) else None

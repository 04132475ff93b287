"""`zlpr losses`: the losses and what each can do."""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from zlpr.cli._console import print_json, print_table, say, say_sentence

if TYPE_CHECKING:
    from zlpr.losses import LossInfo

EXAMPLE = "zlpr losses --json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    """Print the table."""
    from zlpr.losses import available, info

    losses = [info(name) for name in available()]
    if args.json:
        print_json([describe(loss) for loss in losses])
        return
    for title, in_paper in (("Losses of the paper", True), ("Other losses", False)):
        rows = [_row(loss) for loss in losses if loss.in_paper == in_paper]
        print_table(["loss", "decides", "properties", "what it is"], rows, title=title)
        say()
    say_sentence(
        "decides: whether it predicts the labels with a score above 0, or only ranks them, so that "
        "a threshold or a number of labels is chosen afterwards. batch: looks at all samples of a "
        "batch together. counts: needs to know how many training samples each label has."
    )
    say()
    say("to train with one:   zlpr train DATA --out DIR --loss NAME")
    say("to use one:          zlpr.losses.create(NAME)(scores, targets)")


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
    properties = {
        "convex": loss.convex,
        "smooth": loss.smooth,
        "batch": loss.over_batch,
        "counts": loss.needs_label_counts,
    }
    return [
        loss.name,
        "by rank" if loss.bound is None else f"above {loss.bound:g}",
        ", ".join(name for name, holds in properties.items() if holds) or "-",
        loss.summary,
    ]


def _json_default(value: object) -> object:
    return value if isinstance(value, bool | int | float | str) else None

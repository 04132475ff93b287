"""`zlpr models`: the kinds of models, what each reads and what it needs."""

import argparse

from zlpr.cli._console import print_json, print_table

EXAMPLE = "zlpr models"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Only the form of the answer."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> None:
    """List the registry."""
    from zlpr.models import registry

    kinds = [registry.info(name) for name in registry.available()]
    if args.json:
        print_json(
            [
                {
                    "model": kind.usage,
                    "reads": list(kind.reads),
                    "needs": list(kind.needs),
                    "help": kind.help,
                }
                for kind in kinds
            ]
        )
        return
    print_table(
        ["--model", "reads", "needs", "what it is"],
        [
            [kind.usage, " or ".join(kind.reads), f"zlpr[{','.join(kind.needs)}]", kind.help]
            for kind in kinds
        ],
    )

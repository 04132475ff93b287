"""`zlpr`: find the command, parse its arguments, run it, and turn mistakes into one clear line.

A command is a module of this room with three names:

- `EXAMPLE`: a command line that `--help` shows;
- `add_arguments(parser)`: its arguments; imports nothing heavy, so that `--help` is instant;
- `run(args)`: the work, importing what it needs; returns an exit code or None for 0.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from zlpr import __version__
from zlpr._errors import UserError
from zlpr.cli._flags import in_flags


class CommandModule(Protocol):
    """What a command's file must hold."""

    EXAMPLE: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int | None]


@dataclass(frozen=True)
class Command:
    """Where a command lives and the line that `zlpr --help` shows for it."""

    module: str
    summary: str


COMMANDS = {
    "train": Command("zlpr.cli.train", "train a model on data and write its folder"),
    "predict": Command("zlpr.cli.predict", "predict the labels of texts with a trained model"),
    "evaluate": Command("zlpr.cli.evaluate", "measure a trained model on labelled data"),
    "compare": Command("zlpr.cli.compare", "compare losses on data: train a grid, write a report"),
    "report": Command("zlpr.cli.report", "make the report of a comparison from its run records"),
    "data": Command("zlpr.cli.data", "list, describe, prepare, download and split data sets"),
    "models": Command("zlpr.cli.models", "list the kinds of models and what each needs"),
    "losses": Command("zlpr.cli.losses", "list the losses and what each can do"),
    "theory": Command("zlpr.cli.theory", "run the argument behind the loss: tables and figures"),
}

# The extra that brings a package, for the line that a missing one gets.
EXTRA_OF = {
    "accelerate": "text",
    "datasets": "data",
    "jinja2": "report",
    "lxml": "data",
    "matplotlib": "report",
    "pooch": "data",
    "pyarrow": "data",
    "ray": "ray",
    "rich": "text",
    "safetensors": "text",
    "scikit_posthocs": "report",
    "scipy": "text",
    "sklearn": "text",
    "tqdm": "data",
    "transformers": "text",
}


def overview() -> str:
    """The text of `zlpr --help`."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: zlpr COMMAND [ARGUMENTS]",
            "",
            "Multi-label classification around the ZLPR loss.",
            "",
            "commands:",
            *lines,
            "",
            "zlpr COMMAND --help shows a command's arguments and an example;",
            "zlpr --version shows the version.",
        ]
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 wrong input."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        print(overview())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"zlpr {__version__}")
        return 0
    name = arguments[0]
    if name not in COMMANDS:
        return _fail(f"no command '{name}'; the commands are {', '.join(COMMANDS)}")
    try:
        return run_command(name, arguments[1:])
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in EXTRA_OF:
            raise
        return _fail(
            f'zlpr {name} needs the package {package}: pip install "zlpr[{EXTRA_OF[package]}]"'
        )
    except UserError as mistake:
        return _fail(in_flags(str(mistake)), mistake)
    except BrokenPipeError:  # the reader of our output left, as in `zlpr predict … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as trouble:
        return _fail(_describe(trouble), trouble, code=1)
    except KeyboardInterrupt:
        print("zlpr: interrupted", file=sys.stderr)
        return 130


def run_command(name: str, arguments: Sequence[str]) -> int:
    """Parse the arguments of one command and run it."""
    command = COMMANDS[name]
    module = cast("CommandModule", importlib.import_module(command.module))
    parser = argparse.ArgumentParser(
        prog=f"zlpr {name}",
        description=command.summary[0].upper() + command.summary[1:] + ".",
        epilog=f"example:\n  {module.EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    return module.run(parser.parse_args(arguments)) or 0


def _describe(trouble: OSError) -> str:
    where = f"{trouble.filename}: " if trouble.filename else ""
    return f"{where}{trouble.strerror or trouble}"


def _fail(message: str, cause: BaseException | None = None, *, code: int = 2) -> int:
    """Print one line; the traceback only where ZLPR_DEBUG asks for it."""
    if cause is not None and os.environ.get("ZLPR_DEBUG"):
        raise cause
    print(f"zlpr: error: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    raise SystemExit(main())

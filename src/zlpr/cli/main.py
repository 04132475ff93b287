"""`zlpr`: find the command, parse its arguments, run it, and turn mistakes into one clear line.

A command is a module of this room with three names:

- `EXAMPLE`: a command line that `--help` shows;
- `add_arguments(parser)`: its arguments; imports nothing heavy, so that `--help` is instant;
- `run(args)`: the work, importing what it needs; returns an exit code or None for 0;
- `INTERMIXED = True`, where values without a flag may stand after flags too.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from zlpr import __version__
from zlpr._errors import UserError
from zlpr._escape import for_terminal
from zlpr._names import unknown
from zlpr.cli._console import say, standard_streams
from zlpr.cli._flags import in_flags

READER_LEFT = 141
"""The exit code where the reader of the output left early: 128 + SIGPIPE, as shells report it."""


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
    "explain": Command(
        "zlpr.cli.explain", "show what the words of a text add to its labels' scores"
    ),
    "export": Command("zlpr.cli.export", "write a trained model as one ONNX file"),
    "evaluate": Command("zlpr.cli.evaluate", "measure a trained model on labelled data"),
    "serve": Command("zlpr.cli.serve", "serve models over HTTP, with a page to look at them"),
    "compare": Command("zlpr.cli.compare", "compare losses on data: train a grid, write a report"),
    "report": Command("zlpr.cli.report", "make the report of a comparison from its run records"),
    "data": Command("zlpr.cli.data", "list, describe, prepare, download and split data sets"),
    "cache": Command(
        "zlpr.cli.cache", "show the embeddings that are kept on the disk, or remove them"
    ),
    "models": Command("zlpr.cli.models", "list the kinds of models and what each needs"),
    "losses": Command("zlpr.cli.losses", "list the losses and what each can do"),
    "theory": Command("zlpr.cli.theory", "run the argument behind the loss: tables and figures"),
}

# The extra that brings a package, for the line that a missing one gets.
EXTRA_OF = {
    "accelerate": "text",
    "datasets": "data",
    "fastapi": "serve",
    "jinja2": "report",
    "lxml": "data",
    "matplotlib": "report",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "onnxscript": "onnx",
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
    "uvicorn": "serve",
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
    """Run one command and return its exit code.

    0 done, 1 failed, 2 wrong input, 130 interrupted, 141 the reader of the output left early: a
    command that writes files has finished them then, one that only prints has stopped.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    with standard_streams() as output_trouble:
        code = _run(arguments)
        trouble = output_trouble()
        if code == 0 and trouble is not None:
            return _fail_to_write(trouble)
        return code


def _run(arguments: list[str]) -> int:
    """Run one command; what goes wrong becomes one line and an exit code."""
    name = arguments[0] if arguments else ""
    try:
        return _dispatch(arguments)
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        if package not in EXTRA_OF:
            raise
        return _fail(
            f'zlpr {name} needs the package {package}: pip install "zlpr[{EXTRA_OF[package]}]"'
        )
    except UnicodeEncodeError as trouble:
        return _fail(_describe_encoding(trouble), trouble, code=1)
    except UserError as mistake:
        return _fail(in_flags(str(mistake)), mistake)
    except OSError as trouble:
        return _fail_to_write(trouble)
    except KeyboardInterrupt:
        say("zlpr: interrupted", error=True)
        return 130


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        say(overview())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        say(f"zlpr {__version__}")
        return 0
    if arguments[0] not in COMMANDS:
        raise unknown("command", arguments[0], COMMANDS)
    return run_command(arguments[0], arguments[1:])


class Parser(argparse.ArgumentParser):
    """A parser whose messages repeat what was typed without obeying it."""

    def _print_message(self, message: str, file: Any = None) -> None:
        super()._print_message(for_terminal(message, keep="\n"), file)


def run_command(name: str, arguments: Sequence[str]) -> int:
    """Parse the arguments of one command and run it."""
    command = COMMANDS[name]
    module = cast("CommandModule", importlib.import_module(command.module))
    parser = Parser(
        prog=f"zlpr {name}",
        description=command.summary[0].upper() + command.summary[1:] + ".",
        epilog=f"example:\n  {module.EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    intermixed = getattr(module, "INTERMIXED", False)
    parse = parser.parse_intermixed_args if intermixed else parser.parse_args
    return module.run(parse(arguments)) or 0


def _fail_to_write(trouble: OSError) -> int:
    """Name the file; a reader that left is told nothing, for it asked for no more."""
    if isinstance(trouble, BrokenPipeError):
        return READER_LEFT
    where = f"{trouble.filename}: " if trouble.filename else ""
    return _fail(f"{where}{trouble.strerror or trouble}", trouble, code=1)


def _describe_encoding(trouble: UnicodeEncodeError) -> str:
    lacking = trouble.object[trouble.start]
    return (
        f"the output's encoding, {trouble.encoding}, has no {lacking!r}: write to a file with "
        "--out where the command has it, or set PYTHONIOENCODING=utf-8"
    )


def _fail(message: str, cause: BaseException | None = None, *, code: int = 2) -> int:
    """Print one line; the traceback only where ZLPR_DEBUG asks for it."""
    if cause is not None and os.environ.get("ZLPR_DEBUG"):
        raise cause
    say(f"zlpr: error: {for_terminal(message)}", error=True)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
